/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail script: prints records and events, one per line
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/between.h"
#include "cli/complete.h"
#include "cli/lines.h"
#include "cli/named-lines.h"
#include "lib/agent/merged.h"
#include "util/whole-io.h"

/* Size of the buffer for raw records */
#define OUT_SIZE    (1u << 20)

struct script {
    struct analysis in;
    struct between between;
    unsigned vcpus[BTRAIL_MAX_VCPUS];
    unsigned n_vcpus;
    GArray *cr3s;
    struct range index;
    gboolean events;
    gboolean events_only;
    gboolean json;
    gboolean icount;
    gboolean raw;
    uint64_t damage;
    uint64_t chosen;            /* records of the spaces of --cr3 */
    unsigned threads;
    struct lines *lines;
    gboolean with_names;
    gboolean insn;
    gboolean source;
    struct named_lines *named;  /* of records; events are in @lines */
    char *out;                  /* raw records */
    size_t len;
    int error;                  /* errno of what could not be written */
};

static void write_raw(struct script *s)
{
    if (!s->error) {
        s->error = whole_write(STDOUT_FILENO, s->out, s->len);
    }
    s->len = 0;
}

static void print_raw(struct script *s, const struct btrail_record *r,
                      size_t n)
{
    size_t left = n * sizeof(*r);
    const char *bytes = (const char *)r;

    while (left) {
        size_t step = MIN(left, OUT_SIZE - s->len);

        memcpy(s->out + s->len, bytes, step);
        s->len += step;
        bytes += step;
        left -= step;
        if (s->len == OUT_SIZE) {
            write_raw(s);
        }
    }
}

/* The index of an event can be any number, also the end of an open range. */
static bool in_range(const struct range *range, uint64_t v)
{
    return v >= range->begin && (v < range->end || range->end == UINT64_MAX);
}

/* Is a moment in the time range?  A range does not have unknown times. */
static bool time_matches(const struct script *s, uint64_t host)
{
    return !s->in.time_text || (host >= s->in.window.start &&
                                window_has(&s->in.window, host));
}

/* Prints records of a batch. */
static void print_records(struct script *s, unsigned vcpu,
                          const struct btrail_batch *b, uint64_t begin,
                          uint64_t end)
{
    s->chosen += end - begin;
    if (s->raw) {
        print_raw(s, b->records + (begin - b->index), end - begin);
    } else if (s->named) {
        named_lines_records(s->named, vcpu, b, begin - b->index, end - begin);
        if (ferror(stdout)) {
            s->error = errno ? errno : EIO;
        }
    } else {
        lines_records(s->lines, vcpu, b, begin - b->index, end - begin);
    }
}

/* The same, of those that are in the spans of --between */
static void print_between(struct script *s, unsigned vcpu,
                          const struct btrail_batch *b, uint64_t begin,
                          uint64_t end)
{
    uint64_t until;
    bool has;

    for (; begin < end; begin = MIN(until, end)) {
        has = record_set_has(s->between.set, vcpu, begin, &until);
        if (has) {
            print_records(s, vcpu, b, begin, MIN(until, end));
        }
    }
}

/* Is an index one of a record in the spans of --between? */
static bool is_between(const struct script *s, unsigned vcpu, uint64_t index)
{
    return !s->between.given ||
           record_set_has(s->between.set, vcpu, index, NULL);
}

static void print_batch(struct script *s, unsigned vcpu,
                        const struct btrail_batch *b)
{
    uint64_t begin, end;

    if (b->event) {
        if (s->named && b->event->type == BTRAIL_EVENT_GAP) {
            named_lines_gap(s->named, vcpu);
        }
        if (s->events && time_matches(s, b->time.host) &&
            in_range(&s->index, b->event->index) &&
            is_between(s, vcpu, b->event->index)) {
            if (s->named) {
                fflush(stdout);
            }
            lines_event(s->lines, vcpu, b);
            if (s->named) {
                lines_flush(s->lines);
            }
        }
        return;
    }
    begin = MAX(b->index, s->index.begin);
    end = MIN(b->index + b->count, s->index.end);
    if (begin < end && time_matches(s, b->time.host) &&
        cli_cr3_matches(s->cr3s, b->cr3)) {
        (s->between.given ? print_between : print_records)(s, vcpu, b, begin,
                                                           end);
    }
}

