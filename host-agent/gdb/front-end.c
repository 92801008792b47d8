/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What gdbs connect to: see front-end.h
 */

#include <glib-unix.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gdb/client.h"
#include "gdb/front-end.h"
#include "gdb/monitor.h"
#include "gdb/reverse.h"
#include "gdb/rsp.h"
#include "util/apart.h"
#include "util/quote.h"

/* Others must have been quiet for so long before a run goes on. */
#define QUIET_MS        200
/* What has come no further is not interrupted for so long next time, and for
 * twice as long each time after that: others would keep it from its end. */
#define HOLD_MS         100
#define MAX_HOLD_MS     10000
#define MAX_BREAKPOINTS 4096

#define END_OF_REPLAY   "T05replaylog:end;thread:%s;"
#define BEGIN_OF_REPLAY "T05replaylog:begin;thread:%s;"
#define STOPPED         "T05thread:%s;"
#define WATCHED         "T05%s;thread:%s;"
#define INTERRUPTED     "T02thread:%s;"
/* The guest has shut down, which is where the recording ends. */
#define SHUT_DOWN       "T03"

/* Requests that change what QEMU does with later ones */
static const char *const set_by[] = {
    "Qqemu.PhyMemMode:",
};

/**
 * struct view - what one gdb sees
 * @client:      NULL if it has left while the guest ran for it
 * @place:       where its guest stands
 * @vcpu:        that its requests are about
 * @back:        that goes back alone, or -1: @vcpu
 * @breakpoints: of its own, as in target_set_breakpoints()
 * @settings:    what it has set, as set_by[] has them
 * @waiting:     its request that is not served yet, because the guest runs for
 *               another one
 * @run:         what lets the guest run for it, until it stops
 * @steps:       the vCPU that executes one instruction then, or -1
 * @begins:      where QEMU's own way back began, or goes on
 * @reverse:     what the trace says of the way back, or NULL
 * @hold_ms:     it is not interrupted for others for so long
 * @suspended:   that run was interrupted for another one
 * @interrupted: its user has interrupted the run, or a way
 * @search:      in the trace, for its command of the monitor, or NULL
 * @searched:    that command
 * @later:       its request that is served when the others are quiet, or NULL
 */
struct view {
    struct front_end *fe;
    struct client *client;
    struct target_place place;
    unsigned vcpu;
    int back;
    GHashTable *breakpoints;
    char *settings[G_N_ELEMENTS(set_by)];
    GBytes *waiting;
    char *run;
    int steps;
    uint64_t begins;
    struct reverse *reverse;
    unsigned hold_ms;
    bool suspended;
    bool interrupted;
    struct apart *search;
    guint search_source;
    char *searched;
    GBytes *later;
};

struct front_end {
    struct target *target;
    struct trace_index *trace;  /* or NULL */
    struct process_symbols *symbols;    /* or NULL */
    void (*ended)(void *opaque, const GError *error);
    void *opaque;
    GPtrArray *views;
    struct view *current;       /* whose guest it is; NULL if no one's */
    struct view *running;       /* the guest runs for it */
    struct view *going;         /* the guest goes a way for it */
    bool yielded;               /* which has to go on later */
    GBytes *request;            /* that it goes for; NULL: a run goes on */
    gint64 began;               /* when it began to go, or to run */
    bool interrupting;          /* the stub was told to stop it */
    bool failed;
    uint64_t end;               /* where the recording ends, if known */
    guint stub_source;
    guint quiet_source;
    guint hold_source;
};

static void serve(struct view *v, GBytes *request);
static void wait_for_quiet(struct front_end *fe);
static void serve_waiting(struct front_end *fe);
static void on_packet(void *opaque, const char *request, size_t n);

/* QEMU is of no more use. */
static void fail(struct front_end *fe, GError *error)
{
    if (!fe->failed) {
        fe->failed = true;
        if (fe->running && fe->running->client) {
            client_answer_text(fe->running->client, "W00");
        }
        fe->ended(fe->opaque, error);
    }
    g_error_free(error);
}

static bool is_fatal(const GError *error)
{
    return g_error_matches(error, BTRAIL_AGENT_ERROR,
                           BTRAIL_AGENT_ERROR_CLOSED) ||
           g_error_matches(error, BTRAIL_AGENT_ERROR,
                           BTRAIL_AGENT_ERROR_SYSTEM);
}

/* What could not be done for a view; it can be the end of QEMU. */
static void drop_error(struct front_end *fe, GError *error)
{
    if (is_fatal(error)) {
        fail(fe, error);
    } else {
        g_error_free(error);
    }
}

static bool is_cancelled(const GError *error)
{
    return g_error_matches(error, BTRAIL_AGENT_ERROR,
                           BTRAIL_AGENT_ERROR_CANCELLED);
}

/* It was interrupted for others, and has come no further. */
static void hold(struct view *v)
{
    v->hold_ms = MIN(v->hold_ms ? 2 * v->hold_ms : HOLD_MS, MAX_HOLD_MS);
}

