/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * change-check: a trace of a session that selected one thing and then another
 *
 * usage: change-check cuts REFERENCE FILE INDEX:PRIVILEGE[:CR3]...
 *        change-check flow FILE PRIVILEGE[:CR3]
 *
 * cuts: both are of one vCPU and of the same run of a guest.  REFERENCE has
 * every record; from each INDEX on FILE has those of a PRIVILEGE (user, kernel,
 * all), and of one CR3.  There has to be a moment for each change such that
 * FILE has what was selected before it and after it, each record once.  A
 * guest that powers off may do so at another record of each run.
 *
 * flow: FILE has at least the records of PRIVILEGE.  Of these, and of the
 * instructions between them, prints where one does not follow from the last:
 * the indices, for each stream.
 *
 * The upper half of the address space is the kernel's.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backtrail/trace.h>

#define UPPER_HALF      (1ull << 63)

/* No straight line of code without a taken branch is longer. */
#define FAR_BYTES       (64u << 10)

#define USER            1u
#define KERNEL          2u

/* Not the PCID, and not flags, of which some are in bits 61 to 63 */
#define CR3_MASK        0x000ffffffffff000ull
#define MAX_BREAKS      64

/* This many records are searched for, and then the rest compared. */
#define BEGINNING       64

struct selection {
    uint64_t since;
    unsigned privilege;
    uint64_t cr3;               /* 0 for all */
};

/* One record after the other, with what is known of it */
struct reader {
    struct btrail_cursor *cursor;
    struct btrail_batch batch;
    size_t i;
    bool broken;                /* a GAP came before this record */
    struct btrail_record record;
    uint64_t index;
    uint64_t cr3;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "change-check: %s: %s\n", what, why);
    exit(2);
}

static void reader_open(struct reader *r, const struct btrail_trace *trace,
                        unsigned vcpu, uint64_t index)
{
    int ret = btrail_cursor_open(&r->cursor, trace, vcpu, 0);

    if (!ret && index) {
        ret = btrail_cursor_seek(r->cursor, index);
    }
    if (ret) {
        die("cannot read", btrail_strerror(ret));
    }
    memset(&r->batch, 0, sizeof(r->batch));
    r->i = 0;
}

static void reader_close(struct reader *r)
{
    btrail_cursor_close(r->cursor);
}

static bool reader_next(struct reader *r)
{
    int ret;

    r->broken = false;
    while (r->i == r->batch.count) {
        ret = btrail_cursor_next(r->cursor, &r->batch);
        if (ret == -BTRAIL_ERR_END) {
            r->batch.count = r->i = 0;
            return false;
        }
        if (ret) {
            die("cannot read", btrail_strerror(ret));
        }
        r->broken |= r->batch.event &&
                     r->batch.event->type == BTRAIL_EVENT_GAP;
        r->i = 0;
    }
    r->record = r->batch.records[r->i];
    r->index = r->batch.index + r->i++;
    r->cr3 = r->batch.cr3;
    return true;
}

static unsigned side(uint64_t address)
{
    return address & UPPER_HALF ? KERNEL : USER;
}

static bool wanted(const struct selection *s, const struct reader *r)
{
    return (s->privilege & (side(r->record.from) | side(r->record.to))) &&
           (!s->cr3 || s->cr3 == (r->cr3 & CR3_MASK));
}

static bool next_wanted(struct reader *r, const struct selection *s)
{
    while (reader_next(r)) {
        if (wanted(s, r)) {
            return true;
        }
    }
    return false;
}

/*
 * Are the records of @file from @begin to @end those that @s selects of
 * @reference from @cut on?  Then @after is the one after the last of them.
 * What one of the two lacks because it ends earlier does not count.
 */
