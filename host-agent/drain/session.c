/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session: see session.h
 */

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/event-fd.h"
#include "drain/output.h"
#include "drain/session-code.h"
#include "drain/session-description.h"
#include "drain/session.h"
#include "lib/internal/stream.h"

/* Between two looks at the size of names: a quarter of a second each */
#define RENEW_TICKS         40

/*
 * Ticks until all is flushed that was made before: the first may be in
 * progress, the next asks for slabs, and the one after that has them.
 */
#define FLUSH_TICKS         3

/* Triggers that have acted and nobody has asked about */
#define MAX_FIRED           1024

/* Blocks that may wait for the file, beside one in the making per vCPU. */
#define QUEUED_BLOCKS       8

#define OUTPUT_FAILED \
    "cannot write the trace: %s; it ends there, at its last whole chunk"

/* Items of code that wait for the slab with their records */
#define MAX_PENDING         4096

/* Places in the capture of which a session remembers where they are in it */
#define PLACES              256

struct item {
    uint64_t number;
    struct btrail_code_item item;
};

struct place {
    uint64_t capture;
    uint64_t session;
};

/*
 * A stream.  Records have the capture's numbers, or these moved: number @base
 * is @start; or, if some are left out, numbers of their own, from @start on.
 */
struct vcpu {
    struct btrail_stream *stream;
    uint64_t base;
    uint64_t start;
    bool slabs;                 /* there has been one */
    bool dropped;               /* the last one was, for want of room */

    /* If records are left out */
    struct btrail_filtered filtered;
    GArray *pending;            /* of struct item */
    struct place places[PLACES];
    unsigned n_places;
};

struct btrail_session {
    struct btrail_store *store;
    JsonObject *metadata;
    struct btrail_session_filter filter; /* it has copies */
    uint64_t *resume;
    unsigned n_resume;
    bool resumes;
    bool drop;
    struct btrail_triggers *triggers;   /* NULL if there are none */
    GQueue fired;               /* of numbers + 1; under the lock */
    int fired_fd;
    bool awaits_dump;           /* a trigger has the ring held; atomic */
    int done_fd;
    bool added;                 /* belongs to the owner's thread */
    GThread *closer;            /* under the lock */
    struct btrail_session_progress progress; /* atomic each */
    bool whole;                 /* set before progress.begun */
    enum btrail_session_names names;    /* atomic */

    GMutex lock;
    GCond changed;
    bool ending;                /* under the lock */
    bool closed;                /* under the lock */
    int wake_fd;                /* of the capture, until ending */
    unsigned ticks_wanted;      /* how many wait for them; atomic */
    uint64_t ticks;             /* so far, that have flushed; under the lock */

    /* Held where the output is begun or ended, or asked for something. */
    GMutex output_lock;
    struct btrail_ring *ring;   /* mode last; NULL for others */
    bool keep_ring;             /* in the end */
    struct btrail_session_limit limit;

    /* What follows belongs to the capture's thread, and then to the closer. */
    struct btrail_shm_header header;
    bool attached;
    bool begins_anywhere;       /* the file says why */
    bool over;
    bool failed;                /* to write; it is over, too */
    struct btrail_output *output;
    struct btrail_filtering *filtering;
    struct vcpu *vcpus;
    GArray *events;             /* of struct btrail_event: moved */
    GArray *marks;              /* of struct btrail_mark */
    struct btrail_session_code *code;
    uint64_t snapshots;             /* atomic */
    uint64_t spent_ns;          /* by the capture's thread */
    uint64_t written_ns;        /* by the output's, that was told */
    bool names_renewed;
    unsigned since_renewed;
    uint64_t unexplained;
    uint16_t reason;
    char *release;
    char *no_names;
    GError *error;
};

/* The first error is the one to tell. */
static void output_failed(struct btrail_session *s, int error)
{
    s->over = s->failed = true;
    if (!s->error) {
        s->error = g_error_new(BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                               OUTPUT_FAILED, g_strerror(error));
    }
}

