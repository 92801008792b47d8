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

struct session {
    struct btrail_store *store;
    struct btrail_budget *budget;
    JsonObject *metadata;
    struct session_filter filter; /* it has copies */
    uint64_t *resume;
    bool resumes;
    struct triggers *triggers;          /* NULL if there are none */
    struct part_ring *ring;     /* mode last; NULL for others */
    bool keep_ring;             /* at the end */
    int done_fd;
    bool added;                 /* belongs to the owner's thread */
    struct {
        bool begun;
        uint64_t bytes;
        uint64_t record_bytes;
        uint64_t cpu_ns;
    } progress;                 /* atomic each; .begun: with all before */
    enum session_names names;           /* atomic */
    struct session_dumps dumps;

    GMutex lock;
    GQueue fired;               /* of struct trigger_hit; under the lock */
    int fired_fd;
    GThread *closer;            /* under the lock */

    /* What follows belongs to the capture's thread, and then to the closer. */
    struct btrail_shm_header header;
    bool attached;
    bool over;
    bool failed;                /* to write; it is over, too */
    struct output *output;
    struct filtering *filtering;
    struct session_code *code;
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

/* Ends the session; the first error is the one that is reported. */
static void output_failed(struct session *s, int error)
{
    s->over = s->failed = true;
    if (!s->error) {
        s->error = g_error_new(AGENT_ERROR, AGENT_ERROR_OUTPUT,
                               OUTPUT_FAILED, g_strerror(error));
    }
}

static void copy_filter(struct session_filter *to,
                        const struct session_filter *from)
{
    *to = *from;
    to->vcpus = g_memdup2(from->vcpus, from->n_vcpus * sizeof(*from->vcpus));
    to->cr3s = g_memdup2(from->cr3s, from->n_cr3s * sizeof(*from->cr3s));
    to->processes = (const char *const *)g_strdupv((char **)from->processes);
}

/* A trigger has acted, in the capture's thread. */
static void trigger_fired(void *opaque, const struct trigger_hit *hit,
                          enum trigger_action action)
{
    struct session *s = opaque;

    if (action == TRIGGER_DUMP) {
        session_dumps_hold(&s->dumps);
    }
    g_mutex_lock(&s->lock);
    if (s->fired.length < MAX_FIRED) {
        g_queue_push_tail(&s->fired, g_memdup2(hit, sizeof(*hit)));
    }
    g_mutex_unlock(&s->lock);
    event_fd_set(s->fired_fd);
}

int session_fired_fd(const struct session *s)
{
    return s->fired_fd;
}

bool session_take_fired(struct session *s, struct trigger_hit *hit)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&s->lock);
    g_autofree struct trigger_hit *first = g_queue_pop_head(&s->fired);

    if (!first) {
        event_fd_clear(s->fired_fd);
        return false;
    }
    *hit = *first;
    return true;
}

void session_release_ring(struct session *s)
{
    session_dumps_release(&s->dumps);
}

bool session_keeping(const struct session *s)
{
    return !s->triggers || triggers_keeping(s->triggers);
}

unsigned session_places(const struct session *s,
                        unsigned trigger)
{
    return triggers_places(s->triggers, trigger);
}

uint64_t session_triggers_off(const struct session *s)
{
    return s->triggers ? triggers_off(s->triggers) : 0;
}

void session_set_trigger_on(struct session *s, unsigned trigger)
{
    triggers_set_off(s->triggers, trigger, false);
}

unsigned session_ends(const struct session *s, unsigned trigger)
{
    return triggers_ends(s->triggers, trigger);
}

uint64_t session_calls_left_out(const struct session *s, unsigned trigger)
{
    return triggers_left_out(s->triggers, trigger);
}

bool session_places_capped(const struct session *s, unsigned trigger)
{
    return triggers_capped(s->triggers, trigger);
}

bool session_has_found(const struct session *s,
                       unsigned process)
{
    return __atomic_load_n(&s->progress.begun, __ATOMIC_ACQUIRE) &&
           filtering_has_found(s->filtering, process);
}

enum session_names
session_has_names(const struct session *s)
{
    return __atomic_load_n(&s->names, __ATOMIC_ACQUIRE);
}

/* Returns what needs names of the guest, or NULL. */
static const char *needs_names(const struct session *s)
{
    return s->filter.processes ? "processes" :
           s->triggers && triggers_want_names(s->triggers) ?
           "triggers" : NULL;
}

