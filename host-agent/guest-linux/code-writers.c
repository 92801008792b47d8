/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions with which a kernel writes code: see code-writers.h
 */

#include <string.h>

#include "guest-linux/code-writers.h"
#include "guest-linux/own-symbols.h"
#include "guest-linux/symbol-lines.h"

/* A kernel's code has no more, nor does any of these functions. */
#define TEXT_MAX        (UINT64_C(64) << 20)
#define FUNCTION_MAX    (UINT64_C(64) << 10)

/*
 * Names from Linux 5.10 to 7.3; those with '*' can go on in any way.  No kernel
 * has all: some are inlined in others here, and some came later.
 */
static const char *const names[] = {
    /* Modules, and all memory that is executed */
    "__do_sys_delete_module", "__ia32_sys_delete_module",
    "__x64_sys_delete_module", "do_free_init", "do_init_module",
    "execmem_cache_free", "execmem_free", "free_mod_mem", "free_module",
    "load_module", "module_memfree",
    /* eBPF */
    "__arch_prepare_bpf_trampoline", "arch_free_bpf_trampoline",
    "arch_prepare_bpf_dispatcher", "arch_prepare_bpf_trampoline",
    "bpf_arch_text_*", "bpf_dispatcher_change_prog", "bpf_dispatcher_update",
    "bpf_int_jit_compile", "bpf_jit_binary_free",
    "bpf_jit_binary_pack_finalize", "bpf_jit_binary_pack_free",
    "bpf_jit_free", "bpf_jit_free_exec", "bpf_prog_pack_free",
    "bpf_trampoline_update",
    /* Places that kprobes and the tracing of functions jump to */
    "__free_insn_slot", "__get_insn_slot", "arch_ftrace_trampoline_free",
    "arch_ftrace_update_trampoline", "arch_prepare_optimized_kprobe",
    "arch_remove_optimized_kprobe", "collect_garbage_slots",
    /* All that is written where code can be executed already */
    "__text_poke", "smp_text_poke*", "text_poke*",
    /* Another kernel */
    "machine_kexec",
};

bool linux_is_code_writer(const char *name)
{
    size_t n = strcspn(name, ".");

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        size_t length = strlen(names[i]);

        if (names[i][length - 1] == '*' ?
            n >= length - 1 && !memcmp(name, names[i], length - 1) :
            n == length && !memcmp(name, names[i], length)) {
            return true;
        }
    }
    return false;
}

struct linux_writer {
    uint64_t start, end;
};

/* Symbols are in the order of their addresses, except in hostile guests, where
 * a function has any end below FUNCTION_MAX. */
static GArray *find(const struct kallsyms *k, uint64_t image,
                    uint64_t image_end)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct linux_writer));
    uint32_t n = kallsyms_count(k);
    guint open = 0;             /* from here on they end at the next symbol */

    for (uint32_t i = 0; i < n; i++) {
        const char *name;
        uint64_t address;
        char type;

        kallsyms_get(k, i, &address, &type, &name);
        while (open < all->len) {
            struct linux_writer *f = &g_array_index(all, struct linux_writer,
                                                    open);

            if (address <= f->start) {
                break;
            }
            f->end = MIN(f->end, address);
            open++;
        }
        if (address >= image && address < image_end && linux_is_code(type) &&
            linux_is_code_writer(name)) {
            const struct linux_writer f = { address, address + FUNCTION_MAX };

            g_array_append_val(all, f);
        }
    }
    return all;
}

struct linux_code_writers *linux_code_writers_new(const struct linux_kernel *k)
{
    struct linux_code_writers *w;
    uint64_t image, image_end, start = UINT64_MAX, end = 0;
    g_autoptr(GArray) all = NULL;

    if (!linux_image(k, &image, &image_end) || !(image >> 63) ||
        image_end - image > 2 * TEXT_MAX) {
        return NULL;
    }
    all = find(k->symbols, image, image_end);
    for (guint i = 0; i < all->len; i++) {
        const struct linux_writer *f = &g_array_index(
            all, struct linux_writer, i);

        start = MIN(start, f->start & -(uint64_t)LINUX_WRITERS_STEP);
        end = MAX(end, f->end);
    }
    if (!all->len || end <= start) {
        return NULL;
    }
    w = g_new0(struct linux_code_writers, 1);
    w->start = start;
    w->steps = (end - start + LINUX_WRITERS_STEP - 1) / LINUX_WRITERS_STEP;
    w->bits = g_malloc0(w->steps / 8 + 1);
    w->count = all->len;
    w->image = image;
    w->image_end = image_end;
    for (guint i = 0; i < all->len; i++) {
        const struct linux_writer *f = &g_array_index(
            all, struct linux_writer, i);

        for (uint64_t a = f->start; a < f->end; a += LINUX_WRITERS_STEP) {
            uint64_t step = (a - start) / LINUX_WRITERS_STEP;

            w->bits[step / 8] |= 1 << step % 8;
        }
    }
    return w;
}

void linux_code_writers_free(struct linux_code_writers *w)
{
    if (w) {
        g_free(w->bits);
        g_free(w);
    }
}
