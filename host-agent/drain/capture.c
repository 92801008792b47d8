/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture: see capture.h
 *
 * This file has the capture's thread: when it drains, and how sessions come and
 * go.  What it drains is in capture-drain.c, what the scanner finds in
 * capture-names.c, and which sessions get it in capture-members.c.
 */

#include <poll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "drain/capture-drain.h"
#include "drain/capture.h"
#include "drain/session-description.h"
#include "util/clock.h"
#include "util/event-fd.h"

/*
 * Twice in this time, the producer is asked for slabs in progress and all that
 * was drained is written, so that a file that is cut off lacks less than a
 * second.
 */
#define FLUSH_INTERVAL_NS   500000000ull

/* Between ticks that a session waits for: QEMU has to answer meanwhile. */
#define FAST_TICK_NS        50000000ull

/*
 * A vCPU at full speed fills slabs so fast that it is not worth being woken for
 * each: it would make a system call every time, and interrupt the agent's CPU.
 * So nap before going to sleep, while at most this part of a buffer is filled.
 */
#define NAP_SHARE           8
#define NAPS                3
/* No vCPU makes more records than that: 1 GB/s are 40 million. */
#define BYTES_PER_NS        1
/* Triggers act on what was drained, so not longer. */
#define MOST_NAP_NS         2000000ull

/*
 * While the limit of CPU time is exceeded, the thread waits in steps of this
 * length and drains a little after each: otherwise QEMU would give the agent
 * up.
 */
#define LIMIT_STEP_NS       50000000ull
#define LIMIT_LEAST_NS      1000000ull

/* How long the producer may take to say whether it shares memory */
#define NAMES_TIMEOUT_NS    5000000000ull

/*
 * How long the guest's kernel is searched for before the guest is traced: QEMU
 * executes no QMP command meanwhile, and gives up after 1.5 s.
 */
#define HOLD_NS                 1000000000ull

/* How long the producer may take to say END after STOP */
#define STOP_TIMEOUT_NS     10000000000ull

/* How long QEMU may take to say HELLO */
#define HELLO_TIMEOUT_MS    30000

/*
 * Of the bytes that are kept of a guest, one in this many is for what is on its
 * way
 */
#define SPARE_PART          4

struct capture {
    struct capture_options options;
    GThread *thread;
    int wake_fd;
    int cancel_fd;
    int done_fd;
    int stop;                   /* atomic */
    int detach;                 /* atomic */
    struct capture_progress progress; /* atomic; not .records */
    struct capture_members members;
    struct capture_names names;
    struct capture_drain drain;

    /* What follows belongs to the thread. */
    bool ready;                 /* READY was sent */
    bool resend_due;            /* the producer must resend code */
    uint64_t resent_at;
    bool detached;
    bool stop_sent;
    uint64_t names_deadline;    /* for the producer to share its memory */
    uint64_t stop_deadline;
    uint64_t last_tick, next_tick;
    uint64_t flushed, flushed_before; /* when the last two were asked for */
    uint64_t cpu_shared;        /* CPU time up to here is in sessions' sums */
    uint64_t cpu_charged;       /* and in the limit; 0 if it did not hold */
    uint64_t drained_at;        /* when something was drained last */
    bool flush_due;
    uint16_t reason;
    GError *error;
};

/* Returns where to put an error: only the first one is reported. */
static GError **first_error(struct capture *c)
{
    return c->error ? NULL : &c->error;
}

static const struct btrail_shm_header *header(const struct capture *c)
{
    return &c->drain.connection->header;
}

/* Takes a session out of the capture and ends it. */
static void end_session(struct capture *c, struct session *s,
                        uint16_t reason,
                        const struct scanner_result *names)
{
    const struct session_ending ending = {
        .reason = reason,
        .error = c->error,
        .release = names->release,
        .missing = names->missing,
        .kernels = names->kernels,
        .no_names = names->snapshots ? NULL : names->why,
    };

    capture_members_remove(&c->members, s);
    session_end(s, &ending);
}

