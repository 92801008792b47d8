/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture: see capture.h
 */

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "drain/capture-private.h"
#include "util/clock.h"
#include "util/event-fd.h"

/* Slabs of a vCPU before the others have their turn. */
#define SLABS_PER_TURN      16

/*
 * Twice in this time, slabs in progress are asked for and what has come is
 * written, so that a file that is cut off lacks less than a second.
 */
#define FLUSH_INTERVAL_NS   500000000ull

/* Between ticks that somebody waits for: QEMU has to answer meanwhile. */
#define HURRY_NS            50000000ull

/*
 * A vCPU at full speed fills slabs faster than it is worth to be woken for.
 * So nap before going to sleep, for a fraction of what fills a buffer.
 */
#define NAP_NS              50000
#define NAPS                20

/*
 * Who has used more CPU time than it may waits in steps of such a length, and
 * drains a little after each: less than an agent that QEMU would give up.
 */
#define LIMIT_STEP_NS       50000000ull
#define LIMIT_LEAST_NS      1000000ull

/* How long the producer may take to say whether it shares memory. */
#define NAMES_TIMEOUT_NS    5000000000ull

/* How long the producer may take to say END after STOP. */
#define STOP_TIMEOUT_NS     10000000000ull

/* How long QEMU may take to say HELLO. */
#define HELLO_TIMEOUT_MS    30000

/* The first error is the one to tell. */
static void keep_error(struct btrail_capture *c, GError *error)
{
    if (c->error) {
        g_error_free(error);
    } else {
        c->error = error;
    }
}

static void G_GNUC_PRINTF(3, 4) fail(struct btrail_capture *c, int code,
                                     const char *format, ...)
{
    va_list args;

    va_start(args, format);
    keep_error(c, g_error_new_valist(BTRAIL_AGENT_ERROR, code, format, args));
    va_end(args);
}

static bool overwrites(const struct btrail_capture *c)
{
    return c->connection->header.policy == BTRAIL_OVERFLOW_OVERWRITE;
}

/* Why are records missing that no GAP event speaks of? */
static uint16_t gap_reason(const struct btrail_capture *c,
                           const struct vcpu *v)
{
    if (overwrites(c)) {
        return BTRAIL_GAP_OVERWRITTEN;
    }
    if (!v->begun) {
        /* Somebody else has drained them, or nobody. */
        return BTRAIL_GAP_AGENT_LOST;
    }
    return BTRAIL_GAP_CORRUPT;
}

/* What is new is to be looked at before the guest goes on. */
static void let_look(struct btrail_capture *c)
{
    btrail_scanner_ask(c->scanner);
    if (c->connection->header.policy == BTRAIL_OVERFLOW_PAUSE) {
        btrail_scanner_wait(c->scanner);
    }
}

/* Tell the scanner who has run. */
static void tell_scanner(struct btrail_capture *c,
                        const struct btrail_slab *slab)
{
    bool new = btrail_scanner_saw(c->scanner, slab->cr3);
    size_t i;

    for (i = 0; i < slab->n_events; i++) {
        if (slab->events[i].type == BTRAIL_EVENT_CR3) {
            new |= btrail_scanner_saw(c->scanner, slab->events[i].data[0]);
        }
    }
    if (new) {
        let_look(c);
    }
}

/* The same for code that runs for the first time, which is told earlier */
static void got_code(void *opaque, unsigned vcpu, uint64_t number,
                     const struct btrail_code_item *item, const uint8_t *page)
{
    struct btrail_capture *c = opaque;
    unsigned i;

    if (c->scanner && item->type == BTRAIL_CODE_PAGE &&
        !(item->linear >> 63)) {
        c->new_code |= btrail_scanner_saw_code(c->scanner, item->cr3,
                                              item->linear);
    }
    if (c->in_step) {
        btrail_entries_code(c->entries, item, page);
    }
    for (i = 0; i < c->sessions->len; i++) {
        if (!btrail_session_over(session_at(c, i))) {
            btrail_session_code(session_at(c, i), vcpu, number, item, page);
        }
    }
}

