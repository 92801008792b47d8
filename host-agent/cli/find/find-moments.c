/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail find: the moments that the options choose
 */

#include <string.h>

#include "cli/find/find.h"
#include "replay/guest-output.h"

/**
 * struct finder
 * @wanted, @visits: of code
 * @switches:        of task switches, and wake-ups
 * @place, @placed:  of a single moment; it was handed out
 * @output:          of a text that the guest writes, at counts of @past
 * @order:           of what is found
 * @records:         of moments that have none yet
 * @between:         of --between: records of each vCPU
 */
struct finder {
    struct find_options *o;
    struct find_target *wanted;
    struct visits *visits;
    struct switches *switches;
    struct find_moment place;
    bool placed;
    struct guest_output *output;
    struct past *past;
    struct clock_order *order;
    struct record_reader *records;
    struct range between[BTRAIL_MAX_VCPUS];
    struct within *inside;
    unsigned inside_vcpu;
};

/* The recording that a trace is one of, or NULL: what the guest has written is
 * known there. */
static struct recording *recording_of(const struct analysis *in)
{
    g_autofree char *folder = g_path_get_dirname(in->trace.path);
    g_autofree char *name = g_path_get_basename(in->trace.path);

    return strcmp(name, RECORDING_TRACE) ? NULL : recording_open(folder, NULL);
}

/* The place of output is a number of instructions. */
static bool resolve_output(const struct analysis *in, struct find_place *place,
                           GError **error)
{
    struct recording *r = place->kind == FIND_PLACE_OUTPUT ? recording_of(in) :
                          NULL;
    uint64_t icount = 0;
    bool ok;

    if (!r) {
        return true;
    }
    ok = guest_output_find(r, place, &icount, error);
    if (ok) {
        find_place_clear(place);
        *place = (struct find_place) { FIND_PLACE_ICOUNT, icount };
    }
    recording_free(r);
    return ok;
}

bool find_moment_of(const struct analysis *in, struct find_place *place,
                    struct moment *at, GError **error)
{
    return resolve_output(in, place, error) &&
           find_place_find(place, in->trace.trace, in->names, at, error);
}

/* The moment of a place that a person has written */
static bool find_place(const struct find_options *o, const char *text,
                       struct moment *at, GError **error)
{
    struct find_place place;
    bool ok = find_place_parse(text, &place, error) &&
              find_moment_of(&o->in, &place, at, error);

    find_place_clear(&place);
    return ok;
}

static void limit(struct finder *f, unsigned vcpu, uint64_t begin,
                  uint64_t end)
{
    if (f->visits) {
        visits_limit(f->visits, vcpu, begin, end);
    }
    if (f->switches) {
        switches_limit(f->switches, vcpu, begin, end);
    }
}

/* The index at which a vCPU gets to a time, or where its stream ends */
static uint64_t index_at(const struct finder *f, unsigned vcpu, uint64_t host)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t index = UINT64_MAX;

    if (btrail_cursor_open(&cursor, f->o->in.trace.trace, vcpu,
                           BTRAIL_CURSOR_EVENTS_ONLY)) {
        return index;
    }
    if (!btrail_cursor_seek_time(cursor, host) &&
        !btrail_cursor_next(cursor, &b)) {
        index = b.index;
    }
    btrail_cursor_close(cursor);
    return index;
}

/* Which records of a vCPU can count at all, so that others are not read */
static void limit_vcpu(struct finder *f, unsigned vcpu, const bool *vcpus)
{
    const struct window *w = &f->o->in.window;
    uint64_t begin = 0, end = UINT64_MAX;

    /* --while is about the other vCPUs. */
    if ((vcpus && !vcpus[vcpu]) || (f->inside && vcpu == f->inside_vcpu)) {
        limit(f, vcpu, 0, 0);
        return;
    }
    if (w->begin) {
        begin = index_at(f, vcpu, w->start + w->begin);
        begin -= MIN(begin, 1);
    }
    if (w->end != UINT64_MAX) {
        end = index_at(f, vcpu, w->start + w->end);
    }
    if (f->o->between) {
        begin = MAX(begin, f->between[vcpu].begin);
        end = MIN(end, f->between[vcpu].end);
    }
    limit(f, vcpu, begin, end);
}

static void set_limits(struct finder *f)
{
    struct btrail_stream_info info;
    bool vcpus[BTRAIL_MAX_VCPUS] = { false };
    /* analysis_parse() has checked it. */
    const char *list = f->o->in.cpu_text;

    if (list) {
        cli_parse_vcpus("--cpu", list, vcpus);
    }
    for (unsigned i = 0; !btrail_trace_stream(f->o->in.trace.trace, i, &info);
         i++) {
        limit_vcpu(f, info.vcpu, list ? vcpus : NULL);
    }
}

