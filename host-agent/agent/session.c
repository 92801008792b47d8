/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session: see session.h
 */

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "output.h"
#include "session-code.h"
#include "session.h"
#include "stream.h"

/* Blocks that may wait for the file, beside one in the making per vCPU. */
#define QUEUED_BLOCKS       8

#define OUTPUT_FAILED \
    "cannot write the trace: %s; it ends there, at its last whole chunk"

struct btrail_session {
    struct btrail_store *store;
    JsonObject *metadata;
    int done_fd;
    bool added;                 /* belongs to the owner's thread */
    GThread *closer;            /* under the lock */
    struct btrail_session_progress progress; /* atomic each */
    bool whole;                 /* set before progress.begun */

    GMutex lock;
    GCond changed;
    bool closed;                /* under the lock */

    /* What follows belongs to the capture's thread, and then to the closer. */
    struct btrail_shm_header header;
    bool attached;
    bool begins_anywhere;       /* the file says why */
    bool over;
    struct btrail_output *output;
    struct btrail_stream **streams;
    struct btrail_session_code *code;
    uint64_t looks;             /* atomic */
    uint64_t unexplained;
    uint16_t reason;
    char *release;
    char *no_names;
    GError *error;
};

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void set_eventfd(int fd)
{
    uint64_t one = 1;

    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
        continue;
    }
}

/* The first error is the one to tell. */
static void output_failed(struct btrail_session *s, int error)
{
    s->over = true;
    if (!s->error) {
        s->error = g_error_new(BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                               OUTPUT_FAILED, g_strerror(error));
    }
}

static const char *const producer_names[] = {
    [BTRAIL_PRODUCER_TCG] = "tcg",
    [BTRAIL_PRODUCER_KVM] = "kvm",
};

static const char *const policy_names[] = {
    [BTRAIL_OVERFLOW_PAUSE] = "pause",
    [BTRAIL_OVERFLOW_DROP] = "drop",
    [BTRAIL_OVERFLOW_OVERWRITE] = "overwrite",
};

static const char *const privilege_names[] = {
    [BTRAIL_PRIVILEGE_USER] = "user",
    [BTRAIL_PRIVILEGE_KERNEL] = "kernel",
    [BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL] = "all",
};

static const char *const end_names[] = {
    [BTRAIL_END_STOPPED] = "stopped",
    [BTRAIL_END_SHUTDOWN] = "shutdown",
    [BTRAIL_END_MIGRATED] = "migrated",
    [BTRAIL_END_UNPLUGGED] = "unplugged",
    [BTRAIL_END_PRODUCER_LOST] = "producer-lost",
};

static int write_meta(struct btrail_store *store, JsonObject *object)
{
    g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);
    g_autofree char *text = NULL;

    json_node_set_object(node, object);
    text = json_to_string(node, FALSE);
    return btrail_store_meta(store, text, strlen(text));
}

/*
 * Whoever has drained a capture has written files of one trace.  What another
 * agent has got, or nobody, is then no gap in this file, but before it.
 */
static int identify(struct btrail_session *s)
{
    const struct btrail_shm_header *h = &s->header;
    uint64_t clocks[2] = { h->start_monotonic, h->start_realtime };
    uint16_t begin = !s->attached ? 0 :
                     h->policy == BTRAIL_OVERFLOW_OVERWRITE ?
                     BTRAIL_GAP_OVERWRITTEN : BTRAIL_GAP_AGENT_LOST;
    GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);
    uint8_t id[32];
    gsize len = sizeof(id);

    g_checksum_update(sum, (const guchar *)clocks, sizeof(clocks));
    g_checksum_update(sum, (const guchar *)h->session, -1);
    g_checksum_get_digest(sum, id, &len);
    g_checksum_free(sum);
    if (btrail_store_identify(s->store, id, begin)) {
        return errno == ESPIPE ? 0 : -BTRAIL_ERR_IO;
    }
    s->begins_anywhere = begin;
    return 0;
}