static bool matches(const struct btrail_trace *reference, uint64_t cut,
                    const struct btrail_trace *file, uint64_t begin,
                    uint64_t end, const struct selection *s, uint64_t *after)
{
    struct reader all, some;
    bool same = true;

    reader_open(&all, reference, 0, cut);
    reader_open(&some, file, 0, begin);
    *after = cut;
    while (begin < end && reader_next(&some)) {
        if (some.broken || some.index != begin++) {
            die("the trace", "records are missing");
        }
        if (!next_wanted(&all, s)) {
            break;
        }
        if (memcmp(&all.record, &some.record, sizeof(all.record)) ||
            all.cr3 != some.cr3) {
            same = false;
            break;
        }
        *after = all.index + 1;
    }
    reader_close(&all);
    reader_close(&some);
    return same;
}

static uint64_t find_wanted(const struct btrail_trace *reference,
                            uint64_t index, const struct selection *s)
{
    struct reader r;
    uint64_t found = UINT64_MAX;

    reader_open(&r, reference, 0, index);
    if (next_wanted(&r, s)) {
        found = r.index;
    }
    reader_close(&r);
    return found;
}

/*
 * The next cut of @reference after @cut, and not after @high, from where on
 * the records that @s selects begin as @file does from @begin to @end.
 * UINT64_MAX if there is none.
 */
static uint64_t find_next(const struct btrail_trace *reference, uint64_t cut,
                          uint64_t high, const struct btrail_trace *file,
                          uint64_t begin, uint64_t end,
                          const struct selection *s)
{
    struct btrail_record some[BEGINNING], all[BEGINNING];
    uint64_t before, indices[BEGINNING], found = UINT64_MAX;
    unsigned n = 0, have = 0;
    struct reader r;

    reader_open(&r, file, 0, begin);
    while (n < BEGINNING && begin + n < end && reader_next(&r)) {
        some[n++] = r.record;
    }
    reader_close(&r);
    if (!n) {
        return UINT64_MAX;
    }
    reader_open(&r, reference, 0, cut);
    /* The first one is passed over: what begins there is known. */
    if (next_wanted(&r, s)) {
        before = r.index + 1;
        while (before <= high && next_wanted(&r, s)) {
            if (have == n) {
                before = indices[0] + 1;
                memmove(all, all + 1, (n - 1) * sizeof(*all));
                memmove(indices, indices + 1, (n - 1) * sizeof(*indices));
                have--;
            }
            all[have] = r.record;
            indices[have++] = r.index;
            if (have == n && !memcmp(all, some, n * sizeof(*all))) {
                found = before <= high ? before : UINT64_MAX;
                break;
            }
        }
    }
    reader_close(&r);
    return found;
}

struct cuts {
    const struct btrail_trace *reference, *file;
    const struct selection *s;
    int n;
    /* The last selection for which no moment was found, and what was tried */
    int failed;
    uint64_t failed_low, failed_high;
};

/*
 * Is there a moment for selection @i between @low and @high, and one for each
 * of those after it?  A selection of few records may fit in more than one
 * place of a loop; only what comes next says which one it was.
 */
static bool find_cuts(struct cuts *c, int i, uint64_t low, uint64_t high)
{
    const struct selection *s = &c->s[i];
    uint64_t cut, after, next_low, next_high, end;

    if (i == c->n) {
        printf("up to record %" PRIu64 " of all\n", low);
        return true;
    }
    end = i + 1 < c->n ? s[1].since : UINT64_MAX;
    for (cut = low; cut != UINT64_MAX;
         cut = find_next(c->reference, cut, high, c->file, s->since, end, s)) {
        if (!matches(c->reference, cut, c->file, s->since, end, s, &after)) {
            continue;
        }
        /*
         * Of one that has no records only the limits are known: it can have
         * lasted from any moment between them to what it would have selected.
         */
        next_low = s->since < end ? after : low;
        next_high = s->since < end ? after : high;
        if (next_high != UINT64_MAX) {
            next_high = find_wanted(c->reference, next_high, s);
        }
        if (find_cuts(c, i + 1, next_low, next_high)) {
            return true;
        }
    }
    if (i > c->failed) {
        c->failed = i;
        c->failed_low = low;
        c->failed_high = high;
    }
    return false;
}

