/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail info: summarizes a trace without decoding its records
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/pt-share.h"
#include "lib/agent/merged.h"
#include "util/json.h"

struct stream_summary {
    struct btrail_stream_info info;
    uint64_t cr3_loads;
    uint64_t spans;
    uint64_t gaps;              /* GAP events that lost something */
    uint64_t lost;              /* without unknown numbers */
    uint64_t elsewhere;         /* records in files that were not given */
    bool lost_unknown;
    struct pauses_sum paused;
    uint16_t end_reason;        /* 0 if there is no END event */
    uint64_t damage;
};

/*
 * Records of a kernel, or of none that is known: of all nested guests, of what
 * else runs, of what ran after a kernel had ended (by the sideband), and of
 * what ran while the trace did not say.
 */
struct kernel_share {
    const char *release;        /* or NULL */
    bool nested;                /* a nested guest has run it */
    uint64_t records;
    uint64_t first_time;        /* 0 if it is not known */
    uint64_t last_time;
};

/* Numbers of kernels, 0 for what is none, and then */
enum {
    NESTED = BTRAIL_TASKS_MAX_NUMBER + 1,
    ENDED,
    UNKNOWN,
    SHARES,
};

static void add_to_share(struct kernel_share *shares,
                         const struct btrail_batch *b)
{
    const struct btrail_kernel *k = &b->kernel;
    struct kernel_share *s = &shares[!k->known ? UNKNOWN : b->ended ? ENDED :
                                     k->number ? k->number :
                                     k->nested ? NESTED : 0];
    uint64_t time = b->time.host;

    s->records += b->count;
    s->nested |= k->nested;
    if (time) {
        s->first_time = s->first_time ? MIN(s->first_time, time) : time;
        s->last_time = MAX(s->last_time, time);
    }
}

static void set_releases(const struct cli_trace *t,
                         struct kernel_share *shares)
{
    JsonObject *names = btrail_json_object(t->meta, "names");
    JsonArray *kernels = names ? btrail_json_array(names, "kernels") : NULL;

    for (unsigned i = 0; kernels && i < json_array_get_length(kernels); i++) {
        JsonNode *node = json_array_get_element(kernels, i);
        JsonObject *o = JSON_NODE_HOLDS_OBJECT(node) ?
                        json_node_get_object(node) : NULL;
        gint64 number = o ? btrail_json_int(o, "number", 0) : 0;

        if (number > 0 && number <= BTRAIL_TASKS_MAX_NUMBER) {
            shares[number].release = btrail_json_string(o, "release");
        }
    }
}

static const char *share_word(unsigned i)
{
    return i == UNKNOWN ? "unknown" : i == ENDED ? "ended" :
           i == NESTED ? "nested" :
           i ? "kernel" : "none";
}

/* Does any event say which kernel runs?  Or up to UNKNOWN, the sideband? */
static bool has_kernels(const struct kernel_share *shares, unsigned end)
{
    for (unsigned i = 0; i < end; i++) {
        if (shares[i].records) {
            return true;
        }
    }
    return false;
}

/* Numbers first */
static unsigned share_in_order(unsigned i)
{
    return i < BTRAIL_TASKS_MAX_NUMBER ? i + 1 :
           i == BTRAIL_TASKS_MAX_NUMBER ? NESTED : i == NESTED ? 0 : i;
}

static double share(const struct kernel_share *s, uint64_t records)
{
    return records ? (double)s->records / records : 0;
}

static JsonArray *kernels_json(const struct kernel_share *shares,
                               uint64_t records)
{
    JsonArray *array = json_array_new();
    bool any = has_kernels(shares, UNKNOWN);
    bool said = has_kernels(shares, ENDED);

    for (unsigned i = 0; any && i < SHARES; i++) {
        unsigned number = share_in_order(i);
        const struct kernel_share *s = &shares[number];
        JsonObject *o;

        if (!s->records && !(s->release && said)) {
            continue;
        }
        o = btrail_json_new("s:kind", share_word(number), NULL);
        if (number && number <= BTRAIL_TASKS_MAX_NUMBER) {
            btrail_json_add(o, "u:number", number, "S:release", s->release,
                            "b:nested", s->nested, NULL);
        }
        btrail_json_add(o, "U:records", s->records,
                        "d:share", share(s, records),
                        "U:first_time", s->first_time,
                        "U:last_time", s->last_time, NULL);
        json_array_add_object_element(array, o);
    }
    return array;
}

