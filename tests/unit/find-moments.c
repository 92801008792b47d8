/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The moments that the options of backtrail find choose, in a random trace of
 * several vCPUs: compared with a search through all that was written
 */

#include <inttypes.h>
#include <string.h>

#include "cli/find/find.h"
#include "code-samples.h"
#include "trace-samples.h"

#define FUNCTIONS   4           /* "f0" to "f3" */
#define DEPTH       4
#define CR3         UINT64_C(0x5000)

#define VCPUS       3u
#define RECORDS     1200u       /* of all vCPUs */
#define SLAB        20u
#define SLABS       5u          /* make a chunk */
#define START       UINT64_C(5000000)
#define PITCH_NS    1000u       /* between two records */

static const char *const comms[] = { "one", "two", "three" };

/**
 * struct known - a record, in the order in which they are made
 * @count:  instructions up to it
 * @host:   of the last TIME event before it
 * @end:    when it is over, as is estimated
 * @task:   0 to 2
 * @inside: after it, vCPU 0 is in f1; of its records
 */
struct known {
    unsigned vcpu;
    uint64_t index;
    uint64_t count;
    uint64_t host;
    uint64_t end;
    unsigned task;
    bool inside;
    struct btrail_record record;
};

/* A task begins to run, by its events. */
struct known_switch {
    unsigned vcpu;
    uint64_t index;             /* of the first record that it makes */
    uint64_t count;
    uint64_t host;
    int from;                   /* or -1 */
    unsigned to;
};

static struct known all[RECORDS];
static struct known_switch switched[RECORDS];
static unsigned n_switched;

/*
 * What is written
 */

/* What a vCPU is about to do */
struct lane {
    uint64_t n;
    uint64_t host;
    int task;
    uint64_t to;
    unsigned stack[DEPTH];      /* functions */
    uint64_t back[DEPTH];       /* where the caller of one goes on */
    unsigned depth;
};

static bool is_in(const struct lane *l, unsigned function)
{
    for (unsigned i = 0; i < l->depth; i++) {
        if (l->stack[i] == function) {
            return true;
        }
    }
    return false;
}

/* Calls and returns, so that it is known who has called */
static void call_or_return(struct lane *l, struct btrail_record *r)
{
    unsigned top = l->depth - 1, function = l->stack[top];

    if (l->depth == 1 || (l->depth < DEPTH && g_test_rand_bit())) {
        r->from = sample_function(function) +
                  16 * g_test_rand_int_range(1, SAMPLE_CALLS + 1);
        function = g_test_rand_int_range(1, FUNCTIONS);
        r->to = sample_function(function);
        l->stack[l->depth] = function;
        l->back[l->depth++] = r->from + 2;
    } else {
        r->from = sample_function(function) + SAMPLE_RET;
        r->to = l->back[top];
        l->depth--;
    }
}

/* From anywhere after where it was, to a function's begin or into one */
static void jump(struct lane *l, struct btrail_record *r)
{
    r->from = l->to + 4 * g_test_rand_int_range(0, 10);
    l->to = sample_function(g_test_rand_int_range(0, FUNCTIONS)) +
            (g_test_rand_bit() ? 4 * g_test_rand_int_range(0, 40) : 0);
    r->to = l->to;
}

/* vCPU 0 runs one task all the time, so that its stack is one. */
static void begin_slab(struct lane *l, unsigned vcpu, uint64_t count,
                       uint64_t now)
{
    int task = vcpu ? g_test_rand_int_range(0, G_N_ELEMENTS(comms)) : 0;

    l->host = now;
    if (task != l->task) {
        switched[n_switched++] = (struct known_switch) {
            vcpu, l->n, count, now, l->task, task,
        };
    }
    l->task = task;
}

static void make_records(bool counted)
{
    struct lane lanes[VCPUS] = { { 0 } };
    uint64_t count = 1000;

    n_switched = 0;
    for (unsigned i = 0; i < VCPUS; i++) {
        lanes[i].task = -1;
        lanes[i].to = sample_function(0);
        lanes[i].depth = 1;
    }
    for (unsigned i = 0; i < RECORDS; i++) {
        unsigned vcpu = g_test_rand_int_range(0, VCPUS);
        struct lane *l = &lanes[vcpu];
        struct known *k = &all[i];

        if (l->n % SLAB == 0) {
            begin_slab(l, vcpu, count, START + i * PITCH_NS);
        }
        count += g_test_rand_int_range(1, 10);
        *k = (struct known) {
            vcpu, l->n++, count, l->host, .task = l->task,
        };
        if (vcpu) {
            jump(l, &k->record);
        } else {
            call_or_return(l, &k->record);
        }
        k->inside = is_in(l, 1);
        if (counted) {
            k->record.flags = count << BTRAIL_RECORD_ICOUNT_SHIFT;
        }
    }
}

