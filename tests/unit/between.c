/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of cli/between.h: threads that leave marks on two vCPUs at random, and
 * the spans between these, compared with a search through all that was written
 */

#include <glib.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/between.h"
#include "code-samples.h"
#include "mark-samples.h"
#include "trace-samples.h"

#define PAGE    UINT64_C(0x400000)
#define CR3     UINT64_C(0x5000)
#define FILLER  (PAGE + 0x800)
#define START   UINT64_C(5000000)
#define STEP    UINT64_C(1000)  /* nanoseconds that an action takes */

enum { VCPUS = 2, ACTIONS = 160, THREADS = 3, VALUES = 4, MOST = 4000 };

/* Marks: the first two have values. */
enum { MARK_A, MARK_B, MARK_C, MARKS };
static const char *const names[MARKS] = { "a", "b", "c" };

static const char *const comms[THREADS + 1] = { "", "one", "two", "three" };

/**
 * struct made - a record, in the order in which they are made
 * @host:  of the last TIME event before it
 * @mark:  that it is; -1: none
 * @known: its value is
 */
struct made {
    unsigned vcpu;
    uint64_t index;
    uint64_t count;
    uint64_t host;
    unsigned tid;
    int mark;
    bool known;
    unsigned value;
    /* What it is written as; @tid was switched to before it */
    uint64_t from;
    uint64_t to;
    bool timed;
    bool switched;
};

static struct made all[MOST];
static unsigned n_all;

/* Where each vCPU is */
static struct lane {
    uint64_t n;
    uint64_t host;
    unsigned tid;
    bool timed;
    bool switched;
} lanes[VCPUS];

/*
 * What is written
 */

static struct made *add(unsigned vcpu, uint64_t from, uint64_t to)
{
    struct lane *l = &lanes[vcpu];
    struct made *m = &all[n_all];

    g_assert_cmpuint(n_all, <, MOST);
    *m = (struct made) {
        vcpu, l->n++, 1000 + 3 * n_all, l->host, l->tid, -1,
        .from = from, .to = to, .timed = l->timed, .switched = l->switched,
    };
    l->timed = l->switched = false;
    n_all++;
    return m;
}

static uint64_t mark_at(unsigned mark)
{
    return PAGE + 0x100 * (mark + 1);
}

/* The record of a mark comes after its name. */
static uint64_t mark_to(unsigned mark)
{
    uint8_t bytes[64];

    return mark_at(mark) + sample_mark(bytes, names[mark], mark != MARK_C);
}

/*
 * A branch for each bit of the value, from the lowest on: the last one ends
 * it.
 */
static void leave(unsigned vcpu, unsigned mark, unsigned value)
{
    const uint64_t to = mark_to(mark);
    struct made *m = add(vcpu, mark_at(mark), to);

    m->mark = mark;
    m->known = mark != MARK_C && value;
    m->value = value;
    for (; m->known && value > 1; value >>= 1) {
        add(vcpu, to + (value & 1 ? 5 : 3), to);
    }
    if (m->known) {
        add(vcpu, to + 7, to + 11);
    }
}

static void switch_to(unsigned vcpu, unsigned tid)
{
    lanes[vcpu].switched |= lanes[vcpu].tid != tid;
    lanes[vcpu].tid = tid;
}

/* Of three threads, one waits, and goes on on any vCPU. */
static void act(unsigned i)
{
    unsigned vcpu = g_test_rand_int_range(0, VCPUS);
    unsigned waits = 1 + 2 + 3 - lanes[0].tid - lanes[1].tid;

    lanes[vcpu].host = START + i * STEP;
    lanes[vcpu].timed = true;
    if (!g_test_rand_int_range(0, 4)) {
        switch_to(vcpu, waits);
    }
    for (int n = g_test_rand_int_range(0, 4); n; n--) {
        add(vcpu, FILLER, FILLER);
    }
    leave(vcpu, g_test_rand_int_range(0, MARKS),
          g_test_rand_int_range(1, VALUES + 1));
}

