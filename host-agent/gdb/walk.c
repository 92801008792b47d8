/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk through a trace: see walk.h
 */

#include <inttypes.h>
#include <string.h>

#include "find/guest-time.h"
#include "gdb/walk-lanes.h"
#include "gdb/walk.h"
#include "util/quote.h"

/*
 * How many records are read for the space of a task that ends, and how many at
 * once
 */
#define FAR     (1u << 16)
#define PIECE   1024

static void free_thread(gpointer opaque)
{
    struct walk_thread *t = opaque;

    walk_window_free(t->window);
    walker_free(t->walker);
    g_free(t);
}

static void add_thread(struct walk *w, uint64_t id, int vcpu,
                       const struct btrail_task *task, struct lane *lane)
{
    struct walk_thread *t = g_new0(struct walk_thread, 1);

    t->id = id;
    t->vcpu = vcpu;
    if (task) {
        t->pid = task->pid;
        g_strlcpy(t->name, task->name, sizeof(t->name));
    }
    t->walker = walker_new(w->trace, w->symbols, lane);
    g_ptr_array_add(w->threads, t);
}

static bool add_process(struct walk *w, const char *process, GError **error)
{
    GArray *lanes = walk_lanes(w->trace, process, error);
    g_autoptr(GHashTable) before = g_hash_table_new(NULL, NULL);

    for (unsigned i = 0; lanes && i < lanes->len; i++) {
        struct walk_lane *l = &g_array_index(lanes, struct walk_lane, i);
        gpointer tid = GSIZE_TO_POINTER(l->task.tid);
        gsize n = GPOINTER_TO_SIZE(g_hash_table_lookup(before, tid));

        g_hash_table_insert(before, tid, GSIZE_TO_POINTER(n + 1));
        add_thread(w, l->task.tid + n * WALK_ID_AGAIN, -1, &l->task,
                   lane_new(w->trace, w->symbols, g_array_ref(l->runs)));
    }
    g_clear_pointer(&lanes, g_array_unref);
    return w->threads->len;
}

static bool add_vcpus(struct walk *w, int vcpu, GError **error)
{
    struct btrail_stream_info info;

    for (unsigned i = 0; !btrail_trace_stream(w->trace, i, &info); i++) {
        struct lane *lane = vcpu < 0 || info.vcpu == (unsigned)vcpu ?
            lane_new_vcpu(w->trace, w->symbols, info.vcpu) : NULL;

        if (lane) {
            add_thread(w, info.vcpu + 1, info.vcpu, NULL, lane);
        }
    }
    return w->threads->len ||
           (vcpu < 0 ?
            agent_fail(error, AGENT_ERROR_COMMAND,
                       "the trace has no records") :
            agent_fail(error, AGENT_ERROR_COMMAND,
                       "the trace has no records of vCPU %d", vcpu));
}

/* Where a thread is, to be compared with others */
static struct moment moment_of(const struct walk *w,
                               const struct walk_thread *t)
{
    struct moment m = walk_moment(t->walker);

    clock_order_stamp(w->order, &m);
    return m;
}

/* Takes a thread to its end. */
static bool go_to_end(struct walk_thread *t)
{
    const GArray *runs = lane_runs(walker_lane(t->walker));
    const struct lane_run *last = &g_array_index(runs, struct lane_run,
                                                 runs->len - 1);
    const struct walker_spot spot = { { runs->len - 1, last->end - 1 }, 0 };

    return walker_go(t->walker, &spot);
}

/* At the end of the one that has run last */
static bool begin(struct walk *w, GError **error)
{
    struct moment last;

    for (unsigned i = 0; i < w->threads->len; i++) {
        struct walk_thread *t = g_ptr_array_index(w->threads, i);
        struct moment m;

        if (go_to_end(t)) {
            m = moment_of(w, t);
            if (!w->current || moment_compare(&m, &last) > 0) {
                w->current = t;
                last = m;
            }
        }
    }
    if (!w->current) {
        return agent_fail(error, AGENT_ERROR_COMMAND,
                          "the trace is damaged at its end");
    }
    walk_moved(w, w->current);
    return true;
}

struct walk *walk_new(const struct btrail_trace *trace,
                      struct symbolizer *symbols,
                      const struct walk_options *options, GError **error)
{
    struct walk *w = g_new0(struct walk, 1);

    w->trace = trace;
    w->symbols = symbols;
    w->tsc_hz = guest_time_hz(trace);
    w->threads = g_ptr_array_new_with_free_func(free_thread);
    w->edges = stack_edges_new(symbols, 0);
    w->order = clock_order_of(trace);
    if (!(options->process ? add_process(w, options->process, error) :
                             add_vcpus(w, options->vcpu, error)) ||
        !begin(w, error)) {
        walk_free(w);
        return NULL;
    }
    return w;
}

