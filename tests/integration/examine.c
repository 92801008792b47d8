/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * examine: the facts of a trace that the integration tests judge it by
 *
 * usage: examine [--boot] FILE
 *
 * Reads every record and event of FILE and of the parts that follow it, and
 * prints a JSON object with an entry for each stream.  It judges nothing
 * itself.  With --boot the streams begin at reset, and what runs in the lower
 * half is firmware and kernel, not user mode, until the kernel has run in the
 * upper half for a while.
 */

#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <backtrail/trace.h>

#define UPPER_HALF      (1ull << 63)

/* No straight line of code without a taken branch is longer. */
#define FAR_BYTES       (64u << 10)

/* What a trace promises: no record is further away from a TIME event. */
#define STRETCH_NS      1000000

/* With --boot: no user mode before this many records in the upper half. */
#define BOOT_RECORDS    100000

#define REASONS         16
#define MAX_STOPS       4096

/* A set of records in their order */
struct digest {
    uint64_t records;
    uint64_t hash;
};

/* The records of an address space, and those with an end in user mode */
struct space {
    struct digest all;
    struct digest user;
};

/* Where the whole guest was stopped, and the records on both sides */
struct stop {
    uint64_t index;
    uint64_t time;
    uint64_t cr3;
    bool have_to;
    uint64_t to;
    bool have_from;
    uint64_t from;
};

struct facts {
    struct btrail_stream_info info;
    bool boot;

    uint64_t records;
    uint64_t next;              /* index after the last record */
    uint64_t holes;             /* indices without a record */
    uint64_t synthetic;
    uint64_t lost[REASONS];
    uint64_t gaps[REASONS];
    uint64_t lost_unknown;

    bool have_last;             /* the next record follows from this one */
    struct btrail_record last;
    uint64_t backwards;
    uint64_t far;
    uint64_t broken_index;      /* of the first of either */
    struct btrail_record broken[2];

    uint64_t flags;             /* records with any */
    uint64_t upper;             /* records that end in the upper half */
    struct digest all;
    struct digest user;         /* at least one end there */
    struct digest kernel;
    struct digest crossed[3];   /* these, at the last record between them */
    uint64_t only_user;         /* both ends there */
    uint64_t only_kernel;
    GHashTable *spaces;         /* CR3 to struct space */
    struct space *space;
    uint64_t cr3;

    uint64_t times;
    uint64_t untimed;           /* records with no TIME event before them */
    struct btrail_time time;
    bool stretch_open;
    uint64_t stretches;
    uint64_t long_stretches;
    uint64_t max_stretch;
    uint64_t host_backwards;
    uint64_t tsc_backwards;
    uint64_t icount_backwards;
    uint64_t icounts;
    uint64_t first_icount;

    uint64_t pauses[REASONS];
    uint64_t resumes[REASONS];
    uint64_t unpaired;          /* RESUME without PAUSE, or the reverse */
    bool paused[REASONS];
    GArray *stops;
    unsigned stops_passed;      /* a record or a GAP has come after them */

    uint64_t ends;
    unsigned end_reason;
    uint64_t after_end;
};

static void digest_add(struct digest *d, const struct btrail_record *r)
{
    d->records++;
    d->hash = (d->hash ^ r->from) * 0x9e3779b97f4a7c15ull;
    d->hash ^= d->hash >> 29;
    d->hash = (d->hash ^ r->to) * 0xbf58476d1ce4e5b9ull;
    d->hash ^= d->hash >> 32;
}

static struct space *find_space(struct facts *f, uint64_t cr3)
{
    struct space *space = g_hash_table_lookup(f->spaces, &cr3);

    if (!space) {
        uint64_t *key = g_new(uint64_t, 1);

        *key = cr3;
        space = g_new0(struct space, 1);
        g_hash_table_insert(f->spaces, key, space);
    }
    return space;
}