/* The last value of a vCPU is cut off. */
static void make_records(void)
{
    n_all = 0;
    memset(lanes, 0, sizeof(lanes));
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        switch_to(vcpu, 1 + vcpu);
        lanes[vcpu].host = START;
        lanes[vcpu].timed = true;
        add(vcpu, FILLER, FILLER);
    }
    for (unsigned i = 1; i < ACTIONS; i++) {
        act(i);
    }
    leave(0, MARK_A, 0);
}

static void add_events(GArray *events, const struct made *m)
{
    const struct btrail_event time = {
        .type = BTRAIL_EVENT_TIME, .index = m->index,
        .data = { m->host, 0, m->count - 1 },
    };
    struct btrail_event task = {
        .type = BTRAIL_EVENT_TASK, .index = m->index,
        .data = { m->tid | (uint64_t)m->tid << 32 },
    };

    memcpy(&task.data[1], comms[m->tid], strlen(comms[m->tid]));
    if (m->timed) {
        g_array_append_val(events, time);
    }
    if (m->switched) {
        g_array_append_val(events, task);
    }
}

static void write_vcpu(struct btrail_writer *w, unsigned vcpu)
{
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE,
                                           sizeof(struct btrail_event));
    g_autoptr(GArray) records = g_array_new(FALSE, FALSE,
                                            sizeof(struct btrail_record));
    struct btrail_slab slab = { .cr3 = CR3 };

    for (unsigned i = 0; i < n_all; i++) {
        const struct made *m = &all[i];
        const struct btrail_record r = {
            m->from, m->to, m->count << BTRAIL_RECORD_ICOUNT_SHIFT,
        };

        if (m->vcpu == vcpu) {
            add_events(events, m);
            g_array_append_val(records, r);
        }
    }
    slab.records = (void *)records->data;
    slab.n_records = records->len;
    slab.events = (void *)events->data;
    slab.n_events = events->len;
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_flush(w), ==, 0);
}

static void write_code(struct btrail_writer *w)
{
    uint8_t bytes[0x100 * (MARKS + 1)];
    struct sample_code pages[VCPUS];

    memset(bytes, 0x90, sizeof(bytes));
    for (unsigned i = 0; i < MARKS; i++) {
        sample_mark(bytes + mark_at(i) - PAGE, names[i], i != MARK_C);
    }
    for (unsigned i = 0; i < VCPUS; i++) {
        pages[i] = (struct sample_code) {
            .vcpu = i, .cr3 = CR3, .address = PAGE, .bytes = bytes,
            .n = sizeof(bytes),
        };
    }
    sample_code(w, pages, VCPUS);
}