/* For how long @v is not to be interrupted yet */
static unsigned held_ms(const struct view *v)
{
    gint64 ran = (g_get_monotonic_time() - v->fe->began) / 1000;

    return ran < v->hold_ms ? v->hold_ms - ran : 0;
}

/*
 * Has the guest not come to the end of its way because another one has a
 * request?  What was to be done is done later, from the beginning: nothing of it
 * has an effect before its end.  Takes the error then.
 */
static bool put_off(struct view *v, GError *error)
{
    struct front_end *fe = v->fe;

    if (!fe->yielded || v != fe->going || !is_cancelled(error)) {
        return false;
    }
    /* It is on its way: it is taken back. */
    fe->current = NULL;
    hold(v);
    if (fe->request) {
        v->later = g_bytes_ref(fe->request);
        g_clear_pointer(&v->run, g_free);
    } else {
        v->suspended = true;
    }
    g_error_free(error);
    return true;
}

/* The request cannot be served: an error that gdb shows */
static void refuse(struct view *v, GError *error)
{
    g_autofree char *said = btrail_quote(error->message, "");
    g_autofree char *text = g_strdup_printf("E.%s", said);

    if (put_off(v, error)) {
        return;
    }
    /* They would end the packet, or be an escape. */
    g_strdelimit(text, "$#}*", '?');
    client_answer_text(v->client, text);
    drop_error(v->fe, error);
}

static void answer(struct view *v, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void answer(struct view *v, const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list args;

    if (v->client) {
        va_start(args, format);
        text = g_strdup_vprintf(format, args);
        va_end(args);
        client_answer_text(v->client, text);
    }
}

/* A run of this view is over. */
static void end_run(struct view *v, const char *answer)
{
    g_clear_pointer(&v->run, g_free);
    g_clear_pointer(&v->reverse, reverse_free);
    v->suspended = v->interrupted = false;
    v->hold_ms = 0;
    if (v->client) {
        client_answer_text(v->client, answer);
    }
}

static const char *thread_of(const struct view *v)
{
    return target_thread(v->fe->target, v->vcpu);
}

/* @v->vcpu is why it has stopped. */
static void stopped(struct view *v, const char *format)
{
    g_autofree char *text = g_strdup_printf(format, thread_of(v));

    end_run(v, text);
}

/* The next instruction is why it has stopped. */
static void stopped_here(struct view *v, const char *format)
{
    v->vcpu = v->place.vcpu;
    stopped(v, format);
}

/* The guest cannot run.  gdb waits for a stop, and for no error. */
static void refuse_run(struct view *v, GError *error)
{
    if (put_off(v, error)) {
        return;
    }
    if (is_cancelled(error)) {
        v->fe->current = NULL;
        stopped(v, INTERRUPTED);
        g_error_free(error);
        return;
    }
    if (v->client) {
        client_print_error(v->client, error->message);
    }
    stopped(v, STOPPED);
    drop_error(v->fe, error);
}

/* When the guest has shut down, it spins until QEMU stops it, which is not
 * always at the same instruction: the end is as good as the place that it came
 * to last time.  Takes the error. */
static bool is_end(struct view *v, GError *error, GError **propagated)
{
    uint64_t icount = target_place(v->fe->target)->icount;

    if (v->place.icount < v->fe->end || icount >= v->place.icount ||
        is_fatal(error) || is_cancelled(error)) {
        g_propagate_error(propagated, error);
        return false;
    }
    g_error_free(error);
    v->fe->end = icount;
    return true;
}

/* What QEMU does with requests is what this view has set. */
static bool set_settings(struct view *v, GError **error)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(set_by); i++) {
        g_autofree char *said = stub_ask(target_stub(v->fe->target),
                                         v->settings[i], NULL, NULL, error);

        if (!said) {
            return false;
        }
    }
    return true;
}

/* Takes the guest to where this view has left it. */
static bool claim(struct view *v, GError **error)
{
    struct front_end *fe = v->fe;
    GError *local = NULL;

    if (fe->current == v) {
        return true;
    }
    fe->current = NULL;
    if (!target_go(fe->target, &v->place, &local)) {
        if (!is_end(v, local, error)) {
            return false;
        }
        v->place = *target_place(fe->target);
    }
    if (!set_settings(v, error)) {
        return false;
    }
    fe->current = v;
    return true;
}

/* Takes it to where QEMU's own way back goes on. */
static bool claim_back(struct view *v, GError **error)
{
    if (v->begins >= v->place.icount) {
        return claim(v, error);
    }
    v->fe->current = NULL;
    return target_go_icount(v->fe->target, v->begins, error) &&
           set_settings(v, error);
}

/* The guest stands where this view has it. */
static void note_place(struct view *v)
{
    v->place = *target_place(v->fe->target);
}

static bool is_backward(const char *request)
{
    return request[0] == 'b';
}

static bool is_run(const char *request)
{
    return !strcmp(request, "bs") || !strcmp(request, "bc") ||
           (request[0] && strchr("cCsS", request[0])) ||
           g_str_has_prefix(request, "vCont;");
}

