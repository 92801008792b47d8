/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Values of QEMU's options: see option-list.h
 */

#include <string.h>

#include "replay/option-list.h"

static void free_pair(void *opaque)
{
    struct option_pair *p = opaque;

    g_free(p->key);
    g_free(p->value);
    g_free(p);
}

static void add(GPtrArray *list, const char *key, const char *value)
{
    struct option_pair *p = g_new0(struct option_pair, 1);

    p->key = g_strdup(key);
    p->value = g_strdup(value);
    g_ptr_array_add(list, p);
}

/* The next element up to a single comma; moves @text past it. */
static char *take_element(const char **text)
{
    GString *out = g_string_new(NULL);
    const char *p = *text;

    while (*p && (*p != ',' || p[1] == ',')) {
        p += *p == ',';
        g_string_append_c(out, *p++);
    }
    *text = *p ? p + 1 : p;
    return g_string_free(out, FALSE);
}

GPtrArray *option_list_parse(const char *text, const char *implied)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(free_pair);

    for (bool first = true; *text; first = false) {
        g_autofree char *element = take_element(&text);
        char *equals = strchr(element, '=');

        if (equals) {
            *equals = 0;
            add(list, element, equals + 1);
        } else if (first && implied) {
            add(list, implied, element);
        } else if (*element) {
            add(list, element, NULL);
        }
    }
    return list;
}

static void append_escaped(GString *out, const char *text)
{
    for (; *text; text++) {
        if (*text == ',') {
            g_string_append_c(out, ',');
        }
        g_string_append_c(out, *text);
    }
}

char *option_list_format(const GPtrArray *list, const char *implied)
{
    GString *out = g_string_new(NULL);

    for (unsigned i = 0; i < list->len; i++) {
        const struct option_pair *p = g_ptr_array_index(list, i);

        if (i) {
            g_string_append_c(out, ',');
        }
        if (i || g_strcmp0(p->key, implied)) {
            append_escaped(out, p->key);
            if (p->value) {
                g_string_append_c(out, '=');
            }
        }
        append_escaped(out, p->value ? p->value : "");
    }
    return g_string_free(out, FALSE);
}

const char *option_list_get(const GPtrArray *list, const char *key)
{
    for (unsigned i = list->len; i--;) {
        const struct option_pair *p = g_ptr_array_index(list, i);

        if (!strcmp(p->key, key)) {
            return p->value ? p->value : "on";
        }
    }
    return NULL;
}

char *option_list_take(GPtrArray *list, const char *key)
{
    char *value = g_strdup(option_list_get(list, key));

    for (unsigned i = list->len; i--;) {
        const struct option_pair *p = g_ptr_array_index(list, i);

        if (!strcmp(p->key, key)) {
            g_ptr_array_remove_index(list, i);
        }
    }
    return value;
}

void option_list_set(GPtrArray *list, const char *key, const char *value)
{
    g_free(option_list_take(list, key));
    add(list, key, value);
}

const char *option_list_unknown(const GPtrArray *list,
                                const char *const *known)
{
    for (unsigned i = 0; i < list->len; i++) {
        const struct option_pair *p = g_ptr_array_index(list, i);

        if (!g_strv_contains(known, p->key)) {
            return p->key;
        }
    }
    return NULL;
}
