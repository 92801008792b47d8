/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that the kernel lists: see code-lists.h
 *
 * The names are those that its get_kallsym functions give: bpf_get_kallsym(),
 * ftrace_get_trampoline_kallsym(), kprobe_cache_get_kallsym().
 */

#include "guest-linux/code-lists.h"
#include "guest-linux/list.h"
#include "guest-linux/symbol-lines.h"
#include "util/hash.h"

#define ITEMS_MAX   65536               /* of a list */
#define SIZE_MAX_OF (64u << 20)         /* of an item */
#define NAME_SIZE   1024

/* A list, and what is read of it at the moment */
struct list {
    uint64_t head;
    uint32_t node;
    const char *module;
    const char *name;           /* of each, or NULL: they have their own */
    linux_list_fn *visit;

    GString *text;              /* NULL if only the hash is wanted */
    GArray *codes;
    uint64_t *hash;
};

static void found(struct list *list, uint64_t start, uint64_t size,
                  const char *name)
{
    struct linux_code code = { .start = start, .end = start + size };

    if (start < LINUX_KERNEL_HALF || !size || size > SIZE_MAX_OF ||
        code.end < start || !linux_is_name(name)) {
        return;
    }
    if (list->text) {
        linux_symbol_line(list->text, start, 't', name, list->module);
        g_array_append_val(list->codes, code);
    } else {
        *list->hash = btrail_hash(btrail_hash(*list->hash ^ start) ^ size ^
                                  btrail_str_hash(name));
    }
}

static void visit_bpf(struct linux_kernel *k, uint64_t at, void *opaque)
{
    const struct linux_layout *l = &k->layout;
    uint64_t start, end;
    char name[NAME_SIZE + 1];

    if (linux_u64(k, at, l->bpf_start, &start) &&
        linux_u64(k, at, l->bpf_end, &end) &&
        linux_string(k, at + l->bpf_name, name,
                     MIN(l->bpf_name_size, NAME_SIZE) + 1)) {
        found(opaque, start, end - start, name);
    }
}

static void visit_ftrace(struct linux_kernel *k, uint64_t at, void *opaque)
{
    const struct linux_layout *l = &k->layout;
    struct list *list = opaque;
    uint64_t start, size;

    if (linux_u64(k, at, l->ftrace_start, &start) &&
        linux_u64(k, at, l->ftrace_size, &size)) {
        found(list, start, size, list->name);
    }
}

static void visit_slots(struct linux_kernel *k, uint64_t at, void *opaque)
{
    struct list *list = opaque;
    uint64_t start;

    if (linux_u64(k, at, k->layout.slots_page_start, &start)) {
        found(list, start, GUEST_PAGE_SIZE, list->name);
    }
}

static bool read_lists(struct linux_kernel *k, GString *text, uint64_t *hash)
{
    const struct linux_layout *l = &k->layout;
    bool slots = l->slots_pages != LINUX_NONE &&
                 l->slots_page_start != LINUX_NONE;
    bool bpf = l->bpf_start != LINUX_NONE && l->bpf_end != LINUX_NONE &&
               l->bpf_name != LINUX_NONE;
    /* In the order of /proc/kallsyms */
    struct list lists[] = {
        { l->ftrace_start != LINUX_NONE && l->ftrace_size != LINUX_NONE ?
          k->ftrace : 0, l->ftrace_node, "__builtin__ftrace",
          "ftrace_trampoline", visit_ftrace },
        { bpf ? k->bpf : 0, l->bpf_node, "bpf", NULL, visit_bpf },
        { slots && k->kprobes ? k->kprobes + l->slots_pages : 0,
          l->slots_page_node, "__builtin__kprobes", "kprobe_insn_page",
          visit_slots },
        { slots && k->optprobes ? k->optprobes + l->slots_pages : 0,
          l->slots_page_node, "__builtin__kprobes", "kprobe_optinsn_page",
          visit_slots },
    };
    bool whole = true;

    for (unsigned i = 0; i < G_N_ELEMENTS(lists); i++) {
        struct list *list = &lists[i];

        if (!list->head || list->node == LINUX_NONE) {
            continue;
        }
        list->text = text;
        list->hash = hash;
        list->codes = g_array_new(FALSE, FALSE, sizeof(struct linux_code));
        whole &= linux_list(k, list->head, list->node, ITEMS_MAX, list->visit,
                            list);
        if (text) {
            linux_end_lines(text, list->codes, 1, list->module);
        }
        g_array_unref(list->codes);
    }
    return whole;
}

bool linux_code_lists_symbols(struct linux_kernel *k, GString *text)
{
    return read_lists(k, text, NULL);
}

bool linux_code_lists_hash(struct linux_kernel *k, uint64_t *hash)
{
    return read_lists(k, NULL, hash);
}