static void check_flow(struct facts *f, const struct btrail_record *r,
                       uint64_t index)
{
    uint64_t length = r->from - f->last.to;
    bool backwards = r->from < f->last.to;

    if (!backwards && length <= FAR_BYTES) {
        return;
    }
    if (!f->backwards && !f->far) {
        f->broken_index = index;
        f->broken[0] = f->last;
        f->broken[1] = *r;
    }
    f->backwards += backwards;
    f->far += !backwards;
}

static bool is_user(const struct facts *f, uint64_t address)
{
    return !(address & UPPER_HALF) && (!f->boot || f->upper >= BOOT_RECORDS);
}

static void add_record(struct facts *f, const struct btrail_record *r,
                       uint64_t index)
{
    bool from_user = is_user(f, r->from), to_user = is_user(f, r->to);

    if (f->have_last) {
        check_flow(f, r, index);
    }
    f->last = *r;
    f->have_last = true;
    f->flags += r->flags << 48 != 0;     /* but for counts */
    f->upper += (r->to & UPPER_HALF) != 0;

    digest_add(&f->all, r);
    digest_add(&f->space->all, r);
    if (from_user || to_user) {
        digest_add(&f->user, r);
        digest_add(&f->space->user, r);
    }
    if (!from_user || !to_user) {
        digest_add(&f->kernel, r);
    }
    if (from_user != to_user) {
        f->crossed[0] = f->all;
        f->crossed[1] = f->user;
        f->crossed[2] = f->kernel;
    }
    f->only_user += from_user && to_user;
    f->only_kernel += !from_user && !to_user;
}

/* @r is the first record after some stops; NULL if nobody knows which is. */
static void pass_stops(struct facts *f, const struct btrail_record *r)
{
    for (; f->stops_passed < f->stops->len; f->stops_passed++) {
        struct stop *stop = &g_array_index(f->stops, struct stop,
                                           f->stops_passed);

        stop->have_from = r != NULL;
        stop->from = r ? r->from : 0;
    }
}

static void add_records(struct facts *f, const struct btrail_batch *b)
{
    uint64_t cr3 = b->cr3 & ~BTRAIL_CR3_CODE;
    size_t i;

    if (b->index != f->next) {
        f->holes += b->index - f->next;
        f->have_last = false;
        pass_stops(f, NULL);
    }
    f->next = b->index + b->count;
    f->records += b->count;
    f->after_end += f->ends ? b->count : 0;
    if (!b->time.host) {
        f->untimed += b->count;
    }
    if (!f->space || cr3 != f->cr3) {
        f->cr3 = cr3;
        f->space = find_space(f, cr3);
    }
    pass_stops(f, b->records);
    for (i = 0; i < b->count; i++) {
        add_record(f, &b->records[i], b->index + i);
    }
}

static void add_time(struct facts *f, const struct btrail_event *e)
{
    uint64_t host = e->data[0], tsc = e->data[1], icount = e->data[2];

    if (f->times) {
        f->host_backwards += host < f->time.host;
        f->tsc_backwards += tsc < f->time.tsc;
        f->icount_backwards += icount != BTRAIL_NO_ICOUNT &&
                               icount < f->time.icount;
    }
    if (f->stretch_open && host > f->time.host) {
        uint64_t length = host - f->time.host;

        f->stretches++;
        f->long_stretches += length > STRETCH_NS;
        f->max_stretch = MAX(f->max_stretch, length);
    }
    f->stretch_open = true;
    if (icount != BTRAIL_NO_ICOUNT) {
        if (!f->icounts) {
            f->first_icount = icount;
        }
        f->icounts++;
    }
    f->times++;
    f->time = (struct btrail_time) { host, tsc, icount };
}

static void add_gap(struct facts *f, const struct btrail_batch *b,
                    unsigned reason)
{
    const struct btrail_event *e = b->event;

    f->synthetic += b->synthetic;
    f->gaps[reason]++;
    if (e->data[0] == BTRAIL_LOST_UNKNOWN) {
        f->lost_unknown++;
    } else {
        f->lost[reason] += e->data[0];
    }
    f->have_last = false;
    pass_stops(f, NULL);
    if (reason == BTRAIL_GAP_RESET || reason == BTRAIL_GAP_RESTORED) {
        /* The guest's clocks are another guest's, so to say. */
        f->time.tsc = 0;
        f->time.icount = 0;
    }
}

