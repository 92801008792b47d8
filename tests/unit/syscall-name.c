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

static struct btrail_names *with_table(const char *text)
{
    char *path = sample_path();
    struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYSCALLS, .size = strlen(text), .time = 100,
    };
    struct btrail_writer *w;
    struct btrail_trace *trace;
    struct btrail_names *names;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    g_assert_cmpint(btrail_writer_sideband(w, &info, text), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, trace), ==, 0);
    btrail_trace_close(trace);
    sample_remove(path);
    return names;
}

static void test_number(void)
{
    g_autofree char *text = g_strdup_printf(
        "64 %d 1000\n64 0 2000\n64 99999 3000\n64 5000 4000\n64 5001 4000\n"
        "32 20 5000\n", SYS_getppid);
    struct btrail_names *names = with_table(text);

    /* Its function has another name at the same address. */
    g_assert_cmpstr(syscall_name(names, 1, 0x1000, "__do_sys_getppid"), ==,
                    "getppid");
    g_assert_cmpstr(syscall_name(names, 1, 0x2000, "__x64_sys_read"), ==,
                    "read");
    /* One that is newer than what this was built with */
    g_assert_cmpstr(syscall_name(names, 1, 0x3000, "__x64_sys_new"), ==,
                    "new");
    g_assert_cmpstr(syscall_name(names, 1, 0x3000, "new"), ==, "new");
    g_assert_cmpstr(syscall_name(names, 1, 0x4000, "__x64_sys_ni_syscall"),
                    ==, "ni_syscall");
    g_assert_cmpstr(syscall_name(names, 1, 0x5000, "x"), ==, "getpid");
    g_assert_null(syscall_name(names, 1, 0x2001, "ksys_read"));
    btrail_names_close(names);
}

static void test_no_table(void)
{
    struct btrail_names *names = with_table("");

    g_assert_cmpstr(syscall_name(names, 1, 1, "__x64_sys_read"), ==, "read");
    g_assert_cmpstr(syscall_name(NULL, 1, 1, "__ia32_sys_getpid"), ==,
                    "getpid");
    g_assert_cmpstr(syscall_name(NULL, 1, 1, "__ia32_compat_sys_open"), ==,
                    "open");
    g_assert_null(syscall_name(names, 1, 1, "__do_sys_getppid"));
    g_assert_null(syscall_name(NULL, 1, 1, "vfs_read"));
    btrail_names_close(names);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/syscall-name/number", test_number);
    g_test_add_func("/syscall-name/no-table", test_no_table);
    return g_test_run();
}