/* Record @index of a vCPU; NULL after its last one */
static const struct known *record_of(unsigned vcpu, uint64_t index)
{
    for (unsigned i = 0; i < RECORDS; i++) {
        if (all[i].vcpu == vcpu && all[i].index == index) {
            return &all[i];
        }
    }
    return NULL;
}

/*
 * The records between two clocks share the time, in 1/1024 ns; those after the
 * last one take as long as the ones before.
 */
static void estimate_ends(void)
{
    for (unsigned i = 0; i < RECORDS; i++) {
        struct known *k = &all[i];
        uint64_t first = k->index / SLAB * SLAB;
        const struct known *next = record_of(k->vcpu, first + SLAB);
        const struct known *before = record_of(k->vcpu, first - SLAB);
        uint64_t took = next ? next->host - k->host :
                        first ? k->host - before->host : 0;

        k->end = k->host + (k->index + 1 - first) * (took * 1024 / SLAB) / 1024;
    }
}

static void write_slab(struct btrail_writer *w, unsigned vcpu, uint64_t first,
                       uint64_t before, bool tasks)
{
    struct btrail_record records[SLAB];
    const struct known *k = record_of(vcpu, first);
    struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_TIME, .index = first,
          .data = { k->host, 0, before } },
        { .type = BTRAIL_EVENT_TASK, .index = first,
          .data = { (k->task + 1) | (uint64_t)(k->task + 1) << 32 } },
    };
    struct btrail_slab slab = {
        .first_index = first, .records = records, .events = events,
        .n_events = 1 + tasks, .cr3 = CR3,
    };

    memcpy(&events[1].data[1], comms[k->task], strlen(comms[k->task]));
    for (uint64_t i = first; i < first + SLAB && (k = record_of(vcpu, i));
         i++) {
        records[slab.n_records++] = k->record;
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

/* The count when a slab begins; the clock has no count if records have none. */
static uint64_t count_before(unsigned vcpu, uint64_t first, bool counted)
{
    const struct known *k = record_of(vcpu, first);

    return !counted ? BTRAIL_NO_ICOUNT : k == all ? 1000 : k[-1].count;
}

static void write_names(struct btrail_writer *w)
{
    g_autofree char *meta = g_strdup_printf(
        "{\"tick_ns\": 0, \"privilege\": \"all\", \"start\": "
        "{\"monotonic\": %" PRIu64 "}}", START);

    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    sample_functions(w, CR3, FUNCTIONS);
}

static char *write_trace(bool counted, bool tasks)
{
    char *path = sample_path();
    struct btrail_writer *w;

    make_records(counted);
    estimate_ends();
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    write_names(w);
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        for (uint64_t i = 0; record_of(vcpu, i); i += SLAB) {
            write_slab(w, vcpu, i, count_before(vcpu, i, counted), tasks);
            if (i / SLAB % SLABS == SLABS - 1) {
                g_assert_cmpint(btrail_writer_flush(w), ==, 0);
            }
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return path;
}

/*
 * What is asked, and what is to be found
 */

/**
 * struct question
 * @what:    as in the command
 * @target:  where its records go; 0 for none in particular
 * @block:   or an address that runs after them
 * @begin, @end: nanoseconds of --time; both 0: not given
 * @cpu:     of --cpu; -1: not given
 * @comm:    of --comm; -1: not given
 * @filter:  of --filter
 * @also:    what it says; NULL: nothing more
 * @between: records, or not given if they are the same
 * @inside:  while vCPU 0 is in f1
 */
struct question {
    const char *what;
    uint64_t target;
    uint64_t block;
    uint64_t begin;
    uint64_t end;
    int cpu;
    int comm;
    const char *filter;
    bool (*also)(const struct known *k);
    const struct known *between[2];
    bool inside;
};

#define ANY .cpu = -1, .comm = -1

static bool in_window(const struct question *q, uint64_t host)
{
    return !q->end || (host >= START + q->begin && host < START + q->end);
}

/* After the last record of vCPU 0, it is not known where it is. */
static bool is_inside(uint64_t count)
{
    const struct known *last = NULL, *next = NULL;

    for (unsigned i = 0; i < RECORDS && !next; i++) {
        if (all[i].vcpu) {
            continue;
        }
        if (all[i].count <= count) {
            last = &all[i];
        } else {
            next = &all[i];
        }
    }
    return last && last->inside && (next || last->count == count);
}

static bool runs(const struct question *q, const struct known *k)
{
    const struct known *next;

    if (!q->block) {
        return k->record.to == q->target;
    }
    next = record_of(k->vcpu, k->index + 1);
    return next && k->record.to <= q->block && q->block <= next->record.from;
}

static bool wanted(const struct question *q, const struct known *k)
{
    return runs(q, k) && in_window(q, k->host) &&
           (q->cpu < 0 || k->vcpu == (unsigned)q->cpu) &&
           (q->comm < 0 || k->task == (unsigned)q->comm) &&
           (!q->also || q->also(k)) &&
           (!q->between[0] || (k->count >= q->between[0]->count &&
                               k->count < q->between[1]->count)) &&
           (!q->inside || (k->vcpu && is_inside(k->count)));
}

/* Without counts, the order is that of estimated times. */
static gint by_clock(gconstpointer a, gconstpointer b)
{
    const struct known *x = *(struct known *const *)a;
    const struct known *y = *(struct known *const *)b;

    return x->vcpu == y->vcpu ? (x->index > y->index ? 1 : -1) :
           x->end != y->end ? (x->end > y->end ? 1 : -1) :
           x->vcpu > y->vcpu ? 1 : -1;
}

static GPtrArray *search(const struct question *q, bool counted)
{
    GPtrArray *found = g_ptr_array_new();

    for (unsigned i = 0; i < RECORDS; i++) {
        if (wanted(q, &all[i])) {
            g_ptr_array_add(found, &all[i]);
        }
    }
    if (!counted) {
        g_ptr_array_sort(found, by_clock);
    }
    return found;
}

/* The options of a question, as backtrail find parses them */
struct asked {
    struct find_options o;
    char *between[3];
    struct finder *finder;
    GError *error;
};

static char *place_of(const struct known *k)
{
    return g_strdup_printf("%u:%" PRIu64, k->vcpu, k->index);
}

static void ask(struct asked *a, const struct question *q, char *path)
{
    char *const paths[] = { path, NULL };
    struct analysis *in = &a->o.in;

    memset(a, 0, sizeof(*a));
    a->o.threads = 2;
    g_assert_true(find_event_parse(q->what, &a->o.what, NULL));
    if (q->end) {
        in->time_text = g_strdup_printf("%" PRIu64 "ns..%" PRIu64 "ns",
                                        q->begin, q->end);
    }
    in->cpu_text = q->cpu < 0 ? NULL : g_strdup_printf("%d", q->cpu);
    in->comm_text = q->comm < 0 ? NULL : g_strdup(comms[q->comm]);
    in->filter_text = g_strdup(q->filter);
    if (q->between[0]) {
        a->between[0] = place_of(q->between[0]);
        a->between[1] = place_of(q->between[1]);
        a->o.between = a->between;
    }
    a->o.meanwhile = q->inside ? g_strdup("cpu 0: in f1") : NULL;
    g_assert_true(analysis_parse(in));
    g_assert_true(analysis_open(in, paths, true));
    a->finder = finder_new(&a->o, &a->error);
}

static void ask_again(struct asked *a)
{
    finder_free(a->finder);
    a->finder = finder_new(&a->o, &a->error);
    g_assert_no_error(a->error);
}

static void clear(struct asked *a)
{
    finder_free(a->finder);
    find_event_clear(&a->o.what);
    analysis_clear(&a->o.in);
    g_free(a->o.meanwhile);
    g_free(a->between[0]);
    g_free(a->between[1]);
    g_clear_error(&a->error);
}

static void check(const struct find_moment *found, const struct known *k)
{
    const struct visit *v = &found->visit;

    g_assert_cmpuint(v->at.vcpu, ==, k->vcpu);
    g_assert_cmpuint(v->at.index, ==, k->index);
    g_assert_cmpuint(v->at.time.host, ==, k->host);
    g_assert_cmpmem(&v->record, sizeof(v->record), &k->record,
                    sizeof(k->record));
    g_assert_cmpuint(v->at.task.tid, ==, k->task + 1);
    g_assert_true(found->has_record);
    g_assert_false(found->from.known);
}

/* What finder_each() has found, in any order */
struct seen {
    struct finder *finder;
    GPtrArray *want;
    bool *found;
};

static void see(void *opaque, unsigned worker, const struct visit *visit)
{
    struct seen *seen = opaque;
    guint i = 0;

    g_assert_cmpuint(worker, <, 2);
    finder_lock(seen->finder);
    for (;; i++) {
        const struct known *k = i < seen->want->len ? seen->want->pdata[i] :
                                NULL;

        g_assert_nonnull(k);
        if (k->vcpu == visit->at.vcpu && k->index == visit->at.index) {
            break;
        }
    }
    g_assert_false(seen->found[i]);
    seen->found[i] = true;
    finder_unlock(seen->finder);
}

static void check_each(struct asked *a, GPtrArray *want)
{
    g_autofree bool *found = g_new0(bool, want->len + 1);
    struct seen seen = { a->finder, want, found };

    g_assert_true(finder_each(a->finder, see, &seen, &a->error));
    g_assert_no_error(a->error);
    for (guint i = 0; i < want->len; i++) {
        g_assert_true(found[i]);
    }
}

static void check_back(struct asked *a, GPtrArray *want)
{
    struct find_moment found;

    for (guint i = want->len; i--;) {
        g_assert_true(finder_previous(a->finder, &found, &a->error));
        check(&found, want->pdata[i]);
    }
    g_assert_false(finder_previous(a->finder, &found, &a->error));
    g_assert_no_error(a->error);
}

/* All ways find the same.  Returns how many there are. */
static unsigned compare(const struct question *q, char *path, bool counted)
{
    g_autoptr(GPtrArray) want = search(q, counted);
    struct find_moment found;
    struct asked a;

    ask(&a, q, path);
    g_assert_no_error(a.error);
    g_assert_cmpint(finder_goes_back(a.finder), ==, !q->inside);
    g_assert_cmpint(finder_has_threads(a.finder), ==, !q->inside);
    for (guint i = 0; i < want->len; i++) {
        g_assert_true(finder_next(a.finder, &found, &a.error));
        check(&found, want->pdata[i]);
        finder_complete(a.finder, &found);
        check(&found, want->pdata[i]);
    }
    g_assert_false(finder_next(a.finder, &found, &a.error));
    g_assert_no_error(a.error);
    g_assert_cmpuint(finder_damage(a.finder), ==, 0);
    if (!q->inside) {
        ask_again(&a);
        check_back(&a, want);
        ask_again(&a);
        check_each(&a, want);
    }
    clear(&a);
    return want->len;
}

static bool is_from_f2(const struct known *k)
{
    return k->record.from >= sample_function(2) &&
           k->record.from < sample_function(3);
}

static bool is_low(const struct known *k)
{
    return k->index < 100;
}

static bool is_early(const struct known *k)
{
    return k->host < START + 600000;
}

/* Code runs, and options choose when, where and of whom. */
static void check_options(bool counted)
{
    char *path = write_trace(counted, true);
    /* Between two clocks, and from one to another one */
    const uint64_t begin = RECORDS / 3 * PITCH_NS + 1;
    const uint64_t first = all[RECORDS / 4].host - START;
    const uint64_t last = all[RECORDS / 2].host - START;
    const struct question questions[] = {
        { "f1", sample_function(1), ANY },
        { "*0xffffffff81000208", .block = sample_function(2) + 8, .cpu = 1,
          .comm = -1 },
        { "f2", sample_function(2), .begin = begin, .end = 2 * begin, ANY },
        { "f1", sample_function(1), .begin = first, .end = last, ANY },
        { "f1", sample_function(1), .end = last, ANY },
        { "f3", sample_function(3), .cpu = 2, .comm = -1 },
        { "f3", sample_function(3), .cpu = -1, .comm = 1 },
        { "f1", sample_function(1), .filter = "sym == f2", .also = is_from_f2,
          ANY },
        { "f1", sample_function(1), .begin = first, .end = last, .cpu = 1,
          .comm = 0 },
        { "f3", sample_function(3), .filter = "sym_to == f3", ANY },
        { "f3", sample_function(3), .filter = "index < 100", .also = is_low,
          ANY },
        { "f3", sample_function(3), .filter = "time < 600us",
          .also = is_early, ANY },
    };
    unsigned found = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(questions); i++) {
        g_test_message("%u: %s", i, questions[i].what);
        found += compare(&questions[i], path, counted);
    }
    g_assert_cmpuint(found, >, 100);
    sample_remove(path);
}

static void test_counted(void)
{
    check_options(true);
}

static void test_uncounted(void)
{
    check_options(false);
}

/* From A to before B, on all vCPUs, by the counts */
static void test_between(void)
{
    char *path = write_trace(true, true);

    for (unsigned i = 0; i < 4; i++) {
        unsigned a = g_test_rand_int_range(0, RECORDS / 2);
        unsigned b = a + g_test_rand_int_range(RECORDS / 4, RECORDS / 2);
        /* A and B themselves, of any vCPU */
        const uint64_t to = all[i % 2 ? a : b].record.to;
        struct question q = {
            "*0", .target = to, .between = { &all[a], &all[b] }, ANY,
        };
        g_autofree char *f = NULL;

        if (to % SAMPLE_PITCH) {
            q.target = sample_function(1);
        }
        f = g_strdup_printf("f%" PRIu64, (q.target - sample_function(0)) /
                                        SAMPLE_PITCH);
        q.what = f;
        g_assert_cmpuint(compare(&q, path, true), >, 0);
        q.cpu = 1;
        q.begin = RECORDS / 4 * PITCH_NS;
        q.end = RECORDS * PITCH_NS / 2;
        compare(&q, path, true);
        /* B is before A. */
        q = (struct question) {
            f, q.target, .between = { &all[b], &all[a] }, ANY,
        };
        g_assert_cmpuint(compare(&q, path, true), ==, 0);
    }
    sample_remove(path);
}

/* While vCPU 0 is in f1, others are meant. */
static void test_while(void)
{
    char *path = write_trace(true, true);
    struct question q = { "f2", sample_function(2), .inside = true, ANY };

    g_assert_cmpuint(compare(&q, path, true), >, 5);
    q.comm = 1;
    compare(&q, path, true);
    q.comm = -1;
    q.cpu = 0;
    g_assert_cmpuint(compare(&q, path, true), ==, 0);
    q.cpu = -1;
    q.between[0] = &all[RECORDS / 3];
    q.between[1] = &all[RECORDS / 2];
    compare(&q, path, true);
    sample_remove(path);
}

/* A task has the events of its first slab, and a name. */
static void check_switches(const char *what, int to, const struct question *q,
                           char *path, bool counted)
{
    struct find_moment found;
    unsigned n = 0;
    struct asked a;

    ask(&a, q, path);
    g_assert_no_error(a.error);
    g_assert_false(finder_goes_back(a.finder));
    g_assert_false(finder_has_threads(a.finder));
    for (unsigned i = 0; i < n_switched; i++) {
        const struct known_switch *s = &switched[i];
        const struct moment *at = &found.visit.at;
        uint64_t index = s->index ? s->index - 1 : 0;

        if ((to >= 0 && s->to != (unsigned)to) || !in_window(q, s->host) ||
            (q->comm >= 0 && s->to != (unsigned)q->comm) ||
            (q->cpu >= 0 && s->vcpu != (unsigned)q->cpu) ||
            (q->inside && !(s->vcpu && is_inside(
                record_of(s->vcpu, index)->count)))) {
            continue;
        }
        g_assert_true(finder_next(a.finder, &found, &a.error));
        g_assert_cmpuint(at->vcpu, ==, s->vcpu);
        g_assert_cmpuint(at->index, ==, index);
        g_assert_cmpuint(at->time.host, ==, s->host);
        finder_complete(a.finder, &found);
        g_assert_cmpuint(at->icount, ==, counted ?
                         record_of(s->vcpu, index)->count : BTRAIL_NO_ICOUNT);
        /* Nothing is to be found out without counts. */
        g_assert_true(counted || at->time.host == s->host);
        g_assert_false(found.has_record);
        g_assert_cmpuint(at->task.tid, ==, s->to + 1);
        g_assert_cmpint(found.from.known, ==, s->from >= 0);
        g_assert_cmpuint(found.from.tid, ==, s->from + 1);
        n++;
    }
    g_assert_false(finder_next(a.finder, &found, &a.error));
    g_assert_no_error(a.error);
    g_assert_cmpuint(n, >, 0);
    clear(&a);
}

static void test_switches(void)
{
    for (unsigned counted = 0; counted < 2; counted++) {
        char *path = write_trace(counted, true);
        struct question q = { "switch", ANY };
        const unsigned middle = n_switched / 2;

        check_switches("switch", -1, &q, path, counted);
        q.comm = 1;
        check_switches("switch", -1, &q, path, counted);
        q.comm = -1;
        q.cpu = 2;
        check_switches("switch", -1, &q, path, counted);
        q.what = "switch to two";
        q.cpu = -1;
        check_switches("switch to two", 1, &q, path, counted);
        /* A switch is where its clock is, though after a record before it. */
        q.what = "switch";
        q.begin = switched[middle].host - START;
        q.end = switched[middle + 3].host - START;
        check_switches("switch", -1, &q, path, counted);
        if (counted) {
            q = (struct question) { "switch", .inside = true, ANY };
            check_switches("switch", -1, &q, path, true);
        }
        sample_remove(path);
    }
}

/* A place is not meant if vCPU 0 itself is there. */
static void test_place_while(void)
{
    char *path = write_trace(true, true);
    unsigned n[2] = { 0 };

    for (unsigned i = RECORDS / 2; n[0] < 4 || n[1] < 4; i++) {
        const struct known *k = &all[i];
        g_autofree char *text = place_of(k);
        const struct question q = { text, .inside = true, ANY };
        struct find_moment found;
        struct asked a;

        g_assert_cmpuint(i, <, RECORDS);
        if (n[!!k->vcpu]++ >= 4) {
            continue;
        }
        ask(&a, &q, path);
        g_assert_no_error(a.error);
        g_assert_cmpint(finder_next(a.finder, &found, &a.error), ==,
                        k->vcpu && is_inside(k->count));
        g_assert_no_error(a.error);
        clear(&a);
    }
    sample_remove(path);
}

/* A place happens once. */
static void test_place(void)
{
    char *path = write_trace(true, true);
    const struct known *k = &all[RECORDS / 2];
    g_autofree char *text = place_of(k);
    const uint64_t host = k->host - START;
    const struct {
        struct question q;
        bool found;
    } cases[] = {
        { { text, ANY }, true },
        { { text, .begin = host, .end = host + 1, ANY }, true },
        { { text, .begin = host + 1, .end = 2 * host, ANY }, false },
        { { text, .cpu = -1, .comm = k->task }, true },
        { { text, .cpu = -1, .comm = (k->task + 1) % 3 }, false },
        { { text, .between = { k, k + 1 }, ANY }, true },
        { { text, .between = { k + 1, k + 2 }, ANY }, false },
        { { text, .between = { k - 1, k }, ANY }, false },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct find_moment found;
        struct asked a;

        ask(&a, &cases[i].q, path);
        g_assert_no_error(a.error);
        g_assert_false(finder_goes_back(a.finder));
        g_assert_cmpint(finder_next(a.finder, &found, &a.error), ==,
                        cases[i].found);
        if (cases[i].found) {
            check(&found, k);
        }
        g_assert_false(finder_next(a.finder, &found, &a.error));
        g_assert_no_error(a.error);
        g_assert_cmpuint(finder_damage(a.finder), ==, 0);
        clear(&a);
    }
    sample_remove(path);
}

static void note_bad(void *opaque, const struct btrail_batch *b)
{
    *(uint64_t *)opaque += b->synthetic ? b->event->data[0] : 0;
}

/* A byte in the middle of a file is in a chunk of one vCPU. */
static uint64_t damage(const char *path)
{
    g_autofree char *bytes = NULL;
    struct btrail_trace *trace;
    struct sample_end end;
    uint64_t missing = 0, bad = 0;
    gsize n;

    g_assert_true(g_file_get_contents(path, &bytes, &n, NULL));
    bytes[n / 2] ^= 1;
    g_assert_true(g_file_set_contents(path, bytes, n, NULL));
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        g_assert_true(sample_walk(trace, vcpu, note_bad, &missing, &end));
        bad += end.bad_chunks;
    }
    g_assert_cmpuint(bad, ==, 1);
    btrail_trace_close(trace);
    return missing;
}