static char *write_trace(void)
{
    g_autofree char *meta = g_strdup_printf(
        "{\"tick_ns\": 0, \"privilege\": \"all\", \"start\": "
        "{\"monotonic\": %" PRIu64 "}}", START);
    char *path = sample_path();
    struct btrail_writer *w;

    make_records();
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    write_code(w);
    for (unsigned i = 0; i < VCPUS; i++) {
        write_vcpu(w, i);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return path;
}

/*
 * What the command says
 */

/* Has stderr in a file, and then what was written there. */
static FILE *catch(int *saved)
{
    FILE *file = tmpfile();

    g_assert_nonnull(file);
    fflush(stderr);
    *saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    return file;
}

static char *caught(FILE *file, int saved)
{
    char text[1000];
    size_t n;

    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    return g_strndup(text, n);
}

/* Parses operands after the name of a command: up to three, and no more. */
static bool parse(struct between *b, const char *first, const char *second,
                  const char *file, const char *pair, char **said)
{
    char *operands[] = {
        (char *)"report", (char *)first, (char *)second, (char *)file, NULL,
    };
    char **argv = operands;
    int argc = g_strv_length(argv), saved;
    FILE *stream;
    bool ok;

    *b = (struct between) {
        .given = b->given, .pair_text = g_strdup(pair),
    };
    stream = catch(&saved);
    ok = between_parse(b, &argc, &argv);
    *said = caught(stream, saved);
    if (ok && b->given) {
        g_assert_cmpint(argc, ==, 2);
        g_assert_true(argv == operands + 2);
        g_assert_cmpstr(argv[1], ==, file);
        g_assert_cmpstr(b->texts[0], ==, first);
        g_assert_cmpstr(b->texts[1], ==, second);
    } else if (ok) {
        g_assert_true(argv == operands);
    }
    return ok;
}

static void refuse(const char *first, const char *second, const char *file,
                   const char *pair, const char *want)
{
    struct between b = { .given = true };
    g_autofree char *said = NULL;

    g_assert_false(parse(&b, first, second, file, pair, &said));
    if (!g_str_has_prefix(said, want)) {
        g_error("%s does not begin with %s", said, want);
    }
    g_assert_cmpint(strchr(said, '\n') - said, ==, strlen(said) - 1);
    between_clear(&b);
}

static void test_refused(void)
{
    struct between b = { .given = false };
    g_autofree char *said = NULL;

    refuse(NULL, NULL, NULL, NULL, "backtrail: --between needs A and B");
    refuse("mark:a", "file", NULL, NULL, "backtrail: --between needs A and B");
    refuse("**", "mark:b", "file", NULL, "backtrail: --between: '**' is");
    refuse("mark:a", "**", "file", NULL, "backtrail: --between: '**' is");
    refuse("mark:a", "mark:b", "file", "values",
           "backtrail: --pair: 'values' is not thread, value or any");
    refuse("mark:a", "mark:b", "file", "", "backtrail: --pair: '' is not");
    refuse("switch", "mark:b", "file", "value",
           "backtrail: --pair=value needs marks; 'switch' is none");
    refuse("mark:a", "1:5", "file", "value",
           "backtrail: --pair=value needs marks; '1:5' is none");
    refuse("f", "g", "file", "value",
           "backtrail: --pair=value needs marks; 'f' is none");
    g_assert_false(parse(&b, "file", NULL, NULL, "any", &said));
    g_assert_cmpstr(said, ==, "backtrail: --pair needs --between\n");
    between_clear(&b);
}

/* Which B ends a span, if --pair does not say it and if it does */
static void test_pair(void)
{
    static const struct {
        const char *first;
        const char *second;
        const char *pair;
        enum spans_pair want;
    } cases[] = {
        { "mark:a", "mark:b", NULL, SPANS_THREAD },
        { "mark:a", "mark:b", "thread", SPANS_THREAD },
        { "mark:a", "mark:b", "value", SPANS_VALUE },
        { "mark:a", "mark:b", "any", SPANS_ANY },
        { "mark:a#2", "last mark:b", NULL, SPANS_ANY },
        { "mark:a#2", "last mark:b", "thread", SPANS_THREAD },
        { "mark:a#2", "last mark:b", "value", SPANS_VALUE },
        { "mark:a=3", "mark:b", "value", SPANS_VALUE },
        { "1:5", "7", NULL, SPANS_ANY },
        { "1:5", "mark:b", NULL, SPANS_THREAD },
        { "mark:a", "0:9", NULL, SPANS_THREAD },
        { "switch", "syscall", NULL, SPANS_THREAD },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct between b = { .given = true };
        g_autofree char *said = NULL;

        g_assert_true(parse(&b, cases[i].first, cases[i].second, "file",
                            cases[i].pair, &said));
        g_assert_cmpstr(said, ==, "");
        g_assert_cmpint(b.pair, ==, cases[i].want);
        if (cases[i].pair) {
            g_assert_cmpstr(between_pair_name(b.pair), ==, cases[i].pair);
        }
        between_clear(&b);
    }
    g_assert_null(between_pair_name(3));
    g_assert_null(between_pair_name(UINT_MAX));
}

/* Without the option, operands are files. */
static void test_not_given(void)
{
    struct between b = { .given = false };
    g_autofree char *said = NULL;

    g_assert_true(parse(&b, "mark:a", "mark:b", "file", NULL, &said));
    g_assert_cmpstr(said, ==, "");
    g_assert_null(b.texts[0]);
    between_clear(&b);
}

/*
 * What is to be found
 */

/* Which moments one of A and B is */
struct kind {
    const char *text;
    int mark;                   /* -1: not a mark */
    unsigned value;             /* 0: any */
    unsigned nth;               /* from 1; 0: each */
    unsigned to;                /* a switch to this thread; 0: none */
    const struct made *place;
};

/**
 * struct question
 * @comm: of the filter, a thread; 0: none
 * @cpu:  the same of vCPUs; -1: none
 * @filtered: it holds for A
 * @begin, @end: the window, in actions; both 0: all
 */
struct question {
    struct kind kinds[2];
    const char *pair;
    enum spans_pair how;
    unsigned comm;
    int cpu;
    bool filtered;
    unsigned begin;
    unsigned end;
};

/* The record that a moment is after, and the thread whose moment it is */
struct point {
    const struct made *at;
    unsigned tid;
    bool begin;
    bool known;                 /* it has a value, that of the mark */
};

struct wanted {
    struct point begin;
    struct point end;
    bool ended;
};

/* Is the one after @m of this kind?  @times: how often there was one */
static bool is_moment(const struct kind *k, const struct made *m,
                      unsigned *times)
{
    if (k->place) {
        return m == k->place;
    }
    if (k->to) {
        return m->switched && m->tid == k->to;
    }
    if (m->mark != k->mark || (k->value && !(m->known &&
                                             m->value == k->value))) {
        return false;
    }
    ++*times;
    return !k->nth || *times == k->nth;
}

static const struct made *before(const struct made *m)
{
    const struct made *found = m;

    for (unsigned i = 0; i < n_all && &all[i] < m; i++) {
        found = all[i].vcpu == m->vcpu ? &all[i] : found;
    }
    return found;
}

static bool is_chosen(const struct question *q, const struct made *m,
                      bool begin)
{
    bool filtered = begin && q->filtered;

    return (!q->end || (m->host >= START + q->begin * STEP &&
                        m->host < START + q->end * STEP)) &&
           (!filtered || !q->comm || m->tid == q->comm) &&
           (!filtered || q->cpu < 0 || m->vcpu == (unsigned)q->cpu);
}

/* Of one moment, B comes first. */
static gint in_order(gconstpointer a, gconstpointer b)
{
    const struct point *x = a, *y = b;

    return x->at != y->at ? (x->at > y->at ? 1 : -1) : x->begin - y->begin;
}

static GArray *find_points(const struct question *q)
{
    GArray *points = g_array_new(FALSE, FALSE, sizeof(struct point));
    unsigned times[2] = { 0 };

    for (unsigned i = 0; i < n_all; i++) {
        for (unsigned end = 0; end < 2; end++) {
            const struct kind *k = &q->kinds[end];

            if (is_moment(k, &all[i], &times[end]) &&
                is_chosen(q, &all[i], !end)) {
                const struct point p = {
                    k->to ? before(&all[i]) : &all[i], all[i].tid, !end,
                    !k->to && all[i].known,
                };

                g_array_append_val(points, p);
            }
        }
    }
    g_array_sort(points, in_order);
    return points;
}

static bool matches(enum spans_pair how, const struct point *a,
                    const struct point *b)
{
    return how == SPANS_ANY ||
           (how == SPANS_VALUE ? a->at->value == b->at->value :
                                 a->tid == b->tid);
}

/* B ends the last one that matches and continues. */
static GArray *find_spans(const struct question *q, unsigned *unbegun,
                          unsigned *unvalued)
{
    g_autoptr(GArray) points = find_points(q);
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct wanted));

    *unbegun = *unvalued = 0;
    for (guint i = 0; i < points->len; i++) {
        const struct point *p = &g_array_index(points, struct point, i);
        const struct wanted one = { .begin = *p };
        struct wanted *last = NULL;

        if (q->how == SPANS_VALUE && !p->known) {
            ++*unvalued;
            continue;
        }
        for (guint k = 0; !p->begin && k < found->len; k++) {
            struct wanted *w = &g_array_index(found, struct wanted, k);

            last = !w->ended && matches(q->how, &w->begin, p) ? w : last;
        }
        if (p->begin) {
            g_array_append_val(found, one);
        } else if (last) {
            last->end = *p;
            last->ended = true;
        } else {
            ++*unbegun;
        }
    }
    return found;
}

