/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session: see session.h and session-feed.h
 *
 * This file has its life, from its options to the end of its file, and its
 * triggers.  What becomes of records is in session-stream.c.
 */

#include <errno.h>
#include <unistd.h>

#include "drain/session-description.h"
#include "drain/session-dump.h"
#include "drain/session-feed.h"
#include "drain/session-stream.h"
#include "drain/session.h"
#include "util/clock.h"
#include "util/event-fd.h"

/* Between two checks of the size of names: a quarter of a second each */
#define RENEW_TICKS         40

/* Triggers that have acted and were not taken yet */
#define MAX_FIRED           1024

/* Blocks that may wait for the file, beside one in the making per vCPU */
#define QUEUED_BLOCKS       8

#define OUTPUT_FAILED \
    "cannot write the trace: %s; it ends there, at its last whole chunk"

struct btrail_session {
    struct btrail_store *store;
    struct btrail_budget *budget;
    JsonObject *metadata;
    struct btrail_session_filter filter; /* it has copies */
    uint64_t *resume;
    bool resumes;
    struct btrail_triggers *triggers;   /* NULL if there are none */
    struct btrail_ring *ring;   /* mode last; NULL for others */
    bool keep_ring;             /* at the end */
    int done_fd;
    bool added;                 /* belongs to the owner's thread */
    struct {
        bool begun;
        uint64_t bytes;
        uint64_t record_bytes;
        uint64_t cpu_ns;
    } progress;                 /* atomic each; .begun: with all before */
    enum btrail_session_names names;    /* atomic */
    struct session_dumps dumps;

    GMutex lock;
    GQueue fired;               /* of numbers + 1; under the lock */
    int fired_fd;
    GThread *closer;            /* under the lock */

    /* What follows belongs to the capture's thread, and then to the closer. */
    struct btrail_shm_header header;
    bool attached;
    bool over;
    bool failed;                /* to write; it is over, too */
    struct btrail_output *output;
    struct btrail_filtering *filtering;
    struct btrail_session_code *code;
    struct session_streams streams; /* .whole: set before progress.begun */
    uint64_t snapshots;         /* atomic */
    uint64_t spent_ns;          /* by the capture's thread */
    uint64_t written_ns;        /* by the output's, that was reported */
    bool names_renewed;
    unsigned since_renewed;
    uint16_t reason;
    char *release;
    char **missing;
    char **kernels;
    char *no_names;
    GError *error;
};

const char *btrail_session_mode_name(unsigned mode)
{
    static const char *const words[] = {
        [BTRAIL_SESSION_CONTINUOUS] = "continuous",
        [BTRAIL_SESSION_LAST] = "last",
    };

    return mode < G_N_ELEMENTS(words) ? words[mode] : NULL;
}

/* Ends the session; the first error is the one that is reported. */
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

/* A trigger has acted, in the capture's thread. */
static void trigger_fired(void *opaque, unsigned trigger,
                          enum btrail_trigger_action action)
{
    struct btrail_session *s = opaque;

    if (action == BTRAIL_TRIGGER_DUMP) {
        session_dumps_hold(&s->dumps);
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
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&s->lock);
    int trigger = GPOINTER_TO_INT(g_queue_pop_head(&s->fired)) - 1;

    if (trigger < 0) {
        btrail_event_fd_clear(s->fired_fd);
    }
    return trigger;
}

