/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest's kernel schedules: see sched-bundles.h
 */

#include <string.h>

#include "cli/export/protobuf.h"
#include "cli/export/sched-bundles.h"
#include "util/hash.h"
#include "util/quote.h"

/* Events of a bundle */
#define MANY    1024u

/* Fields of the schema */
enum {
    BUNDLE_CPU = 1,
    BUNDLE_EVENT = 2,
    BUNDLE_COMPACT = 4,
    COMPACT_SWITCH_TIME = 1,
    COMPACT_SWITCH_STATE = 2,
    COMPACT_SWITCH_PID = 3,
    COMPACT_SWITCH_PRIO = 4,
    COMPACT_NAMES = 5,
    COMPACT_SWITCH_NAME = 6,
    COMPACT_WAKING_TIME = 7,
    COMPACT_WAKING_PID = 8,
    COMPACT_WAKING_CPU = 9,
    COMPACT_WAKING_PRIO = 10,
    COMPACT_WAKING_NAME = 11,
    EVENT_TIME = 1,
    EVENT_PID = 2,
    EVENT_WAKING = 20,
    WAKING_NAME = 1,
    WAKING_PID = 2,
};

/* States as Linux has them; the last one as none has it since 4.14 */
static const uint16_t states[] = {
    [SCHEDULE_RUNNABLE] = 0,
    [SCHEDULE_INTERRUPTIBLE] = 1,
    [SCHEDULE_UNINTERRUPTIBLE] = 2,
    [SCHEDULE_DEAD] = 0x10,
    [SCHEDULE_UNKNOWN] = 0x200,
};

/* Columns of switches, or of wake-ups, packed, up to the time @last */
struct columns {
    unsigned n;
    uint64_t last;
    GByteArray *times;
    GByteArray *pids;
    GByteArray *names;
    GByteArray *states;
};

/**
 * struct sched_cpu - a vCPU's bundle, as far as it is made
 * @events:  that are not in columns, as fields of the bundle
 * @names:   name -> its index + 1
 * @table:   of names, as fields
 */
struct sched_cpu {
    struct columns switches;
    struct columns wakes;
    GByteArray *events;
    GHashTable *names;
    GByteArray *table;
};

struct sched_thread {
    uint32_t pid;
    char name[BTRAIL_TASK_NAME + 1];
};

/* @threads: number -> struct sched_thread */
struct sched_bundles {
    struct perfetto *out;
    struct sched_cpu *cpus[BTRAIL_MAX_VCPUS];
    GHashTable *threads;
    GByteArray *part;
    GByteArray *bundle;
};

struct sched_bundles *sched_bundles_new(struct perfetto *out)
{
    struct sched_bundles *b = g_new0(struct sched_bundles, 1);

    b->out = out;
    b->threads = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    b->part = g_byte_array_new();
    b->bundle = g_byte_array_new();
    return b;
}

static void init_columns(struct columns *c)
{
    c->times = g_byte_array_new();
    c->pids = g_byte_array_new();
    c->names = g_byte_array_new();
    c->states = g_byte_array_new();
}

static void clear_columns(struct columns *c)
{
    g_byte_array_unref(c->times);
    g_byte_array_unref(c->pids);
    g_byte_array_unref(c->names);
    g_byte_array_unref(c->states);
}

static void reset_columns(struct columns *c)
{
    c->n = 0;
    c->last = 0;
    g_byte_array_set_size(c->times, 0);
    g_byte_array_set_size(c->pids, 0);
    g_byte_array_set_size(c->names, 0);
    g_byte_array_set_size(c->states, 0);
}

static void free_cpu(struct sched_cpu *cpu)
{
    if (cpu) {
        clear_columns(&cpu->switches);
        clear_columns(&cpu->wakes);
        g_byte_array_unref(cpu->events);
        g_hash_table_unref(cpu->names);
        g_byte_array_unref(cpu->table);
        g_free(cpu);
    }
}

void sched_bundles_free(struct sched_bundles *b)
{
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        free_cpu(b->cpus[i]);
    }
    g_hash_table_unref(b->threads);
    g_byte_array_unref(b->part);
    g_byte_array_unref(b->bundle);
    g_free(b);
}

