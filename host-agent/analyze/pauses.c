/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pauses: see pauses.h
 */

#include <glib.h>
#include <stdlib.h>

#include "analyze/pace.h"
#include "analyze/pauses.h"
#include "lib/agent/pause.h"
#include "util/search.h"

/* Pauses that memory is used for, and waits of vCPUs: 24 MiB for each list */
#define MAX_PAUSES  (1u << 20)
#define MAX_WAITS   (1u << 20)

/**
 * struct pause_item - a pause in a list
 * @begin, @end: of it
 * @before:      of all that are before it in the list, their sum
 */
struct pause_item {
    uint64_t begin;
    uint64_t end;
    uint64_t before;
};

/* In order, and apart from each other */
struct pause_list {
    struct pause_item *pauses;
    size_t n;
    size_t room;
};

/**
 * struct pauses
 * @vcpus: of each vCPU; @both: and at the same time of the whole guest
 * @guest, @any: of the whole guest, of any vCPU
 */
struct pauses {
    struct pause_list vcpus[BTRAIL_MAX_VCPUS];
    struct pause_list both[BTRAIL_MAX_VCPUS];
    struct pauses_sum sums[BTRAIL_MAX_VCPUS];
    struct pause_list guest;
    struct pause_list any;
    size_t n;
    uint64_t unknown;
};

/* Appends a pause that begins no earlier than the last one. */
static void append(struct pause_list *l, uint64_t begin, uint64_t end)
{
    struct pause_item *last = l->n ? &l->pauses[l->n - 1] : NULL;
    uint64_t before;

    if (begin >= end) {
        return;
    }
    if (last && begin <= last->end) {
        last->end = MAX(last->end, end);
        return;
    }
    before = last ? last->before + (last->end - last->begin) : 0;
    if (l->n == l->room) {
        l->room = MAX(2 * l->room, 16);
        l->pauses = g_renew(struct pause_item, l->pauses, l->room);
    }
    l->pauses[l->n++] = (struct pause_item) { begin, end, before };
}

static uint64_t sum_before(const struct pause_list *l, uint64_t time)
{
    size_t i = !l->n ? 0 : BTRAIL_UP_TO(l->pauses, l->n, struct pause_item,
                                        begin, time);
    const struct pause_item *p;

    if (!i) {
        return 0;
    }
    p = &l->pauses[i - 1];
    return p->before + (MIN(time, p->end) - p->begin);
}

static uint64_t sum(const struct pause_list *l, uint64_t begin, uint64_t end)
{
    return begin < end ? sum_before(l, end) - sum_before(l, begin) : 0;
}

static bool add(struct pauses *p, struct pause_list *l,
                const struct btrail_pause *pause)
{
    /* The clock does not go back, so if it does in the file, that is wrong. */
    uint64_t begin = l->n ? MAX(pause->begin, l->pauses[l->n - 1].end) :
                     pause->begin;

    if (p->n == MAX_PAUSES) {
        p->unknown++;
        return false;
    }
    p->n++;
    append(l, begin, pause->end);
    return true;
}

/* Where a pause begins or ends */
struct pause_edge {
    uint64_t time;
    int step;
};

static int by_time(const void *a, const void *b)
{
    const struct pause_edge *x = a, *y = b;

    return BTRAIL_COMPARE(x->time, y->time) ?:
           BTRAIL_COMPARE(y->step, x->step);
}

static void add_edges(GArray *edges, const struct pause_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct pause_edge both[] = {
            { l->pauses[i].begin, 1 }, { l->pauses[i].end, -1 },
        };

        g_array_append_vals(edges, both, 2);
    }
}

/* The times in which at least @least of the lists have a pause */
static void unite(struct pause_list *out, GArray *edges, unsigned least)
{
    unsigned depth = 0;
    uint64_t since = 0;

    if (!edges->len) {
        return;
    }
    qsort(edges->data, edges->len, sizeof(struct pause_edge), by_time);
    for (guint i = 0; i < edges->len; i++) {
        const struct pause_edge *e = &g_array_index(edges, struct pause_edge,
                                                    i);
        unsigned was = depth;

        depth += e->step;
        if (was < least && depth >= least) {
            since = e->time;
        } else if (was >= least && depth < least) {
            append(out, since, e->time);
        }
    }
}

