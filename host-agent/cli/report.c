/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report: which address spaces ran, and where they were
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "tally.h"

/*
 * What a file may make us remember: more than any guest has, and less than
 * the memory of a small machine.
 */
#define MAX_SPACES          65536
#define MAX_EDGES           (8u << 20)
#define MAX_TOP             1000

struct report {
    struct cli_trace trace;
    struct tally tally;
    unsigned top;
    unsigned threads;
};

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / whole : 0;
}

static char *hex(uint64_t v)
{
    return g_strdup_printf("0x%016" PRIx64, v);
}

static void set_hex(JsonObject *o, const char *name, uint64_t v)
{
    g_autofree char *text = hex(v);

    json_object_set_string_member(o, name, text);
}

static JsonObject *moment_json(const struct report *r, const struct moment *m)
{
    JsonObject *o = json_object_new();

    if (m->time) {
        json_object_set_double_member(o, "time",
                                      ((double)m->time - r->trace.start) /
                                      1e9);
        json_object_set_int_member(o, "host", m->time);
    }
    json_object_set_int_member(o, "vcpu", m->vcpu);
    json_object_set_int_member(o, "index", m->index);
    return o;
}

static JsonObject *space_json(const struct report *r, const struct space *s,
                              struct edge *top)
{
    JsonObject *o = json_object_new();
    JsonArray *vcpus = json_array_new(), *edges = json_array_new();
    size_t i, n = edges_top(s->edges, top, r->top);

    set_hex(o, "cr3", s->cr3);
    json_object_set_int_member(o, "records", s->records);
    json_object_set_double_member(o, "share", share(s->records, r->tally.records));
    json_object_set_int_member(o, "spans", s->spans);
    json_object_set_object_member(o, "first", moment_json(r, &s->first));
    json_object_set_object_member(o, "last", moment_json(r, &s->last));
    for (i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (s->vcpus[i]) {
            json_array_add_int_element(vcpus, i);
        }
    }
    json_object_set_array_member(o, "vcpus", vcpus);
    for (i = 0; i < n; i++) {
        JsonObject *edge = json_object_new();

        set_hex(edge, "from", top[i].from);
        set_hex(edge, "to", top[i].to);
        json_object_set_int_member(edge, "count", top[i].count);
        json_array_add_object_element(edges, edge);
    }
    json_object_set_array_member(o, "edges", edges);
    return o;
}

static void print_json(const struct report *r, struct edge *top)
{
    g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);
    g_autoptr(JsonObject) root = json_object_new();
    JsonArray *streams = json_array_new(), *spaces = json_array_new();
    g_autofree char *text = NULL;
    unsigned i;

    json_object_set_int_member(root, "records", r->tally.records);
    json_object_set_int_member(root, "lost", r->tally.lost);
    json_object_set_boolean_member(root, "lost_unknown", r->tally.lost_unknown);
    for (i = 0; i < btrail_trace_streams(r->trace.trace); i++) {
        struct btrail_stream_info info;
        JsonObject *o = json_object_new();

        btrail_trace_stream(r->trace.trace, i, &info);
        json_object_set_int_member(o, "vcpu", info.vcpu);
        json_object_set_int_member(o, "records", info.records);
        json_array_add_object_element(streams, o);
    }
    json_object_set_array_member(root, "streams", streams);
    for (i = 0; i < r->tally.spaces->len; i++) {
        json_array_add_object_element(spaces,
                                      space_json(r, r->tally.spaces->pdata[i],
                                                 top));
    }
    json_object_set_array_member(root, "spaces", spaces);
    json_object_set_int_member(root, "other_records", r->tally.others);

    json_node_set_object(node, root);
    text = json_to_string(node, TRUE);
    puts(text);
}

static void print_moment(const struct report *r, const struct moment *m)
{
    char time[CLI_TIME_SIZE];

    printf("  %14s %4u %13" PRIu64, cli_format_time(&r->trace, m->time, time),
           m->vcpu, m->index);
}