/* Has a stream passed the end of the ranges? */
static bool past_range(const struct script *s, unsigned vcpu,
                       const struct btrail_batch *b)
{
    uint64_t until;

    if (s->between.given &&
        !record_set_has(s->between.set, vcpu, b->index, &until) &&
        until == UINT64_MAX) {
        return true;
    }
    /* The range does not have the events of the index where it ends. */
    return b->index >= s->index.end ||
           (s->in.time_text && window_past(&s->in.window, b->time.host));
}

/* The first index that can be chosen, on any vCPU */
static uint64_t first_index(const struct script *s)
{
    uint64_t first = UINT64_MAX, until;

    for (unsigned i = 0; s->between.given && i < s->n_vcpus; i++) {
        until = 0;
        if (!record_set_has(s->between.set, s->vcpus[i], 0, &until)) {
            first = MIN(first, until);
        } else {
            first = 0;
        }
    }
    return MAX(s->index.begin, s->between.given && first != UINT64_MAX ? first :
               0);
}

static bool failed(const struct script *s)
{
    return s->error || (s->lines && lines_error(s->lines));
}

static int print_all(struct script *s)
{
    unsigned flags = s->events_only ? BTRAIL_CURSOR_EVENTS_ONLY : 0;
    struct btrail_merged *merged;
    struct btrail_batch b;
    unsigned vcpu;
    int code = CLI_OK;
    int ret = btrail_merged_open(&merged, s->in.trace.trace,
                                 s->n_vcpus ? s->vcpus : NULL, s->n_vcpus,
                                 flags, BTRAIL_MERGED_GRAIN);

    if (ret) {
        return analysis_failed(&s->in, ret);
    }
    if (s->in.time_text) {
        btrail_merged_seek_time(merged, s->in.window.start +
                                s->in.window.begin);
    }
    if (first_index(s)) {
        btrail_merged_seek(merged, first_index(s));
    }
    while (!failed(s) && !(ret = btrail_merged_next(merged, &vcpu, NULL,
                                                    &b))) {
        if (past_range(s, vcpu, &b)) {
            btrail_merged_end_stream(merged);
        } else {
            print_batch(s, vcpu, &b);
        }
    }
    if (ret && ret != -BTRAIL_ERR_END) {
        code = analysis_failed(&s->in, ret);
    }
    s->damage += btrail_merged_damage(merged);
    btrail_merged_close(merged);
    return code;
}

/* Chooses the vCPUs of --vcpu that the trace has; false with a message. */
static bool choose_vcpus(struct script *s, const char *list)
{
    bool wanted[BTRAIL_MAX_VCPUS] = { false };
    struct btrail_stream_info info;
    unsigned i;

    if (list && !cli_parse_vcpus("--vcpu", list, wanted)) {
        return false;
    }
    for (i = 0; !btrail_trace_stream(s->in.trace.trace, i, &info); i++) {
        if (!list || wanted[info.vcpu]) {
            s->vcpus[s->n_vcpus++] = info.vcpu;
        }
    }
    if (list && !s->n_vcpus) {
        cli_error("%s: the trace has no records of vCPU %s", s->in.trace.path,
                  list);
        return false;
    }
    if (s->raw && s->n_vcpus > 1) {
        cli_error("--raw needs exactly one vCPU, and the trace has more; "
                  "choose one with --vcpu");
        return false;
    }
    return true;
}

static int print(struct script *s)
{
    int code, error;

    if (s->raw) {
        s->out = g_malloc(OUT_SIZE);
        code = print_all(s);
        write_raw(s);
        g_free(s->out);
    } else {
        const struct lines_options options = {
            .trace = &s->in.trace,
            .json = s->json,
            .icount = s->icount,
            .threads = s->threads,
            .fd = STDOUT_FILENO,
        };

        s->lines = lines_new(&options);
        code = print_all(s);
        if (s->named && fflush(stdout) && !s->error) {
            s->error = errno;
        }
        error = lines_free(s->lines);
        s->error = s->error ? s->error : error;
    }
    return code;
}

/* Is there nothing of what was asked for?  An exit code */
static int check_chosen(const struct script *s)
{
    uint64_t chosen = s->named ? named_lines_printed(s->named) : s->chosen;

    if (chosen || s->events_only ||
        (!s->cr3s && !s->in.filter && !s->between.given)) {
        return CLI_OK;
    }
    return analysis_chosen(&s->in, 0, s->cr3s ? "--cr3" : NULL);
}