/**
 * struct reading
 * @stops:  where pauses of all vCPUs with the guest begin and end
 * @stands: where any vCPU begins and ends not to run
 * @n_vcpus: that have a stream
 */
struct reading {
    const struct btrail_trace *trace;
    const struct pauses_guest *guest;
    struct pauses *p;
    GArray *stops;
    GArray *stands;
    unsigned n_vcpus;
    size_t n_waits;
};

/**
 * struct vcpu_reading - events of a vCPU, as they come
 * @all, @stopped: pauses of any reason; those of the whole guest
 * @stops: of the latter
 */
struct vcpu_reading {
    struct pauses *p;
    unsigned vcpu;
    struct btrail_pause_watch all;
    struct btrail_pause_watch stopped;
    struct pause_list stops;
};

static void take_event(void *opaque, const struct btrail_event *e)
{
    struct vcpu_reading *v = opaque;
    struct btrail_pause pause;

    if (btrail_pause_watch_event(&v->all, e, &pause) &&
        add(v->p, &v->p->vcpus[v->vcpu], &pause)) {
        v->p->sums[v->vcpu].n++;
    }
    if (((e->type != BTRAIL_EVENT_PAUSE && e->type != BTRAIL_EVENT_RESUME) ||
         e->reason == BTRAIL_PAUSE_VM_STOP) &&
        btrail_pause_watch_event(&v->stopped, e, &pause)) {
        add(v->p, &v->stops, &pause);
    }
}

/*
 * Reads pauses, and where the vCPU made no records although it was not paused:
 * one reading has both.
 */
static int read_vcpu(struct reading *r, struct vcpu_reading *v,
                     struct pause_list *waits)
{
    const struct pace *pace;
    struct paces *paces;
    int ret = paces_open(&paces, r->trace, v->vcpu, r->guest->tick);

    if (ret) {
        return ret;
    }
    paces_watch(paces, take_event, v);
    while ((pace = paces_next(paces))->end != UINT64_MAX ||
           pace->until != UINT64_MAX) {
        if (r->guest->whole && pace->wait && r->n_waits < MAX_WAITS) {
            append(waits, pace->until - pace->wait / PACE_TICKS, pace->until);
            r->n_waits++;
        }
    }
    ret = paces_error(paces);
    paces_close(paces);
    r->p->unknown += v->all.unknown + (v->all.reasons != 0);
    r->p->sums[v->vcpu].ns = sum(&r->p->vcpus[v->vcpu], 0, UINT64_MAX);
    return ret;
}

static int add_vcpu(struct reading *r, unsigned vcpu)
{
    g_autoptr(GArray) edges = g_array_new(FALSE, FALSE,
                                          sizeof(struct pause_edge));
    struct pause_list stands = { NULL }, waits = { NULL };
    struct vcpu_reading v = { .p = r->p, .vcpu = vcpu };
    int ret = read_vcpu(r, &v, &waits);

    add_edges(edges, &waits);
    add_edges(edges, &r->p->vcpus[vcpu]);
    unite(&stands, edges, 1);
    add_edges(r->stands, &stands);
    add_edges(r->stops, &v.stops);
    g_free(stands.pauses);
    g_free(v.stops.pauses);
    g_free(waits.pauses);
    r->n_vcpus++;
    return ret;
}

