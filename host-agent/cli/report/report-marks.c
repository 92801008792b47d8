/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report --marks: see report.h
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/find/find.h"
#include "cli/report/report.h"
#include "cli/table.h"
#include "find/mark-sums.h"
#include "util/json.h"

/**
 * struct marking
 * @marks:  of each thread, with readers of its own
 * @orders: of each thread, for the times of marks
 */
struct marking {
    struct find_options o;
    struct finder *finder;
    struct marks **marks;
    struct clock_order **orders;
    struct mark_sums *sums;
};

/* The process that has left a mark, as other reports name it; with the finder
 * locked */
static void name_process(struct marking *m, const struct visit *visit,
                         const char **comm, int64_t *pid)
{
    struct btrail_batch b = visit_batch(visit), part = { .count = 0 };
    struct task task;

    if (symbolizer_part(m->o.in.names, visit->at.vcpu, &b, &part, &task)) {
        *comm = task.process->comm;
        *pid = task.process->pid;
    } else {
        *comm = NAME_UNKNOWN;
        *pid = -1;
    }
}

static void add_mark(void *opaque, unsigned worker, const struct visit *visit)
{
    struct marking *m = opaque;
    const struct btrail_batch b = visit_batch(visit);
    struct moment at = visit->at;
    struct marks_found found;
    const char *comm;
    int64_t pid;
    bool is_mark;

    finder_lock(m->finder);
    is_mark = marks_at(m->marks[worker], at.vcpu, &b, &found.mark);
    if (is_mark) {
        name_process(m, visit, &comm, &pid);
    }
    finder_unlock(m->finder);
    if (is_mark) {
        found.known = marks_value(m->marks[worker], at.vcpu, &b, &found.mark,
                                  &found.value);
        clock_order_stamp(m->orders[worker], &at);
        mark_sums_add(m->sums, worker, &found, comm, pid, &at);
    }
}

static bool open_marks(struct marking *m, GError **error)
{
    m->marks = g_new0(struct marks *, m->o.threads);
    m->orders = g_new0(struct clock_order *, m->o.threads);
    for (unsigned i = 0; i < m->o.threads; i++) {
        m->orders[i] = clock_order_new(m->o.in.trace.trace,
                                       m->o.in.trace.tick);
        m->marks[i] = marks_new(m->o.in.trace.trace, m->o.in.names, error);
        if (!m->marks[i]) {
            return false;
        }
    }
    return true;
}

static void close_marks(struct marking *m)
{
    for (unsigned i = 0; m->marks && i < m->o.threads; i++) {
        marks_free(m->marks[i]);
        clock_order_free(m->orders[i]);
    }
    g_clear_pointer(&m->marks, g_free);
    g_clear_pointer(&m->orders, g_free);
    g_clear_pointer(&m->sums, mark_sums_free);
    g_clear_pointer(&m->finder, finder_free);
}

/* Adds up all marks with some threads.  @whole: no limit was reached */
static bool add_marks(struct marking *m, unsigned threads, bool *whole,
                      GError **error)
{
    bool ok;

    m->o.threads = threads;
    m->finder = finder_new(&m->o, error);
    if (!m->finder || !open_marks(m, error)) {
        return false;
    }
    m->sums = mark_sums_new(threads, MARK_SUMS_ROWS, MARK_SUMS_VALUES);
    ok = finder_each(m->finder, add_mark, m, error);
    *whole = ok && mark_sums_finish(m->sums);
    return ok;
}

/* The time that find prints of a moment; 0 if it is not known */
static uint64_t time_of(const struct marking *m, const struct moment *at)
{
    return at->time.host ? clock_order_time(m->orders[0], at) : 0;
}

static JsonObject *moment_json(const struct report *r,
                               const struct marking *marking,
                               const struct moment *at)
{
    const struct tally_moment m = {
        time_of(marking, at), at->vcpu, at->index,
    };

    return report_moment_json(r, &m);
}

static JsonObject *row_json(const struct report *r, const struct marking *m,
                            const struct mark_sum *s)
{
    JsonObject *o = btrail_json_new("s:name", s->name, "s:comm", s->comm,
                                    "U:count", s->count, NULL);

    if (s->pid >= 0) {
        json_object_set_int_member(o, "pid", s->pid);
    }
    if (s->valued) {
        btrail_json_add(o, "U:known", s->known, NULL);
    }
    if (s->known) {
        btrail_json_add(o, "X:smallest", s->smallest, "X:largest", s->largest,
                        NULL);
    }
    if (s->known && s->exact) {
        btrail_json_add(o, "X:median", s->median, NULL);
    } else if (s->known) {
        json_object_set_null_member(o, "median");
    }
    btrail_json_add(o, "o:first", moment_json(r, m, &s->first), "o:last",
                    moment_json(r, m, &s->last), NULL);
    return o;
}