static bool go_back_to(struct view *v, uint64_t icount, GError **error)
{
    GError *local = NULL;

    return claim(v, error) &&
           (target_go_icount(v->fe->target, icount, &local) ||
            is_end(v, local, error));
}

/* Takes the guest one instruction back. */
static bool go_back(struct view *v, GError **error)
{
    return go_back_to(v, v->place.icount - 1, error);
}

/* Is there a breakpoint where a vCPU stands? */
static bool vcpu_at_breakpoint(struct view *v, unsigned vcpu)
{
    return target_at_breakpoint(v->fe->target, vcpu, v->breakpoints);
}

/* The same of the one whose turn it is */
static bool at_breakpoint(struct view *v)
{
    return vcpu_at_breakpoint(v, target_place(v->fe->target)->vcpu);
}

/* Ends a run back where the guest stands, if the next instruction meets a
 * watchpoint. */
static bool stop_at_watchpoint(struct view *v, bool *stopped, GError **error)
{
    struct target *t = v->fe->target;
    g_autofree char *hit = NULL, *text = NULL;

    if (!reverse_find_watchpoint(t, v->breakpoints, &hit, error)) {
        return false;
    }
    *stopped = hit;
    if (hit) {
        note_place(v);
        v->vcpu = v->place.vcpu;
        text = g_strdup_printf(WATCHED, hit, thread_of(v));
        end_run(v, text);
    }
    return true;
}

/* Lets the guest run for a view, whose @run is set. */
static bool start(struct view *v, GError **error)
{
    struct front_end *fe = v->fe;

    if (!(is_backward(v->run) ? claim_back(v, error) : claim(v, error)) ||
        !target_set_breakpoints(fe->target, v->breakpoints, error) ||
        !stub_run(target_stub(fe->target), v->run, error)) {
        return false;
    }
    fe->running = v;
    fe->began = g_get_monotonic_time();
    fe->interrupting = false;
    v->suspended = false;
    return true;
}

static void start_or_refuse(struct view *v)
{
    GError *error = NULL;

    if (!start(v, &error)) {
        refuse_run(v, error);
    }
}

/* From here to end_way(), the guest goes ways for a view; see put_off(). */
static void begin_way(struct view *v, GBytes *request)
{
    v->fe->going = v;
    v->fe->request = request;
    v->fe->began = g_get_monotonic_time();
    v->fe->yielded = false;
}

static void end_way(struct view *v)
{
    v->fe->going = NULL;
    v->fe->request = NULL;
    if (!v->run && !v->later) {
        v->interrupted = false;
        v->hold_ms = 0;
    }
}

static gboolean on_quiet(gpointer opaque)
{
    struct front_end *fe = opaque;
    bool more = false;

    fe->quiet_source = 0;
    for (unsigned i = 0; i < fe->views->len && !fe->running; i++) {
        struct view *v = g_ptr_array_index(fe->views, i);

        g_autoptr(GBytes) later = g_steal_pointer(&v->later);

        if (later) {
            serve(v, later);
        } else if (v->suspended) {
            begin_way(v, NULL);
            start_or_refuse(v);
            end_way(v);
        }
        more |= v->later || v->suspended;
    }
    if (more) {
        wait_for_quiet(fe);
    }
    return G_SOURCE_REMOVE;
}

/* Suspended runs go on when there is nothing else to do. */
static void wait_for_quiet(struct front_end *fe)
{
    if (fe->quiet_source) {
        g_source_remove(fe->quiet_source);
    }
    fe->quiet_source = g_timeout_add(QUIET_MS, on_quiet, fe);
}

static void interrupt(struct front_end *fe);

static gboolean on_held(gpointer opaque)
{
    struct front_end *fe = opaque;

    fe->hold_source = 0;
    if (fe->running) {
        interrupt(fe);
    }
    return G_SOURCE_REMOVE;
}

static void interrupt(struct front_end *fe)
{
    struct view *v = fe->running;
    unsigned wait_ms = is_backward(v->run) && v->client && !v->interrupted ?
                       held_ms(v) : 0;
    GError *error = NULL;

    if (wait_ms) {
        fe->hold_source = fe->hold_source ?: g_timeout_add(wait_ms, on_held,
                                                           fe);
    } else if (!fe->interrupting) {
        fe->interrupting = true;
        if (!stub_interrupt(target_stub(fe->target), &error)) {
            fail(fe, error);
        }
    }
}

static void end_search(struct view *v)
{
    g_clear_handle_id(&v->search_source, g_source_remove);
    g_clear_pointer(&v->search, apart_free);
    g_clear_pointer(&v->searched, g_free);
}

static void free_view(struct view *v)
{
    struct front_end *fe = v->fe;

    if (fe->current == v) {
        fe->current = NULL;
    }
    client_free(v->client);
    end_search(v);
    reverse_free(v->reverse);
    g_clear_pointer(&v->later, g_bytes_unref);
    g_hash_table_destroy(v->breakpoints);
    for (unsigned i = 0; i < G_N_ELEMENTS(set_by); i++) {
        g_free(v->settings[i]);
    }
    g_clear_pointer(&v->waiting, g_bytes_unref);
    g_free(v->run);
    g_free(v);
}