static bool is_in(const struct question *q, const struct wanted *w,
                  const struct made *m)
{
    return w->ended && m->count >= w->begin.at->count &&
           m->count < w->end.at->count &&
           (q->how == SPANS_ANY || m->tid == w->begin.tid ||
            (q->how == SPANS_VALUE && m->tid == w->end.tid));
}

static uint64_t count(const struct question *q, const struct wanted *w)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < n_all; i++) {
        n += is_in(q, w, &all[i]);
    }
    return n;
}

/*
 * What is found
 */

struct asked {
    struct between b;
    struct analysis in;
};

static void open_trace(struct asked *a, const struct question *q, char *path)
{
    char *const paths[] = { path, NULL };
    g_autofree char *said = NULL;

    memset(a, 0, sizeof(*a));
    a->b.given = true;
    g_assert_true(parse(&a->b, q->kinds[0].text, q->kinds[1].text, path,
                        q->pair, &said));
    g_assert_cmpint(a->b.pair, ==, q->how);
    a->in.comm_text = q->comm ? g_strdup(comms[q->comm]) : NULL;
    a->in.cpu_text = q->cpu < 0 ? NULL : g_strdup_printf("%d", q->cpu);
    if (q->end) {
        a->in.time_text = g_strdup_printf(
            "%" PRIu64 "ns..%" PRIu64 "ns", q->begin * STEP, q->end * STEP);
    }
    g_assert_true(analysis_parse(&a->in));
    g_assert_true(analysis_open(&a->in, paths, true));
}

