/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Views of a replay: see replay-view.h
 */

#include <glib-unix.h>
#include <inttypes.h>
#include <string.h>

#include "gdb/diversion.h"
#include "gdb/replay-view.h"
#include "gdb/reverse.h"

/* Others must have been quiet for this long before a run continues. */
#define QUIET_MS        200
/*
 * A run that has made no progress is not interrupted for this long the next
 * time, and for twice as long each time after that: others would keep it from
 * its end.
 */
#define HOLD_MS         100
#define MAX_HOLD_MS     10000

/* What lets QEMU run until something happens */
#define CONTINUE        "vCont;c"

/* For how long a debugger's call of a function runs; and if others wait */
#define CALL_MS         10000
#define SHARED_CALL_MS  200

/* The guest has shut down, which is where the recording ends. */
#define SHUT_DOWN       "T03"
/* It is about to do what a call of a function cannot. */
#define REFUSED         "T11"

#define BRANCH_INSTEAD  "; backtrail rr branch makes a guest that can"

static void serve(struct replay_view *v);
static void run_back_from_end(struct replay_view *v);
static void wait_for_quiet(struct replay_target *r);
static void serve_waiting(struct replay_target *r);

/* QEMU is of no use any more. */
static void fail(struct replay_target *r, GError *error)
{
    if (!r->failed) {
        r->failed = true;
        if (r->running) {
            gdb_server_answer(r->running->server, "W00");
        }
        r->ended(r->opaque, error);
    }
    g_error_free(error);
}

static bool is_fatal(const GError *error)
{
    return g_error_matches(error, AGENT_ERROR,
                           AGENT_ERROR_CLOSED) ||
           g_error_matches(error, AGENT_ERROR,
                           AGENT_ERROR_SYSTEM);
}

/* It was interrupted for others, and has made no progress. */
static void hold(struct replay_view *v)
{
    v->hold_ms = MIN(v->hold_ms ? 2 * v->hold_ms : HOLD_MS, MAX_HOLD_MS);
}

/* For how much longer @v is not to be interrupted */
static unsigned held_ms(const struct replay_view *v)
{
    gint64 ran = (g_get_monotonic_time() - v->r->began) / 1000;

    return ran < v->hold_ms ? v->hold_ms - ran : 0;
}

/*
 * Has the guest not come to the end of its way because another one has a
 * request?  What was to be done is then done later, from the beginning: it has
 * no effect before its end.  Takes the error then.
 */
static bool put_off(struct replay_view *v, GError *error)
{
    struct replay_target *r = v->r;

    if (!r->yielded || v != r->going || !agent_is_cancelled(error)) {
        return false;
    }
    /* It is on its way: it is taken back. */
    r->current = NULL;
    hold(v);
    if (r->for_request) {
        v->later = true;
        g_clear_pointer(&v->run, g_free);
    } else {
        v->suspended = true;
    }
    g_error_free(error);
    return true;
}

/* A run of this view is over. */
static void end_run(struct replay_view *v)
{
    g_clear_pointer(&v->run, g_free);
    g_clear_pointer(&v->reverse, reverse_free);
    v->suspended = false;
    v->hold_ms = 0;
}

/* The request cannot be served, or was interrupted. */
void replay_view_refuse(void *opaque, GError *error)
{
    struct replay_view *v = opaque;
    g_autoptr(GError) fatal = is_fatal(error) ? g_error_copy(error) : NULL;

    if (put_off(v, error)) {
        return;
    }
    if (agent_is_cancelled(error)) {
        /* It is on its way: it is taken back. */
        v->r->current = NULL;
    }
    end_run(v);
    gdb_server_fail(v->server, error);
    if (fatal) {
        fail(v->r, g_steal_pointer(&fatal));
    }
}

/* It has stopped because of @vcpu. */
static void stopped(struct replay_view *v, const char *how, unsigned vcpu)
{
    end_run(v);
    gdb_server_stopped(v->server, how, vcpu + 1);
}