static void copy_filter(struct btrail_session_filter *to,
                        const struct btrail_session_filter *from)
{
    *to = *from;
    to->vcpus = g_memdup2(from->vcpus, from->n_vcpus * sizeof(*from->vcpus));
    to->cr3s = g_memdup2(from->cr3s, from->n_cr3s * sizeof(*from->cr3s));
    to->processes = (const char *const *)g_strdupv((char **)from->processes);
}

static void free_filter(struct btrail_session_filter *f)
{
    g_free((gpointer)f->vcpus);
    g_free((gpointer)f->cr3s);
    g_strfreev((char **)f->processes);
}

/* A trigger has acted, in the capture's thread. */
static void fired(void *opaque, unsigned trigger,
                  enum btrail_trigger_action action)
{
    struct btrail_session *s = opaque;

    if (s->ring && action == BTRAIL_TRIGGER_DUMP &&
        !__atomic_exchange_n(&s->awaits_dump, true, __ATOMIC_ACQ_REL)) {
        btrail_ring_hold(s->ring);
    }
    g_mutex_lock(&s->lock);
    if (s->fired.length < MAX_FIRED) {
        g_queue_push_tail(&s->fired, GUINT_TO_POINTER(trigger + 1));
    }
    g_mutex_unlock(&s->lock);
    btrail_event_fd_set(s->fired_fd);
}

int btrail_session_fired_fd(const struct btrail_session *s)
{
    return s->fired_fd;
}

int btrail_session_take_fired(struct btrail_session *s)
{
    int trigger;

    g_mutex_lock(&s->lock);
    trigger = GPOINTER_TO_INT(g_queue_pop_head(&s->fired)) - 1;
    if (trigger < 0) {
        btrail_event_fd_clear(s->fired_fd);
    }
    g_mutex_unlock(&s->lock);
    return trigger;
}

void btrail_session_let_go(struct btrail_session *s)
{
    if (s->ring &&
        __atomic_exchange_n(&s->awaits_dump, false, __ATOMIC_ACQ_REL)) {
        btrail_ring_let_go(s->ring);
    }
}

bool btrail_session_keeping(const struct btrail_session *s)
{
    return !s->triggers || btrail_triggers_keeping(s->triggers);
}

unsigned btrail_session_places(const struct btrail_session *s,
                               unsigned trigger)
{
    return btrail_triggers_places(s->triggers, trigger);
}

enum btrail_session_names
btrail_session_has_names(const struct btrail_session *s)
{
    return __atomic_load_n(&s->names, __ATOMIC_ACQUIRE);
}

/* What it needs names of the guest for, or NULL */
static const char *needs_names(const struct btrail_session *s)
{
    return s->filter.processes ? "processes" :
           s->triggers && btrail_triggers_want_names(s->triggers) ?
           "triggers" : NULL;
}

struct btrail_session *
btrail_session_new(const struct btrail_session_options *options,
                   GError **error)
{
    struct btrail_session *s;

    s = g_new0(struct btrail_session, 1);
    s->store = options->store;
    if (options->mode == BTRAIL_SESSION_LAST) {
        s->ring = btrail_ring_new(options->folder, &options->limit);
        if (!s->ring) {
            g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                        "cannot write to %s: %s", options->folder,
                        g_strerror(errno));
            g_free(s);
            return NULL;
        }
        s->store = btrail_ring_store(s->ring);
        s->limit = options->limit;
    }
    copy_filter(&s->filter, &options->filter);
    s->drop = options->drop;
    s->resume = g_memdup2(options->resume,
                          options->n_resume * sizeof(*options->resume));
    s->n_resume = options->n_resume;
    s->resumes = options->resume != NULL;
    s->metadata = json_object_ref(options->metadata);
    s->done_fd = btrail_event_fd_new();
    g_mutex_init(&s->lock);
    g_cond_init(&s->changed);
    g_mutex_init(&s->output_lock);
    g_queue_init(&s->fired);
    s->fired_fd = btrail_event_fd_new();
    if (options->n_triggers) {
        s->triggers = btrail_triggers_new(options->triggers,
                                          options->n_triggers,
                                          &options->files, fired, s);
    }
    if (s->triggers && options->keeping) {
        btrail_triggers_keep(s->triggers);
    }
    s->names = needs_names(s) ? BTRAIL_SESSION_NAMES_UNKNOWN :
               BTRAIL_SESSION_NAMES_FINE;
    return s;
}