static void close_trace(struct asked *a)
{
    between_clear(&a->b);
    analysis_clear(&a->in);
}

static void check_point(const struct span_point *found, const struct point *p)
{
    g_assert_cmpuint(found->vcpu, ==, p->at->vcpu);
    g_assert_cmpuint(found->index, ==, p->at->index);
    g_assert_cmpuint(found->count, ==, p->at->count);
    g_assert_cmpuint(found->task.tid, ==, p->tid);
    g_assert_cmpuint(found->cr3, ==, CR3);
    g_assert_cmpint(found->known, ==, p->known);
    if (found->known) {
        g_assert_cmpuint(found->value, ==, p->at->value);
    }
}

/* Returns how many have ended. */
static unsigned check_spans(const struct question *q, const struct between *b,
                            bool counted)
{
    unsigned unbegun, unvalued, ended = 0;
    g_autoptr(GArray) want = find_spans(q, &unbegun, &unvalued);

    for (guint i = 0; i < want->len; i++) {
        const struct wanted *w = &g_array_index(want, struct wanted, i);
        const struct span *span = spans_get(b->spans, i);

        g_assert_nonnull(span);
        check_point(span->begin, &w->begin);
        g_assert_cmpint(!!span->end, ==, w->ended);
        if (w->ended) {
            check_point(span->end, &w->end);
        }
        g_assert_cmpuint(span->records, ==, counted ? count(q, w) : 0);
        ended += w->ended;
    }
    g_assert_null(spans_get(b->spans, want->len));
    g_assert_cmpuint(spans_unbegun(b->spans), ==, unbegun);
    g_assert_cmpuint(spans_unvalued(b->spans), ==, unvalued);
    return ended;
}

static unsigned check(const struct question *q, char *path)
{
    unsigned ended = 0;

    for (unsigned counted = 0; counted < 2; counted++) {
        struct asked a;

        open_trace(&a, q, path);
        g_assert_true(between_read(&a.b, &a.in, q->filtered, counted));
        ended = check_spans(q, &a.b, counted);
        g_assert_null(a.b.set);
        g_assert_cmpuint(a.b.damage, ==, 0);
        g_assert_false(a.in.within);
        close_trace(&a);
    }
    return ended;
}

#define A       { "mark:a", MARK_A }
#define B       { "mark:b", MARK_B }