/* One look for all code that has come. */
static void look_at_code(struct btrail_capture *c)
{
    if (c->new_code) {
        c->new_code = false;
        let_look(c);
    }
}

/* Index after a slab that has been handed out, and so is a sound one */
static uint64_t slab_end(const struct btrail_slab *slab)
{
    uint64_t end = slab->first_index + slab->n_records;
    size_t i;

    for (i = 0; i < slab->n_events; i++) {
        const struct btrail_event *e = &slab->events[i];

        if (e->index > slab->first_index && btrail_event_is_known_gap(e)) {
            end += e->data[0];
        }
    }
    return end;
}

static bool drain_slab(struct btrail_capture *c, unsigned i)
{
    struct vcpu *v = &c->vcpus[i];
    uint16_t reason = gap_reason(c, v);
    struct btrail_slab slab;
    bool several = c->sessions->len > 1;
    GError *error = NULL;
    unsigned k;
    int ret;

    if (!btrail_connection_slab(c->connection, i, v->tail, &slab, c->events,
                                &error)) {
        keep_error(c, error);
        return false;
    }
    if (c->scanner) {
        tell_scanner(c, &slab);
    }
    if (c->in_step) {
        if (!btrail_agent_code_drain_vcpu(c->code, i, &error)) {
            keep_error(c, error);
            return false;
        }
        look_at_code(c);
    }
    for (k = 0; k < c->sessions->len; k++) {
        struct btrail_session *s = session_at(c, k);
        uint64_t begin = several ? btrail_clock_cpu_ns() : 0;

        ret = btrail_session_over(s) ? 0 :
              btrail_session_slab(s, i, &slab, v->index, reason);
        if (ret) {
            fail(c, BTRAIL_AGENT_ERROR_PROTOCOL,
                 "the producer broke the protocol: in slab %" G_GUINT64_FORMAT
                 " of vCPU %u, %s", v->tail, i, btrail_strerror(ret));
            return false;
        }
        if (several) {
            btrail_session_spent(s, btrail_clock_cpu_ns() - begin);
        }
    }
    v->begun |= slab.first_index || slab.n_records;
    v->ended = slab.n_events &&
               slab.events[slab.n_events - 1].type == BTRAIL_EVENT_END;
    v->index = slab_end(&slab);
    c->drained = true;
    __atomic_fetch_add(&c->progress.records, slab.n_records,
                       __ATOMIC_RELAXED);
    return true;
}

static bool bad_counters(struct btrail_capture *c, unsigned i, uint64_t head,
                         uint64_t tail)
{
    fail(c, BTRAIL_AGENT_ERROR_PROTOCOL,
         "the producer broke the protocol: vCPU %u has published %"
         G_GUINT64_FORMAT " slabs, and %" G_GUINT64_FORMAT " of them were "
         "drained", i, head, tail);
    return false;
}

/* Drain slabs of a vCPU, at most @max; @n gets how many. */
static bool drain_vcpu(struct btrail_capture *c, unsigned i, unsigned max,
                       unsigned *n)
{
    struct vcpu *v = &c->vcpus[i];
    uint32_t slabs = c->connection->header.slabs;
    uint64_t head = btrail_connection_head(c->connection, i);

    *n = 0;
    if (!v->known) {
        v->tail = btrail_connection_tail(c->connection, i);
        v->known = true;
    }
    if (overwrites(c) && head >= v->tail) {
        /*
         * The oldest slab is whole if the producer has stopped in order;
         * otherwise it may have begun to fill it anew.
         */
        uint64_t keep = c->ended ? slabs : slabs - 1;

        if (head - v->tail > keep) {
            v->tail = head - keep;
        }
    }
    if (head < v->tail || head - v->tail > slabs) {
        return bad_counters(c, i, head, v->tail);
    }
    while (v->tail != head && *n < max) {
        if (!drain_slab(c, i)) {
            return false;
        }
        v->tail++;
        (*n)++;
        btrail_connection_release(c->connection, i, v->tail);
    }
    return true;
}

