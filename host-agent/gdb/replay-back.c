/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The way of a view back: see replay-parts.h
 */

#include "gdb/replay-parts.h"
#include "gdb/reverse.h"

/* Takes the guest one instruction back. */
static bool go_back(struct replay_view *v, GError **error)
{
    return replay_view_go(v, v->place.icount - 1, error);
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
        replay_view_stopped_here(v, how);
    }
    return true;
}

/*
 * Is the breakpoint that QEMU has met after an exception or an interrupt?  That
 * is no instruction, and QEMU can be before it at the same count.
 */
static bool meets_breakpoint(struct replay_view *v, GError **error)
{
    struct vm *t = v->r->vm;

    return vm_step(t, vm_place(t)->vcpu, error) &&
           vm_place(t)->icount == v->place.icount && replay_view_meets(v);
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
        replay_view_stopped_here(v, GDB_STOP);
        return true;
    }
    if (agent_is_cancelled(local)) {
        g_propagate_error(error, local);
        return false;
    }
    g_clear_error(&local);
    if (!go_back(v, error) || !stop_at_watchpoint(v, &watched, error) ||
        (!watched && (!replay_view_go(v, v->place.icount, error) ||
                      !stop_at_watchpoint(v, &watched, error)))) {
        return false;
    }
    if (!watched) {
        r->current = NULL;
        replay_view_pass_stop(v, said);
    }
    return true;
}

/* The same on QEMU's own way back: continues to where that vCPU's turn is. */
static bool leave_early(struct replay_view *v, GError **error)
{
    struct vm *t = v->r->vm;

    for (unsigned i = 0; i < vm_vcpus(t); i++) {
        uint64_t next = replay_view_vcpu_meets(v, i) ?
            turns_next(vm_turns(t), i, vm_place(t)->icount) :
            UINT64_MAX;

        if (i != vm_place(t)->vcpu && next != UINT64_MAX) {
            return vm_go_vcpu(t, next, i, vm_place(t)->pcs[i], error);
        }
    }
    return true;
}

void replay_view_back_left(struct replay_view *v)
{
    struct replay_target *r = v->r;
    uint64_t began = v->begins;
    GError *error = NULL;

    r->current = NULL;
    if (!vm_leave_search(r->vm, &v->begins, &error)) {
        replay_target_fail(r, error);
        return;
    }
    if (v->begins < began) {
        v->hold_ms = 0;
    } else {
        replay_view_hold(v);
    }
    if (!v->server->client) {
        g_ptr_array_remove(r->views, v);
    } else if (v->server->interrupted) {
        replay_view_stopped(v, GDB_STOP_INTERRUPTED, replay_view_vcpu(v));
    } else {
        v->suspended = true;
    }
}

/* QEMU's own way back has come to its end. */
static bool end_way_back(struct replay_view *v, const char *said,
                         GError **error)
{
    bool there = replay_view_meets(v);

    if (!there && !leave_early(v, error)) {
        return false;
    }
    replay_view_note(v);
    if (!v->place.icount && g_str_has_prefix(said, "T05")) {
        replay_view_stopped_here(v, GDB_STOP_BEGIN);
    } else if (!there && !replay_view_meets(v)) {
        return stop_after_watchpoint(v, said, error);
    } else {
        replay_view_stopped_here(v, GDB_STOP);
    }
    return true;
}

void replay_view_back_found(struct replay_view *v, const char *said)
{
    struct replay_target *r = v->r;
    struct vm_place from = v->place;
    uint64_t found = vm_place(r->vm)->icount;
    GError *error = NULL;

    replay_view_begin_way(v, false);
    if (!end_way_back(v, said, &error)) {
        /* It is found again. */
        v->place = from;
        v->begins = MIN(v->begins, found + 1);
        r->current = NULL;
        replay_view_refuse(v, error);
    }
    replay_view_end_way(v);
}

void replay_view_step_back(struct replay_view *v, unsigned vcpu)
{
    struct replay_target *r = v->r;
    GError *error = NULL;
    uint64_t last = 0;
    bool any = turns_last(vm_turns(r->vm), vcpu, v->place.icount,
                          &last);

    if (!any && !v->place.icount) {
        replay_view_stopped(v, GDB_STOP_BEGIN, vcpu);
    } else if (!replay_view_go(v, last, &error)) {
        r->current = NULL;
        replay_view_refuse(v, error);
    } else {
        replay_view_note(v);
        replay_view_stopped(v, any ? GDB_STOP : GDB_STOP_BEGIN, vcpu);
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
    replay_view_stopped_here(v, found == PAST_FOUND ? GDB_STOP :
                                GDB_STOP_BEGIN);
    return true;
}

/* Ends a run back at a place, if the next instruction there meets anything. */
static bool try_stop_at(struct replay_view *v, uint64_t icount, bool *met,
                        GError **error)
{
    if (!replay_view_go(v, icount, error) ||
        !stop_at_watchpoint(v, met, error)) {
        return false;
    }
    if (!*met && replay_view_meets(v)) {
        *met = true;
        replay_view_note(v);
        replay_view_stopped_here(v, GDB_STOP);
    }
    return true;
}

void replay_view_run_back(struct replay_view *v)
{
    struct replay_target *r = v->r;
    uint64_t from = v->place.icount;
    GError *error = NULL;
    bool met, ok;

    if (!from) {
        replay_view_stopped_here(v, GDB_STOP_BEGIN);
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
            replay_view_start(v);
        }
    }
}

void replay_view_back_from_end(struct replay_view *v)
{
    struct replay_target *r = v->r;

    r->current = NULL;
    if (v->place.icount < r->end) {
        r->end = v->place.icount;
        replay_view_begin_way(v, false);
        replay_view_run_back(v);
        replay_view_end_way(v);
    } else {
        replay_view_refuse(v, g_error_new(AGENT_ERROR, AGENT_ERROR_COMMAND,
                                          "the guest has shut down on the way "
                                          "back"));
    }
}