/* It has stopped because of the next instruction. */
static void stopped_here(struct replay_view *v, const char *how)
{
    stopped(v, how, v->place.vcpu);
}

/*
 * When the guest has shut down, it spins until QEMU stops it, which is not
 * always at the same instruction: the end is as good as the place where it
 * stopped last time.  Takes the error.
 */
static bool is_end(struct replay_view *v, GError *error, GError **propagated)
{
    uint64_t icount = vm_place(v->r->vm)->icount;

    if (v->place.icount < v->r->end || icount >= v->place.icount ||
        is_fatal(error) || agent_is_cancelled(error)) {
        g_propagate_error(propagated, error);
        return false;
    }
    g_error_free(error);
    v->r->end = icount;
    return true;
}

/* What QEMU does with requests is what this view has set. */
static bool set_settings(struct replay_view *v, GError **error)
{
    g_autofree char *request = g_strdup_printf(PHYSICAL "%" PRIx64,
                                               v->physical);
    g_autofree char *said = stub_ask(vm_stub(v->r->vm), request, NULL,
                                     NULL, error);

    return said;
}

/* Takes the guest to where this view has left it. */
bool replay_view_claim(struct replay_view *v, GError **error)
{
    struct replay_target *r = v->r;
    GError *local = NULL;

    if (r->current == v) {
        return true;
    }
    if (r->current && vm_written(r->vm, NULL)) {
        r->current->lost = true;
    }
    r->current = NULL;
    if (v->lost) {
        v->lost = false;
        return agent_fail(error, AGENT_ERROR_COMMAND, "what this gdb has "
                          "written is gone: another one has moved the guest");
    }
    if (!vm_go(r->vm, &v->place, &local)) {
        if (!is_end(v, local, error)) {
            return false;
        }
        v->place = *vm_place(r->vm);
    }
    if (!set_settings(v, error)) {
        return false;
    }
    r->current = v;
    return true;
}

void replay_view_take_back(struct replay_view *v)
{
    if (v->r->current == v && vm_written(v->r->vm, NULL)) {
        v->r->current = NULL;
    }
}

/* Takes it to where QEMU's own way back continues. */
static bool claim_back(struct replay_view *v, GError **error)
{
    if (v->begins >= v->place.icount) {
        return replay_view_claim(v, error);
    }
    v->r->current = NULL;
    return vm_go_icount(v->r->vm, v->begins, error) &&
           set_settings(v, error);
}

/* The guest is where this view has it. */
void replay_view_note(struct replay_view *v)
{
    v->place = *vm_place(v->r->vm);
}

static bool is_backward(const char *request)
{
    return request[0] == 'b';
}

static bool go_back_to(struct replay_view *v, uint64_t icount, GError **error)
{
    GError *local = NULL;

    return replay_view_claim(v, error) &&
           (vm_go_icount(v->r->vm, icount, &local) ||
            is_end(v, local, error));
}

/* Takes the guest one instruction back. */
static bool go_back(struct replay_view *v, GError **error)
{
    return go_back_to(v, v->place.icount - 1, error);
}

/* Is there a breakpoint where a vCPU is? */
static bool vcpu_at_breakpoint(struct replay_view *v, unsigned vcpu)
{
    return vm_at_breakpoint(v->r->vm, vcpu, v->server->breakpoints);
}

/* The same of the one whose turn it is */
static bool at_breakpoint(struct replay_view *v)
{
    return vcpu_at_breakpoint(v, vm_place(v->r->vm)->vcpu);
}

/*
 * Ends a run back where the guest is, if the next instruction meets a
 * watchpoint.
 */
static bool stop_at_watchpoint(struct replay_view *v, bool *watched,
                               GError **error)
{
    struct vm *t = v->r->vm;
    g_autofree char *hit = NULL, *how = NULL;

    if (!reverse_find_watchpoint(t, v->server->breakpoints, &hit, error)) {
        return false;
    }
    *watched = hit;
    if (hit) {
        replay_view_note(v);
        how = g_strconcat(GDB_STOP, hit, ";", NULL);
        stopped_here(v, how);
    }
    return true;
}