/* Drain some slabs of all vCPUs; @n grows by how many. */
static bool drain_some(struct btrail_capture *c, unsigned *n)
{
    unsigned i, k;

    for (i = 0; i < c->connection->header.vcpus; i++) {
        if (!drain_vcpu(c, i, SLABS_PER_TURN, &k)) {
            return false;
        }
        *n += k;
    }
    return true;
}

/* Drain what there is at the moment. */
static bool drain_published(struct btrail_capture *c)
{
    unsigned i, n;

    for (i = 0; i < c->connection->header.vcpus; i++) {
        if (!drain_vcpu(c, i, UINT_MAX, &n)) {
            return false;
        }
    }
    return true;
}

/* Drain some of the code, or all of it; @n grows by how much. */
static bool drain_code(struct btrail_capture *c, bool all, unsigned *n)
{
    GError *error = NULL;
    unsigned k;

    if (!btrail_agent_code_drain(c->code, all, &k, &error)) {
        keep_error(c, error);
        return false;
    }
    *n += k;
    look_at_code(c);
    return true;
}

static void find_step(struct btrail_capture *c)
{
    unsigned i;

    c->in_step = false;
    for (i = 0; i < c->sessions->len; i++) {
        c->in_step |= btrail_session_in_step(session_at(c, i));
    }
}

/* A session leaves; nothing is handed to it any more. */
static void end_session(struct btrail_capture *c, struct btrail_session *s,
                        uint16_t reason,
                        const struct btrail_scanner_result *names)
{
    const struct btrail_session_ending ending = {
        .reason = reason,
        .error = c->error,
        .release = names->release,
        .no_names = names->snapshots ? NULL : names->why,
    };

    g_mutex_lock(&c->lock);
    g_ptr_array_remove(c->sessions, s);
    g_ptr_array_remove(c->late, s);
    g_ptr_array_remove(c->telling, s);
    g_mutex_unlock(&c->lock);
    find_step(c);
    btrail_session_end(s, &ending);
}

static bool is_traced(struct btrail_capture *c, unsigned vcpu)
{
    return c->vcpus[vcpu].begun ||
           btrail_connection_state(c->connection, vcpu) != BTRAIL_VCPU_ABSENT;
}

/* It was removed, or cannot go on, while the capture does. */
static void leave(struct btrail_capture *c, struct btrail_session *s)
{
    struct btrail_scanner_result names = { NULL };
    unsigned i;

    for (i = 0; i < c->connection->header.vcpus; i++) {
        if (!btrail_session_error(s) && is_traced(c, i) &&
            !btrail_session_stream_ended(s, i)) {
            btrail_session_end_stream(s, i, c->vcpus[i].index, 0,
                                      BTRAIL_END_STOPPED);
        }
    }
    if (c->scanner) {
        btrail_scanner_so_far(c->scanner, &names);
    } else {
        names.why = g_strdup(c->names.why);
    }
    end_session(c, s, BTRAIL_END_STOPPED, &names);
    btrail_scanner_result_clear(&names);
}

/* Names and code, for a session that has not seen them */
static void tell_again(struct btrail_capture *c, struct btrail_session *s)
{
    if (c->scanner) {
        g_mutex_lock(&c->lock);
        g_ptr_array_add(c->late, s);
        g_mutex_unlock(&c->lock);
        btrail_scanner_resend(c->scanner);
    }
    c->resend_due = true;
}

static void join(struct btrail_capture *c, struct btrail_session *s)
{
    unsigned n = c->connection->header.vcpus;
    g_autofree uint64_t *indices = g_new(uint64_t, n);
    const struct btrail_session_source source = {
        .header = &c->connection->header,
        .attached = c->options.attached,
        .beginning = !c->drained,
        .indices = indices,
        .entry = btrail_entries_find,
        .opaque = c->entries,
        .wake_fd = c->wake_fd,
    };
    unsigned i;

    for (i = 0; i < n; i++) {
        indices[i] = c->vcpus[i].index;
    }
    btrail_session_begin(s, &source);
    g_mutex_lock(&c->lock);
    g_ptr_array_add(c->sessions, s);
    g_mutex_unlock(&c->lock);
    find_step(c);
    if (!c->options.names || c->names_known) {
        btrail_session_names(s, capture_no_names(c));
    }
    if (c->ready) {
        tell_again(c, s);
    }
}