static void update_progress(struct capture *c)
{
    uint64_t lost = 0, paused_ns = 0;

    for (unsigned i = 0; i < header(c)->vcpus; i++) {
        lost += drain_connection_lost(c->drain.connection, i);
        paused_ns += drain_connection_paused_ns(c->drain.connection, i);
    }
    __atomic_store_n(&c->progress.lost, lost, __ATOMIC_RELAXED);
    __atomic_store_n(&c->progress.paused_ns, paused_ns, __ATOMIC_RELAXED);
}

/* Ends a session that was removed or cannot continue; the capture does. */
static void remove_session(struct capture *c, struct session *s)
{
    struct scanner_result names;

    /* Its owner asks once more when it is over. */
    update_progress(c);
    for (unsigned i = 0; i < header(c)->vcpus; i++) {
        if (!session_error(s) &&
            capture_drain_is_traced(&c->drain, i) &&
            !session_stream_ended(s, i)) {
            session_end_stream(s, i, c->drain.vcpus[i].index, 0,
                               BTRAIL_END_STOPPED);
        }
    }
    capture_names_leave(&c->names, s);
    capture_names_so_far(&c->names, &names);
    end_session(c, s, BTRAIL_END_STOPPED, &names);
    scanner_result_clear(&names);
}

static void add_session(struct capture *c, struct session *s)
{
    unsigned n = header(c)->vcpus;
    g_autofree uint64_t *indices = g_new(uint64_t, n);
    const struct session_source source = {
        .header = header(c),
        .attached = c->options.attached,
        .beginning = !c->drain.drained,
        .indices = indices,
        .budget = c->names.budget,
        .entry = entries_find,
        .opaque = c->names.entries,
        .wake_fd = c->wake_fd,
    };

    for (unsigned i = 0; i < n; i++) {
        indices[i] = c->drain.vcpus[i].index;
    }
    session_begin(s, &source);
    capture_members_add(&c->members, s);
    capture_names_join(&c->names, s, c->ready);
    c->resend_due |= c->ready;
}

/* Returns false if the producer has broken the protocol. */
static bool handle_requests(struct capture *c)
{
    struct capture_request *request;
    unsigned n = 0;
    bool ok = true;

    if (!__atomic_exchange_n(&c->members.requested, 0, __ATOMIC_ACQUIRE)) {
        return true;
    }
    while (ok && (request = capture_members_next(&c->members))) {
        struct session *s = request->session;

        if (!request->remove) {
            add_session(c, s);
        } else if (g_ptr_array_find(c->members.sessions, s, NULL)) {
            ok = capture_drain_overwrites(&c->drain) ||
                 capture_drain_slabs(&c->drain, true, &n, first_error(c));
            if (ok) {
                remove_session(c, s);
            }
        }
        g_free(request);
    }
    return ok;
}

static void remove_finished_sessions(struct capture *c)
{
    unsigned i = 0;

    while (i < c->members.sessions->len) {
        if (session_over(capture_member(&c->members, i))) {
            remove_session(c, capture_member(&c->members, i));
        } else {
            i++;
        }
    }
}

/* A single session gets all of the CPU time; of several each is measured. */
static void share_cpu(struct capture *c)
{
    uint64_t now = clock_cpu_ns();

    if (c->members.sessions->len == 1) {
        session_spent(capture_member(&c->members, 0),
                      now - c->cpu_shared);
    }
    c->cpu_shared = now;
}

/* Sends a message; returns whether that need not be tried again. */
static bool send_once(struct capture *c, uint16_t type)
{
    g_autoptr(GError) error = NULL;

    /* If the producer is gone, handle_input() notices. */
    return drain_connection_send(c->drain.connection, type, &error) || error;
}

/*
 * Has the producer resend code: at once, since what a session records before
 * has none; and once for all that join within a tick, since the guest waits for
 * it.
 */