static char *step_request(unsigned vcpu)
{
    return g_strdup_printf("vCont;s:%x;c", vcpu + 1);
}

/* Lets the guest run for a view, whose @run is set. */
static bool start(struct replay_view *v, GError **error)
{
    struct replay_target *r = v->r;
    g_autofree char *step = NULL;

    if (!(is_backward(v->run) ? claim_back(v, error) :
                                replay_view_claim(v, error)) ||
        !vm_set_breakpoints(r->vm, v->server->breakpoints, error)) {
        return false;
    }
    v->over = !strcmp(v->run, CONTINUE) && !vm_diverted(r->vm) &&
              at_breakpoint(v);
    if (v->over) {
        /* QEMU would not leave it. */
        v->steps = vm_place(r->vm)->vcpu;
        step = step_request(v->steps);
    }
    if (!stub_run(vm_stub(r->vm), step ?: v->run, error)) {
        return false;
    }
    r->running = v;
    r->began = g_get_monotonic_time();
    r->interrupting = false;
    v->suspended = false;
    return true;
}

static void start_or_refuse(struct replay_view *v)
{
    GError *error = NULL;

    if (!start(v, &error)) {
        replay_view_refuse(v, error);
    }
}

/*
 * From here to end_way(), the guest goes ways for a view, for its request or to
 * continue its run; see put_off().
 */
static void begin_way(struct replay_view *v, bool for_request)
{
    v->r->going = v;
    v->r->for_request = for_request;
    v->r->began = g_get_monotonic_time();
    v->r->yielded = false;
}

static void end_way(struct replay_view *v)
{
    v->r->going = NULL;
    if (!v->run && !v->later) {
        v->hold_ms = 0;
    }
}

static gboolean on_quiet(gpointer opaque)
{
    struct replay_target *r = opaque;
    bool more = false;

    r->quiet_source = 0;
    for (unsigned i = 0; i < r->views->len && !r->running; i++) {
        struct replay_view *v = g_ptr_array_index(r->views, i);

        if (v->later) {
            v->later = false;
            serve(v);
        } else if (v->suspended) {
            begin_way(v, false);
            start_or_refuse(v);
            end_way(v);
        }
        more |= v->later || v->suspended;
    }
    if (more) {
        wait_for_quiet(r);
    }
    return G_SOURCE_REMOVE;
}

/* Suspended runs continue when there is nothing else to do. */
static void wait_for_quiet(struct replay_target *r)
{
    if (r->quiet_source) {
        g_source_remove(r->quiet_source);
    }
    r->quiet_source = g_timeout_add(QUIET_MS, on_quiet, r);
}

static void interrupt(struct replay_target *r);

static gboolean on_held(gpointer opaque)
{
    struct replay_target *r = opaque;

    r->hold_source = 0;
    if (r->running) {
        interrupt(r);
    }
    return G_SOURCE_REMOVE;
}

static void interrupt(struct replay_target *r)
{
    struct replay_view *v = r->running;
    unsigned wait_ms = (is_backward(v->run) || vm_diverted(r->vm)) &&
                       v->server->client && !v->server->interrupted ?
                       held_ms(v) : 0;
    GError *error = NULL;

    if (wait_ms) {
        g_clear_handle_id(&r->hold_source, g_source_remove);
        r->hold_source = g_timeout_add(wait_ms, on_held, r);
    } else if (!r->interrupting) {
        r->interrupting = true;
        if (!stub_interrupt(vm_stub(r->vm), &error)) {
            fail(r, error);
        }
    }
}

static void free_view(struct replay_view *v)
{
    struct replay_target *r = v->r;

    if (r->current == v) {
        r->current = NULL;
    }
    gdb_server_free(v->server);
    reverse_free(v->reverse);
    g_free(v->run);
    g_free(v);
}

