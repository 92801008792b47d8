/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A timeline for Perfetto: see perfetto.h
 */

#include <string.h>

#include "cli/export/perfetto.h"
#include "cli/export/protobuf.h"
#include "lib/agent/bytes.h"
#include "util/hash.h"
#include "util/quote.h"

/* More than PIDs of Linux can be (PID_MAX_LIMIT) */
#define NESTED_NUMBERS  5000000u

/* Fields of the schema */
enum {
    TRACE_PACKET = 1,
    PACKET_FTRACE = 1,
    PACKET_PROCESS_TREE = 2,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_SYSTEM_INFO = 45,
    PACKET_DESCRIPTOR = 60,
    INTERNED_EVENT_NAMES = 2,
    EVENT_NAME_IID = 1,
    EVENT_NAME_NAME = 2,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_IID = 10,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    ANNOTATION_UINT = 3,
    ANNOTATION_NAME = 10,
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PROCESS = 3,
    DESCRIPTOR_THREAD = 4,
    DESCRIPTOR_PARENT = 5,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
    TREE_THREADS = 2,
    TREE_THREAD_TID = 1,
    TREE_THREAD_NAME = 2,
    TREE_THREAD_PID = 3,
    SYSTEM_UTSNAME = 1,
    UTSNAME_SYSTEM = 1,
    UTSNAME_RELEASE = 3,
    UTSNAME_MACHINE = 4,
};

enum {
    CLEARED = 1,                /* sequence flags */
    NEEDS_STATE = 2,
};

/**
 * struct perfetto
 * @processes: numbers of processes -> their names, those of threads
 * @threads: numbers of threads that were described
 * @names: that are interned -> their numbers
 * @begun: an event was written
 * @limit: of bytes; 0 if there is none
 * @written: bytes
 * @refused: packets that would have been more than the limit
 */
struct perfetto {
    FILE *out;
    GHashTable *processes;
    GHashTable *threads;
    GHashTable *names;
    bool begun;
    uint64_t limit;
    uint64_t written;
    uint64_t refused;
    GByteArray *packet;
    GByteArray *part;
    GByteArray *small;
};

struct perfetto *perfetto_new(FILE *out)
{
    struct perfetto *p = g_new0(struct perfetto, 1);

    p->out = out;
    p->names = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                     NULL);
    p->processes = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    p->threads = g_hash_table_new(NULL, NULL);
    p->packet = g_byte_array_new();
    p->part = g_byte_array_new();
    p->small = g_byte_array_new();
    return p;
}

void perfetto_free(struct perfetto *p)
{
    g_hash_table_unref(p->processes);
    g_hash_table_unref(p->threads);
    g_hash_table_unref(p->names);
    g_byte_array_unref(p->packet);
    g_byte_array_unref(p->part);
    g_byte_array_unref(p->small);
    g_free(p);
}

static void put_name(GByteArray *a, unsigned field, const char *name)
{
    g_autofree char *quoted = btrail_quote(name, "");

    protobuf_bytes(a, field, quoted, strlen(quoted));
}

/* False if it is refused */
static bool write_packet(struct perfetto *p)
{
    GByteArray *head = p->small;
    bool fits;

    g_byte_array_set_size(head, 0);
    protobuf_varint(head, TRACE_PACKET << 3 | 2);
    protobuf_varint(head, p->packet->len);
    fits = !p->limit || p->written + head->len + p->packet->len <= p->limit;
    if (!fits) {
        p->refused++;
    } else {
        fwrite(head->data, 1, head->len, p->out);
        fwrite(p->packet->data, 1, p->packet->len, p->out);
        p->written += head->len + p->packet->len;
    }
    g_byte_array_set_size(p->packet, 0);
    return fits;
}

void perfetto_set_limit(struct perfetto *p, uint64_t bytes)
{
    p->limit = bytes;
}

uint64_t perfetto_written(const struct perfetto *p)
{
    return p->written;
}

uint64_t perfetto_refused(const struct perfetto *p)
{
    return p->refused;
}

bool perfetto_append(struct perfetto *p, const void *packets, size_t n)
{
    if (p->limit && p->written + n > p->limit) {
        return false;
    }
    fwrite(packets, 1, n, p->out);
    p->written += n;
    return true;
}

