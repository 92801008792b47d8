/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of devices.c
 */

#include <string.h>

#include "replay/devices.h"

static void test_types(void)
{
    static const char *const bad[] = {
        "nvme", "nvme-ns", "usb-ehci", "piix3-usb-uhci", "ich9-usb-uhci1",
        "virtio-serial-pci", "virtio-gpu-pci", "virtio-balloon-pci-non-"
        "transitional", "vhost-vsock-pci", "vfio-pci", "virtio-9p-pci",
        "usb-host", "virtio-crypto-pci"
    };
    static const char *const good[] = {
        "ide-hd", "ich9-ahci", "e1000", "virtio-net-pci", "virtio-blk-pci",
        "qemu-xhci", "usb-kbd", "isa-serial", "VGA", "virtio-rng-pci",
        "pvpanic", ""
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_nonnull(devices_refuse(bad[i]));
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(good); i++) {
        g_assert_null(devices_refuse(good[i]));
    }
}

static void test_tree(void)
{
    static const char tree[] =
        "bus: main-system-bus\r\n"
        "  type System\r\n"
        "  dev: i440FX-pcihost, id \"\"\r\n"
        "    bus: pci.0\r\n"
        "      dev: piix3-ide, id \"nvme\"\r\n";
    g_autofree char *worse = g_strconcat(
        tree, "      dev: piix3-usb-uhci, id \"u\"\r\n", NULL);
    g_autoptr(GError) error = NULL;
    const char *note = NULL;

    g_assert_true(devices_check("", &note, NULL));
    g_assert_true(devices_check(tree, &note, NULL));
    g_assert_null(note);
    g_assert_false(devices_check(worse, &note, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_assert_nonnull(strstr(error->message, "piix3-usb-uhci"));
}

static void test_ahci(void)
{
    static const char tree[] =
        "      dev: piix3-ide, id \"\"\r\n"
        "        bus: ide.0\r\n"
        "          dev: ide-hd, id \"\"\r\n"
        "      dev: ich9-ahci, id \"\"\r\n"
        "        bus: ide.0\r\n"
        "          dev: ide-cd, id \"\"\r\n"
        "      dev: piix4-ide, id \"\"\r\n"
        "        bus: ide.1\r\n"
        "          dev: ide-hd, id \"\"\r\n";
    static const char disk[] =
        "      dev: ich9-ahci, id \"\"\r\n"
        "        addr = 1f.2\r\n"
        "        bus: ide.2\r\n"
        "          dev: ide-hd, id \"\"\r\n";
    g_autofree char *both = g_strconcat(tree, disk, NULL);
    g_autoptr(GError) error = NULL;
    const char *note = NULL;

    g_assert_true(devices_check(tree, &note, NULL));
    g_assert_nonnull(strstr(note, "CD drive"));
    g_assert_false(devices_check(both, &note, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_assert_nonnull(strstr(error->message, "AHCI"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/devices/types", test_types);
    g_test_add_func("/devices/tree", test_tree);
    g_test_add_func("/devices/ahci", test_ahci);
    return g_test_run();
}