int btrail_session_done_fd(const struct btrail_session *s)
{
    return s->done_fd;
}

void btrail_session_progress(struct btrail_session *s,
                             struct btrail_session_progress *p)
{
    p->begun = __atomic_load_n(&s->progress.begun, __ATOMIC_ACQUIRE);
    p->records = __atomic_load_n(&s->progress.records, __ATOMIC_RELAXED);
    p->filtered = __atomic_load_n(&s->progress.filtered, __ATOMIC_RELAXED);
    p->bytes = __atomic_load_n(&s->progress.bytes, __ATOMIC_RELAXED);
    p->lost = __atomic_load_n(&s->progress.lost, __ATOMIC_RELAXED);
    p->cpu_ns = __atomic_load_n(&s->progress.cpu_ns, __ATOMIC_RELAXED);
}

bool btrail_session_whole(const struct btrail_session *s)
{
    return s->whole;
}

void btrail_session_added(struct btrail_session *s)
{
    s->added = true;
}

/* Not everything that is captured is the session's. */
static bool chooses_code(const struct btrail_session *s)
{
    return s->filter.n_vcpus || !btrail_filtering_all(s->filtering);
}

/* Say in the file what it is. */
static int describe(struct btrail_session *s)
{
    const struct btrail_session_facts facts = {
        .header = &s->header,
        .filter = &s->filter,
        .drop = s->drop,
        .last = s->ring,
        .attached = s->attached,
    };
    int ret = s->whole ? btrail_session_identify(s->store, s->metadata, &facts,
                                                 &s->begins_anywhere) : 0;

    return ret ? ret : btrail_session_describe(s->store, s->metadata, &facts);
}

void btrail_session_begin(struct btrail_session *s,
                          const struct btrail_session_source *source)
{
    unsigned i;

    s->header = *source->header;
    s->attached = source->attached;
    s->wake_fd = source->wake_fd;
    s->filtering = btrail_filtering_new(&s->filter, source->entry,
                                        source->opaque);
    if (s->triggers) {
        btrail_filtering_gate(s->filtering, btrail_triggers_pass,
                              s->triggers);
    }
    s->whole = source->beginning && !s->resumes && !s->ring &&
               btrail_filtering_all(s->filtering);
    if (describe(s)) {
        s->over = s->failed = true;
        s->error = g_error_new(BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                               "cannot write the trace: %s",
                               g_strerror(errno));
    }
    s->vcpus = g_new0(struct vcpu, s->header.vcpus);
    for (i = 0; i < s->header.vcpus; i++) {
        struct vcpu *v = &s->vcpus[i];

        v->base = source->indices[i];
        v->start = i < s->n_resume ? s->resume[i] : 0;
        v->filtered.index = v->start;
        v->pending = g_array_new(FALSE, FALSE, sizeof(struct item));
    }
    s->events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    s->marks = g_array_new(FALSE, FALSE, sizeof(struct btrail_mark));
    s->output = btrail_output_new(s->store, s->ring ?
                                  btrail_ring_names(s->ring) : NULL,
                                  s->header.vcpus + QUEUED_BLOCKS);
    s->code = btrail_session_code_new(s->output, chooses_code(s));
    __atomic_store_n(&s->progress.begun, true, __ATOMIC_RELEASE);
}

bool btrail_session_over(const struct btrail_session *s)
{
    return s->over;
}

const GError *btrail_session_error(const struct btrail_session *s)
{
    return s->error;
}

bool btrail_session_in_step(const struct btrail_session *s)
{
    return !btrail_filtering_all(s->filtering);
}

bool btrail_session_sees(const struct btrail_session *s, uint32_t privilege)
{
    return btrail_filtering_privilege(s->filtering, privilege);
}

static struct btrail_stream *get_stream(struct btrail_session *s,
                                        unsigned vcpu)
{
    struct vcpu *v = &s->vcpus[vcpu];
    bool resumes = vcpu < s->n_resume;

    if (!v->stream) {
        v->stream = btrail_stream_new(vcpu, btrail_output_sink(s->output),
                                      s->begins_anywhere || resumes);
        btrail_stream_begin(v->stream, v->start);
        if (resumes && btrail_stream_event(v->stream, BTRAIL_EVENT_GAP,
                                           BTRAIL_GAP_AGENT_LOST,
                                           BTRAIL_LOST_UNKNOWN)) {
            output_failed(s, btrail_output_error(s->output));
        }
    }
    return v->stream;
}