static struct sched_cpu *get_cpu(struct sched_bundles *b, unsigned vcpu)
{
    struct sched_cpu *cpu = b->cpus[vcpu];

    if (!cpu) {
        cpu = b->cpus[vcpu] = g_new0(struct sched_cpu, 1);
        init_columns(&cpu->switches);
        init_columns(&cpu->wakes);
        cpu->events = g_byte_array_new();
        cpu->names = g_hash_table_new_full(btrail_str_hash, g_str_equal,
                                           g_free, NULL);
        cpu->table = g_byte_array_new();
    }
    return cpu;
}

static void put_column(struct sched_bundles *b, unsigned field,
                       const GByteArray *column)
{
    protobuf_bytes(b->part, field, column->data, column->len);
}

/* Nobody knows priorities, nor where a task that is woken will run. */
static void put_zeros(struct sched_bundles *b, unsigned field, unsigned n)
{
    static const uint8_t zeros[MANY + 1];

    protobuf_bytes(b->part, field, zeros, n);
}

static void put_columns(struct sched_bundles *b, const struct sched_cpu *cpu)
{
    const struct columns *s = &cpu->switches, *w = &cpu->wakes;

    g_byte_array_set_size(b->part, 0);
    g_byte_array_append(b->part, cpu->table->data, cpu->table->len);
    if (s->n) {
        put_column(b, COMPACT_SWITCH_TIME, s->times);
        put_column(b, COMPACT_SWITCH_STATE, s->states);
        put_column(b, COMPACT_SWITCH_PID, s->pids);
        put_zeros(b, COMPACT_SWITCH_PRIO, s->n);
        put_column(b, COMPACT_SWITCH_NAME, s->names);
    }
    if (w->n) {
        put_column(b, COMPACT_WAKING_TIME, w->times);
        put_column(b, COMPACT_WAKING_PID, w->pids);
        put_zeros(b, COMPACT_WAKING_CPU, w->n);
        put_zeros(b, COMPACT_WAKING_PRIO, w->n);
        put_column(b, COMPACT_WAKING_NAME, w->names);
    }
    protobuf_bytes(b->bundle, BUNDLE_COMPACT, b->part->data, b->part->len);
}

/* Writes a vCPU's bundle, and begins another one. */
static void flush(struct sched_bundles *b, unsigned vcpu)
{
    struct sched_cpu *cpu = b->cpus[vcpu];

    if (!cpu || (!cpu->switches.n && !cpu->wakes.n && !cpu->events->len)) {
        return;
    }
    g_byte_array_set_size(b->bundle, 0);
    protobuf_number(b->bundle, BUNDLE_CPU, vcpu);
    g_byte_array_append(b->bundle, cpu->events->data, cpu->events->len);
    if (cpu->switches.n || cpu->wakes.n) {
        put_columns(b, cpu);
    }
    perfetto_ftrace(b->out, b->bundle);
    reset_columns(&cpu->switches);
    reset_columns(&cpu->wakes);
    g_byte_array_set_size(cpu->events, 0);
    g_byte_array_set_size(cpu->table, 0);
    g_hash_table_remove_all(cpu->names);
}

static unsigned name_index(struct sched_cpu *cpu, const char *text)
{
    g_autofree char *name = btrail_quote(text, "");
    unsigned n = GPOINTER_TO_UINT(g_hash_table_lookup(cpu->names, name));

    if (!n) {
        n = g_hash_table_size(cpu->names) + 1;
        protobuf_bytes(cpu->table, COMPACT_NAMES, name, strlen(name));
        g_hash_table_insert(cpu->names, g_steal_pointer(&name),
                            GUINT_TO_POINTER(n));
    }
    return n - 1;
}

static void put_row(struct sched_cpu *cpu, struct columns *c, uint64_t time,
                    uint32_t tid, const char *name)
{
    protobuf_varint(c->times, time - c->last);
    c->last = time;
    protobuf_varint(c->pids, tid & INT32_MAX);
    protobuf_varint(c->names, name_index(cpu, name));
    c->n++;
}

