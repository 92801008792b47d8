/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of the capabilities of a host and of a QEMU
 */

#include <string.h>

#include "libvirt/capabilities.h"

static xmlDoc *parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    xmlDoc *doc = document_parse(text, strlen(text), &error);

    g_assert_no_error(error);
    return doc;
}

static const char host_text[] =
    "<capabilities>\n <host>\n  <uuid>x</uuid>\n"
    "  <secmodel><model>apparmor</model><doi>0</doi></secmodel>\n"
    "  <secmodel>\n   <model>dac</model>\n   <doi>0</doi>\n"
    "   <baselabel type='kvm'>+64055:+108</baselabel>\n"
    "   <baselabel type='qemu'>+64055:+107</baselabel>\n"
    "  </secmodel>\n </host>\n</capabilities>\n";

static void test_confines(void)
{
    static const struct {
        const char *domain;
        bool apparmor;
        bool dac;
    } domains[] = {
        { "<domain/>", true, true },
        { "<domain><seclabel type='dynamic' model='apparmor'/></domain>",
          true, true },
        { "<domain><seclabel type='none' model='apparmor'/></domain>",
          false, true },
        { "<domain><seclabel type='dynamic' model='dac'/>"
          "<seclabel type='none' model='apparmor'/></domain>", false, true },
        { "<domain><seclabel type='none'/></domain>", false, false },
        { "<domain><devices><seclabel type='none'/></devices></domain>", true,
          true },
    };
    g_autoptr(xmlDoc) host = parse(host_text);
    g_autoptr(xmlDoc) nothing = parse("<capabilities/>");
    unsigned i;

    g_assert_true(capabilities_confines(host, NULL, "apparmor"));
    g_assert_false(capabilities_confines(host, NULL, "selinux"));
    g_assert_false(capabilities_confines(nothing, NULL, "apparmor"));
    for (i = 0; i < G_N_ELEMENTS(domains); i++) {
        g_autoptr(xmlDoc) domain = parse(domains[i].domain);

        g_assert_cmpint(capabilities_confines(host, domain, "apparmor"),
                        ==, domains[i].apparmor);
        g_assert_cmpint(capabilities_confines(host, domain, "dac"), ==,
                        domains[i].dac);
        g_assert_false(capabilities_confines(nothing, domain, "dac"));
    }
}

static void test_label(void)
{
    g_autoptr(xmlDoc) host = parse(host_text);
    g_autofree char *qemu = capabilities_label(host, "dac", "qemu");
    g_autofree char *kvm = capabilities_label(host, "dac", "kvm");

    g_assert_cmpstr(qemu, ==, "+64055:+107");
    g_assert_cmpstr(kvm, ==, "+64055:+108");
    g_assert_null(capabilities_label(host, "dac", "xen"));
    g_assert_null(capabilities_label(host, "apparmor", "qemu"));
    g_assert_null(capabilities_label(host, "selinux", "qemu"));
}

static void check_lacks(const char *emulator_text, const char *devices,
                        const char *expected)
{
    g_autofree char *text = g_strdup_printf("<domain><devices>%s</devices>"
                                            "</domain>", devices);
    g_autoptr(xmlDoc) emulator = parse(emulator_text), domain = parse(text);
    g_auto(GStrv) lacks = capabilities_lacks(emulator, domain);
    g_autofree char *list = g_strjoinv("; ", lacks);

    g_assert_cmpstr(list, ==, expected);
}

static void test_lacks(void)
{
    static const char has[] =
        "<domainCapabilities><devices>"
        "<graphics supported='yes'><enum name='other'><value>x</value></enum>"
        "<enum name='type'><value>vnc</value><value>egl-headless</value>"
        "</enum></graphics>"
        "<video supported='yes'><enum name='modelType'><value>vga</value>"
        "<value>virtio</value></enum></video>"
        "<redirdev supported='no'><enum name='bus'/></redirdev>"
        "</devices></domainCapabilities>";

    check_lacks(has, "", "");
    check_lacks(has, "<graphics type='vnc'/><graphics type='egl-headless'/>",
                "");
    check_lacks(has, "<graphics type='spice'/><graphics type='spice'/>"
                "<graphics type='vnc'/>",
                "graphics of type 'spice' (it has vnc, egl-headless)");
    check_lacks(has, "<graphics type='vnc, egl'/>",
                "graphics of type 'vnc, egl' (it has vnc, egl-headless)");
    check_lacks(has, "<video><model type='qxl'/></video>"
                "<video><model type='virtio'/></video><video/>",
                "video of type 'qxl' (it has vga, virtio)");
    check_lacks(has, "<redirdev bus='usb' type='spicevmc'/>",
                "redirdev of bus 'usb' (it has none)");
    /* Nothing is said about these. */
    check_lacks(has, "<channel type='spicevmc'/><disk type='x'/>", "");
    check_lacks("<domainCapabilities/>", "<graphics type='spice'/>", "");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/capabilities/confines", test_confines);
    g_test_add_func("/capabilities/label", test_label);
    g_test_add_func("/capabilities/lacks", test_lacks);
    return g_test_run();
}
