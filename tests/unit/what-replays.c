/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What can be replayed has three homes, which must say the same of a device:
 * devices.c by the types that QEMU makes of it, machine.c by options, and
 * replayable.c by the XML from which libvirt makes these types
 */

#include <string.h>

#include "libvirt/replayable.h"
#include "replay/devices.h"
#include "replay/machine.h"

#define MOST        4

/* A recording of a domain is without it, though it could be replayed. */
enum stricter {
    AGREE,
    STRICTER,
};

/*
 * struct row - a device
 * @xml:     what libvirt makes it of; NULL: it does not know it
 * @types:   in "info qtree", each on the one before; one alone can be had by
 *           -device, too.  None: it cannot be replayed, but by types nobody
 *           sees that
 * @options: other ways to have it, as an option and its value
 */
static const struct row {
    const char *xml;
    const char *types[MOST];
    const char *options[MOST][2];
    enum stricter domain;
} rows[] = {
#define DISK(bus) \
    "<disk type='file'><source file='/x'/><target dev='d' bus='" bus "'/></disk>"
    { DISK("virtio"), { "virtio-blk-pci" }, { { "-drive", "if=virtio" } } },
    { DISK("ide"), { "ide-hd" }, { { "-drive", "if=ide" } } },
    { DISK("sata"), { "ich9-ahci", "ide-hd" } },
    { DISK("scsi"), { "virtio-scsi-pci", "scsi-hd" },
      { { "-drive", "if=scsi" } } },
    { DISK("usb"), { "usb-storage" } },
    { DISK("usb"), { "usb-uas" } },
    { DISK("usb"), { "usb-bot" } },
    { DISK("sd"), { "sdhci-pci" }, { { "-drive", "if=sd" } } },
    { DISK("nvme"), { "nvme" } },
    /* The type alone is that of a drive that every machine has. */
    { DISK("fdc"), { NULL },
      { { "-fda", "x" }, { "-drive", "if=floppy" },
        { "-device", "floppy,drive=x" } } },

#define CONTROLLER(type, model) \
    "<controller type='" type "' model='" model "'/>"
    { CONTROLLER("pci", "pcie-root-port"), { "pcie-root-port" } },
    { CONTROLLER("sata", "ahci"), { "ich9-ahci" } },
    { CONTROLLER("scsi", "lsilogic"), { "lsi53c895a" } },
    { CONTROLLER("scsi", "lsisas1068"), { "mptsas1068" } },
    { CONTROLLER("scsi", "lsisas1078"), { "megasas" } },
    { CONTROLLER("scsi", "vmpvscsi"), { "pvscsi" } },
    { CONTROLLER("scsi", "am53c974"), { "am53c974" } },
    { CONTROLLER("scsi", "dc390"), { "dc390" } },
    { CONTROLLER("scsi", "virtio-scsi"), { "virtio-scsi-pci" } },
    { CONTROLLER("usb", "piix3-uhci"), { "piix3-usb-uhci" },
      { { "-usb", NULL } } },
    { CONTROLLER("usb", "piix4-uhci"), { "piix4-usb-uhci" } },
    { CONTROLLER("usb", "ich9-uhci1"), { "ich9-usb-uhci1" } },
    { CONTROLLER("usb", "vt82c686b-uhci"), { "vt82c686b-usb-uhci" } },
    { CONTROLLER("usb", "ehci"), { "usb-ehci" } },
    { CONTROLLER("usb", "ich9-ehci1"), { "ich9-usb-ehci1" } },
    /* A machine has a PS/2 keyboard and mouse. */
    { CONTROLLER("usb", "pci-ohci"), { "pci-ohci" }, .domain = STRICTER },
    { CONTROLLER("usb", "qemu-xhci"), { "qemu-xhci" }, .domain = STRICTER },
    { CONTROLLER("virtio-serial", "virtio"), { "virtio-serial-pci" } },
    { CONTROLLER("ccid", "usb-ccid"), { "usb-ccid" }, .domain = STRICTER },

#define INTERFACE(type, model) \
    "<interface type='" type "'><mac address='52:54:00:00:00:01'/>" \
    "<model type='" model "'/><address type='pci' bus='0' slot='3' " \
    "function='0'/></interface>"
    { INTERFACE("network", "virtio"), { "virtio-net-pci" },
      { { "-nic", "user,model=virtio-net-pci" } } },
    { INTERFACE("network", "e1000"), { "e1000" },
      { { "-nic", "user,model=e1000" } } },
    { INTERFACE("network", "e1000e"), { "e1000e" } },
    { INTERFACE("network", "rtl8139"), { "rtl8139" } },
    { INTERFACE("network", "pcnet"), { "pcnet" }, .domain = STRICTER },
    { INTERFACE("hostdev", "virtio"), { "vfio-pci" } },
    { INTERFACE("vhostuser", "virtio"), { "vhost-user-net" },
      { { "-netdev", "vhost-user,id=n,chardev=c" } } },
    { INTERFACE("vdpa", "virtio"), { "vhost-vdpa-device-pci" },
      { { "-netdev", "vhost-vdpa,id=n" } } },

#define VIDEO(type)     "<video><model type='" type "'/></video>"
    { VIDEO("vga"), { "VGA" }, { { "-vga", "std" } } },
    { VIDEO("cirrus"), { "cirrus-vga" }, { { "-vga", "cirrus" } } },
    { VIDEO("bochs"), { "bochs-display" } },
    { VIDEO("vmvga"), { "vmware-svga" }, { { "-vga", "vmware" } },
      .domain = STRICTER },
    { VIDEO("qxl"), { "qxl-vga" }, { { "-vga", "qxl" } } },
    { VIDEO("virtio"), { "virtio-vga" }, { { "-vga", "virtio" } } },
    { VIDEO("virtio"), { "virtio-gpu-pci" } },

#define SOUND(model)    "<sound model='" model "'/>"
    { SOUND("ich6"), { "intel-hda" } },
    { SOUND("ich9"), { "ich9-intel-hda" } },
    { SOUND("ac97"), { "AC97" } },
    { SOUND("es1370"), { "ES1370" } },
    { SOUND("sb16"), { "sb16" } },
    { SOUND("virtio"), { "virtio-sound-pci" } },

    { "<watchdog model='i6300esb'/>", { "i6300esb" } },
    { "<watchdog model='ib700'/>", { "ib700" }, .domain = STRICTER },
    { "<input type='mouse' bus='ps2'/>", { "i8042" } },
    { "<input type='tablet' bus='usb'/>", { "usb-tablet" },
      .domain = STRICTER },
    { "<memballoon model='virtio'/>", { "virtio-balloon-pci" } },
    { "<rng model='virtio'/>", { "virtio-rng-pci" },
      { { "-object", "rng-builtin,id=r" } } },
    { "<panic model='isa'/>", { "pvpanic" } },
    { "<serial type='null'><target type='isa-serial'/></serial>",
      { "isa-serial" }, { { "-serial", "null" } } },
    { "<serial type='null'><target type='usb-serial'/></serial>", { NULL },
      { { "-device", "usb-serial,chardev=c" } } },
    { "<console type='pty'><target type='virtio'/></console>",
      { "virtio-serial-pci", "virtconsole" } },
    { "<channel type='unix'><target type='virtio' name='x'/></channel>",
      { "virtio-serial-pci", "virtserialport" } },
    { "<parallel type='null'/>", { "isa-parallel" },
      { { "-parallel", "null" } }, STRICTER },
    { "<hub type='usb'/>", { "usb-hub" }, .domain = STRICTER },
    { "<redirdev bus='usb' type='spicevmc'/>", { "usb-redir" } },
    { "<smartcard mode='host'/>", { "usb-ccid", "ccid-card-emulated" },
      .domain = STRICTER },

    { "<hostdev type='pci'/>", { "vfio-pci" } },
    { "<hostdev type='usb'/>", { "usb-host" } },
    { "<hostdev type='usb'/>", { "u2f-passthru" } },
    { "<tpm model='tpm-tis'/>", { "tpm-tis" } },
    { "<memory model='nvdimm'/>", { "nvdimm" } },
    { "<memory model='virtio-mem'/>", { "virtio-mem-pci" } },
    { "<memory model='virtio-pmem'/>", { "virtio-pmem-pci" } },
    { "<shmem name='x'/>", { "ivshmem-plain" } },
    { "<vsock model='virtio'/>", { "vhost-vsock-pci" } },
    { "<vsock model='virtio'/>", { "vhost-user-vsock-pci" } },
    { "<crypto model='virtio'/>", { "virtio-crypto-pci" } },
    { "<iommu model='virtio'/>", { "virtio-iommu-pci" } },
    { "<iommu model='intel'/>", { "intel-iommu" }, .domain = STRICTER },
    { "<filesystem type='mount'/>", { "virtio-9p-pci" },
      { { "-virtfs", "local,path=/x" }, { "-fsdev", "local,id=f" } } },
    { "<filesystem type='mount'/>", { "vhost-user-fs-pci" } },

    /* libvirt knows none of these. */
    { NULL, { "usb-mtp" } },
    { NULL, { "edu" } },
    { NULL, { "pci-testdev" } },
};