static void put_switch(struct sched_cpu *cpu, uint64_t time, uint32_t tid,
                       const char *name, enum schedule_state state)
{
    protobuf_varint(cpu->switches.states, states[state]);
    put_row(cpu, &cpu->switches, time, tid, name);
}

/* The number of what a vCPU runs if nobody knows what that is */
static uint32_t unknown_number(unsigned vcpu)
{
    return INT32_MAX - vcpu;
}

static void note_thread(struct sched_bundles *b, const struct btrail_task *t)
{
    gpointer key = GSIZE_TO_POINTER(t->tid & INT32_MAX);
    struct sched_thread *thread = g_hash_table_lookup(b->threads, key);

    if (!thread && t->tid) {
        thread = g_new0(struct sched_thread, 1);
        g_hash_table_insert(b->threads, key, thread);
    }
    if (thread) {
        thread->pid = t->pid & INT32_MAX;
        memcpy(thread->name, t->name, sizeof(thread->name));
    }
}

static void on_run(void *opaque, const struct schedule_run *run)
{
    struct sched_bundles *b = opaque;
    struct sched_cpu *cpu = get_cpu(b, run->vcpu);

    if (run->first) {
        /* Readers take from the first one only who runs before the next. */
        put_switch(cpu, run->time, 0, "swapper", SCHEDULE_RUNNABLE);
    }
    if (run->task.known) {
        note_thread(b, &run->task);
        put_switch(cpu, run->time, run->task.tid, run->task.name,
                   run->state);
    } else {
        put_switch(cpu, run->time, unknown_number(run->vcpu),
                   "(unknown task)", run->state);
    }
    if (cpu->switches.n + 1 >= MANY) {
        flush(b, run->vcpu);
    }
}

/* A wake-up that says itself who has done it */
static void put_late_wake(struct sched_bundles *b, struct sched_cpu *cpu,
                          const struct schedule_wake *wake, uint32_t waker)
{
    const struct sched_thread *thread = g_hash_table_lookup(
        b->threads, GSIZE_TO_POINTER(wake->task.tid & INT32_MAX));
    g_autofree char *name = thread ? btrail_quote(thread->name, "") : NULL;

    g_byte_array_set_size(b->part, 0);
    g_byte_array_set_size(b->bundle, 0);
    if (name) {
        protobuf_bytes(b->bundle, WAKING_NAME, name, strlen(name));
    }
    protobuf_number(b->bundle, WAKING_PID, wake->task.tid & INT32_MAX);
    protobuf_number(b->part, EVENT_TIME, wake->time);
    protobuf_number(b->part, EVENT_PID, waker & INT32_MAX);
    protobuf_bytes(b->part, EVENT_WAKING, b->bundle->data, b->bundle->len);
    protobuf_bytes(cpu->events, BUNDLE_EVENT, b->part->data, b->part->len);
}

static void on_wake(void *opaque, const struct schedule_wake *wake)
{
    struct sched_bundles *b = opaque;
    struct sched_cpu *cpu = get_cpu(b, wake->vcpu);

    if (wake->late) {
        put_late_wake(b, cpu, wake, wake->waker.known ? wake->waker.tid :
                      unknown_number(wake->vcpu));
    } else {
        put_row(cpu, &cpu->wakes, wake->time, wake->task.tid, "");
    }
    if (cpu->wakes.n >= MANY || cpu->events->len >= 32 * MANY) {
        flush(b, wake->vcpu);
    }
}

const struct schedule_ops sched_bundles_ops = { on_run, on_wake };

void sched_bundles_end(struct sched_bundles *b)
{
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        flush(b, i);
    }
}

void sched_bundles_threads(const struct sched_bundles *b, struct perfetto *out)
{
    GHashTableIter iter;
    gpointer tid, value;

    g_hash_table_iter_init(&iter, b->threads);
    while (g_hash_table_iter_next(&iter, &tid, &value)) {
        const struct sched_thread *t = value;

        perfetto_task(out, t->pid, GPOINTER_TO_SIZE(tid), t->name);
    }
}