/*
 * Is the breakpoint that QEMU has met after an exception or an interrupt?  That
 * is no instruction, and QEMU can be before it at the same count.
 */
static bool meets_breakpoint(struct replay_view *v, GError **error)
{
    struct vm *t = v->r->vm;

    return vm_step(t, vm_place(t)->vcpu, error) &&
           vm_place(t)->icount == v->place.icount && at_breakpoint(v);
}

/* The vCPU for which, as QEMU says, the guest has stopped */
static bool stopped_by(const struct replay_target *r, const char *said,
                       unsigned *vcpu)
{
    const char *text = strstr(said, "thread:");
    uint64_t thread = 0;

    if (text) {
        text += strlen("thread:");
        packet_thread(&text, &thread);
    }
    if (!thread || thread > vm_vcpus(r->vm)) {
        return false;
    }
    *vcpu = thread - 1;
    return true;
}

/* As QEMU says it, which can have other names of threads */
static void pass_stop(struct replay_view *v, const char *said)
{
    g_autofree char *hit = vm_watchpoint(said), *how = NULL;
    unsigned vcpu = replay_view_vcpu(v);

    stopped_by(v->r, said, &vcpu);
    how = g_strdup_printf("T%.2s%s%s", said + 1, hit ? hit : "",
                          hit ? ";" : "");
    stopped(v, how, vcpu);
}

/*
 * QEMU has come back to a place after the instruction that meets a
 * watchpoint, or before the delivery of an interrupt or exception that does.
 */
static bool stop_after_watchpoint(struct replay_view *v, const char *said,
                                   GError **error)
{
    struct replay_target *r = v->r;
    GError *local = NULL;
    bool watched;

    r->current = v;
    if (meets_breakpoint(v, &local)) {
        replay_view_note(v);
        stopped_here(v, GDB_STOP);
        return true;
    }
    if (agent_is_cancelled(local)) {
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
        r->current = NULL;
        pass_stop(v, said);
    }
    return true;
}

/*
 * QEMU stops a vCPU at a breakpoint where its turn ends, too, before the
 * instruction.  Others run before it comes there again.
 */
static bool is_early(struct replay_view *v, const char *said)
{
    unsigned vcpu;

    return g_str_has_prefix(said, "T05") &&
           !strstr(said, "watch:") && stopped_by(v->r, said, &vcpu) &&
           (int)vcpu != v->steps &&
           vcpu != vm_place(v->r->vm)->vcpu &&
           vcpu_at_breakpoint(v, vcpu);
}

/* The same on QEMU's own way back: continues to where that vCPU's turn is. */
static bool leave_early(struct replay_view *v, GError **error)
{
    struct vm *t = v->r->vm;

    for (unsigned i = 0; i < vm_vcpus(t); i++) {
        uint64_t next = vcpu_at_breakpoint(v, i) ?
            turns_next(vm_turns(t), i, vm_place(t)->icount) :
            UINT64_MAX;

        if (i != vm_place(t)->vcpu && next != UINT64_MAX) {
            return vm_go_vcpu(t, next, i, vm_place(t)->pcs[i], error);
        }
    }
    return true;
}

/*
 * QEMU's own way back was interrupted.  It can continue from where it has come
 * to.
 */
static void on_left(struct replay_view *v)
{
    struct replay_target *r = v->r;
    uint64_t began = v->begins;
    GError *error = NULL;

    r->current = NULL;
    if (!vm_leave_search(r->vm, &v->begins, &error)) {
        fail(r, error);
        return;
    }
    if (v->begins < began) {
        v->hold_ms = 0;
    } else {
        hold(v);
    }
    if (!v->server->client) {
        g_ptr_array_remove(r->views, v);
    } else if (v->server->interrupted) {
        stopped(v, GDB_STOP_INTERRUPTED, replay_view_vcpu(v));
    } else {
        v->suspended = true;
    }
}