static int check_cuts(const struct btrail_trace *reference,
                      const struct btrail_trace *file,
                      const struct selection *s, int n)
{
    struct cuts c = { reference, file, s, n, .failed = -1 };

    if (find_cuts(&c, 0, 0, 0)) {
        return 0;
    }
    printf("selection %d, from record %" PRIu64 " on: between records "
           "%" PRIu64 " and %" PRIu64 " of all there is no moment at which it "
           "can have begun\n", c.failed, s[c.failed].since, c.failed_low,
           c.failed_high);
    return 1;
}

static void check_flow(const struct btrail_trace *file, unsigned vcpu,
                       const struct selection *s)
{
    struct btrail_record last = { 0 };
    bool have_last = false;
    unsigned breaks = 0;
    uint64_t checked = 0;
    struct reader r;

    printf("\"%u\": {\"breaks\": [", vcpu);
    reader_open(&r, file, vcpu, 0);
    while (reader_next(&r)) {
        bool follows = have_last && !r.broken &&
                       (side(last.to) & s->privilege);
        bool ok;

        if (r.broken) {
            have_last = false;
        }
        if (!wanted(s, &r)) {
            continue;
        }
        if (follows) {
            ok = (side(r.record.from) & s->privilege) &&
                 r.record.from >= last.to &&
                 r.record.from - last.to <= FAR_BYTES;
            checked++;
        } else {
            ok = !have_last || !(side(r.record.from) & s->privilege);
        }
        if (!ok && breaks++ < MAX_BREAKS) {
            printf("%s%" PRIu64, breaks > 1 ? ", " : "", r.index);
        }
        last = r.record;
        have_last = true;
    }
    reader_close(&r);
    printf("], \"count\": %u, \"checked\": %" PRIu64 "}", breaks, checked);
}

static void parse(struct selection *s, const char *text)
{
    char name[8];
    int n;

    if (sscanf(text, "%7[a-z]%n", name, &n) != 1) {
        die(text, "not a selection");
    }
    s->privilege = !strcmp(name, "user") ? USER :
                   !strcmp(name, "kernel") ? KERNEL : USER | KERNEL;
    s->cr3 = text[n] ? strtoull(text + n + 1, NULL, 0) & CR3_MASK : 0;
}

static struct btrail_trace *trace_open(const char *path)
{
    struct btrail_trace *trace;
    int ret = btrail_trace_open(&trace, path);

    if (ret) {
        die(path, btrail_strerror(ret));
    }
    return trace;
}

int main(int argc, char **argv)
{
    struct btrail_stream_info info;
    struct btrail_trace *file;
    struct selection *s;
    unsigned i;

    if (argc == 4 && !strcmp(argv[1], "flow")) {
        struct selection common = { 0 };

        file = trace_open(argv[2]);
        parse(&common, argv[3]);
        printf("{");
        for (i = 0; !btrail_trace_stream(file, i, &info); i++) {
            printf("%s", i ? ",\n" : "");
            check_flow(file, info.vcpu, &common);
        }
        printf("}\n");
        return 0;
    }
    if (argc < 5 || strcmp(argv[1], "cuts")) {
        fprintf(stderr, "usage: change-check cuts REFERENCE FILE "
                "INDEX:PRIVILEGE[:CR3]...\n"
                "       change-check flow FILE PRIVILEGE[:CR3]\n");
        return 2;
    }
    s = calloc(argc - 4, sizeof(*s));
    for (i = 4; i < (unsigned)argc; i++) {
        char *rest;

        s[i - 4].since = strtoull(argv[i], &rest, 10);
        parse(&s[i - 4], rest + (*rest != '\0'));
    }
    return check_cuts(trace_open(argv[2]), trace_open(argv[3]), s, argc - 4);
}
