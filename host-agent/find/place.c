/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places as people name them: see place.h
 */

#include <string.h>

#include "find/guest-time.h"
#include "find/place.h"
#include "find/process-runs.h"
#include "find/record-reader.h"
#include "lib/agent/meta.h"
#include "util/function-name.h"
#include "util/last-colon.h"
#include "util/parse.h"
#include "util/unquote.h"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

static bool library_failed(GError **error, int ret)
{
    return fail(error, "the trace: %s", btrail_strerror(ret));
}

/* Moves past a word and the blanks after it. */
static bool take_word(const char **text, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*text, word, len) || (*text)[len] != ' ') {
        return false;
    }
    *text += len + strspn(*text + len, " ");
    return true;
}

static bool parse_record(const char *text, struct find_place *p)
{
    const char *end;
    uint64_t vcpu = 0;

    if (*text == '@') {
        end = text;
    } else if (!parse_text_number(text, &end, &vcpu) || *end != ':' ||
               vcpu >= BTRAIL_MAX_VCPUS) {
        return false;
    }
    p->kind = FIND_PLACE_RECORD;
    p->vcpu = vcpu;
    return parse_text_number(end + 1, NULL, &p->number);
}

bool find_place_split(const char *text, char **process, char **function)
{
    const char *colon = last_colon(text);
    const char *name = colon ? colon + 1 : text;
    bool any = !colon || !strncmp(text, "kernel:", name - text);

    *process = *function = NULL;
    if (!function_name_valid(name) || colon == text) {
        return false;
    }
    *process = any ? NULL : g_strndup(text, colon - text);
    *function = g_strdup(name);
    return true;
}

static bool parse_exit(const char *text, struct find_place *p)
{
    if (!take_word(&text, "exit") || !take_word(&text, "of") || !*text) {
        return false;
    }
    p->kind = FIND_PLACE_EXIT;
    p->name = g_strdup(text);
    return true;
}

/* Cuts a number off that is after the last '#'.  False if it is 0. */
static char *cut_number(const char *text, uint64_t *number)
{
    const char *hash = strrchr(text, '#');

    *number = 1;
    return hash && parse_text_number(hash + 1, NULL, number) ?
           g_strndup(text, hash - text) : g_strdup(text);
}

/* A mark can have any name, so what is not a number belongs to it. */
static bool parse_mark(const char *text, struct find_place *p)
{
    bool first = take_word(&text, "first");
    g_autofree char *name = NULL;

    p->last = !first && take_word(&text, "last");
    name = cut_number(text, &p->number);
    p->kind = FIND_PLACE_MARK;
    p->one = first || p->last || strcmp(name, text);
    /* As for functions, a number of the last ones is not meant. */
    return mark_wanted_parse(name, &p->mark) && p->number &&
           (!(first || p->last) || !strcmp(name, text));
}

/* A name that begins like this is not meant. */
static bool is_output(const char *text)
{
    if (!take_word(&text, "first")) {
        take_word(&text, "last");
    }
    return take_word(&text, "output") && *text == '"';
}

static bool parse_output(const char *text, struct find_place *p)
{
    bool first = take_word(&text, "first"), numbered;

    p->last = !first && take_word(&text, "last");
    p->kind = FIND_PLACE_OUTPUT;
    p->number = 1;
    take_word(&text, "output");
    p->name = unquote(text, &text, &p->length);
    if (!p->name || !p->length) {
        return false;
    }
    numbered = *text == '#';
    p->one = first || p->last || numbered;
    return numbered ? !first && !p->last &&
                      parse_text_number(text + 1, NULL, &p->number) &&
                      p->number : !*text;
}

static bool parse_name(const char *text, struct find_place *p)
{
    bool first = take_word(&text, "first");
    g_autofree char *name = NULL;
    bool numbered;

    p->last = !first && take_word(&text, "last");
    name = cut_number(text, &p->number);
    numbered = strcmp(name, text);
    p->one = first || p->last || numbered;
    p->kind = FIND_PLACE_FUNCTION;
    if (!first && !p->last) {
        return p->number && find_place_split(name, &p->process, &p->name);
    }
    /*
     * This would mean one of these by its number, and there is no such thing.
     */
    if (numbered) {
        return false;
    }
    if (!strncmp(text, "exit ", strlen("exit "))) {
        return parse_exit(text, p);
    }
    if (!find_place_split(text, &p->process, &p->name)) {
        p->kind = FIND_PLACE_PROCESS;
        p->name = g_strdup(text);
    } else if (!strcmp(text, p->name)) {
        p->kind = FIND_PLACE_NAME;
    }
    return *p->name;
}