static void send_resend(struct capture *c, uint64_t now)
{
    if (c->resend_due && header(c)->code_items &&
        now >= c->resent_at + FLUSH_INTERVAL_NS / 2 &&
        send_once(c, BTRAIL_MSG_RESEND_CODE)) {
        c->resend_due = false;
        c->resent_at = now;
    }
}

/* Says how tasks are found, once that is known. */
static void send_tasks(struct capture *c)
{
    struct btrail_tasks tasks[CAPTURE_SOURCES];
    unsigned n;
    g_autoptr(GError) error = NULL;

    /* If the producer is gone, handle_input() notices. */
    if (capture_names_tasks(&c->names, tasks, &n) &&
        (header(c)->accepts & BTRAIL_ACCEPTS_TASKS) && !c->stop_sent &&
        !drain_connection_send_tasks(c->drain.connection, tasks, n,
                                     &error) && !error) {
        /* The socket is full. */
        __atomic_store_n(&c->names.tasks_due, 1, __ATOMIC_RELAXED);
    }
}

/* Requests to learn of RAM that comes and goes, if it is read. */
static void want_memory(struct capture *c)
{
    g_autoptr(GError) error = NULL;

    /* If the producer is gone, handle_input() notices. */
    if (c->names.scanner && !c->stop_sent &&
        (header(c)->accepts & BTRAIL_ACCEPTS_MEMORY)) {
        drain_connection_want_memory(c->drain.connection, &error);
    }
}

/*
 * Reports to a session up to when it has got all that vCPUs did.  Of a producer
 * that does not say when it has flushed, it is believed that it has when it is
 * asked again.
 */
static void report_passed(struct capture *c, struct session *s)
{
    for (unsigned i = 0; i < header(c)->vcpus; i++) {
        if (capture_drain_says_done(&c->drain)) {
            session_passed(s, i, capture_drain_done(&c->drain, i));
        } else if (capture_drain_was_empty(&c->drain, i, c->flushed)) {
            session_passed(s, i, c->flushed_before);
        }
    }
}

/* Has the producer publish slabs in progress. */
static void send_flush(struct capture *c, uint64_t now)
{
    if (send_once(c, BTRAIL_MSG_FLUSH)) {
        c->flushed_before = c->flushed;
        c->flushed = now;
    }
}

static void capture_tick(struct capture *c, uint64_t now)
{
    c->last_tick = now;
    c->next_tick = now + FLUSH_INTERVAL_NS / 2;
    update_progress(c);
    capture_names_age(&c->names, now);
    for (unsigned i = 0; i < c->members.sessions->len; i++) {
        struct session *s = capture_member(&c->members, i);

        report_passed(c, s);
        session_tick(s, c->flush_due);
        if (session_renews_names(s)) {
            capture_names_resend(&c->names, s);
            c->resend_due = true;
        }
    }
    share_cpu(c);
    if (c->options.names && !c->names.known && now >= c->names_deadline) {
        capture_names_known(&c->names);
    }
    remove_finished_sessions(c);
    c->flush_due = !c->flush_due;
    want_memory(c);
    if (!capture_drain_overwrites(&c->drain) && !c->stop_sent) {
        send_flush(c, now);
    }
}

/* Brings the next tick forward if a session waits for it. */
static void advance_tick(struct capture *c)
{
    for (unsigned i = 0; i < c->members.sessions->len; i++) {
        if (session_awaits_tick(capture_member(&c->members, i))) {
            c->next_tick = MIN(c->next_tick, c->last_tick + FAST_TICK_NS);
        }
    }
}

/* Returns false if the producer does not stop. */
static bool handle_stop(struct capture *c, uint64_t now)
{
    if (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
        return true;
    }
    if (!c->stop_deadline) {
        c->stop_deadline = now + STOP_TIMEOUT_NS;
    }
    if (!c->stop_sent) {
        c->stop_sent = send_once(c, BTRAIL_MSG_STOP);
    }
    if (now < c->stop_deadline) {
        return true;
    }
    g_set_error(first_error(c), AGENT_ERROR, AGENT_ERROR_TIMEOUT,
                "QEMU was asked to end the capture and did not do so");
    return false;
}

