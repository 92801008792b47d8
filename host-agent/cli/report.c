/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report: which address spaces ran, and where they were
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "edges.h"

/*
 * What a file may make us remember: more than any guest has, and less than
 * the memory of a small machine.
 */
#define MAX_SPACES          65536
#define MAX_EDGES           (8u << 20)
#define MAX_TOP             1000

struct moment {
    uint64_t time;
    unsigned vcpu;
    uint64_t index;
};

struct space {
    uint64_t cr3;
    uint64_t records;
    uint64_t spans;
    struct moment first;
    struct moment last;
    struct edges *edges;
    bool vcpus[BTRAIL_MAX_VCPUS];
};

struct report {
    struct cli_trace trace;
    GHashTable *by_cr3;
    GPtrArray *spaces;
    uint64_t records;
    uint64_t others;            /* records of spaces beyond MAX_SPACES */
    uint64_t lost;
    bool lost_unknown;
    uint64_t damage;
    unsigned top;
    size_t edges_left;          /* that may still be told apart */
};

static void free_space(gpointer p)
{
    struct space *s = p;

    edges_free(s->edges);
    g_free(s);
}

static struct space *find_space(struct report *r, uint64_t cr3)
{
    gint64 key = cr3 & CLI_CR3_MASK;
    struct space *s = g_hash_table_lookup(r->by_cr3, &key);

    if (!s && r->spaces->len < MAX_SPACES) {
        s = g_new0(struct space, 1);
        s->cr3 = key;
        s->edges = edges_new(&r->edges_left);
        g_ptr_array_add(r->spaces, s);
        g_hash_table_insert(r->by_cr3, &s->cr3, s);
    }
    return s;
}

static bool earlier(const struct moment *a, const struct moment *b)
{
    return a->time < b->time || (a->time == b->time && a->index < b->index);
}

static void add_records(struct report *r, struct space *s, unsigned vcpu,
                        const struct btrail_batch *b)
{
    struct moment first = { b->time.host, vcpu, b->index };
    struct moment last = { b->time.host, vcpu, b->index + b->count - 1 };

    if (!s->records || earlier(&first, &s->first)) {
        s->first = first;
    }
    if (!s->records || earlier(&s->last, &last)) {
        s->last = last;
    }
    s->records += b->count;
    s->vcpus[vcpu] = true;
    edges_count(s->edges, b->records, b->count);
}

static void add_event(struct report *r, const struct btrail_batch *b)
{
    const struct btrail_event *e = b->event;

    r->damage += b->synthetic;
    if (e->type == BTRAIL_EVENT_GAP) {
        if (e->data[0] == BTRAIL_LOST_UNKNOWN) {
            r->lost_unknown = true;
        } else if (e->reason != BTRAIL_GAP_ELSEWHERE) {
            r->lost += e->data[0];
        }
    }
}

