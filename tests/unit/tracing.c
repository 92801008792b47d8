/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of enabling and disabling the XML of domains
 */

#include <string.h>

#include "libvirt/tracing.h"

#define QEMU_NS " xmlns:qemu=\"http://libvirt.org/schemas/domain/qemu/1.0\""

static const struct tracing_options plain = { "/opt/qemu", NULL, false };
static const struct tracing_options full = {
    "/opt/other", "/run/a,b.sock", true
};
static const struct tracing_options names = {
    .emulator = "/opt/qemu", .agent = "/run/agent", .guest_names = true,
};

static xmlDoc *parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    xmlDoc *doc = document_parse(text, strlen(text), &error);

    g_assert_no_error(error);
    return doc;
}

/* The changes are left in *@changes, if that is not NULL. */
static char *enable(const char *text,
                    const struct tracing_options *options,
                    GPtrArray **changes)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(xmlDoc) doc = parse(text);

    tracing_enable(doc, options, changes, &error);
    g_assert_no_error(error);
    return document_text(doc);
}

static char *disable(const char *text, GPtrArray **changes)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(xmlDoc) doc = parse(text);

    tracing_disable(doc, changes, &error);
    g_assert_no_error(error);
    return document_text(doc);
}

/* Enabling is undone by disabling, and twice is once. */
static void check_undone(const char *text,
                         const struct tracing_options *options)
{
    g_autofree char *on = enable(text, options, NULL);
    g_autofree char *twice = enable(on, options, NULL);
    g_autofree char *otherwise = enable(on, options == &full ? &plain : &full,
                                        NULL);
    g_autofree char *back = enable(otherwise, options, NULL);
    g_autofree char *off = disable(on, NULL);
    g_autofree char *nothing = disable(off, NULL);

    g_assert_cmpstr(on, !=, text);
    g_assert_cmpstr(twice, ==, on);
    g_assert_cmpstr(otherwise, !=, on);
    g_assert_cmpstr(back, ==, on);
    g_assert_cmpstr(off, ==, text);
    g_assert_cmpstr(nothing, ==, off);
}

static void test_undone(void)
{
    static const char *const texts[] = {
        "<domain type=\"kvm\"/>\n",
        "<domain type=\"qemu\">\n</domain>\n",
        "<domain type=\"qemu\">x</domain>\n",
        "<domain type=\"kvm\"><devices/><features/><metadata/></domain>\n",
        "<domain type=\"kvm\">\n  <devices>\n  </devices>\n</domain>\n",
        "<domain id=\"3\" type=\"kvm\">\n"
        "  <!-- the emulator -->\n"
        "  <devices a=\"b\">\n"
        "    <emulator><!-- c -->/usr/bin/<![CDATA[qemu]]> </emulator>\n"
        "  </devices>\n"
        "  <cpu check=\"none\" mode=\"host-passthrough\"/>\n"
        "  <memoryBacking><hugepages/><access mode=\"private\"/>"
        "<source/></memoryBacking>\n"
        "  <features>\n    <acpi/>\n    <vmcoreinfo state=\"off\"/>\n"
        "  </features>\n"
        "  <metadata>\n    <m:x xmlns:m=\"urn:m\"> y </m:x>\n"
        "    <domain xmlns=\"urn:other\"/></metadata>\n"
        "</domain>\n",
        "<domain type=\"kvm\"" QEMU_NS ">\n  <qemu:commandline>\n"
        "    <qemu:arg value=\"-device\"/>\n"
        "    <qemu:arg value=\"branch-tracer\"/>\n"
        "    <qemu:env name=\"a\" value=\"b\"/>\n"
        "  </qemu:commandline>\n</domain>\n",
        "<domain type=\"kvm\" xmlns:qemu=\"urn:else\" "
        "xmlns:q=\"http://libvirt.org/schemas/domain/qemu/1.0\">"
        "<q:commandline/><qemu:commandline/></domain>\n",
        "<domain type=\"kvm\" xmlns:qemu=\"urn:else\" "
        "xmlns:backtrail=\"urn:else\"><qemu:commandline/></domain>\n",
        "<domain type=\"kvm\"><x:commandline "
        "xmlns:x=\"http://libvirt.org/schemas/domain/qemu/1.0\">"
        "<x:arg value=\"-s\"/></x:commandline></domain>\n",
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(xmlDoc) doc = parse(texts[i]);
        g_autofree char *text = document_text(doc);

        /* So that it is writing that is compared, and not reading. */
        check_undone(text, &plain);
        check_undone(text, &full);
        check_undone(text, &names);
    }
}

