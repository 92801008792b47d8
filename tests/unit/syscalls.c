/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/syscalls.h: the table of a fake guest's kernel
 */
#include <glib.h>

#include "fake-linux.h"
#include "guest-linux/syscalls.h"

static void check(struct linux_kernel *k, const char *wanted)
{
    GString *text;

    linux_kernel_begin(k);
    text = linux_syscalls(k);
    g_assert_cmpstr(text->str, ==, wanted);
    g_string_free(text, TRUE);
}

static void test_table(void)
{
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, 0, &m);

    check(k, "64 0 ffffffff81000000\n64 1 ffffffff81000010\n"
             "64 2 ffffffff81000020\n64 3 ffffffff81000020\n");
    /* It ends where something else begins. */
    fake_linux_put64(&f, f.syscalls, 8, 0x1234);
    check(k, "64 0 ffffffff81000000\n");
    fake_linux_put64(&f, f.syscalls, 0, FAKE_STEXT + GUEST_PAGE_SIZE);
    check(k, "");
    fake_linux_end(&f, m, k);
}

/* In a kernel of 32 bits the table has as many of its own. */
static void test_table_32(void)
{
    static const unsigned flags[] = { FAKE_32, FAKE_32 | FAKE_PAE };

    for (unsigned i = 0; i < G_N_ELEMENTS(flags); i++) {
        struct guest_memory *m;
        struct fake_linux f;
        struct linux_kernel *k = fake_linux_begin(&f, flags[i], &m);

        check(k, "32 0 c0000000\n32 1 c0000010\n32 2 c0000020\n");
        fake_linux_end(&f, m, k);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/syscalls/table", test_table);
    g_test_add_func("/syscalls/table-32", test_table_32);
    return g_test_run();
}