static int run(struct script *s, char *const *paths, const char *vcpus)
{
    const struct named_lines_options options = {
        .in = &s->in, .insn = s->insn, .lines = s->source, .json = s->json,
        .icount = s->icount, .out = stdout,
    };
    int code, verdict;

    /* Whoever finds A and B needs names. */
    if (!analysis_open(&s->in, paths, s->with_names || s->between.given) ||
        (s->between.given && !between_select(&s->between, &s->in))) {
        return CLI_FAILED;
    }
    s->damage = s->between.damage;
    if (!choose_vcpus(s, vcpus)) {
        return CLI_USAGE;
    }
    s->named = s->with_names ? named_lines_new(&options) : NULL;
    signal(SIGPIPE, SIG_IGN);
    code = print(s);
    if (!code && !s->error) {
        code = check_chosen(s);
    }
    named_lines_free(s->named);
    if (!s->error) {
        verdict = cli_trace_verdict(&s->in.trace, s->damage);
        return code ? code : verdict;
    }
    if (s->error == EPIPE) {
        /* A reader (head, less) may stop early. */
        return CLI_OK;
    }
    cli_error("cannot write: %s", g_strerror(s->error));
    return CLI_FAILED;
}

int cmd_script(int argc, char **argv)
{
    struct script s = { .index = { 0, UINT64_MAX } };
    g_autofree char *vcpus = NULL, *index = NULL, *threads = NULL;
    g_auto(GStrv) cr3 = NULL;
    const GOptionEntry entries[] = {
        { "vcpu", 'C', 0, G_OPTION_ARG_STRING, &vcpus,
          "only these vCPUs, such as 0,2-3", "LIST" },
        { "cr3", 0, 0, G_OPTION_ARG_STRING_ARRAY, &cr3,
          "only records of this address space; can be repeated", "ADDR" },
        { "index", 0, 0, G_OPTION_ARG_STRING, &index,
          "only from index A to before B", "A..B" },
        { "names", 0, 0, G_OPTION_ARG_NONE, &s.with_names,
          "also print names of processes, functions and modules", NULL },
        { "insn", 0, 0, G_OPTION_ARG_NONE, &s.insn,
          "as --names, with the instructions between records", NULL },
        { "lines", 0, 0, G_OPTION_ARG_NONE, &s.source,
          "as --names, with source lines", NULL },
        BETWEEN_ENTRIES(&s.between, "only records of spans from A to B, which "
                        "are the first two operands"),
        ANALYSIS_ENTRIES(&s.in),
        { "events", 0, 0, G_OPTION_ARG_NONE, &s.events,
          "also print events", NULL },
        { "events-only", 0, 0, G_OPTION_ARG_NONE, &s.events_only,
          "print only events, which is fast", NULL },
        { "icount", 0, 0, G_OPTION_ARG_NONE, &s.icount,
          "also print the instruction count of each record", NULL },
        { "json", 0, 0, G_OPTION_ARG_NONE, &s.json,
          "print one JSON object per line", NULL },
        { "raw", 0, 0, G_OPTION_ARG_NONE, &s.raw,
          "print the records of one vCPU in binary, 24 bytes each", NULL },
        { "threads", 0, 0, G_OPTION_ARG_STRING, &threads,
          "make text with N threads (default: one per CPU)", "N" },
        { NULL }
    };
    int code = CLI_USAGE;

    cli_complete_value("HOW", between_pair_name);
    if (!cli_parse(&argc, &argv, entries, -1, "[A B] FILE...",
                   "Print the records of a trace, one per line: vCPU, index, "
                   "time, CR3, from, to, flags.") ||
        (index && !cli_parse_range("--index", index, &s.index)) ||
        !cli_parse_threads(threads, &s.threads) ||
        !between_parse(&s.between, &argc, &argv) || !analysis_parse(&s.in) ||
        !cli_parse_cr3s(cr3, &s.cr3s)) {
        goto out;
    }
    s.with_names |= s.insn || s.source || s.in.filter;
    s.events |= s.events_only;
    if (s.raw && (s.json || s.events || s.with_names || s.icount)) {
        cli_error("--raw prints no JSON, events or names, and the flags with "
                  "the instruction count; use it alone");
    } else {
        code = run(&s, argv + 1, vcpus);
    }
out:
    between_clear(&s.between);
    analysis_clear(&s.in);
    g_clear_pointer(&s.cr3s, g_array_unref);
    return code;
}