static void add_stop(struct facts *f, const struct btrail_batch *b)
{
    struct stop stop = {
        .index = b->event->index,
        .time = b->event->data[0],
        .cr3 = b->cr3 & ~BTRAIL_CR3_CODE,
        .have_to = f->have_last,
        .to = f->last.to,
    };

    if (f->stops->len < MAX_STOPS) {
        g_array_append_val(f->stops, stop);
    }
}

static void add_event(struct facts *f, const struct btrail_batch *b)
{
    const struct btrail_event *e = b->event;
    unsigned reason = MIN(e->reason, REASONS - 1);

    f->after_end += f->ends != 0;
    switch (e->type) {
    case BTRAIL_EVENT_TIME:
        add_time(f, e);
        return;
    case BTRAIL_EVENT_GAP:
        add_gap(f, b, reason);
        break;
    case BTRAIL_EVENT_PAUSE:
        f->pauses[reason]++;
        f->unpaired += f->paused[reason];
        f->paused[reason] = true;
        if (reason == BTRAIL_PAUSE_VM_STOP) {
            add_stop(f, b);
        }
        break;
    case BTRAIL_EVENT_RESUME:
        f->resumes[reason]++;
        f->unpaired += !f->paused[reason];
        f->paused[reason] = false;
        break;
    case BTRAIL_EVENT_END:
        f->ends++;
        f->end_reason = e->reason;
        break;
    default:
        return;
    }
    /* The vCPU did not run all of the time up to the next TIME event. */
    f->stretch_open = false;
}

static void print_counts(const char *name, const uint64_t *counts)
{
    const char *comma = "";
    unsigned i;

    printf(", \"%s\": {", name);
    for (i = 0; i < REASONS; i++) {
        if (counts[i]) {
            printf("%s\"%u\": %" PRIu64, comma, i, counts[i]);
            comma = ", ";
        }
    }
    printf("}");
}

static void print_number(const char *name, uint64_t number)
{
    printf(", \"%s\": %" PRIu64, name, number);
}

static void print_digest(const char *name, const struct digest *d)
{
    printf("\"%s\": [%" PRIu64 ", %" PRIu64 "]", name, d->records, d->hash);
}

static void print_digests(const char *name, const struct digest *all,
                          const struct digest *user,
                          const struct digest *kernel)
{
    printf(", \"%s\": {", name);
    print_digest("all", all);
    printf(", ");
    print_digest("user", user);
    printf(", ");
    print_digest("kernel", kernel);
    printf("}");
}