/*
 * Is the breakpoint that QEMU has met behind an exception or an interrupt?
 * That is no instruction, and QEMU can stand before it at the same count.
 */
static bool meets_breakpoint(struct view *v, GError **error)
{
    struct target *t = v->fe->target;

    return target_step(t, target_place(t)->vcpu, error) &&
           target_place(t)->icount == v->place.icount && at_breakpoint(v);
}

/* The vCPU that QEMU says is why the guest has stopped */
static bool stopped_by(const struct front_end *fe, const char *said,
                       unsigned *vcpu)
{
    const char *thread = strstr(said, "thread:");

    return thread && target_vcpu(fe->target, thread + strlen("thread:"), vcpu);
}

/* QEMU has come back to a place behind the instruction that meets a
 * watchpoint, or before the delivery of an interrupt or exception that does. */
static bool stop_behind_watchpoint(struct view *v, const char *said,
                                   GError **error)
{
    struct front_end *fe = v->fe;
    GError *local = NULL;
    bool watched;

    fe->current = v;
    if (meets_breakpoint(v, &local)) {
        note_place(v);
        stopped_here(v, STOPPED);
        return true;
    }
    if (is_cancelled(local)) {
        g_propagate_error(error, local);
        return false;
    }
    g_clear_error(&local);
    if (!go_back(v, error) || !stop_at_watchpoint(v, &watched, error) ||
        (!watched && (!go_back_to(v, v->place.icount, error) ||
                      !stop_at_watchpoint(v, &watched, error)))) {
        return false;
    }
    if (!watched) {
        fe->current = NULL;
        stopped_by(fe, said, &v->vcpu);
        end_run(v, said);
    }
    return true;
}

/*
 * QEMU stops a vCPU at a breakpoint where its turn ends, too, before the
 * instruction.  Others run before it comes there again.
 */
static bool is_early(struct view *v, const char *said)
{
    unsigned vcpu;

    return g_str_has_prefix(said, "T05") &&
           !strstr(said, "watch:") && stopped_by(v->fe, said, &vcpu) &&
           (int)vcpu != v->steps &&
           vcpu != target_place(v->fe->target)->vcpu &&
           vcpu_at_breakpoint(v, vcpu);
}

/* The same on QEMU's own way back: goes on to where that vCPU's turn is. */
static bool leave_early(struct view *v, GError **error)
{
    struct target *t = v->fe->target;

    for (unsigned i = 0; i < target_vcpus(t); i++) {
        uint64_t next = vcpu_at_breakpoint(v, i) ?
            turns_next(target_turns(t), i, target_place(t)->icount) :
            UINT64_MAX;

        if (i != target_place(t)->vcpu && next != UINT64_MAX) {
            return target_go_vcpu(t, next, i, target_place(t)->pcs[i], error);
        }
    }
    return true;
}

/* QEMU's own way back was interrupted.  It can go on from where it has come
 * to. */
static void on_left(struct view *v)
{
    struct front_end *fe = v->fe;
    uint64_t began = v->begins;
    GError *error = NULL;

    fe->current = NULL;
    if (!target_leave_search(fe->target, &v->begins, &error)) {
        fail(fe, error);
        return;
    }
    if (v->begins < began) {
        v->hold_ms = 0;
    } else {
        hold(v);
    }
    if (!v->client) {
        g_ptr_array_remove(fe->views, v);
    } else if (v->interrupted) {
        stopped(v, INTERRUPTED);
    } else {
        v->suspended = true;
    }
}

/* QEMU's own way back has come to its end. */
static bool end_way_back(struct view *v, const char *said, GError **error)
{
    bool there = at_breakpoint(v);

    if (!there && !leave_early(v, error)) {
        return false;
    }
    note_place(v);
    if (!v->place.icount && g_str_has_prefix(said, "T05")) {
        stopped_here(v, BEGIN_OF_REPLAY);
    } else if (!there && !at_breakpoint(v)) {
        return stop_behind_watchpoint(v, said, error);
    } else {
        stopped_here(v, STOPPED);
    }
    return true;
}

static void on_found(struct view *v, const char *said)
{
    struct front_end *fe = v->fe;
    struct target_place from = v->place;
    uint64_t found = target_place(fe->target)->icount;
    GError *error = NULL;

    begin_way(v, NULL);
    if (!end_way_back(v, said, &error)) {
        /* It is found again. */
        v->place = from;
        v->begins = MIN(v->begins, found + 1);
        fe->current = NULL;
        refuse_run(v, error);
    }
    end_way(v);
}

