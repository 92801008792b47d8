/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail why: the calls that it is asked about
 */

#include <string.h>

#include "analyze/call-tracks.h"
#include "analyze/syscall-times.h"
#include "cli/why/why.h"
#include "find/record-reader.h"
#include "find/visits.h"

/* Calls are read from so long before the first one on, so that their callers in
 * the kernel are known, and at first for so long after the last one has begun,
 * and by what factor more, if one has not returned */
#define BEFORE      UINT64_C(100000000)
#define AFTER       UINT64_C(100000000)
#define FURTHER     16

/* Host clocks between which some code may have begun to run; @begin is higher
 * if it did not */
struct call_ran {
    uint64_t begin;
    uint64_t end;
};

/* A call of a thread that the trace names */
static void add_call(struct why *why, const struct process *p, unsigned vcpu,
                     uint64_t begin, uint64_t end, uint64_t paused)
{
    struct why_span s = {
        .begin = { vcpu, THREAD_NO_INDEX, begin },
        .end = { vcpu, THREAD_NO_INDEX, end }, .paused = paused,
    };

    if (p && p->tid > 0 && p->pid >= 0) {
        s.task.known = true;
        s.task.pid = p->pid;
        s.task.tid = p->tid;
        s.task.nested = p->nested;
        g_strlcpy(s.task.name, p->comm, sizeof(s.task.name));
        why_add_span(why, &s);
    }
}

/**
 * struct call_search - what a call of a function needs
 * @read:    reads them
 * @in:      what of the trace is read
 * @kernel:  only calls of a function of the kernel count
 * @cut:     calls that have not returned in it
 */
struct call_search {
    int (*read)(struct call_search *search, struct closest *closest);
    struct why *why;
    struct analysis in;
    const char *name;
    const char *process;
    bool kernel;
    struct call_tracks *tracks;
    uint64_t cut;
};

static void on_begin(void *opaque, struct call_track *t, unsigned i)
{
}

static void on_end(void *opaque, struct call_track *t, unsigned i,
                   uint64_t time, bool cut)
{
    struct call_search *search = opaque;
    const struct call_slice *s = call_track_slice(t, i);

    if (!s->function || s->late ||
        (search->kernel && !s->function->module->kernel) ||
        (search->process && strcmp(search->process, s->process->comm))) {
        return;
    }
    search->cut += cut;
    if (!cut && t->thread) {
        add_call(search->why, s->process, s->vcpu, s->begin, time,
                 call_tracks_paused(search->tracks, t, i, time));
    }
}

/* Was any call found?  After an error message, if not */
static bool check_calls(const struct why *why, int ret, const char *what,
                        const char *name, const struct closest *closest)
{
    g_autofree char *hint = NULL;

    if (ret) {
        analysis_failed(&why->in, ret);
        return false;
    }
    if (!why->spans->len) {
        hint = closest->found && !closest->distance ? NULL :
               closest_hint(closest);
        cli_error("%s: no %s '%s' of a thread that the trace names was called "
                  "and has returned%s", why->in.trace.path, what, name,
                  hint ?: "");
    }
    return why->spans->len;
}

/* Reads the calls of a part of the trace. */
static int read_calls(struct call_search *search, struct closest *closest)
{
    static const struct call_tracks_ops ops = { on_begin, on_end, on_end };
    struct why *why = search->why;
    struct call_tree t;
    int ret;

    search->tracks = call_tracks_new(&(struct call_tracks_options) {
        .function = search->name, .depth = 1, .ops = &ops, .opaque = search,
        .pauses = why->pauses,
    });
    ret = analysis_read_calls(&search->in, &t, &call_tracks_tree_ops,
                              search->tracks);
    if (!ret) {
        call_tracks_end(search->tracks, why->in.trace.trace,
                        &search->in.window);
        why->damage = MAX(why->damage, t.damage);
        call_tree_clear(&t);
    }
    *closest = *call_tracks_closest(search->tracks);
    call_tracks_free(search->tracks);
    return ret;
}

/* The clock before a record; 0 if that is not known */
static uint64_t clock_before(const struct btrail_trace *trace, unsigned vcpu,
                             uint64_t index)
{
    struct visit visit;

    return record_read(trace, vcpu, index, &visit) ? 0 : visit.at.time.host;
}

/* Widens a time by that in which a vCPU may have run some code, as footprints
 * say.  False if that cannot be told. */
static bool add_ran(const struct btrail_trace *trace, unsigned vcpu,
                    const struct find_target *target, struct call_ran *ran)
{
    const struct candidates pieces = {
        .trace = trace, .vcpu = vcpu, .addresses = target->addresses,
        .blocks = true, .others = target->others[vcpu], .end = UINT64_MAX,
    };
    struct piece first, last;
    uint64_t begin, end;

    if (!candidates_next(&pieces, 0, &first) ||
        !candidates_previous(&pieces, UINT64_MAX, &last)) {
        return true;
    }
    begin = clock_before(trace, vcpu, first.begin);
    end = clock_before(trace, vcpu, last.end - 1);
    ran->begin = MIN(ran->begin, begin);
    ran->end = MAX(ran->end, end);
    return begin && end;
}

/* Takes the target. */
static bool target_ran(const struct btrail_trace *trace,
                       struct find_target *target, struct call_ran *ran)
{
    struct btrail_stream_info info;
    bool ok = true;

    *ran = (struct call_ran) { UINT64_MAX, 0 };
    for (unsigned i = 0; ok && !btrail_trace_stream(trace, i, &info); i++) {
        ok = add_ran(trace, info.vcpu, target, ran);
    }
    find_target_free(target);
    return ok;
}