static void print_facts(const struct facts *f)
{
    const char *comma = "";
    GHashTableIter iter;
    gpointer key, value;
    unsigned i;

    printf("{\"vcpu\": %u", f->info.vcpu);
    print_number("records", f->records);
    print_number("next", f->next);
    print_number("holes", f->holes);
    print_number("synthetic", f->synthetic);
    print_counts("gaps", f->gaps);
    print_counts("lost", f->lost);
    print_number("lost_unknown", f->lost_unknown);
    print_number("backwards", f->backwards);
    print_number("far", f->far);
    if (f->backwards || f->far) {
        printf(", \"broken\": \"%" PRIu64 ": 0x%" PRIx64 " to 0x%" PRIx64
               ", 0x%" PRIx64 " to 0x%" PRIx64 "\"", f->broken_index,
               f->broken[0].from, f->broken[0].to, f->broken[1].from,
               f->broken[1].to);
    }
    print_number("flags", f->flags);
    print_number("only_user", f->only_user);
    print_number("only_kernel", f->only_kernel);
    print_number("times", f->times);
    print_number("untimed", f->untimed);
    print_number("stretches", f->stretches);
    print_number("long_stretches", f->long_stretches);
    print_number("max_stretch", f->max_stretch);
    print_number("host_backwards", f->host_backwards);
    print_number("tsc_backwards", f->tsc_backwards);
    print_number("icount_backwards", f->icount_backwards);
    print_number("icounts", f->icounts);
    print_number("first_icount", f->first_icount);
    print_number("last_icount", f->icounts ? f->time.icount : 0);
    print_counts("pauses", f->pauses);
    print_counts("resumes", f->resumes);
    print_number("unpaired", f->unpaired);
    print_number("ends", f->ends);
    print_number("end", f->end_reason);
    print_number("after_end", f->after_end);
    print_digests("digests", &f->all, &f->user, &f->kernel);
    print_digests("crossed", &f->crossed[0], &f->crossed[1], &f->crossed[2]);
    print_number("last_cr3", f->cr3);
    printf(", \"cr3s\": {");
    g_hash_table_iter_init(&iter, f->spaces);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        const struct space *space = value;

        printf("%s\"0x%" PRIx64 "\": {", comma, *(uint64_t *)key);
        print_digest("all", &space->all);
        printf(", ");
        print_digest("user", &space->user);
        printf("}");
        comma = ", ";
    }
    printf("}, \"stops\": [");
    for (i = 0; i < f->stops->len; i++) {
        const struct stop *s = &g_array_index(f->stops, struct stop, i);

        printf("%s{\"index\": %" PRIu64 ", \"time\": %" PRIu64
               ", \"cr3\": %" PRIu64, i ? ", " : "", s->index, s->time,
               s->cr3);
        if (s->have_to) {
            print_number("to", s->to);
        }
        if (s->have_from) {
            print_number("from", s->from);
        }
        printf("}");
    }
    printf("]}");
}

static int examine(const struct btrail_trace *trace, struct facts *f)
{
    struct btrail_cursor *cursor;
    struct btrail_batch batch;
    int ret = btrail_cursor_open(&cursor, trace, f->info.vcpu, 0);

    if (ret) {
        return ret;
    }
    while (!(ret = btrail_cursor_next(cursor, &batch))) {
        if (batch.event) {
            add_event(f, &batch);
        } else {
            add_records(f, &batch);
        }
    }
    f->synthetic += btrail_cursor_bad_chunks(cursor);
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static int examine_all(const struct btrail_trace *trace, bool boot)
{
    struct btrail_trace_status status;
    unsigned i;

    btrail_trace_status(trace, &status);
    printf("{\"complete\": %s, \"damage\": %" PRIu64 ", \"cut_bytes\": %"
           PRIu64 ", \"streams\": [", status.complete ? "true" : "false",
           status.bad_chunks + status.missing_chunks + status.skipped_bytes,
           status.cut_bytes);
    for (i = 0; i < btrail_trace_streams(trace); i++) {
        struct facts f = { .boot = boot };
        int ret;

        f.spaces = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                         g_free);
        f.stops = g_array_new(FALSE, FALSE, sizeof(struct stop));
        btrail_trace_stream(trace, i, &f.info);
        ret = examine(trace, &f);
        if (ret) {
            return ret;
        }
        printf("%s\n ", i ? "," : "");
        print_facts(&f);
        g_hash_table_unref(f.spaces);
        g_array_unref(f.stops);
    }
    printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    bool boot = argc == 3 && !strcmp(argv[1], "--boot");
    struct btrail_trace *trace;
    const char *path;
    int ret;

    if (argc != 2 + boot) {
        fprintf(stderr, "usage: examine [--boot] FILE\n");
        return 2;
    }
    path = argv[1 + boot];
    ret = btrail_trace_open_parts(&trace, path);
    if (!ret) {
        ret = examine_all(trace, boot);
        btrail_trace_close(trace);
    }
    if (ret) {
        fprintf(stderr, "examine: %s: %s\n", path, btrail_strerror(ret));
        return 1;
    }
    return 0;
}
