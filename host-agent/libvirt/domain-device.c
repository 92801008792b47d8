/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The branch-trace device of a domain: see domain-device.h
 */

#include <string.h>

#include "libvirt/domain-device.h"

#define QEMU_NAMESPACE  "http://libvirt.org/schemas/domain/qemu/1.0"
#define DEVICE          "branch-trace"

static xmlNode *next_argument(xmlNode *node)
{
    while (node && !document_is(node, "arg", QEMU_NAMESPACE)) {
        node = node->next;
    }
    return node;
}

bool domain_device_is(const char *value)
{
    static const char json[] = "\"" DEVICE "\"";

    return g_str_has_prefix(value, DEVICE) ?
           !value[strlen(DEVICE)] || value[strlen(DEVICE)] == ',' :
           *value == '{' && strstr(value, json);
}

xmlNode *domain_device_find(xmlNode *root, const char *want, xmlNode **option)
{
    xmlNode *line, *arg, *value;

    for (line = root->children; line; line = line->next) {
        if (!document_is(line, "commandline", QEMU_NAMESPACE)) {
            continue;
        }
        for (arg = next_argument(line->children); arg; arg = value) {
            g_autofree char *name = document_get(arg, "value");
            g_autofree char *text = NULL;

            value = next_argument(arg->next);
            if (!value || (g_strcmp0(name, "-device") &&
                           g_strcmp0(name, "--device"))) {
                continue;
            }
            text = document_get(value, "value");
            if (text && (want ? !strcmp(text, want) : domain_device_is(text))) {
                *option = arg;
                return value;
            }
        }
    }
    return NULL;
}

bool domain_device_has_root_entry(const char *device)
{
    return strstr(device, ",kvm-root-entry=") ||
           strstr(device, "\"kvm-root-entry\"") ||
           strstr(device, ",kvm-guest-window=on") ||
           strstr(device, "\"kvm-guest-window\": true") ||
           strstr(device, "\"kvm-guest-window\":true");
}

/* In the value of an option a comma is written twice. */
char *domain_device_argument(const char *agent)
{
    g_auto(GStrv) pieces = agent ? g_strsplit(agent, ",", -1) : NULL;
    g_autofree char *escaped = pieces ? g_strjoinv(",,", pieces) : NULL;

    return escaped ? g_strdup_printf(DEVICE ",agent=%s", escaped) :
           g_strdup(DEVICE);
}

char *domain_device_agent(const char *device)
{
    static const char property[] = ",agent=";
    const char *at = strstr(device, property);
    GString *agent;

    if (!at || *device == '{') {
        return NULL;
    }
    agent = g_string_new(NULL);
    for (at += strlen(property); *at && (*at != ',' || at[1] == ','); at++) {
        at += *at == ',';
        g_string_append_c(agent, *at);
    }
    return g_string_free(agent, FALSE);
}

static void add_argument(xmlNode *line, xmlNs *ns, bool fresh,
                         const char *value)
{
    document_set(document_add(line, "arg", ns, fresh), "value",
                 value);
}

bool domain_device_add(xmlNode *root, const char *value)
{
    xmlNode *line = document_child(root, "commandline", QEMU_NAMESPACE);
    bool created = !line;
    xmlNs *ns;

    if (created) {
        line = document_add(root, "commandline", NULL, false);
        ns = xmlSearchNsByHref(root->doc, root,
                               (const xmlChar *)QEMU_NAMESPACE);
        if (!ns || !ns->prefix) {
            ns = xmlNewNs(line, (const xmlChar *)QEMU_NAMESPACE,
                          (const xmlChar *)"qemu");
        }
        xmlSetNs(line, ns);
    }
    add_argument(line, line->ns, created, "-device");
    add_argument(line, line->ns, created, value);
    return created;
}