/* QEMU's own way back has come to its end. */
static bool end_way_back(struct replay_view *v, const char *said,
                         GError **error)
{
    bool there = at_breakpoint(v);

    if (!there && !leave_early(v, error)) {
        return false;
    }
    replay_view_note(v);
    if (!v->place.icount && g_str_has_prefix(said, "T05")) {
        stopped_here(v, GDB_STOP_BEGIN);
    } else if (!there && !at_breakpoint(v)) {
        return stop_after_watchpoint(v, said, error);
    } else {
        stopped_here(v, GDB_STOP);
    }
    return true;
}

static void on_found(struct replay_view *v, const char *said)
{
    struct replay_target *r = v->r;
    struct vm_place from = v->place;
    uint64_t found = vm_place(r->vm)->icount;
    GError *error = NULL;

    begin_way(v, false);
    if (!end_way_back(v, said, &error)) {
        /* It is found again. */
        v->place = from;
        v->begins = MIN(v->begins, found + 1);
        r->current = NULL;
        replay_view_refuse(v, error);
    }
    end_way(v);
}

/* A call of a function has stopped: at its end, or before. */
static void on_call_stopped(struct replay_view *v, const char *said)
{
    struct replay_target *r = v->r;
    const char *why = NULL;

    if (!v->server->client) {
        r->current = NULL;
        g_ptr_array_remove(r->views, v);
        return;
    }
    if (g_str_has_prefix(said, REFUSED)) {
        why = "in a replay, a function that is called cannot use devices, or "
              "wait";
    } else if (r->interrupting && !v->server->interrupted) {
        why = "the function that was called has not returned in time";
    } else if (said[0] == 'E') {
        why = "QEMU cannot execute the function that was called";
    }
    if (why) {
        /* The guest is taken back. */
        r->current = NULL;
        replay_view_refuse(v, g_error_new(AGENT_ERROR, AGENT_ERROR_COMMAND,
                                          "%s" BRANCH_INSTEAD, why));
    } else {
        pass_stop(v, said);
    }
}

/*
 * Has it left the breakpoint where its run has begun, so that it can continue?
 */
static bool ends_over(struct replay_view *v, const char *said)
{
    bool over = v->over;
    unsigned vcpu;

    v->over = false;
    if (over) {
        over = g_str_has_prefix(said, "T05") && !strstr(said, "watch:") &&
               stopped_by(v->r, said, &vcpu) && (int)vcpu == v->steps &&
               !vcpu_at_breakpoint(v, vcpu);
        v->steps = -1;
    }
    return over;
}

/* The guest has stopped: for its view, or because another one needs it. */
static void on_stop(struct replay_target *r, const char *said)
{
    struct replay_view *v = r->running;
    GError *error = NULL;
    bool over;

    r->running = NULL;
    g_clear_handle_id(&r->hold_source, g_source_remove);
    if (said[0] == 'W' || said[0] == 'X') {
        fail(r, g_error_new(AGENT_ERROR, AGENT_ERROR_CLOSED,
                            "QEMU has ended"));
        return;
    }
    if (vm_diverted(r->vm)) {
        on_call_stopped(v, said);
        serve_waiting(r);
        return;
    }
    if (is_backward(v->run) && g_str_has_prefix(said, "T02")) {
        on_left(v);
        serve_waiting(r);
        return;
    }
    if (!vm_find(r->vm, &error)) {
        fail(r, error);
        return;
    }
    if (v->server->client && is_backward(v->run) &&
        g_str_has_prefix(said, SHUT_DOWN)) {
        run_back_from_end(v);
        serve_waiting(r);
        return;
    }
    if (v->server->client && is_backward(v->run) && said[0] != 'E') {
        on_found(v, said);
        serve_waiting(r);
        return;
    }
    replay_view_note(v);
    over = ends_over(v, said);
    if (!v->server->client) {
        g_ptr_array_remove(r->views, v);
    } else if (said[0] == 'E') {
        gdb_server_print_error(v->server,
                               "QEMU cannot replay up to this place");
        stopped(v, GDB_STOP, replay_view_vcpu(v));
    } else if (g_str_has_prefix(said, SHUT_DOWN)) {
        r->end = v->place.icount;
        stopped_here(v, GDB_STOP_END);
    } else if ((over || is_early(v, said)) && !r->interrupting) {
        start_or_refuse(v);
    } else if (r->interrupting && !v->server->interrupted &&
               (g_str_has_prefix(said, "T02") || over || is_early(v, said))) {
        v->suspended = true;
    } else {
        pass_stop(v, said);
    }
    serve_waiting(r);
}