static void print_kernels(const struct cli_trace *t,
                          const struct kernel_share *shares, uint64_t records)
{
    bool said = has_kernels(shares, ENDED);

    /* Only then shares mean something. */
    if (!has_kernels(shares, UNKNOWN)) {
        return;
    }
    cli_printf("\n%-7s %15s %7s %15s %15s  %s\n", "kernel", "records", "share",
               "from (s)", "to (s)", "release");
    for (unsigned i = 0; i < SHARES; i++) {
        unsigned number = share_in_order(i);
        const struct kernel_share *s = &shares[number];
        char from[CLI_TIME_SIZE], to[CLI_TIME_SIZE], text[8];

        if (!s->records && !(s->release && said)) {
            continue;
        }
        snprintf(text, sizeof(text), "%u", number);
        cli_printf("%-7s %15" PRIu64 " %6.2f%% %15s %15s  %s%s\n",
                   number && number <= BTRAIL_TASKS_MAX_NUMBER ? text :
                   share_word(number), s->records, share(s, records) * 100,
                   cli_format_time(t, s->first_time, from),
                   cli_format_time(t, s->last_time, to), s->release ?: "",
                   number <= BTRAIL_TASKS_MAX_NUMBER && s->nested ?
                   " (nested guest)" : "");
    }
}

static void add_to_summary(struct stream_summary *s,
                           const struct btrail_batch *b)
{
    const struct btrail_event *e = b->event;

    switch (e->type) {
    case BTRAIL_EVENT_CR3:
        s->cr3_loads++;
        break;
    case BTRAIL_EVENT_GAP:
        if (e->data[0] == BTRAIL_LOST_UNKNOWN) {
            s->lost_unknown = true;
            s->gaps++;
        } else if (e->reason == BTRAIL_GAP_ELSEWHERE) {
            s->elsewhere += e->data[0];
        } else if (e->data[0]) {
            s->lost += e->data[0];
            s->gaps++;
        }
        break;
    case BTRAIL_EVENT_END:
        s->end_reason = e->reason;
        break;
    default:
        break;
    }
}