static void test_pairs(void)
{
    const struct question questions[] = {
        { { A, B }, NULL, SPANS_THREAD, .cpu = -1 },
        { { A, B }, "value", SPANS_VALUE, .cpu = -1 },
        { { A, B }, "any", SPANS_ANY, .cpu = -1 },
        /* A moment of both ends one and begins the next one. */
        { { A, A }, NULL, SPANS_THREAD, .cpu = -1 },
        { { { "mark:a=2", MARK_A, 2 }, B }, NULL, SPANS_THREAD, .cpu = -1 },
        { { { "mark:a=2", MARK_A, 2 }, B }, "value", SPANS_VALUE, .cpu = -1 },
        { { { "mark:a#3", MARK_A, .nth = 3 },
            { "mark:b#20", MARK_B, .nth = 20 } }, NULL, SPANS_ANY, .cpu = -1 },
        /* These need a value, and have none. */
        { { { "mark:c", MARK_C }, B }, "value", SPANS_VALUE, .cpu = -1 },
        { { { "switch to two", -1, .to = 2 }, B }, NULL, SPANS_THREAD,
          .cpu = -1 },
    };
    char *path = write_trace();
    unsigned ended = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(questions); i++) {
        g_test_message("%u", i);
        ended += check(&questions[i], path);
    }
    g_assert_cmpuint(ended, >, 50);
    sample_remove(path);
}

/* From one place to another one, of any vCPUs */
static void test_places(void)
{
    char *path = write_trace();

    for (unsigned i = 0; i < 4; i++) {
        const struct made *first = &all[n_all / 8 * (i + 1)];
        const struct made *last = &all[n_all / 8 * (i + 3) - i];
        g_autofree char *a = g_strdup_printf("%u:%" PRIu64, first->vcpu,
                                             first->index);
        g_autofree char *b = g_strdup_printf("%u:%" PRIu64, last->vcpu,
                                             last->index);
        const struct question q = {
            { { a, -1, .place = first }, { b, -1, .place = last } }, NULL,
            SPANS_ANY, .cpu = -1,
        };
        const struct question back = {
            { q.kinds[1], q.kinds[0] }, NULL, SPANS_ANY, .cpu = -1,
        };

        g_assert_cmpuint(check(&q, path), ==, 1);
        g_assert_cmpuint(check(&back, path), ==, 0);
    }
    sample_remove(path);
}

/* A filter holds for A if it is asked for, and --time for both. */
static void test_chosen(void)
{
    char *path = write_trace();

    for (unsigned filtered = 0; filtered < 2; filtered++) {
        struct question q = {
            { A, B }, "value", SPANS_VALUE, .cpu = -1, .filtered = filtered,
        };

        q.comm = 2;
        check(&q, path);
        q.comm = 0;
        q.cpu = 1;
        check(&q, path);
        q.comm = 1;
        check(&q, path);
        q.begin = ACTIONS / 4;
        q.end = ACTIONS * 3 / 4;
        check(&q, path);
        q.cpu = -1;
        q.comm = 0;
        check(&q, path);
    }
    sample_remove(path);
}

/* The filter chooses records of spans, which it did not choose itself. */
static void test_restrict(void)
{
    char *path = write_trace();

    for (int cpu = -1; cpu < VCPUS; cpu++) {
        const struct question q = { { A, B }, NULL, SPANS_THREAD, .cpu = cpu };
        unsigned unbegun, unvalued, chosen = 0;
        g_autoptr(GArray) want = find_spans(&q, &unbegun, &unvalued);
        struct asked a;

        open_trace(&a, &q, path);
        g_assert_true(between_restrict(&a.b, &a.in));
        g_assert_true(a.in.within);
        check_spans(&q, &a.b, true);
        for (unsigned i = 0; i < n_all; i++) {
            const struct named_record r = {
                .vcpu = all[i].vcpu, .index = all[i].index,
            };
            bool in = false;

            for (guint k = 0; k < want->len; k++) {
                in |= is_in(&q, &g_array_index(want, struct wanted, k),
                            &all[i]);
            }
            g_assert_cmpint(record_set_has(a.b.set, r.vcpu, r.index, NULL), ==,
                            in);
            in = in && (cpu < 0 || r.vcpu == (unsigned)cpu);
            g_assert_cmpint(filter_matches(a.in.filter, &r), ==, in);
            chosen += in;
        }
        g_assert_cmpuint(chosen, >, 0);
        close_trace(&a);
    }
    sample_remove(path);
}