/* Records that cannot be read are passed, and that is known. */
static void test_damage(void)
{
    const struct question q = { "f1", sample_function(1), ANY };
    char *path = write_trace(true, true);
    g_autoptr(GPtrArray) want = search(&q, true);
    const uint64_t missing = damage(path);
    struct find_moment found;
    struct asked a;
    guint i = 0, passed = 0;

    ask(&a, &q, path);
    g_assert_no_error(a.error);
    for (; finder_next(a.finder, &found, &a.error); i++) {
        const struct moment *at = &found.visit.at;

        for (;; i++, passed++) {
            const struct known *k = i < want->len ? want->pdata[i] : NULL;

            g_assert_nonnull(k);
            if (k->vcpu == at->vcpu && k->index == at->index) {
                break;
            }
        }
        check(&found, want->pdata[i]);
    }
    g_assert_no_error(a.error);
    passed += want->len - i;
    g_assert_cmpuint(passed, >, 0);
    g_assert_cmpuint(passed, <=, missing);
    /* From whichever side it was come to */
    g_assert_cmpuint(finder_damage(a.finder), ==, 1);
    clear(&a);
    sample_remove(path);
}

static void check_error(const struct question *q, const char *a, const char *b,
                        const char *meanwhile, char *path, int code,
                        const char *want)
{
    struct asked asked;

    ask(&asked, q, path);
    finder_free(asked.finder);
    asked.finder = NULL;
    g_clear_error(&asked.error);
    if (a) {
        asked.between[0] = g_strdup(a);
        asked.between[1] = g_strdup(b);
        asked.o.between = asked.between;
    }
    asked.o.meanwhile = g_strdup(meanwhile);
    g_assert_null(finder_new(&asked.o, &asked.error));
    g_assert_error(asked.error, AGENT_ERROR, code);
    g_assert_nonnull(strstr(asked.error->message, want));
    clear(&asked);
}