/* Bytes that a number takes */
static unsigned varint_size(uint64_t v)
{
    uint8_t bytes[BTRAIL_VARINT_MAX];

    return btrail_put_varint(bytes, v) - bytes;
}

unsigned perfetto_event_size(const struct perfetto_event *e)
{
    /* What each event has, the lengths of messages, and the number of a name */
    return 14 + varint_size(e->time) + varint_size(e->track) +
           (e->name ? 5 : 0) + (e->value ? 14 + varint_size(*e->value) : 0);
}

unsigned perfetto_name_size(const char *text)
{
    g_autofree char *name = btrail_quote(text, "");
    size_t n = strlen(name);

    return n + 3 * varint_size(n) + 12;
}

uint64_t perfetto_processes_size(const struct perfetto *p)
{
    GHashTableIter iter;
    uint64_t sum = 0;
    gpointer name;

    g_hash_table_iter_init(&iter, p->processes);
    while (g_hash_table_iter_next(&iter, NULL, &name)) {
        sum += perfetto_name_size(name) + 24;
    }
    return sum;
}

/* Begins a descriptor. */
static void begin_descriptor(struct perfetto *p, uint64_t uuid)
{
    g_byte_array_set_size(p->part, 0);
    protobuf_number(p->part, DESCRIPTOR_UUID, uuid);
}

static void end_descriptor(struct perfetto *p)
{
    protobuf_number(p->packet, PACKET_SEQUENCE, 1);
    protobuf_bytes(p->packet, PACKET_DESCRIPTOR, p->part->data, p->part->len);
    write_packet(p);
}

/*
 * A nested guest has the same numbers again, but a viewer takes what has one
 * number for one thread.
 */
static uint64_t number_of(const struct process *p, int64_t number)
{
    return ((uint64_t)number + (uint64_t)p->nested * NESTED_NUMBERS) &
           INT32_MAX;
}

void perfetto_processes(struct perfetto *p)
{
    uint64_t track = PERFETTO_TRACKS;
    GHashTableIter iter;
    gpointer pid, name;

    g_hash_table_iter_init(&iter, p->processes);
    while (g_hash_table_iter_next(&iter, &pid, &name)) {
        g_byte_array_set_size(p->small, 0);
        protobuf_number(p->small, PROCESS_PID, GPOINTER_TO_SIZE(pid));
        put_name(p->small, PROCESS_NAME, name);
        begin_descriptor(p, track++);
        protobuf_bytes(p->part, DESCRIPTOR_PROCESS, p->small->data,
                       p->small->len);
        end_descriptor(p);
    }
}

/* Notes a thread, and what its process is called after it. */
static void note_thread(struct perfetto *p, uint64_t pid, uint64_t tid,
                        const char *name)
{
    if (tid == pid ||
        !g_hash_table_contains(p->processes, GSIZE_TO_POINTER(pid))) {
        g_hash_table_insert(p->processes, GSIZE_TO_POINTER(pid),
                            g_strdup(name));
    }
    g_hash_table_add(p->threads, GSIZE_TO_POINTER(tid));
}

void perfetto_thread(struct perfetto *p, uint64_t track,
                     const struct process *thread)
{
    uint64_t pid = number_of(thread, thread->pid);
    uint64_t tid = number_of(thread, thread->tid);

    note_thread(p, pid, tid, thread->comm);
    g_byte_array_set_size(p->small, 0);
    protobuf_number(p->small, THREAD_PID, pid);
    protobuf_number(p->small, THREAD_TID, tid);
    put_name(p->small, THREAD_NAME, thread->comm);
    begin_descriptor(p, track);
    protobuf_bytes(p->part, DESCRIPTOR_THREAD, p->small->data, p->small->len);
    end_descriptor(p);
}

void perfetto_task(struct perfetto *p, uint32_t pid, uint32_t tid,
                   const char *name)
{
    if (g_hash_table_contains(p->threads, GSIZE_TO_POINTER(tid))) {
        return;
    }
    note_thread(p, pid, tid, name);
    g_byte_array_set_size(p->small, 0);
    protobuf_number(p->small, TREE_THREAD_TID, tid);
    put_name(p->small, TREE_THREAD_NAME, name);
    protobuf_number(p->small, TREE_THREAD_PID, pid);
    g_byte_array_set_size(p->part, 0);
    protobuf_bytes(p->part, TREE_THREADS, p->small->data, p->small->len);
    protobuf_number(p->packet, PACKET_SEQUENCE, 1);
    protobuf_bytes(p->packet, PACKET_PROCESS_TREE, p->part->data,
                   p->part->len);
    write_packet(p);
}

