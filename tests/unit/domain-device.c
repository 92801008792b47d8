/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of libvirt/domain-device.h
 */

#include <string.h>

#include "libvirt/domain-device.h"

#define BEGIN \
    "<domain xmlns:q=\"http://libvirt.org/schemas/domain/qemu/1.0\">\n"
#define END "</domain>\n"

static xmlDoc *parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    xmlDoc *doc = document_parse(text, strlen(text), &error);

    g_assert_no_error(error);
    return doc;
}

/* The value of what is found, or NULL */
static char *find(const char *text, const char *want)
{
    g_autoptr(xmlDoc) doc = parse(text);
    xmlNode *option = NULL;
    xmlNode *found = domain_device_find(xmlDocGetRootElement(doc), want,
                                        &option);
    g_autofree char *name = option ? document_get(option, "value") : NULL;

    if (found) {
        g_assert_true(g_str_has_suffix(name, "-device"));
    }
    return found ? document_get(found, "value") : NULL;
}

static void test_is(void)
{
    g_assert_true(domain_device_is("branch-trace"));
    g_assert_true(domain_device_is("branch-trace,agent=/a"));
    g_assert_true(domain_device_is("{\"driver\": \"branch-trace\"}"));
    g_assert_false(domain_device_is("branch-trace-pci"));
    g_assert_false(domain_device_is("virtio-net,id=branch-trace"));
    g_assert_false(domain_device_is("{\"driver\": \"branch-trace2\"}"));
    g_assert_false(domain_device_is(" branch-trace"));
    g_assert_false(domain_device_is(""));
}

/* An agent's path comes back, whatever it has in it. */
static void test_agent(void)
{
    static const char letters[] = "a,=/ \"";

    for (unsigned n = 0; n < 2000; n++) {
        g_autoptr(GString) agent = g_string_new("/");
        g_autofree char *argument = NULL, *back = NULL, *more = NULL;
        g_autofree char *again = NULL;

        for (int i = g_test_rand_int_range(0, 12); i; i--) {
            g_string_append_c(agent, letters[g_test_rand_int_range(
                0, sizeof(letters) - 1)]);
        }
        argument = domain_device_argument(agent->str);
        g_assert_true(domain_device_is(argument));
        back = domain_device_agent(argument);
        g_assert_cmpstr(back, ==, agent->str);
        more = g_strconcat(argument, ",id=x", NULL);
        again = domain_device_agent(more);
        g_assert_cmpstr(again, ==, agent->str);
    }
    g_assert_null(domain_device_agent("branch-trace"));
    g_assert_null(domain_device_agent("{\"driver\": \"branch-trace\", "
                                      "\"x\": \",agent=/a\"}"));
}

static void test_find(void)
{
    /* Elements of others, an option without a value, and both names of it */
    static const char text[] = BEGIN
        "<commandline><q:arg value=\"-device\"/>"
        "<q:arg value=\"branch-trace,agent=/no\"/></commandline>\n"
        "<q:commandline><q:env name=\"a\"/>"
        "<q:arg value=\"-drive\"/><q:arg value=\"branch-trace\"/>"
        "<q:arg value=\"-device\"/><arg value=\"branch-trace,agent=/no\"/>"
        "<!-- x --><q:arg value=\"e1000\"/></q:commandline>\n"
        "<q:commandline><q:arg value=\"--device\"/>"
        "<q:arg value=\"branch-trace,agent=/a\"/>"
        "<q:arg value=\"-device\"/>"
        "<q:arg value=\"branch-trace,agent=/b\"/>"
        "<q:arg value=\"-device\"/></q:commandline>\n" END;
    g_autofree char *any = find(text, NULL);
    g_autofree char *other = find(text, "branch-trace,agent=/b");
    g_autofree char *card = find(text, "e1000");

    g_assert_cmpstr(any, ==, "branch-trace,agent=/a");
    g_assert_cmpstr(other, ==, "branch-trace,agent=/b");
    g_assert_cmpstr(card, ==, "e1000");
    g_assert_null(find(text, "branch-trace"));
    g_assert_null(find(BEGIN END, NULL));
    g_assert_null(find(BEGIN "<q:commandline/>" END, NULL));
    g_assert_null(find(BEGIN "<q:commandline><q:arg/><q:arg/>"
                       "</q:commandline>" END, NULL));
}

/* It is found again, beside what is there, and without a name for the space. */
static void test_add(void)
{
    static const char *const texts[] = {
        "<domain>\n</domain>\n", "<domain/>\n", BEGIN END,
        "<domain>\n  <commandline "
        "xmlns=\"http://libvirt.org/schemas/domain/qemu/1.0\">\n"
        "    <arg value=\"-S\"/>\n  </commandline>\n</domain>\n",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(xmlDoc) doc = parse(texts[i]);
        g_autofree char *text = NULL, *found = NULL;
        bool created = domain_device_add(xmlDocGetRootElement(doc),
                                         "branch-trace,agent=/a");

        g_assert_cmpint(created, ==, !strstr(texts[i], "commandline"));
        text = document_text(doc);
        found = find(text, NULL);
        g_assert_cmpstr(found, ==, "branch-trace,agent=/a");
        g_assert_true(!strstr(texts[i], "-S") || strstr(text, "-S"));
    }
}

static void test_root_entry(void)
{
    g_assert_true(domain_device_has_root_entry(
        "branch-trace,kvm-root-entry=300"));
    g_assert_true(domain_device_has_root_entry(
        "{\"driver\": \"branch-trace\", \"kvm-root-entry\": 300}"));
    g_assert_true(domain_device_has_root_entry(
        "branch-trace,kvm-guest-window=on"));
    g_assert_true(domain_device_has_root_entry(
        "{\"driver\":\"branch-trace\",\"kvm-guest-window\":true}"));
    g_assert_false(domain_device_has_root_entry(
        "branch-trace,kvm-guest-window=off"));
    g_assert_false(domain_device_has_root_entry("branch-trace"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/domain-device/is", test_is);
    g_test_add_func("/domain-device/agent", test_agent);
    g_test_add_func("/domain-device/find", test_find);
    g_test_add_func("/domain-device/add", test_add);
    g_test_add_func("/domain-device/root-entry", test_root_entry);
    return g_test_run();
}
