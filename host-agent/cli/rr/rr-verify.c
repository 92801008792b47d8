/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr verify: see rr.h
 */

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "cli/rr/rr.h"
#include "replay/fingerprint.h"
#include "util/json.h"

/*
 * A machine that is switched off is stopped when QEMU gets to it; until then
 * the guest waits in a loop, not equally long in each replay.
 */
#define MAX_TAIL    (UINT64_C(1) << 28)

/* Makes the trace that all others are compared with. */
bool rr_make_trace(struct rr_options *o, int *code)
{
    g_autofree char *path = recording_path(o->recording,
                                           RECORDING_TRACE);
    g_autofree char *prints = recording_path(o->recording,
                                             RECORDING_FINGERPRINTS);
    /* A name that is no part of another trace */
    g_autofree char *new = recording_path(o->recording, "new-trace.btrail");
    struct rr_divergence diverged = { .reason = NULL };
    g_autoptr(GArray) made = rr_trace(o, UINT64_MAX, new, &diverged, code);
    g_autoptr(GError) error = NULL;

    if (!made) {
        if (diverged.reason) {
            *code = rr_print_difference(o, NULL, NULL, &diverged);
        }
        g_free(diverged.reason);
        return false;
    }
    if (!fingerprint_save(prints, made, &error)) {
        *code = rr_failed(error);
    } else if (rename(new, path)) {
        cli_error("%s: %s", path, g_strerror(errno));
        *code = CLI_FAILED;
    } else {
        return true;
    }
    unlink(new);
    return false;
}

bool rr_has_trace(const struct rr_options *o)
{
    g_autofree char *path = recording_path(o->recording,
                                           RECORDING_TRACE);
    g_autofree char *prints = recording_path(o->recording,
                                             RECORDING_FINGERPRINTS);

    return !access(path, F_OK) && !access(prints, F_OK);
}

/* The hash covers records and CR3 loads, and the records are the same. */
static int print_other_tables(const struct rr_options *o, uint32_t vcpu,
                              uint64_t records)
{
    if (o->json) {
        cli_print_json(btrail_json_new(
            "b:identical", false, "u:vcpu", vcpu, "U:index", records,
            "b:tables", true, NULL));
    } else {
        cli_printf("not identical: vCPU %u, the CR3 loads before record %"
                   PRIu64 " differ\n", vcpu, records);
    }
    return CLI_DAMAGED;
}

static int print_identical(const struct rr_options *o, uint64_t records,
                           uint64_t tail)
{
    if (o->json) {
        cli_print_json(btrail_json_new(
            "b:identical", true, "U:records", records, "U:tail", tail, NULL));
        return CLI_OK;
    }
    cli_printf("identical: %" PRIu64 " records", records);
    if (tail) {
        cli_printf(", and %" PRIu64 " of one replay only, while it was "
                   "switched off", tail);
    }
    cli_printf("\n");
    return CLI_OK;
}

static uint64_t stream_records(const struct btrail_trace *trace, unsigned vcpu)
{
    struct btrail_stream_info info;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        if (info.vcpu == vcpu) {
            return info.records;
        }
    }
    return 0;
}

/**
 * struct comparison - of two traces, over all vCPUs
 * @both:    records that both have
 * @tail:    those that one has after them
 * @first:   the first record that differs, if @differ
 * @ended:   after it, only one trace has records, if @tail
 * @tables:  CR3 loads differ where records do not: before record @records of
 *           @vcpu
 */
struct comparison {
    uint64_t both;
    uint64_t tail;
    bool differ;
    struct fingerprint_difference first;
    struct fingerprint_difference ended;
    bool tables;
    uint32_t vcpu;
    uint64_t records;
};

/* Where it is, by which those of several vCPUs can be ordered */
static uint64_t count_of(const struct fingerprint_difference *d)
{
    return MIN(d->a.icount, d->b.icount);
}

