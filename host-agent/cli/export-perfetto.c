/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format perfetto: processes and calls of each vCPU on a
 * timeline
 *
 * The form is that of protos/perfetto/trace/trace.proto: a Trace has packets;
 * those here have a track descriptor, or a track event that begins or ends a
 * slice.  Names are interned.
 */

#include <string.h>

#include "cli/export.h"
#include "lib/internal/bytes.h"

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
};

enum {
    SLICE_BEGIN = 1,
    SLICE_END = 2,
    CLEARED = 1,                /* sequence flags */
    NEEDS_STATE = 2,
};

struct slice {
    const struct stack_node *node;
    uint64_t begin;
    bool chosen;                /* records in it, or in its callees, count */
    bool written;
};

struct track {
    GArray *open;               /* of struct slice, those within others last */
    bool described;
};

struct perfetto_writer {
    const struct export *e;
    struct track tracks[BTRAIL_MAX_VCPUS];
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

static void describe_track(struct perfetto_writer *w, unsigned vcpu)
{
    char name[32];

    g_snprintf(name, sizeof(name), "vCPU %u", vcpu);
    g_byte_array_set_size(w->part, 0);
    put_number(w->part, DESCRIPTOR_UUID, vcpu + 1);
    put_bytes(w->part, DESCRIPTOR_NAME, name, strlen(name));
    put_number(w->packet, PACKET_SEQUENCE, 1);
    put_bytes(w->packet, PACKET_DESCRIPTOR, w->part->data, w->part->len);
    write_packet(w);
    w->tracks[vcpu].described = true;
}

/* The number of a name; adds a new name to the packet. */
static unsigned intern(struct perfetto_writer *w, const struct stack_node *n)
{
    char buf[256];
    g_autofree char *name = g_utf8_make_valid(call_tree_name(n, buf,
                                                             sizeof(buf)),
                                              -1);
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

/* A slice begins, or ends if @node is NULL. */
static void put_slice(struct perfetto_writer *w, unsigned vcpu, uint64_t time,
                      const struct stack_node *node)
{
    bool first = !g_hash_table_size(w->names);
    unsigned number;

    if (!w->tracks[vcpu].described) {
        describe_track(w, vcpu);
    }
    number = node ? intern(w, node) : 0;

    g_byte_array_set_size(w->part, 0);
    put_number(w->part, EVENT_TYPE, node ? SLICE_BEGIN : SLICE_END);
    put_number(w->part, EVENT_TRACK, vcpu + 1);
    if (node) {
        put_number(w->part, EVENT_IID, number);
    }
    put_number(w->packet, PACKET_TIMESTAMP, time);
    put_number(w->packet, PACKET_SEQUENCE, 1);
    put_number(w->packet, PACKET_SEQUENCE_FLAGS,
               NEEDS_STATE | (first ? CLEARED : 0));
    put_bytes(w->packet, PACKET_TRACK_EVENT, w->part->data, w->part->len);
    write_packet(w);
}

/*
 * Ends the last slice.  If it is long enough, so are the slices around it,
 * whose beginnings are written first.  So beginnings of one time are in order.
 */
static void end_slice(struct perfetto_writer *w, unsigned vcpu, uint64_t time)
{
    GArray *open = w->tracks[vcpu].open;
    struct slice *last = &g_array_index(open, struct slice, open->len - 1);

    if ((last->chosen && time - last->begin >= w->e->shortest) ||
        last->written) {
        for (unsigned i = 0; i < open->len; i++) {
            struct slice *s = &g_array_index(open, struct slice, i);

            if (!s->written) {
                put_slice(w, vcpu, s->begin, s->node);
                s->written = true;
            }
        }
        put_slice(w, vcpu, time, NULL);
    }
    g_array_set_size(open, open->len - 1);
}

static void begin_slices(struct track *t, const struct stack_node *n,
                         uint64_t time)
{
    const struct stack_node *path[STACK_MAX_DEPTH + 2];
    unsigned i, depth = 0;
    struct slice s = { .begin = time };

    for (; n && n->depth >= t->open->len && depth < G_N_ELEMENTS(path);
         n = n->parent) {
        path[depth++] = n;
    }
    for (i = depth; i; i--) {
        s.node = path[i - 1];
        g_array_append_val(t->open, s);
    }
}

static void move_slices(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *from, const struct stack_node *to)
{
    struct perfetto_writer *w = opaque;
    struct track *t = &w->tracks[vcpu];
    const struct stack_node *shared = to;

    if (!time) {
        return;
    }
    if (!t->open) {
        t->open = g_array_new(FALSE, FALSE, sizeof(struct slice));
    }
    /* End the slices that are not on the path to @to. */
    while (t->open->len) {
        const struct stack_node *n = g_array_index(t->open, struct slice,
                                                   t->open->len - 1).node;

        while (shared && shared->depth > n->depth) {
            shared = shared->parent;
        }
        if (shared == n) {
            break;
        }
        end_slice(w, vcpu, MAX(time, g_array_index(t->open, struct slice,
                                         t->open->len - 1).begin));
    }
    begin_slices(t, to, time);
}

/* Records count, so the open slices are shown. */
static void choose_slices(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *node, uint64_t records)
{
    struct perfetto_writer *w = opaque;
    struct track *t = &w->tracks[vcpu];

    if (!t->open) {
        move_slices(opaque, vcpu, time, NULL, node);
    }
    for (unsigned i = t->open ? t->open->len : 0; i; i--) {
        struct slice *s = &g_array_index(t->open, struct slice, i - 1);

        if (s->chosen) {
            break;
        }
        s->chosen = true;
    }
}

static uint64_t last_time(const struct export *e, unsigned vcpu)
{
    struct btrail_stream_info info;
    uint64_t time = 0;
    unsigned i;

    for (i = 0; !btrail_trace_stream(e->in.trace.trace, i, &info); i++) {
        time = info.vcpu == vcpu ? info.last_time : time;
    }
    return MIN(time, e->in.window.end == UINT64_MAX ? UINT64_MAX :
               e->in.trace.start + e->in.window.end);
}

int export_perfetto(struct export *e)
{
    static const struct call_tree_ops ops = { move_slices, choose_slices };
    struct perfetto_writer *w = g_new0(struct perfetto_writer, 1);
    struct call_tree t;
    int ret;

    w->e = e;
    w->names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    w->packet = g_byte_array_new();
    w->part = g_byte_array_new();
    w->small = g_byte_array_new();
    ret = analysis_read_calls(&e->in, &t, &ops, w);
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        GArray *open = w->tracks[i].open;
        uint64_t end = open ? last_time(e, i) : 0;

        while (!ret && open && open->len) {
            end_slice(w, i, MAX(end, g_array_index(open, struct slice,
                                                   open->len - 1).begin));
        }
        g_clear_pointer(&open, g_array_unref);
    }
    if (!ret) {
        export_end_calls(e, &t);
    }
    g_hash_table_unref(w->names);
    g_byte_array_unref(w->packet);
    g_byte_array_unref(w->part);
    g_byte_array_unref(w->small);
    g_free(w);
    return ret;
}
