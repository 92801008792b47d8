/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Devices of QEMU that cannot be replayed: see devices.h
 */

#include <stdint.h>
#include <string.h>

#include "replay/devices.h"

static const char no_disk[] = "a disk of virtio (if=virtio), or on the IDE "
                              "controller of -machine pc (-hda FILE)";
static const char no_passthrough[] = "an emulated device: what hardware does "
                                     "is not in the log";
static const char no_vhost[] = "virtio-net-pci without vhost: the log does not "
                               "see what another process does";
static const char no_usb[] = "a PS/2 keyboard and mouse, which the machine "
                             "has, or qemu-xhci";

/* By the beginning of a type's name, the longest first */
static const struct refusal {
    const char *prefix;
    const char *instead;
} refusals[] = {
    { "piix3-usb-uhci", no_usb },
    { "piix4-usb-uhci", no_usb },
    { "ich9-usb-uhci", no_usb },
    { "vt82c686b-usb-uhci", no_usb },
    { "usb-ehci", no_usb },
    { "ich9-usb-ehci", no_usb },
    { "usb-host", no_passthrough },
    { "usb-redir", no_passthrough },
    { "u2f-passthru", no_passthrough },
    { "vfio-", no_passthrough },
    { "nvme", no_disk },
    { "vhost-vsock", "a network: vsock is the host kernel's" },
    { "vhost-user-vsock", "a network: vsock is another process's" },
    { "vhost-", no_vhost },
    { "virtio-serial", "the machine's serial port (-serial)" },
    { "virtio-gpu", "-vga std" },
    { "virtio-vga", "-vga std" },
    { "virtio-crypto", "the CPU's instructions" },
    { "virtio-balloon", "nothing: all RAM is the guest's" },
    { "virtio-mem", "more RAM with -m" },
    { "virtio-pmem", "a disk" },
    { "virtio-9p", "a disk image with the files" },
    { "virtio-scsi", no_disk },
    { "virtio-iommu", "intel-iommu" },
    { "virtio-sound", "nothing: sound is not recorded" },
    { "nvdimm", "a disk" },
    { "ivshmem", "a network: what other guests write is not in the log" },
    { "qxl", "-vga std" },
    { "tpm-", "nothing: a TPM is another process" },
    { "scsi-", no_disk },
    { "lsi53c", no_disk },
    { "megasas", no_disk },
    { "mptsas", no_disk },
    { "pvscsi", no_disk },
    { "am53c974", no_disk },
    { "dc390", no_disk },
    { "usb-storage", no_disk },
    { "usb-uas", no_disk },
    { "usb-bot", no_disk },
    { "usb-mtp", no_disk },
    { "sdhci", no_disk },
    { "intel-hda", "nothing: sound is not recorded" },
    { "ich9-intel-hda", "nothing: sound is not recorded" },
    { "AC97", "nothing: sound is not recorded" },
    { "ES1370", "nothing: sound is not recorded" },
    { "sb16", "nothing: sound is not recorded" },
    { "i6300esb", "nothing: a watchdog resets what it cannot see" },
    { "edu", "nothing: it has threads of its own" },
    { "pci-testdev", "nothing: it calls the host" },
};

const char *devices_refuse(const char *type)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(refusals); i++) {
        if (g_str_has_prefix(type, refusals[i].prefix)) {
            return refusals[i].instead;
        }
    }
    return NULL;
}

bool devices_check(const char *qtree, const char **note, GError **error)
{
    g_auto(GStrv) lines = g_strsplit(qtree, "\n", -1);
    size_t ahci = SIZE_MAX;     /* how far such a controller is indented */

    for (char **l = lines; *l; l++) {
        size_t indent = strspn(*l, " ");
        const char *line = *l + indent;
        g_autofree char *type = NULL;
        const char *instead;

        /* dev: piix3-ide, id "" */
        if (!g_str_has_prefix(line, "dev: ")) {
            continue;
        }
        line += strlen("dev: ");
        type = g_strndup(line, strcspn(line, ",\r"));
        instead = devices_refuse(type);
        if (indent <= ahci) {
            ahci = strstr(type, "ahci") ? indent : SIZE_MAX;
        } else if (!strcmp(type, "ide-hd")) {
            return agent_fail(error, AGENT_ERROR_COMMAND,
                              "the machine has a disk on an AHCI "
                              "controller, which cannot be replayed; "
                              "use instead: %s", no_disk);
        } else if (!strcmp(type, "ide-cd")) {
            *note = "the firmware may wait for minutes for the CD drive on "
                    "the AHCI controller; leave it out, or use "
                    "-drive if=virtio,readonly=on";
        }
        if (instead) {
            g_set_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND,
                        "the machine has a device %s, which cannot be "
                        "replayed; use instead: %s", type, instead);
            return false;
        }
    }
    return true;
}