/* Returns false when there is nothing to wait for any more. */
static bool handle_input(struct capture *c)
{
    switch (drain_connection_receive(c->drain.connection, &c->reason,
                                     first_error(c))) {
    case DRAIN_CONNECTION_NOTHING:
        return true;
    case DRAIN_CONNECTION_END:
        c->drain.ended = true;
        return false;
    case DRAIN_CONNECTION_MEMORY:
        capture_names_take_memory(
            &c->names, drain_connection_take_memory(c->drain.connection));
        return true;
    case DRAIN_CONNECTION_CLOSED:
        g_set_error(first_error(c), AGENT_ERROR,
                    AGENT_ERROR_CLOSED,
                    "QEMU has gone away without ending the capture");
        return false;
    default:
        return false;
    }
}

static bool something_moved(struct capture *c)
{
    return capture_drain_code_urgent(&c->drain) ||
           (!capture_drain_overwrites(&c->drain) &&
            capture_drain_heads_moved(&c->drain));
}

/* Waits until an fd of the capture is readable; the last one is wake_fd. */
static void wait_for_fds(struct capture *c, struct pollfd *fds,
                         unsigned n, long ns)
{
    const struct timespec timeout = { .tv_nsec = ns };

    ppoll(fds, n, &timeout, NULL);
    if (fds[n - 1].revents & POLLIN) {
        event_fd_clear(c->wake_fd);
    }
}

static void sleep_until_tick(struct capture *c, uint64_t now)
{
    struct pollfd fds[] = {
        { .fd = c->drain.connection->ready_fd, .events = POLLIN },
        { .fd = c->drain.connection->sock, .events = POLLIN },
        { .fd = c->wake_fd, .events = POLLIN },
    };

    drain_connection_sleep(c->drain.connection);
    if (!something_moved(c)) {
        wait_for_fds(c, fds, G_N_ELEMENTS(fds),
                     c->next_tick > now ? c->next_tick - now : 0);
    }
    drain_connection_wake(c->drain.connection);
}

/*
 * Charges the limit with the CPU time that this thread and those of the
 * sessions have used since the last call.  The scanner charges its own.
 */
static void charge_since(struct capture *c, uint64_t now)
{
    uint64_t cpu = clock_cpu_ns();
    uint64_t spent = cpu - c->cpu_charged;

    for (unsigned i = 0; i < c->members.sessions->len; i++) {
        spent += session_written_ns(capture_member(&c->members, i));
    }
    /* Time from before there was a limit is not charged. */
    if (c->cpu_charged) {
        cpu_limit_spend(c->options.limit, spent, now);
    }
    c->cpu_charged = cpu;
}

/* How long nothing may be drained, to keep to the limit; 0 if it may now */
static uint64_t limited(struct capture *c, uint64_t now)
{
    if (!c->options.limit || !cpu_limit_holds(c->options.limit) ||
        __atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
        c->cpu_charged = 0;
        return 0;
    }
    charge_since(c, now);
    return cpu_limit_wait(c->options.limit, now);
}

/* Drains a share of whatever there is; @n grows by how much. */
static bool drain_turn(struct capture *c, uint64_t now, unsigned *n)
{
    /*
     * Code comes in drops, for which it is not worth staying awake.  With a
     * scanner, though, it must see new code before slabs are given back, with
     * which the guest would continue.
     */
    if ((c->names.scanner || now >= c->next_tick ||
         capture_drain_code_urgent(&c->drain)) &&
        !capture_drain_code(&c->drain, false, n, first_error(c))) {
        return false;
    }
    return capture_drain_overwrites(&c->drain) ||
           capture_drain_slabs(&c->drain, false, n, first_error(c));
}