static int write_first_meta(struct btrail_session *s)
{
    const struct btrail_shm_header *h = &s->header;
    JsonObject *meta = s->metadata;
    JsonObject *start = json_object_new();

    json_object_set_string_member(meta, "writer",
                                  "backtrail " BACKTRAIL_VERSION);
    if (!json_object_has_member(meta, "session")) {
        json_object_set_string_member(meta, "session", h->session);
    }
    json_object_set_string_member(meta, "producer",
                                  producer_names[h->producer]);
    json_object_set_string_member(meta, "overflow", policy_names[h->policy]);
    json_object_set_string_member(meta, "privilege",
                                  privilege_names[h->privilege]);
    json_object_set_int_member(meta, "tick_ns", h->tick_ns);
    json_object_set_int_member(meta, "tsc_hz", h->tsc_hz);
    json_object_set_int_member(meta, "buffer_size",
                               (gint64)h->slabs * h->slab_size);
    json_object_set_boolean_member(meta, "attached", s->attached);
    json_object_set_int_member(start, "monotonic", h->start_monotonic);
    json_object_set_int_member(start, "realtime", h->start_realtime);
    json_object_set_object_member(meta, "start", start);
    return write_meta(s->store, meta);
}

static int write_last_meta(struct btrail_session *s)
{
    g_autoptr(JsonObject) meta = json_object_new();
    JsonObject *end = json_object_new();

    json_object_set_string_member(end, "reason", end_names[s->reason]);
    json_object_set_int_member(end, "monotonic", now_ns());
    json_object_set_int_member(end, "realtime", g_get_real_time() * 1000);
    if (s->error) {
        json_object_set_string_member(end, "error", s->error->message);
    }
    json_object_set_object_member(meta, "end", end);
    if (s->looks) {
        JsonObject *names = json_object_new();

        json_object_set_string_member(names, "kernel", s->release);
        json_object_set_int_member(names, "looks", s->looks);
        json_object_set_object_member(meta, "names", names);
    }
    return write_meta(s->store, meta);
}

struct btrail_session *
btrail_session_new(const struct btrail_session_options *options,
                   GError **error)
{
    struct btrail_session *s;

    if (options->mode != BTRAIL_SESSION_CONTINUOUS || options->resume ||
        options->filter.n_vcpus || options->filter.n_cr3s ||
        options->filter.processes || options->filter.privilege ||
        options->n_triggers || options->drop) {
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                    "this agent writes whole sessions alone");
        btrail_store_close(options->store);
        return NULL;
    }
    s = g_new0(struct btrail_session, 1);
    s->store = options->store;
    s->metadata = json_object_ref(options->metadata);
    s->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->done_fd < 0) {
        g_error("cannot make an eventfd: %s", g_strerror(errno));
    }
    g_mutex_init(&s->lock);
    g_cond_init(&s->changed);
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