struct session *
session_new(const struct session_settings *options,
            GError **error)
{
    struct session *s;

    s = g_new0(struct session, 1);
    s->store = options->store;
    if (options->mode == SESSION_LAST) {
        s->ring = part_ring_new(options->folder, &options->limit);
        if (!s->ring) {
            g_set_error(error, AGENT_ERROR, AGENT_ERROR_OUTPUT,
                        "cannot write to %s: %s", options->folder,
                        g_strerror(errno));
            g_free(s);
            return NULL;
        }
        s->store = part_ring_store(s->ring);
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
    s->done_fd = event_fd_new();
    s->fired_fd = event_fd_new();
    g_mutex_init(&s->lock);
    g_queue_init(&s->fired);
    session_dumps_init(&s->dumps, s->ring);
    if (options->n_triggers) {
        s->triggers = triggers_new(options->triggers,
                                   options->n_triggers,
                                   &options->files, trigger_fired, s);
    }
    for (unsigned i = 0; i < options->n_triggers; i++) {
        triggers_set_off(s->triggers, i, options->off >> i & 1);
    }
    if (s->triggers && options->keeping) {
        triggers_keep(s->triggers);
    }
    s->names = needs_names(s) ? SESSION_NAMES_UNKNOWN :
               SESSION_NAMES_FINE;
    return s;
}

int session_done_fd(const struct session *s)
{
    return s->done_fd;
}

void session_progress(struct session *s,
                      struct session_progress *p)
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

bool session_whole(const struct session *s)
{
    return s->streams.whole;
}

void session_added(struct session *s)
{
    s->added = true;
}

static void set_names(struct session *s,
                      enum session_names names)
{
    __atomic_store_n(&s->names, names, __ATOMIC_RELEASE);
    event_fd_set(s->fired_fd);
}

/* Ends the session, as something that it needs is missing. */
static void end_without(struct session *s, const char *what,
                        const char *needs, const char *why)
{
    s->over = true;
    s->error = g_error_new(AGENT_ERROR, AGENT_ERROR_NAMES,
                           "its %s need %s, but: %s", what, needs, why);
    set_names(s, SESSION_NAMES_MISSING);
}

/* Writes to the file what it is. */
static int describe_session(struct session *s)
{
    const struct session_facts facts = {
        .header = &s->header,
        .filter = &s->filter,
        .drop = s->streams.drop,
        .mode = session_mode_name(s->ring ? SESSION_LAST
                                                 : SESSION_CONTINUOUS),
        .attached = s->attached,
    };
    int ret = s->streams.whole ?
              session_identify(s->store, s->metadata, &facts,
                               &s->streams.anywhere) : 0;

    return ret ? ret : session_describe(s->store, s->metadata, &facts);
}

void session_begin(struct session *s,
                   const struct session_source *source)
{
    bool all;

    s->header = *source->header;
    s->budget = btrail_budget_ref(source->budget);
    s->attached = source->attached;
    s->filtering = filtering_new(&s->filter, source->entry,
                                 source->opaque);
    if (s->triggers) {
        /* Processes are not known beforehand: the capture has all of them. */
        bool complete = !s->filter.privilege && !s->filter.n_cr3s &&
                        !s->filter.n_vcpus;
        bool doubtful = complete && !(s->header.accepts & BTRAIL_ACCEPTS_FLUSH);
        const struct gate gate =
            triggers_gate(s->triggers, s->header.tick_ns,
                          s->header.vcpus, doubtful, s->budget);

        filtering_gate(s->filtering, &gate);
    }
    all = filtering_all(s->filtering);
    s->streams.whole = source->beginning && !s->resumes && !s->ring && all;
    if (describe_session(s)) {
        s->over = s->failed = true;
        s->error = g_error_new(AGENT_ERROR, AGENT_ERROR_OUTPUT,
                               "cannot write the trace: %s",
                               g_strerror(errno));
    }
    s->output = output_new(s->store, s->ring ?
                           part_ring_names(s->ring) : NULL,
                           s->header.vcpus + QUEUED_BLOCKS);
    s->code = session_code_new(s->output, s->budget,
                               s->filter.n_vcpus || !all);
    s->streams.output = s->output;
    s->streams.filtering = s->filtering;
    s->streams.code = s->code;
    session_streams_init(&s->streams, s->header.vcpus, source->indices);
    session_dumps_begin(&s->dumps, s->output, source->wake_fd);
    if (s->triggers && triggers_want_code(s->triggers) &&
        !s->header.code_items && !s->error) {
        end_without(s, "marks", "the guest's code", "this QEMU does not report "
                    "the code that the guest executes");
    }
    __atomic_store_n(&s->progress.begun, true, __ATOMIC_RELEASE);
    event_fd_set(s->fired_fd);
}

bool session_over(const struct session *s)
{
    return s->over;
}

const GError *session_error(const struct session *s)
{
    return s->error;
}

bool session_in_step(const struct session *s)
{
    return !filtering_all(s->filtering);
}

bool session_lacks_code(const struct session *s)
{
    return s->triggers && !s->over && triggers_lack_code(s->triggers);
}

bool session_sees(const struct session *s, uint32_t privilege)
{
    return filtering_privilege(s->filtering, privilege);
}

/* Handles what a function of session-stream.c has returned. */
static int check_output(struct session *s, int ret)
{
    if (ret == -BTRAIL_ERR_IO) {
        output_failed(s, output_error(s->output));
        return 0;
    }
    return ret;
}

int session_slab(struct session *s, unsigned vcpu,
                 const struct btrail_checked_slab *slab,
                 uint64_t index, uint16_t gap_reason)
{
    int ret = check_output(s, session_streams_slab(&s->streams, vcpu, slab,
                                                   index, gap_reason));

    s->over |= s->triggers && triggers_over(s->triggers);
    return ret;
}

void session_code(struct session *s, unsigned vcpu,
                  uint64_t number, const struct btrail_code_item *item,
                  const uint8_t *page)
{
    session_streams_code(&s->streams, vcpu, number, item, page);
    if (s->triggers && triggers_code(s->triggers, vcpu, item, page)) {
        event_fd_set(s->fired_fd);
    }
}

void session_sideband(struct session *s, uint16_t kind,
                      const void *payload, size_t size)
{
    if (kind == BTRAIL_SIDEBAND_PROCESSES) {
        __atomic_fetch_add(&s->snapshots, 1, __ATOMIC_RELAXED);
    }
    /* It waits on its way to a slow disk, and the guest says more meanwhile. */
    if (btrail_budget_take(s->budget, size + BTRAIL_BUDGET_ENTRY)) {
        output_packed(s->output, g_memdup2(payload, size), size,
                      s->budget);
    }
}

bool session_wants_symbols(const struct session *s)
{
    return s->triggers != NULL;
}

/* Notifies the owner if a trigger has got its first place. */
static void notify_places(struct session *s)
{
    if (triggers_new_places(s->triggers)) {
        event_fd_set(s->fired_fd);
    }
}

void session_symbols(struct session *s, uint16_t kernel,
                     const char *text, size_t size)
{
    triggers_symbols(s->triggers, kernel, text, size);
    notify_places(s);
}

struct triggers *session_triggers(const struct session *s)
{
    return s->triggers ? triggers_ref(s->triggers) : NULL;
}

void session_names(struct session *s, const char *why)
{
    if (session_has_names(s) != SESSION_NAMES_UNKNOWN) {
        return;
    }
    if (why && !s->error) {
        end_without(s, needs_names(s), "names of the guest", why);
    } else {
        set_names(s, SESSION_NAMES_FINE);
    }
}

void session_snapshot(struct session *s,
                      const struct btrail_snapshot *snapshot)
{
    filtering_snapshot(s->filtering, snapshot);
    if (s->triggers) {
        triggers_snapshot(s->triggers, snapshot);
        notify_places(s);
    }
}

static void update_cpu(struct session *s)
{
    __atomic_store_n(&s->progress.cpu_ns,
                     s->spent_ns + output_cpu_ns(s->output),
                     __ATOMIC_RELAXED);
}

uint64_t session_written_ns(struct session *s)
{
    uint64_t before = s->written_ns;

    s->written_ns = output_cpu_ns(s->output);
    return s->written_ns - before;
}

void session_spent(struct session *s, uint64_t ns)
{
    s->spent_ns += ns;
    update_cpu(s);
}

static void flush_session(struct session *s)
{
    if (!s->failed) {
        check_output(s, session_streams_flush(&s->streams));
    }
    session_code_flush(s->code);
}

bool session_awaits_tick(const struct session *s)
{
    return session_dumps_await_tick(&s->dumps);
}

/* Begins a new file of names if the current one has got too large. */
static struct btrail_store *renew_names(void *opaque)
{
    struct session *s = opaque;
    struct btrail_store *names = NULL;

    if (part_ring_names_full(s->ring)) {
        names = part_ring_new_names(s->ring);
        s->names_renewed = names != NULL;
    }
    return names;
}

bool session_renews_names(struct session *s)
{
    if (!s->ring || s->over || ++s->since_renewed < RENEW_TICKS) {
        return false;
    }
    s->since_renewed = 0;
    s->names_renewed = false;
    output_call(s->output, renew_names, s);
    return s->names_renewed;
}

void session_passed(struct session *s, unsigned vcpu,
                    uint64_t time)
{
    if (s->triggers) {
        triggers_passed(s->triggers, vcpu, time);
    }
}

void session_tick(struct session *s, bool flush_due)
{
    output_returned(s->output);
    if (s->triggers) {
        triggers_tick(s->triggers);
        s->over |= triggers_over(s->triggers);
    }
    __atomic_store_n(&s->progress.bytes, output_bytes(s->output),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&s->progress.record_bytes,
                     output_record_bytes(s->output), __ATOMIC_RELAXED);
    if (output_error(s->output)) {
        output_failed(s, output_error(s->output));
    }
    if (flush_due || session_awaits_tick(s)) {
        flush_session(s);
        session_dumps_ticked(&s->dumps);
    }
}

bool session_stream_ended(const struct session *s,
                          unsigned vcpu)
{
    return session_streams_ended(&s->streams, vcpu);
}

void session_end_stream(struct session *s, unsigned vcpu,
                        uint64_t index, uint16_t gap, uint16_t reason)
{
    check_output(s, session_streams_end(&s->streams, vcpu, index, gap,
                                        reason));
}

static void close_trace(struct session *s)
{
    uint64_t size;

    if (s->reason) {
        session_describe_end(s->store, s->reason, s->error,
                             s->snapshots, s->release, s->missing,
                             s->kernels);
    }
    /* This reports an error of any write before, too. */
    if (btrail_store_close(s->store, &size)) {
        output_failed(s, errno);
    }
    __atomic_store_n(&s->progress.bytes, size, __ATOMIC_RELAXED);
}

static gpointer closer_thread(gpointer opaque)
{
    struct session *s = opaque;
    struct output *output = session_dumps_end_output(&s->dumps);

    if (output) {
        update_cpu(s);
        /* What was drained may not have got into the file. */
        __atomic_store_n(&s->streams.records, output_records(output),
                         __ATOMIC_RELAXED);
        __atomic_store_n(&s->streams.lost, output_lost(output),
                         __ATOMIC_RELAXED);
        __atomic_store_n(&s->progress.record_bytes,
                         output_record_bytes(output), __ATOMIC_RELAXED);
        output_free(output);
        session_streams_clear(&s->streams);
    }
    close_trace(s);
    session_dumps_closed(&s->dumps);
    event_fd_set(s->done_fd);
    return NULL;
}

void session_end(struct session *s,
                 const struct session_ending *ending)
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
        session_code_free(s->code);
    }
    g_mutex_lock(&s->lock);
    s->closer = g_thread_new("close", closer_thread, s);
    g_mutex_unlock(&s->lock);
}

