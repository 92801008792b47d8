/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that a fake guest's kernel lists: guest-linux/code-lists.h
 */

#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/code-lists.h"

#define BPF \
    "ffffffffc0100000 t bpf_prog_1\t[bpf]\n" \
    "ffffffffc0100100 t bpf_prog_2\t[bpf]\n" \
    "ffffffffc0100120 e .end\t[bpf]\n"
#define FTRACE \
    "ffffffffc0101000 t ftrace_trampoline\t[__builtin__ftrace]\n" \
    "ffffffffc0101123 e .end\t[__builtin__ftrace]\n"
#define KPROBES \
    "ffffffffc0102000 t kprobe_insn_page\t[__builtin__kprobes]\n" \
    "ffffffffc0103000 e .end\t[__builtin__kprobes]\n"

struct fixture {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
};

static void begin(struct fixture *x)
{
    x->k = fake_linux_begin(&x->f, 0, &x->m);
}

static void end(struct fixture *x)
{
    fake_linux_end(&x->f, x->m, x->k);
}

static void require(struct fixture *x, const char *want)
{
    g_autoptr(GString) text = g_string_new(NULL);

    linux_kernel_begin(x->k);
    g_assert_true(linux_code_lists_symbols(x->k, text));
    g_assert_cmpstr(text->str, ==, want);
}

static uint64_t hash(struct fixture *x)
{
    uint64_t h = 1;

    linux_kernel_begin(x->k);
    g_assert_true(linux_code_lists_hash(x->k, &h));
    return h;
}

static void test_names(void)
{
    const struct linux_layout *l;
    struct fixture x;

    begin(&x);
    l = &x.f.layout;
    require(&x, FTRACE BPF KPROBES);
    /* The first slot of an optimized kprobe */
    fake_linux_put64(&x.f, x.f.kprobes, l->slots_pages,
                     x.f.kprobes + l->slots_pages);
    fake_linux_put64(&x.f, x.f.kprobes, l->slots_pages + 8,
                     x.f.kprobes + l->slots_pages);
    fake_linux_put64(&x.f, x.f.optprobes, l->slots_pages,
                     x.f.slots + l->slots_page_node);
    fake_linux_put64(&x.f, x.f.optprobes, l->slots_pages + 8,
                     x.f.slots + l->slots_page_node);
    fake_linux_put64(&x.f, x.f.slots, l->slots_page_node,
                     x.f.optprobes + l->slots_pages);
    fake_linux_put64(&x.f, x.f.slots, l->slots_page_node + 8,
                     x.f.optprobes + l->slots_pages);
    require(&x, FTRACE BPF
            "ffffffffc0102000 t kprobe_optinsn_page\t[__builtin__kprobes]\n"
            "ffffffffc0103000 e .end\t[__builtin__kprobes]\n");
    end(&x);
}

static void test_absent(void)
{
    struct fixture x;

    begin(&x);
    x.k->bpf = 0;
    require(&x, FTRACE KPROBES);
    x.k->layout.ftrace_size = LINUX_NONE;
    require(&x, KPROBES);
    x.k->layout.slots_page_node = LINUX_NONE;
    require(&x, "");
    hash(&x);
    end(&x);
}

static void test_hash(void)
{
    const struct linux_layout *l;
    struct fixture x;
    uint64_t before;

    begin(&x);
    l = &x.f.layout;
    before = hash(&x);
    g_assert_cmphex(hash(&x), ==, before);
    fake_linux_at(&x.f, x.f.bpf[0] + l->bpf_name)[9] = '7';
    g_assert_cmphex(hash(&x), !=, before);
    fake_linux_at(&x.f, x.f.bpf[0] + l->bpf_name)[9] = '1';
    g_assert_cmphex(hash(&x), ==, before);
    fake_linux_put64(&x.f, x.f.bpf[1], l->bpf_end, FAKE_BPF + 0x121);
    g_assert_cmphex(hash(&x), !=, before);
    fake_linux_put64(&x.f, x.f.bpf[1], l->bpf_end, FAKE_BPF + 0x120);
    fake_linux_put64(&x.f, x.f.ftrace, l->ftrace_start, 0);
    g_assert_cmphex(hash(&x), !=, before);
    fake_linux_put64(&x.f, x.f.ftrace, l->ftrace_start, FAKE_BPF + 0x1000);
    g_assert_cmphex(hash(&x), ==, before);
    /* A program is taken out. */
    fake_linux_put64(&x.f, x.f.bpf_list, 0, x.f.bpf[1] + l->bpf_node);
    fake_linux_put64(&x.f, x.f.bpf[1], l->bpf_node + 8, x.f.bpf_list);
    g_assert_cmphex(hash(&x), !=, before);
    end(&x);
}

static void test_damage(void)
{
    g_autoptr(GString) text = g_string_new(NULL);
    const struct linux_layout *l;
    struct fixture x;
    uint64_t h = 1;

    begin(&x);
    l = &x.f.layout;
    /* Ends before it begins, is of the user's half, is too large */
    fake_linux_put64(&x.f, x.f.bpf[0], l->bpf_end, FAKE_BPF - 1);
    fake_linux_put64(&x.f, x.f.bpf[1], l->bpf_start, 0x1000);
    fake_linux_put64(&x.f, x.f.bpf[1], l->bpf_end, 0x2000);
    fake_linux_put64(&x.f, x.f.ftrace, l->ftrace_size, UINT64_MAX);
    require(&x, KPROBES);
    fake_linux_put64(&x.f, x.f.bpf[0], l->bpf_end, FAKE_BPF + 0x100);
    fake_linux_at(&x.f, x.f.bpf[0] + l->bpf_name)[0] = '\n';
    require(&x, KPROBES);
    fake_linux_at(&x.f, x.f.bpf[0] + l->bpf_name)[0] = 'b';
    /* It is being taken out: the next one points back to the one before. */
    fake_linux_put64(&x.f, x.f.bpf[1], l->bpf_node + 8, x.f.bpf_list);
    g_assert_false(linux_code_lists_hash(x.k, &h));
    g_assert_false(linux_code_lists_symbols(x.k, text));
    /* A list that does not end */
    fake_linux_put64(&x.f, x.f.bpf[1], l->bpf_node, x.f.bpf[1] + l->bpf_node);
    fake_linux_put64(&x.f, x.f.bpf[1], l->bpf_node + 8,
                     x.f.bpf[1] + l->bpf_node);
    fake_linux_put64(&x.f, x.f.bpf_list, 0, x.f.bpf[1] + l->bpf_node);
    g_assert_false(linux_code_lists_hash(x.k, &h));
    end(&x);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/code-lists/names", test_names);
    g_test_add_func("/code-lists/absent", test_absent);
    g_test_add_func("/code-lists/hash", test_hash);
    g_test_add_func("/code-lists/damage", test_damage);
    return g_test_run();
}
