/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Can the KVM of this host trace its guests?  See kvm-host.h
 */

#include <stdbool.h>
#include <string.h>

#include "libvirt/kvm-host.h"

#define MODULE      "/sys/module/kvm_intel"
#define PARAMETERS  MODULE "/parameters/"

static bool exists(const char *root, const char *path)
{
    g_autofree char *name = g_strconcat(root, path, NULL);

    return g_file_test(name, G_FILE_TEST_EXISTS);
}

static char *read_file(const char *root, const char *path)
{
    g_autofree char *name = g_strconcat(root, path, NULL);
    char *text = NULL;

    g_file_get_contents(name, &text, NULL, NULL);
    return text;
}

/* A parameter of the module: 'Y', 'N', or 0 if it has none of this name */
static char parameter(const char *root, const char *name)
{
    g_autofree char *path = g_strconcat(PARAMETERS, name, NULL);
    g_autofree char *text = read_file(root, path);

    return text ? *text : 0;
}

/* The flags of the first CPU; NULL if they are not known */
static GStrv cpu_flags(const char *root)
{
    g_autofree char *text = read_file(root, "/proc/cpuinfo");
    g_auto(GStrv) lines = g_strsplit(text ? text : "", "\n", -1);

    for (unsigned i = 0; lines[i]; i++) {
        if (g_str_has_prefix(lines[i], "flags")) {
            return g_strsplit_set(lines[i], " \t:", -1);
        }
    }
    return NULL;
}

static bool lacks(GStrv flags, const char *flag)
{
    return flags && !g_strv_contains((const char *const *)flags, flag);
}

/* Why is there no module? */
static const char *no_module(GStrv flags)
{
    if (lacks(flags, "vmx")) {
        return "this host's CPU is not one of Intel with VT-x, or its firmware "
               "has switched VT-x off";
    }
    return "the module kvm_intel is not loaded: modprobe kvm_intel";
}

/* Why is the parameter off?  Linux clears it where it cannot be. */
static const char *parameter_off(const char *root, GStrv flags)
{
    if (parameter(root, "ept") == 'N') {
        return "KVM runs without EPT, which tracing needs: the module "
               "kvm_intel must not have ept=0, and the CPU must have EPT";
    }
    if (parameter(root, "unrestricted_guest") == 'N') {
        return "KVM runs without unrestricted guests, which tracing needs: the "
               "module kvm_intel must not have unrestricted_guest=0, and the "
               "CPU must have them";
    }
    if (exists(root, "/sys/bus/event_source/devices/cpu_core")) {
        return "this host's CPU is a hybrid one, with cores of more than one "
               "kind, where KVM has no Branch Trace Store";
    }
    if (lacks(flags, "dts") || lacks(flags, "dtes64") || lacks(flags, "bts")) {
        return "this host's CPU has no Branch Trace Store of 64 bits (flags "
               "dts, dtes64 and bts in /proc/cpuinfo)";
    }
    return "this host's administrator has not permitted it: write 'options "
           "kvm_intel bts_trace=1' to /etc/modprobe.d/backtrail.conf, and load "
           "the module kvm_intel again (docs/kvm.md says what is not known "
           "about its safety)";
}

char *kvm_host_fault(const char *root)
{
    g_auto(GStrv) flags = cpu_flags(root);

    if (!exists(root, MODULE)) {
        return g_strdup(no_module(flags));
    }
    switch (parameter(root, "bts_trace")) {
    case 'Y':
        return NULL;
    case 0:
        return g_strdup("the KVM of this host's kernel lacks Backtrail's "
                        "patches: build a kernel with those of kvm/");
    default:
        return g_strdup(parameter_off(root, flags));
    }
}
