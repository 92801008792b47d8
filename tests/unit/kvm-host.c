/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of why the KVM of a host cannot trace its guests
 */

#include <stdbool.h>
#include <string.h>

#include "libvirt/kvm-host.h"

#define INTEL "fpu dts acpi vmx dtes64 bts ept"

/* What hosts have: NULL for no module, or no parameter */
struct host {
    const char *why;            /* NULL: it can */
    const char *module;
    const char *bts_trace;
    const char *ept;
    const char *unrestricted_guest;
    const char *flags;          /* NULL: there is no /proc/cpuinfo */
    bool hybrid;
};

static void write_file(const char *top, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(top, name, NULL);
    g_autofree char *folder = g_path_get_dirname(path);

    if (text) {
        g_assert_cmpint(g_mkdir_with_parents(folder, 0755), ==, 0);
        g_assert_true(g_file_set_contents(path, text, -1, NULL));
    }
}

static void make_host(const char *top, const struct host *h)
{
    g_autofree char *cpuinfo = h->flags ? g_strdup_printf(
        "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: %s\n"
        "vmx flags\t: vnmi ept_ad\n\nprocessor\t: 1\nflags\t\t: none\n",
        h->flags) : NULL;

    write_file(top, "proc/cpuinfo", cpuinfo);
    write_file(top, "sys/module/kvm/parameters/x", "Y\n");
    write_file(top, "sys/module/kvm_intel/parameters/nested", h->module);
    write_file(top, "sys/module/kvm_intel/parameters/bts_trace", h->bts_trace);
    write_file(top, "sys/module/kvm_intel/parameters/ept", h->ept);
    write_file(top, "sys/module/kvm_intel/parameters/unrestricted_guest",
               h->unrestricted_guest);
    write_file(top, "sys/bus/event_source/devices/cpu_core/type",
               h->hybrid ? "4\n" : NULL);
}

static void check(const struct host *h)
{
    g_autofree char *top = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    char *argv[] = { (char *)"rm", (char *)"-rf", top, NULL };
    g_autofree char *fault = NULL;

    g_assert_nonnull(top);
    make_host(top, h);
    fault = kvm_host_fault(top);
    if (!h->why) {
        g_assert_cmpstr(fault, ==, NULL);
    } else if (!fault || !strstr(fault, h->why)) {
        g_error("'%s' does not say '%s'", fault ? fault : "nothing", h->why);
    }
    g_assert_true(g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH, NULL,
                               NULL, NULL, NULL, NULL, NULL));
}

static void test_hosts(void)
{
    static const struct host hosts[] = {
        { NULL, "Y\n", "Y\n", "Y\n", "Y\n", INTEL, false },
        { NULL, "Y\n", "Y\n", NULL, NULL, NULL, false },
        /* No module */
        { "VT-x", NULL, NULL, NULL, NULL, "fpu svm", false },
        { "modprobe", NULL, NULL, NULL, NULL, INTEL, false },
        { "modprobe", NULL, NULL, NULL, NULL, NULL, false },
        /* A kernel without our patches */
        { "patches", "Y\n", NULL, "Y\n", "Y\n", INTEL, false },
        { "patches", "Y\n", "", "Y\n", "Y\n", INTEL, false },
        /* The parameter is off */
        { "without EPT", "Y\n", "N\n", "N\n", "N\n", INTEL, false },
        { "unrestricted", "Y\n", "N\n", "Y\n", "N\n", INTEL, false },
        { "hybrid", "Y\n", "N\n", "Y\n", "Y\n", INTEL, true },
        { "has no Branch Trace Store", "Y\n", "N\n", "Y\n", "Y\n",
          "fpu vmx dtes64 bts", false },
        { "has no Branch Trace Store", "Y\n", "N\n", "Y\n", "Y\n",
          "fpu dts vmx bts", false },
        { "has no Branch Trace Store", "Y\n", "N\n", "Y\n", "Y\n",
          "fpu dts vmx dtes64", false },
        { "bts_trace=1", "Y\n", "N\n", "Y\n", "Y\n", INTEL, false },
        { "bts_trace=1", "Y\n", "N\n", "Y\n", "Y\n", NULL, false },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(hosts); i++) {
        check(&hosts[i]);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kvm-host/hosts", test_hosts);
    return g_test_run();
}
