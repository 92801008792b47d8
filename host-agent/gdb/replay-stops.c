/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the guest of a replay stops: see replay-parts.h
 */

#include <string.h>

#include "gdb/replay-parts.h"

/* The guest has shut down, which is where the recording ends. */
#define SHUT_DOWN       "T03"
/* It is about to do what a call of a function cannot. */
#define REFUSED         "T11"

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

void replay_view_pass_stop(struct replay_view *v, const char *said)
{
    g_autofree char *hit = vm_watchpoint(said), *how = NULL;
    unsigned vcpu = replay_view_vcpu(v);

    stopped_by(v->r, said, &vcpu);
    how = g_strdup_printf("T%.2s%s%s", said + 1, hit ? hit : "",
                          hit ? ";" : "");
    replay_view_stopped(v, how, vcpu);
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
           replay_view_vcpu_meets(v, vcpu);
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
        replay_view_pass_stop(v, said);
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
               !replay_view_vcpu_meets(v, vcpu);
        v->steps = -1;
    }
    return over;
}

void replay_target_stopped(struct replay_target *r, const char *said)
{
    struct replay_view *v = r->running;
    GError *error = NULL;
    bool over;

    r->running = NULL;
    g_clear_handle_id(&r->hold_source, g_source_remove);
    if (said[0] == 'W' || said[0] == 'X') {
        replay_target_fail(r, g_error_new(AGENT_ERROR, AGENT_ERROR_CLOSED,
                                          "QEMU has ended"));
        return;
    }
    if (vm_diverted(r->vm)) {
        on_call_stopped(v, said);
        replay_target_serve(r);
        return;
    }
    if (replay_view_is_backward(v->run) && g_str_has_prefix(said, "T02")) {
        replay_view_back_left(v);
        replay_target_serve(r);
        return;
    }
    if (!vm_find(r->vm, &error)) {
        replay_target_fail(r, error);
        return;
    }
    if (v->server->client && replay_view_is_backward(v->run) &&
        g_str_has_prefix(said, SHUT_DOWN)) {
        replay_view_back_from_end(v);
        replay_target_serve(r);
        return;
    }
    if (v->server->client && replay_view_is_backward(v->run) &&
        said[0] != 'E') {
        replay_view_back_found(v, said);
        replay_target_serve(r);
        return;
    }
    replay_view_note(v);
    over = ends_over(v, said);
    if (!v->server->client) {
        g_ptr_array_remove(r->views, v);
    } else if (said[0] == 'E') {
        gdb_server_print_error(v->server,
                               "QEMU cannot replay up to this place");
        replay_view_stopped(v, GDB_STOP, replay_view_vcpu(v));
    } else if (g_str_has_prefix(said, SHUT_DOWN)) {
        r->end = v->place.icount;
        replay_view_stopped_here(v, GDB_STOP_END);
    } else if ((over || is_early(v, said)) && !r->interrupting) {
        replay_view_start(v);
    } else if (r->interrupting && !v->server->interrupted &&
               (g_str_has_prefix(said, "T02") || over || is_early(v, said))) {
        v->suspended = true;
    } else {
        replay_view_pass_stop(v, said);
    }
    replay_target_serve(r);
}