static int add_stream(struct report *r, unsigned vcpu)
{
    struct btrail_cursor *cursor;
    struct btrail_batch batch;
    struct space *space = NULL, *last = NULL;
    uint64_t cr3 = 0;
    int ret = btrail_cursor_open(&cursor, r->trace.trace, vcpu, 0);

    if (ret) {
        return ret;
    }
    while (!(ret = btrail_cursor_next(cursor, &batch))) {
        if (batch.event) {
            add_event(r, &batch);
            continue;
        }
        r->records += batch.count;
        if (!space || batch.cr3 != cr3) {
            cr3 = batch.cr3;
            space = find_space(r, cr3);
        }
        if (!space) {
            r->others += batch.count;
            continue;
        }
        if (space != last) {
            space->spans++;
            last = space;
        }
        add_records(r, space, vcpu, &batch);
    }
    r->damage += btrail_cursor_bad_chunks(cursor);
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static gint by_records(gconstpointer a, gconstpointer b)
{
    const struct space *x = *(const struct space *const *)a;
    const struct space *y = *(const struct space *const *)b;

    if (x->records != y->records) {
        return x->records < y->records ? 1 : -1;
    }
    return x->cr3 < y->cr3 ? -1 : x->cr3 > y->cr3;
}

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
    json_object_set_double_member(o, "share", share(s->records, r->records));
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

    json_object_set_int_member(root, "records", r->records);
    json_object_set_int_member(root, "lost", r->lost);
    json_object_set_boolean_member(root, "lost_unknown", r->lost_unknown);
    for (i = 0; i < btrail_trace_streams(r->trace.trace); i++) {
        struct btrail_stream_info info;
        JsonObject *o = json_object_new();

        btrail_trace_stream(r->trace.trace, i, &info);
        json_object_set_int_member(o, "vcpu", info.vcpu);
        json_object_set_int_member(o, "records", info.records);
        json_array_add_object_element(streams, o);
    }
    json_object_set_array_member(root, "streams", streams);
    for (i = 0; i < r->spaces->len; i++) {
        json_array_add_object_element(spaces,
                                      space_json(r, r->spaces->pdata[i],
                                                 top));
    }
    json_object_set_array_member(root, "spaces", spaces);
    json_object_set_int_member(root, "other_records", r->others);

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
           "%s lost\n\n", r->records, btrail_trace_streams(r->trace.trace),
           r->spaces->len, r->lost, r->lost_unknown ? " or more" : "");
    printf("%-18s %13s %6s %9s  %14s %4s %13s  %14s %4s %13s\n", "cr3",
           "records", "share", "spans", "first (s)", "vcpu", "index",
           "last (s)", "vcpu", "index");
    for (i = 0; i < r->spaces->len; i++) {
        const struct space *s = r->spaces->pdata[i];
        size_t j, n;

        /* They are in order: all that follow have less. */
        if (100 * share(s->records, r->records) < min_share) {
            break;
        }
        n = edges_top(s->edges, top, r->top);
        printf("0x%016" PRIx64 " %13" PRIu64 " %5.1f%% %9" PRIu64, s->cr3,
               s->records, 100 * share(s->records, r->records), s->spans);
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
    if (i < r->spaces->len) {
        unsigned shown = i;

        for (; i < r->spaces->len; i++) {
            rest += ((const struct space *)r->spaces->pdata[i])->records;
        }
        printf("%-18u %13" PRIu64 " %5.1f%%   with less than %g%% each; "
               "--min-share=0 shows them\n", i - shown, rest,
               100 * share(rest, r->records), min_share);
    }
    if (r->others) {
        printf("%-18s %13" PRIu64 " %5.1f%%\n", "others", r->others,
               100 * share(r->others, r->records));
    }
}

static int run(struct report *r, char *const *paths, bool json,
               double min_share)
{
    const char *path = paths[0];
    g_autofree struct edge *top = g_new(struct edge, r->top + 1);
    unsigned i;
    int ret, code;

    if (!cli_trace_open(&r->trace, paths)) {
        return CLI_FAILED;
    }
    for (i = 0; i < btrail_trace_streams(r->trace.trace); i++) {
        struct btrail_stream_info info;

        btrail_trace_stream(r->trace.trace, i, &info);
        ret = add_stream(r, info.vcpu);
        if (ret) {
            cli_error("%s: %s", path, ret == -BTRAIL_ERR_IO ?
                      g_strerror(errno) : btrail_strerror(ret));
            cli_trace_close(&r->trace);
            return CLI_FAILED;
        }
    }
    g_ptr_array_sort(r->spaces, by_records);
    if (json) {
        print_json(r, top);
    } else {
        print_text(r, top, min_share);
    }
    fflush(stdout);
    code = cli_trace_verdict(&r->trace, r->damage);
    cli_trace_close(&r->trace);
    return code;
}

int cmd_report(int argc, char **argv)
{
    struct report r = { .edges_left = MAX_EDGES };
    gboolean json = FALSE;
    int top = 3, code;
    double min_share = 1;
    const GOptionEntry entries[] = {
        { "top", 0, 0, G_OPTION_ARG_INT, &top,
          "hottest edges of each address space (default: 3)", "N" },
        { "min-share", 0, 0, G_OPTION_ARG_DOUBLE, &min_share,
          "sum up address spaces with a smaller share of the records "
          "(default: 1; --json has them all)", "PERCENT" },
        { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL },
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
    r.top = top;
    r.by_cr3 = g_hash_table_new(g_int64_hash, g_int64_equal);
    r.spaces = g_ptr_array_new_with_free_func(free_space);
    code = run(&r, argv + 1, json, min_share);
    g_hash_table_unref(r.by_cr3);
    g_ptr_array_unref(r.spaces);
    return code;
}