static void print_text(const struct report *r, struct edge *top,
                       double min_share)
{
    uint64_t rest = 0;
    unsigned i;

    printf("%" PRIu64 " records of %u vCPUs in %u address spaces, %" PRIu64
           "%s lost\n\n", r->tally.records, btrail_trace_streams(r->trace.trace),
           r->tally.spaces->len, r->tally.lost, r->tally.lost_unknown ? " or more" : "");
    printf("%-18s %13s %6s %9s  %14s %4s %13s  %14s %4s %13s\n", "cr3",
           "records", "share", "spans", "first (s)", "vcpu", "index",
           "last (s)", "vcpu", "index");
    for (i = 0; i < r->tally.spaces->len; i++) {
        const struct space *s = r->tally.spaces->pdata[i];
        size_t j, n;

        /* They are in order: all that follow have less. */
        if (100 * share(s->records, r->tally.records) < min_share) {
            break;
        }
        n = edges_top(s->edges, top, r->top);
        printf("0x%016" PRIx64 " %13" PRIu64 " %5.1f%% %9" PRIu64, s->cr3,
               s->records, 100 * share(s->records, r->tally.records), s->spans);
        print_moment(r, &s->first);
        print_moment(r, &s->last);
        putchar('\n');
        for (j = 0; j < n; j++) {
            printf("    %13" PRIu64 "   %5.1f%%  0x%016" PRIx64 " -> 0x%016"
                   PRIx64 "\n", top[j].count,
                   100 * share(top[j].count, s->records), top[j].from,
                   top[j].to);
        }
        if (edges_others(s->edges)) {
            printf("    %13" PRIu64 "           edges that came too late to "
                   "be told apart\n", edges_others(s->edges));
        }
    }
    if (i < r->tally.spaces->len) {
        unsigned shown = i;

        for (; i < r->tally.spaces->len; i++) {
            rest += ((const struct space *)r->tally.spaces->pdata[i])->records;
        }
        printf("%-18u %13" PRIu64 " %5.1f%%   with less than %g%% each; "
               "--min-share=0 shows them\n", i - shown, rest,
               100 * share(rest, r->tally.records), min_share);
    }
    if (r->tally.others) {
        printf("%-18s %13" PRIu64 " %5.1f%%\n", "others", r->tally.others,
               100 * share(r->tally.others, r->tally.records));
    }
}

static int run(struct report *r, char *const *paths, bool json,
               double min_share)
{
    const char *path = paths[0];
    g_autofree struct edge *top = g_new(struct edge, r->top + 1);
    static const struct tally_limits limits = { MAX_SPACES, MAX_EDGES };
    int ret, code;

    if (!cli_trace_open(&r->trace, paths)) {
        return CLI_FAILED;
    }
    ret = tally_trace(&r->tally, r->trace.trace, r->threads, &limits);
    if (ret) {
        cli_error("%s: %s", path, ret == -BTRAIL_ERR_IO ?
                  g_strerror(errno) : btrail_strerror(ret));
        cli_trace_close(&r->trace);
        return CLI_FAILED;
    }
    if (json) {
        print_json(r, top);
    } else {
        print_text(r, top, min_share);
    }
    fflush(stdout);
    code = cli_trace_verdict(&r->trace, r->tally.damage);
    tally_clear(&r->tally);
    cli_trace_close(&r->trace);
    return code;
}

int cmd_report(int argc, char **argv)
{
    struct report r = { .top = 0 };
    g_autofree char *threads = NULL;
    gboolean json = FALSE;
    int top = 3;
    double min_share = 1;
    const GOptionEntry entries[] = {
        { "top", 0, 0, G_OPTION_ARG_INT, &top,
          "hottest edges of each address space (default: 3)", "N" },
        { "min-share", 0, 0, G_OPTION_ARG_DOUBLE, &min_share,
          "sum up address spaces with a smaller share of the records "
          "(default: 1; --json has them all)", "PERCENT" },
        { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL },
        { "threads", 0, 0, G_OPTION_ARG_STRING, &threads,
          "decode with so many threads (default: one for each CPU)", "N" },
        { NULL }
    };

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Show which address spaces ran, when, and their hottest "
                   "edges.")) {
        return CLI_USAGE;
    }
    if (top < 0 || top > MAX_TOP) {
        cli_error("--top: %d is not between 0 and %d", top, MAX_TOP);
        return CLI_USAGE;
    }
    if (!(min_share >= 0 && min_share <= 100)) {
        cli_error("--min-share: %g is not between 0 and 100", min_share);
        return CLI_USAGE;
    }
    if (!cli_parse_threads(threads, &r.threads)) {
        return CLI_USAGE;
    }
    r.top = top;
    return run(&r, argv + 1, json, min_share);
}