bool session_dump(struct session *s, const char *path,
                  struct session_dump *dump, GError **error)
{
    if (!__atomic_load_n(&s->progress.begun, __ATOMIC_ACQUIRE)) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_OUTPUT,
                    "the session has not begun");
        return false;
    }
    return session_dumps_write(&s->dumps, path, dump->why, &dump->records,
                               &dump->bytes, error);
}

void session_keep_ring(struct session *s)
{
    s->keep_ring = true;
}

void session_finish(struct session *s,
                    struct session_result *result)
{
    if (!s->added) {
        const struct session_ending ending = {
            .reason = BTRAIL_END_STOPPED,
        };

        session_end(s, &ending);
    }
    session_dumps_wait_closed(&s->dumps);
    g_mutex_lock(&s->lock);
    g_thread_join(s->closer);
    g_mutex_unlock(&s->lock);
    *result = (struct session_result) {
        .reason = s->reason,
        .unexplained = s->streams.unexplained,
        .no_names = s->no_names,
        .error = s->error,
    };
    session_progress(s, &result->progress);
    json_object_unref(s->metadata);
    btrail_budget_unref(s->budget);
    session_filter_clear(&s->filter);
    /* Until now, others may have asked what it has found. */
    g_clear_pointer(&s->filtering, filtering_free);
    g_free(s->resume);
    g_queue_clear_full(&s->fired, g_free);
    close(s->fired_fd);
    if (s->triggers) {
        triggers_unref(s->triggers);
    }
    if (s->ring) {
        part_ring_free(s->ring, s->keep_ring);
    }
    g_free(s->release);
    g_strfreev(s->missing);
    g_strfreev(s->kernels);
    session_dumps_clear(&s->dumps);
    g_mutex_clear(&s->lock);
    close(s->done_fd);
    g_free(s);
}
