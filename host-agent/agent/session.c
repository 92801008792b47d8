/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session: see session.h
 */

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent-code.h"
#include "looker.h"
#include "output.h"
#include "session.h"
#include "stream.h"
#include "transport.h"

/* Blocks that may wait for the file, beside one in the making per vCPU. */
#define QUEUED_BLOCKS       8

/* Slabs of a vCPU before the others have their turn. */
#define SLABS_PER_TURN      16

/*
 * Twice in this time, slabs in progress are asked for and what has come is
 * written, so that a file that is cut off lacks less than a second.
 */
#define FLUSH_INTERVAL_NS   500000000ull

/*
 * A vCPU at full speed fills slabs faster than it is worth to be woken for.
 * So nap before going to sleep, for a fraction of what fills a buffer.
 */
#define NAP_NS              50000
#define NAPS                20

/* How long the producer may take to say END after STOP. */
#define STOP_TIMEOUT_NS     10000000000ull

/* How long QEMU may take to say HELLO. */
#define HELLO_TIMEOUT_MS    30000

#define OUTPUT_FAILED \
    "cannot write the trace: %s; it ends there, at its last whole chunk"

struct vcpu {
    struct btrail_stream *stream;
    uint64_t tail;
    bool known;
};

struct btrail_session {
    struct btrail_session_options options;
    GThread *thread;
    int stop_fd;
    int done_fd;
    int stop;                   /* atomic */
    struct btrail_session_progress progress; /* atomic each */

    /* What follows belongs to the thread. */
    struct btrail_transport *transport;
    struct btrail_output *output;
    struct btrail_looker *looker;
    struct btrail_looker_result names;
    struct btrail_agent_code *code;
    struct vcpu *vcpus;
    struct btrail_event *events;
    bool begins_anywhere;       /* the file says why */
    bool discard;               /* the file cannot be written any more */
    bool ended;                 /* the producer said END */
    bool stop_sent;
    uint64_t stop_deadline;
    uint64_t next_tick;
    bool flush_due;
    uint16_t reason;
    uint64_t unexplained;
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
static void keep_error(struct btrail_session *s, GError *error)
{
    if (s->error) {
        g_error_free(error);
    } else {
        s->error = error;
    }
}

static void G_GNUC_PRINTF(3, 4) fail(struct btrail_session *s, int code,
                                     const char *format, ...)
{
    va_list args;

    va_start(args, format);
    keep_error(s, g_error_new_valist(BTRAIL_AGENT_ERROR, code, format, args));
    va_end(args);
}

static bool overwrites(const struct btrail_session *s)
{
    return s->transport->header.policy == BTRAIL_OVERFLOW_OVERWRITE;
}

static struct btrail_stream *vcpu_stream(struct btrail_session *s, unsigned i)
{
    struct vcpu *v = &s->vcpus[i];

