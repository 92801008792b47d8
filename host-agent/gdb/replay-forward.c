/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The way of a view forward: see replay-view.h
 */

#include "gdb/diversion.h"
#include "gdb/replay-parts.h"

/* For how long a debugger's call of a function runs; and if others wait */
#define CALL_MS         10000
#define SHARED_CALL_MS  200

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
        replay_target_stop_in(r, CALL_MS);
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
    v->run = steps < 0 ? g_strdup(CONTINUE) : replay_view_step_request(steps);
    if (!begin_diversion(v, &diverted, &error)) {
        replay_view_refuse(v, error);
    } else if (v->place.icount >= v->r->end && !diverted) {
        replay_view_stopped_here(v, GDB_STOP_END);
    } else {
        replay_view_start(v);
    }
}

void replay_view_step(void *opaque, uint64_t thread, bool forward)
{
    ((struct replay_view *)opaque)->shown = UINT64_MAX;
    if (forward) {
        run_forward(opaque, thread - 1);
    } else {
        replay_view_step_back(opaque, thread - 1);
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
        replay_view_run_back(v);
    }
}