/* The guest has stopped: for its view, or because another one needs it. */
static void on_stop(struct front_end *fe, const char *said)
{
    struct view *v = fe->running;
    GError *error = NULL;

    fe->running = NULL;
    g_clear_handle_id(&fe->hold_source, g_source_remove);
    if (said[0] == 'W' || said[0] == 'X') {
        fail(fe, g_error_new(BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_CLOSED,
                             "QEMU has ended"));
        return;
    }
    if (is_backward(v->run) && g_str_has_prefix(said, "T02")) {
        on_left(v);
        serve_waiting(fe);
        return;
    }
    if (!target_find(fe->target, &error)) {
        fail(fe, error);
        return;
    }
    if (v->client && is_backward(v->run) && said[0] != 'E') {
        on_found(v, said);
        serve_waiting(fe);
        return;
    }
    note_place(v);
    if (!v->client) {
        g_ptr_array_remove(fe->views, v);
    } else if (said[0] == 'E') {
        client_print(v->client, "QEMU cannot go there\n");
        stopped(v, STOPPED);
    } else if (g_str_has_prefix(said, SHUT_DOWN)) {
        fe->end = v->place.icount;
        stopped_here(v, END_OF_REPLAY);
    } else if (is_early(v, said) && !fe->interrupting) {
        start_or_refuse(v);
    } else if (fe->interrupting && !v->interrupted &&
               (g_str_has_prefix(said, "T02") || is_early(v, said))) {
        v->suspended = true;
    } else {
        stopped_by(fe, said, &v->vcpu);
        end_run(v, said);
    }
    serve_waiting(fe);
}

static gboolean on_stub(gint fd, GIOCondition condition, gpointer opaque)
{
    struct front_end *fe = opaque;
    g_autofree char *said = NULL;
    GError *error = NULL;

    if (!stub_stopped(target_stub(fe->target), 0, &said, &error)) {
        fe->stub_source = 0;
        fail(fe, error);
        return G_SOURCE_REMOVE;
    }
    if (said && fe->running) {
        on_stop(fe, said);
    }
    return G_SOURCE_CONTINUE;
}

/* Serves what has come while the guest ran. */
static void serve_waiting(struct front_end *fe)
{
    for (unsigned i = 0; i < fe->views->len && !fe->running; i++) {
        struct view *v = g_ptr_array_index(fe->views, i);
        g_autoptr(GBytes) waiting = g_steal_pointer(&v->waiting);

        if (waiting) {
            serve(v, waiting);
        }
    }
    wait_for_quiet(fe);
}

/* Takes one vCPU back to before its last instruction. */
static void serve_step_back(struct view *v)
{
    struct front_end *fe = v->fe;
    const struct turns *turns = target_turns(fe->target);
    GError *error = NULL;
    uint64_t last = 0;
    bool any;

    v->vcpu = v->back >= 0 ? (unsigned)v->back : v->vcpu;
    any = turns_last(turns, v->vcpu, v->place.icount, &last);
    if (!any && !v->place.icount) {
        stopped(v, BEGIN_OF_REPLAY);
    } else if (!go_back_to(v, last, &error)) {
        fe->current = NULL;
        refuse_run(v, error);
    } else {
        note_place(v);
        stopped(v, any ? STOPPED : BEGIN_OF_REPLAY);
    }
}

/* By the trace; false if it does not have what is needed for that */
static bool run_back_by_trace(struct view *v)
{
    struct front_end *fe = v->fe;
    enum history_answer found;
    GError *error = NULL;

    if (!fe->trace || !fe->trace->history) {
        return false;
    }
    v->reverse = v->reverse ?: reverse_new(fe->trace->history);
    found = reverse_continue(fe->target, v->reverse, v->breakpoints,
                             &v->place, &error);
    if (error) {
        refuse_run(v, error);
        return true;
    }
    if (found == HISTORY_UNKNOWN) {
        return false;
    }
    fe->current = v;
    note_place(v);
    stopped_here(v, found == HISTORY_FOUND ? STOPPED : BEGIN_OF_REPLAY);
    return true;
}

/*
 * QEMU's own way back leaves out the instruction before the one where the guest
 * stands.
 */
static void serve_run_back(struct view *v)
{
    struct front_end *fe = v->fe;
    GError *error = NULL;
    bool watched;

    if (!v->place.icount) {
        stopped_here(v, BEGIN_OF_REPLAY);
        return;
    }
    if (!go_back(v, &error) || !stop_at_watchpoint(v, &watched, &error)) {
        fe->current = NULL;
        refuse_run(v, error);
    } else if (watched) {
        return;
    } else if (at_breakpoint(v)) {
        note_place(v);
        stopped_here(v, STOPPED);
    } else {
        fe->current = NULL;
        v->begins = v->place.icount;
        if (!run_back_by_trace(v)) {
            start_or_refuse(v);
        }
    }
}

/* The vCPU that executes one instruction while all run; -1 if none does */
static int stepped_by(const struct view *v, const char *request)
{
    g_auto(GStrv) actions = g_strsplit(request, ";", -1);
    unsigned vcpu = v->vcpu;

    if (request[0] != 'v') {
        return request[0] == 's' || request[0] == 'S' ? (int)vcpu : -1;
    }
    for (char **action = actions + 1; *action; action++) {
        const char *thread = strchr(*action, ':');

        if (**action == 's' || **action == 'S') {
            if (thread) {
                target_vcpu(v->fe->target, thread + 1, &vcpu);
            }
            return vcpu;
        }
    }
    return -1;
}