static bool by_types(const struct row *r)
{
    g_autoptr(GString) tree = g_string_new(NULL);
    const char *note;

    for (int i = 0; i < MOST && r->types[i]; i++) {
        g_string_append_printf(tree, "%*sdev: %s, id \"\"\n", 4 * i, "",
                               r->types[i]);
    }
    return devices_check(tree->str, &note, NULL);
}

static bool by_option(const char *option, const char *value)
{
    char *const arguments[] = { (char *)option, (char *)value, NULL };
    struct machine *m = machine_new(arguments, NULL);
    bool taken = m;

    machine_free(m);
    return taken;
}

/* Its network is another one in any case. */
static bool by_xml(const struct row *r)
{
    g_autofree char *text = g_strdup_printf(
        "<domain type='qemu'><os><type arch='x86_64' machine='q35'>hvm</type>"
        "</os><devices>%s</devices></domain>", r->xml);
    g_autoptr(GError) error = NULL;
    g_autoptr(xmlDoc) doc = document_parse(text, strlen(text), &error);
    struct replayable result;
    bool kept, network = g_str_has_prefix(r->xml, "<interface");

    g_assert_no_error(error);
    replayable_make(doc, false, &result, &error);
    g_assert_no_error(error);
    kept = !result.refusals->len && (network || !result.changes->len);
    replayable_clear(&result);
    return kept;
}