void btrail_session_release_ring(struct btrail_session *s)
{
    session_dumps_release(&s->dumps);
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

bool btrail_session_has_found(const struct btrail_session *s,
                              unsigned process)
{
    return __atomic_load_n(&s->progress.begun, __ATOMIC_ACQUIRE) &&
           btrail_filtering_has_found(s->filtering, process);
}

enum btrail_session_names
btrail_session_has_names(const struct btrail_session *s)
{
    return __atomic_load_n(&s->names, __ATOMIC_ACQUIRE);
}

/* Returns what needs names of the guest, or NULL. */
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
    }
    copy_filter(&s->filter, &options->filter);
    s->resume = g_memdup2(options->resume,
                          options->n_resume * sizeof(*options->resume));
    s->resumes = options->resumes;
    s->streams.resume = s->resume;
    s->streams.n_resume = options->n_resume;
    s->streams.drop = options->drop;
    s->streams.observer = options->observer;
    s->metadata = json_object_ref(options->metadata);
    s->done_fd = btrail_event_fd_new();
    s->fired_fd = btrail_event_fd_new();
    g_mutex_init(&s->lock);
    g_queue_init(&s->fired);
    session_dumps_init(&s->dumps, s->ring);
    if (options->n_triggers) {
        s->triggers = btrail_triggers_new(options->triggers,
                                          options->n_triggers,
                                          &options->files, trigger_fired, s);
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
    p->records = __atomic_load_n(&s->streams.records, __ATOMIC_RELAXED);
    p->filtered = __atomic_load_n(&s->streams.filtered, __ATOMIC_RELAXED);
    p->bytes = __atomic_load_n(&s->progress.bytes, __ATOMIC_RELAXED);
    p->record_bytes = __atomic_load_n(&s->progress.record_bytes,
                                      __ATOMIC_RELAXED);
    p->lost = __atomic_load_n(&s->streams.lost, __ATOMIC_RELAXED);
    p->cpu_ns = __atomic_load_n(&s->progress.cpu_ns, __ATOMIC_RELAXED);
}

bool btrail_session_whole(const struct btrail_session *s)
{
    return s->streams.whole;
}

void btrail_session_added(struct btrail_session *s)
{
    s->added = true;
}

static void set_names(struct btrail_session *s,
                      enum btrail_session_names names)
{
    __atomic_store_n(&s->names, names, __ATOMIC_RELEASE);
    btrail_event_fd_set(s->fired_fd);
}

/* Ends the session, as something that it needs is missing. */
static void end_without(struct btrail_session *s, const char *what,
                        const char *needs, const char *why)
{
    s->over = true;
    s->error = g_error_new(BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_NAMES,
                           "its %s need %s, but: %s", what, needs, why);
    set_names(s, BTRAIL_SESSION_NAMES_MISSING);
}

/* Writes to the file what it is. */
static int describe_session(struct btrail_session *s)
{
    const struct btrail_session_facts facts = {
        .header = &s->header,
        .filter = &s->filter,
        .drop = s->streams.drop,
        .mode = btrail_session_mode_name(s->ring ? BTRAIL_SESSION_LAST
                                                 : BTRAIL_SESSION_CONTINUOUS),
        .attached = s->attached,
    };
    int ret = s->streams.whole ?
              btrail_session_identify(s->store, s->metadata, &facts,
                                      &s->streams.anywhere) : 0;

    return ret ? ret : btrail_session_describe(s->store, s->metadata, &facts);
}