/*
 * What lets the guest run: the log says whose turn it is, so that no vCPU can
 * run alone.
 */
static char *run_of(const struct view *v)
{
    return v->steps < 0 ? g_strdup("vCont;c") :
           g_strdup_printf("vCont;s:%s;c", target_thread(v->fe->target,
                                                         v->steps));
}

static void serve_run(struct view *v, const char *request)
{
    struct front_end *fe = v->fe;

    v->steps = is_backward(request) ? -1 : stepped_by(v, request);
    v->run = is_backward(request) ? g_strdup(request) : run_of(v);
    if (!strcmp(request, "bs")) {
        serve_step_back(v);
    } else if (is_backward(request)) {
        serve_run_back(v);
    } else if (v->place.icount >= fe->end) {
        stopped_here(v, END_OF_REPLAY);
    } else {
        start_or_refuse(v);
    }
}

static void serve_breakpoint(struct view *v, const char *request)
{
    GError *error = NULL;
    g_autofree char *said = NULL;

    if (request[0] == 'Z' &&
        g_hash_table_size(v->breakpoints) >= MAX_BREAKPOINTS) {
        answer(v, "E.there are too many breakpoints");
        return;
    }
    said = target_breakpoint(v->fe->target, request, &error);
    if (!said) {
        refuse(v, error);
        return;
    }
    if (!strcmp(said, "OK")) {
        target_breakpoints_note(v->breakpoints, request);
    }
    client_answer_text(v->client, said);
}

/* What the front end does by itself, or what QEMU offers for one gdb alone: in a
 * replay, the way back is that of the replay. */
static bool is_withheld(const char *feature)
{
    return !strcmp(feature, "multiprocess+") ||
           g_str_has_prefix(feature, "Reverse") ||
           g_str_has_prefix(feature, "Qbtrace") ||
           g_str_has_prefix(feature, "qXfer:btrace");
}

/* QEMU is asked in the name of all: what one gdb supports does not matter. */
static void serve_supported(struct view *v)
{
    const char *features = target_features(v->fe->target);
    g_autoptr(GString) text = g_string_new("QStartNoAckMode+");
    g_auto(GStrv) parts = g_strsplit(features, ";", -1);

    for (char **p = parts; *p; p++) {
        if (**p && !is_withheld(*p)) {
            g_string_append_printf(text, ";%s", *p);
        }
    }
    g_string_append(text, ";ReverseStep+;ReverseContinue+");
    client_answer_text(v->client, text->str);
}

/* Has another one a request, while the guest goes a way for this one? */
static bool others_wait(const struct view *v)
{
    const struct front_end *fe = v->fe;

    for (unsigned i = 0; i < fe->views->len; i++) {
        const struct view *other = g_ptr_array_index(fe->views, i);

        if (other != v && other->client &&
            (other->waiting || client_has_sent(other->client))) {
            return true;
        }
    }
    return false;
}

bool front_end_goes_on(struct front_end *fe)
{
    struct view *v = fe->going;

    if (!v || !v->client) {
        return true;
    }
    if (!client_waits(v->client) || v->interrupted) {
        return false;
    }
    fe->yielded = !held_ms(v) && others_wait(v);
    return !fe->yielded;
}

/* What is printed, and the answer.  Takes the error that there is without
 * text. */
static void answer_monitor(struct view *v, const char *text, GError *error)
{
    if (!text && put_off(v, error)) {
        return;
    }
    if (text) {
        client_print(v->client, text);
        client_answer_text(v->client, "OK");
    } else if (g_error_matches(error, BTRAIL_AGENT_ERROR,
                               BTRAIL_AGENT_ERROR_CANCELLED)) {
        client_answer_interrupted(v->client);
        g_error_free(error);
    } else if (is_fatal(error)) {
        refuse(v, error);
    } else {
        /* gdb shows what is printed, and little of an error. */
        client_print_error(v->client, error->message);
        answer(v, "E01");
        g_error_free(error);
    }
}

static GBytes *request_of(const char *line)
{
    g_autoptr(GString) request = g_string_new("qRcmd,");

    rsp_append_hex(request, line, strlen(line));
    return g_bytes_new(request->str, request->len + 1);
}

/* A command that searches no trace */
static void run_command(struct view *v, const char *line)
{
    struct front_end *fe = v->fe;
    g_autofree char *text = NULL;
    GError *error = NULL;

    if (claim(v, &error)) {
        text = monitor_command(fe->target, fe->trace, line, &error);
    }
    if (text) {
        note_place(v);
    } else {
        /* The guest may be on its way: it is taken back. */
        fe->current = NULL;
    }
    answer_monitor(v, text, error);
}

static void search(void *opaque, GByteArray *out)
{
    const struct view *v = opaque;

    monitor_search(v->fe->trace, v->searched, v->place.icount, out);
}

