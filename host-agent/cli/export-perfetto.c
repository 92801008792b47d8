/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format perfetto: calls on a timeline
 *
 * The form is that of protos/perfetto/trace/trace.proto: a Trace has packets;
 * those here have a track descriptor, or a track event that begins or ends a
 * slice.  Names are interned.
 */

#include <string.h>

#include "analyze/call-tracks.h"
#include "cli/export.h"
#include "lib/internal/bytes.h"
#include "util/hash.h"
#include "util/quote.h"

/* Fields of the schema */
enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_DESCRIPTOR = 60,
    INTERNED_EVENT_NAMES = 2,
    EVENT_NAME_IID = 1,
    EVENT_NAME_NAME = 2,
    EVENT_TYPE = 9,
    EVENT_IID = 10,
    EVENT_TRACK = 11,
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PROCESS = 3,
    DESCRIPTOR_THREAD = 4,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
};

/* Numbers of tracks, beside those that they have */
#define FIRST_PROCESS   (UINT64_C(1) << 32)

enum {
    SLICE_BEGIN = 1,
    SLICE_END = 2,
    CLEARED = 1,                /* sequence flags */
    NEEDS_STATE = 2,
};

struct perfetto_writer {
    const struct export *e;
    GHashTable *pids;           /* of processes that were described */
    GHashTable *names;          /* name -> its number */
    GByteArray *packet;
    GByteArray *part;
    GByteArray *small;
};

static void put_varint(GByteArray *a, uint64_t v)
{
    uint8_t bytes[BTRAIL_VARINT_MAX];

    g_byte_array_append(a, bytes, btrail_put_varint(bytes, v) - bytes);
}

static void put_number(GByteArray *a, unsigned field, uint64_t v)
{
    put_varint(a, field << 3);
    put_varint(a, v);
}

static void put_bytes(GByteArray *a, unsigned field, const void *bytes,
                      size_t n)
{
    put_varint(a, field << 3 | 2);
    put_varint(a, n);
    g_byte_array_append(a, bytes, n);
}

static void write_packet(struct perfetto_writer *w)
{
    GByteArray *head = w->small;

    g_byte_array_set_size(head, 0);
    put_varint(head, TRACE_PACKET << 3 | 2);
    put_varint(head, w->packet->len);
    fwrite(head->data, 1, head->len, w->e->out);
    fwrite(w->packet->data, 1, w->packet->len, w->e->out);
    g_byte_array_set_size(w->packet, 0);
}

/* Writes a descriptor of one track; @field of it is in @small, or none. */
static void write_descriptor(struct perfetto_writer *w, uint64_t uuid,
                             unsigned field)
{
    g_byte_array_set_size(w->part, 0);
    put_number(w->part, DESCRIPTOR_UUID, uuid);
    put_bytes(w->part, field, w->small->data, w->small->len);
    put_number(w->packet, PACKET_SEQUENCE, 1);
    put_bytes(w->packet, PACKET_DESCRIPTOR, w->part->data, w->part->len);
    write_packet(w);
}

static void put_name(GByteArray *a, unsigned field, const char *name)
{
    g_autofree char *quoted = btrail_quote(name, "");

    put_bytes(a, field, quoted, strlen(quoted));
}

static void describe_thread(struct perfetto_writer *w,
                            const struct call_track *t)
{
    const struct process *p = t->thread;

    if (g_hash_table_add(w->pids, GSIZE_TO_POINTER(p->pid))) {
        g_byte_array_set_size(w->small, 0);
        put_number(w->small, PROCESS_PID, p->pid);
        put_name(w->small, PROCESS_NAME, p->comm);
        write_descriptor(w, FIRST_PROCESS + g_hash_table_size(w->pids),
                         DESCRIPTOR_PROCESS);
    }
    g_byte_array_set_size(w->small, 0);
    put_number(w->small, THREAD_PID, p->pid);
    put_number(w->small, THREAD_TID, p->tid);
    put_name(w->small, THREAD_NAME, p->comm);
    write_descriptor(w, t->number, DESCRIPTOR_THREAD);
}

