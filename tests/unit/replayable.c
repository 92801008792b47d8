/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of replayable.c: domains in, and what becomes of them
 */

#include <string.h>

#include "libvirt/replayable.h"

#define DOMAIN(machine, root, devices) \
    "<domain type='qemu'><vcpu>1</vcpu><os><type arch='x86_64' machine='" \
    machine "'>hvm</type></os>" root "<devices>" devices \
    "</devices></domain>"
#define PCI(bus, slot) \
    "<address type='pci' bus='" bus "' slot='" slot "' function='0x1'/>"

struct result {
    struct replayable r;
    char *xml;
};

static struct result make(const char *text, bool running)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(xmlDoc) doc = document_parse(text, strlen(text), &error);
    struct result result = { .xml = NULL };

    g_assert_no_error(error);
    replayable_make(doc, running, &result.r, &error);
    g_assert_no_error(error);
    result.xml = document_text(doc);
    return result;
}

static void clear(struct result *result)
{
    replayable_clear(&result->r);
    g_free(result->xml);
}

/* The changes and refusals of a domain, each up to its colon */
static void check_as(bool running, const char *text, const char *changes,
                     const char *refusals)
{
    struct result got = make(text, running);
    const GPtrArray *lists[] = { got.r.changes, got.r.refusals };
    const char *want[] = { changes, refusals };

    for (unsigned i = 0; i < 2; i++) {
        g_autoptr(GString) out = g_string_new(NULL);

        for (unsigned k = 0; k < lists[i]->len; k++) {
            const char *line = g_ptr_array_index(lists[i], k);

            g_string_append_printf(out, "%s%.*s", k ? ", " : "",
                                   (int)(strstr(line, ": ") - line), line);
        }
        g_assert_cmpstr(out->str, ==, want[i]);
    }
    clear(&got);
}

static void check(const char *text, const char *changes, const char *refusals)
{
    check_as(false, text, changes, refusals);
}

static void test_plain(void)
{
    struct result got = make(DOMAIN("pc-i440fx-10.0", "", ""), false);

    g_assert_cmpstr(
        got.xml, ==,
        "<domain type=\"qemu\"><os><type arch=\"x86_64\" "
        "machine=\"pc-i440fx-10.0\">hvm</type></os><devices>"
        "<controller type=\"usb\" model=\"none\"/><memballoon model=\"none\"/>"
        "</devices><vcpu>1</vcpu><memoryBacking><source type=\"memfd\"/>"
        "<access mode=\"shared\"/></memoryBacking></domain>\n");
    g_assert_cmpuint(got.r.changes->len + got.r.refusals->len +
                     got.r.arguments->len, ==, 0);
    clear(&got);
}

static void test_changes(void)
{
    check("<domain type='kvm'><vcpu current='2'>4</vcpu>"
          "<cpu mode='host-passthrough'/><features><acpi/><hyperv/></features>"
          "<maxMemory>1</maxMemory><devices><sound model='ich9'/>"
          "<memballoon model='none'/><input type='mouse' bus='ps2'/>"
          "<controller type='pci'/><controller type='virtio-serial'/>"
          "<video><model type='qxl'/></video><disk device='floppy'>"
          "<target dev='fda' bus='fdc'/></disk></devices></domain>",
          "domain type kvm, 4 vCPUs, cpu host-passthrough, maxMemory, "
          "features hyperv, sound ich9, controller virtio-serial, video qxl, "
          "floppy fda", "");
}

static void test_refusals(void)
{
    check(DOMAIN("q35", "<launchSecurity/>",
                 "<disk type='network'><source protocol='rbd'/>"
                 "<target dev='vda' bus='virtio'/></disk>"
                 "<disk type='file'><source file='/x'/>"
                 "<target dev='sda' bus='scsi'/></disk>"
                 "<disk type='file'><source file='/x'><encryption/></source>"
                 "<target dev='vdb' bus='virtio'/></disk>"
                 "<hostdev type='pci'/><tpm/><thing/>"
                 "<interface type='hostdev'><mac address='m'/></interface>"
                 "<interface type='user'><mac address='52:54:00:00:00:01'/>"
                 "<model type='ne2k'/>" PCI("0", "1") "</interface>"),
          "", "launchSecurity, disk vda, disk sda, disk vdb, hostdev pci, tpm, "
          "thing, interface m, interface 52:54:00:00:00:01");
    check("<domain type='qemu'><os firmware='efi'/></domain>", "", "os");
    check("<domain type='qemu'><os><loader/></os></domain>", "", "os");
}

static void check_arguments(const char *text, const char *want)
{
    struct result got = make(text, false);
    g_autofree char *joined = NULL;

    g_assert_cmpuint(got.r.refusals->len, ==, 0);
    g_ptr_array_add(got.r.arguments, NULL);
    joined = g_strjoinv(" ", (char **)got.r.arguments->pdata);
    g_assert_cmpstr(joined, ==, want);
    g_assert_null(strstr(got.xml, "interface"));
    clear(&got);
}