static const char sample[] =
    "<domain type=\"kvm\">\n"
    "  <name>guest</name>\n"
    "  <cpu mode=\"host-passthrough\"/>\n"
    "  <devices>\n"
    "    <emulator>/usr/bin/kvm</emulator>\n"
    "  </devices>\n"
    "</domain>\n";

/* The settings of a domain */
static void test_enabled(void)
{
    g_autofree char *on = enable(sample, &full, NULL);

    g_assert_cmpstr(on, ==,
        "<domain type=\"qemu\">\n"
        "  <name>guest</name>\n"
        "  <cpu mode=\"maximum\"/>\n"
        "  <devices>\n"
        "    <emulator>/opt/other</emulator>\n"
        "  </devices>\n"
        "  <metadata>\n"
        "    <backtrail:domain xmlns:backtrail=\"urn:backtrail:domain:1\" "
        "created=\"1\">\n"
        "      <backtrail:value element=\".\" attribute=\"type\" "
        "was=\"kvm\" now=\"qemu\"/>\n"
        "      <backtrail:value element=\"cpu\" attribute=\"mode\" "
        "was=\"host-passthrough\" now=\"maximum\"/>\n"
        "      <backtrail:value element=\"devices/emulator\" "
        "was=\"/usr/bin/kvm\" now=\"/opt/other\"/>\n"
        "      <backtrail:value element=\"memoryBacking/source\" "
        "attribute=\"type\" now=\"memfd\" created=\"2\"/>\n"
        "      <backtrail:value element=\"memoryBacking/access\" "
        "attribute=\"mode\" now=\"shared\" created=\"1\"/>\n"
        "      <backtrail:value element=\"features/vmcoreinfo\" "
        "attribute=\"state\" now=\"on\" created=\"2\"/>\n"
        "      <backtrail:device "
        "now=\"branch-trace,agent=/run/a,,b.sock\" created=\"1\"/>\n"
        "    </backtrail:domain>\n"
        "  </metadata>\n"
        "  <memoryBacking>\n"
        "    <source type=\"memfd\"/>\n"
        "    <access mode=\"shared\"/>\n"
        "  </memoryBacking>\n"
        "  <features>\n"
        "    <vmcoreinfo state=\"on\"/>\n"
        "  </features>\n"
        "  <qemu:commandline" QEMU_NS ">\n"
        "    <qemu:arg value=\"-device\"/>\n"
        "    <qemu:arg value=\"branch-trace,agent=/run/a,,b.sock\"/>\n"
        "  </qemu:commandline>\n"
        "</domain>\n");
}

/* Without --tcg the type stays. */
static void test_kvm_stays(void)
{
    g_autofree char *on = enable(sample, &plain, NULL);

    g_assert_nonnull(strstr(on, "<domain type=\"kvm\">"));
    g_assert_nonnull(strstr(on, "host-passthrough"));
    g_assert_nonnull(strstr(on, "value=\"branch-trace\""));
}