static struct wish *next_wish(struct btrail_capture *c)
{
    struct wish *wish;

    g_mutex_lock(&c->lock);
    wish = g_queue_pop_head(&c->wishes);
    g_mutex_unlock(&c->lock);
    return wish;
}

/* False if the producer has broken the protocol. */
static bool handle_wishes(struct btrail_capture *c)
{
    struct wish *wish;
    bool ok = true;

    if (!__atomic_exchange_n(&c->wished, 0, __ATOMIC_ACQUIRE)) {
        return true;
    }
    while (ok && (wish = next_wish(c))) {
        if (!wish->remove) {
            join(c, wish->session);
        } else if (g_ptr_array_find(c->sessions, wish->session, NULL)) {
            ok = overwrites(c) || drain_published(c);
            if (ok) {
                leave(c, wish->session);
            }
        }
        g_free(wish);
    }
    return ok;
}

/* Sessions that cannot go on leave. */
static void see_to_sessions(struct btrail_capture *c)
{
    unsigned i = 0;

    while (i < c->sessions->len) {
        if (btrail_session_over(session_at(c, i))) {
            leave(c, session_at(c, i));
        } else {
            i++;
        }
    }
}

static void update_progress(struct btrail_capture *c)
{
    uint64_t lost = 0, paused_ns = 0;
    unsigned i;

    for (i = 0; i < c->connection->header.vcpus; i++) {
        lost += btrail_connection_lost(c->connection, i);
        paused_ns += btrail_connection_paused_ns(c->connection, i);
    }
    __atomic_store_n(&c->progress.lost, lost, __ATOMIC_RELAXED);
    __atomic_store_n(&c->progress.paused_ns, paused_ns, __ATOMIC_RELAXED);
}

/* Of a single session everything is its; of several it is measured. */
static void share_cpu(struct btrail_capture *c)
{
    uint64_t now = btrail_clock_cpu_ns();

    if (c->sessions->len == 1) {
        btrail_session_spent(session_at(c, 0), now - c->cpu_told);
    }
    c->cpu_told = now;
}

static void tick(struct btrail_capture *c, uint64_t now)
{
    unsigned i;

    c->last_tick = now;
    c->next_tick = now + FLUSH_INTERVAL_NS / 2;
    update_progress(c);
    for (i = 0; i < c->sessions->len; i++) {
        struct btrail_session *s = session_at(c, i);

        btrail_session_tick(s, c->flush_due);
        if (btrail_session_begins_anew(s)) {
            tell_again(c, s);
        }
    }
    share_cpu(c);
    if (c->options.names && !c->names_known && now >= c->names_deadline) {
        capture_names_known(c);
    }
    see_to_sessions(c);
    c->flush_due = !c->flush_due;
    if (c->resend_due && c->connection->header.code_items) {
        g_autoptr(GError) error = NULL;

        c->resend_due = !btrail_connection_send(c->connection,
                                                BTRAIL_MSG_RESEND_CODE, &error) &&
                        !error;
    }
    if (!overwrites(c) && !c->stop_sent) {
        /* That it is gone shows when its messages are read. */
        btrail_connection_send(c->connection, BTRAIL_MSG_FLUSH, NULL);
    }
}

/* Have the next tick soon if a session waits for it. */
static void hurry(struct btrail_capture *c)
{
    unsigned i;

    for (i = 0; i < c->sessions->len; i++) {
        if (btrail_session_hurries(session_at(c, i))) {
            c->next_tick = MIN(c->next_tick, c->last_tick + HURRY_NS);
        }
    }
}