static gboolean on_search(gint fd, GIOCondition condition, gpointer opaque)
{
    struct view *v = opaque;
    g_autofree char *text = NULL, *then = NULL;
    GError *error = NULL;
    bool done;

    apart_read(v->search, &done);
    if (!done) {
        return G_SOURCE_CONTINUE;
    }
    text = monitor_found(apart_answer(v->search), &then, &error);
    v->search_source = 0;
    end_search(v);
    if (then) {
        g_autoptr(GBytes) request = request_of(then);
        gsize n;
        const char *payload = g_bytes_get_data(request, &n);

        on_packet(v, payload, n - 1);
    } else {
        answer_monitor(v, text, error);
    }
    return G_SOURCE_REMOVE;
}

/* Others are served meanwhile. */
static void begin_search(struct view *v, const char *line)
{
    v->searched = g_strdup(line);
    v->search = apart_start(search, v);
    if (v->search) {
        v->search_source = g_unix_fd_add(apart_fd(v->search), G_IO_IN,
                                         on_search, v);
    } else {
        end_search(v);
        client_print(v->client, "there can be no more processes\n");
        answer(v, "E01");
    }
}

static void serve_monitor(struct view *v, const char *digits)
{
    g_autofree char *line = rsp_unhex(digits, NULL);

    if (!line) {
        answer(v, "E01");
    } else if (v->fe->trace && monitor_searches(line)) {
        begin_search(v, line);
    } else {
        run_command(v, line);
    }
}

static void serve_forward(struct view *v, const char *request, size_t n)
{
    GError *error = NULL;
    g_autofree char *said = NULL;
    size_t length;

    if (claim(v, &error)) {
        said = target_forward(v->fe->target, v->vcpu, request, n, &length,
                              &error);
    }
    if (!said) {
        refuse(v, error);
        return;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(set_by); i++) {
        if (g_str_has_prefix(request, set_by[i]) && !strcmp(said, "OK")) {
            g_free(v->settings[i]);
            v->settings[i] = g_strdup(request);
        }
    }
    client_answer(v->client, said, length);
}

/* What a vCPU runs, for "info threads"; false if the trace does not say it */
static bool serve_thread_info(struct view *v, const char *thread)
{
    g_autofree char *task = NULL, *text = NULL;
    g_autoptr(GString) digits = NULL;
    struct where where;
    unsigned vcpu;

    if (!v->fe->trace || !target_vcpu(v->fe->target, thread, &vcpu) ||
        !trace_index_where(v->fe->trace, vcpu, v->place.icount, &where)) {
        return false;
    }
    task = where_task(&where);
    text = g_strdup_printf("vCPU %u: %s", where.vcpu, task);
    digits = g_string_new(NULL);
    rsp_append_hex(digits, text, strlen(text));
    client_answer_text(v->client, digits->str);
    return true;
}

/* "Hg" and "Hc": the vCPU of later requests, and the one that goes back.  0 is
 * any, and -1 is all of them. */
static void serve_thread(struct view *v, char what, const char *thread)
{
    bool any = !strcmp(thread, "0") || !strcmp(thread, "-1");
    unsigned vcpu = v->vcpu;

    if (!any && !target_vcpu(v->fe->target, thread, &vcpu)) {
        answer(v, "E22");
        return;
    }
    if (what == 'g') {
        v->vcpu = vcpu;
    } else {
        v->back = any ? -1 : (int)vcpu;
    }
    answer(v, "OK");
}

static void serve(struct view *v, GBytes *bytes)
{
    const char *thread = "qThreadExtraInfo,";
    gsize n;
    const char *request = g_bytes_get_data(bytes, &n);

    begin_way(v, bytes);
    if (is_run(request)) {
        serve_run(v, request);
    } else if (request[0] == 'Z' || request[0] == 'z') {
        serve_breakpoint(v, request);
    } else if (g_str_has_prefix(request, "qRcmd,")) {
        serve_monitor(v, request + strlen("qRcmd,"));
    } else if (!g_str_has_prefix(request, thread) ||
               !serve_thread_info(v, request + strlen(thread))) {
        serve_forward(v, request, n - 1);
    }
    end_way(v);
}

static void serve_symbols(struct view *v)
{
    const struct process *process =
        trace_index_process(v->fe->trace, v->place.icount);
    const struct symbolizer_where where = where_record(&v->fe->trace->last);

    answer(v, "V%x", process_symbols_set(v->fe->symbols, process, &where,
                                         v->place.pc));
}

/* What needs no guest; false if it is not such a request */
static bool serve_alone(struct view *v, const char *request)
{
    if (g_str_has_prefix(request, "qSupported")) {
        serve_supported(v);
    } else if (!strcmp(request, "QStartNoAckMode")) {
        client_answer_text(v->client, "OK");
        client_stop_acks(v->client);
    } else if (!strcmp(request, "?")) {
        answer(v, STOPPED, thread_of(v));
    } else if (!strcmp(request, "qC")) {
        answer(v, "QC%s", thread_of(v));
    } else if (v->fe->symbols &&
               g_str_has_prefix(request, PROCESS_SYMBOLS_REQUEST)) {
        serve_symbols(v);
    } else if (g_str_has_prefix(request, "Hg") ||
               g_str_has_prefix(request, "Hc")) {
        serve_thread(v, request[1], request + 2);
    } else if (request[0] == 'D' || g_str_has_prefix(request, "vKill")) {
        /* One that leaves, or kills, takes nothing from the others. */
        client_answer_text(v->client, "OK");
        client_end(v->client);
    } else if (request[0] == 'k') {
        client_end(v->client);
    } else {
        return false;
    }
    return true;
}

