/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which records of a trace the filter chooses: see chooser.h
 */

#include "analyze/chooser.h"
#include "util/hash.h"

/* What the filter said about an edge, so that it is asked once */
struct asked {
    const struct process *process;
    uint64_t class;
    uint64_t from;
    uint64_t to;
    uint32_t era;
    bool chosen;
    bool used;
};
#define ASKED_SIZE  (1u << 16)

struct chooser {
    struct symbolizer *names;
    const struct filter *filter;
    struct window window;
    struct asked asked[ASKED_SIZE];
};

struct chooser *chooser_new(struct symbolizer *names,
                            const struct filter *filter,
                            const struct window *window)
{
    struct chooser *c = g_new0(struct chooser, 1);

    c->names = names;
    c->filter = filter;
    c->window = *window;
    return c;
}

void chooser_free(struct chooser *c)
{
    g_free(c);
}

static bool chosen(struct chooser *c, uint64_t class, const struct task *task,
                   const struct named_record *record, struct place *from,
                   struct place *to)
{
    size_t hash = btrail_hash3(record->from, record->to, class ^
                               (uintptr_t)record->process) >> 48;
    struct asked *a = &c->asked[hash % ASKED_SIZE];

    if (!a->used || a->process != record->process || a->class != class ||
        a->from != record->from || a->to != record->to ||
        a->era != task->era) {
        symbolizer_place(c->names, record->process, &task->where,
                         record->from, from);
        symbolizer_target(c->names, record->process, &task->where,
                          record->to, to);
        *a = (struct asked) {
            record->process, class, record->from, record->to, task->era,
            filter_chooses(c->filter, class, record), true,
        };
    }
    return a->chosen;
}

/* What the filter is told of a batch; it begins with the first record. */
static struct named_record first_record(struct chooser *c, unsigned vcpu,
                                        const struct task *task,
                                        const struct btrail_batch *b,
                                        struct place *from, struct place *to)
{
    return (struct named_record) {
        .vcpu = vcpu, .index = b->index, .from_place = from,
        .to_place = to, .lines = c->names, .process = task->process,
        .time = window_time(&c->window, b->time.host),
    };
}

size_t chooser_choose(struct chooser *c, unsigned vcpu,
                      const struct task *task, const struct btrail_batch *b,
                      bool *counts)
{
    const struct filter *filter = c->filter;
    struct place from, to;
    struct named_record record = first_record(c, vcpu, task, b, &from, &to);
    uint64_t class = 0, until = 0;
    bool may = false;
    size_t n = 0;

    for (size_t i = 0; i < b->count; i++) {
        record.index = b->index + i;
        if (record.index >= until) {
            class = filter_class(filter, &record);
            may = filter_may_choose(filter, class);
            until = filter_until(filter, &record);
        }
        record.from = b->records[i].from;
        record.to = b->records[i].to;
        counts[i] = may && chosen(c, class, task, &record, &from, &to);
        n += counts[i];
    }
    return n;
}

bool chooser_has(struct chooser *c, unsigned vcpu, const struct task *task,
                 const struct btrail_batch *b, bool within)
{
    struct place from, to;
    struct named_record record = first_record(c, vcpu, task, b, &from, &to);
    uint64_t class = filter_class(c->filter, &record);

    record.from = b->records->from;
    record.to = b->records->to;
    if (within) {
        class = filter_class_within(c->filter, class);
    }
    return filter_may_choose(c->filter, class) &&
           chosen(c, class, task, &record, &from, &to);
}