/* Waits for a while, unless something must be done at once. */
static void hold_back(struct capture *c, uint64_t wait, uint64_t now)
{
    struct pollfd fds[] = {
        { .fd = c->drain.connection->sock, .events = POLLIN },
        { .fd = c->wake_fd, .events = POLLIN },
    };

    wait_for_fds(c, fds, G_N_ELEMENTS(fds),
                 CLAMP(wait, LIMIT_LEAST_NS, LIMIT_STEP_NS));
    if (capture_drain_heads_moved(&c->drain)) {
        __atomic_fetch_add(&c->progress.limited_ns, clock_ns() - now,
                           __ATOMIC_RELAXED);
    }
}

static struct timespec nap_of(const struct btrail_shm_header *h)
{
    uint64_t ns = (uint64_t)h->slabs * h->slab_size / NAP_SHARE / BYTES_PER_NS;

    return (struct timespec) { .tv_nsec = MIN(ns, MOST_NAP_NS) };
}

static void drain_until_end(struct capture *c)
{
    const struct timespec nap = nap_of(header(c));
    bool overwrites = capture_drain_overwrites(&c->drain);
    unsigned idle = 0;

    for (;;) {
        uint64_t now = clock_ns();
        uint64_t wait = overwrites ? 0 : limited(c, now);
        unsigned n = 0;

        if (!wait && !drain_turn(c, now, &n)) {
            return;
        }
        if (wait && now >= c->drained_at + LIMIT_STEP_NS &&
            !capture_drain_little(&c->drain, &n, first_error(c))) {
            return;
        }
        advance_tick(c);
        /* While there is a lot to do, messages wait for the next tick. */
        if ((!n || now >= c->next_tick) && !handle_input(c)) {
            return;
        }
        if (now >= c->next_tick) {
            capture_tick(c, now);
        }
        send_tasks(c);
        if (!handle_stop(c, now) || !handle_requests(c)) {
            return;
        }
        send_resend(c, now);
        if (__atomic_load_n(&c->detach, __ATOMIC_RELAXED)) {
            c->detached = true;
            c->reason = 0;
            return;
        }
        if (n) {
            idle = 0;
            c->drained_at = now;
        }
        if (wait) {
            hold_back(c, wait, now);
        } else if (!n && !overwrites && idle++ < NAPS) {
            clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        } else if (!n) {
            sleep_until_tick(c, now);
        }
    }
}

/*
 * Drains what the producer has published by its end, and not what it may
 * publish from here on.
 */
static void drain_rest(struct capture *c)
{
    unsigned n = 0;

    if (capture_drain_code(&c->drain, true, &n, first_error(c))) {
        capture_drain_slabs(&c->drain, true, &n, first_error(c));
    }
}

/* Each stream ends with an END event; this is for one without it. */
static void end_stream_of_all(struct capture *c, unsigned vcpu)
{
    uint64_t index = drain_connection_index(c->drain.connection, vcpu);

    for (unsigned i = 0; i < c->members.sessions->len; i++) {
        struct session *s = capture_member(&c->members, i);

        if (session_over(s) || session_stream_ended(s, vcpu)) {
            continue;
        }
        session_end_stream(s, vcpu, index, BTRAIL_GAP_PRODUCER_LOST,
                           BTRAIL_END_PRODUCER_LOST);
    }
}

static void end_streams(struct capture *c)
{
    for (unsigned i = 0; i < header(c)->vcpus; i++) {
        if (c->drain.vcpus[i].ended ||
            !capture_drain_is_traced(&c->drain, i)) {
            continue;
        }
        g_set_error(first_error(c), AGENT_ERROR,
                    AGENT_ERROR_PROTOCOL,
                    "the producer broke the protocol: the stream of vCPU %u "
                    "has no end", i);
        end_stream_of_all(c, i);
    }
}

/* Returns false if there are sessions and none of them can be written. */
static bool can_begin(struct capture *c)
{
    unsigned i;

    for (i = 0; i < c->members.sessions->len; i++) {
        if (!session_over(capture_member(&c->members, i))) {
            return true;
        }
    }
    if (i && !c->error) {
        c->error = g_error_copy(
            session_error(capture_member(&c->members, 0)));
    }
    return !i;
}