/* When a function of the kernel, or one of a process, can have begun to run.
 * False if that is not known, or it is none. */
static bool find_ran(const struct why *why, const struct find_place *place,
                     struct call_ran *ran)
{
    const struct btrail_trace *trace = why->in.trace.trace;
    g_autoptr(GError) error = NULL;
    struct find_target *target = find_target_function(trace, why->in.names,
                                                      place->process,
                                                      place->name, &error);

    /* All tasks have names, and none that of the process. */
    *ran = (struct call_ran) { UINT64_MAX, 0 };
    return target ? target_ran(trace, target, ran) :
           place->process && g_error_matches(error, AGENT_ERROR,
                                             AGENT_ERROR_NAMES);
}

static uint64_t trace_end(const struct btrail_trace *trace)
{
    struct btrail_stream_info info;
    uint64_t end = 0;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        end = MAX(end, info.last_time);
    }
    return end;
}

/*
 * Reads calls from where they begin on, up to where all of them have returned:
 * what ran long before them does not say how long they took.
 */
static int read_ran(struct call_search *search, const struct call_ran *ran,
                    struct closest *closest)
{
    const struct window *whole = &search->why->in.window;
    uint64_t last = trace_end(search->why->in.trace.trace), back = AFTER, end;
    int ret;

    search->in.from = ran->begin - MIN(ran->begin, BEFORE);
    do {
        end = ran->end > UINT64_MAX - back ? UINT64_MAX : ran->end + back;
        back = back > UINT64_MAX / FURTHER ? UINT64_MAX : back * FURTHER;
        search->in.window.end = end >= last ? whole->end :
            MIN(whole->end, end - MIN(end, whole->start));
        search->cut = 0;
        why_clear_spans(search->why);
        ret = search->read(search, closest);
    } while (!ret && search->cut && search->in.window.end < whole->end &&
             end < last);
    return ret;
}

bool why_find_calls(struct why *why, const struct find_place *place)
{
    struct call_search search = {
        .read = read_calls, .why = why, .in = why->in, .name = place->name,
        .process = place->process,
    };
    struct closest closest = closest_to(place->name);
    struct call_ran ran;
    int ret = 0;
    bool found;

    if (find_target_is_known(why->in.names, place->name, &closest)) {
        found = find_ran(why, place, &ran);
        search.kernel = found && !place->process;
        if (!found) {
            ret = read_calls(&search, &closest);
        } else if (ran.begin <= ran.end) {
            ret = read_ran(&search, &ran, &closest);
        } else {
            closest_offer(&closest, place->name);
        }
    }
    return check_calls(why, ret, "function", place->name, &closest);
}

static void on_syscall(void *opaque, const struct syscall_time *s)
{
    struct call_search *search = opaque;

    search->cut += s->cut;
    if (!s->late && !s->cut) {
        add_call(search->why, s->process, s->vcpu, s->begin, s->end,
                 s->paused);
    }
}

static int read_syscalls(struct call_search *search, struct closest *closest)
{
    struct why *why = search->why;
    struct syscall_times *times = syscall_times_new(
        &(struct syscall_times_options) {
            .name = search->name, .ended = on_syscall, .opaque = search,
            .pauses = why->pauses,
        });
    struct call_tree t;
    int ret = analysis_read_calls(&search->in, &t, &syscall_times_tree_ops,
                                  times);

    if (!ret) {
        syscall_times_end(times, why->in.trace.trace, &search->in.window);
        why->damage = MAX(why->damage, t.damage);
        call_tree_clear(&t);
    }
    *closest = *syscall_times_closest(times);
    syscall_times_free(times);
    return ret;
}

/* When the functions of a system call have begun to run first and last: they
 * are always called, and where they begin.  They are those of the trace alone. */
static bool find_syscall_ran(const struct why *why, const char *name,
                             struct call_ran *ran, GError **error)
{
    const struct btrail_trace *trace = why->in.trace.trace;
    const struct find_event what = {
        .kind = FIND_EVENT_SYSCALL, .name = (char *)name,
    };
    struct find_target *target = find_event_target(&what, trace, why->in.names,
                                                   error);
    struct visits *v = target ? visits_new(trace, why->in.names, target,
                                           error) : NULL;
    g_autoptr(GError) local = NULL;
    struct visit visit;

    *ran = (struct call_ran) { UINT64_MAX, 0 };
    if (v && visits_next(v, &visit, &local)) {
        ran->begin = visit.at.time.host;
        visits_free(v);
        v = visits_new(trace, why->in.names, target, error);
        if (v && visits_previous(v, &visit, &local)) {
            ran->end = visit.at.time.host;
        }
    }
    visits_free(v);
    if (target) {
        find_target_free(target);
    }
    /* Of two vCPUs, the one whose clock is later can be the first. */
    return v && !local && (ran->begin == UINT64_MAX ||
                           (ran->begin && ran->end));
}

bool why_find_syscalls(struct why *why, const char *name)
{
    struct call_search search = {
        .read = read_syscalls, .why = why, .in = why->in, .name = name,
    };
    bool stated = why->in.map || why->in.vmlinux;
    g_autoptr(GError) error = NULL;
    struct closest closest = closest_to(name);
    struct call_ran ran;
    int ret = 0;

    if (stated || !find_syscall_ran(why, name, &ran, &error)) {
        ret = read_syscalls(&search, &closest);
    } else if (ran.begin <= ran.end) {
        ret = read_ran(&search, &ran, &closest);
    } else {
        closest_offer(&closest, name);
    }
    return check_calls(why, ret, "system call", name, &closest);
}
