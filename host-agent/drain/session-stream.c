/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The streams of a session: see session-stream.h
 */

#include "drain/session-stream.h"
#include "util/clock.h"

/* Items of code that wait for the slab with their records */
#define MAX_PENDING         4096

/* Positions in the capture for which a session remembers its own */
#define POSITIONS           256

struct pending_code {
    uint64_t number;
    struct btrail_code_item item;
};

/* The index of a record in the capture, and of the next one in the session */
struct session_position {
    uint64_t capture;
    uint64_t session;
};

/*
 * The stream of a vCPU.  Records have the capture's numbers, or these moved:
 * number @base is @start; or, if some are left out, numbers of their own, from
 * @start on.
 */
struct session_vcpu {
    struct btrail_stream *stream;
    uint64_t base;
    uint64_t start;
    bool slabs;                 /* there has been one */
    bool dropped;               /* the last one was, for lack of room */
    /* Of struct pending_code: before the first slab, or if records are left
     * out */
    GArray *pending;

    /* If records are left out */
    struct filtered filtered;
    struct session_position positions[POSITIONS];
    unsigned n_positions;
};

void session_streams_init(struct session_streams *s, unsigned n,
                          const uint64_t *indices)
{
    s->n = n;
    s->vcpus = g_new0(struct session_vcpu, n);
    for (unsigned i = 0; i < n; i++) {
        struct session_vcpu *v = &s->vcpus[i];

        v->base = indices[i];
        v->start = i < s->n_resume ? s->resume[i] : 0;
        v->filtered.index = v->start;
        v->pending = g_array_new(FALSE, FALSE, sizeof(struct pending_code));
    }
    s->events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    s->marks = g_array_new(FALSE, FALSE, sizeof(struct filter_mark));
}

void session_streams_clear(struct session_streams *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        btrail_stream_free(s->vcpus[i].stream);
        g_array_unref(s->vcpus[i].pending);
    }
    g_free(s->vcpus);
    g_array_unref(s->events);
    g_array_unref(s->marks);
}

/* Makes the stream of a vCPU if there is none yet. */
static int make_stream(struct session_streams *s, unsigned vcpu)
{
    struct session_vcpu *v = &s->vcpus[vcpu];
    bool resumes = vcpu < s->n_resume;

    if (v->stream) {
        return 0;
    }
    v->stream = btrail_stream_new(vcpu, output_sink(s->output),
                                  s->anywhere || resumes);
    btrail_stream_observe(v->stream, s->observer);
    btrail_stream_begin(v->stream, v->start);
    return resumes ? btrail_stream_event(v->stream, BTRAIL_EVENT_GAP,
                                         BTRAIL_GAP_AGENT_LOST,
                                         BTRAIL_LOST_UNKNOWN) : 0;
}

/* Known losses that the events of a slab report */
static uint64_t count_lost(const struct btrail_slab *slab)
{
    uint64_t lost = 0;

    for (size_t i = 0; i < slab->n_events; i++) {
        if (btrail_event_is_known_gap(&slab->events[i])) {
            lost += slab->events[i].data[0];
        }
    }
    return lost;
}

/* Adds a slab with the session's own numbers. */
static int append_slab(struct session_streams *s, unsigned vcpu,
                       const struct btrail_checked_slab *checked,
                       uint16_t gap_reason)
{
    const struct btrail_slab *slab = &checked->slab;
    struct session_vcpu *v = &s->vcpus[vcpu];
    uint64_t before, hole;
    int ret = make_stream(s, vcpu);

    if (ret) {
        return ret;
    }
    if (s->drop && output_full(s->output) &&
        !(slab->n_events &&
          slab->events[slab->n_events - 1].type == BTRAIL_EVENT_END)) {
        /* The next slab shows it as a hole. */
        v->dropped = true;
        return 0;
    }
    if (v->dropped) {
        gap_reason = BTRAIL_GAP_OVERFLOW;
        v->dropped = false;
    }
    before = btrail_stream_unexplained(v->stream);
    ret = btrail_stream_append_checked(v->stream, checked, gap_reason);
    if (ret) {
        return ret;
    }
    hole = btrail_stream_unexplained(v->stream) - before;
    if (gap_reason == BTRAIL_GAP_CORRUPT) {
        s->unexplained += hole;
    }
    __atomic_fetch_add(&s->lost, hole + count_lost(slab),
                       __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->records, slab->n_records,
                       __ATOMIC_RELAXED);
    return 0;
}