static gboolean on_stub(gint fd, GIOCondition condition, gpointer opaque)
{
    struct replay_target *r = opaque;
    g_autofree char *said = NULL;
    GError *error = NULL;

    if (!stub_stopped(vm_stub(r->vm), 0, &said, &error)) {
        r->stub_source = 0;
        fail(r, error);
        return G_SOURCE_REMOVE;
    }
    if (said && r->running) {
        on_stop(r, said);
    }
    return G_SOURCE_CONTINUE;
}

/* Serves what has come while the guest ran. */
static void serve_waiting(struct replay_target *r)
{
    for (unsigned i = 0; i < r->views->len && !r->running; i++) {
        struct replay_view *v = g_ptr_array_index(r->views, i);

        if (v->waiting) {
            v->waiting = false;
            serve(v);
        }
    }
    wait_for_quiet(r);
}

/* Takes one vCPU back to before its last instruction. */
static void step_back(struct replay_view *v, unsigned vcpu)
{
    struct replay_target *r = v->r;
    GError *error = NULL;
    uint64_t last = 0;
    bool any = turns_last(vm_turns(r->vm), vcpu, v->place.icount,
                          &last);

    if (!any && !v->place.icount) {
        stopped(v, GDB_STOP_BEGIN, vcpu);
    } else if (!go_back_to(v, last, &error)) {
        r->current = NULL;
        replay_view_refuse(v, error);
    } else {
        replay_view_note(v);
        stopped(v, any ? GDB_STOP : GDB_STOP_BEGIN, vcpu);
    }
}

/* Where the way back has led to in the trace */
struct passed {
    struct replay_target *r;
    struct where where;
    uint64_t pc;
};

static bool maps(void *opaque, unsigned home)
{
    const struct passed *p = opaque;
    const struct symbolizer_where at = where_record(&p->where);

    return process_symbols_maps(p->r->symbols, p->where.process, &at, p->pc,
                                home);
}

/* Is a breakpoint not of another process than that of a vCPU? */
static bool is_wanted(void *opaque, unsigned vcpu,
                      const struct past_place *place, uint64_t pc)
{
    struct replay_view *v = opaque;
    struct passed p = { v->r, { .vcpu = vcpu, .at = *place }, pc };

    return pc >= ADDRESS_SHARED ||
           !trace_index_add_process(v->r->trace, &p.where) ||
           gdb_server_wants(v->server, pc, maps, &p);
}

/* By the trace; false if it does not have what is needed for that */
static bool run_back_by_trace(struct replay_view *v)
{
    const struct past_filter filter = { is_wanted, v };
    struct replay_target *r = v->r;
    enum past_answer found;
    GError *error = NULL;

    if (!r->trace || !r->trace->history) {
        return false;
    }
    v->reverse = v->reverse ?: reverse_new(r->trace->history);
    found = reverse_continue(r->vm, v->reverse, v->server->breakpoints,
                             &v->place, &filter, &error);
    if (error) {
        replay_view_refuse(v, error);
        return true;
    }
    if (found == PAST_UNKNOWN) {
        return false;
    }
    r->current = v;
    replay_view_note(v);
    stopped_here(v, found == PAST_FOUND ? GDB_STOP : GDB_STOP_BEGIN);
    return true;
}

