/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * JSON: see json.h
 */

#include <string.h>

#include "util/json.h"

#define MAX_DEPTH   64

/* The 16 bits of an escape, behind "\u"; -1 if that is none */
static gint32 parse_unit(const char *text)
{
    gint32 unit = 0;

    for (unsigned i = 0; i < 4; i++) {
        if (!g_ascii_isxdigit(text[i])) {
            return -1;
        }
        unit = unit << 4 | g_ascii_xdigit_value(text[i]);
    }
    return unit;
}

static gboolean is_surrogate(gint32 unit, gint32 first)
{
    return unit >= first && unit < first + 0x400;
}

/* The end of the escape at @text, behind its backslash; NULL if it is none */
static const char *skip_escape(const char *text)
{
    gint32 unit;

    if (*text != 'u') {
        return *text && strchr("\"\\/bfnrt", *text) ? text + 1 : NULL;
    }
    unit = parse_unit(text + 1);
    if (unit < 0 || is_surrogate(unit, 0xdc00)) {
        return NULL;
    }
    text += 5;
    if (is_surrogate(unit, 0xd800)) {
        if (text[0] != '\\' || text[1] != 'u' ||
            !is_surrogate(parse_unit(text + 2), 0xdc00)) {
            return NULL;
        }
        text += 6;
    }
    return text;
}

/* The end of the string at @text, behind its first quote; NULL if it is none */
static const char *skip_string(const char *text)
{
    while (text && *text != '"') {
        if ((unsigned char)*text < ' ') {
            return NULL;
        }
        text = *text == '\\' ? skip_escape(text + 1) : text + 1;
    }
    return text ? text + 1 : NULL;
}

/*
 * json-glib also accepts comments and strings in single quotes, and what is no
 * escape can hide the end of a string from it.  Where there is none of that,
 * it finds the strings where they are, and nests as deep as they show.
 */
static gboolean depth_is_sane(const char *text)
{
    unsigned depth = 0;

    while (text && *text) {
        if (*text == '"') {
            text = skip_string(text + 1);
            continue;
        }
        if (*text == '[' || *text == '{') {
            if (++depth > MAX_DEPTH) {
                return FALSE;
            }
        } else if (*text == ']' || *text == '}') {
            depth -= depth > 0;
        } else if (!g_ascii_isalnum(*text) &&
                   !strchr(" \t\r\n:,+-.", *text)) {
            return FALSE;
        }
        text++;
    }
    return text != NULL;
}

JsonNode *btrail_json_parse_object(const char *text)
{
    JsonNode *node;

    if (!g_utf8_validate(text, -1, NULL) || !depth_is_sane(text)) {
        return NULL;
    }
    node = json_from_string(text, NULL);
    if (node && !JSON_NODE_HOLDS_OBJECT(node)) {
        g_clear_pointer(&node, json_node_unref);
    }
    return node;
}

const char *btrail_json_string(JsonObject *object, const char *name)
{
    JsonNode *node = json_object_get_member(object, name);

    return node && json_node_get_value_type(node) == G_TYPE_STRING ?
           json_node_get_string(node) : NULL;
}

JsonObject *btrail_json_object(JsonObject *object, const char *name)
{
    JsonNode *node = json_object_get_member(object, name);

    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) :
           NULL;
}

JsonArray *btrail_json_array(JsonObject *object, const char *name)
{
    JsonNode *node = json_object_get_member(object, name);

    return node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) :
           NULL;
}

gint64 btrail_json_int(JsonObject *object, const char *name, gint64 fallback)
{
    JsonNode *node = json_object_get_member(object, name);

    return node && json_node_get_value_type(node) == G_TYPE_INT64 ?
           json_node_get_int(node) : fallback;
}

/* Adds the member @name, if it is not NULL, and those that follow. */
static void add_members(JsonObject *o, const char *name, va_list args)
{
    char hex[19];

    for (; name; name = va_arg(args, const char *)) {
        const char *member = name + 2, *text;

        g_assert(*name && name[1] == ':');
        switch (*name) {
        case 's':
        case 'S':
            text = va_arg(args, const char *);
            if (text || *name == 's') {
                json_object_set_string_member(o, member, text);
            }
            break;
        case 'u':
            json_object_set_int_member(o, member, va_arg(args, unsigned));
            break;
        case 'U':
            json_object_set_int_member(o, member, va_arg(args, gint64));
            break;
        case 'X':
            g_snprintf(hex, sizeof(hex), "0x%016" G_GINT64_MODIFIER "x",
                       va_arg(args, guint64));
            json_object_set_string_member(o, member, hex);
            break;
        case 'b':
            json_object_set_boolean_member(o, member, va_arg(args, int));
            break;
        case 'd':
            json_object_set_double_member(o, member, va_arg(args, double));
            break;
        case 'o':
            json_object_set_object_member(o, member,
                                          va_arg(args, JsonObject *));
            break;
        case 'a':
            json_object_set_array_member(o, member,
                                         va_arg(args, JsonArray *));
            break;
        default:
            g_assert_not_reached();
        }
    }
}

void btrail_json_add(JsonObject *object, ...)
{
    va_list args;
    const char *name;

    va_start(args, object);
    name = va_arg(args, const char *);
    add_members(object, name, args);
    va_end(args);
}

JsonObject *btrail_json_new(const char *name, ...)
{
    JsonObject *object = json_object_new();
    va_list args;

    va_start(args, name);
    add_members(object, name, args);
    va_end(args);
    return object;
}

void btrail_json_add_all(JsonObject *object, JsonObject *from)
{
    g_autoptr(GList) members = json_object_get_members(from);

    for (GList *l = members; l; l = l->next) {
        json_object_set_member(object, l->data,
                               json_object_dup_member(from, l->data));
    }
}

void btrail_json_set_time(JsonObject *object, const char *name, gint64 seconds)
{
    g_autoptr(GDateTime) t = g_date_time_new_from_unix_utc(seconds);
    g_autofree char *text = t ? g_date_time_format(t, "%Y-%m-%dT%H:%M:%SZ") :
                            NULL;

    if (text) {
        json_object_set_string_member(object, name, text);
    }
}
