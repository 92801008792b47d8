/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Views of a replay: see replay-view.h
 */

#include <glib-unix.h>
#include <inttypes.h>
#include <string.h>

#include "gdb/replay-parts.h"
#include "gdb/reverse.h"

void replay_target_fail(struct replay_target *r, GError *error)
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

void replay_view_end_run(struct replay_view *v)
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

    if (replay_view_put_off(v, error)) {
        return;
    }
    if (agent_is_cancelled(error)) {
        /* It is on its way: it is taken back. */
        v->r->current = NULL;
    }
    replay_view_end_run(v);
    gdb_server_fail(v->server, error);
    if (fatal) {
        replay_target_fail(v->r, g_steal_pointer(&fatal));
    }
}

void replay_view_stopped(struct replay_view *v, const char *how, unsigned vcpu)
{
    replay_view_end_run(v);
    gdb_server_stopped(v->server, how, vcpu + 1);
}

void replay_view_stopped_here(struct replay_view *v, const char *how)
{
    replay_view_stopped(v, how, v->place.vcpu);
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

bool replay_view_go(struct replay_view *v, uint64_t icount, GError **error)
{
    GError *local = NULL;

    return replay_view_claim(v, error) &&
           (vm_go_icount(v->r->vm, icount, &local) ||
            is_end(v, local, error));
}

bool replay_view_vcpu_meets(struct replay_view *v, unsigned vcpu)
{
    return vm_at_breakpoint(v->r->vm, vcpu, v->server->breakpoints);
}

bool replay_view_meets(struct replay_view *v)
{
    return replay_view_vcpu_meets(v, vm_place(v->r->vm)->vcpu);
}

char *replay_view_step_request(unsigned vcpu)
{
    return g_strdup_printf("vCont;s:%x;c", vcpu + 1);
}

/* Lets the guest run for a view, whose @run is set. */
static bool start(struct replay_view *v, GError **error)
{
    struct replay_target *r = v->r;
    g_autofree char *step = NULL;

    if (!(replay_view_is_backward(v->run) ? claim_back(v, error) :
                                replay_view_claim(v, error)) ||
        !vm_set_breakpoints(r->vm, v->server->breakpoints, error)) {
        return false;
    }
    v->over = !strcmp(v->run, CONTINUE) && !vm_diverted(r->vm) &&
              replay_view_meets(v);
    if (v->over) {
        /* QEMU would not leave it. */
        v->steps = vm_place(r->vm)->vcpu;
        step = replay_view_step_request(v->steps);
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

void replay_view_start(struct replay_view *v)
{
    GError *error = NULL;

    if (!start(v, &error)) {
        replay_view_refuse(v, error);
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

static gboolean on_stub(gint fd, GIOCondition condition, gpointer opaque)
{
    struct replay_target *r = opaque;
    g_autofree char *said = NULL;
    GError *error = NULL;

    if (!stub_stopped(vm_stub(r->vm), 0, &said, &error)) {
        r->stub_source = 0;
        replay_target_fail(r, error);
        return G_SOURCE_REMOVE;
    }
    if (said && r->running) {
        replay_target_stopped(r, said);
    }
    return G_SOURCE_CONTINUE;
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