/* Which records are from A to before B */
static bool find_between(struct finder *f, GError **error)
{
    const struct find_options *o = f->o;
    struct btrail_stream_info info;
    struct moment begin, end;

    if (!o->between) {
        return true;
    }
    if (!find_place(o, o->between[0], &begin, error) ||
        !find_place(o, o->between[1], &end, error)) {
        return false;
    }
    for (unsigned i = 0; !btrail_trace_stream(o->in.trace.trace, i, &info);
         i++) {
        f->between[info.vcpu] = (struct range) {
            clock_order_at(f->order, info.vcpu, &begin),
            clock_order_at(f->order, info.vcpu, &end),
        };
    }
    return true;
}

static bool find_meanwhile(struct finder *f, GError **error)
{
    const struct find_options *o = f->o;
    g_autofree char *process = NULL, *function = NULL;

    if (!o->meanwhile) {
        return true;
    }
    if (!within_parse(o->meanwhile, &f->inside_vcpu, &process, &function,
                      error)) {
        return false;
    }
    f->inside = within_new(o->in.trace.trace, o->in.names, f->inside_vcpu,
                           process, function, o->in.trace.tick, error);
    return f->inside;
}

/* A text without a number is each time that the guest writes it. */
static bool open_place(struct finder *f, GError **error)
{
    struct find_options *o = f->o;
    struct find_place *place = &o->what.place;
    struct recording *r = place->kind == FIND_PLACE_OUTPUT && !place->one ?
                          recording_of(&o->in) : NULL;

    if (!r) {
        return find_moment_of(&o->in, place, &f->place.visit.at, error);
    }
    f->output = guest_output_open(r, place->name, place->length, error);
    recording_free(r);
    f->past = f->output ? past_new(o->in.trace.trace) : NULL;
    return f->past ||
           (f->output && agent_fail(error, AGENT_ERROR_COMMAND, "the trace has "
                                    "no instruction counts"));
}

/* Opens what has the moments. */
static bool open_source(struct finder *f, GError **error)
{
    struct find_options *o = f->o;
    const struct btrail_trace *trace = o->in.trace.trace;
    const struct switches_wanted wanted = {
        o->what.kind == FIND_EVENT_WAKE, o->what.from, o->what.name,
        o->what.why,
    };

    switch (o->what.kind) {
    case FIND_EVENT_PLACE:
        return open_place(f, error);
    case FIND_EVENT_SWITCH:
    case FIND_EVENT_WAKE:
        f->switches = switches_new(trace, &wanted, error);
        return f->switches;
    default:
        f->wanted = find_event_target(&o->what, trace, o->in.names, error);
        f->visits = f->wanted ? visits_new(trace, o->in.names, f->wanted,
                                           error) : NULL;
        return f->visits;
    }
}

struct finder *finder_new(struct find_options *o, GError **error)
{
    struct finder *f = g_new0(struct finder, 1);

    f->o = o;
    f->order = clock_order_new(o->in.trace.trace, o->in.trace.tick);
    f->records = record_reader_new(o->in.trace.trace);
    if (!find_between(f, error) || !find_meanwhile(f, error) ||
        !open_source(f, error)) {
        finder_free(f);
        return NULL;
    }
    set_limits(f);
    return f;
}

void finder_free(struct finder *f)
{
    if (f) {
        within_free(f->inside);
        switches_free(f->switches);
        guest_output_free(f->output);
        past_free(f->past);
        visits_free(f->visits);
        find_target_free(f->wanted);
        clock_order_free(f->order);
        record_reader_free(f->records);
        g_free(f);
    }
}

/* The record is that of the task that the moment is about. */
static bool has_own_record(const struct finder *f)
{
    return f->o->what.kind == FIND_EVENT_WAKE ||
           find_event_is_from(&f->o->what);
}

static bool filter_accepts(const struct finder *f,
                           const struct find_moment *found)
{
    const struct analysis *in = &f->o->in;
    const struct visit *v = &found->visit;
    struct btrail_batch b = visit_batch(v), part = { .count = 0 };
    struct place from, to;
    struct task task;
    struct named_record r = {
        .vcpu = v->at.vcpu, .index = v->at.index,
        .time = window_time(&in->window, v->at.time.host),
        .from = v->record.from, .to = v->record.to, .from_place = &from,
        .to_place = &to, .lines = in->names,
    };

    if (found->switches && find_event_is_from(&f->o->what) &&
        found->from.known) {
        b.task = found->from;
    }
    if (!symbolizer_part(in->names, v->at.vcpu, &b, &part, &task)) {
        return false;
    }
    r.process = task.process;
    r.certainty = r.from < ADDRESS_SHARED ? task.user : task.kernel;
    symbolizer_place(in->names, task.process, &task.where, r.from, &from);
    symbolizer_target(in->names, task.process, &task.where, r.to, &to);
    return filter_matches(in->filter, &r);
}

static bool is_between(const struct finder *f, const struct moment *at)
{
    const struct range *r = &f->between[at->vcpu];

    return !f->o->between || (at->index >= r->begin && at->index < r->end);
}

/* Where a vCPU is meanwhile is known by the counts of records, if they have
 * any: a switch has that of the record before it. */