/*
 * Is the guest to be traced only once it is known how its tasks are found?  A
 * guest whose capture is attached to is traced already.
 */
static bool holds(const struct capture *c)
{
    return c->options.names && !c->options.attached &&
           (header(c)->accepts & BTRAIL_ACCEPTS_HOLD);
}

/* Waits until the guest's kernel was searched for, and describes its tasks. */
static bool wait_for_tasks(struct capture *c)
{
    uint64_t now = clock_ns(), deadline = now + HOLD_NS;
    struct pollfd fds[] = {
        { .fd = c->drain.connection->sock, .events = POLLIN },
        { .fd = c->wake_fd, .events = POLLIN },
    };

    while (now < deadline && !__atomic_load_n(&c->stop, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&c->detach, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&c->names.tasks_due, __ATOMIC_RELAXED) &&
           (c->names.scanner || !c->names.known)) {
        wait_for_fds(c, fds, G_N_ELEMENTS(fds), (long)(deadline - now - 1));
        if (!handle_input(c)) {
            return false;
        }
        now = clock_ns();
    }
    send_tasks(c);
    return true;
}

/* Has the producer trace; with @hold after a wait */
static bool send_ready(struct capture *c, bool hold)
{
    uint64_t flags = (c->options.names ? BTRAIL_READY_MEMORY : 0) |
                     (hold ? BTRAIL_READY_HOLD : 0) |
                     (header(c)->accepts & BTRAIL_ACCEPTS_KERNELS ?
                      BTRAIL_READY_KERNELS : 0);

    c->names_deadline = clock_ns() + NAMES_TIMEOUT_NS;
    if (!drain_connection_ready(c->drain.connection, flags, &c->error) ||
        (hold && (!wait_for_tasks(c) ||
                  !drain_connection_send(c->drain.connection,
                                         BTRAIL_MSG_READY, &c->error)))) {
        g_set_error(first_error(c), AGENT_ERROR,
                    AGENT_ERROR_PROTOCOL,
                    "the producer does not read its messages");
        return false;
    }
    return true;
}

static bool begin_draining(struct capture *c)
{
    struct drain_connection *connection =
        drain_connection_accept(c->options.sock, HELLO_TIMEOUT_MS,
                                c->cancel_fd, &c->error);

    if (!connection) {
        close(c->options.sock);
        return false;
    }
    capture_drain_init(&c->drain, connection, &c->members, &c->names);
    c->names.nests = header(c)->accepts & BTRAIL_ACCEPTS_NESTED;
    c->next_tick = clock_ns() + FLUSH_INTERVAL_NS / 2;
    /* The files must exist before a guest is traced. */
    if (!handle_requests(c) || !can_begin(c)) {
        return false;
    }
    if (!send_ready(c, holds(c))) {
        return false;
    }
    c->ready = true;
    return true;
}

/* Ends a session that was added too late to get anything. */
static void end_late(struct capture *c, struct session *s)
{
    g_autoptr(GError) over = g_error_new(AGENT_ERROR,
                                         AGENT_ERROR_CLOSED,
                                         "the guest is not traced any more");
    const struct session_ending ending = {
        .reason = c->reason, .error = c->error ?: over,
    };

    session_end(s, &ending);
}

static void close_requests(struct capture *c)
{
    struct capture_request *request;

    capture_members_close(&c->members);
    while ((request = capture_members_next(&c->members))) {
        if (!request->remove) {
            end_late(c, request->session);
        }
        g_free(request);
    }
}

static void end_capture(struct capture *c)
{
    bool connected = c->drain.connection;

    if (connected && !c->drain.ended && c->error &&
        c->error->code == AGENT_ERROR_PROTOCOL) {
        /* Otherwise the guest would be traced without an agent. */
        send_once(c, BTRAIL_MSG_STOP);
    }
    capture_names_end(&c->names);
    if (connected) {
        update_progress(c);
        capture_drain_end_code(&c->drain);
    }
    while (c->members.sessions->len) {
        end_session(c, capture_member(&c->members, 0), c->reason,
                    &c->names.result);
    }
    close_requests(c);
    capture_drain_clear(&c->drain);
}

