/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks that are found as their records come: see mark-hits.h
 */

#include <glib.h>
#include <string.h>

#include "drain/mark-hits.h"

/* Values that are read on a vCPU at a time: an interrupt, or a signal, has come
 * in the middle of each but the last one. */
#define MAX_READINGS    8

/* Records that are passed for one value */
#define MAX_RECORDS     (1u << 24)

struct value_reading {
    struct mark mark;
    struct mark_value value;
    struct mark_thread thread;
    unsigned records;
};

struct hits_vcpu {
    bool nested;
    bool named;
    uint64_t tid;
    unsigned n;
    struct value_reading *readings;   /* MAX_READINGS of them, or NULL */
};

struct mark_hits {
    struct marked_code *code;
    const struct marked_offsets *offsets;
    struct mark_wanted *wanted;
    unsigned n;
    bool alone;                 /* one vCPU */
    mark_hit_fn *hit;
    void *opaque;
    struct hits_vcpu vcpus[BTRAIL_MAX_VCPUS];
};

struct mark_hits *mark_hits_new(const struct mark_wanted *wanted, unsigned n,
                                mark_hit_fn *hit, void *opaque)
{
    struct mark_hits *h = g_new0(struct mark_hits, 1);

    h->wanted = g_new0(struct mark_wanted, n);
    for (unsigned i = 0; i < n; i++) {
        mark_wanted_copy(&h->wanted[i], &wanted[i]);
    }
    h->n = n;
    h->hit = hit;
    h->opaque = opaque;
    h->code = marked_code_new(h->wanted, n);
    h->offsets = marked_code_offsets(h->code);
    return h;
}

void mark_hits_free(struct mark_hits *h)
{
    if (h) {
        for (unsigned i = 0; i < h->n; i++) {
            mark_wanted_clear(&h->wanted[i]);
        }
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            g_free(h->vcpus[i].readings);
        }
        marked_code_free(h->code);
        g_free(h->wanted);
        g_free(h);
    }
}

void mark_hits_set_vcpus(struct mark_hits *h, unsigned vcpus)
{
    h->alone = vcpus == 1;
}

void mark_hits_set_budget(struct mark_hits *h, struct btrail_budget *budget)
{
    marked_code_set_budget(h->code, budget);
}

unsigned mark_hits_places(const struct mark_hits *h, unsigned i)
{
    return marked_code_places(h->code, i);
}

bool mark_hits_code(struct mark_hits *h, unsigned vcpu,
                    const struct btrail_code_item *item, const uint8_t *page)
{
    return marked_code_item(h->code, vcpu, item, page);
}

uint64_t mark_hits_missed(const struct mark_hits *h)
{
    return marked_code_missed(h->code);
}

bool mark_hits_forgot(const struct mark_hits *h)
{
    return marked_code_forgot(h->code);
}

bool mark_hits_lack_code(const struct mark_hits *h)
{
    return marked_code_lacks(h->code);
}

static void remove_reading(struct hits_vcpu *v, unsigned i)
{
    memmove(v->readings + i, v->readings + i + 1,
            (--v->n - i) * sizeof(*v->readings));
}

static void begin_reading(struct hits_vcpu *v, const struct mark *mark,
                          const struct mark_thread *thread)
{
    struct value_reading *r;

    if (!v->readings) {
        v->readings = g_new(struct value_reading, MAX_READINGS);
    }
    if (v->n == MAX_READINGS) {
        remove_reading(v, 0);
    }
    r = &v->readings[v->n++];
    *r = (struct value_reading) { .mark = *mark, .thread = *thread };
    mark_value_begin(&r->value, mark);
}

/* Reports a mark's value, or the mark alone. */
static void report(struct mark_hits *h, const struct mark *mark, unsigned vcpu,
                   uint64_t cr3, const uint64_t *value)
{
    for (unsigned i = 0; i < h->n; i++) {
        const struct mark_wanted *w = &h->wanted[i];

        if (mark_wanted_has_name(w, mark->name) && !w->condition == !value &&
            (!value || mark_wanted_has_value(w, *value))) {
            h->hit(h->opaque, i, vcpu, cr3);
        }
    }
}

/* Has any of those with this name a condition? */
static bool wants_value(const struct mark_hits *h, const struct mark *mark)
{
    for (unsigned i = 0; i < h->n; i++) {
        if (h->wanted[i].condition &&
            mark_wanted_has_name(&h->wanted[i], mark->name)) {
            return true;
        }
    }
    return false;
}

static enum mark_value_state add_record(const struct mark_hits *h,
                                        struct value_reading *r,
                                        const struct mark_thread *now,
                                        const struct btrail_record *record)
{
    if ((r->value.away && !h->alone &&
         mark_thread_is_switched(&r->thread, &r->mark, now)) ||
        ++r->records > MAX_RECORDS) {
        return MARK_VALUE_UNKNOWN;
    }
    return mark_value_add(&r->value, record,
                          mark_thread_is_same(&r->thread, &r->mark, now));
}

static void read_values(struct mark_hits *h, unsigned vcpu,
                        const struct mark_thread *now,
                        const struct btrail_record *record)
{
    struct hits_vcpu *v = &h->vcpus[vcpu];

    for (unsigned i = 0; i < v->n;) {
        struct value_reading *r = &v->readings[i];
        enum mark_value_state state = add_record(h, r, now, record);

        if (state == MARK_VALUE_MORE) {
            i++;
            continue;
        }
        if (state == MARK_VALUE_KNOWN) {
            report(h, &r->mark, vcpu, r->thread.cr3, &r->value.value);
        }
        remove_reading(v, i);
    }
}

void mark_hits_record(struct mark_hits *h, unsigned vcpu, uint64_t index,
                      uint64_t cr3, uint64_t from, uint64_t to)
{
    struct hits_vcpu *v = &h->vcpus[vcpu];
    const struct mark_thread now = { v->named, v->tid, cr3 };
    struct mark mark;

    if (G_UNLIKELY(v->n)) {
        const struct btrail_record record = { from, to };

        read_values(h, vcpu, &now, &record);
    }
    if (G_UNLIKELY(marked_code_lost(h->code, vcpu, index)) ||
        G_LIKELY(!marked_offsets_has(h->offsets, to)) ||
        !marked_code_find(h->code, vcpu, index, cr3, from, to, &mark)) {
        return;
    }
    report(h, &mark, vcpu, cr3, NULL);
    if (mark.has_value && wants_value(h, &mark)) {
        begin_reading(v, &mark, &now);
    }
}

void mark_hits_event(struct mark_hits *h, unsigned vcpu,
                     const struct btrail_event *event)
{
    struct hits_vcpu *v = &h->vcpus[vcpu];

    switch (event->type) {
    case BTRAIL_EVENT_TASK:
        /* A nested guest has the same numbers again. */
        v->named = !(event->reason & BTRAIL_TASK_UNKNOWN) && !v->nested;
        v->tid = event->data[0];
        break;
    case BTRAIL_EVENT_KERNEL:
        v->named = false;
        v->nested = event->reason & BTRAIL_KERNEL_NESTED;
        break;
    case BTRAIL_EVENT_GAP:
        v->n = 0;
        break;
    default:
        break;
    }
}

void mark_hits_lost(struct mark_hits *h, unsigned vcpu)
{
    h->vcpus[vcpu].n = 0;
}
