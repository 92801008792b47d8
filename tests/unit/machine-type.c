/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of libvirt/machine-type.h: what kind of machine a type is.  What a QEMU
 * has of them takes a libvirtd: see tests/virsh/virsh.
 */
#include <glib.h>

#include "libvirt/machine-type.h"

static void test_kind(void)
{
    g_assert_cmpstr(machine_type_kind("pc-q35-11.1"), ==, "q35");
    g_assert_cmpstr(machine_type_kind("pc-q35-noble"), ==, "q35");
    g_assert_cmpstr(machine_type_kind("pc-i440fx-9.2"), ==, "pc");
    g_assert_cmpstr(machine_type_kind("pc-1.2"), ==, "pc");
    /* These are of all releases, or have no other ones. */
    g_assert_null(machine_type_kind("q35"));
    g_assert_null(machine_type_kind("pc"));
    g_assert_null(machine_type_kind("microvm"));
    g_assert_null(machine_type_kind("isapc"));
    g_assert_null(machine_type_kind(""));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/machine-type/kind", test_kind);
    return g_test_run();
}