void btrail_session_begin(struct btrail_session *s,
                          const struct btrail_session_source *source)
{
    bool all;

    s->header = *source->header;
    s->budget = btrail_budget_ref(source->budget);
    s->attached = source->attached;
    s->filtering = btrail_filtering_new(&s->filter, source->entry,
                                        source->opaque);
    if (s->triggers) {
        const struct btrail_gate gate =
            btrail_triggers_gate(s->triggers, s->header.tick_ns,
                                 s->header.vcpus, s->budget);

        btrail_filtering_gate(s->filtering, &gate);
    }
    all = btrail_filtering_all(s->filtering);
    s->streams.whole = source->beginning && !s->resumes && !s->ring && all;
    if (describe_session(s)) {
        s->over = s->failed = true;
        s->error = g_error_new(BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                               "cannot write the trace: %s",
                               g_strerror(errno));
    }
    s->output = btrail_output_new(s->store, s->ring ?
                                  btrail_ring_names(s->ring) : NULL,
                                  s->header.vcpus + QUEUED_BLOCKS);
    s->code = btrail_session_code_new(s->output, s->budget,
                                      s->filter.n_vcpus || !all);
    s->streams.output = s->output;
    s->streams.filtering = s->filtering;
    s->streams.code = s->code;
    session_streams_init(&s->streams, s->header.vcpus, source->indices);
    session_dumps_begin(&s->dumps, s->output, source->wake_fd);
    if (s->triggers && btrail_triggers_want_code(s->triggers) &&
        !s->header.code_items && !s->error) {
        end_without(s, "marks", "the guest's code", "this QEMU does not report "
                    "the code that the guest executes");
    }
    __atomic_store_n(&s->progress.begun, true, __ATOMIC_RELEASE);
    btrail_event_fd_set(s->fired_fd);
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

bool btrail_session_lacks_code(const struct btrail_session *s)
{
    return s->triggers && !s->over && btrail_triggers_lack_code(s->triggers);
}

bool btrail_session_sees(const struct btrail_session *s, uint32_t privilege)
{
    return btrail_filtering_privilege(s->filtering, privilege);
}

/* Handles what a function of session-stream.c has returned. */
static int check_output(struct btrail_session *s, int ret)
{
    if (ret == -BTRAIL_ERR_IO) {
        output_failed(s, btrail_output_error(s->output));
        return 0;
    }
    return ret;
}

int btrail_session_slab(struct btrail_session *s, unsigned vcpu,
                        const struct btrail_checked_slab *slab,
                        uint64_t index, uint16_t gap_reason)
{
    int ret = check_output(s, session_streams_slab(&s->streams, vcpu, slab,
                                                   index, gap_reason));

    s->over |= s->triggers && btrail_triggers_over(s->triggers);
    return ret;
}

void btrail_session_code(struct btrail_session *s, unsigned vcpu,
                         uint64_t number, const struct btrail_code_item *item,
                         const uint8_t *page)
{
    session_streams_code(&s->streams, vcpu, number, item, page);
    if (s->triggers && btrail_triggers_code(s->triggers, vcpu, item, page)) {
        btrail_event_fd_set(s->fired_fd);
    }
}

void btrail_session_sideband(struct btrail_session *s, uint16_t kind,
                             const void *payload, size_t size)
{
    if (kind == BTRAIL_SIDEBAND_PROCESSES) {
        __atomic_fetch_add(&s->snapshots, 1, __ATOMIC_RELAXED);
    }
    /* On its way to a slow disk it waits, and the guest says more meanwhile. */
    if (btrail_budget_take(s->budget, size + BTRAIL_BUDGET_ENTRY)) {
        btrail_output_packed(s->output, g_memdup2(payload, size), size,
                             s->budget);
    }
}

bool btrail_session_wants_symbols(const struct btrail_session *s)
{
    return s->triggers != NULL;
}

/* Notifies the owner if a trigger has got its first place. */
static void notify_places(struct btrail_session *s)
{
    if (btrail_triggers_new_places(s->triggers)) {
        btrail_event_fd_set(s->fired_fd);
    }
}

void btrail_session_symbols(struct btrail_session *s, uint16_t kernel,
                            const char *text, size_t size)
{
    btrail_triggers_symbols(s->triggers, kernel, text, size);
    notify_places(s);
}

struct btrail_triggers *btrail_session_triggers(const struct btrail_session *s)
{
    return s->triggers ? btrail_triggers_ref(s->triggers) : NULL;
}

void btrail_session_names(struct btrail_session *s, const char *why)
{
    if (btrail_session_has_names(s) != BTRAIL_SESSION_NAMES_UNKNOWN) {
        return;
    }
    if (why && !s->error) {
        end_without(s, needs_names(s), "names of the guest", why);
    } else {
        set_names(s, BTRAIL_SESSION_NAMES_FINE);
    }
}

void btrail_session_snapshot(struct btrail_session *s,
                             const struct btrail_snapshot *snapshot)
{
    btrail_filtering_snapshot(s->filtering, snapshot);
    if (s->triggers) {
        btrail_triggers_snapshot(s->triggers, snapshot);
        notify_places(s);
    }
}

static void update_cpu(struct btrail_session *s)
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
    update_cpu(s);
}

static void flush_session(struct btrail_session *s)
{
    if (!s->failed) {
        check_output(s, session_streams_flush(&s->streams));
    }
    btrail_session_code_flush(s->code);
}

bool btrail_session_awaits_tick(const struct btrail_session *s)
{
    return session_dumps_await_tick(&s->dumps);
}

/* Begins a new file of names if the current one has got too large. */
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

bool btrail_session_renews_names(struct btrail_session *s)
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
    if (s->triggers) {
        btrail_triggers_tick(s->triggers, btrail_clock_ns());
        s->over |= btrail_triggers_over(s->triggers);
    }
    __atomic_store_n(&s->progress.bytes, btrail_output_bytes(s->output),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&s->progress.record_bytes,
                     btrail_output_record_bytes(s->output), __ATOMIC_RELAXED);
    if (btrail_output_error(s->output)) {
        output_failed(s, btrail_output_error(s->output));
    }
    if (flush_due || btrail_session_awaits_tick(s)) {
        flush_session(s);
        session_dumps_ticked(&s->dumps);
    }
}