/* The session's number of a record of the capture, if all are wanted */
static uint64_t moved_index(const struct session_vcpu *v, uint64_t index)
{
    return MAX(index, v->base) - v->base + v->start;
}

/* Adds a slab of which all is wanted, with other numbers. */
static int move_slab(struct session_streams *s, unsigned vcpu,
                     const struct btrail_checked_slab *checked,
                     uint16_t gap_reason)
{
    const struct session_vcpu *v = &s->vcpus[vcpu];
    struct btrail_checked_slab moved = *checked;

    g_array_set_size(s->events, 0);
    g_array_append_vals(s->events, checked->slab.events,
                        checked->slab.n_events);
    for (size_t i = 0; i < s->events->len; i++) {
        struct btrail_event *e = &g_array_index(s->events,
                                                struct btrail_event, i);

        e->index = moved_index(v, e->index);
    }
    moved.begin = moved_index(v, checked->begin);
    moved.end = moved_index(v, checked->end);
    moved.slab.first_index = moved_index(v, checked->slab.first_index);
    moved.slab.events = (const struct btrail_event *)s->events->data;
    return append_slab(s, vcpu, &moved, gap_reason);
}

static void remember_position(struct session_vcpu *v, uint64_t capture)
{
    v->positions[v->n_positions++ % POSITIONS] = (struct session_position) {
        capture, v->filtered.index,
    };
}

/* Returns the session's index at one of the capture, or one before it. */
static uint64_t find_position(const struct session_vcpu *v, uint64_t capture)
{
    unsigned n = v->n_positions;
    unsigned left = MIN(n, POSITIONS);

    while (left--) {
        const struct session_position *p = &v->positions[--n % POSITIONS];

        if (p->capture <= capture) {
            return p->session;
        }
    }
    return v->start;
}

static void hand_code(struct session_streams *s, unsigned vcpu,
                      const struct pending_code *code, uint64_t index)
{
    struct btrail_code_item moved = code->item;

    if (moved.type == BTRAIL_CODE_LOST) {
        moved.linear = find_position(&s->vcpus[vcpu], moved.linear);
    }
    moved.index = index;
    session_code_item(s->code, vcpu, code->number, &moved, NULL);
}

/* Hands on the first @n items that wait, at the places of their marks. */
static void hand_pending(struct session_streams *s, unsigned vcpu, size_t n)
{
    struct session_vcpu *v = &s->vcpus[vcpu];

    for (size_t i = 0; i < n; i++) {
        hand_code(s, vcpu, &g_array_index(v->pending, struct pending_code, i),
                  g_array_index(s->marks, struct filter_mark, i).placed);
    }
    g_array_remove_range(v->pending, 0, n);
}

/* An item whose records are moved, not filtered */
static void move_code(struct session_streams *s, unsigned vcpu,
                      const struct pending_code *code)
{
    const struct session_vcpu *v = &s->vcpus[vcpu];
    struct btrail_code_item moved = code->item;

    if (moved.index != UINT64_MAX) {
        moved.index = moved_index(v, moved.index);
    }
    if (moved.type == BTRAIL_CODE_LOST) {
        moved.linear = moved_index(v, moved.linear);
    }
    session_code_item(s->code, vcpu, code->number, &moved, NULL);
}

/* Hands on all items that wait for the first slab, which says @base. */
static void move_pending(struct session_streams *s, unsigned vcpu)
{
    GArray *pending = s->vcpus[vcpu].pending;

    for (unsigned i = 0; i < pending->len; i++) {
        move_code(s, vcpu, &g_array_index(pending, struct pending_code, i));
    }
    g_array_set_size(pending, 0);
}

static int filter_slab(struct session_streams *s, unsigned vcpu,
                       const struct btrail_checked_slab *slab, uint64_t index,
                       uint16_t gap_reason)
{
    struct session_vcpu *v = &s->vcpus[vcpu];
    const struct btrail_slab *wanted = &v->filtered.checked.slab;
    size_t i, n = 0;

    g_array_set_size(s->marks, 0);
    for (i = 0; i < v->pending->len; i++) {
        struct filter_mark mark = {
            g_array_index(v->pending, struct pending_code, i).item.index,
            UINT64_MAX,
        };

        g_array_append_val(s->marks, mark);
    }
    remember_position(v, index);
    filtering_slab(s->filtering, vcpu, &v->filtered, slab, index,
                   gap_reason, (struct filter_mark *)s->marks->data,
                   s->marks->len);
    while (n < s->marks->len &&
           g_array_index(s->marks, struct filter_mark, n).placed !=
           UINT64_MAX) {
        n++;
    }
    if (n) {
        hand_pending(s, vcpu, n);
    }
    __atomic_fetch_add(&s->filtered, v->filtered.dropped,
                       __ATOMIC_RELAXED);
    return wanted->n_records || wanted->n_events ?
           append_slab(s, vcpu, &v->filtered.checked, BTRAIL_GAP_CORRUPT) : 0;
}

