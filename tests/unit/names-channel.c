/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of libvirt/names-channel.h
 */

#include <string.h>

#include "libvirt/names-channel.h"

#define PORT \
    "<target type=\"virtio\" name=\"org.backtrail.guest.0\"/></channel>"
#define OTHER \
    "<channel type=\"unix\"><target type=\"virtio\" name=\"x\"/></channel>"
#define CONTROLLER "<controller type=\"virtio-serial\"/>"

static xmlDoc *parse(const char *inner)
{
    g_autofree char *text = g_strconcat("<devices>", inner, "</devices>\n",
                                        NULL);
    g_autoptr(GError) error = NULL;
    xmlDoc *doc = document_parse(text, strlen(text), &error);

    g_assert_no_error(error);
    return doc;
}

/* What a channel of ours connects to; "none" if there is no such channel */
static char *path_of(const char *inner)
{
    g_autoptr(xmlDoc) doc = parse(inner);
    xmlNode *channel = names_channel_find(xmlDocGetRootElement(doc));

    return channel ? names_channel_path(channel) : g_strdup("none");
}

static void test_path(void)
{
    static const struct {
        const char *inner;
        const char *path;
    } all[] = {
        { "", "none" },
        { OTHER, "none" },
        { "<channel/><channel><target/></channel>", "none" },
        { "<channel>" PORT, NULL },
        { "<channel><source/>" PORT, NULL },
        { "<channel><source mode=\"bind\" path=\"/a\"/>" PORT, NULL },
        { "<channel><source mode=\"connect\"/>" PORT, NULL },
        { OTHER "<channel><source mode=\"connect\" path=\"/a\"/>" PORT, "/a" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++) {
        g_autofree char *path = path_of(all[i].inner);

        g_assert_cmpstr(path, ==, all[i].path);
    }
    g_assert_null(names_channel_find(NULL));
}

/* Whether a controller is added, and is there when the channel goes */
static void check_removed(const char *before, const char *meanwhile,
                          const char *after)
{
    g_autoptr(xmlDoc) doc = parse(before), left = NULL;
    xmlNode *devices = xmlDocGetRootElement(doc);
    bool created = names_channel_add(devices, "/run/names");
    xmlNode *channel = names_channel_find(devices);
    g_autofree char *path = names_channel_path(channel);
    g_autofree char *text = NULL, *want = NULL;

    g_assert_cmpstr(path, ==, "/run/names");
    g_assert_cmpint(created, ==, !strstr(before, CONTROLLER));
    left = parse(meanwhile);
    for (xmlNode *node = xmlDocGetRootElement(left)->children; node;
         node = node->next) {
        xmlAddChild(devices, xmlDocCopyNode(node, doc, 1));
    }
    names_channel_remove(devices, channel, created);
    g_assert_null(names_channel_find(devices));
    text = document_text(doc);
    want = g_strconcat(after, "</devices>", NULL);
    g_assert_nonnull(strstr(text, want));
}

static void test_removed(void)
{
    check_removed(OTHER, "", OTHER);
    check_removed(OTHER CONTROLLER, "", CONTROLLER);
    /* What libvirt has added goes, unless another one uses it by then. */
    check_removed("<memballoon/>", CONTROLLER, "<memballoon/>");
    check_removed("<memballoon/>", CONTROLLER OTHER, CONTROLLER OTHER);
    check_removed("<memballoon/>", CONTROLLER
                  "<console type=\"pty\"><target type=\"virtio\"/></console>",
                  "</console>");
    check_removed("<memballoon/>", CONTROLLER
                  "<console type=\"pty\"><target type=\"serial\"/></console>",
                  "<target type=\"serial\"/></console>");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/names-channel/path", test_path);
    g_test_add_func("/names-channel/removed", test_removed);
    return g_test_run();
}