void btrail_session_begin(struct btrail_session *s,
                          const struct btrail_session_source *source)
{
    s->header = *source->header;
    s->attached = source->attached;
    s->whole = true;
    if (identify(s) || write_first_meta(s)) {
        s->over = true;
        s->error = g_error_new(BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                               "cannot write the trace: %s",
                               g_strerror(errno));
    }
    s->streams = g_new0(struct btrail_stream *, s->header.vcpus);
    s->output = btrail_output_new(s->store, s->header.vcpus + QUEUED_BLOCKS);
    s->code = btrail_session_code_new(s->output);
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

static struct btrail_stream *get_stream(struct btrail_session *s,
                                        unsigned vcpu)
{
    if (!s->streams[vcpu]) {
        s->streams[vcpu] = btrail_stream_new(vcpu,
                                             btrail_output_sink(s->output),
                                             s->begins_anywhere);
    }
    return s->streams[vcpu];
}

int btrail_session_slab(struct btrail_session *s, unsigned vcpu,
                        const struct btrail_slab *slab, uint64_t index,
                        uint16_t gap_reason)
{
    struct btrail_stream *stream = get_stream(s, vcpu);
    uint64_t before = btrail_stream_unexplained(stream);
    int ret = btrail_stream_append(stream, slab, gap_reason);

    if (ret == -BTRAIL_ERR_IO) {
        output_failed(s, btrail_output_error(s->output));
    } else if (ret) {
        return ret;
    }
    if (gap_reason == BTRAIL_GAP_CORRUPT) {
        s->unexplained += btrail_stream_unexplained(stream) - before;
    }
    __atomic_fetch_add(&s->progress.records, slab->n_records,
                       __ATOMIC_RELAXED);
    return 0;
}

void btrail_session_code(struct btrail_session *s, unsigned vcpu,
                         uint64_t number, const struct btrail_code_item *item,
                         const uint8_t *page)
{
    btrail_session_code_item(s->code, vcpu, number, item, page);
}

void btrail_session_sideband(struct btrail_session *s, uint16_t kind,
                             const void *payload, size_t size)
{
    if (kind == BTRAIL_SIDEBAND_PROCESSES) {
        __atomic_fetch_add(&s->looks, 1, __ATOMIC_RELAXED);
    }
    btrail_output_packed(s->output, g_memdup2(payload, size), size);
}

static void flush(struct btrail_session *s)
{
    unsigned i;

    for (i = 0; i < s->header.vcpus; i++) {
        if (s->streams[i] && !s->over && btrail_stream_flush(s->streams[i])) {
            output_failed(s, btrail_output_error(s->output));
        }
    }
    btrail_session_code_flush(s->code);
}

void btrail_session_tick(struct btrail_session *s, bool flush_due)
{
    __atomic_store_n(&s->progress.bytes, btrail_output_bytes(s->output),
                     __ATOMIC_RELAXED);
    if (btrail_output_error(s->output)) {
        output_failed(s, btrail_output_error(s->output));
    }
    if (flush_due) {
        flush(s);
    }
}

bool btrail_session_stream_ended(const struct btrail_session *s,
                                 unsigned vcpu)
{
    return s->streams[vcpu] && btrail_stream_ended(s->streams[vcpu]);
}

void btrail_session_end_stream(struct btrail_session *s, unsigned vcpu,
                               uint64_t index, uint16_t gap, uint16_t reason)
{
    struct btrail_stream *stream = get_stream(s, vcpu);

    btrail_stream_begin(stream, index);
    if ((gap && btrail_stream_event(stream, BTRAIL_EVENT_GAP, gap,
                                    BTRAIL_LOST_UNKNOWN)) ||
        btrail_stream_event(stream, BTRAIL_EVENT_END, reason, now_ns())) {
        output_failed(s, btrail_output_error(s->output));
    }
}

static void close_file(struct btrail_session *s)
{
    write_last_meta(s);
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
        btrail_output_finish(s->output);
        /* What was drained may not have got into the file. */
        __atomic_store_n(&s->progress.records,
                         btrail_output_records(s->output), __ATOMIC_RELAXED);
        __atomic_store_n(&s->progress.lost, btrail_output_lost(s->output),
                         __ATOMIC_RELAXED);
        btrail_output_free(s->output);
        for (i = 0; i < s->header.vcpus; i++) {
            btrail_stream_free(s->streams[i]);
        }
        g_free(s->streams);
    }
    close_file(s);
    g_mutex_lock(&s->lock);
    s->closed = true;
    g_cond_broadcast(&s->changed);
    g_mutex_unlock(&s->lock);
    set_eventfd(s->done_fd);
    return NULL;
}

void btrail_session_end(struct btrail_session *s,
                        const struct btrail_session_ending *ending)
{
    s->reason = ending->reason;
    s->release = g_strdup(ending->release);
    s->no_names = g_strdup(ending->no_names);
    if (ending->error && !s->error) {
        s->error = g_error_copy(ending->error);
    }
    if (s->output) {
        flush(s);
        btrail_session_code_free(s->code);
    }
    g_mutex_lock(&s->lock);
    s->closer = g_thread_new("close", closer_thread, s);
    g_mutex_unlock(&s->lock);
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
    g_free(s->release);
    g_mutex_clear(&s->lock);
    g_cond_clear(&s->changed);
    close(s->done_fd);
    g_free(s);
}
