/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The trace as the index of a replay: see trace-index.h
 */

#include <inttypes.h>

#include "find/guest-time.h"
#include "replay/trace-index.h"
#include "util/quote.h"

/* The most branches from one switch to the other */
#define SWITCH  64

struct trace_index *trace_index_new(const struct btrail_trace *trace,
                                    const struct turns *turns,
                                    const struct symbolizer_options *options,
                                    GError **error)
{
    struct trace_index *t = g_new0(struct trace_index, 1);

    t->trace = trace;
    t->turns = turns;
    t->tsc_hz = guest_time_hz(trace);
    t->symbols = symbolizer_new(options, trace, error);
    if (!t->symbols) {
        trace_index_free(t);
        return NULL;
    }
    t->history = past_new(trace);
    return t;
}

void trace_index_free(struct trace_index *t)
{
    if (t) {
        past_free(t->history);
        symbolizer_free(t->symbols);
        g_free(t);
    }
}

bool trace_index_where(struct trace_index *t, unsigned vcpu, uint64_t icount,
                       struct where *where)
{
    where->vcpu = vcpu;
    return t->history && past_at(t->history, vcpu, icount, &where->at) &&
           trace_index_add_process(t, where);
}

bool trace_index_add_process(struct trace_index *t, struct where *where)
{
    const struct btrail_record none = { 0 };
    struct btrail_batch part = { .count = 0 };
    struct task task;
    const struct btrail_batch b = {
        .records = &none, .count = 1, .index = where->at.index,
        .cr3 = where->at.cr3, .time = where->at.time, .task = where->at.task,
        .kernel = where->at.kernel,
    };

    if (!symbolizer_part(t->symbols, where->vcpu, &b, &part, &task)) {
        return false;
    }
    where->process = task.process;
    return true;
}

bool trace_index_running(struct trace_index *t, uint64_t icount,
                         struct where *where)
{
    return t->history &&
           trace_index_where(t, turns_vcpu(t->turns, icount), icount, where);
}

/* Does a process run in the address space of another one? */
static bool is_elsewhere(const struct process *p)
{
    return p && !p->kernel && p->pid >= 0 && p->owner->pid != p->pid;
}

/* Is another page table in force than those of its process? */
static bool is_away(const struct where *w)
{
    const struct btrail_process *seen =
        w->process && !w->process->kernel ? w->process->owner->seen : NULL;
    uint64_t root = btrail_cr3_root(w->at.cr3);

    return seen && root != btrail_cr3_root(seen->pgd) &&
           root != btrail_cr3_root(seen->user_pgd);
}

/* Is no process known that has the page table? */
static bool is_nobodys(const struct process *p)
{
    return p && !p->kernel && p->pid >= 0 && p->owner->pid < 0;
}

/*
 * The kernel switches to the next task's page table a few branches before it
 * switches to the task: back to where the last one's was in force.  That of a
 * task in no snapshot is nobody's, as far as is known.
 */
static void find_own(struct trace_index *t)
{
    const struct process *now = t->last.process;
    struct where own = t->last, nobodys = { .process = NULL };

    for (unsigned i = 0; i < SWITCH && is_elsewhere(own.process) &&
                         own.at.since; i++) {
        if (!trace_index_where(t, own.vcpu, own.at.since - 1, &own)) {
            own.process = NULL;
        } else if (!nobodys.process && now->owner->pid >= 0 &&
                   is_nobodys(own.process) && own.process->pid == now->pid) {
            nobodys = own;
        }
    }
    t->left = own.process && own.process != now &&
              !is_elsewhere(own.process) && own.process->pid == now->pid;
    if (!t->left && nobodys.process) {
        own = nobodys;
        t->left = true;
    }
    if (t->left) {
        t->last = own;
    }
    t->left |= is_away(&t->last);
}

const struct process *trace_index_process(struct trace_index *t,
                                          uint64_t icount)
{
    const struct past_place *at = &t->last.at;

    /* Another vCPU can run in between. */
    if (t->last.process && !t->turns &&
        icount >= at->since && icount < at->until) {
        t->left = is_away(&t->last);
        return t->last.process;
    }
    if (!trace_index_running(t, icount, &t->last)) {
        t->last.process = NULL;
    }
    find_own(t);
    return t->last.process;
}

struct symbolizer_where where_record(const struct where *where)
{
    return (struct symbolizer_where) {
        .vcpu = where->vcpu, .index = where->at.index, .cr3 = where->at.cr3,
        .time = where->at.time.host,
        .kernel = symbolizer_kernel(&where->at.kernel),
    };
}

char *where_owner(const struct btrail_task *task)
{
    g_autofree char *name = NULL;

    if (!task->known) {
        return NULL;
    }
    name = btrail_quote(task->name, "");
    return g_strdup_printf("%s %" PRIu32 "/%" PRIu32, name, task->pid,
                           task->tid);
}

char *where_task(const struct where *where)
{
    return where->at.task.known ? where_owner(&where->at.task) :
           btrail_quote(where->process->comm, "");
}

char *trace_index_name(struct trace_index *t, const struct where *where,
                       uint64_t address)
{
    const struct symbolizer_where at = where_record(where);
    g_autofree char *function = NULL, *module = NULL;
    struct place place;

    symbolizer_place(t->symbols, where->process, &at, address, &place);
    if (!place.function->known) {
        return NULL;
    }
    function = btrail_quote(place.function->name, "");
    module = btrail_quote(place.function->module->name, "");
    return g_strdup_printf("%s+0x%" PRIx64 " %s%s%s", function, place.offset,
                           *module == '[' ? "" : "[", module,
                           *module == '[' ? "" : "]");
}