/* KVM traces guests with 64 bits only, QEMU all. */
static void test_bits(void)
{
    static const struct {
        const char *xml;        /* of a domain with <os><type arch='%s'> */
        const char *arch;
        bool bits_64;
    } cpus[] = {
        { "", "x86_64", true },
        { "", "i686", false },
        { "<cpu mode='host-passthrough'/>", "x86_64", true },
        { "<cpu><model>Haswell</model></cpu>", "x86_64", true },
        { "<cpu><model>qemu32</model></cpu>", "x86_64", false },
        { "<cpu mode='custom'><model fallback='allow'> pentium3 </model>"
          "<feature policy='require' name='sse2'/></cpu>", "x86_64", false },
        { "<cpu><model>pentium3</model>"
          "<feature policy='require' name='lm'/></cpu>", "x86_64", true },
        { "<cpu><model>Haswell</model><feature name='lm' policy='disable'/>"
          "</cpu>", "x86_64", false },
        { "<cpu mode='host-model'><feature name='lm' policy='forbid'/></cpu>",
          "x86_64", false },
    };
    static const struct tracing_options tcg = {
        "/opt/qemu", NULL, true
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cpus); i++) {
        g_autofree char *text = g_strdup_printf(
            "<domain type='kvm'><os><type arch='%s'>hvm</type></os>%s</domain>",
            cpus[i].arch, cpus[i].xml);
        g_autofree char *emulated = enable(text, &tcg, NULL);
        g_autoptr(xmlDoc) doc = parse(text);
        g_autoptr(GError) error = NULL;
        struct tracing_state state;

        g_assert_true(tracing_inspect(doc, &state, NULL));
        g_assert_cmpint(state.bits_64, ==, cpus[i].bits_64);
        tracing_state_clear(&state);
        g_assert_nonnull(strstr(emulated, "type=\"qemu\""));
        g_assert_cmpint(tracing_enable(doc, &plain, NULL, &error), ==,
                        cpus[i].bits_64);
        if (!cpus[i].bits_64) {
            g_assert_error(error, DOMAIN_ERROR,
                           DOMAIN_ERROR_UNSUPPORTED);
            g_assert_nonnull(strstr(error->message, "--tcg"));
        }
    }
}

/* What is as it should be is left alone, and is not undone, either. */
static void test_there_already(void)
{
    static const char text[] =
        "<domain" QEMU_NS " type=\"qemu\">\n"
        "  <features>\n    <vmcoreinfo state=\"on\"/>\n  </features>\n"
        "  <memoryBacking>\n    <source type=\"memfd\"/>\n"
        "    <access mode=\"shared\"/>\n  </memoryBacking>\n"
        "  <devices>\n    <emulator>\n/opt/qemu</emulator>\n  </devices>\n"
        "  <qemu:commandline>\n    <qemu:arg value=\"-device\"/>\n"
        "    <qemu:arg value=\"branch-trace,agent=/x\"/>\n"
        "  </qemu:commandline>\n</domain>\n";
    static const struct tracing_options any = {
        "/opt/qemu", "/run/agent", false, true
    };
    GPtrArray *changes;
    g_autofree char *on = enable(text, &plain, &changes);
    g_autofree char *same = enable(text, &any, NULL);
    g_autofree char *off = disable(on, NULL);

    g_assert_cmpuint(changes->len, ==, 0);
    g_ptr_array_unref(changes);
    g_assert_cmpstr(off, ==, text);
    g_assert_cmpstr(same, ==, on);
}

/* What somebody has changed since stays. */
static void test_changed_since(void)
{
    g_autofree char *on = enable(sample, &full, NULL), *off = NULL;
    g_auto(GStrv) pieces = g_strsplit(on, "<emulator>/opt/other", 2);
    g_autofree char *edited = g_strjoinv("<emulator>/new", pieces);
    g_auto(GStrv) more = g_strsplit(edited, "<source type=\"memfd\"/>", 2);
    g_autofree char *again = g_strjoinv("<source type=\"memfd\"/><hugepages/>",
                                        more);
    GPtrArray *changes;
    unsigned i, kept = 0;

    off = disable(again, &changes);
    g_assert_nonnull(strstr(off, "<domain type=\"kvm\">"));
    g_assert_nonnull(strstr(off, "<emulator>/new</emulator>"));
    g_assert_nonnull(strstr(off, "<hugepages/>"));
    g_assert_null(strstr(off, "memfd"));
    g_assert_null(strstr(off, "backtrail"));
    for (i = 0; i < changes->len; i++) {
        struct tracing_change *c = g_ptr_array_index(changes, i);

        if (c->kept) {
            kept++;
            g_assert_cmpstr(c->where, ==, "devices/emulator");
            g_assert_cmpstr(c->was, ==, "/opt/other");
            g_assert_cmpstr(c->now, ==, "/new");
        }
    }
    g_assert_cmpuint(kept, ==, 1);
    g_assert_cmpuint(changes->len, ==, 7);
    g_ptr_array_unref(changes);
}

