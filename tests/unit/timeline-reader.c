/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads messages and timelines: see timeline-reader.h
 */

#include "timeline-reader.h"

uint64_t proto_varint(const uint8_t **at, const uint8_t *end)
{
    unsigned __int128 v = 0, unit = 1;
    uint8_t byte;

    do {
        g_assert_true(*at < end);
        byte = *(*at)++;
        v += byte % 128 * unit;
        unit *= 128;
        g_assert_true(v <= UINT64_MAX);
    } while (byte >= 128);
    /* Nobody writes zeros that mean nothing. */
    g_assert_true(byte || unit == 128);
    return v;
}

GArray *proto_read(const void *bytes, size_t n)
{
    GArray *fields = g_array_new(FALSE, FALSE, sizeof(struct proto_field));
    const uint8_t *at = bytes, *end = at + n;

    while (at < end) {
        uint64_t key = proto_varint(&at, end);
        struct proto_field f = { .number = key / 8 };

        g_assert_cmpuint(key / 8, >, 0);
        g_assert_true(key % 8 == 0 || key % 8 == 2);
        f.value = proto_varint(&at, end);
        if (key % 8 == 2) {
            g_assert_cmpuint(f.value, <=, end - at);
            f.bytes = at;
            f.n = f.value;
            at += f.n;
        }
        g_array_append_val(fields, f);
    }
    return fields;
}

const struct proto_field *proto_get(const GArray *fields, unsigned number,
                                    unsigned i)
{
    for (guint k = 0; k < fields->len; k++) {
        const struct proto_field *f = &g_array_index(fields,
                                                     struct proto_field, k);

        if (f->number == number && !i--) {
            return f;
        }
    }
    return NULL;
}

unsigned proto_count(const GArray *fields, unsigned number)
{
    unsigned n = 0;

    while (proto_get(fields, number, n)) {
        n++;
    }
    return n;
}

static const struct proto_field *only(const GArray *fields, unsigned number,
                                      bool bytes)
{
    const struct proto_field *f = proto_get(fields, number, 0);

    g_assert_nonnull(f);
    g_assert_null(proto_get(fields, number, 1));
    g_assert_true(!!f->bytes == bytes);
    return f;
}

GArray *proto_message(const GArray *fields, unsigned number)
{
    const struct proto_field *f = only(fields, number, true);

    return proto_read(f->bytes, f->n);
}

uint64_t proto_value(const GArray *fields, unsigned number)
{
    return only(fields, number, false)->value;
}

char *proto_text(const GArray *fields, unsigned number)
{
    const struct proto_field *f = only(fields, number, true);

    return g_strndup((const char *)f->bytes, f->n);
}

GPtrArray *timeline_packets(const void *bytes, size_t n)
{
    GPtrArray *packets = g_ptr_array_new_with_free_func(
        (GDestroyNotify)g_array_unref);
    g_autoptr(GArray) fields = proto_read(bytes, n);

    for (guint i = 0; i < fields->len; i++) {
        const struct proto_field *f = &g_array_index(fields,
                                                     struct proto_field, i);

        g_assert_cmpuint(f->number, ==, 1);
        g_assert_nonnull(f->bytes);
        g_ptr_array_add(packets, proto_read(f->bytes, f->n));
    }
    return packets;
}

const char *timeline_text(const char *text)
{
    static GHashTable *texts;
    char *kept;

    if (!texts) {
        texts = g_hash_table_new(g_str_hash, g_str_equal);
    }
    kept = g_hash_table_lookup(texts, text);
    if (!kept) {
        kept = g_strdup(text);
        g_hash_table_add(texts, kept);
    }
    return kept;
}

/* Notes the names that a packet interns. */
static void define(const GArray *packet, GHashTable *names)
{
    g_autoptr(GArray) interned = NULL;

    if (!proto_count(packet, 12)) {
        return;
    }
    interned = proto_message(packet, 12);
    for (unsigned i = 0; i < proto_count(interned, 2); i++) {
        const struct proto_field *f = proto_get(interned, 2, i);
        g_autoptr(GArray) entry = proto_read(f->bytes, f->n);
        g_autofree char *text = proto_text(entry, 2);
        uint64_t iid = proto_value(entry, 1);

        g_assert_cmpuint(iid, >, 0);
        g_assert_false(g_hash_table_contains(names, GSIZE_TO_POINTER(iid)));
        g_hash_table_insert(names, GSIZE_TO_POINTER(iid),
                            (gpointer)timeline_text(text));
    }
}

static const char *name_of(const GArray *event, GHashTable *names)
{
    const char *name = NULL;

    if (proto_count(event, 10)) {
        name = g_hash_table_lookup(
            names, GSIZE_TO_POINTER(proto_value(event, 10)));
        g_assert_nonnull(name);
        g_assert_cmpuint(proto_count(event, 23), ==, 0);
    } else if (proto_count(event, 23)) {
        g_autofree char *text = proto_text(event, 23);

        name = timeline_text(text);
    }
    return name;
}

static void read_value(const GArray *event, struct timeline_event *e)
{
    e->has_value = proto_count(event, 4);
    if (e->has_value) {
        g_autoptr(GArray) annotation = proto_message(event, 4);
        g_autofree char *name = proto_text(annotation, 10);

        g_assert_cmpstr(name, ==, "value");
        e->value = proto_value(annotation, 3);
    }
}

GArray *timeline_events(const GPtrArray *packets)
{
    GArray *events = g_array_new(FALSE, TRUE, sizeof(struct timeline_event));
    g_autoptr(GHashTable) names = g_hash_table_new(NULL, NULL);

    for (guint i = 0; i < packets->len; i++) {
        const GArray *packet = packets->pdata[i];

        g_assert_cmpuint(proto_value(packet, 10), ==, 1);
        define(packet, names);
        if (proto_count(packet, 11)) {
            g_autoptr(GArray) event = proto_message(packet, 11);
            struct timeline_event e = {
                .type = proto_value(event, 9),
                .track = proto_value(event, 11),
                .time = proto_value(packet, 8),
                .name = name_of(event, names),
            };

            g_assert_cmpuint(proto_value(packet, 13), ==,
                             events->len ? 2 : 3);
            read_value(event, &e);
            g_array_append_val(events, e);
        }
    }
    return events;
}