/* False if the producer does not do as it is told. */
static bool handle_stop(struct btrail_capture *c, uint64_t now)
{
    if (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
        return true;
    }
    if (!c->stop_deadline) {
        c->stop_deadline = now + STOP_TIMEOUT_NS;
    }
    if (!c->stop_sent) {
        g_autoptr(GError) error = NULL;

        /* That it is gone shows when its messages are read. */
        c->stop_sent = btrail_connection_send(c->connection, BTRAIL_MSG_STOP,
                                              &error) || error;
    }
    if (now < c->stop_deadline) {
        return true;
    }
    fail(c, BTRAIL_AGENT_ERROR_TIMEOUT,
         "QEMU was asked to end the session and did not do so");
    return false;
}

/* False when there is nothing to wait for any more. */
static bool handle_input(struct btrail_capture *c)
{
    GError *error = NULL;

    switch (btrail_connection_receive(c->connection, &c->reason, &error)) {
    case BTRAIL_CONNECTION_NOTHING:
        return true;
    case BTRAIL_CONNECTION_END:
        c->ended = true;
        return false;
    case BTRAIL_CONNECTION_MEMORY:
        capture_take_memory(c);
        return true;
    case BTRAIL_CONNECTION_CLOSED:
        fail(c, BTRAIL_AGENT_ERROR_CLOSED,
             "QEMU has gone away without ending the session");
        return false;
    default:
        keep_error(c, error);
        return false;
    }
}

static bool heads_moved(struct btrail_capture *c)
{
    unsigned i;

    for (i = 0; i < c->connection->header.vcpus; i++) {
        if (btrail_connection_head(c->connection, i) != c->vcpus[i].tail) {
            return true;
        }
    }
    return false;
}

static bool something_moved(struct btrail_capture *c)
{
    return btrail_agent_code_urgent(c->code) ||
           (!overwrites(c) && heads_moved(c));
}

static void sleep_until_tick(struct btrail_capture *c, uint64_t now)
{
    struct pollfd fds[] = {
        { .fd = c->connection->ready_fd, .events = POLLIN },
        { .fd = c->connection->sock, .events = POLLIN },
        { .fd = c->wake_fd, .events = POLLIN },
    };
    struct timespec left = { 0 };

    if (c->next_tick > now) {
        left.tv_nsec = c->next_tick - now;
    }
    btrail_connection_sleep(c->connection);
    if (!something_moved(c)) {
        ppoll(fds, G_N_ELEMENTS(fds), &left, NULL);
        if (fds[2].revents & POLLIN) {
            btrail_event_fd_clear(c->wake_fd);
        }
    }
    btrail_connection_wake(c->connection);
}

/*
 * Charge what has been used since the last time, by this thread and those of
 * the sessions; the scanner does so by itself.
 */
static void charge(struct btrail_capture *c, uint64_t now)
{
    uint64_t cpu = btrail_clock_cpu_ns();
    uint64_t spent = cpu - c->cpu_charged;
    unsigned i;

    for (i = 0; i < c->sessions->len; i++) {
        spent += btrail_session_written_ns(session_at(c, i));
    }
    /* What was before the limit is not held against anyone. */
    if (c->cpu_charged) {
        btrail_cpu_limit_spend(c->options.limit, spent, now);
    }
    c->cpu_charged = cpu;
}

/* How long nothing may be drained, to keep to the limit: 0 if it may now */
static uint64_t limited(struct btrail_capture *c, uint64_t now)
{
    if (!c->options.limit || !btrail_cpu_limit_holds(c->options.limit) ||
        __atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
        c->cpu_charged = 0;
        return 0;
    }
    charge(c, now);
    return btrail_cpu_limit_wait(c->options.limit, now);
}

/* Whatever there is, in turn; @n grows by how much. */
static bool drain_turn(struct btrail_capture *c, uint64_t now, unsigned *n)
{
    /*
     * It comes in drops, for which it is not worth to stay awake; but what
     * is new to the scanner is to be looked at before slabs are given back,
     * with which the guest would go on.
     */
    if ((c->scanner || now >= c->next_tick ||
         btrail_agent_code_urgent(c->code)) &&
        !drain_code(c, false, n)) {
        return false;
    }
    return overwrites(c) || drain_some(c, n);
}

