/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/syscall-name.h: names by number, and by the function's
 * name where there is no table
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "symbolize/syscall-name.h"
#include "trace-samples.h"

/* A piece of sideband that was found at a time */
struct piece {
    uint16_t kind;
    uint16_t kernel;
    uint64_t time;
    const char *text;
};

static struct btrail_names *with_pieces(const struct piece *pieces, size_t n)
{
    char *path = sample_path();
    struct btrail_writer *w;
    struct btrail_trace *trace;
    struct btrail_names *names;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    for (size_t i = 0; i < n; i++) {
        const struct btrail_sideband_info info = {
            .kind = pieces[i].kind, .kernel = pieces[i].kernel,
            .size = strlen(pieces[i].text), .time = pieces[i].time,
        };

        g_assert_cmpint(btrail_writer_sideband(w, &info, pieces[i].text), ==,
                        0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, trace), ==, 0);
    btrail_trace_close(trace);
    sample_remove(path);
    return names;
}

static struct btrail_names *with_table(const char *text)
{
    const struct piece piece = { BTRAIL_SIDEBAND_SYSCALLS, 0, 100, text };

    return with_pieces(&piece, 1);
}

static void test_number(void)
{
    g_autofree char *text = g_strdup_printf(
        "64 %d 1000\n64 0 2000\n64 99999 3000\n64 5000 4000\n64 5001 4000\n"
        "32 20 5000\n", SYS_getppid);
    struct btrail_names *names = with_table(text);

    /* Its function has another name at the same address. */
    g_assert_cmpstr(syscall_name(names, 0, 1, 0x1000, "__do_sys_getppid"), ==,
                    "getppid");
    g_assert_cmpstr(syscall_name(names, 0, 1, 0x2000, "__x64_sys_read"), ==,
                    "read");
    /* One that is newer than what this was built with */
    g_assert_cmpstr(syscall_name(names, 0, 1, 0x3000, "__x64_sys_new"), ==,
                    "new");
    g_assert_cmpstr(syscall_name(names, 0, 1, 0x3000, "new"), ==, "new");
    g_assert_cmpstr(syscall_name(names, 0, 1, 0x4000, "__x64_sys_ni_syscall"),
                    ==, "ni_syscall");
    g_assert_cmpstr(syscall_name(names, 0, 1, 0x5000, "x"), ==, "getpid");
    g_assert_null(syscall_name(names, 0, 1, 0x2001, "ksys_read"));
    btrail_names_close(names);
}

static void test_no_table(void)
{
    struct btrail_names *names = with_table("");

    g_assert_cmpstr(syscall_name(names, 0, 1, 1, "__x64_sys_read"), ==, "read");
    g_assert_cmpstr(syscall_name(NULL, 0, 1, 1, "__ia32_sys_getpid"), ==,
                    "getpid");
    g_assert_cmpstr(syscall_name(NULL, 0, 1, 1, "__ia32_compat_sys_open"), ==,
                    "open");
    g_assert_null(syscall_name(names, 0, 1, 1, "__do_sys_getppid"));
    g_assert_null(syscall_name(NULL, 0, 1, 1, "vfs_read"));
    btrail_names_close(names);
}

/* Two kernels, as with kdump: the same address, and other numbers there */
static void test_kernels(void)
{
    static const char symbols[] = "ffffffff81000000 T x\n";
    g_autofree char *first = g_strdup_printf("64 %d ffffffff81000000\n",
                                             SYS_read);
    g_autofree char *second = g_strdup_printf("64 %d ffffffff81000000\n",
                                              SYS_write);
    const struct piece pieces[] = {
        { BTRAIL_SIDEBAND_SYMBOLS, 1, 100, symbols },
        { BTRAIL_SIDEBAND_SYSCALLS, 1, 100, first },
        { BTRAIL_SIDEBAND_SYMBOLS, 2, 200, symbols },
        { BTRAIL_SIDEBAND_SYSCALLS, 2, 200, second },
        /* Both say the same, and neither is a copy of the other. */
        { BTRAIL_SIDEBAND_SYSCALLS, 3, 300, second },
        { BTRAIL_SIDEBAND_SYSCALLS, 4, 300, second },
    };
    struct btrail_names *names = with_pieces(pieces, G_N_ELEMENTS(pieces));
    const uint64_t at = 0xffffffff81000000;

    /* One that waits for the other's end still runs. */
    g_assert_cmpstr(syscall_name(names, 1, 250, at, "x"), ==, "read");
    g_assert_cmpstr(syscall_name(names, 2, 150, at, "x"), ==, "write");
    /* Nothing says which one runs. */
    g_assert_cmpstr(syscall_name(names, 0, 1, at, "x"), ==, "read");
    g_assert_cmpstr(syscall_name(names, 0, 199, at, "x"), ==, "read");
    g_assert_cmpstr(syscall_name(names, 0, 200, at, "x"), ==, "write");
    /* Of these no symbols were found, so none of them is one that runs. */
    g_assert_cmpstr(syscall_name(names, 3, 300, at, "x"), ==, "write");
    g_assert_cmpstr(syscall_name(names, 4, 300, at, "x"), ==, "write");
    g_assert_cmpstr(syscall_name(names, 0, 300, at, "x"), ==, "write");
    g_assert_null(syscall_name(names, 5, 300, at, "x"));
    g_assert_null(syscall_name(names, UINT32_MAX, 300, at, "x"));
    btrail_names_close(names);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/syscall-name/number", test_number);
    g_test_add_func("/syscall-name/kernels", test_kernels);
    g_test_add_func("/syscall-name/no-table", test_no_table);
    return g_test_run();
}