static void print_json(const struct report *r, const struct marking *m)
{
    const struct mark_sums *sums = m->sums;
    JsonArray *rows = json_array_new();
    const struct mark_sum *s;

    for (size_t i = 0; (s = mark_sums_get(sums, i)); i++) {
        json_array_add_object_element(rows, row_json(r, m, s));
    }
    cli_print_json(btrail_json_new("U:marks", mark_sums_marks(sums),
                                   "U:other_marks", mark_sums_others(sums),
                                   "a:rows", rows, NULL));
}

/* "-" if there is no such number, "?" if it is not known */
static const char *value_text(const struct mark_sum *s, uint64_t value,
                              bool exact, char buf[CLI_TIME_SIZE])
{
    if (!s->valued) {
        return "-";
    }
    if (!s->known || !exact) {
        return "?";
    }
    g_snprintf(buf, CLI_TIME_SIZE, "%" PRIu64, value);
    return buf;
}

static void add_row(const struct report *r, const struct marking *m,
                    GPtrArray *table, const struct mark_sum *s)
{
    char buf[5][CLI_TIME_SIZE];
    g_autofree char *count = g_strdup_printf("%" PRIu64, s->count);
    g_autofree char *known = s->valued ? g_strdup_printf("%" PRIu64, s->known) :
                             g_strdup("-");
    g_autofree char *process = s->pid >= 0 ?
        g_strdup_printf("%s %" PRId64, s->comm, s->pid) : g_strdup(s->comm);

    cli_table_add(table, count, known,
                  value_text(s, s->smallest, true, buf[0]),
                  value_text(s, s->median, s->exact, buf[1]),
                  value_text(s, s->largest, true, buf[2]),
                  cli_format_time(&r->in.trace, time_of(m, &s->first), buf[3]),
                  cli_format_time(&r->in.trace, time_of(m, &s->last), buf[4]),
                  process, s->name, NULL);
}

static void print_text(const struct report *r, const struct marking *m)
{
    const struct mark_sums *sums = m->sums;
    uint64_t all = mark_sums_marks(sums), rest = mark_sums_others(sums);
    GPtrArray *table = cli_table_new("# count", "known", "smallest", "median",
                                     "largest", "first (s)", "last (s)",
                                     "process", "mark", NULL);
    const struct mark_sum *s;
    size_t i = 0, more = 0;
    bool dropped = false;

    for (; (s = mark_sums_get(sums, i)); i++) {
        if (!report_shows(r, i, report_share(s->count, all))) {
            break;
        }
        add_row(r, m, table, s);
        dropped |= s->known && !s->exact;
    }
    for (; (s = mark_sums_get(sums, i)); i++, more++) {
        rest += s->count;
    }
    cli_printf("# %" PRIu64 " marks\n", all);
    cli_table_print(table);
    if (more) {
        cli_printf("# %" PRIu64 " marks in %zu more rows; --min-share=0 "
                   "--top=0 shows them\n", rest - mark_sums_others(sums), more);
    }
    if (mark_sums_others(sums)) {
        cli_printf("# %" PRIu64 " marks of more names and processes than %u\n",
                   mark_sums_others(sums), MARK_SUMS_ROWS);
    }
    if (dropped) {
        cli_printf("# a median of '?' is of more than %u values, which are too "
                   "many to keep\n", MARK_SUMS_VALUES);
    }
}

int report_marks(struct report *r)
{
    struct marking m = { .o = { .in = r->in } };
    g_autoptr(GError) error = NULL;
    int code = CLI_FAILED;
    bool ok, whole = false;

    if (!find_event_parse("mark:", &m.o.what, &error)) {
        cli_error("%s", error->message);
        return CLI_FAILED;
    }
    ok = add_marks(&m, r->threads, &whole, &error);
    if (ok && !whole && r->threads > 1) {
        close_marks(&m);
        ok = add_marks(&m, 1, &whole, &error);
    }
    if (!ok) {
        cli_error("%s: %s", r->in.trace.path, error->message);
    } else {
        (r->json ? print_json : print_text)(r, &m);
        r->damage = finder_damage(m.finder);
        code = analysis_chosen(&r->in, mark_sums_marks(m.sums), NULL);
    }
    close_marks(&m);
    find_event_clear(&m.o.what);
    return code;
}