    if (!v->stream) {
        v->stream = btrail_stream_new(i, btrail_output_sink(s->output),
                                      s->begins_anywhere);
    }
    return v->stream;
}

/*
 * The file cannot be written: let the guest go on, and take what the producer
 * still has without looking at it.
 */
static void output_failed(struct btrail_session *s)
{
    s->discard = true;
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
    fail(s, BTRAIL_AGENT_ERROR_OUTPUT, OUTPUT_FAILED,
         g_strerror(btrail_output_error(s->output)));
}

/* Why are records missing that no GAP event speaks of? */
static uint16_t gap_reason(const struct btrail_session *s,
                           const struct vcpu *v)
{
    if (overwrites(s)) {
        return BTRAIL_GAP_OVERWRITTEN;
    }
    if (!v->stream || !btrail_stream_index(v->stream)) {
        /* Somebody else has drained them, or nobody. */
        return BTRAIL_GAP_AGENT_LOST;
    }
    return BTRAIL_GAP_CORRUPT;
}

/* What is new is to be looked at before the guest goes on. */
static void let_look(struct btrail_session *s)
{
    if (s->transport->header.policy == BTRAIL_OVERFLOW_PAUSE) {
        btrail_looker_wait(s->looker);
    }
}

/* Tell the looker who has run. */
static void tell_looker(struct btrail_session *s,
                        const struct btrail_slab *slab)
{
    bool new = btrail_looker_saw(s->looker, slab->cr3);
    size_t i;

    for (i = 0; i < slab->n_events; i++) {
        if (slab->events[i].type == BTRAIL_EVENT_CR3) {
            new |= btrail_looker_saw(s->looker, slab->events[i].data[0]);
        }
    }
    if (new) {
        let_look(s);
    }
}

/* The same for code that runs for the first time, which is told earlier */
static void user_code(void *opaque, uint64_t cr3, uint64_t address)
{
    struct btrail_session *s = opaque;

    if (s->looker && btrail_looker_saw_code(s->looker, cr3, address)) {
        let_look(s);
    }
}

static bool drain_slab(struct btrail_session *s, unsigned i)
{
    struct vcpu *v = &s->vcpus[i];
    uint16_t reason = gap_reason(s, v);
    struct btrail_slab slab;
    GError *error = NULL;
    uint64_t before;
    int ret;

    if (!btrail_transport_slab(s->transport, i, v->tail, &slab, s->events,
                               &error)) {
        keep_error(s, error);
        return false;
    }
    if (s->looker) {
        tell_looker(s, &slab);
    }
    before = btrail_stream_unexplained(vcpu_stream(s, i));
    ret = btrail_stream_append(v->stream, &slab, reason);
    if (ret == -BTRAIL_ERR_IO) {
        output_failed(s);
    } else if (ret) {
        fail(s, BTRAIL_AGENT_ERROR_PROTOCOL,
             "the producer broke the protocol: in slab %" G_GUINT64_FORMAT
             " of vCPU %u, %s", v->tail, i, btrail_strerror(ret));
        return false;
    }
    if (reason == BTRAIL_GAP_CORRUPT) {
        s->unexplained += btrail_stream_unexplained(v->stream) - before;
    }
    __atomic_fetch_add(&s->progress.records, slab.n_records,
                       __ATOMIC_RELAXED);
    return true;
}

static bool bad_counters(struct btrail_session *s, unsigned i, uint64_t head,
                         uint64_t tail)
{
    fail(s, BTRAIL_AGENT_ERROR_PROTOCOL,
         "the producer broke the protocol: vCPU %u has published %"
         G_GUINT64_FORMAT " slabs, and %" G_GUINT64_FORMAT " of them were "
         "drained", i, head, tail);
    return false;
}

/* Drain slabs of a vCPU, at most @max; @n gets how many. */
static bool drain_vcpu(struct btrail_session *s, unsigned i, unsigned max,
                       unsigned *n)
{
    struct vcpu *v = &s->vcpus[i];
    uint32_t slabs = s->transport->header.slabs;
    uint64_t head = btrail_transport_head(s->transport, i);

    *n = 0;
    if (!v->known) {
        v->tail = btrail_transport_tail(s->transport, i);
        v->known = true;
    }
    if (overwrites(s) && head >= v->tail) {
        /*
         * The oldest slab is whole if the producer has stopped in order;
         * otherwise it may have begun to fill it anew.
         */
        uint64_t keep = s->ended ? slabs : slabs - 1;

        if (head - v->tail > keep) {
            v->tail = head - keep;
        }
    }
    if (head < v->tail || head - v->tail > slabs) {
        return bad_counters(s, i, head, v->tail);
    }
    while (v->tail != head && *n < max) {
        if (!s->discard && !drain_slab(s, i)) {
            return false;
        }
        v->tail++;
        (*n)++;
        btrail_transport_release(s->transport, i, v->tail);
    }
    return true;
}

/* Drain some slabs of all vCPUs; @n gets how many. */
static bool drain_some(struct btrail_session *s, unsigned *n)
{
    unsigned i, k;

    *n = 0;
    for (i = 0; i < s->transport->header.vcpus; i++) {
        if (!drain_vcpu(s, i, SLABS_PER_TURN, &k)) {
            return false;
        }
        *n += k;
    }
    return true;
}

/* Drain some of the code, or all of it; @n grows by how much. */
static bool drain_code(struct btrail_session *s, bool all, unsigned *n)
{
    GError *error = NULL;
    unsigned k;

    if (!btrail_agent_code_drain(s->code, all, s->discard, &k, &error)) {
        keep_error(s, error);
        return false;
    }
    *n += k;
    return true;
}

static void flush_streams(struct btrail_session *s)
{
    unsigned i;

    for (i = 0; i < s->transport->header.vcpus; i++) {
        struct btrail_stream *stream = s->vcpus[i].stream;

        if (stream && !s->discard && btrail_stream_flush(stream)) {
            output_failed(s);
        }
    }
}

static void update_progress(struct btrail_session *s)
{
    uint64_t lost = 0, paused_ns = 0;
    unsigned i;

    for (i = 0; i < s->transport->header.vcpus; i++) {
        lost += btrail_transport_lost(s->transport, i);
        paused_ns += btrail_transport_paused_ns(s->transport, i);
    }
    __atomic_store_n(&s->progress.lost, lost, __ATOMIC_RELAXED);
    __atomic_store_n(&s->progress.paused_ns, paused_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&s->progress.bytes, btrail_output_bytes(s->output),
                     __ATOMIC_RELAXED);
}

static void tick(struct btrail_session *s, uint64_t now)
{
    s->next_tick = now + FLUSH_INTERVAL_NS / 2;
    update_progress(s);
    if (btrail_output_error(s->output)) {
        output_failed(s);
    }
    if (s->flush_due) {
        flush_streams(s);
        btrail_agent_code_flush(s->code);
    }
    s->flush_due = !s->flush_due;
    if (!overwrites(s) && !s->stop_sent) {
        /* That it is gone shows when its messages are read. */
        btrail_transport_send(s->transport, BTRAIL_MSG_FLUSH, NULL);
    }
}

/* False if the producer does not do as it is told. */
static bool handle_stop(struct btrail_session *s, uint64_t now)
{
    if (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
        return true;
    }
    if (!s->stop_deadline) {
        s->stop_deadline = now + STOP_TIMEOUT_NS;
    }
    if (!s->stop_sent) {
        g_autoptr(GError) error = NULL;

        /* That it is gone shows when its messages are read. */
        s->stop_sent = btrail_transport_send(s->transport, BTRAIL_MSG_STOP,
                                             &error) || error;
    }
    if (now < s->stop_deadline) {
        return true;
    }
    fail(s, BTRAIL_AGENT_ERROR_TIMEOUT,
         "QEMU was asked to end the session and did not do so");
    return false;
}

static void handle_memory(struct btrail_session *s)
{
    struct btrail_transport_memory *m =
        btrail_transport_take_memory(s->transport);

    g_clear_pointer(&s->names.why, g_free);
    switch (m->reason) {
    case BTRAIL_MEMORY_SHARED:
        s->looker = btrail_looker_new(m, s->output);
        return;
    case BTRAIL_MEMORY_PRIVATE:
        s->names.why = g_strdup(
            "the guest's RAM is private to QEMU; start it with -object "
            "memory-backend-memfd,id=ram,size=SIZE,share=on and -machine "
            "memory-backend=ram, where SIZE is that of -m");
        break;
    default:
        s->names.why = g_strdup("QEMU could not share the guest's RAM");
        break;
    }
    btrail_transport_memory_free(m);
}

/* False when there is nothing to wait for any more. */
static bool handle_input(struct btrail_session *s)
{
    GError *error = NULL;

    switch (btrail_transport_receive(s->transport, &s->reason, &error)) {
    case BTRAIL_TRANSPORT_NOTHING:
        return true;
    case BTRAIL_TRANSPORT_END:
        s->ended = true;
        return false;
    case BTRAIL_TRANSPORT_MEMORY:
        handle_memory(s);
        return true;
    case BTRAIL_TRANSPORT_CLOSED:
        fail(s, BTRAIL_AGENT_ERROR_CLOSED,
             "QEMU has gone away without ending the session");
        return false;
    default:
        keep_error(s, error);
        return false;
    }
}

static bool heads_moved(struct btrail_session *s)
{
    unsigned i;

    for (i = 0; i < s->transport->header.vcpus; i++) {
        if (btrail_transport_head(s->transport, i) != s->vcpus[i].tail) {
            return true;
        }
    }
    return false;
}

static bool something_moved(struct btrail_session *s)
{
    return btrail_agent_code_urgent(s->code) ||
           (!overwrites(s) && heads_moved(s));
}

static void sleep_until_tick(struct btrail_session *s, uint64_t now)
{
    struct pollfd fds[] = {
        { .fd = s->transport->ready_fd, .events = POLLIN },
        { .fd = s->transport->sock, .events = POLLIN },
        { .fd = s->stop_fd, .events = POLLIN },
    };
    struct timespec left = { 0 };

    if (s->stop_sent) {
        fds[2].fd = -1;
    }
    if (s->next_tick > now) {
        left.tv_nsec = s->next_tick - now;
    }
    btrail_transport_sleep(s->transport);
    if (!something_moved(s)) {
        ppoll(fds, G_N_ELEMENTS(fds), &left, NULL);
    }
    btrail_transport_wake(s->transport);
}

static void drain_until_end(struct btrail_session *s)
{
    static const struct timespec nap = { .tv_nsec = NAP_NS };
    unsigned idle = 0;

    for (;;) {
        uint64_t now = now_ns();
        unsigned n = 0;

        if (!overwrites(s) && !drain_some(s, &n)) {
            return;
        }
        /* It comes in drops, for which it is not worth to stay awake. */
        if ((now >= s->next_tick || btrail_agent_code_urgent(s->code)) &&
            !drain_code(s, false, &n)) {
            return;
        }
        /* While there is a lot to do, messages wait for the next tick. */
        if ((!n || now >= s->next_tick) && !handle_input(s)) {
            return;
        }
        if (now >= s->next_tick) {
            tick(s, now);
        }
        if (!handle_stop(s, now)) {
            return;
        }
        if (n) {
            idle = 0;
        }
        if (!n && !overwrites(s) && idle++ < NAPS) {
            clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        } else if (!n) {
            sleep_until_tick(s, now);
        }
    }
}

/*
 * The producer is at its end, one way or the other: get what it has left, and
 * not what it may go on to publish.
 */
static void drain_rest(struct btrail_session *s)
{
    unsigned i, n = 0;

    if (!drain_code(s, true, &n)) {
        return;
    }
    for (i = 0; i < s->transport->header.vcpus; i++) {
        if (!drain_vcpu(s, i, UINT_MAX, &n)) {
            return;
        }
    }
}

/* Every stream ends with an END event, whoever makes it. */
static void end_streams(struct btrail_session *s)
{
    unsigned i;

    for (i = 0; i < s->transport->header.vcpus && !s->discard; i++) {
        struct vcpu *v = &s->vcpus[i];
        struct btrail_stream *stream;

        if ((v->stream && btrail_stream_ended(v->stream)) ||
            (!v->stream && btrail_transport_state(s->transport, i) ==
             BTRAIL_VCPU_ABSENT)) {
            continue;
        }
        fail(s, BTRAIL_AGENT_ERROR_PROTOCOL,
             "the producer broke the protocol: the stream of vCPU %u has no "
             "end", i);
        stream = vcpu_stream(s, i);
        btrail_stream_begin(stream, btrail_transport_index(s->transport, i));
        if (btrail_stream_event(stream, BTRAIL_EVENT_GAP,
                                BTRAIL_GAP_PRODUCER_LOST,
                                BTRAIL_LOST_UNKNOWN) ||
            btrail_stream_event(stream, BTRAIL_EVENT_END,
                                BTRAIL_END_PRODUCER_LOST, now_ns())) {
            output_failed(s);
        }
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
 * Whoever has drained a session has written files of one trace.  What another
 * agent has got, or nobody, is then no gap in this file, but before it.
 */
static int identify(struct btrail_session *s)
{
    const struct btrail_shm_header *h = &s->transport->header;
    uint64_t clocks[2] = { h->start_monotonic, h->start_realtime };
    uint16_t begin = !s->options.attached ? 0 : overwrites(s) ?
                     BTRAIL_GAP_OVERWRITTEN : BTRAIL_GAP_AGENT_LOST;
    GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);
    uint8_t id[32];
    gsize len = sizeof(id);

    g_checksum_update(sum, (const guchar *)clocks, sizeof(clocks));
    g_checksum_update(sum, (const guchar *)h->session, -1);
    g_checksum_get_digest(sum, id, &len);
    g_checksum_free(sum);
    if (btrail_store_identify(s->options.store, id, begin)) {
        return errno == ESPIPE ? 0 : -BTRAIL_ERR_IO;
    }
    s->begins_anywhere = begin;
    return 0;
}

static int write_first_meta(struct btrail_session *s)
{
    const struct btrail_shm_header *h = &s->transport->header;
    JsonObject *meta = s->options.metadata;
    JsonObject *start = json_object_new();

    json_object_set_string_member(meta, "writer",
                                  "backtrail " BACKTRAIL_VERSION);
    json_object_set_string_member(meta, "session", h->session);
    json_object_set_string_member(meta, "producer",
                                  producer_names[h->producer]);
    json_object_set_string_member(meta, "overflow", policy_names[h->policy]);
    json_object_set_string_member(meta, "privilege",
                                  privilege_names[h->privilege]);
    json_object_set_int_member(meta, "tick_ns", h->tick_ns);
    json_object_set_int_member(meta, "tsc_hz", h->tsc_hz);
    json_object_set_int_member(meta, "buffer_size",
                               (gint64)h->slabs * h->slab_size);
    json_object_set_boolean_member(meta, "attached", s->options.attached);
    json_object_set_int_member(start, "monotonic", h->start_monotonic);
    json_object_set_int_member(start, "realtime", h->start_realtime);
    json_object_set_object_member(meta, "start", start);
    return write_meta(s->options.store, meta);
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
    if (s->names.looks) {
        JsonObject *names = json_object_new();

        json_object_set_string_member(names, "kernel", s->names.release);
        json_object_set_int_member(names, "looks", s->names.looks);
        json_object_set_object_member(meta, "names", names);
    }
    return write_meta(s->options.store, meta);
}

static bool begin(struct btrail_session *s)
{
    const struct btrail_shm_header *h;

    s->transport = btrail_transport_connect(s->options.sock, HELLO_TIMEOUT_MS,
                                            s->stop_fd, &s->error);
    if (!s->transport) {
        close(s->options.sock);
        return false;
    }
    h = &s->transport->header;
    if (identify(s) || write_first_meta(s)) {
        fail(s, BTRAIL_AGENT_ERROR_OUTPUT, "cannot write the trace: %s",
             g_strerror(errno));
        return false;
    }
    s->vcpus = g_new0(struct vcpu, h->vcpus);
    s->events = g_new(struct btrail_event, h->events_per_slab);
    s->output = btrail_output_new(s->options.store, h->vcpus + QUEUED_BLOCKS);
    s->code = btrail_agent_code_new(s->transport, s->output, user_code, s);
    s->next_tick = now_ns() + FLUSH_INTERVAL_NS / 2;
    if (s->options.names) {
        s->names.why = g_strdup("this QEMU does not share the guest's RAM");
    }
    if (!btrail_transport_ready(s->transport, s->options.names, &s->error)) {
        if (!s->error) {
            fail(s, BTRAIL_AGENT_ERROR_PROTOCOL,
                 "the producer does not listen");
        }
        return false;
    }
    return true;
}

static void end(struct btrail_session *s)
{
    unsigned i;

    if (s->transport && !s->ended && s->error &&
        s->error->code == BTRAIL_AGENT_ERROR_PROTOCOL) {
        /* Do not leave the guest traced for nobody. */
        btrail_transport_send(s->transport, BTRAIL_MSG_STOP, NULL);
    }
    if (s->looker) {
        btrail_looker_finish(s->looker, &s->names);
    }
    if (s->output) {
        update_progress(s);
        flush_streams(s);
        btrail_agent_code_end(s->code);
        btrail_agent_code_free(s->code);
        btrail_output_finish(s->output);
        /* What was drained may not have got into the file. */
        __atomic_store_n(&s->progress.records,
                         btrail_output_records(s->output), __ATOMIC_RELAXED);
        __atomic_store_n(&s->progress.lost, btrail_output_lost(s->output),
                         __ATOMIC_RELAXED);
        btrail_output_free(s->output);
        for (i = 0; i < s->transport->header.vcpus; i++) {
            btrail_stream_free(s->vcpus[i].stream);
        }
    }
    btrail_transport_free(s->transport);
    g_free(s->vcpus);
    g_free(s->events);
    json_object_unref(s->options.metadata);
}

static void close_file(struct btrail_session *s)
{
    write_last_meta(s);
    __atomic_store_n(&s->progress.bytes, btrail_store_size(s->options.store),
                     __ATOMIC_RELAXED);
    /* An error while writing comes again here. */
    if (btrail_store_close(s->options.store)) {
        fail(s, BTRAIL_AGENT_ERROR_OUTPUT, OUTPUT_FAILED, g_strerror(errno));
    }
}

static gpointer session_thread(gpointer opaque)
{
    struct btrail_session *s = opaque;

    /* The kernel lets timers be late by so much; naps are short. */
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);

    s->reason = BTRAIL_END_PRODUCER_LOST;
    if (begin(s)) {
        drain_until_end(s);
        if (s->ended || !s->error ||
            s->error->code != BTRAIL_AGENT_ERROR_PROTOCOL) {
            drain_rest(s);
        }
        end_streams(s);
    }
    end(s);
    close_file(s);
    set_eventfd(s->done_fd);
    return NULL;
}

struct btrail_session *
btrail_session_start(const struct btrail_session_options *options)
{
    struct btrail_session *s = g_new0(struct btrail_session, 1);

    s->options = *options;
    json_object_ref(s->options.metadata);
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->stop_fd < 0 || s->done_fd < 0) {
        g_error("cannot make an eventfd: %s", g_strerror(errno));
    }
    s->thread = g_thread_new("drain", session_thread, s);
    return s;
}

int btrail_session_done_fd(const struct btrail_session *s)
{
    return s->done_fd;
}

void btrail_session_progress(struct btrail_session *s,
                             struct btrail_session_progress *p)
{
    p->records = __atomic_load_n(&s->progress.records, __ATOMIC_RELAXED);
    p->bytes = __atomic_load_n(&s->progress.bytes, __ATOMIC_RELAXED);
    p->lost = __atomic_load_n(&s->progress.lost, __ATOMIC_RELAXED);
    p->paused_ns = __atomic_load_n(&s->progress.paused_ns, __ATOMIC_RELAXED);
}

void btrail_session_stop(struct btrail_session *s)
{
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
    set_eventfd(s->stop_fd);
}

void btrail_session_finish(struct btrail_session *s,
                           struct btrail_session_result *result)
{
    g_thread_join(s->thread);
    *result = (struct btrail_session_result) {
        .reason = s->reason,
        .unexplained = s->unexplained,
        .progress = s->progress,
        .no_names = s->names.looks ? NULL : g_strdup(s->names.why),
        .error = s->error,
    };
    btrail_looker_result_clear(&s->names);
    close(s->stop_fd);
    close(s->done_fd);
    g_free(s);
}