int session_streams_slab(struct session_streams *s, unsigned vcpu,
                         const struct btrail_checked_slab *slab,
                         uint64_t index, uint16_t gap_reason)
{
    struct session_vcpu *v = &s->vcpus[vcpu];

    output_slab(s->output);
    if (!filtering_vcpu(s->filtering, vcpu)) {
        return 0;
    }
    if (s->whole) {
        return append_slab(s, vcpu, slab, gap_reason);
    }
    if (!v->slabs && gap_reason == BTRAIL_GAP_AGENT_LOST) {
        /* What others have drained is before the session. */
        index = v->base = slab->begin;
    }
    v->slabs = true;
    if (filtering_all(s->filtering)) {
        move_pending(s, vcpu);
        return move_slab(s, vcpu, slab, gap_reason);
    }
    return filter_slab(s, vcpu, slab, index, gap_reason);
}

/* Does the session get code of this page? */
static bool wants_page(const struct session_streams *s,
                       const struct btrail_code_item *item)
{
    if (item->linear >> 63) {
        return filtering_privilege(s->filtering,
                                   BTRAIL_PRIVILEGE_KERNEL);
    }
    return filtering_privilege(s->filtering, BTRAIL_PRIVILEGE_USER) &&
           (!filtering_fixed_cr3s(s->filtering) ||
            filtering_cr3(s->filtering, item->cr3));
}

void session_streams_code(struct session_streams *s, unsigned vcpu,
                          uint64_t number, const struct btrail_code_item *item,
                          const uint8_t *page)
{
    struct session_vcpu *v = &s->vcpus[vcpu];
    struct pending_code code = { number, *item };
    bool timeless = item->index == UINT64_MAX;

    if (item->type == BTRAIL_CODE_BYTES ||
        (s->whole && filtering_vcpu(s->filtering, vcpu))) {
        session_code_item(s->code, vcpu, number, item, page);
        return;
    }
    if (!filtering_vcpu(s->filtering, vcpu) ||
        (item->type == BTRAIL_CODE_PAGE && !wants_page(s, item))) {
        return;
    }
    if (filtering_all(s->filtering) &&
        (timeless || v->slabs || v->pending->len == MAX_PENDING)) {
        move_code(s, vcpu, &code);
    } else if (filtering_all(s->filtering)) {
        g_array_append_val(v->pending, code);
    } else if (timeless || v->pending->len == MAX_PENDING) {
        hand_code(s, vcpu, &code, timeless ? UINT64_MAX : v->filtered.index);
    } else {
        g_array_append_val(v->pending, code);
    }
}

void session_streams_end_code(struct session_streams *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct session_vcpu *v = &s->vcpus[i];

        for (unsigned k = 0; k < v->pending->len; k++) {
            hand_code(s, i, &g_array_index(v->pending, struct pending_code, k),
                      v->filtered.index);
        }
        g_array_set_size(v->pending, 0);
    }
}

int session_streams_flush(struct session_streams *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct btrail_stream *stream = s->vcpus[i].stream;
        int ret = stream ? btrail_stream_flush(stream) : 0;

        if (ret) {
            return ret;
        }
    }
    return 0;
}

bool session_streams_ended(const struct session_streams *s, unsigned vcpu)
{
    return !filtering_vcpu(s->filtering, vcpu) ||
           (s->vcpus[vcpu].stream &&
            btrail_stream_ended(s->vcpus[vcpu].stream));
}

int session_streams_end(struct session_streams *s, unsigned vcpu,
                        uint64_t index, uint16_t gap, uint16_t reason)
{
    struct session_vcpu *v = &s->vcpus[vcpu];
    int ret = make_stream(s, vcpu);

    if (s->whole) {
        btrail_stream_begin(v->stream, index);
    }
    if (!ret && gap) {
        ret = btrail_stream_event(v->stream, BTRAIL_EVENT_GAP, gap,
                                  BTRAIL_LOST_UNKNOWN);
    }
    return ret ? ret : btrail_stream_event(v->stream, BTRAIL_EVENT_END, reason,
                                           clock_ns());
}