static void combine(struct reading *r)
{
    g_autoptr(GArray) edges = g_array_new(FALSE, FALSE,
                                          sizeof(struct pause_edge));
    struct pause_list all = { NULL }, held = { NULL }, stops = { NULL };

    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        add_edges(edges, &r->p->vcpus[i]);
    }
    unite(&r->p->any, edges, 1);
    /* Of vCPUs without a stream it is not known whether they ran. */
    if (r->n_vcpus && r->n_vcpus == r->guest->vcpus) {
        unite(&all, r->stands, r->n_vcpus);
    }
    g_array_set_size(edges, 0);
    add_edges(edges, &all);
    add_edges(edges, &r->p->any);
    unite(&held, edges, 2);
    unite(&stops, r->stops, 1);
    g_array_set_size(edges, 0);
    add_edges(edges, &held);
    add_edges(edges, &stops);
    unite(&r->p->guest, edges, 1);
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (r->p->vcpus[i].n) {
            g_array_set_size(edges, 0);
            add_edges(edges, &r->p->vcpus[i]);
            add_edges(edges, &r->p->guest);
            unite(&r->p->both[i], edges, 2);
        }
    }
    g_free(all.pauses);
    g_free(held.pauses);
    g_free(stops.pauses);
}

int pauses_read(struct pauses **pauses, const struct btrail_trace *trace,
                const struct pauses_guest *guest)
{
    struct reading r = {
        .trace = trace, .guest = guest, .p = g_new0(struct pauses, 1),
        .stops = g_array_new(FALSE, FALSE, sizeof(struct pause_edge)),
        .stands = g_array_new(FALSE, FALSE, sizeof(struct pause_edge)),
    };
    struct btrail_stream_info info;
    int ret = 0;

    for (unsigned i = 0; !ret && !btrail_trace_stream(trace, i, &info); i++) {
        ret = add_vcpu(&r, info.vcpu);
    }
    if (!ret) {
        combine(&r);
        *pauses = r.p;
    } else {
        pauses_free(r.p);
    }
    g_array_unref(r.stops);
    g_array_unref(r.stands);
    return ret;
}

void pauses_free(struct pauses *p)
{
    if (p) {
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            g_free(p->vcpus[i].pauses);
            g_free(p->both[i].pauses);
        }
        g_free(p->guest.pauses);
        g_free(p->any.pauses);
        g_free(p);
    }
}

struct pauses_sum pauses_of_vcpu(const struct pauses *p, unsigned vcpu)
{
    return vcpu < BTRAIL_MAX_VCPUS ? p->sums[vcpu] :
           (struct pauses_sum) { 0 };
}

struct pauses_sum pauses_of_all(const struct pauses *p)
{
    struct pauses_sum all = { 0 };

    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        all.n += p->sums[i].n;
        all.ns += p->sums[i].ns;
    }
    return all;
}

bool pauses_get(const struct pauses *p, unsigned vcpu, size_t i,
                uint64_t *begin, uint64_t *end)
{
    const struct pause_list *l = vcpu == PAUSES_GUEST ? &p->guest :
                                 vcpu < BTRAIL_MAX_VCPUS ? &p->vcpus[vcpu] :
                                 NULL;

    if (!l || i >= l->n) {
        return false;
    }
    *begin = l->pauses[i].begin;
    *end = l->pauses[i].end;
    return true;
}

uint64_t pauses_unknown(const struct pauses *p)
{
    return p->unknown;
}

uint64_t pauses_vcpu(const struct pauses *p, unsigned vcpu, uint64_t begin,
                     uint64_t end)
{
    return vcpu < BTRAIL_MAX_VCPUS ? sum(&p->vcpus[vcpu], begin, end) : 0;
}

uint64_t pauses_vcpu_alone(const struct pauses *p, unsigned vcpu,
                           uint64_t begin, uint64_t end)
{
    return vcpu < BTRAIL_MAX_VCPUS ? sum(&p->vcpus[vcpu], begin, end) -
                                     sum(&p->both[vcpu], begin, end) : 0;
}

uint64_t pauses_whole_guest(const struct pauses *p, uint64_t begin,
                            uint64_t end)
{
    return sum(&p->guest, begin, end);
}

uint64_t pauses_any(const struct pauses *p, uint64_t begin, uint64_t end)
{
    return sum(&p->any, begin, end);
}
