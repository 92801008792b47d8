/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test what a host says of Intel PT: trees of files like those of Linux 6.12
 * (arch/x86/events/intel/pt.c)
 */

#include <glib/gstdio.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pt/pt-host.h"
#include "scratch.h"

#define PMU         "sys/bus/event_source/devices/intel_pt/"
#define PARAMETERS  "sys/module/kvm_intel/parameters/"
#define KERNEL      "proc/sys/kernel/"
#define FLAGS       "fpu vme pdpe1gb rdtscp intel_pt avx512"

static char *root;

static void put(const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(root, name, NULL);
    g_autofree char *folder = g_path_get_dirname(path);
    FILE *file;

    g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
    if (!text) {
        g_unlink(path);
        return;
    }
    file = fopen(path, "w");
    g_assert_nonnull(file);
    fputs(text, file);
    g_assert_cmpint(fclose(file), ==, 0);
}

static void put_cpu(const char *vendor, unsigned family, unsigned model,
                    const char *flags)
{
    g_autofree char *text = g_strdup_printf(
        "processor\t: 0\nvendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\n"
        "model name\t: A CPU @ 2.00GHz\nstepping\t: 4\nflags\t\t: %s\n"
        "bugs\t\t: spectre_v1\n\n"
        "processor\t: 1\nvendor_id\t: Other\ncpu family\t: 1\nmodel\t\t: 1\n\n",
        vendor, family, model, flags);

    put("proc/cpuinfo", text);
}

/* A Skylake of a desktop: 06_5EH, as its CPUID is known */
static void put_host(void)
{
    static const char *const files[][2] = {
        { PMU "type", "8\n" },
        { PMU "nr_addr_filters", "2\n" },
        { PMU "max_nonturbo_ratio", "34\n" },
        { PMU "tsc_art_ratio", "284:2\n" },
        { PMU "caps/psb_cyc", "1\n" }, { PMU "caps/mtc", "1\n" },
        { PMU "caps/payloads_lip", "0\n" }, { PMU "caps/topa_output", "1\n" },
        { PMU "caps/psb_periods", "3f\n" },
        { PMU "caps/mtc_periods", "249\n" },
        { PMU "caps/cycle_thresholds", "3fff\n" },
        { PMU "format/pt", "config:0\n" }, { PMU "format/cyc", "config:1\n" },
        { PMU "format/mtc", "config:9\n" }, { PMU "format/tsc", "config:10\n" },
        { PMU "format/noretcomp", "config:11\n" },
        { PMU "format/branch", "config:13\n" },
        { PMU "format/mtc_period", "config:14-17\n" },
        { PMU "format/cyc_thresh", "config:19-22\n" },
        { PMU "format/psb_period", "config:24-27\n" },
        { KERNEL "perf_event_paranoid", "1\n" },
        { KERNEL "perf_event_mlock_kb", "516\n" },
        { PARAMETERS "pt_mode", NULL },
        { PARAMETERS "enable_mediated_pmu", NULL },
        { "sys/bus/event_source/devices/cpu_atom/type", NULL },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(files); i++) {
        put(files[i][0], files[i][1]);
    }
    put_cpu("GenuineIntel", 6, 0x5e, FLAGS);
}

static const struct pt_host_word *word(const struct pt_host *h,
                                       const char *about)
{
    const struct pt_host_word *found = NULL;

    for (unsigned i = 0; i < h->words->len; i++) {
        const struct pt_host_word *w = h->words->pdata[i];

        if (!strcmp(w->about, about)) {
            g_assert_null(found);
            found = w;
        }
    }
    return found;
}

/* What the host says of something has @text in it; NULL: nothing */
static void check(const char *about, bool blocks, const char *text)
{
    struct pt_host *h = pt_host_read(root);
    const struct pt_host_word *w = word(h, about);

    if (text) {
        g_assert_nonnull(w);
        g_test_message("%s: %s", about, w->text);
        g_assert_nonnull(strstr(w->text, text));
        g_assert_cmpint(w->blocks, ==, blocks);
        g_assert_cmpint(!!pt_host_fault(h), ==, blocks);
    } else {
        g_assert_cmpstr(w ? w->text : NULL, ==, NULL);
    }
    pt_host_free(h);
}