bool btrail_session_stream_ended(const struct btrail_session *s,
                                 unsigned vcpu)
{
    return session_streams_ended(&s->streams, vcpu);
}

void btrail_session_end_stream(struct btrail_session *s, unsigned vcpu,
                               uint64_t index, uint16_t gap, uint16_t reason)
{
    check_output(s, session_streams_end(&s->streams, vcpu, index, gap,
                                        reason));
}

static void close_trace(struct btrail_session *s)
{
    if (s->reason) {
        btrail_session_describe_end(s->store, s->reason, s->error,
                                    s->snapshots, s->release, s->missing,
                                    s->kernels);
    }
    __atomic_store_n(&s->progress.bytes, btrail_store_size(s->store),
                     __ATOMIC_RELAXED);
    /* This reports an error of any write before, too. */
    if (btrail_store_close(s->store)) {
        output_failed(s, errno);
    }
}

static gpointer closer_thread(gpointer opaque)
{
    struct btrail_session *s = opaque;
    struct btrail_output *output = session_dumps_end_output(&s->dumps);

    if (output) {
        update_cpu(s);
        /* What was drained may not have got into the file. */
        __atomic_store_n(&s->streams.records, btrail_output_records(output),
                         __ATOMIC_RELAXED);
        __atomic_store_n(&s->streams.lost, btrail_output_lost(output),
                         __ATOMIC_RELAXED);
        __atomic_store_n(&s->progress.record_bytes,
                         btrail_output_record_bytes(output), __ATOMIC_RELAXED);
        btrail_output_free(output);
        session_streams_clear(&s->streams);
    }
    close_trace(s);
    session_dumps_closed(&s->dumps);
    btrail_event_fd_set(s->done_fd);
    return NULL;
}

void btrail_session_end(struct btrail_session *s,
                        const struct btrail_session_ending *ending)
{
    session_dumps_end(&s->dumps);
    s->reason = ending->reason;
    s->release = g_strdup(ending->release);
    s->missing = g_strdupv(ending->missing);
    s->kernels = g_strdupv(ending->kernels);
    s->no_names = g_strdup(ending->no_names);
    if (ending->error && !s->error) {
        s->error = g_error_copy(ending->error);
    }
    if (s->output) {
        session_streams_end_code(&s->streams);
        flush_session(s);
        btrail_session_code_free(s->code);
    }
    g_mutex_lock(&s->lock);
    s->closer = g_thread_new("close", closer_thread, s);
    g_mutex_unlock(&s->lock);
}

bool btrail_session_dump(struct btrail_session *s, const char *path,
                         struct btrail_session_dump *dump, GError **error)
{
    if (!__atomic_load_n(&s->progress.begun, __ATOMIC_ACQUIRE)) {
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                    "the session has not begun");
        return false;
    }
    return session_dumps_write(&s->dumps, path, &dump->records, &dump->bytes,
                               error);
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
    session_dumps_wait_closed(&s->dumps);
    g_mutex_lock(&s->lock);
    g_thread_join(s->closer);
    g_mutex_unlock(&s->lock);
    *result = (struct btrail_session_result) {
        .reason = s->reason,
        .unexplained = s->streams.unexplained,
        .no_names = s->no_names,
        .error = s->error,
    };
    btrail_session_progress(s, &result->progress);
    json_object_unref(s->metadata);
    btrail_budget_unref(s->budget);
    btrail_session_filter_clear(&s->filter);
    /* Until now, others may have asked what it has found. */
    g_clear_pointer(&s->filtering, btrail_filtering_free);
    g_free(s->resume);
    g_queue_clear(&s->fired);
    close(s->fired_fd);
    if (s->triggers) {
        btrail_triggers_unref(s->triggers);
    }
    if (s->ring) {
        btrail_ring_free(s->ring, s->keep_ring);
    }
    g_free(s->release);
    g_strfreev(s->missing);
    g_strfreev(s->kernels);
    session_dumps_clear(&s->dumps);
    g_mutex_clear(&s->lock);
    close(s->done_fd);
    g_free(s);
}