bool find_place_parse(const char *text, struct find_place *place,
                        GError **error)
{
    memset(place, 0, sizeof(*place));
    if (parse_text_number(text, NULL, &place->number)) {
        place->kind = FIND_PLACE_ICOUNT;
        return true;
    }
    if (is_output(text)) {
        if (parse_output(text, place)) {
            return true;
        }
    } else if (parse_text_time(text, NULL, &place->number)) {
        /* It has a point or a unit, or it would be a number. */
        place->kind = FIND_PLACE_TIME;
        return true;
    } else if (parse_record(text, place) || parse_mark(text, place) ||
               (!place->mark.name && parse_name(text, place))) {
        return true;
    }
    find_place_clear(place);
    return fail(error, "'%s' is not a place; there are a number of "
                "instructions (123456), a time of the guest (1.5s), a record "
                "(@N or VCPU:N), a function of the kernel (panic, panic#3, "
                "last panic) or of a process (PROCESS:FUNCTION), 'last "
                "PROCESS', 'last exit of PROCESS', a mark (mark:NAME), and "
                "what the guest writes to a serial port (output \"TEXT\")",
                text);
}

void find_place_clear(struct find_place *place)
{
    g_clear_pointer(&place->process, g_free);
    g_clear_pointer(&place->name, g_free);
    mark_wanted_clear(&place->mark);
}

static bool find_record(const struct btrail_trace *trace, unsigned vcpu,
                        uint64_t index, struct moment *at, GError **error)
{
    struct visit visit;
    int ret = record_read(trace, vcpu, index, &visit);

    if (ret == -BTRAIL_ERR_END) {
        return fail(error, "vCPU %u has no record %" G_GUINT64_FORMAT, vcpu,
                    index);
    }
    if (ret) {
        return library_failed(error, ret);
    }
    *at = visit.at;
    return true;
}

/* The host's clock at the session's start */
static uint64_t start_of(const struct btrail_trace *trace)
{
    unsigned bad;
    g_autoptr(JsonObject) meta = btrail_meta_read(trace, &bad);
    JsonObject *start = btrail_json_object(meta, "start");

    return start ? btrail_json_int(start, "monotonic", 0) : 0;
}

/*
 * When a TIME event was: with counts, the guest's time since power-on;
 * otherwise the host's since the session's start
 */
static uint64_t time_of(const struct btrail_time *time, uint64_t hz,
                        uint64_t start)
{
    return time->icount != BTRAIL_NO_ICOUNT ? guest_time_ns(time->tsc, hz) :
           time->host - MIN(start, time->host);
}

/* Of a vCPU, the first TIME event at which the clock has got there */
static bool find_time_of(const struct btrail_trace *trace, unsigned vcpu,
                         uint64_t ns, uint64_t hz, uint64_t start,
                         struct moment *at, bool *found, GError **error)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_cursor_open(&cursor, trace, vcpu,
                                 BTRAIL_CURSOR_EVENTS_ONLY);

    if (ret) {
        return library_failed(error, ret);
    }
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        if (b.event->type == BTRAIL_EVENT_TIME &&
            time_of(&b.time, hz, start) >= ns) {
            *at = (struct moment) {
                .vcpu = vcpu, .index = b.index ? b.index - 1 : 0,
                .icount = b.time.icount,
                .exact = b.time.icount != BTRAIL_NO_ICOUNT, .time = b.time,
                .task = b.task,
            };
            *found = true;
            break;
        }
    }
    btrail_cursor_close(cursor);
    return !ret || ret == -BTRAIL_ERR_END || library_failed(error, ret);
}

/* Any vCPU can be the first to get there: the others may wait. */
static bool find_time(const struct btrail_trace *trace, uint64_t ns,
                      struct moment *at, GError **error)
{
    const uint64_t hz = guest_time_hz(trace), start = start_of(trace);
    struct btrail_stream_info info;
    bool any = false;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        struct moment m;
        bool found = false;

        if (!find_time_of(trace, info.vcpu, ns, hz, start, &m, &found,
                          error)) {
            return false;
        }
        if (found && (!any || moment_compare(&m, at) < 0)) {
            *at = m;
        }
        any |= found;
    }
    return any || fail(error, "the trace is not that long");
}

/*
 * The Nth time, or the last one, that code runs.  Takes @wanted, which can be
 * NULL with an error.
 */