static void on_packet(void *opaque, const char *request, size_t n)
{
    struct view *v = opaque;
    struct front_end *fe = v->fe;
    g_autoptr(GBytes) bytes = NULL;

    if (fe->failed) {
        client_end(v->client);
        return;
    }
    if (serve_alone(v, request)) {
        return;
    }
    bytes = g_bytes_new(request, n + 1);
    if (fe->running) {
        v->waiting = g_steal_pointer(&bytes);
        interrupt(fe);
        return;
    }
    serve(v, bytes);
    wait_for_quiet(fe);
}

/* What has been put off is not wanted any more. */
static void interrupt_later(struct view *v)
{
    g_autoptr(GBytes) later = g_steal_pointer(&v->later);
    const char *request = g_bytes_get_data(later, NULL);

    if (is_run(request)) {
        stopped(v, INTERRUPTED);
    } else if (g_str_has_prefix(request, "qRcmd,")) {
        client_answer_interrupted(v->client);
    } else {
        answer(v, "E.interrupted");
    }
}

static void on_interrupt(void *opaque)
{
    struct view *v = opaque;

    if (v == v->fe->running) {
        v->interrupted = true;
        interrupt(v->fe);
    } else if (v == v->fe->going) {
        v->interrupted = true;
    } else if (v->search) {
        end_search(v);
        client_answer_interrupted(v->client);
    } else if (v->later) {
        interrupt_later(v);
    } else if (v->suspended) {
        stopped(v, INTERRUPTED);
    } else if (v->waiting &&
               is_run(g_bytes_get_data(v->waiting, NULL))) {
        g_clear_pointer(&v->waiting, g_bytes_unref);
        stopped(v, INTERRUPTED);
    }
}

void front_end_interrupt(struct front_end *fe, bool (*meant)(int sock))
{
    for (unsigned i = 0; i < fe->views->len; i++) {
        struct view *v = g_ptr_array_index(fe->views, i);

        if (v->client && (v == fe->going || v->search || v->later) &&
            meant(client_in(v->client))) {
            on_interrupt(v);
        }
    }
}

static void on_closed(void *opaque)
{
    struct view *v = opaque;
    struct front_end *fe = v->fe;

    g_clear_pointer(&v->client, client_free);
    g_clear_pointer(&v->waiting, g_bytes_unref);
    g_clear_pointer(&v->later, g_bytes_unref);
    end_search(v);
    if (v == fe->running) {
        interrupt(fe);
    } else {
        g_ptr_array_remove(fe->views, v);
    }
}

void front_end_add(struct front_end *fe, int sock)
{
    static const struct client_functions functions = {
        .packet = on_packet,
        .interrupt = on_interrupt,
        .closed = on_closed,
    };
    struct view *v;

    if (fe->views->len >= FRONT_END_GDBS_MAX) {
        close(sock);
        return;
    }
    v = g_new0(struct view, 1);
    v->fe = fe;
    v->place = fe->running ? fe->running->place : *target_place(fe->target);
    v->vcpu = v->place.vcpu;
    v->back = v->steps = -1;
    v->breakpoints = target_breakpoints_new();
    for (unsigned i = 0; i < G_N_ELEMENTS(set_by); i++) {
        v->settings[i] = g_strconcat(set_by[i], "0", NULL);
    }
    v->client = client_new(NULL, sock, sock, TARGET_PACKET_SIZE, &functions, v);
    g_ptr_array_add(fe->views, v);
}

struct front_end *front_end_new(struct target *target,
                                void (*ended)(void *opaque,
                                              const GError *error),
                                void *opaque)
{
    struct front_end *fe = g_new0(struct front_end, 1);

    fe->target = target;
    fe->ended = ended;
    fe->opaque = opaque;
    fe->end = UINT64_MAX;
    fe->views = g_ptr_array_new_with_free_func((GDestroyNotify)free_view);
    fe->stub_source = g_unix_fd_add(stub_fd(target_stub(target)), G_IO_IN,
                                    on_stub, fe);
    return fe;
}

void front_end_set_trace(struct front_end *fe, struct trace_index *trace)
{
    fe->trace = trace;
}

void front_end_set_symbols(struct front_end *fe,
                           struct process_symbols *symbols)
{
    fe->symbols = symbols;
}

void front_end_free(struct front_end *fe)
{
    if (fe) {
        if (fe->stub_source) {
            g_source_remove(fe->stub_source);
        }
        if (fe->quiet_source) {
            g_source_remove(fe->quiet_source);
        }
        g_clear_handle_id(&fe->hold_source, g_source_remove);
        g_ptr_array_unref(fe->views);
        target_free(fe->target);
        g_free(fe);
    }
}