static void check_fails(const char *first, const char *second, char *path,
                        bool restricted, const char *want)
{
    const struct question q = {
        { { first, -1 }, { second, -1 } }, "thread", SPANS_THREAD, .cpu = -1,
    };
    g_autofree char *said = NULL, *all_of_it = NULL;
    struct asked a;
    FILE *stream;
    int saved;
    bool ok;

    open_trace(&a, &q, path);
    stream = catch(&saved);
    ok = restricted ? between_restrict(&a.b, &a.in) :
                      between_read(&a.b, &a.in, true, true);
    said = caught(stream, saved);
    g_assert_false(ok);
    g_assert_false(a.in.within);
    g_assert_null(a.in.filter);
    all_of_it = g_strdup_printf("backtrail: %s: ", path);
    g_assert_true(g_str_has_prefix(said, all_of_it));
    if (!strstr(said, want)) {
        g_error("%s is not in %s", want, said);
    }
    close_trace(&a);
}

/* What is not there, as A and as B */
static void test_fails(void)
{
    char *path = write_trace();

    for (unsigned restricted = 0; restricted < 2; restricted++) {
        check_fails("nothing_like_it", "mark:b", path, restricted,
                    "nothing_like_it");
        check_fails("mark:a", "nothing_like_it", path, restricted,
                    "nothing_like_it");
        check_fails("0:0", "1:99999", path, restricted, "no record 99999");
    }
    sample_remove(path);
}

/*
 * The same block, again and again, up to a last one that nothing ends: more
 * moments than there can be
 */
static void test_many(void)
{
    const unsigned n = SPANS_MAX_POINTS + 2;
    g_autofree struct btrail_record *records = g_new0(struct btrail_record, n);
    const struct btrail_slab slab = {
        .records = records, .n_records = n, .cr3 = CR3,
    };
    char *path = sample_path();
    struct btrail_writer *w;

    for (unsigned i = 0; i < n; i++) {
        records[i] = (struct btrail_record) { FILLER, FILLER };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    check_fails("0:1", "*0x400800", path, false,
                "'*0x400800' happens more than 524288 times; choose a part of "
                "the trace with --time");
    sample_remove(path);
}

/* Records that cannot be read were in the way of A, or of B. */
static void test_damage(void)
{
    const struct question q = { { A, B }, NULL, SPANS_THREAD, .cpu = -1 };
    g_autofree char *bytes = NULL;
    char *path = write_trace();
    struct asked a;
    gsize n;

    g_assert_true(g_file_get_contents(path, &bytes, &n, NULL));
    bytes[n * 2 / 3] ^= 1;
    g_assert_true(g_file_set_contents(path, bytes, n, NULL));
    open_trace(&a, &q, path);
    g_assert_cmpuint(a.in.trace.status.bad_chunks, ==, 0);
    g_assert_true(between_read(&a.b, &a.in, false, false));
    g_assert_cmpuint(a.b.damage, >, 0);
    close_trace(&a);
    sample_remove(path);
}

/*
 * Two vCPUs for a second: the first one makes a record every 10 microseconds,
 * a hundred for thread 1 and a hundred for thread 2 by turns, with a clock
 * where threads are switched.  The other one makes five for thread 3 every 200
 * milliseconds, and waits.
 */
enum { EACH = 100, TURNS = 1000, WAKES = 5, MS = 1000000 };

static void write_turn(struct btrail_writer *w, unsigned vcpu, unsigned turn,
                       unsigned n, unsigned tid, uint64_t ns)
{
    struct btrail_record records[EACH];
    struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_TIME, .index = turn * n,
          .data = { START + ns, 0, BTRAIL_NO_ICOUNT } },
        { .type = BTRAIL_EVENT_TASK, .index = turn * n,
          .data = { tid | (uint64_t)tid << 32 } },
    };
    const struct btrail_slab slab = {
        .first_index = turn * n, .cr3 = CR3, .records = records,
        .n_records = n, .events = events, .n_events = 2,
    };

    for (unsigned i = 0; i < n; i++) {
        records[i] = (struct btrail_record) { FILLER, FILLER, 0 };
    }
    memcpy(&events[1].data[1], comms[tid], strlen(comms[tid]));
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