/* Known losses that the events of a slab tell */
static uint64_t count_lost(const struct btrail_slab *slab)
{
    uint64_t lost = 0;
    size_t i;

    for (i = 0; i < slab->n_events; i++) {
        if (btrail_event_is_known_gap(&slab->events[i])) {
            lost += slab->events[i].data[0];
        }
    }
    return lost;
}

/* Add a slab with the session's own numbers. */
static int append(struct btrail_session *s, unsigned vcpu,
                  const struct btrail_slab *slab, uint16_t gap_reason)
{
    struct btrail_stream *stream = get_stream(s, vcpu);
    struct vcpu *v = &s->vcpus[vcpu];
    uint64_t before = btrail_stream_unexplained(stream);
    uint64_t hole;
    int ret;

    if (s->drop && btrail_output_full(s->output) &&
        !(slab->n_events &&
          slab->events[slab->n_events - 1].type == BTRAIL_EVENT_END)) {
        /* It shows as a hole. */
        v->dropped = true;
        return 0;
    }
    if (v->dropped) {
        gap_reason = BTRAIL_GAP_OVERFLOW;
        v->dropped = false;
    }
    ret = btrail_stream_append(stream, slab, gap_reason);
    if (ret == -BTRAIL_ERR_IO) {
        output_failed(s, btrail_output_error(s->output));
        return 0;
    }
    if (ret) {
        return ret;
    }
    hole = btrail_stream_unexplained(stream) - before;
    if (gap_reason == BTRAIL_GAP_CORRUPT) {
        s->unexplained += hole;
    }
    __atomic_fetch_add(&s->progress.lost, hole + count_lost(slab),
                       __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->progress.records, slab->n_records,
                       __ATOMIC_RELAXED);
    return 0;
}

/* A slab of which all is wanted, but with other numbers */
static int move_slab(struct btrail_session *s, unsigned vcpu,
                     const struct btrail_slab *slab, uint16_t gap_reason)
{
    uint64_t distance = s->vcpus[vcpu].base - s->vcpus[vcpu].start;
    struct btrail_slab moved = *slab;
    size_t i;

    g_array_set_size(s->events, 0);
    g_array_append_vals(s->events, slab->events, slab->n_events);
    for (i = 0; i < slab->n_events; i++) {
        g_array_index(s->events, struct btrail_event, i).index -= distance;
    }
    moved.first_index -= distance;
    moved.events = (const struct btrail_event *)s->events->data;
    return append(s, vcpu, &moved, gap_reason);
}

static void remember_place(struct vcpu *v, uint64_t capture)
{
    v->places[v->n_places++ % PLACES] = (struct place) {
        capture, v->filtered.index,
    };
}

/* Where it was in the session, or a place before it */
static uint64_t find_place(const struct vcpu *v, uint64_t capture)
{
    unsigned n = v->n_places;
    unsigned left = MIN(n, PLACES);

    while (left--) {
        const struct place *p = &v->places[--n % PLACES];

        if (p->capture <= capture) {
            return p->session;
        }
    }
    return v->start;
}

static void hand_code(struct btrail_session *s, unsigned vcpu,
                      const struct item *item, uint64_t index)
{
    struct btrail_code_item moved = item->item;

    if (moved.type == BTRAIL_CODE_LOST) {
        moved.linear = find_place(&s->vcpus[vcpu], moved.linear);
    }
    moved.index = index;
    btrail_session_code_item(s->code, vcpu, item->number, &moved, NULL);
}

/* Hand on the first items that wait, to where the marks have been placed. */
static void hand_pending(struct btrail_session *s, unsigned vcpu, size_t n)
{
    struct vcpu *v = &s->vcpus[vcpu];
    size_t i;

    for (i = 0; i < n; i++) {
        hand_code(s, vcpu, &g_array_index(v->pending, struct item, i),
                  g_array_index(s->marks, struct btrail_mark, i).placed);
    }
    g_array_remove_range(v->pending, 0, n);
}