static int count_spans(const struct cli_trace *t, struct stream_summary *s)
{
    struct btrail_spans *spans;
    struct btrail_span span;
    int ret = btrail_spans_open(&spans, t->trace, s->info.vcpu, 0, 0);

    if (ret) {
        return ret;
    }
    while (!(ret = btrail_spans_next(spans, &span))) {
        s->spans += span.records != 0;
    }
    btrail_spans_close(spans);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static int summarize(const struct cli_trace *t, struct stream_summary *s,
                     struct kernel_share *shares)
{
    struct btrail_cursor *cursor;
    struct btrail_batch batch;
    int ret = btrail_cursor_open(&cursor, t->trace, s->info.vcpu,
                                 BTRAIL_CURSOR_COUNTS_ONLY);

    if (ret) {
        return ret;
    }
    while (!(ret = btrail_cursor_next(cursor, &batch))) {
        if (batch.event) {
            add_to_summary(s, &batch);
        } else {
            add_to_share(shares, &batch);
        }
    }
    s->damage += btrail_cursor_damage(cursor);
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END ? count_spans(t, s) : ret;
}

/* The sums of all streams, and the time of all */
static struct stream_summary add_up(const struct stream_summary *streams,
                                    unsigned n)
{
    struct stream_summary sum = { .spans = 0 };
    uint64_t first;

    for (unsigned i = 0; i < n; i++) {
        const struct stream_summary *s = &streams[i];

        sum.info.records += s->info.records;
        sum.info.bytes += s->info.bytes;
        sum.spans += s->spans;
        sum.gaps += s->gaps;
        sum.lost += s->lost;
        sum.lost_unknown |= s->lost_unknown;
        first = s->info.first_time;
        if (first && (!sum.info.first_time || first < sum.info.first_time)) {
            sum.info.first_time = first;
        }
        sum.info.last_time = MAX(sum.info.last_time, s->info.last_time);
    }
    return sum;
}

static double seconds(const struct btrail_stream_info *s)
{
    return s->last_time > s->first_time ?
           (s->last_time - s->first_time) / 1e9 : 0;
}

/* Records per second; 0 if it is not known */
static double rate(const struct btrail_stream_info *s)
{
    return seconds(s) > 0 ? s->records / seconds(s) : 0;
}

static double bits(const struct btrail_stream_info *s)
{
    return s->records ? s->bytes * 8.0 / s->records : 0;
}

static const char *end_word(const struct stream_summary *s)
{
    return s->end_reason ?
           btrail_reason_name(BTRAIL_EVENT_END, s->end_reason) ?: "unknown" :
           "missing";
}

/* All sideband of one kind */
struct sideband_sum {
    unsigned pieces;
    uint64_t bytes;
};

/* Kinds from 1 on; 0 stands for unknown ones */
#define KINDS   (BTRAIL_SIDEBAND_ENDED + 1)

static const char *sideband_word(unsigned kind)
{
    return btrail_sideband_name(kind) ?: "unknown";
}

static unsigned add_up_sideband(const struct cli_trace *t,
                                struct sideband_sum sums[KINDS])
{
    struct btrail_sideband_info info;
    unsigned i;

    memset(sums, 0, KINDS * sizeof(*sums));
    for (i = 0; !btrail_trace_sideband(t->trace, i, &info, NULL); i++) {
        struct sideband_sum *sum = &sums[info.kind < KINDS ? info.kind : 0];

        sum->pieces++;
        sum->bytes += info.size;
    }
    return i;
}

static JsonObject *sideband_json(const struct cli_trace *t)
{
    JsonObject *o = json_object_new();
    struct sideband_sum sums[KINDS];
    unsigned kind;

    add_up_sideband(t, sums);
    for (kind = 0; kind < KINDS; kind++) {
        if (sums[kind].pieces) {
            json_object_set_object_member(o, sideband_word(kind),
                btrail_json_new("u:pieces", sums[kind].pieces,
                                "U:bytes", sums[kind].bytes, NULL));
        }
    }
    return o;
}

static void print_sideband(const struct cli_trace *t)
{
    struct sideband_sum sums[KINDS];
    const char *comma = "";
    unsigned kind;

    if (!add_up_sideband(t, sums)) {
        return;
    }
    cli_printf("%-10s ", "sideband");
    for (kind = 0; kind < KINDS; kind++) {
        if (sums[kind].pieces) {
            cli_printf("%s%u of %s (%" PRIu64 " bytes)", comma,
                       sums[kind].pieces, sideband_word(kind),
                       sums[kind].bytes);
            comma = ", ";
        }
    }
    cli_printf("\n");
}

static JsonObject *stream_json(const struct stream_summary *s)
{
    const struct btrail_stream_info *i = &s->info;

    return btrail_json_new(
        "u:vcpu", i->vcpu, "U:records", i->records,
        "U:first_index", i->first_index, "U:end_index", i->end_index,
        "U:chunks", i->chunks,
        "d:rate", rate(i), "U:cr3_loads", s->cr3_loads,
        "U:spans", s->spans, "U:gaps", s->gaps,
        "U:lost", s->lost, "b:lost_unknown", s->lost_unknown,
        "U:elsewhere", s->elsewhere, "U:pauses", s->paused.n,
        "U:paused_ns", s->paused.ns, "U:first_time", i->first_time,
        "U:last_time", i->last_time, "s:end", end_word(s),
        "U:damage", s->damage, NULL);
}

/**
 * struct pausing - the pauses of the trace
 * @known: otherwise that there are none says nothing
 * @guest: for how long no vCPU ran because of them, in ns
 */
struct pausing {
    struct pauses *pauses;
    bool known;
    uint64_t guest;
};

static bool read_pauses(const struct cli_trace *t, struct pausing *p,
                        struct stream_summary *streams, unsigned n)
{
    p->pauses = cli_trace_pauses(t, &p->known);
    if (!p->pauses) {
        return false;
    }
    p->guest = pauses_whole_guest(p->pauses, 0, UINT64_MAX);
    for (unsigned i = 0; i < n; i++) {
        streams[i].paused = pauses_of_vcpu(p->pauses, streams[i].info.vcpu);
    }
    return true;
}

static void print_pauses(const struct pausing *p)
{
    const struct pauses_sum all = pauses_of_all(p->pauses);
    uint64_t unknown = pauses_unknown(p->pauses);

    cli_printf("%-10s ", "paused");
    if (!p->known) {
        cli_printf("not known: the trace does not say what its producer "
                   "does\n");
        return;
    }
    if (all.n) {
        cli_printf("vCPUs %" PRIu64 " times for %.3f s in all, the whole "
                   "guest for %.3f s", all.n, all.ns / 1e9, p->guest / 1e9);
    } else {
        cli_printf("never");
    }
    if (unknown) {
        cli_printf("; not known at %" PRIu64 " places where records are "
                   "missing, or the trace ends", unknown);
    }
    cli_printf("\n");
}

static void print_json(const struct cli_trace *t,
                       const struct stream_summary *streams, unsigned n,
                       const struct pausing *p,
                       const struct kernel_share *shares)
{
    const struct btrail_trace_status *s = &t->status;
    struct stream_summary sum = add_up(streams, n);
    const struct pauses_sum paused = pauses_of_all(p->pauses);
    JsonArray *array = json_array_new();

    for (unsigned i = 0; i < n; i++) {
        json_array_add_object_element(array, stream_json(&streams[i]));
    }
    cli_print_json(btrail_json_new(
        "o:file", btrail_json_new(
            "s:path", t->path, "U:size", s->file_size, "U:chunks", s->chunks,
            "U:bad_chunks", s->bad_chunks,
            "U:missing_chunks", s->missing_chunks,
            "U:skipped_bytes", s->skipped_bytes, "U:cut_bytes", s->cut_bytes,
            "u:files", s->files, "u:first_part", s->first_part,
            "U:missing_parts", s->missing_parts, "b:continued", s->continued,
            "b:complete", s->complete, "b:indexed", s->indexed, NULL),
        "o:meta", json_object_ref(t->meta), "o:sideband", sideband_json(t),
        "o:total", btrail_json_new(
            "U:records", sum.info.records,
            "U:record_bytes", sum.info.bytes,
            "d:bits_per_record", bits(&sum.info),
            "d:seconds", seconds(&sum.info), "d:rate", rate(&sum.info),
            "U:spans", sum.spans, "U:gaps", sum.gaps, "U:lost", sum.lost,
            "b:lost_unknown", sum.lost_unknown, "b:pauses_known", p->known,
            "U:pauses", paused.n, "U:paused_ns", paused.ns,
            "U:guest_paused_ns", p->guest, "U:pauses_unknown",
            pauses_unknown(p->pauses), NULL),
        "a:kernels", kernels_json(shares, sum.info.records),
        "a:streams", array, NULL));
}

static void print_meta_member(const struct cli_trace *t, const char *name)
{
    const char *value = btrail_json_string(t->meta, name);

    if (value) {
        cli_printf("%-10s %s\n", name, value);
    }
}

static void print_start(const struct cli_trace *t)
{
    JsonObject *start = btrail_json_object(t->meta, "start");
    gint64 ns = start ? btrail_json_int(start, "realtime", 0) : 0;
    g_autoptr(GDateTime) when = NULL;
    g_autofree char *text = NULL;

    if (ns > 0) {
        when = g_date_time_new_from_unix_local(ns / 1000000000);
    }
    if (when) {
        text = g_date_time_format(when, "%F %T %z");
        cli_printf("%-10s %s\n", "start", text);
    }
}

/* What is missing of the names, and what is lost by that */
static void print_missing(const struct cli_trace *t)
{
    JsonObject *names = btrail_json_object(t->meta, "names");
    JsonArray *missing = names ? btrail_json_array(names, "missing") : NULL;

    for (unsigned i = 0; missing && i < json_array_get_length(missing); i++) {
        JsonNode *node = json_array_get_element(missing, i);

        if (JSON_NODE_HOLDS_VALUE(node) && json_node_get_string(node)) {
            cli_printf("%-10s %s\n", i ? "" : "names",
                       json_node_get_string(node));
        }
    }
}

static void print_text(const struct cli_trace *t,
                       const struct stream_summary *streams, unsigned n,
                       const struct pausing *p,
                       const struct kernel_share *shares)
{
    static const char *const members[] = {
        "guest", "session", "producer", "qemu", "privilege", "overflow",
        "why",
    };
    struct stream_summary sum = add_up(streams, n);
    g_autofree char *share = pt_share_text(t->meta);
    g_autofree char *times = pt_share_times(t->meta);

    cli_printf("%-10s %s", "file", t->path);
    if (t->status.files > 1) {
        cli_printf(" and %u more", t->status.files - 1);
    }
    cli_printf("\n");
    cli_printf("%-10s %" PRIu64 " bytes", "size", t->status.file_size);
    if (sum.info.records) {
        cli_printf("; records take %" PRIu64 " of them, %.3f bits each",
                   sum.info.bytes, bits(&sum.info));
    }
    cli_printf("\n%-10s %" PRIu64 " in %" PRIu64 " spans", "records",
               sum.info.records, sum.spans);
    if (sum.info.last_time > sum.info.first_time) {
        cli_printf(", %.3f s, %.3f million a second",
                   seconds(&sum.info), rate(&sum.info) / 1e6);
    }
    cli_printf("\n");
    print_pauses(p);
    cli_printf("%-10s %s\n", "state", !t->status.complete ? "cut off" :
               !t->status.indexed ? "index damaged" : "complete");
    for (unsigned i = 0; i < G_N_ELEMENTS(members); i++) {
        print_meta_member(t, members[i]);
    }
    print_start(t);
    if (btrail_json_is_true(t->meta, "icount")) {
        cli_printf("%-10s each record has its instruction count\n", "icount");
    }
    if (share) {
        cli_printf("%-10s %s\n", "intel pt", share);
        cli_printf("%-10s %s\n", "times", times);
    }
    print_sideband(t);
    print_missing(t);
    print_kernels(t, shares, sum.info.records);

    cli_printf("\n%4s %15s %15s %10s %10s %10s %15s %15s  %s\n", "vcpu",
               "records", "lost", "gaps", "cr3 loads", "spans", "from (s)",
               "to (s)", "end");
    for (unsigned i = 0; i < n; i++) {
        const struct stream_summary *s = &streams[i];
        char from[CLI_TIME_SIZE], to[CLI_TIME_SIZE];

        cli_printf("%4u %15" PRIu64 " %14" PRIu64 "%s %10" PRIu64 " %10" PRIu64
                   " %15s %15s  %s\n", s->info.vcpu, s->info.records, s->lost,
                   s->lost_unknown ? "+" : " ", s->gaps, s->cr3_loads,
                   cli_format_time(t, s->info.first_time, from),
                   cli_format_time(t, s->info.last_time, to), end_word(s));
    }
}

static int run(const struct cli_trace *t, bool json)
{
    unsigned i, n = btrail_trace_streams(t->trace);
    g_autofree struct stream_summary *streams = g_new0(struct stream_summary,
                                                       n + 1);
    g_autofree struct kernel_share *shares = g_new0(struct kernel_share,
                                                    SHARES);
    struct pausing paused;
    uint64_t damage = 0;

    for (i = 0; i < n; i++) {
        int ret;

        btrail_trace_stream(t->trace, i, &streams[i].info);
        ret = summarize(t, &streams[i], shares);
        if (ret) {
            cli_error("%s: %s", t->path, cli_strerror(ret));
            return CLI_FAILED;
        }
        damage += streams[i].damage;
    }
    if (!read_pauses(t, &paused, streams, n)) {
        return CLI_FAILED;
    }
    set_releases(t, shares);
    (json ? print_json : print_text)(t, streams, n, &paused, shares);
    pauses_free(paused.pauses);
    fflush(stdout);
    return cli_trace_verdict(t, damage);
}

int cmd_info(int argc, char **argv)
{
    gboolean json = FALSE;
    const GOptionEntry entries[] = {
        { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL },
        { NULL }
    };
    struct cli_trace t;
    int code;

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Show a summary of a trace.")) {
        return CLI_USAGE;
    }
    if (!cli_trace_open(&t, argv + 1)) {
        return CLI_FAILED;
    }
    code = run(&t, json);
    cli_trace_close(&t);
    return code;
}