void perfetto_ftrace(struct perfetto *p, const GByteArray *bundle)
{
    protobuf_number(p->packet, PACKET_SEQUENCE, 1);
    protobuf_bytes(p->packet, PACKET_FTRACE, bundle->data, bundle->len);
    write_packet(p);
}

void perfetto_release(struct perfetto *p, const char *release)
{
    g_byte_array_set_size(p->small, 0);
    put_name(p->small, UTSNAME_SYSTEM, "Linux");
    put_name(p->small, UTSNAME_RELEASE, release);
    put_name(p->small, UTSNAME_MACHINE, "x86_64");
    g_byte_array_set_size(p->part, 0);
    protobuf_bytes(p->part, SYSTEM_UTSNAME, p->small->data, p->small->len);
    protobuf_number(p->packet, PACKET_SEQUENCE, 1);
    protobuf_bytes(p->packet, PACKET_SYSTEM_INFO, p->part->data,
                   p->part->len);
    write_packet(p);
}

void perfetto_track(struct perfetto *p, uint64_t track, uint64_t parent,
                    const char *name)
{
    begin_descriptor(p, track);
    put_name(p->part, DESCRIPTOR_NAME, name);
    if (parent) {
        protobuf_number(p->part, DESCRIPTOR_PARENT, parent);
    }
    end_descriptor(p);
}

/* The number of a name; adds a new name, which @added gets, to the packet. */
static unsigned intern(struct perfetto *p, const char *text, char **added)
{
    g_autofree char *name = btrail_quote(text, "");
    unsigned number = GPOINTER_TO_UINT(g_hash_table_lookup(p->names, name));

    if (!number) {
        number = g_hash_table_size(p->names) + 1;
        g_byte_array_set_size(p->small, 0);
        protobuf_number(p->small, EVENT_NAME_IID, number);
        protobuf_bytes(p->small, EVENT_NAME_NAME, name, strlen(name));
        g_byte_array_set_size(p->part, 0);
        protobuf_bytes(p->part, INTERNED_EVENT_NAMES, p->small->data,
                  p->small->len);
        protobuf_bytes(p->packet, PACKET_INTERNED, p->part->data, p->part->len);
        *added = g_steal_pointer(&name);
    }
    return number;
}

static void put_value(struct perfetto *p, uint64_t value)
{
    g_byte_array_set_size(p->small, 0);
    put_name(p->small, ANNOTATION_NAME, "value");
    protobuf_number(p->small, ANNOTATION_UINT, value);
    protobuf_bytes(p->part, EVENT_ANNOTATION, p->small->data, p->small->len);
}

void perfetto_event(struct perfetto *p, const struct perfetto_event *e)
{
    g_autofree char *added = NULL;
    unsigned number = e->name && e->often ? intern(p, e->name, &added) : 0;

    g_byte_array_set_size(p->part, 0);
    protobuf_number(p->part, EVENT_TYPE, e->type);
    protobuf_number(p->part, EVENT_TRACK, e->track);
    if (number) {
        protobuf_number(p->part, EVENT_IID, number);
    } else if (e->name) {
        put_name(p->part, EVENT_NAME, e->name);
    }
    if (e->value) {
        put_value(p, *e->value);
    }
    protobuf_number(p->packet, PACKET_TIMESTAMP, e->time);
    protobuf_number(p->packet, PACKET_SEQUENCE, 1);
    protobuf_number(p->packet, PACKET_SEQUENCE_FLAGS,
               NEEDS_STATE | (p->begun ? 0 : CLEARED));
    protobuf_bytes(p->packet, PACKET_TRACK_EVENT, p->part->data, p->part->len);
    /* No reader has what a packet would have said that is refused. */
    if (write_packet(p)) {
        p->begun = true;
        if (added) {
            g_hash_table_insert(p->names, g_steal_pointer(&added),
                                GUINT_TO_POINTER(number));
        }
    }
}