static gpointer capture_thread(gpointer opaque)
{
    struct capture *c = opaque;

    /* The kernel may let timers be late by this much, and naps are short. */
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);

    c->reason = BTRAIL_END_PRODUCER_LOST;
    if (begin_draining(c)) {
        drain_until_end(c);
        if (c->drain.ended || !c->error ||
            c->error->code != AGENT_ERROR_PROTOCOL) {
            drain_rest(c);
        }
        if (!c->detached) {
            end_streams(c);
        }
    }
    end_capture(c);
    event_fd_set(c->done_fd);
    return NULL;
}

static bool request(struct capture *c, struct session *s,
                    bool remove)
{
    if (!capture_members_request(&c->members, s, remove)) {
        return false;
    }
    event_fd_set(c->wake_fd);
    return true;
}

struct capture *
capture_start(const struct capture_options *options)
{
    struct capture *c = g_new0(struct capture, 1);

    c->options = *options;
    c->wake_fd = event_fd_new();
    c->cancel_fd = event_fd_new();
    c->done_fd = event_fd_new();
    capture_members_init(&c->members);
    c->names.wanted = options->names;
    c->names.wait_for_scan = options->wait_for_scan;
    c->names.limit = options->limit;
    c->names.budget = btrail_budget_new_fixed(
        options->keep ?: BTRAIL_BUDGET_GUEST, SPARE_PART);
    c->names.wake_fd = c->wake_fd;
    capture_names_init(&c->names, &c->members);
    for (unsigned i = 0; i < options->n_sessions; i++) {
        session_added(options->sessions[i]);
        request(c, options->sessions[i], false);
    }
    c->thread = g_thread_new("drain", capture_thread, c);
    return c;
}

int capture_done_fd(const struct capture *c)
{
    return c->done_fd;
}

void capture_progress(struct capture *c,
                      struct capture_progress *p)
{
    p->records = __atomic_load_n(&c->drain.records, __ATOMIC_RELAXED);
    p->lost = __atomic_load_n(&c->progress.lost, __ATOMIC_RELAXED);
    p->paused_ns = __atomic_load_n(&c->progress.paused_ns, __ATOMIC_RELAXED);
    p->limited_ns = __atomic_load_n(&c->progress.limited_ns,
                                    __ATOMIC_RELAXED);
}

JsonObject *capture_names(struct capture *c)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&c->members.lock);
    JsonObject *names;
    char **missing;

    missing = capture_names_missing(&c->names, c->names.missing);
    names = session_describe_names(c->names.release, missing);
    g_strfreev(missing);
    return names;
}

void capture_add(struct capture *c, struct session *s)
{
    session_added(s);
    if (!request(c, s, false)) {
        end_late(c, s);
    }
}

void capture_remove(struct capture *c, struct session *s)
{
    request(c, s, true);
}

void capture_ask_guest(struct capture *c, int sock)
{
    capture_names_ask(&c->names, sock);
}

/* Sets a flag and wakes the thread to see it. */
static void signal_thread(struct capture *c, int *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
    event_fd_set(c->cancel_fd);
    event_fd_set(c->wake_fd);
}

void capture_stop(struct capture *c)
{
    signal_thread(c, &c->stop);
}

void capture_detach(struct capture *c)
{
    signal_thread(c, &c->detach);
}

void capture_finish(struct capture *c,
                    struct capture_result *result)
{
    g_thread_join(c->thread);
    *result = (struct capture_result) {
        .reason = c->reason,
        .error = c->error,
    };
    capture_progress(c, &result->progress);
    capture_names_clear(&c->names);
    capture_members_clear(&c->members);
    close(c->wake_fd);
    close(c->cancel_fd);
    close(c->done_fd);
    g_free(c);
}