/* Ends a run back at a place, if the next instruction there meets anything. */
static bool try_stop_at(struct replay_view *v, uint64_t icount, bool *met,
                        GError **error)
{
    if (!go_back_to(v, icount, error) || !stop_at_watchpoint(v, met, error)) {
        return false;
    }
    if (!*met && at_breakpoint(v)) {
        *met = true;
        replay_view_note(v);
        stopped_here(v, GDB_STOP);
    }
    return true;
}

/*
 * QEMU's own way back leaves out the instruction before the one where the guest
 * is.  It cannot begin at the end: as it replays up to there, the guest shuts
 * down.
 */
static void run_back(struct replay_view *v)
{
    struct replay_target *r = v->r;
    uint64_t from = v->place.icount;
    GError *error = NULL;
    bool met, ok;

    if (!from) {
        stopped_here(v, GDB_STOP_BEGIN);
        return;
    }
    ok = try_stop_at(v, from - 1, &met, &error);
    while (ok && !met && from >= r->end && from > 1) {
        from = MIN(from - 1, r->end);
        ok = try_stop_at(v, from - 1, &met, &error);
    }
    if (!ok) {
        r->current = NULL;
        replay_view_refuse(v, error);
    } else if (!met) {
        r->current = NULL;
        v->begins = from;
        if (!run_back_by_trace(v)) {
            start_or_refuse(v);
        }
    }
}

/* It has shut down on QEMU's own way back, which has begun at the end. */
static void run_back_from_end(struct replay_view *v)
{
    struct replay_target *r = v->r;

    r->current = NULL;
    if (v->place.icount < r->end) {
        r->end = v->place.icount;
        begin_way(v, false);
        run_back(v);
        end_way(v);
    } else {
        replay_view_refuse(v, g_error_new(AGENT_ERROR, AGENT_ERROR_COMMAND,
                                          "the guest has shut down on the way "
                                          "back"));
    }
}

/*
 * What it has written is in no recording; but it may have been written for a
 * call of a function.
 */
static bool begin_diversion(struct replay_view *v, bool *diverted,
                            GError **error)
{
    struct replay_target *r = v->r;
    enum diversion diversion = DIVERSION_NONE;
    unsigned vcpu = 0;

    if (r->current == v &&
        !diversion_find(r->vm, &v->place, v->server->breakpoints, &diversion,
                        &vcpu, error)) {
        return false;
    }
    *diverted = diversion == DIVERSION_CALL;
    if (*diverted) {
        v->hold_ms = SHARED_CALL_MS;
        g_clear_handle_id(&r->hold_source, g_source_remove);
        r->hold_source = g_timeout_add(CALL_MS, on_held, r);
        return vm_divert(r->vm, vcpu, error);
    }
    if (diversion == DIVERSION_NONE && r->current == v &&
        vm_written(r->vm, NULL) && !vm_diverted(r->vm)) {
        gdb_server_print_error(v->server, "what was written is undone: a "
                               "replay goes on as it was recorded"
                               BRANCH_INSTEAD);
    }
    replay_view_take_back(v);
    return diversion == DIVERSION_NONE ||
           agent_fail(error, AGENT_ERROR_COMMAND, "a replay cannot go on "
                      "elsewhere than it was recorded" BRANCH_INSTEAD);
}

/*
 * The log says whose turn it is, so that no vCPU can run alone.
 */
static void run_forward(struct replay_view *v, int steps)
{
    GError *error = NULL;
    bool diverted;

    v->steps = steps;
    v->run = steps < 0 ? g_strdup(CONTINUE) : step_request(steps);
    if (!begin_diversion(v, &diverted, &error)) {
        replay_view_refuse(v, error);
    } else if (v->place.icount >= v->r->end && !diverted) {
        stopped_here(v, GDB_STOP_END);
    } else {
        start_or_refuse(v);
    }
}

void replay_view_step(void *opaque, uint64_t thread, bool forward)
{
    ((struct replay_view *)opaque)->shown = UINT64_MAX;
    if (forward) {
        run_forward(opaque, thread - 1);
    } else {
        step_back(opaque, thread - 1);
    }
}

