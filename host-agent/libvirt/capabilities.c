/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Capabilities of libvirt: see capabilities.h
 */

#include <string.h>

#include "libvirt/capabilities.h"

/* The first element of this name at or after @node */
static xmlNode *next_named(xmlNode *node, const char *name)
{
    while (node && !document_is(node, name, NULL)) {
        node = node->next;
    }
    return node;
}

#define for_each_child(child, parent, name) \
    for (child = next_named((parent) ? (parent)->children : NULL, name); \
         child; child = next_named(child->next, name))

static char *child_content(const xmlNode *parent, const char *name)
{
    xmlNode *child = document_child(parent, name, NULL);

    return child ? document_content(child) : NULL;
}

static xmlNode *find_model(xmlDoc *host, const char *model)
{
    xmlNode *root = xmlDocGetRootElement(host), *child;

    root = root ? document_child(root, "host", NULL) : NULL;
    for_each_child(child, root, "secmodel") {
        g_autofree char *name = child_content(child, "model");

        if (!g_strcmp0(name, model)) {
            return child;
        }
    }
    return NULL;
}

bool capabilities_confines(xmlDoc *host, xmlDoc *domain,
                           const char *model)
{
    xmlNode *root = domain ? xmlDocGetRootElement(domain) : NULL, *label;

    for_each_child(label, root, "seclabel") {
        g_autofree char *type = document_get(label, "type");
        g_autofree char *of = document_get(label, "model");

        if (!g_strcmp0(type, "none") && (!of || !strcmp(of, model))) {
            return false;
        }
    }
    return find_model(host, model);
}

char *capabilities_label(xmlDoc *host, const char *model,
                         const char *type)
{
    xmlNode *secmodel = find_model(host, model), *label;

    for_each_child(label, secmodel, "baselabel") {
        g_autofree char *of = document_get(label, "type");

        if (!g_strcmp0(of, type)) {
            return document_content(label);
        }
    }
    return NULL;
}

/* Kinds of devices: the attribute of an element, or of an inner one, and the
 * name that domain capabilities have for its values */
static const struct {
    const char *element;
    const char *inner;
    const char *attribute;
    const char *values;
} kinds[] = {
    { "graphics", NULL, "type", "type" },
    { "video", "model", "type", "modelType" },
    { "channel", NULL, "type", "type" },
    { "redirdev", NULL, "bus", "bus" },
    { "audio", NULL, "type", "type" },
};

/* The values of a kind in domain capabilities, with commas between; NULL if the
 * kind is missing, "" if it has none */
static char *offered(xmlNode *devices, unsigned kind)
{
    xmlNode *node = document_child(devices, kinds[kind].element, NULL);
    xmlNode *child, *value;

    for_each_child(child, node, "enum") {
        g_autofree char *name = document_get(child, "name");
        g_autoptr(GPtrArray) list = NULL;

        if (g_strcmp0(name, kinds[kind].values)) {
            continue;
        }
        list = g_ptr_array_new_with_free_func(g_free);
        for_each_child(value, child, "value") {
            g_ptr_array_add(list, document_content(value));
        }
        g_ptr_array_add(list, NULL);
        return g_strjoinv(", ", (char **)list->pdata);
    }
    return NULL;
}

static bool list_has(const char *list, const char *value)
{
    g_auto(GStrv) words = g_strsplit(list, ", ", -1);

    return g_strv_contains((const char *const *)words, value);
}

static void add_once(GPtrArray *list, char *text)
{
    if (g_ptr_array_find_with_equal_func(list, text, g_str_equal, NULL)) {
        g_free(text);
    } else {
        g_ptr_array_add(list, text);
    }
}

GStrv capabilities_lacks(xmlDoc *emulator, xmlDoc *domain)
{
    xmlNode *has = xmlDocGetRootElement(emulator);
    xmlNode *wants = xmlDocGetRootElement(domain), *node;
    GPtrArray *list = g_ptr_array_new();

    has = has ? document_child(has, "devices", NULL) : NULL;
    wants = wants ? document_child(wants, "devices", NULL) : NULL;
    for (unsigned i = 0; has && i < G_N_ELEMENTS(kinds); i++) {
        g_autofree char *values = offered(has, i);

        for_each_child(node, values ? wants : NULL, kinds[i].element) {
            xmlNode *inner = kinds[i].inner ?
                             document_child(node, kinds[i].inner, NULL) :
                             node;
            g_autofree char *value =
                inner ? document_get(inner, kinds[i].attribute) : NULL;

            if (value && !list_has(values, value)) {
                add_once(list, g_strdup_printf("%s of %s '%s' (it has %s)",
                                               kinds[i].element,
                                               kinds[i].attribute, value,
                                               *values ? values : "none"));
            }
        }
    }
    g_ptr_array_add(list, NULL);
    return (GStrv)g_ptr_array_free(list, FALSE);
}