static const char channel[] =
    "    <channel type=\"unix\">\n"
    "      <source mode=\"connect\" path=\"/run/agent.names\">\n"
    "        <reconnect enabled=\"yes\" timeout=\"5\"/>\n"
    "        <seclabel model=\"dac\" relabel=\"no\"/>\n"
    "      </source>\n"
    "      <target type=\"virtio\" name=\"org.backtrail.guest.0\"/>\n"
    "    </channel>\n";

/* A text in the place of another one, which is there once */
static char *replace(const char *text, const char *what, const char *with)
{
    g_auto(GStrv) pieces = g_strsplit(text, what, -1);

    g_assert_cmpuint(g_strv_length(pieces), ==, 2);
    return g_strjoinv(with, pieces);
}

/* The port for names, and the controller that libvirt adds for it */
static void test_guest_names(void)
{
    static const char controller[] =
        "    <controller type=\"virtio-serial\" index=\"0\"/>\n";
    static const char agent[] =
        "    <channel type=\"unix\">\n      <target type=\"virtio\" "
        "name=\"org.qemu.guest_agent.0\"/>\n    </channel>\n";
    g_autofree char *on = enable(sample, &names, NULL);
    g_autofree char *more = g_strconcat(channel, controller, NULL);
    g_autofree char *added = replace(on, channel, more);
    g_autofree char *off = disable(added, NULL);
    g_autofree char *rest = g_strconcat(more, agent, NULL);
    g_autofree char *used = replace(on, channel, rest);
    g_autofree char *still = disable(used, NULL);
    g_autofree char *had = replace(
        sample, "  </devices>\n",
        "    <controller type=\"virtio-serial\" index=\"0\"/>\n"
        "  </devices>\n");
    g_autofree char *of_had = enable(had, &names, NULL);
    g_autofree char *back = disable(of_had, NULL);
    g_autofree char *moved = replace(on, "/run/agent.names\">", "/x\">");
    g_autofree char *kept = NULL;
    g_autoptr(xmlDoc) doc = parse(on), plain_doc = parse(sample);
    struct tracing_state state;
    GPtrArray *changes;
    unsigned n = 0;

    g_assert_nonnull(strstr(on, channel));
    /* What libvirt adds goes with it, unless another one needs it by then. */
    g_assert_cmpstr(off, ==, sample);
    g_assert_nonnull(strstr(still, controller));
    g_assert_nonnull(strstr(still, agent));
    g_assert_null(strstr(still, "org.backtrail"));
    g_assert_cmpstr(back, ==, had);
    /* One that was changed since stays. */
    kept = disable(moved, &changes);
    g_assert_nonnull(strstr(kept, "org.backtrail.guest.0"));
    for (unsigned i = 0; i < changes->len; i++) {
        n += ((struct tracing_change *)g_ptr_array_index(changes,
                                                         i))->kept;
    }
    g_assert_cmpuint(n, ==, 1);
    g_ptr_array_unref(changes);
    g_assert_true(tracing_inspect(doc, &state, NULL));
    g_assert_true(state.guest_names);
    tracing_state_clear(&state);
    g_assert_true(tracing_inspect(plain_doc, &state, NULL));
    g_assert_false(state.guest_names);
    tracing_state_clear(&state);
}

static void refuse(const char *text,
                   const struct tracing_options *options, int code,
                   const char *why)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(xmlDoc) doc = parse(text);

    g_assert_false(tracing_enable(doc, options, NULL, &error));
    g_assert_error(error, DOMAIN_ERROR, code);
    if (!strstr(error->message, why)) {
        g_error("'%s' does not say '%s'", error->message, why);
    }
}