static int filter_slab(struct btrail_session *s, unsigned vcpu,
                       const struct btrail_slab *slab, uint64_t index,
                       uint16_t gap_reason)
{
    struct vcpu *v = &s->vcpus[vcpu];
    size_t i, n = 0;
    int ret;

    g_array_set_size(s->marks, 0);
    for (i = 0; i < v->pending->len; i++) {
        const struct item *item = &g_array_index(v->pending, struct item, i);
        struct btrail_mark mark = { item->item.index, UINT64_MAX };

        g_array_append_val(s->marks, mark);
    }
    remember_place(v, index);
    if (!btrail_filtering_slab(s->filtering, vcpu, &v->filtered, slab, index,
                               gap_reason,
                               (struct btrail_mark *)s->marks->data,
                               s->marks->len)) {
        return -BTRAIL_ERR_SLAB;
    }
    while (n < s->marks->len &&
           g_array_index(s->marks, struct btrail_mark, n).placed !=
           UINT64_MAX) {
        n++;
    }
    if (n) {
        hand_pending(s, vcpu, n);
    }
    __atomic_fetch_add(&s->progress.filtered, v->filtered.dropped,
                       __ATOMIC_RELAXED);
    ret = v->filtered.slab.n_records || v->filtered.slab.n_events ?
          append(s, vcpu, &v->filtered.slab, BTRAIL_GAP_CORRUPT) : 0;
    s->over |= s->triggers && btrail_triggers_over(s->triggers);
    return ret;
}

int btrail_session_slab(struct btrail_session *s, unsigned vcpu,
                        const struct btrail_slab *slab, uint64_t index,
                        uint16_t gap_reason)
{
    struct vcpu *v = &s->vcpus[vcpu];
    uint64_t missing;

    if (!btrail_filtering_vcpu(s->filtering, vcpu)) {
        return 0;
    }
    if (s->whole) {
        return append(s, vcpu, slab, gap_reason);
    }
    if (!v->slabs && gap_reason == BTRAIL_GAP_AGENT_LOST) {
        /* What others have drained is before the session. */
        if (!btrail_slab_check(slab, index, &missing)) {
            return -BTRAIL_ERR_SLAB;
        }
        index += missing;
        v->base = index;
    }
    v->slabs = true;
    return btrail_filtering_all(s->filtering) ?
           move_slab(s, vcpu, slab, gap_reason) :
           filter_slab(s, vcpu, slab, index, gap_reason);
}

/* Does the session get code of this page? */
static bool wants_page(struct btrail_session *s,
                       const struct btrail_code_item *item)
{
    if (item->linear >> 63) {
        return btrail_session_sees(s, BTRAIL_PRIVILEGE_KERNEL);
    }
    return btrail_session_sees(s, BTRAIL_PRIVILEGE_USER) &&
           (!btrail_filtering_fixed_cr3s(s->filtering) ||
            btrail_filtering_cr3(s->filtering, item->cr3));
}

void btrail_session_code(struct btrail_session *s, unsigned vcpu,
                         uint64_t number, const struct btrail_code_item *item,
                         const uint8_t *page)
{
    struct vcpu *v = &s->vcpus[vcpu];
    struct item wait = { number, *item };

    if (item->type == BTRAIL_CODE_BYTES || s->whole) {
        if (item->type == BTRAIL_CODE_BYTES ||
            btrail_filtering_vcpu(s->filtering, vcpu)) {
            btrail_session_code_item(s->code, vcpu, number, item, page);
        }
        return;
    }
    if (!btrail_filtering_vcpu(s->filtering, vcpu) ||
        (item->type == BTRAIL_CODE_PAGE && !wants_page(s, item))) {
        return;
    }
    if (btrail_filtering_all(s->filtering)) {
        wait.item.index = MAX(item->index, v->base) - v->base + v->start;
        if (item->index == UINT64_MAX) {
            wait.item.index = UINT64_MAX;
        }
        if (item->type == BTRAIL_CODE_LOST) {
            wait.item.linear = MAX(item->linear, v->base) - v->base + v->start;
        }
        btrail_session_code_item(s->code, vcpu, number, &wait.item, NULL);
    } else if (item->index == UINT64_MAX || v->pending->len == MAX_PENDING) {
        hand_code(s, vcpu, &wait, item->index == UINT64_MAX ? UINT64_MAX :
                  v->filtered.index);
    } else {
        g_array_append_val(v->pending, wait);
    }
}

