/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * JSON: see json.h
 */

#include <math.h>
#include <string.h>

#include "util/json.h"
#include "util/quote.h"

#define MAX_DEPTH   64

/* The 16 bits of an escape, after "\u"; -1 if that is none */
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

/* The end of the escape at @text, after its backslash; NULL if it is none */
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

/* The end of the string at @text, after its first quote; NULL if it is none */
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

/* The end of a number or a word, which can be empty */
static const char *skip_word(const char *text)
{
    while (g_ascii_isalnum(*text) || *text == '.' || *text == '+' ||
           *text == '-') {
        text++;
    }
    return text;
}

/* Does the integer that @n digits are fit?  The number may go on after them. */
static gboolean fits(const char *digits, size_t n, gboolean negative)
{
    return n <= strlen("9223372036854775808") &&
           g_ascii_strtoull(digits, NULL, 10) <=
           (guint64)G_MAXINT64 + negative;
}

/*
 * json-glib makes another integer of one that does not fit, which can have the
 * other sign.  Such a one gets a fraction, and so another type.  Numbers in
 * octal and hexadecimal, which it knows, are no JSON.  Returns NULL if there are
 * any; the text is to be freed.
 */
static char *check_numbers(const char *text)
{
    g_autoptr(GString) out = g_string_sized_new(strlen(text) + 1);
    const char *begin = text;

    while (*text) {
        gboolean negative = *text == '-';
        const char *digits = text + negative, *end = skip_word(text);
        size_t n = strspn(digits, "0123456789");

        if (*text == '"') {
            text = skip_string(text + 1);
            continue;
        }
        if (*digits == '0' && g_ascii_isalnum(digits[1]) &&
            g_ascii_tolower(digits[1]) != 'e') {
            return NULL;
        }
        if (n && digits + n == end && !fits(digits, n, negative)) {
            g_string_append_len(out, begin, end - begin);
            g_string_append(out, ".0");
            begin = end;
        }
        text = end + (end == text);
    }
    g_string_append(out, begin);
    return g_string_free(g_steal_pointer(&out), FALSE);
}

JsonNode *btrail_json_parse_object(const char *text)
{
    g_autofree char *checked = NULL;
    JsonNode *node;

    if (!g_utf8_validate(text, -1, NULL) || !depth_is_sane(text) ||
        !(checked = check_numbers(text))) {
        return NULL;
    }
    node = json_from_string(checked, NULL);
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

static gint64 int_of(JsonNode *node, gint64 fallback)
{
    return node && json_node_get_value_type(node) == G_TYPE_INT64 ?
           json_node_get_int(node) : fallback;
}

gint64 btrail_json_int(JsonObject *object, const char *name, gint64 fallback)
{
    return int_of(json_object_get_member(object, name), fallback);
}

gint64 btrail_json_element(JsonArray *array, guint i, gint64 fallback)
{
    return int_of(json_array_get_element(array, i), fallback);
}

gboolean btrail_json_is_true(JsonObject *object, const char *name)
{
    JsonNode *node = json_object_get_member(object, name);

    return node && JSON_NODE_HOLDS_VALUE(node) &&
           json_node_get_value_type(node) == G_TYPE_BOOLEAN &&
           json_node_get_boolean(node);
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

static void put_string(GString *out, const char *text)
{
    g_string_append_c(out, '"');
    btrail_quote_json(out, text, BTRAIL_QUOTE_STRING);
    g_string_append_c(out, '"');
}

/* As json-glib, with a fraction or an exponent, so that it stays a double */
static void put_double(GString *out, double value)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];

    if (!isfinite(value)) {
        g_string_append(out, "null");
        return;
    }
    g_ascii_dtostr(text, sizeof(text), value);
    g_string_append(out, text);
    if (!strpbrk(text, ".e")) {
        g_string_append(out, ".0");
    }
}

static void put_value(GString *out, JsonNode *node)
{
    GType type = json_node_get_value_type(node);

    if (type == G_TYPE_STRING) {
        put_string(out, json_node_get_string(node));
    } else if (type == G_TYPE_INT64) {
        g_string_append_printf(out, "%" G_GINT64_FORMAT,
                               json_node_get_int(node));
    } else if (type == G_TYPE_DOUBLE) {
        put_double(out, json_node_get_double(node));
    } else {
        g_string_append(out, type != G_TYPE_BOOLEAN ? "null" :
                        json_node_get_boolean(node) ? "true" : "false");
    }
}

/* Begins a line, if there are lines, @depth levels deep. */
static void put_line(GString *out, int depth)
{
    if (depth >= 0) {
        g_string_append_printf(out, "\n%*s", 2 * depth, "");
    }
}

/* @depth is negative for one line. */
static void put_node(GString *out, JsonNode *node, int depth)
{
    gboolean is_array = JSON_NODE_HOLDS_ARRAY(node);
    int inner = depth < 0 ? depth : depth + 1;
    g_autoptr(GList) all = NULL;

    if (!is_array && !JSON_NODE_HOLDS_OBJECT(node)) {
        put_value(out, node);
        return;
    }
    all = is_array ? json_array_get_elements(json_node_get_array(node)) :
          json_object_get_members(json_node_get_object(node));
    g_string_append_c(out, is_array ? '[' : '{');
    for (GList *l = all; l; l = l->next) {
        put_line(out, inner);
        if (!is_array) {
            put_string(out, l->data);
            g_string_append(out, depth < 0 ? ":" : " : ");
        }
        put_node(out, is_array ? l->data :
                 json_object_get_member(json_node_get_object(node), l->data),
                 inner);
        if (l->next) {
            g_string_append_c(out, ',');
        }
    }
    if (all) {
        put_line(out, depth);
    }
    g_string_append_c(out, is_array ? ']' : '}');
}

char *btrail_json_text(JsonObject *object, gboolean pretty)
{
    g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);
    GString *out = g_string_new(NULL);

    json_node_set_object(node, object);
    put_node(out, node, pretty ? 0 : -1);
    return g_string_free(out, FALSE);
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