static void compare(const struct row *r, bool says, bool wanted,
                    const char *home, const char *what)
{
    if (says != wanted) {
        g_test_message("%s of %s: %s", home, what,
                       says ? "taken" : "not taken");
        g_test_fail();
    }
}

static void test_agree(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        const struct row *r = &rows[i];
        bool can = r->types[0] && by_types(r);

        if (r->types[0] && !r->types[1]) {
            compare(r, by_option("-device", r->types[0]), can, "-device",
                    r->types[0]);
        }
        for (int k = 0; k < MOST && r->options[k][0]; k++) {
            const char *const *o = r->options[k];

            compare(r, by_option(o[0], o[1]), can, o[0], o[1] ? o[1] : "");
        }
        if (r->xml) {
            compare(r, by_xml(r), can && r->domain == AGREE, "XML", r->xml);
        }
        /* Whoever is stricter has something to be stricter than. */
        g_assert_true(can || r->domain == AGREE);
    }
}

static bool has_type(const char *prefix)
{
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        for (int k = 0; k < MOST && rows[i].types[k]; k++) {
            if (g_str_has_prefix(rows[i].types[k], prefix)) {
                return true;
            }
        }
    }
    return false;
}

static bool has_element(const char *name)
{
    g_autofree char *tag = g_strdup_printf("<%s ", name);
    g_autofree char *plain = g_strdup_printf("<%s>", name);

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        if (rows[i].xml && (g_str_has_prefix(rows[i].xml, tag) ||
                            g_str_has_prefix(rows[i].xml, plain))) {
            return true;
        }
    }
    return false;
}

/* The names at the beginning of the entries of a table */
static GPtrArray *read_table(const char *file, const char *table)
{
    g_autofree char *path = g_build_filename(AGENT, file, NULL);
    g_autoptr(GRegex) entry = g_regex_new("^    \\{ \"([^\"]+)\",",
                                          G_REGEX_MULTILINE, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;
    g_autofree char *text = NULL, *part = NULL;
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    const char *begin, *end;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    begin = strstr(text, table);
    g_assert_nonnull(begin);
    end = strstr(begin, "\n};");
    g_assert_nonnull(end);
    part = g_strndup(begin, end - begin);
    for (g_regex_match(entry, part, 0, &match); g_match_info_matches(match);
         g_match_info_next(match, NULL)) {
        g_ptr_array_add(names, g_match_info_fetch(match, 1));
    }
    g_assert_cmpuint(names->len, >, 10);
    return names;
}

/* Whatever a home names is compared with the others. */
static void test_whole(void)
{
    g_autoptr(GPtrArray) types = read_table("replay/devices.c",
                                            "} refusals[] = {");
    g_autoptr(GPtrArray) elements = read_table("libvirt/replayable.c",
                                               "} devices[] = {");
    /* Devices of the host, or none at all */
    static const char *const no_devices[] = {
        "emulator", "graphics", "audio", "redirfilter", NULL
    };

    for (guint i = 0; i < types->len; i++) {
        g_test_message("%s", (char *)types->pdata[i]);
        g_assert_true(has_type(types->pdata[i]));
    }
    for (guint i = 0; i < elements->len; i++) {
        g_test_message("%s", (char *)elements->pdata[i]);
        g_assert_true(has_element(elements->pdata[i]) !=
                      g_strv_contains(no_devices, elements->pdata[i]));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/what-replays/agree", test_agree);
    g_test_add_func("/what-replays/whole", test_whole);
    return g_test_run();
}