static char *write_waits(void)
{
    g_autofree char *meta = g_strdup_printf(
        "{\"tick_ns\": %d, \"privilege\": \"all\", \"start\": "
        "{\"monotonic\": %" PRIu64 "}}", MS, START);
    char *path = sample_path();
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    for (unsigned i = 0; i <= TURNS; i++) {
        write_turn(w, 0, i, EACH, 1 + i % 2, i * (uint64_t)MS);
    }
    for (unsigned i = 0; i <= WAKES; i++) {
        write_turn(w, 1, i, 5, 3, i * (uint64_t)200 * MS);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return path;
}

/* How much time a report of call stacks has, in ns */
static uint64_t report_time(char *path, const char *pair, const char *comm,
                            const char *cpu, const char *time)
{
    char *const paths[] = { path, NULL };
    g_autofree struct call_sum *sums = NULL;
    g_autofree char *said = NULL;
    struct asked a = { .b.given = pair != NULL };
    struct call_tree t;
    const struct stack_node *n;
    uint64_t ticks = 0;

    /* From 300 to 310 ms after the start, from a thread to itself */
    g_assert_true(parse(&a.b, "0:30000", "0:31000", path, pair, &said));
    a.in.comm_text = g_strdup(comm);
    a.in.cpu_text = g_strdup(cpu);
    a.in.time_text = g_strdup(time);
    g_assert_true(analysis_parse(&a.in));
    g_assert_true(analysis_open(&a.in, paths, true));
    if (pair) {
        g_assert_true(between_restrict(&a.b, &a.in));
    }
    g_assert_cmpint(analysis_read_calls(&a.in, &t, NULL, NULL), ==, 0);
    sums = call_tree_sums(&t);
    for (n = stacks_roots(t.stacks); n; n = n->next) {
        ticks += sums[n->id].ticks;
    }
    call_tree_clear(&t);
    close_trace(&a);
    return (ticks + STACK_TICKS / 2) / STACK_TICKS;
}

/* Time is that of the spans, of the records that the other options choose. */
static void test_time(void)
{
    static const struct {
        const char *pair;
        const char *comm;
        const char *cpu;
        const char *time;
        unsigned us;
    } cases[] = {
        /* After the last clocks, records are as quick as before these. */
        { NULL, NULL, NULL, NULL, 2003000 },
        { NULL, "three", NULL, NULL, 1002000 },
        { NULL, "one,two", NULL, NULL, 1001000 },
        { NULL, NULL, "1", NULL, 1002000 },
        { NULL, NULL, NULL, "0.3..0.31", 20000 },
        { NULL, NULL, NULL, "0.3..0.311", 22000 },
        { NULL, "one", NULL, "0.3..0.311", 6000 },
        { NULL, "two", NULL, "0.3..0.311", 5000 },
        { NULL, "three", NULL, "0.3..0.311", 11000 },
        { "any", NULL, NULL, NULL, 20000 },
        { "any", "one", NULL, NULL, 5000 },
        { "any", "two", NULL, NULL, 5000 },
        { "any", "three", NULL, NULL, 10000 },
        { "any", NULL, "0", NULL, 10000 },
        { "any", NULL, "1", NULL, 10000 },
        { "any", "three", "0", NULL, 0 },
        { "thread", NULL, NULL, NULL, 5000 },
        { "thread", "one", NULL, NULL, 5000 },
        { "thread", "three", NULL, NULL, 0 },
    };
    char *path = write_waits();

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint64_t ns = report_time(path, cases[i].pair, cases[i].comm,
                                  cases[i].cpu, cases[i].time);

        g_test_message("%u", i);
        /* Times are whole nanoseconds. */
        g_assert_cmpuint(ns, <=, cases[i].us * 1000 + 2);
        g_assert_cmpuint(ns + 2, >=, cases[i].us * 1000);
    }
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/between/refused", test_refused);
    g_test_add_func("/between/pair", test_pair);
    g_test_add_func("/between/not-given", test_not_given);
    g_test_add_func("/between/pairs", test_pairs);
    g_test_add_func("/between/places", test_places);
    g_test_add_func("/between/chosen", test_chosen);
    g_test_add_func("/between/restrict", test_restrict);
    g_test_add_func("/between/time", test_time);
    g_test_add_func("/between/fails", test_fails);
    g_test_add_func("/between/many", test_many);
    g_test_add_func("/between/damage", test_damage);
    return g_test_run();
}