static void test_networks(void)
{
    check_arguments(
        DOMAIN("pc-q35-10.0", "<on_reboot>destroy</on_reboot>",
               "<interface type='user'><mac address='52:54:00:00:00:01'/>"
               "<model type='virtio'/>" PCI("0x00", "0x03") "</interface>"
               "<interface type='bridge'><mac address='52:54:00:00:00:02'/>"
               "<model type='e1000'/><link state='down'/><boot order='2'/>"
               "<rom enabled='no'/>" PCI("0x11", "0x00") "</interface>"),
        "-no-reboot -netdev user,id=network0 -device virtio-net-pci,"
        "netdev=network0,mac=52:54:00:00:00:01,bus=pcie.0,addr=0x3.0x1 "
        "-netdev user,id=network1,restrict=on -device e1000,netdev=network1,"
        "mac=52:54:00:00:00:02,bus=pci.17,addr=0x0.0x1,bootindex=2,romfile=");
    check_arguments(
        DOMAIN("pc-i440fx-10.0", "",
               "<interface type='user'><mac address='52:54:00:00:00:01'/>"
               "<model type='rtl8139'/>" PCI("0", "3") "</interface>"),
        "-netdev user,id=network0 -device rtl8139,netdev=network0,"
        "mac=52:54:00:00:00:01,bus=pci.0,addr=0x3.0x1");
}

static void test_ports(void)
{
    struct result got = make(DOMAIN(
        "pc", "", "<serial type='pty'><source path='/dev/pts/1'/>"
        "<target type='isa-serial' port='0'/></serial>"
        "<serial type='tcp'><source host='x'/><protocol type='raw'/>"
        "<target type='isa-serial' port='1'/></serial>"
        "<serial type='pty'><target type='usb-serial' port='2'/></serial>"
        "<console type='pty'><target type='serial'/></console>"
        "<console type='pty'><target type='virtio'/></console>"), false);

    g_assert_nonnull(strstr(
        got.xml, "<devices><serial type=\"stdio\"><target type=\"isa-serial\" "
        "port=\"0\"/></serial><serial type=\"null\"><target "
        "type=\"isa-serial\" port=\"1\"/></serial><controller"));
    g_assert_cmpuint(got.r.changes->len, ==, 3);
    clear(&got);
}

/* What the guest has seen of its machine stays as it is, or is refused. */
static void test_running(void)
{
    struct result got = make(DOMAIN(
        "pc", "<cpu><topology sockets='1'/></cpu><features><kvm/></features>",
        "<controller type='usb' model='qemu-xhci'/>"
        "<input type='tablet' bus='usb'/><memballoon model='none'/>"
        "<interface type='bridge'><mac address='52:54:00:00:00:01'/>"
        "<model type='e1000'/>" PCI("0", "3") "</interface>"
        "<watchdog model='itco' action='reset'/>"), true);

    g_assert_cmpuint(got.r.refusals->len, ==, 0);
    g_assert_nonnull(strstr(got.xml, "<topology sockets=\"1\"/>"));
    g_assert_nonnull(strstr(got.xml, "<kvm/>"));
    g_assert_nonnull(strstr(
        got.xml, "<controller type=\"usb\" model=\"qemu-xhci\"/><input "
        "type=\"tablet\" bus=\"usb\"/><memballoon"));
    g_assert_null(strstr(got.xml, "interface"));
    g_assert_cmpstr(got.r.arguments->pdata[1], ==,
                    "null,id=network0");
    g_assert_cmpstr(got.r.arguments->pdata[5], ==, "ICH9-LPC.noreboot=off");
    clear(&got);

    check_as(true, "<domain type='kvm'><vcpu current='2'>4</vcpu>"
             "<cpu mode='host-model'/><maxMemory>1</maxMemory><devices>"
             "<sound model='ich9'/><memballoon model='virtio'/>"
             "<controller type='usb' model='piix3-uhci'/>"
             "<input type='tablet' bus='usb'/>"
             "<channel><target name='c'/></channel>"
             "<graphics type='vnc'/><video><model type='qxl'/></video>"
             "<disk device='floppy'><target dev='fda' bus='fdc'/></disk>"
             "<interface type='network'><mac address='52:54:00:00:00:01'/>"
             "<model type='virtio'/>" PCI("0", "3") "<driver queues='2'/>"
             "</interface></devices></domain>",
             "graphics vnc, interface 52:54:00:00:00:01",
             "domain type kvm, 4 vCPUs, cpu host-model, maxMemory, sound ich9, "
             "memballoon virtio, controller usb, input tablet, channel c, "
             "video qxl, floppy fda, interface 52:54:00:00:00:01");
}

static void test_other(void)
{
    static const char *const cases[] = {
        "<domain type='lxc'/>", "<network/>",
        "<domain type='qemu'><os><type arch='aarch64'/></os></domain>"
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(xmlDoc) doc = document_parse(
            cases[i], strlen(cases[i]), NULL);
        struct replayable r;

        g_assert_false(replayable_make(doc, false, &r, &error));
        g_assert_nonnull(error);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/replayable/plain", test_plain);
    g_test_add_func("/replayable/changes", test_changes);
    g_test_add_func("/replayable/refusals", test_refusals);
    g_test_add_func("/replayable/networks", test_networks);
    g_test_add_func("/replayable/ports", test_ports);
    g_test_add_func("/replayable/running", test_running);
    g_test_add_func("/replayable/other", test_other);
    return g_test_run();
}