/* Compares a stream from the last fingerprint that agrees on. */
static bool compare_stream(struct comparison *c, const struct btrail_trace *a,
                           const struct btrail_trace *b, uint32_t vcpu,
                           const GArray *prints, const GArray *others,
                           GError **error)
{
    uint64_t in_a = stream_records(a, vcpu), in_b = stream_records(b, vcpu);
    uint64_t both = MIN(in_a, in_b), from, records = 0;
    g_autoptr(GError) local = NULL;
    struct fingerprint_difference d;
    bool differ;

    if (fingerprint_agree(prints, others, vcpu, &records)) {
        from = both / FINGERPRINT_INTERVAL * FINGERPRINT_INTERVAL;
    } else {
        from = (records - 1) / FINGERPRINT_INTERVAL * FINGERPRINT_INTERVAL;
    }
    differ = fingerprint_compare(a, b, vcpu, from, &d, &local);
    if (local) {
        g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    c->both += both;
    c->tail += MAX(in_a, in_b) - both;
    if (differ && !d.ended) {
        if (!c->differ || count_of(&d) < count_of(&c->first)) {
            c->first = d;
        }
        c->differ = true;
    } else if (records && !c->tables) {
        c->tables = true;
        c->vcpu = vcpu;
        c->records = records;
    } else if (differ) {
        c->ended = d;
    }
    return true;
}

/*
 * @diverged: where @b could not continue, so that it ends early; NULL if it
 * could
 */
static int compare(const struct rr_options *o, const struct btrail_trace *a,
                   const struct btrail_trace *b, const GArray *prints,
                   const GArray *others, const struct rr_divergence *diverged)
{
    struct comparison c = { 0 };
    g_autoptr(GError) error = NULL;

    for (uint32_t vcpu = 0; vcpu < BTRAIL_MAX_VCPUS; vcpu++) {
        if ((stream_records(a, vcpu) || stream_records(b, vcpu)) &&
            !compare_stream(&c, a, b, vcpu, prints, others, &error)) {
            return rr_failed(error);
        }
    }
    if (c.differ) {
        return rr_print_difference(o, a, &c.first, diverged);
    }
    if (c.tables) {
        return print_other_tables(o, c.vcpu, c.records);
    }
    if (diverged) {
        return rr_print_difference(o, NULL, NULL, diverged);
    }
    return c.tail > MAX_TAIL ? rr_print_difference(o, a, &c.ended, NULL) :
           print_identical(o, c.both, c.tail);
}

static int compare_files(const struct rr_options *o, const char *first,
                         const char *second, const GArray *prints,
                         const GArray *others,
                         const struct rr_divergence *diverged)
{
    struct btrail_trace *a = NULL, *b = NULL;
    int code = CLI_FAILED;
    int ret = btrail_trace_open(&a, first);

    if (ret) {
        cli_error("%s: %s", first, cli_strerror(ret));
        return CLI_DAMAGED;
    }
    ret = btrail_trace_open(&b, second);
    if (ret) {
        cli_error("%s: %s", second, cli_strerror(ret));
    } else {
        code = compare(o, a, b, prints, others, diverged);
    }
    btrail_trace_close(a);
    btrail_trace_close(b);
    return code;
}

/* A trace of another replay; of as much of it as there is if it @diverged */
static GArray *trace_again(struct rr_options *o, const char *path,
                           struct rr_divergence *diverged, int *code)
{
    struct rr_divergence again = { .reason = NULL };
    GArray *made = rr_trace(o, UINT64_MAX, path, diverged, code);

    if (!made && diverged->reason && diverged->icount) {
        made = rr_trace(o, diverged->icount - 1, path, &again, code);
        g_free(again.reason);
    }
    return made;
}

int rr_check_trace(struct rr_options *o)
{
    g_autofree char *path = recording_path(o->recording,
                                           RECORDING_TRACE);
    g_autofree char *stored = recording_path(o->recording,
                                             RECORDING_FINGERPRINTS);
    g_autofree char *second = recording_path(o->recording,
                                             "new-trace.btrail");
    g_autoptr(GError) error = NULL;
    g_autoptr(GArray) prints = fingerprint_load(stored, &error);
    g_autoptr(GArray) made = NULL;
    struct rr_divergence diverged = { .reason = NULL };
    int code;

    if (!prints) {
        return rr_failed(error);
    }
    made = trace_again(o, second, &diverged, &code);
    if (made) {
        code = compare_files(o, path, second, prints, made,
                             diverged.reason ? &diverged : NULL);
        unlink(second);
    } else if (diverged.reason) {
        code = rr_print_difference(o, NULL, NULL, &diverged);
    }
    g_free(diverged.reason);
    return code;
}

int rr_verify(int argc, char **argv)
{
    struct rr_options o = { .signals = -1 };
    const GOptionEntry entries[] = { RR_ENTRIES(&o), { NULL } };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, 1, "FOLDER",
                  "Replay a recording, and compare all branches with those of "
                  "its first replay.") &&
        rr_open(&o, argv[1], &code) &&
        (rr_has_trace(&o) || rr_make_trace(&o, &code))) {
        code = rr_check_trace(&o);
    }
    rr_clear(&o);
    return code == CLI_OK && fflush(stdout) ? CLI_FAILED : code;
}