/* A track's user data is the name that it was described with. */
static void describe_track(struct perfetto_writer *w, struct call_track *t)
{
    char name[32];

    if (t->thread) {
        describe_thread(w, t);
        t->user = t->thread->comm;
        return;
    }
    g_snprintf(name, sizeof(name), "vCPU %u", (unsigned)t->number - 1);
    g_byte_array_set_size(w->small, 0);
    g_byte_array_append(w->small, (const uint8_t *)name, strlen(name));
    write_descriptor(w, t->number, DESCRIPTOR_NAME);
    t->user = "";
}

/* The number of a name; adds a new name to the packet. */
static unsigned intern(struct perfetto_writer *w, const struct call_slice *s)
{
    char buf[256];
    g_autofree char *name = btrail_quote(call_tree_name_of(
        s->process, s->function, buf, sizeof(buf)), "");
    unsigned number = GPOINTER_TO_UINT(g_hash_table_lookup(w->names, name));

    if (!number) {
        number = g_hash_table_size(w->names) + 1;
        g_byte_array_set_size(w->small, 0);
        put_number(w->small, EVENT_NAME_IID, number);
        put_bytes(w->small, EVENT_NAME_NAME, name, strlen(name));
        g_byte_array_set_size(w->part, 0);
        put_bytes(w->part, INTERNED_EVENT_NAMES, w->small->data,
                  w->small->len);
        put_bytes(w->packet, PACKET_INTERNED, w->part->data, w->part->len);
        g_hash_table_insert(w->names, g_steal_pointer(&name),
                            GUINT_TO_POINTER(number));
    }
    return number;
}

/* A slice begins, or ends if @s is NULL. */
static void put_slice(struct perfetto_writer *w, struct call_track *t,
                      uint64_t time, const struct call_slice *s)
{
    bool first = !g_hash_table_size(w->names);
    unsigned number;

    if (!t->user || (t->thread && t->user != t->thread->comm)) {
        describe_track(w, t);
    }
    number = s ? intern(w, s) : 0;

    g_byte_array_set_size(w->part, 0);
    put_number(w->part, EVENT_TYPE, s ? SLICE_BEGIN : SLICE_END);
    put_number(w->part, EVENT_TRACK, t->number);
    if (s) {
        put_number(w->part, EVENT_IID, number);
    }
    put_number(w->packet, PACKET_TIMESTAMP, time);
    put_number(w->packet, PACKET_SEQUENCE, 1);
    put_number(w->packet, PACKET_SEQUENCE_FLAGS,
               NEEDS_STATE | (first ? CLEARED : 0));
    put_bytes(w->packet, PACKET_TRACK_EVENT, w->part->data, w->part->len);
    write_packet(w);
}

static void put_begin(void *opaque, struct call_track *t, unsigned i)
{
    const struct call_slice *s = call_track_slice(t, i);

    put_slice(opaque, t, s->begin, s);
}

static void put_end(void *opaque, struct call_track *t, unsigned i,
                    uint64_t time, bool cut)
{
    put_slice(opaque, t, time, NULL);
}

static void put_whole(void *opaque, struct call_track *t, unsigned i,
                      uint64_t time, bool cut)
{
    put_begin(opaque, t, i);
    put_end(opaque, t, i, time, cut);
}

int export_perfetto(struct export *e)
{
    static const struct call_tracks_ops ops = {
        put_begin, put_whole, put_end,
    };
    struct perfetto_writer w = {
        .e = e,
        .names = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                       NULL),
        .pids = g_hash_table_new(NULL, NULL),
        .packet = g_byte_array_new(),
        .part = g_byte_array_new(),
        .small = g_byte_array_new(),
    };
    struct call_tracks *tracks = call_tracks_new(&(struct call_tracks_options) {
        .shortest = e->shortest, .ops = &ops, .opaque = &w,
    });
    struct call_tree t;
    int ret = analysis_read_calls(&e->in, &t, &call_tracks_tree_ops, tracks);

    if (!ret) {
        call_tracks_end(tracks, e->in.trace.trace, &e->in.window);
        export_end_calls(e, &t);
    }
    call_tracks_free(tracks);
    g_hash_table_unref(w.pids);
    g_hash_table_unref(w.names);
    g_byte_array_unref(w.packet);
    g_byte_array_unref(w.part);
    g_byte_array_unref(w.small);
    return ret;
}