void btrail_session_sideband(struct btrail_session *s, uint16_t kind,
                             const void *payload, size_t size)
{
    if (kind == BTRAIL_SIDEBAND_PROCESSES) {
        __atomic_fetch_add(&s->snapshots, 1, __ATOMIC_RELAXED);
    }
    btrail_output_packed(s->output, g_memdup2(payload, size), size);
}

bool btrail_session_wants_symbols(const struct btrail_session *s)
{
    return s->triggers != NULL;
}

/* Somebody may want to know that there is a place now. */
static void tell_places(struct btrail_session *s)
{
    if (btrail_triggers_news(s->triggers)) {
        btrail_event_fd_set(s->fired_fd);
    }
}

void btrail_session_symbols(struct btrail_session *s, const char *text,
                            size_t size)
{
    btrail_triggers_symbols(s->triggers, text, size);
    tell_places(s);
}

struct btrail_triggers *btrail_session_triggers(const struct btrail_session *s)
{
    return s->triggers ? btrail_triggers_ref(s->triggers) : NULL;
}

void btrail_session_names(struct btrail_session *s, const char *why)
{
    enum btrail_session_names names = BTRAIL_SESSION_NAMES_FINE;

    if (btrail_session_has_names(s) != BTRAIL_SESSION_NAMES_UNKNOWN) {
        return;
    }
    if (why && !s->error) {
        s->over = true;
        s->error = g_error_new(BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_NAMES,
                               "its %s need names of the guest, but: %s",
                               needs_names(s), why);
        names = BTRAIL_SESSION_NAMES_MISSING;
    }
    __atomic_store_n(&s->names, names, __ATOMIC_RELEASE);
    btrail_event_fd_set(s->fired_fd);
}

void btrail_session_snapshot(struct btrail_session *s,
                         const struct btrail_snapshot *snapshot)
{
    btrail_filtering_snapshot(s->filtering, snapshot);
    if (s->triggers) {
        btrail_triggers_snapshot(s->triggers, snapshot);
        tell_places(s);
    }
}

static void tell_cpu(struct btrail_session *s)
{
    __atomic_store_n(&s->progress.cpu_ns,
                     s->spent_ns + btrail_output_cpu_ns(s->output),
                     __ATOMIC_RELAXED);
}

uint64_t btrail_session_written_ns(struct btrail_session *s)
{
    uint64_t before = s->written_ns;

    s->written_ns = btrail_output_cpu_ns(s->output);
    return s->written_ns - before;
}

void btrail_session_spent(struct btrail_session *s, uint64_t ns)
{
    s->spent_ns += ns;
    tell_cpu(s);
}

static void flush(struct btrail_session *s)
{
    unsigned i;

    for (i = 0; i < s->header.vcpus; i++) {
        struct btrail_stream *stream = s->vcpus[i].stream;

        if (stream && !s->failed && btrail_stream_flush(stream)) {
            output_failed(s, btrail_output_error(s->output));
        }
    }
    btrail_session_code_flush(s->code);
}

bool btrail_session_hurries(const struct btrail_session *s)
{
    return __atomic_load_n(&s->ticks_wanted, __ATOMIC_ACQUIRE);
}

static void tell_flushed(struct btrail_session *s)
{
    g_mutex_lock(&s->lock);
    s->ticks++;
    g_cond_broadcast(&s->changed);
    g_mutex_unlock(&s->lock);
}

/* Names that have got too large begin anew. */
static struct btrail_store *renew_names(void *opaque)
{
    struct btrail_session *s = opaque;
    struct btrail_store *names = NULL;

    if (btrail_ring_names_full(s->ring)) {
        names = btrail_ring_new_names(s->ring);
        s->names_renewed = names != NULL;
    }
    return names;
}

