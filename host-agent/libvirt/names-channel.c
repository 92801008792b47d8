/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The channel through which a guest can say names: see names-channel.h
 */

#include "backtrail/guest-names.h"
#include "libvirt/names-channel.h"

static bool is_virtio(xmlNode *node)
{
    xmlNode *target = document_child(node, "target", NULL);
    g_autofree char *type = target ? document_get(target, "type") :
                            NULL;

    return !g_strcmp0(type, "virtio");
}

xmlNode *names_channel_find(xmlNode *devices)
{
    for (xmlNode *node = devices ? devices->children : NULL; node;
         node = node->next) {
        xmlNode *target = document_is(node, "channel", NULL) ?
                          document_child(node, "target", NULL) : NULL;
        g_autofree char *name = target ? document_get(target, "name") :
                                NULL;

        if (!g_strcmp0(name, BTRAIL_GUEST_PORT)) {
            return node;
        }
    }
    return NULL;
}

char *names_channel_path(xmlNode *channel)
{
    xmlNode *source = document_child(channel, "source", NULL);
    g_autofree char *mode = source ? document_get(source, "mode") :
                            NULL;

    return g_strcmp0(mode, "connect") ? NULL :
           document_get(source, "path");
}

/* The controller of such channels, or NULL */
static xmlNode *find_controller(xmlNode *devices)
{
    for (xmlNode *node = devices ? devices->children : NULL; node;
         node = node->next) {
        g_autofree char *type = document_is(node, "controller", NULL) ?
                                document_get(node, "type") : NULL;

        if (!g_strcmp0(type, "virtio-serial")) {
            return node;
        }
    }
    return NULL;
}

/* Does anything of the domain use such a controller? */
static bool uses_controller(xmlNode *devices)
{
    for (xmlNode *node = devices->children; node; node = node->next) {
        if ((document_is(node, "channel", NULL) ||
             document_is(node, "console", NULL)) && is_virtio(node)) {
            return true;
        }
    }
    return false;
}

static void fill(xmlNode *channel, const char *path)
{
    xmlNode *source, *label, *reconnect, *target;

    document_set(channel, "type", "unix");
    source = document_add(channel, "source", NULL, true);
    document_set(source, "mode", "connect");
    document_set(source, "path", path);
    /* The guest starts without the service, and outlives it. */
    reconnect = document_add(source, "reconnect", NULL, true);
    document_set(reconnect, "enabled", "yes");
    document_set(reconnect, "timeout", "5");
    /* libvirt would give the socket of all guests to this one. */
    label = document_add(source, "seclabel", NULL, false);
    document_set(label, "model", "dac");
    document_set(label, "relabel", "no");
    target = document_add(channel, "target", NULL, false);
    document_set(target, "type", "virtio");
    document_set(target, "name", BTRAIL_GUEST_PORT);
}

bool names_channel_add(xmlNode *devices, const char *path)
{
    bool lacks = !find_controller(devices);

    fill(document_add(devices, "channel", NULL, false), path);
    return lacks;
}

void names_channel_remove(xmlNode *devices, xmlNode *channel, bool created)
{
    xmlNode *controller;

    document_remove(channel);
    controller = find_controller(devices);
    if (created && controller && !uses_controller(devices)) {
        document_remove(controller);
    }
}