/* One slab, or code: QEMU would give up an agent that drains nothing. */
static bool drain_little(struct btrail_capture *c, unsigned *n)
{
    unsigned vcpus = c->connection->header.vcpus;
    unsigned i;

    for (i = 0; i < vcpus && !*n; i++) {
        c->next_vcpu = (c->next_vcpu + 1) % vcpus;
        if (!drain_vcpu(c, c->next_vcpu, 1, n)) {
            return false;
        }
    }
    return *n || drain_code(c, false, n);
}

/* Wait for a while, unless there is something to be done at once. */
static void hold_back(struct btrail_capture *c, uint64_t wait, uint64_t now)
{
    struct pollfd fds[] = {
        { .fd = c->connection->sock, .events = POLLIN },
        { .fd = c->wake_fd, .events = POLLIN },
    };
    struct timespec left = {
        .tv_nsec = CLAMP(wait, LIMIT_LEAST_NS, LIMIT_STEP_NS),
    };

    ppoll(fds, G_N_ELEMENTS(fds), &left, NULL);
    if (fds[1].revents & POLLIN) {
        btrail_event_fd_clear(c->wake_fd);
    }
    if (heads_moved(c)) {
        __atomic_fetch_add(&c->progress.limited_ns, btrail_clock_ns() - now,
                           __ATOMIC_RELAXED);
    }
}

static void drain_until_end(struct btrail_capture *c)
{
    static const struct timespec nap = { .tv_nsec = NAP_NS };
    unsigned idle = 0;

    for (;;) {
        uint64_t now = btrail_clock_ns();
        uint64_t wait = overwrites(c) ? 0 : limited(c, now);
        unsigned n = 0;

        if (!wait && !drain_turn(c, now, &n)) {
            return;
        }
        if (wait && now >= c->drained_at + LIMIT_STEP_NS &&
            !drain_little(c, &n)) {
            return;
        }
        hurry(c);
        /* While there is a lot to do, messages wait for the next tick. */
        if ((!n || now >= c->next_tick) && !handle_input(c)) {
            return;
        }
        if (now >= c->next_tick) {
            tick(c, now);
        }
        if (!handle_stop(c, now) || !handle_wishes(c)) {
            return;
        }
        if (__atomic_load_n(&c->leave, __ATOMIC_RELAXED)) {
            c->left = true;
            c->reason = 0;
            return;
        }
        if (n) {
            idle = 0;
            c->drained_at = now;
        }
        if (wait) {
            hold_back(c, wait, now);
        } else if (!n && !overwrites(c) && idle++ < NAPS) {
            clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        } else if (!n) {
            sleep_until_tick(c, now);
        }
    }
}

/*
 * The producer is at its end, one way or the other: get what it has left, and
 * not what it may go on to publish.
 */
static void drain_rest(struct btrail_capture *c)
{
    unsigned n = 0;

    if (!drain_code(c, true, &n)) {
        return;
    }
    drain_published(c);
}

/* Every stream ends with an END event, whoever makes it. */
static void end_stream(struct btrail_capture *c, unsigned vcpu)
{
    uint64_t index = btrail_connection_index(c->connection, vcpu);
    unsigned i;

    for (i = 0; i < c->sessions->len; i++) {
        struct btrail_session *s = session_at(c, i);

        if (btrail_session_over(s) || btrail_session_stream_ended(s, vcpu)) {
            continue;
        }
        btrail_session_end_stream(s, vcpu, index, BTRAIL_GAP_PRODUCER_LOST,
                                  BTRAIL_END_PRODUCER_LOST);
    }
}