bool btrail_session_begins_anew(struct btrail_session *s)
{
    if (!s->ring || s->over || ++s->since_renewed < RENEW_TICKS) {
        return false;
    }
    s->since_renewed = 0;
    s->names_renewed = false;
    btrail_output_call(s->output, renew_names, s);
    return s->names_renewed;
}

void btrail_session_tick(struct btrail_session *s, bool flush_due)
{
    __atomic_store_n(&s->progress.bytes, btrail_output_bytes(s->output),
                     __ATOMIC_RELAXED);
    if (btrail_output_error(s->output)) {
        output_failed(s, btrail_output_error(s->output));
    }
    if (flush_due || btrail_session_hurries(s)) {
        flush(s);
        tell_flushed(s);
    }
}

bool btrail_session_stream_ended(const struct btrail_session *s,
                                 unsigned vcpu)
{
    return !btrail_filtering_vcpu(s->filtering, vcpu) ||
           (s->vcpus[vcpu].stream &&
            btrail_stream_ended(s->vcpus[vcpu].stream));
}

void btrail_session_end_stream(struct btrail_session *s, unsigned vcpu,
                               uint64_t index, uint16_t gap, uint16_t reason)
{
    struct btrail_stream *stream = get_stream(s, vcpu);

    if (s->whole) {
        btrail_stream_begin(stream, index);
    }
    if ((gap && btrail_stream_event(stream, BTRAIL_EVENT_GAP, gap,
                                    BTRAIL_LOST_UNKNOWN)) ||
        btrail_stream_event(stream, BTRAIL_EVENT_END, reason,
                            btrail_clock_ns())) {
        output_failed(s, btrail_output_error(s->output));
    }
}

static void close_file(struct btrail_session *s)
{
    const struct btrail_session_outcome outcome = {
        .reason = s->reason,
        .error = s->error,
        .snapshots = s->snapshots,
        .release = s->release,
    };

    if (s->reason) {
        btrail_session_describe_end(s->store, &outcome);
    }
    __atomic_store_n(&s->progress.bytes, btrail_store_size(s->store),
                     __ATOMIC_RELAXED);
    /* An error while writing comes again here. */
    if (btrail_store_close(s->store)) {
        output_failed(s, errno);
    }
}

static gpointer closer_thread(gpointer opaque)
{
    struct btrail_session *s = opaque;
    unsigned i;

    if (s->output) {
        g_mutex_lock(&s->output_lock);
        btrail_output_finish(s->output);
        tell_cpu(s);
        /* What was drained may not have got into the file. */
        __atomic_store_n(&s->progress.records,
                         btrail_output_records(s->output), __ATOMIC_RELAXED);
        __atomic_store_n(&s->progress.lost, btrail_output_lost(s->output),
                         __ATOMIC_RELAXED);
        btrail_output_free(s->output);
        s->output = NULL;
        g_mutex_unlock(&s->output_lock);
        for (i = 0; i < s->header.vcpus; i++) {
            btrail_stream_free(s->vcpus[i].stream);
            g_array_unref(s->vcpus[i].pending);
        }
        g_free(s->vcpus);
        g_array_unref(s->events);
        g_array_unref(s->marks);
        btrail_filtering_free(s->filtering);
    }
    close_file(s);
    g_mutex_lock(&s->lock);
    s->closed = true;
    g_cond_broadcast(&s->changed);
    g_mutex_unlock(&s->lock);
    btrail_event_fd_set(s->done_fd);
    return NULL;
}

/* Nothing more comes: what waits for records is for those after the last. */
static void hand_all_pending(struct btrail_session *s)
{
    unsigned i, k;

    for (i = 0; i < s->header.vcpus; i++) {
        struct vcpu *v = &s->vcpus[i];

        for (k = 0; k < v->pending->len; k++) {
            hand_code(s, i, &g_array_index(v->pending, struct item, k),
                      v->filtered.index);
        }
        g_array_set_size(v->pending, 0);
    }
}

void btrail_session_end(struct btrail_session *s,
                        const struct btrail_session_ending *ending)
{
    g_mutex_lock(&s->lock);
    s->ending = true;
    g_cond_broadcast(&s->changed);
    g_mutex_unlock(&s->lock);
    s->reason = ending->reason;
    s->release = g_strdup(ending->release);
    s->no_names = g_strdup(ending->no_names);
    if (ending->error && !s->error) {
        s->error = g_error_copy(ending->error);
    }
    if (s->output) {
        hand_all_pending(s);
        flush(s);
        btrail_session_code_free(s->code);
    }
    g_mutex_lock(&s->lock);
    s->closer = g_thread_new("close", closer_thread, s);
    g_mutex_unlock(&s->lock);
}