static void test_errors(void)
{
    const struct question q = { "f1", ANY }, none = { "f9", ANY };
    const struct question place = { "1:99999", ANY }, any = { "switch", ANY };
    char *path = write_trace(true, false);
    struct find_moment found;
    struct asked a;

    check_error(&none, NULL, NULL, NULL, path, AGENT_ERROR_NAMES, "f9");
    check_error(&place, NULL, NULL, NULL, path, AGENT_ERROR_COMMAND,
                "no record 99999");
    check_error(&q, "1:0", "2:77777", NULL, path, AGENT_ERROR_COMMAND,
                "no record 77777");
    check_error(&q, "1:88888", "2:0", NULL, path, AGENT_ERROR_COMMAND,
                "no record 88888");
    check_error(&q, "1:0", "", NULL, path, AGENT_ERROR_COMMAND,
                "not a place");
    check_error(&q, NULL, NULL, "cpu 0", path, AGENT_ERROR_COMMAND, "cpu 0");
    check_error(&q, NULL, NULL, "cpu 0: in f8", path, AGENT_ERROR_NAMES, "f8");
    check_error(&q, NULL, NULL, "cpu 7: in f1", path, AGENT_ERROR_COMMAND,
                "no vCPU 7");
    /* That a trace names no tasks is known at its end. */
    ask(&a, &any, path);
    g_assert_no_error(a.error);
    g_assert_false(finder_next(a.finder, &found, &a.error));
    g_assert_error(a.error, AGENT_ERROR, AGENT_ERROR_NAMES);
    clear(&a);
    finder_free(NULL);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/find-moments/counted", test_counted);
    g_test_add_func("/find-moments/uncounted", test_uncounted);
    g_test_add_func("/find-moments/between", test_between);
    g_test_add_func("/find-moments/while", test_while);
    g_test_add_func("/find-moments/switches", test_switches);
    g_test_add_func("/find-moments/place", test_place);
    g_test_add_func("/find-moments/place-while", test_place_while);
    g_test_add_func("/find-moments/damage", test_damage);
    g_test_add_func("/find-moments/errors", test_errors);
    return g_test_run();
}
