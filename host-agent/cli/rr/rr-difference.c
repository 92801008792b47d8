/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where two replays of a recording differ: see rr.h
 */

#include <inttypes.h>

#include "cli/rr/rr.h"
#include "replay/replay-log.h"
#include "util/json.h"

/* Of the kinds of things that the log has, the last ones that are shown */
#define SHOWN   4

/**
 * struct difference - what is printed
 * @d, @diverged: as rr_print_difference() gets them
 * @icount:     where it is, or BTRAIL_NO_ICOUNT
 * @log:        around there
 * @has_log:    it could be read
 */
struct difference {
    const struct fingerprint_difference *d;
    const struct rr_divergence *diverged;
    uint64_t icount;
    struct replay_log_place log;
    bool has_log;
};

static JsonObject *record_json(const struct btrail_record *r)
{
    return btrail_json_new("X:from", r->from, "X:to", r->to, "X:flags",
                           r->flags, NULL);
}

static JsonArray *path_json(const struct fingerprint_path *path)
{
    JsonArray *array = json_array_new();

    for (unsigned i = 0; i < path->count; i++) {
        json_array_add_object_element(array, record_json(&path->records[i]));
    }
    return array;
}

static JsonObject *log_json(const struct difference *x)
{
    g_autoptr(GPtrArray) before = replay_log_before(&x->log, SHOWN);
    JsonArray *array = json_array_new();
    JsonObject *log;

    for (unsigned i = 0; i < before->len; i++) {
        json_array_add_object_element(
            array, replay_log_json(g_ptr_array_index(before, i)));
    }
    log = btrail_json_new("b:interrupt", x->log.interrupt, "a:before", array,
                          NULL);
    if (x->log.next.there) {
        btrail_json_add(log, "o:next", replay_log_json(&x->log.next), NULL);
    }
    return log;
}

static void print_json(const struct difference *x)
{
    JsonObject *o = btrail_json_new("b:identical", false, NULL);

    if (x->d) {
        btrail_json_add(o, "u:vcpu", x->d->vcpu, "U:index", x->d->index,
                        "o:first", record_json(&x->d->a.records[0]),
                        "o:second", record_json(&x->d->b.records[0]),
                        "a:first_path", path_json(&x->d->a),
                        "a:second_path", path_json(&x->d->b), NULL);
    }
    if (x->icount != BTRAIL_NO_ICOUNT) {
        btrail_json_add(o, "U:icount", x->icount, NULL);
    }
    if (x->diverged) {
        btrail_json_add(o, "o:diverged", btrail_json_new(
            "U:icount", x->diverged->icount, "s:reason", x->diverged->reason,
            NULL), NULL);
    }
    if (x->has_log) {
        btrail_json_add(o, "o:log", log_json(x), NULL);
    }
    cli_print_json(o);
}

static void print_address(struct trace_index *trace, const struct where *where,
                          uint64_t address)
{
    g_autofree char *name = trace && where ?
        trace_index_name(trace, where, address) : NULL;

    cli_printf("0x%016" PRIx64 "%s%s", address, name ? " " : "",
               name ? name : "");
}

static void print_path(const char *which, const struct fingerprint_path *path,
                       struct trace_index *trace, const struct where *where)
{
    cli_printf("%s%s\n", which, path->count ? "" : ": none");
    for (unsigned i = 0; i < path->count; i++) {
        cli_printf("  ");
        print_address(trace, where, path->records[i].from);
        cli_printf(" -> ");
        print_address(trace, where, path->records[i].to);
        cli_printf("\n");
    }
}

static void print_paths(const struct rr_options *o, const struct difference *x,
                        const struct btrail_trace *first)
{
    const struct symbolizer_options symbols = rr_symbols(o);
    struct trace_index *trace = trace_index_new(first, NULL, &symbols, NULL);
    struct where where;
    bool known = trace && x->icount != BTRAIL_NO_ICOUNT &&
                 trace_index_where(trace, x->d->vcpu, x->icount,
                                   &where);

    print_path("first replay", &x->d->a, trace, known ? &where : NULL);
    print_path("second replay", &x->d->b, trace, known ? &where : NULL);
    trace_index_free(trace);
}

static void print_event(const struct replay_log_event *e, const char *suffix)
{
    g_autofree char *text = replay_log_describe(e);

    cli_printf("  instruction %" PRIu64 ": %s%s\n", e->icount, text, suffix);
}

static void print_log(const struct difference *x)
{
    g_autoptr(GPtrArray) before = replay_log_before(&x->log, SHOWN);

    cli_printf("the log has %s interrupt there, and around it\n",
               x->log.interrupt ? "an" : "no");
    for (unsigned i = 0; i < before->len; i++) {
        print_event(g_ptr_array_index(before, i), "");
    }
    if (x->log.next.there) {
        print_event(&x->log.next, ", next");
    }
}

static void print_text(const struct rr_options *o, const struct difference *x,
                       const struct btrail_trace *first)
{
    cli_printf("not identical");
    if (x->d) {
        cli_printf(": vCPU %u, record %" PRIu64, x->d->vcpu, x->d->index);
    }
    if (x->icount != BTRAIL_NO_ICOUNT) {
        cli_printf("%s instruction %" PRIu64, x->d ? "," : ":", x->icount);
    }
    cli_printf("\n");
    if (x->d) {
        print_paths(o, x, first);
    }
    if (x->diverged) {
        cli_printf("a replay could not continue at instruction %" PRIu64 "\n  "
                   "%s\n", x->diverged->icount, x->diverged->reason);
    }
    if (x->has_log) {
        print_log(x);
    }
}

int rr_print_difference(const struct rr_options *o,
                        const struct btrail_trace *first,
                        const struct fingerprint_difference *d,
                        const struct rr_divergence *diverged)
{
    g_autofree char *log = recording_path(o->recording,
                                          o->recording->log.name);
    struct difference x = {
        .d = d,
        .diverged = diverged,
        .icount = diverged ? diverged->icount : BTRAIL_NO_ICOUNT,
    };

    if (d) {
        /* BTRAIL_NO_ICOUNT is above all others. */
        x.icount = MIN(d->a.icount, d->b.icount);
    }
    if (x.icount != BTRAIL_NO_ICOUNT) {
        x.has_log = replay_log_find(log, &o->recording->begin, x.icount,
                                    &x.log, NULL);
    }
    if (o->json) {
        print_json(&x);
    } else {
        print_text(o, &x, first);
    }
    return CLI_DAMAGED;
}
