/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * --between: see between.h
 */

#include <inttypes.h>
#include <string.h>

#include "cli/between.h"

static const char *const pairs[] = {
    [SPANS_THREAD] = "thread", [SPANS_VALUE] = "value", [SPANS_ANY] = "any",
};

const char *between_pair_name(unsigned i)
{
    return i < G_N_ELEMENTS(pairs) ? pairs[i] : NULL;
}

static bool parse_pair(struct between *b)
{
    bool places = b->whats[0].kind == FIND_EVENT_PLACE &&
                  b->whats[1].kind == FIND_EVENT_PLACE;

    if (!b->pair_text) {
        b->pair = places ? SPANS_ANY : SPANS_THREAD;
        return true;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(pairs); i++) {
        if (!strcmp(b->pair_text, pairs[i])) {
            b->pair = i;
            return true;
        }
    }
    cli_error("--pair: '%s' is not thread, value or any", b->pair_text);
    return false;
}

static bool has_value(const struct find_event *what)
{
    return what->kind == FIND_EVENT_MARK ||
           (what->kind == FIND_EVENT_PLACE &&
            what->place.kind == FIND_PLACE_MARK);
}

static bool parse_whats(struct between *b)
{
    g_autoptr(GError) error = NULL;

    for (unsigned i = 0; i < 2; i++) {
        if (!find_event_parse(b->texts[i], &b->whats[i], &error)) {
            cli_error("--between: %s", error->message);
            return false;
        }
    }
    if (!parse_pair(b)) {
        return false;
    }
    if (b->pair == SPANS_VALUE &&
        (!has_value(&b->whats[0]) || !has_value(&b->whats[1]))) {
        cli_error("--pair=value needs marks; '%s' is none",
                  b->texts[has_value(&b->whats[0])]);
        return false;
    }
    return true;
}

bool between_parse(struct between *b, int *argc, char ***argv)
{
    if (!b->given) {
        if (b->pair_text) {
            cli_error("--pair needs --between");
        }
        return !b->pair_text;
    }
    if (*argc < 4) {
        cli_error("--between needs A and B before the files");
        return false;
    }
    for (unsigned i = 0; i < 2; i++) {
        b->texts[i] = g_strdup((*argv)[i + 1]);
    }
    *argv += 2;
    *argc -= 2;
    return parse_whats(b);
}

void between_copy(struct between *to, const struct between *from)
{
    *to = (struct between) { .given = from->given, .pair = from->pair };
    for (unsigned i = 0; from->given && i < 2; i++) {
        to->texts[i] = g_strdup(from->texts[i]);
        /* It was parsed before. */
        find_event_parse(to->texts[i], &to->whats[i], NULL);
    }
}

void between_clear(struct between *b)
{
    for (unsigned i = 0; i < 2; i++) {
        g_free(b->texts[i]);
        find_event_clear(&b->whats[i]);
    }
    g_free(b->pair_text);
    spans_free(b->spans);
    record_set_free(b->set);
    times_free(b->times);
    pauses_free(b->pauses);
}

/* The task that a moment is of: that which leaves or wakes if the words say
 * "from" or "by", and otherwise that which is switched to or woken */
static struct btrail_task task_of(const struct find_event *what,
                                  const struct find_moment *found)
{
    struct btrail_task woken = {
        .known = found->woken.known, .kernel = found->woken.kernel,
        .tid = found->woken.tid, .pid = found->woken.pid,
    };

    if (what->kind == FIND_EVENT_WAKE && !find_event_is_from(what)) {
        g_strlcpy(woken.name, found->name, sizeof(woken.name));
        return woken;
    }
    return what->kind == FIND_EVENT_SWITCH && find_event_is_from(what) ?
           found->from : found->visit.at.task;
}

/* Adds a moment, with the value of its mark.  False if there are too many. */
static bool add_moment(struct between *b, bool begin, struct marks *marks,
                       const struct find_moment *found)
{
    const struct btrail_batch batch = visit_batch(&found->visit);
    struct moment own = found->visit.at;
    const struct moment *at = &own;
    struct marks_found mark;
    bool known = found->has_record && !found->switches &&
                 marks_read(marks, at->vcpu, &batch, &mark) && mark.known;

    own.task = task_of(&b->whats[!begin], found);
    return spans_add(b->spans, begin, at, found->visit.cr3,
                     known ? &mark.value : NULL);
}

static bool add_all(struct between *b, bool begin, struct finder *f,
                    struct marks *marks, GError **error)
{
    g_autoptr(GError) local = NULL;
    struct find_moment found;

    while (finder_next(f, &found, &local)) {
        finder_complete(f, &found);
        if (!add_moment(b, begin, marks, &found)) {
            return agent_fail(error, AGENT_ERROR_COMMAND,
                              "'%s' happens more than %u times; choose "
                              "a part of the trace with --time",
                              b->texts[!begin], SPANS_MAX_POINTS);
        }
    }
    if (local) {
        g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    return true;
}

/* Finds all moments A or B. */
static bool read_moments(struct between *b, bool begin,
                         const struct analysis *in, bool filtered,
                         GError **error)
{
    struct find_options o = {
        .in = *in, .what = b->whats[!begin], .threads = 1,
    };
    struct marks *marks = NULL;
    struct finder *f;
    bool ok;

    if (!filtered) {
        o.in.filter = NULL;
        o.in.cpu_text = NULL;
    }
    f = finder_new(&o, error);
    ok = f && (marks = marks_new(in->trace.trace, in->names, error)) &&
         add_all(b, begin, f, marks, error);
    if (f) {
        b->damage += finder_damage(f);
    }
    marks_free(marks);
    finder_free(f);
    return ok;
}

bool between_read(struct between *b, const struct analysis *in, bool filtered,
                  bool count)
{
    g_autoptr(GError) error = NULL;

    b->spans = spans_new(in->trace.trace, in->trace.tick, b->pair);
    if (!read_moments(b, true, in, filtered, &error) ||
        !read_moments(b, false, in, false, &error)) {
        cli_error("%s: %s", in->trace.path, error->message);
        return false;
    }
    spans_pair(b->spans);
    if (count && !b->set) {
        b->pauses = cli_trace_pauses(&in->trace, &b->pauses_known);
        if (!b->pauses) {
            return false;
        }
    }
    if (count && !spans_count(b->spans, b->set, b->pauses, &error)) {
        cli_error("%s: %s", in->trace.path, error->message);
        return false;
    }
    return true;
}

static struct times *times_of(const struct spans *spans,
                              const struct window *window)
{
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE,
                                        sizeof(struct times_span));
    const struct span *span;

    for (size_t i = 0; (span = spans_get(spans, i)); i++) {
        if (span->end) {
            const struct times_span time = span_time(span);

            g_array_append_val(all, time);
        }
    }
    return times_new(window, all);
}

bool between_select(struct between *b, struct analysis *in)
{
    b->set = record_set_new();
    in->within = between_read(b, in, false, true);
    return in->within;
}

bool between_restrict(struct between *b, struct analysis *in)
{
    if (!between_select(b, in)) {
        return false;
    }
    in->filter = filter_within(in->filter, b->set);
    in->times = b->times = times_of(b->spans, &in->window);
    in->whole = b->pair == SPANS_ANY;
    return true;
}