void walk_free(struct walk *w)
{
    if (w) {
        g_ptr_array_unref(w->threads);
        stack_edges_free(w->edges);
        clock_order_free(w->order);
        g_free(w);
    }
}

struct walk_thread *walk_thread(const struct walk *w, uint64_t id)
{
    for (unsigned i = 0; i < w->threads->len; i++) {
        struct walk_thread *t = g_ptr_array_index(w->threads, i);

        if (t->id == id) {
            return t;
        }
    }
    return NULL;
}

struct moment walk_moment(const struct walker *w)
{
    const struct lane_record *r = walker_record(w);
    struct moment m;

    if (!r) {
        return (struct moment) { .icount = BTRAIL_NO_ICOUNT };
    }
    m = (struct moment) {
        .vcpu = r->vcpu, .index = r->at.index, .time = r->time,
        .task = r->task,
        .icount = btrail_record_icount(&r->record, &r->time),
    };

    m.exact = m.icount != BTRAIL_NO_ICOUNT;
    if (!m.exact) {
        m.icount = r->time.icount;
    }
    return m;
}

struct walker *walk_walker(struct walk *w, struct walk_thread *t)
{
    if (t->moves != w->moves) {
        const struct moment m = moment_of(w, w->current);
        const struct walker_spot spot = {
            lane_find(walker_lane(t->walker), &m), 0,
        };

        walker_go(t->walker, &spot);
        t->moves = w->moves;
    }
    return t->walker;
}

void walk_moved(struct walk *w, struct walk_thread *t)
{
    t->moves = ++w->moves;
    w->current = t;
}

/* Has it made the record? */
static bool has_record(const struct walk_thread *t, const struct moment *m)
{
    const GArray *runs = lane_runs(walker_lane(t->walker));
    struct lane_at at = lane_find(walker_lane(t->walker), m);

    return at.index == m->index &&
           g_array_index(runs, struct lane_run, at.run).vcpu == m->vcpu;
}

void walk_go(struct walk *w, const struct moment *m)
{
    struct walk_thread *best = NULL;
    struct moment last;
    bool best_later = false;
    struct walker_spot spot = { { 0, 0 }, 0 };
    struct moment wanted = *m;

    clock_order_stamp(w->order, &wanted);
    for (unsigned i = 0; i < w->threads->len; i++) {
        struct walk_thread *t = g_ptr_array_index(w->threads, i);
        struct walker_spot at = {
            lane_find(walker_lane(t->walker), &wanted), 0,
        };
        struct moment there;
        bool later;

        if (has_record(t, &wanted)) {
            best = t;
            spot = at;
            break;
        }
        if (!walker_go(t->walker, &at)) {
            continue;
        }
        there = moment_of(w, t);
        /* One that had not begun is where it begins. */
        later = moment_compare(&there, &wanted) > 0;
        if (!best || (later == best_later ?
                      (moment_compare(&there, &last) > 0) != later : !later)) {
            best = t;
            best_later = later;
            spot = at;
            last = there;
        }
    }
    if (best && walker_go(best->walker, &spot)) {
        walk_moved(w, best);
    }
}

char *walk_describe(struct walk *w, struct walk_thread *t)
{
    struct walker *walker = walk_walker(w, t);
    g_autofree char *name = NULL;

    if (t->vcpu < 0) {
        name = btrail_quote(t->name, "");
        return g_strdup_printf("%s %" PRIu32 "/%" PRIu64, name, t->pid, t->id);
    }
    if (walker_spot(walker)) {
        const struct lane_record *r = walker_next_record(walker) ?:
                                      walker_record(walker);

        if (r->task.known) {
            name = btrail_quote(r->task.name, "");
            return g_strdup_printf("vCPU %d: %s %" PRIu32 "/%" PRIu32, t->vcpu,
                                   name, r->task.pid, r->task.tid);
        }
        name = btrail_quote(r->process->comm, "");
        return g_strdup_printf("vCPU %d: %s", t->vcpu, name);
    }
    return g_strdup_printf("vCPU %d", t->vcpu);
}

