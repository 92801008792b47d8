/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format perf: of branches whose stacks are known, each that
 * has a sample, as stackcollapse-perf.pl reads it
 *
 * Which have one follows from how many there are: of each vCPU, every one whose
 * number is a multiple of the period, which is the smallest power of two that
 * leaves less than MAX_SAMPLES.
 */

#include <stdlib.h>
#include <string.h>

#include "export-side.h"
#include "util/unquote.h"

#define MAX_SAMPLES (1u << 15)

/* Names that mislead who reads lines; one is no name. */
static const char *const comms[] = {
    "plain", "x 12", "#note", " lead", "a;b", "v  7 8/9", "", NULL,
};

/* Where a sample of a vCPU has to be, and how many there were */
struct reading {
    const struct export_scene *s;
    uint64_t period;
    uint64_t seen[8];
    uint64_t last;
};

static uint64_t period_of(const struct export_scene *s)
{
    for (uint64_t period = 1;; period *= 2) {
        uint64_t n = 0;

        for (unsigned i = 0; i < s->n; i++) {
            n += s->vcpus[i].stacks->len / period;
        }
        if (n < MAX_SAMPLES) {
            return period;
        }
    }
}

static void check_comm(const struct export_vcpu *v, const char *text)
{
    g_autofree char *quoted = g_strdup_printf("\"%s\"", text);
    g_autofree char *none = g_strdup_printf(":%u", v->tid);
    g_autofree char *comm = NULL;
    const char *end;
    size_t n;

    comm = unquote(quoted, &end, &n);
    g_assert_cmpstr(comm, ==, *v->comm ? v->comm : none);
    g_assert_null(strchr(text, ';'));
}

/* Reads "COMM TID [CPU] SECONDS: PERIOD branches:" */
static const struct export_stack *read_head(struct reading *r,
                                            const char *line)
{
    static GRegex *begin, *rest;
    g_autoptr(GMatchInfo) head = NULL, more = NULL;
    g_autofree char *comm = NULL, *tid = NULL, *cpu = NULL, *s = NULL;
    g_autofree char *ns = NULL, *period = NULL;
    const struct export_vcpu *v;
    unsigned vcpu;
    uint64_t i, time;
    int end;

    begin = begin ?: g_regex_new("^(\\S.*?)\\s+(\\d+)\\/*(\\d+)*\\s+", 0, 0,
                                 NULL);
    rest = rest ?: g_regex_new("^\\[(\\d{3})\\] +(\\d+)\\.(\\d{9}): +(\\d+) "
                               "branches:$", 0, 0, NULL);
    g_assert_cmpint(*line, !=, '#');
    g_assert_true(g_regex_match(begin, line, 0, &head));
    g_match_info_fetch_pos(head, 0, NULL, &end);
    if (!g_regex_match(rest, line + end, 0, &more)) {
        g_error("%s", line);
    }
    comm = g_match_info_fetch(head, 1);
    tid = g_match_info_fetch(head, 2);
    cpu = g_match_info_fetch(more, 1);
    s = g_match_info_fetch(more, 2);
    ns = g_match_info_fetch(more, 3);
    period = g_match_info_fetch(more, 4);
    vcpu = atoi(cpu);
    g_assert_cmpuint(vcpu, <, r->s->n);
    v = &r->s->vcpus[vcpu];
    g_assert_cmpuint(atoi(tid), ==, v->tid);
    check_comm(v, comm);
    g_assert_cmpuint(g_ascii_strtoull(period, NULL, 10), ==, r->period);
    i = ++r->seen[vcpu] * r->period;
    g_assert_cmpuint(i, <=, v->stacks->len);
    /* Of all vCPUs in one order, and where its records are */
    time = g_ascii_strtoull(s, NULL, 10) * 1000000000 +
           g_ascii_strtoull(ns, NULL, 10);
    g_assert_cmpuint(time, >=, r->last);
    r->last = time;
    time -= MIN(time, EXPORT_START);
    g_assert_cmpuint(ABS((int64_t)time - (int64_t)(i * EXPORT_EACH)), <=, 2);
    return v->stacks->pdata[i - 1];
}

/* Reads "\tADDRESS FUNCTION+0x0 (FILE)"; returns who has called it. */
static const struct export_stack *read_frame(const struct export_stack *at,
                                             const char *line)
{
    g_autofree char *want = NULL;

    g_assert_nonnull(at);
    g_assert_nonnull(at->function);
    want = g_strdup_printf("\t%16" G_GINT64_MODIFIER "x %s+0x0 "
                           "([kernel.kallsyms])", UINT64_C(0xffffffff81000000) +
                           0x100 * atoi(at->function + 1), at->function);
    g_assert_cmpstr(line, ==, want);
    return at->caller;
}

static void check(const char *const *names, unsigned records)
{
    struct export_scene *s = export_scene_new(names, records);
    g_auto(GStrv) lines = export_scene_lines(s, "perf", NULL);
    struct reading r = { .s = s, .period = period_of(s) };
    const struct export_stack *at = NULL;

    for (char **line = lines; *line; line++) {
        if (**line == '\t') {
            at = read_frame(at, *line);
        } else if (**line) {
            g_assert_null(at);
            at = read_head(&r, *line);
        } else {
            /* The stack is whole. */
            g_assert_true(!at || !at->function);
            at = NULL;
        }
    }
    for (unsigned i = 0; i < s->n; i++) {
        g_assert_cmpuint(r.seen[i], ==, s->vcpus[i].stacks->len / r.period);
    }
    export_scene_free(s);
}

static void test_all(void)
{
    check(comms, 2000);
}

static void test_some(void)
{
    check(comms, 40000);
}

/* The number of samples is at its limit. */
static void test_limit(void)
{
    static const char *const one[] = { "one", NULL };

    check(one, MAX_SAMPLES - 1);
    check(one, MAX_SAMPLES);
    check(one, 2 * MAX_SAMPLES);
}

/* So many stacks that the trace's tree of them has to be made anew */
static void test_spilled(void)
{
    static const char *const two[] = { "one", "two", NULL };

    if (!g_test_slow()) {
        g_test_skip("it takes long");
        return;
    }
    check(two, 6000000);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/export-perf/all", test_all);
    g_test_add_func("/export-perf/some", test_some);
    g_test_add_func("/export-perf/limit", test_limit);
    g_test_add_func("/export-perf/spilled", test_spilled);
    return g_test_run();
}