static void end_streams(struct btrail_capture *c)
{
    unsigned i;

    for (i = 0; i < c->connection->header.vcpus; i++) {
        if (c->vcpus[i].ended || !is_traced(c, i)) {
            continue;
        }
        fail(c, BTRAIL_AGENT_ERROR_PROTOCOL,
             "the producer broke the protocol: the stream of vCPU %u has no "
             "end", i);
        end_stream(c, i);
    }
}

/* Not for sessions none of which can be written. */
static bool can_begin(struct btrail_capture *c)
{
    unsigned i;

    for (i = 0; i < c->sessions->len; i++) {
        if (!btrail_session_over(session_at(c, i))) {
            return true;
        }
    }
    if (i) {
        keep_error(c, g_error_copy(btrail_session_error(session_at(c, 0))));
    }
    return !i;
}

static bool begin(struct btrail_capture *c)
{
    const struct btrail_shm_header *h;

    c->connection = btrail_connection_accept(c->options.sock, HELLO_TIMEOUT_MS,
                                             c->cancel_fd, &c->error);
    if (!c->connection) {
        close(c->options.sock);
        return false;
    }
    h = &c->connection->header;
    c->vcpus = g_new0(struct vcpu, h->vcpus);
    c->events = g_new(struct btrail_event, h->events_per_slab);
    c->code = btrail_agent_code_new(c->connection, got_code, c);
    c->next_tick = btrail_clock_ns() + FLUSH_INTERVAL_NS / 2;
    if (c->options.names) {
        c->names.why = g_strdup("this QEMU does not share the guest's RAM");
    }
    /* Their files have to be there before a guest is traced. */
    if (!handle_wishes(c) || !can_begin(c)) {
        return false;
    }
    if (!btrail_connection_ready(c->connection, c->options.names, &c->error)) {
        if (!c->error) {
            fail(c, BTRAIL_AGENT_ERROR_PROTOCOL,
                 "the producer does not listen");
        }
        return false;
    }
    c->ready = true;
    c->names_deadline = btrail_clock_ns() + NAMES_TIMEOUT_NS;
    return true;
}

/* It has come too late to get anything. */
static void end_late(struct btrail_capture *c, struct btrail_session *s)
{
    g_autoptr(GError) over = g_error_new(BTRAIL_AGENT_ERROR,
                                         BTRAIL_AGENT_ERROR_CLOSED,
                                         "the guest is not traced any more");
    const struct btrail_session_ending ending = {
        .reason = c->reason, .error = c->error ?: over,
    };

    btrail_session_end(s, &ending);
}

/* No more wishes from here on: those who have one find it fulfilled. */
static void close_wishes(struct btrail_capture *c)
{
    struct wish *wish;

    g_mutex_lock(&c->lock);
    c->closed = true;
    g_mutex_unlock(&c->lock);
    while ((wish = next_wish(c))) {
        if (!wish->remove) {
            end_late(c, wish->session);
        }
        g_free(wish);
    }
}

static void end(struct btrail_capture *c)
{
    if (c->connection && !c->ended && c->error &&
        c->error->code == BTRAIL_AGENT_ERROR_PROTOCOL) {
        /* Do not leave the guest traced for nobody. */
        btrail_connection_send(c->connection, BTRAIL_MSG_STOP, NULL);
    }
    if (c->scanner) {
        btrail_scanner_finish(c->scanner, &c->names);
    }
    if (c->vcpus) {
        update_progress(c);
        btrail_agent_code_end(c->code);
    }
    while (c->sessions->len) {
        end_session(c, session_at(c, 0), c->reason, &c->names);
    }
    close_wishes(c);
    btrail_agent_code_free(c->code);
    btrail_connection_free(c->connection);
    g_free(c->vcpus);
    g_free(c->events);
}

static gpointer capture_thread(gpointer opaque)
{
    struct btrail_capture *c = opaque;

    /* The kernel lets timers be late by so much; naps are short. */
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);

    c->reason = BTRAIL_END_PRODUCER_LOST;
    if (begin(c)) {
        drain_until_end(c);
        if (c->ended || !c->error ||
            c->error->code != BTRAIL_AGENT_ERROR_PROTOCOL) {
            drain_rest(c);
        }
        if (!c->left) {
            end_streams(c);
        }
    }
    end(c);
    btrail_event_fd_set(c->done_fd);
    return NULL;
}