static bool find_wanted(const struct btrail_trace *trace,
                        struct symbolizer *symbols,
                        const struct find_place *p, const char *name,
                        struct find_target *wanted, struct moment *at,
                        GError **error)
{
    struct visits *v = wanted ? visits_new(trace, symbols, wanted, error) :
                       NULL;
    g_autoptr(GError) local = NULL;
    struct visit visit;
    uint64_t times = 0;

    if (v && p->last) {
        times = visits_previous(v, &visit, &local);
    }
    while (v && !p->last && times < p->number &&
           visits_next(v, &visit, &local)) {
        times++;
    }
    visits_free(v);
    if (v && !local && !times && wanted->missing) {
        fail(&local, "%s", wanted->missing);
    }
    find_target_free(wanted);
    if (local) {
        g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    if (!v) {
        return false;
    }
    if (!times || (!p->last && times < p->number)) {
        return fail(error, "%s runs %" G_GUINT64_FORMAT " times", name,
                    times);
    }
    *at = visit.at;
    return true;
}

static bool find_function(const struct btrail_trace *trace,
                          struct symbolizer *symbols,
                          const struct find_place *p, struct moment *at,
                          GError **error)
{
    return find_wanted(trace, symbols, p, p->name,
                       find_target_function(trace, symbols, p->process, p->name,
                                            error), at, error);
}

static bool find_mark(const struct btrail_trace *trace,
                      struct symbolizer *symbols, const struct find_place *p,
                      struct moment *at, GError **error)
{
    g_autofree char *name = g_strdup_printf("mark:%s", p->mark.name);

    return find_wanted(trace, symbols, p, name,
                       find_target_mark(trace, symbols, &p->mark, error), at,
                       error);
}

static bool find_process(const struct btrail_trace *trace,
                         const struct find_place *p, struct moment *at,
                         GError **error)
{
    return process_runs_find(trace, p->name, p->last ? PROCESS_RUN_LAST :
                             PROCESS_RUN_FIRST, at, error);
}

/* A function of the kernel, or else a process */
static bool find_name(const struct btrail_trace *trace,
                      const struct find_place *p, struct moment *at,
                      GError **error)
{
    g_autoptr(GError) local = NULL;

    if (find_function(trace, NULL, p, at, &local)) {
        return true;
    }
    if (g_error_matches(local, AGENT_ERROR, AGENT_ERROR_NAMES)) {
        return find_process(trace, p, at, error);
    }
    g_propagate_error(error, g_steal_pointer(&local));
    return false;
}

bool find_place_count(struct past *past, const struct btrail_trace *trace,
                      uint64_t icount, struct moment *at)
{
    struct btrail_stream_info info;
    bool any = false;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        struct past_place p;

        if (past_at(past, info.vcpu, icount, &p) &&
            (!any || p.count > at->icount)) {
            *at = (struct moment) {
                info.vcpu, p.index, p.count, true, p.time, p.task,
            };
            any = true;
        }
    }
    return any;
}

static bool find_icount(const struct btrail_trace *trace, uint64_t icount,
                        struct moment *at, GError **error)
{
    struct past *h = past_new(trace);
    bool found;

    if (!h) {
        return fail(error, "the trace has no instruction counts, and %"
                    G_GUINT64_FORMAT " is one; a time has a point or a unit, "
                    "as %" G_GUINT64_FORMAT "s has", icount, icount);
    }
    found = find_place_count(h, trace, icount, at);
    past_free(h);
    return found || fail(error, "the trace begins later");
}

bool find_place_find(const struct find_place *p,
                     const struct btrail_trace *trace,
                     struct symbolizer *symbols, struct moment *at,
                     GError **error)
{
    switch (p->kind) {
    case FIND_PLACE_ICOUNT:
        return find_icount(trace, p->number, at, error);
    case FIND_PLACE_TIME:
        return find_time(trace, p->number, at, error);
    case FIND_PLACE_RECORD:
        return find_record(trace, p->vcpu, p->number, at, error);
    case FIND_PLACE_FUNCTION:
        return find_function(trace, symbols, p, at, error);
    case FIND_PLACE_NAME:
        return find_name(trace, p, at, error);
    case FIND_PLACE_PROCESS:
        return find_process(trace, p, at, error);
    case FIND_PLACE_MARK:
        return find_mark(trace, symbols, p, at, error);
    case FIND_PLACE_OUTPUT:
        return fail(error, "a trace does not have what the guest has written; "
                    "its recording has: backtrail rr goto RECORDING 'output "
                    "\"TEXT\"'");
    default:
        return process_runs_find(trace, p->name, p->last ? PROCESS_EXIT_LAST :
                                 PROCESS_EXIT_FIRST, at, error);
    }
}

bool find_place_icount(const struct find_place *place,
                       const struct btrail_trace *trace,
                       struct symbolizer *symbols, uint64_t *icount,
                       bool *exact, GError **error)
{
    struct moment at;

    if (place->kind == FIND_PLACE_ICOUNT) {
        *icount = place->number;
        *exact = true;
        return true;
    }
    if (!trace) {
        return fail(error, "there is no trace yet to find this place in; "
                    "backtrail rr replay makes it");
    }
    if (!find_place_find(place, trace, symbols, &at, error)) {
        return false;
    }
    if (at.icount == BTRAIL_NO_ICOUNT) {
        return fail(error, "the trace has no instruction counts; it is not "
                    "one of a replay");
    }
    *icount = at.icount;
    *exact = at.exact;
    return true;
}
