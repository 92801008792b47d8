/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format perfetto: calls on a timeline
 *
 * Each thread that the trace names has a track with its calls, which go on while
 * it does not run; each vCPU has one with what it ran.  The calls of other tasks
 * are on the tracks of vCPUs.
 *
 * The form is that of protos/perfetto/trace/trace.proto: a Trace has packets;
 * those here have a track descriptor, or a track event that begins or ends a
 * slice.  Names are interned.
 */

#include <string.h>

#include "cli/export.h"
#include "lib/internal/bytes.h"
#include "util/hash.h"
#include "util/quote.h"
#include "util/search.h"

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

/* Numbers of tracks; those of vCPUs begin with 1. */
#define FIRST_THREAD    (UINT64_C(1) << 16)
#define FIRST_PROCESS   (UINT64_C(1) << 32)

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

/*
 * @thread:    the thread that it is of; NULL for a vCPU
 * @described: the name that it was described with
 * @open:      of struct slice, those within others last.  The first one is of
 *             the task, and not shown if it is a thread's
 * @time:      of the last move
 */
struct track {
    uint64_t uuid;
    const struct process *thread;
    const char *described;
    GArray *open;
    uint64_t time;
};

struct perfetto_writer {
    const struct export *e;
    struct track tracks[BTRAIL_MAX_VCPUS];
    GHashTable *threads;        /* pid and tid -> struct track */
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

static void describe_thread(struct perfetto_writer *w, const struct track *t)
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
    write_descriptor(w, t->uuid, DESCRIPTOR_THREAD);
}

static void describe_track(struct perfetto_writer *w, struct track *t)
{
    char name[32];

    if (t->thread) {
        describe_thread(w, t);
        t->described = t->thread->comm;
        return;
    }
    g_snprintf(name, sizeof(name), "vCPU %u", (unsigned)(t - w->tracks));
    g_byte_array_set_size(w->small, 0);
    g_byte_array_append(w->small, (const uint8_t *)name, strlen(name));
    write_descriptor(w, t->uuid, DESCRIPTOR_NAME);
    t->described = "";
}

/* The track of the thread that a node is of; NULL if it has none. */
static struct track *thread_track(struct perfetto_writer *w,
                                  const struct stack_node *n)
{
    const struct process *p = n ? n->process : NULL;
    struct track *t;
    uint64_t key[2];

    /* Idle tasks, which are all No 0, are shown by their vCPUs. */
    if (!p || p->owner == p || p->tid <= 0) {
        return NULL;
    }
    key[0] = p->pid;
    key[1] = p->tid;
    t = g_hash_table_lookup(w->threads, key);
    if (!t) {
        t = g_new0(struct track, 1);
        t->uuid = FIRST_THREAD + g_hash_table_size(w->threads);
        g_hash_table_insert(w->threads, g_memdup2(key, sizeof(key)), t);
    }
    return t;
}