static void test_refused(void)
{
    static const struct tracing_options relative = { "qemu" };
    static const struct tracing_options control = { "/a\nb" };
    static const struct tracing_options bytes = { "/a\xff" };
    static const struct tracing_options agent = { "/a", "b" };

    refuse("<network/>", &plain, DOMAIN_ERROR_XML, "<domain>");
    refuse("<domain xmlns='x'/>", &plain, DOMAIN_ERROR_XML, "<domain>");
    refuse("<domain/>", &plain, DOMAIN_ERROR_UNSUPPORTED, "type");
    refuse("<domain type='xen'/>", &plain, DOMAIN_ERROR_UNSUPPORTED,
           "xen");
    refuse("<domain type='qemu'><os><type arch='riscv64'/></os></domain>",
           &plain, DOMAIN_ERROR_UNSUPPORTED, "riscv64");
    refuse("<domain type='qemu'" QEMU_NS "><qemu:commandline>"
           "<qemu:arg value='-device'/><qemu:arg "
           "value='{\"driver\": \"branch-trace\"}'/></qemu:commandline>"
           "</domain>", &full, DOMAIN_ERROR_CONFLICT, "only one");
    refuse("<domain type='qemu'" QEMU_NS "><qemu:commandline>"
           "<qemu:arg value='-device'/><qemu:arg value='branch-trace'/>"
           "</qemu:commandline></domain>", &full,
           DOMAIN_ERROR_CONFLICT, "only one");
    refuse(sample, &relative, DOMAIN_ERROR_UNSUPPORTED, "emulator");
    refuse(sample, &control, DOMAIN_ERROR_UNSUPPORTED, "emulator");
    refuse(sample, &bytes, DOMAIN_ERROR_UNSUPPORTED, "emulator");
    refuse(sample, &agent, DOMAIN_ERROR_UNSUPPORTED, "agent");
    refuse("<domain type='qemu'><devices><channel type='pty'><target "
           "type='virtio' name='org.backtrail.guest.0'/></channel></devices>"
           "</domain>", &names, DOMAIN_ERROR_CONFLICT,
           "omit --guest-names");
}

/* Notes that were spoiled */
static void test_bad_record(void)
{
    static const char *const notes[] = {
        "<b:x/>", "<b:value/>", "<b:value element='..' now='x'/>",
        "<b:value element='devices/emulator'/>",
        "<b:value element='devices/emulator' attribute='x' now='x'/>",
        "<b:value element='devices/emulator' now='x' created='3'/>",
        "<b:value element='devices/emulator' now='x' created='-1'/>",
        "<b:value element='devices/emulator' now='x' created='11'/>",
        "<b:value element='.' attribute='type' now='x' created='1'/>",
        "<b:value element='devices/emulator' now='/x' was='&lt;a>'/>",
        "<b:device/>", "<b:device now='e1000'/>",
        "<b:device now='branch-trace' created='2'/>",
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(notes); i++) {
        g_autofree char *text = g_strdup_printf(
            "<domain type='kvm'><devices><emulator>/x</emulator></devices>"
            "<metadata><b:domain xmlns:b='" TRACING_NAMESPACE "'>%s"
            "</b:domain></metadata></domain>", notes[i]);
        g_autoptr(GError) error = NULL;
        g_autoptr(xmlDoc) doc = parse(text);

        g_assert_false(tracing_disable(doc, NULL, &error));
        g_assert_error(error, DOMAIN_ERROR, DOMAIN_ERROR_RECORD);
    }
}

/* Notes that were made twice */
static void test_two_records(void)
{
    g_autofree char *off = disable(
        "<domain type='kvm'><metadata>"
        "<domain xmlns='" TRACING_NAMESPACE "'/>"
        "<domain created='1' xmlns='" TRACING_NAMESPACE "'/>"
        "</metadata></domain>", NULL);

    g_assert_cmpstr(off, ==, "<domain type=\"kvm\"/>\n");
}

