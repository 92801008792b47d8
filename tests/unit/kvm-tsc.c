/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What KVM makes of the host's TSC: trees of files like those of Linux 6.12
 * (arch/x86/kvm/debugfs.c), and arithmetic against what is known
 */

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pt/kvm-tsc.h"
#include "scratch.h"
#include "util/agent-error.h"

#define THREAD  4321
#define VM      "sys/kernel/debug/kvm/4300-11/"
#define RATIO   "281474976710656"       /* 2^48 */

static char *root;

static void put(const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(root, name, NULL);
    g_autofree char *folder = g_path_get_dirname(path);

    g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
    if (!text) {
        g_unlink(path);
        return;
    }
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void put_vcpu(unsigned i, const char *offset, const char *ratio,
                     const char *pid)
{
    g_autofree char *folder = g_strdup_printf(VM "vcpu%u", i);
    const char *const files[][2] = {
        { "tsc-offset", offset }, { "tsc-scaling-ratio", ratio },
        { "tsc-scaling-ratio-frac-bits", ratio ? "48\n" : NULL },
        { "pid", pid }, { "guest_mode", "0\n" },
    };

    for (unsigned f = 0; f < G_N_ELEMENTS(files); f++) {
        g_autofree char *name = g_build_filename(folder, files[f][0], NULL);

        put(name, files[f][1]);
    }
}

static void put_process(void)
{
    put("proc/4321/status", "Name:\tCPU 0/KVM\nUmask:\t0022\nState:\tS "
        "(sleeping)\nTgid:\t4300\nNgid:\t0\nPid:\t4321\n");
}

static void check(uint64_t offset, uint64_t ratio, unsigned fraction)
{
    struct kvm_tsc tsc;
    g_autoptr(GError) error = NULL;

    g_assert_true(kvm_tsc_read(root, THREAD, &tsc, &error));
    g_assert_no_error(error);
    g_assert_cmphex(tsc.offset, ==, offset);
    g_assert_cmphex(tsc.ratio, ==, ratio);
    g_assert_cmpuint(tsc.fraction, ==, fraction);
}

static void check_fails(const char *text)
{
    struct kvm_tsc tsc;
    g_autoptr(GError) error = NULL;

    g_assert_false(kvm_tsc_read(root, THREAD, &tsc, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    if (!strstr(error->message, text)) {
        g_error("'%s' has no '%s'", error->message, text);
    }
}

static void test_read(void)
{
    root = scratch_new();
    check_fails("no thread 4321");
    put_process();
    check_fails("root only");
    put("sys/kernel/debug/kvm/exits", "7\n");
    check_fails("no guest of this process");
    /* Another process's, whose number begins with the same */
    put("sys/kernel/debug/kvm/43000-11/vcpu0/tsc-offset", "-5\n");
    check_fails("no guest of this process");
    put_vcpu(0, "-1000\n", NULL, NULL);
    check(-UINT64_C(1000), 1, 0);
    put_vcpu(0, "-1000\n", RATIO, NULL);
    check(-UINT64_C(1000), UINT64_C(1) << 48, 48);
    put_vcpu(1, "-1000\n", RATIO, NULL);
    check(-UINT64_C(1000), UINT64_C(1) << 48, 48);
    /* Kernels before 6.0 do not say whose they are. */
    put_vcpu(1, "-999\n", RATIO, NULL);
    check_fails("differ");
    put_vcpu(0, "-1000\n", RATIO, "4320\n");
    put_vcpu(1, "-999\n", RATIO, "4321\n");
    check(-UINT64_C(999), UINT64_C(1) << 48, 48);
    put_vcpu(0, "-1000\n", RATIO, "4321\n");
    put_vcpu(1, "-999\n", RATIO, "4322\n");
    check(-UINT64_C(1000), UINT64_C(1) << 48, 48);
    put_vcpu(0, "123456789012\n", RATIO, "4321\n");
    check(UINT64_C(123456789012), UINT64_C(1) << 48, 48);
    scratch_remove(root);
}

/* What KVM does not write */
static void test_nonsense(void)
{
    static const char *const offsets[] = {
        "", "\n", "-\n", "--1\n", "+1\n", "1 2\n", "x\n",
        "-99999999999999999999\n", NULL,
    };
    static const char *const ratios[] = { "0\n", "\n", "-\n", "1x\n" };

    root = scratch_new();
    put_process();
    for (unsigned i = 0; i < G_N_ELEMENTS(offsets); i++) {
        put_vcpu(0, offsets[i], RATIO, "4321\n");
        check_fails("as it is known");
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(ratios); i++) {
        put_vcpu(0, "5\n", ratios[i], "4321\n");
        check_fails("as it is known");
    }
    put_vcpu(0, "5\n", RATIO, NULL);
    put(VM "vcpu0/tsc-scaling-ratio-frac-bits", "64\n");
    check_fails("as it is known");
    put(VM "vcpu0/tsc-scaling-ratio-frac-bits", NULL);
    check_fails("as it is known");
    put("proc/4321/status", "Name:\tTgid:\t7\n");
    check_fails("no thread");
    put("proc/4321/status", "Name:\tx\nTgid:\t4300x\n");
    check_fails("no thread");
    scratch_remove(root);
}

static void test_at(void)
{
    const struct kvm_tsc plain = { -UINT64_C(1000), 1, 0 };
    /* A guest of 3 GHz on a host of 2 */
    const struct kvm_tsc scaled = { 7, UINT64_C(3) << 47, 48 };
    const struct kvm_tsc most = { 0, UINT64_MAX, 1 };

    g_assert_cmpuint(kvm_tsc_at(&plain, 5000), ==, 4000);
    g_assert_cmpuint(kvm_tsc_at(&plain, 500), ==, -UINT64_C(500));
    g_assert_cmpuint(kvm_tsc_hz(&plain, 5000), ==, 5000);
    g_assert_cmpuint(kvm_tsc_at(&scaled, UINT64_C(1) << 50), ==,
                     (UINT64_C(3) << 49) + 7);
    g_assert_cmpuint(kvm_tsc_hz(&scaled, UINT64_C(2000000000)), ==,
                     UINT64_C(3000000000));
    g_assert_cmpuint(kvm_tsc_hz(&most, 4), ==, 0);
    g_assert_true(kvm_tsc_equal(&plain, &plain));
    g_assert_false(kvm_tsc_equal(&plain, &scaled));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kvm-tsc/read", test_read);
    g_test_add_func("/kvm-tsc/nonsense", test_nonsense);
    g_test_add_func("/kvm-tsc/at", test_at);
    return g_test_run();
}