static void test_all(void)
{
    struct pt_host *h;
    g_autofree char *words = NULL;

    put_host();
    h = pt_host_read(root);
    g_assert_true(h->there);
    g_assert_null(pt_host_fault(h));
    g_assert_cmpuint(h->type, ==, 8);
    g_assert_cmpuint(h->filters, ==, 2);
    g_assert_cmpuint(h->bus_ratio, ==, 34);
    g_assert_cmpuint(h->tsc_per_ctc[0], ==, 284);
    g_assert_cmpuint(h->tsc_per_ctc[1], ==, 2);
    g_assert_cmphex(h->psb_periods, ==, 0x3f);
    g_assert_cmphex(h->mtc_periods, ==, 0x249);
    g_assert_cmphex(h->cycle_thresholds, ==, 0x3fff);
    g_assert_true(h->psb_cyc && h->mtc && !h->linear && !h->mediated);
    g_assert_cmpuint(h->format[PT_HOST_PT].low, ==, 0);
    g_assert_cmpuint(h->format[PT_HOST_PT].n, ==, 1);
    g_assert_cmpuint(h->format[PT_HOST_PSB_PERIOD].low, ==, 24);
    g_assert_cmpuint(h->format[PT_HOST_PSB_PERIOD].n, ==, 4);
    g_assert_cmpstr(h->cpu, ==, "GenuineIntel");
    g_assert_cmpuint(h->family, ==, 6);
    g_assert_cmpuint(h->model, ==, 0x5e);
    g_assert_cmpint(h->paranoid, ==, 1);
    g_assert_cmpuint(h->locked, ==,
                     516 * 1024 * (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    words = pt_host_words(h);
    g_assert_cmpstr(words, ==, "branches, times, a choice of PSB periods, "
                    "MTC, cycles, 2 address filters");
    pt_host_free(h);
    check("pt-time", false, NULL);
    check("pt-rights", false, NULL);
    check("pt-kvm", false, NULL);
    check("pt-cores", false, NULL);
    check("pt-memory", false, "CAP_IPC_LOCK");
}

static void test_none(void)
{
    struct pt_host *h;

    put_host();
    put(PMU "type", NULL);
    check("pt", true, "CONFIG_CPU_SUP_INTEL");
    put_cpu("GenuineIntel", 6, 0x5e, "fpu vmx intel_ptx");
    check("pt", true, "hides it");
    put_cpu("AuthenticAMD", 25, 1, "fpu svm");
    check("pt", true, "one of AMD");
    put_cpu("HygonGenuine", 24, 1, "fpu svm");
    check("pt", true, "another maker");
    h = pt_host_read(root);
    /* One sentence is enough. */
    g_assert_cmpuint(h->words->len, ==, 1);
    g_assert_false(h->there || h->mtc || h->psb_cyc);
    pt_host_free(h);
    put("proc/cpuinfo", NULL);
    check("pt", true, "cannot be read");
    put("proc/cpuinfo", "");
    check("pt", true, "cannot be read");
}

/* Those that libipt lists, and their neighbours */
static void test_skz84(void)
{
    static const struct {
        unsigned family, model;
        bool has;
    } cpus[] = {
        { 6, 0x55, true }, { 6, 0x6a, true }, { 6, 0x6c, true },
        { 6, 0x8f, true }, { 6, 0xcf, true }, { 6, 0xad, true },
        { 6, 0xae, true }, { 19, 1, true }, { 6, 0x54, false },
        { 6, 0x4e, false }, { 6, 0xb7, false }, { 6, 0x155, false },
        { 6, 1, false }, { 19, 0x55, false }, { 15, 0x55, false },
    };

    put_host();
    for (unsigned i = 0; i < G_N_ELEMENTS(cpus); i++) {
        struct pt_host *h;

        put_cpu("GenuineIntel", cpus[i].family, cpus[i].model, FLAGS);
        check("pt-time", false, cpus[i].has ? "SKZ84" : NULL);
        h = pt_host_read(root);
        g_assert_cmpint(h->mtc, ==, !cpus[i].has);
        g_assert_cmphex(h->mtc_periods, ==, 0x249);
        pt_host_free(h);
    }
    /* A CPU that is not known could be one of them. */
    put("proc/cpuinfo", "nothing\n");
    check("pt-time", false, "not known");
    put_cpu("GenuineIntel", 6, 0x4f, FLAGS);
    put(PMU "caps/mtc", "0\n");
    check("pt-time", false, "no MTC");
}

static void test_kvm(void)
{
    struct pt_host *h;

    put_host();
    put(PARAMETERS "pt_mode", "0\n");
    check("pt-kvm", false, NULL);
    put(PARAMETERS "pt_mode", "1\n");
    check("pt-kvm", true, "pt_mode=1");
    put(PARAMETERS "pt_mode", NULL);
    put(PARAMETERS "enable_mediated_pmu", "N\n");
    check("pt-kvm", false, NULL);
    put(PARAMETERS "enable_mediated_pmu", "Y\n");
    check("pt-kvm", false, "enable_mediated_pmu");
    h = pt_host_read(root);
    g_assert_true(h->mediated);
    pt_host_free(h);
    put_cpu("GenuineIntel", 6, 0x4f, FLAGS);
    check("pt-kvm", false, "Broadwell");
    put("sys/bus/event_source/devices/cpu_atom/type", "10\n");
    check("pt-cores", false, "two kinds");
}

static void test_rights(void)
{
    static const struct {
        const char *text;
        int level;
        const char *says;
    } levels[] = {
        { "-1\n", -1, NULL }, { "0\n", 0, NULL }, { "1\n", 1, NULL },
        { "2\n", 2, "CAP_PERFMON" }, { "3\n", 3, "CAP_SYS_ADMIN" },
        { "4\n", 4, "CAP_SYS_ADMIN" }, { "", INT_MAX, "not known" },
        { "-\n", INT_MAX, "not known" }, { "--1\n", INT_MAX, "not known" },
        { "99999999999\n", INT_MAX, "not known" }, { "2x", INT_MAX, "cannot" },
        { NULL, INT_MAX, "cannot" },
    };

    put_host();
    for (unsigned i = 0; i < G_N_ELEMENTS(levels); i++) {
        struct pt_host *h;

        put(KERNEL "perf_event_paranoid", levels[i].text);
        check("pt-rights", false, levels[i].says);
        h = pt_host_read(root);
        g_assert_cmpint(h->paranoid, ==, levels[i].level);
        pt_host_free(h);
    }
    put(KERNEL "perf_event_paranoid", "-1\n");
    check("pt-memory", false, NULL);
    put(KERNEL "perf_event_mlock_kb", "x\n");
    check("pt-memory", false, "not known");
}

/* A driver of another kernel: config is not guessed. */
static void test_format(void)
{
    static const char *const bad[] = {
        "", "config1:0", "config:", "config:-1", "config:64", "config:4-3",
        "config:0-63", "config:1,5", "config:1-", "config:99999999999999999999",
        "event=1",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct pt_host *h;

        put_host();
        put(PMU "format/branch", bad[i]);
        put(PMU "format/noretcomp", bad[i]);
        check("pt", true, "branch");
        h = pt_host_read(root);
        g_assert_cmpuint(h->format[PT_HOST_BRANCH].n, ==, 0);
        g_assert_cmpuint(h->format[PT_HOST_NORETCOMP].n, ==, 0);
        pt_host_free(h);
    }
    put(PMU "format/branch", "config:40-47\n");
    put(PMU "format/tsc", NULL);
    check("pt", true, "ask for tsc (");
    put(PMU "format/tsc", "config:10");
    check("pt", false, NULL);
}

/* Files that say nothing, too much, or are none */
static void test_odd(void)
{
    g_autofree char *path = g_build_filename(root, PMU "nr_addr_filters", NULL);
    g_autofree char *huge = g_strnfill(1 << 20, '7');
    struct pt_host *h;

    put_host();
    put(PMU "type", "99999999999\n");
    check("pt", true, "no PMU");
    put(PMU "type", "-1\n");
    check("pt", true, "no PMU");
    put(PMU "type", huge);
    check("pt", true, "no PMU");
    put(PMU "type", "8");
    put(PMU "caps/psb_periods", "fffffffff\n");
    put(PMU "caps/cycle_thresholds", "-1\n");
    put(PMU "tsc_art_ratio", "0:0\n");
    put(PMU "max_nonturbo_ratio", "256\n");
    put("proc/cpuinfo", huge);
    g_unlink(path);
    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    h = pt_host_read(root);
    g_assert_cmpuint(h->psb_periods | h->cycle_thresholds | h->bus_ratio |
                     h->filters | h->tsc_per_ctc[0] | h->tsc_per_ctc[1], ==, 0);
    pt_host_free(h);
    g_unlink(path);
    put(PMU "tsc_art_ratio", "284:2x\n");
    put(PMU "caps/psb_cyc", "0\n");
    put(PMU "caps/psb_periods", "3f\n");
    h = pt_host_read(root);
    g_assert_cmpuint(h->psb_periods | h->tsc_per_ctc[0], ==, 0);
    pt_host_free(h);
}

/* This host, whatever it is */
static void test_here(void)
{
    struct pt_host *h = pt_host_read("");
    g_autofree char *words = pt_host_words(h);

    g_assert_cmpint(h->there, ==, g_file_test("/" PMU, G_FILE_TEST_IS_DIR));
    g_assert_true(h->there || pt_host_fault(h));
    pt_host_free(h);
}

int main(int argc, char **argv)
{
    int code;

    g_test_init(&argc, &argv, NULL);
    root = scratch_new();
    g_test_add_func("/pt-host/all", test_all);
    g_test_add_func("/pt-host/none", test_none);
    g_test_add_func("/pt-host/skz84", test_skz84);
    g_test_add_func("/pt-host/kvm", test_kvm);
    g_test_add_func("/pt-host/rights", test_rights);
    g_test_add_func("/pt-host/format", test_format);
    g_test_add_func("/pt-host/odd", test_odd);
    g_test_add_func("/pt-host/here", test_here);
    code = g_test_run();
    scratch_remove(root);
    return code;
}