/* What a dump is made of */
struct find {
    struct btrail_session *s;
    GArray *files;
};

/* Files that are open stay, whatever the ring deletes from here on. */
static void find_files(struct find *find)
{
    find->files = btrail_ring_files(find->s->ring);
    btrail_ring_let_go(find->s->ring);
    btrail_session_let_go(find->s);
}

static struct btrail_store *find_and_trim(void *opaque)
{
    struct find *find = opaque;

    find_files(find);
    btrail_ring_trim(find->s->ring);
    return NULL;
}

/* All that was made until now has been flushed, or all is in the files. */
static void wait_flushed(struct btrail_session *s)
{
    uint64_t ticks;

    g_mutex_lock(&s->lock);
    __atomic_fetch_add(&s->ticks_wanted, 1, __ATOMIC_ACQ_REL);
    ticks = s->ticks + FLUSH_TICKS;
    if (!s->ending) {
        btrail_event_fd_set(s->wake_fd);
    }
    while (s->ticks < ticks && !s->ending) {
        g_cond_wait(&s->changed, &s->lock);
    }
    __atomic_fetch_sub(&s->ticks_wanted, 1, __ATOMIC_ACQ_REL);
    while (s->ending && !s->closed) {
        g_cond_wait(&s->changed, &s->lock);
    }
    g_mutex_unlock(&s->lock);
}

bool btrail_session_dump(struct btrail_session *s, const char *path,
                         struct btrail_session_dump *dump, GError **error)
{
    struct find find = { s, NULL };
    struct btrail_merge_result result;
    struct stat st;
    int ret;

    if (!__atomic_load_n(&s->progress.begun, __ATOMIC_ACQUIRE)) {
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                    "the session has not begun");
        return false;
    }
    btrail_ring_hold(s->ring);
    wait_flushed(s);
    g_mutex_lock(&s->output_lock);
    if (s->output) {
        btrail_output_call(s->output, find_and_trim, &find);
    } else {
        find_files(&find);
    }
    g_mutex_unlock(&s->output_lock);
    ret = btrail_ring_dump(find.files, path, &result);
    if (!ret && stat(path, &st) < 0) {
        ret = -BTRAIL_ERR_IO;
    }
    if (ret) {
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                    "cannot write %s: %s", path, ret == -BTRAIL_ERR_IO ?
                    g_strerror(errno) : btrail_strerror(ret));
        return false;
    }
    dump->records = result.records;
    dump->bytes = st.st_size;
    return true;
}

void btrail_session_keep_ring(struct btrail_session *s)
{
    s->keep_ring = true;
}

void btrail_session_finish(struct btrail_session *s,
                           struct btrail_session_result *result)
{
    if (!s->added) {
        const struct btrail_session_ending ending = {
            .reason = BTRAIL_END_STOPPED,
        };

        btrail_session_end(s, &ending);
    }
    g_mutex_lock(&s->lock);
    while (!s->closed) {
        g_cond_wait(&s->changed, &s->lock);
    }
    g_mutex_unlock(&s->lock);
    g_thread_join(s->closer);
    *result = (struct btrail_session_result) {
        .reason = s->reason,
        .unexplained = s->unexplained,
        .progress = s->progress,
        .no_names = s->no_names,
        .error = s->error,
    };
    json_object_unref(s->metadata);
    free_filter(&s->filter);
    g_free(s->resume);
    g_mutex_clear(&s->output_lock);
    g_queue_clear(&s->fired);
    close(s->fired_fd);
    if (s->triggers) {
        btrail_triggers_unref(s->triggers);
    }
    if (s->ring) {
        btrail_ring_free(s->ring, s->keep_ring);
    }
    g_free(s->release);
    g_mutex_clear(&s->lock);
    g_cond_clear(&s->changed);
    close(s->done_fd);
    g_free(s);
}