static bool is_inside(struct finder *f, const struct find_moment *found,
                      GError **error)
{
    struct moment at = found->visit.at;
    struct visit visit;

    if (!at.exact && at.icount != BTRAIL_NO_ICOUNT &&
        !record_reader_at(f->records, at.vcpu, at.index, &visit)) {
        at = visit.at;
    }
    return within_has(f->inside, clock_order_key(f->order, &at), error);
}

static bool accepts(struct finder *f, const struct find_moment *found,
                    GError **error)
{
    const struct find_options *o = f->o;
    const struct moment *at = &found->visit.at;

    if (!window_has(&o->in.window, at->time.host) ||
        (f->inside && at->vcpu == f->inside_vcpu)) {
        return false;
    }
    if (!is_between(f, at) || (o->in.filter && !filter_accepts(f, found))) {
        return false;
    }
    return !f->inside || is_inside(f, found, error);
}

/* The record that a moment is after, if it is not known yet */
static void read_record(const struct finder *f, struct find_moment *found)
{
    const struct moment *at = &found->visit.at;

    found->has_record |= !record_reader_at(f->records, at->vcpu, at->index,
                                           &found->visit);
}

void finder_complete(const struct finder *f, struct find_moment *found)
{
    const struct moment at = found->visit.at;
    bool own = found->switches && has_own_record(f);

    if (!found->has_record && (own || at.icount != BTRAIL_NO_ICOUNT)) {
        read_record(f, found);
        found->has_record &= own;
        found->visit.at.task = at.task;
        found->visit.at.time = own ? at.time : found->visit.at.time;
    }
}

/* The trace need not have all that the recording has. */
static bool read_output(struct finder *f, struct find_moment *found,
                        GError **error)
{
    uint64_t icount;

    do {
        if (!guest_output_next(f->output, &icount, error)) {
            return false;
        }
    } while (!find_place_count(f->past, f->o->in.trace.trace, icount,
                               &found->visit.at));
    read_record(f, found);
    return true;
}

/* The next one that has a moment */
static bool read_next(struct finder *f, struct find_moment *found,
                      GError **error)
{
    struct task_switch s;

    memset(found, 0, sizeof(*found));
    if (f->visits) {
        found->has_record = true;
        return visits_next(f->visits, &found->visit, error);
    }
    if (f->switches) {
        if (!switches_next(f->switches, &s, error)) {
            return false;
        }
        found->visit.at = s.at;
        found->switches = true;
        found->from = s.from;
        found->left = s.left;
        found->woken = s.woken;
        g_strlcpy(found->name, s.name, sizeof(found->name));
        if (f->o->in.filter && has_own_record(f)) {
            finder_complete(f, found);
        }
        return true;
    }
    if (f->output) {
        return read_output(f, found, error);
    }
    *found = f->place;
    if (f->placed) {
        return false;
    }
    f->placed = true;
    read_record(f, found);
    return true;
}

bool finder_next(struct finder *f, struct find_moment *found, GError **error)
{
    g_autoptr(GError) local = NULL;

    while (read_next(f, found, &local)) {
        if (accepts(f, found, &local)) {
            return true;
        }
        if (local) {
            break;
        }
    }
    if (local) {
        g_propagate_error(error, g_steal_pointer(&local));
    }
    return false;
}

bool finder_goes_back(const struct finder *f)
{
    return f->visits && !f->inside;
}

bool finder_previous(struct finder *f, struct find_moment *found,
                     GError **error)
{
    g_autoptr(GError) local = NULL;

    memset(found, 0, sizeof(*found));
    found->has_record = true;
    while (visits_previous(f->visits, &found->visit, &local)) {
        if (accepts(f, found, &local)) {
            return true;
        }
    }
    if (local) {
        g_propagate_error(error, g_steal_pointer(&local));
    }
    return false;
}

/* What finder_each() calls */
struct each {
    struct finder *f;
    visits_fn *fn;
    void *opaque;
};

static void take_visit(void *opaque, unsigned worker,
                       const struct visit *visit)
{
    struct each *each = opaque;
    struct finder *f = each->f;
    struct find_moment found = { .visit = *visit, .has_record = true };
    bool ok;

    if (f->o->in.filter) {
        visits_lock(f->visits);
        ok = accepts(f, &found, NULL);
        visits_unlock(f->visits);
    } else {
        ok = accepts(f, &found, NULL);
    }
    if (ok) {
        each->fn(each->opaque, worker, visit);
    }
}

bool finder_has_threads(const struct finder *f)
{
    return finder_goes_back(f);
}

bool finder_each(struct finder *f, visits_fn *fn, void *opaque,
                 GError **error)
{
    struct each each = { f, fn, opaque };

    return visits_each(f->visits, f->o->threads, take_visit, &each, error);
}

void finder_lock(struct finder *f)
{
    visits_lock(f->visits);
}

void finder_unlock(struct finder *f)
{
    visits_unlock(f->visits);
}

const char *finder_missing(const struct finder *f)
{
    return f->wanted ? f->wanted->missing : NULL;
}

uint64_t finder_unknown(const struct finder *f)
{
    return f->switches ? switches_unknown(f->switches) : 0;
}

uint64_t finder_damage(const struct finder *f)
{
    return f->visits ? visits_damage(f->visits) : 0;
}