static void test_inspect(void)
{
    static const struct {
        const char *value;
        bool root_entry;
    } devices[] = {
        { "branch-trace", false },
        { "branch-trace,agent=/run/kvm-root-entry", false },
        { "branch-trace,kvm-root-entry=300", true },
        { "{\"driver\": \"branch-trace\", \"kvm-root-entry\": 300}", true },
        { "branch-trace,kvm-guest-window=on", true },
        { "branch-trace,kvm-guest-window=off", false },
        { "{\"driver\": \"branch-trace\", \"kvm-guest-window\": true}", true },
        { "{\"driver\": \"branch-trace\", \"kvm-guest-window\":false}", false },
    };
    static const struct {
        const char *mode, *xml;
        bool partly;
    } parts[] = {
        { "shared", "<devices><memory model='dimm'/></devices>", false },
        { "shared", "<devices><memory model='dimm'/>"
          "<memory model='dimm' access='private'/></devices>", true },
        { "shared", "<devices><memory access='shared'/></devices>", false },
        { "shared", "<cpu><numa><cell memAccess='shared'/>"
          "<cell memAccess='private'/></numa></cpu>", true },
        { "private", "<devices><memory access='private'/></devices>", false },
    };
    g_autofree char *on = enable(sample, &full, NULL);
    g_autoptr(xmlDoc) before = parse(sample), after = parse(on);
    g_autoptr(xmlDoc) panic = parse(
        "<domain><devices><panic model='isa'/></devices></domain>");
    struct tracing_state state;

    g_assert_true(tracing_inspect(before, &state, NULL));
    g_assert_cmpstr(state.emulator, ==, "/usr/bin/kvm");
    g_assert_null(state.device);
    g_assert_true(state.kvm);
    g_assert_false(state.noted || state.shared || state.vmcoreinfo ||
                   state.panic);
    tracing_state_clear(&state);

    g_assert_true(tracing_inspect(after, &state, NULL));
    g_assert_cmpstr(state.emulator, ==, "/opt/other");
    g_assert_cmpstr(state.device, ==, "branch-trace,agent=/run/a,,b.sock");
    g_assert_cmpstr(state.agent, ==, "/run/a,b.sock");
    g_assert_false(state.kvm);
    g_assert_true(state.noted && state.shared && state.vmcoreinfo);
    g_assert_false(state.partly);
    tracing_state_clear(&state);

    g_assert_true(tracing_inspect(panic, &state, NULL));
    g_assert_true(state.panic);
    tracing_state_clear(&state);

    for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
        g_autofree char *text = g_strdup_printf(
            "<domain><memoryBacking><source type='memfd'/>"
            "<access mode='%s'/></memoryBacking>%s</domain>",
            parts[i].mode, parts[i].xml);
        g_autoptr(xmlDoc) doc = parse(text);

        g_assert_true(tracing_inspect(doc, &state, NULL));
        g_assert_cmpint(state.partly, ==, parts[i].partly);
        tracing_state_clear(&state);
    }

    for (unsigned i = 0; i < G_N_ELEMENTS(devices); i++) {
        g_autofree char *text = g_strdup_printf(
            "<domain" QEMU_NS "><qemu:commandline><qemu:arg value='-device'/>"
            "<qemu:arg value='%s'/></qemu:commandline></domain>",
            devices[i].value);
        g_autoptr(xmlDoc) doc = parse(text);

        g_assert_true(tracing_inspect(doc, &state, NULL));
        g_assert_nonnull(state.device);
        g_assert_cmpint(state.root_entry, ==, devices[i].root_entry);
        tracing_state_clear(&state);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tracing/undone", test_undone);
    g_test_add_func("/tracing/enabled", test_enabled);
    g_test_add_func("/tracing/kvm-stays", test_kvm_stays);
    g_test_add_func("/tracing/bits", test_bits);
    g_test_add_func("/tracing/there-already", test_there_already);
    g_test_add_func("/tracing/changed-since", test_changed_since);
    g_test_add_func("/tracing/guest-names", test_guest_names);
    g_test_add_func("/tracing/refused", test_refused);
    g_test_add_func("/tracing/bad-record", test_bad_record);
    g_test_add_func("/tracing/two-records", test_two_records);
    g_test_add_func("/tracing/inspect", test_inspect);
    return g_test_run();
}