static bool wish_for(struct btrail_capture *c, struct btrail_session *s,
                     bool remove)
{
    struct wish *wish = g_new(struct wish, 1);
    bool closed;

    *wish = (struct wish) { s, remove };
    g_mutex_lock(&c->lock);
    closed = c->closed;
    if (!closed) {
        g_queue_push_tail(&c->wishes, wish);
        __atomic_store_n(&c->wished, 1, __ATOMIC_RELEASE);
    }
    g_mutex_unlock(&c->lock);
    if (closed) {
        g_free(wish);
    } else {
        btrail_event_fd_set(c->wake_fd);
    }
    return !closed;
}

struct btrail_capture *
btrail_capture_start(const struct btrail_capture_options *options)
{
    struct btrail_capture *c = g_new0(struct btrail_capture, 1);
    unsigned i;

    c->options = *options;
    c->wake_fd = btrail_event_fd_new();
    c->cancel_fd = btrail_event_fd_new();
    c->done_fd = btrail_event_fd_new();
    g_mutex_init(&c->lock);
    g_queue_init(&c->wishes);
    c->sessions = g_ptr_array_new();
    c->late = g_ptr_array_new();
    c->telling = g_ptr_array_new();
    c->entries = btrail_entries_new();
    if (getrandom(c->key, sizeof(c->key), 0) != sizeof(c->key)) {
        g_error("cannot get random numbers: %s", g_strerror(errno));
    }
    for (i = 0; i < options->n_sessions; i++) {
        btrail_session_added(options->sessions[i]);
        wish_for(c, options->sessions[i], false);
    }
    c->thread = g_thread_new("drain", capture_thread, c);
    return c;
}

int btrail_capture_done_fd(const struct btrail_capture *c)
{
    return c->done_fd;
}

void btrail_capture_progress(struct btrail_capture *c,
                             struct btrail_capture_progress *p)
{
    p->records = __atomic_load_n(&c->progress.records, __ATOMIC_RELAXED);
    p->lost = __atomic_load_n(&c->progress.lost, __ATOMIC_RELAXED);
    p->paused_ns = __atomic_load_n(&c->progress.paused_ns, __ATOMIC_RELAXED);
    p->limited_ns = __atomic_load_n(&c->progress.limited_ns,
                                    __ATOMIC_RELAXED);
}

void btrail_capture_add(struct btrail_capture *c, struct btrail_session *s)
{
    btrail_session_added(s);
    if (!wish_for(c, s, false)) {
        end_late(c, s);
    }
}

void btrail_capture_remove(struct btrail_capture *c, struct btrail_session *s)
{
    wish_for(c, s, true);
}

void btrail_capture_stop(struct btrail_capture *c)
{
    __atomic_store_n(&c->stop, 1, __ATOMIC_RELAXED);
    btrail_event_fd_set(c->cancel_fd);
    btrail_event_fd_set(c->wake_fd);
}

void btrail_capture_detach(struct btrail_capture *c)
{
    __atomic_store_n(&c->leave, 1, __ATOMIC_RELAXED);
    btrail_event_fd_set(c->cancel_fd);
    btrail_event_fd_set(c->wake_fd);
}

void btrail_capture_finish(struct btrail_capture *c,
                           struct btrail_capture_result *result)
{
    g_thread_join(c->thread);
    *result = (struct btrail_capture_result) {
        .reason = c->reason,
        .progress = c->progress,
        .error = c->error,
    };
    btrail_scanner_result_clear(&c->names);
    g_ptr_array_unref(c->sessions);
    g_ptr_array_unref(c->late);
    g_ptr_array_unref(c->telling);
    btrail_entries_free(c->entries);
    g_mutex_clear(&c->lock);
    close(c->wake_fd);
    close(c->cancel_fd);
    close(c->done_fd);
    g_free(c);
}