void replay_view_go_on(void *opaque, uint64_t thread, bool forward)
{
    struct replay_view *v = opaque;

    v->shown = UINT64_MAX;
    if (forward) {
        run_forward(v, -1);
    } else {
        v->steps = -1;
        v->run = g_strdup("bc");
        run_back(v);
    }
}

/* Has another one a request, while the guest goes a way for this one? */
static bool others_wait(const struct replay_view *v)
{
    const struct replay_target *r = v->r;

    for (unsigned i = 0; i < r->views->len; i++) {
        const struct replay_view *other = g_ptr_array_index(r->views, i);

        if (other != v && other->server->client &&
            (other->waiting || client_has_sent(other->server->client))) {
            return true;
        }
    }
    return false;
}

bool replay_target_goes_on(struct replay_target *r)
{
    struct replay_view *v = r->going;

    if (!v || !v->server->client) {
        return true;
    }
    if (!gdb_server_wanted(v->server, false)) {
        return false;
    }
    r->yielded = !held_ms(v) && others_wait(v);
    return !r->yielded;
}

static void serve(struct replay_view *v)
{
    begin_way(v, true);
    gdb_server_serve(v->server);
    end_way(v);
}

void replay_view_ask(void *opaque)
{
    struct replay_view *v = opaque;
    struct replay_target *r = v->r;

    if (r->failed) {
        gdb_server_end(v->server);
    } else if (r->running) {
        v->waiting = true;
        interrupt(r);
    } else {
        serve(v);
        wait_for_quiet(r);
    }
}

/* A way that the guest goes asks for it. */
void replay_view_interrupt(void *opaque)
{
    struct replay_view *v = opaque;

    if (v == v->r->running) {
        interrupt(v->r);
    } else if (v->waiting || v->later || v->suspended) {
        /* What has been put off is not wanted any more. */
        v->waiting = v->later = false;
        end_run(v);
        gdb_server_fail(v->server, NULL);
    }
}

void replay_target_interrupt(struct replay_target *r, bool (*meant)(int sock))
{
    for (unsigned i = 0; i < r->views->len; i++) {
        struct replay_view *v = g_ptr_array_index(r->views, i);

        if (v->server->client &&
            (v == r->going || v->server->search || v->later) &&
            meant(client_in(v->server->client))) {
            gdb_server_interrupt(v->server);
        }
    }
}

void replay_view_left(void *opaque)
{
    struct replay_view *v = opaque;
    struct replay_target *r = v->r;

    v->waiting = v->later = false;
    if (v == r->running) {
        interrupt(r);
    } else {
        g_ptr_array_remove(r->views, v);
    }
}

struct replay_target *replay_target_new(struct vm *vm,
                                void (*ended)(void *opaque,
                                              const GError *error),
                                void *opaque)
{
    struct replay_target *r = g_new0(struct replay_target, 1);

    r->vm = vm;
    r->ended = ended;
    r->opaque = opaque;
    r->end = UINT64_MAX;
    r->views = g_ptr_array_new_with_free_func((GDestroyNotify)free_view);
    r->stub_source = g_unix_fd_add(stub_fd(vm_stub(vm)), G_IO_IN,
                                   on_stub, r);
    return r;
}

void replay_target_set_trace(struct replay_target *r,
                             struct trace_index *trace)
{
    r->trace = trace;
}

void replay_target_set_symbols(struct replay_target *r,
                           struct process_symbols *symbols)
{
    r->symbols = symbols;
}

void replay_target_free(struct replay_target *r)
{
    if (r) {
        if (r->stub_source) {
            g_source_remove(r->stub_source);
        }
        if (r->quiet_source) {
            g_source_remove(r->quiet_source);
        }
        g_clear_handle_id(&r->hold_source, g_source_remove);
        g_ptr_array_unref(r->views);
        vm_free(r->vm);
        g_free(r);
    }
}