enum walker_answer walk_search(struct walk *w, struct walk_thread *only,
                               const uint64_t *addresses, size_t n,
                               bool forward, bool (*go_on)(void *opaque),
                               void *opaque)
{
    const struct walker_spot *here = walker_spot(w->current->walker);
    const struct walker_spot none = { { 0, 0 }, 0 };
    const struct walker_spot begin = here ? *here : none;
    struct walk_thread *from = w->current, *best = NULL;
    enum walker_answer answer, result = WALKER_END;
    struct moment nearest;

    for (unsigned i = 0; i < w->threads->len; i++) {
        struct walk_thread *t = g_ptr_array_index(w->threads, i);
        struct walker *walker = only && t != only ? NULL : walk_walker(w, t);
        struct moment m;

        if (!walker || !walker_spot(walker)) {
            continue;
        }
        answer = walker_search(walker, addresses, n, forward, go_on, opaque);
        if (answer == WALKER_INTERRUPTED) {
            result = answer;
            break;
        }
        m = moment_of(w, t);
        /*
         * Those that came to an end only count if none has found it, and there
         * is nothing more after the last one of them only.
         */
        if (!best || (answer == WALKER_FOUND && result != WALKER_FOUND) ||
            (answer == result &&
             (moment_compare(&m, &nearest) < 0) ==
             (forward == (answer == WALKER_FOUND)))) {
            best = t;
            nearest = m;
            result = answer;
        }
    }
    if (result == WALKER_INTERRUPTED) {
        best = from;
        walker_go(from->walker, &begin);
    }
    if (best) {
        walk_moved(w, best);
    }
    return result;
}

/*
 * Are the page tables in force those of a thread's process?  Its program runs
 * with no others, whoever owns them.
 */
static bool is_own(const struct walk_thread *t, const struct walk_space *space)
{
    const struct process *owner = space->process->owner;
    uint64_t root = btrail_cr3_root(space->where.cr3);

    return space->pc < ADDRESS_SHARED ||
           (owner->seen && owner->pid == t->pid &&
            (root == btrail_cr3_root(owner->seen->pgd) ||
             root == btrail_cr3_root(owner->seen->user_pgd)));
}

/*
 * Are files known there?  Of a process that no snapshot has found with its
 * program, it is only the one that code is of which others ran, too.
 */
static bool has_files(struct symbolizer *symbols,
                      const struct walk_space *space)
{
    struct place place;

    if (space->process->owner->seen) {
        return true;
    }
    symbolizer_place(symbols, space->process, &space->where, space->pc, &place);
    return place.function->module->elf;
}

/* Of some records, the last one up to @i that a program has made; or -1 */
static ssize_t last_of_program(const struct lane_record *records, ssize_t i)
{
    while (i >= 0 && records[i].record.from >= ADDRESS_SHARED) {
        i--;
    }
    return i;
}

void walk_own_space(struct symbolizer *symbols, const struct walk_thread *t,
                    const struct lane_at *at, struct walk_space *space)
{
    struct lane *lane = walker_lane(t->walker);
    struct lane_at from = *at;
    bool any = t->vcpu >= 0 || is_own(t, space);
    bool found = t->vcpu >= 0 || (any && has_files(symbols, space));
    ssize_t here = 1;

    for (size_t read = 0; !found && here > 0 && read < FAR; read += PIECE) {
        GArray *records = lane_read(lane, &from, PIECE, 0, &here);
        const struct lane_record *r = (const void *)records->data;
        uint64_t page = 0;

        for (ssize_t i = last_of_program(r, here); !found && i >= 0;
             i = last_of_program(r, i - 1)) {
            const struct walk_space own = {
                r[i].process, lane_where(&r[i]), r[i].record.from,
            };

            if (!any || own.pc / BTRAIL_CODE_PAGE_SIZE != page) {
                page = own.pc / BTRAIL_CODE_PAGE_SIZE;
                found = has_files(symbols, &own);
            }
            if (found || !any) {
                *space = own;
                any = true;
            }
        }
        if (here > 0) {
            from = r->at;
        }
        lane_release(lane, records);
    }
    if (!any) {
        space->process = NULL;
    }
}

size_t walk_read(struct walk *w, struct walk_thread *t, uint64_t address,
                 void *buf, size_t n)
{
    struct walker *walker = walk_walker(w, t);
    const struct walker_spot *spot = walker_spot(walker);
    size_t got = spot && t->window && walk_window_has(t->window, spot) ?
                 walk_window_read(t->window, address, buf, n) : 0;
    struct walk_space space;

    if (got || !spot) {
        return got;
    }
    space = (struct walk_space) {
        walker_process(walker), walker_where(walker), walker_pc(walker),
    };
    if (address < ADDRESS_SHARED) {
        walk_own_space(w->symbols, t, &spot->at, &space);
        if (!space.process) {
            return 0;
        }
    }
    got = block_code(w->symbols, space.process, &space.where, address, buf, n);
    return got ?: symbolizer_constant(w->symbols, space.process, &space.where,
                                      address, buf, n);
}