/* The number of a name; adds a new name to the packet. */
static unsigned intern(struct perfetto_writer *w, const struct stack_node *n)
{
    char buf[256];
    g_autofree char *name = btrail_quote(call_tree_name(n, buf, sizeof(buf)),
                                         "");
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
static void put_slice(struct perfetto_writer *w, struct track *t,
                      uint64_t time, const struct stack_node *node)
{
    bool first = !g_hash_table_size(w->names);
    unsigned number;

    if (!t->described || (t->thread && t->described != t->thread->comm)) {
        describe_track(w, t);
    }
    number = node ? intern(w, node) : 0;

    g_byte_array_set_size(w->part, 0);
    put_number(w->part, EVENT_TYPE, node ? SLICE_BEGIN : SLICE_END);
    put_number(w->part, EVENT_TRACK, t->uuid);
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
static void end_slice(struct perfetto_writer *w, struct track *t,
                      uint64_t time)
{
    struct slice *all = (struct slice *)t->open->data;
    unsigned hidden = t->thread ? 1 : 0, n = t->open->len;

    if (n > hidden && (all[n - 1].written ||
                       (all[n - 1].chosen &&
                        time - all[n - 1].begin >= w->e->shortest))) {
        for (unsigned i = hidden; i < n; i++) {
            if (!all[i].written) {
                put_slice(w, t, all[i].begin, all[i].node);
                all[i].written = true;
            }
        }
        put_slice(w, t, time, NULL);
    }
    g_array_set_size(t->open, n - 1);
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

/* A track goes on with another node, or with none. */
static void move_track(struct perfetto_writer *w, struct track *t,
                       uint64_t time, const struct stack_node *to)
{
    const struct stack_node *shared = to;

    /* Two vCPUs can run a thread in another order than their clocks say. */
    t->time = time = MAX(time, t->time);
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
        end_slice(w, t, time);
    }
    if (to && t->thread) {
        t->thread = to->process;
    }
    begin_slices(t, to, time);
}

static const struct stack_node *root_of(const struct stack_node *n)
{
    while (n->parent) {
        n = n->parent;
    }
    return n;
}

static void move_slices(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *from, const struct stack_node *to)
{
    struct perfetto_writer *w = opaque;
    struct track *t = thread_track(w, to);

    if (!time) {
        return;
    }
    w->tracks[vcpu].uuid = vcpu + 1;
    if (t) {
        t->thread = t->thread ? t->thread : to->process;
        move_track(w, t, time, to);
        to = root_of(to);
    }
    if (!w->tracks[vcpu].open || !from || !t || root_of(from) != to) {
        move_track(w, &w->tracks[vcpu], time, to);
    }
}

static void choose_open(struct track *t)
{
    for (unsigned i = t->open ? t->open->len : 0; i; i--) {
        struct slice *s = &g_array_index(t->open, struct slice, i - 1);

        if (s->chosen) {
            break;
        }
        s->chosen = true;
    }
}

/* Records count, so the open slices are shown. */
static void choose_slices(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *node, uint64_t records)
{
    struct perfetto_writer *w = opaque;
    struct track *thread = thread_track(w, node);

    if (!w->tracks[vcpu].open ||
        (thread && !(thread->open && thread->open->len))) {
        move_slices(opaque, vcpu, time, NULL, node);
    }
    choose_open(&w->tracks[vcpu]);
    if (thread) {
        choose_open(thread);
    }
}

/* Ends all slices of a track. */
static void end_track(struct perfetto_writer *w, struct track *t, uint64_t end)
{
    while (t->open && t->open->len) {
        end_slice(w, t, MAX(end, t->time));
    }
}

static gint by_uuid(gconstpointer a, gconstpointer b)
{
    const struct track *x = a, *y = b;

    return BTRAIL_COMPARE(x->uuid, y->uuid);
}

/*
 * The nodes of threads that do not run can be freed: their slices end, in an
 * order that is the same each time.
 */
static void end_threads(void *opaque, const struct call_tree *tree)
{
    struct perfetto_writer *w = opaque;
    g_autoptr(GList) all = g_list_sort(g_hash_table_get_values(w->threads),
                                       by_uuid);

    for (GList *l = all; l; l = l->next) {
        end_track(w, l->data, 0);
    }
}

static void free_track(gpointer p)
{
    struct track *t = p;

    g_clear_pointer(&t->open, g_array_unref);
    g_free(t);
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
    static const struct call_tree_ops ops = {
        move_slices, choose_slices, end_threads,
    };
    struct perfetto_writer *w = g_new0(struct perfetto_writer, 1);
    struct call_tree t;
    int ret;

    w->e = e;
    w->names = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                     NULL);
    w->threads = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                       g_free, free_track);
    w->pids = g_hash_table_new(NULL, NULL);
    w->packet = g_byte_array_new();
    w->part = g_byte_array_new();
    w->small = g_byte_array_new();
    ret = analysis_read_calls(&e->in, &t, &ops, w);
    if (!ret) {
        end_threads(w, &t);
    }
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (!ret) {
            end_track(w, &w->tracks[i], w->tracks[i].open ? last_time(e, i) :
                      0);
        }
        g_clear_pointer(&w->tracks[i].open, g_array_unref);
    }
    if (!ret) {
        export_end_calls(e, &t);
    }
    g_hash_table_unref(w->threads);
    g_hash_table_unref(w->pids);
    g_hash_table_unref(w->names);
    g_byte_array_unref(w->packet);
    g_byte_array_unref(w->part);
    g_byte_array_unref(w->small);
    g_free(w);
    return ret;
}
