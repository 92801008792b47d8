/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Call stacks at moments: random calls of two tasks that run in turn, against
 * the stack of each
 */

#include <glib.h>
#include <string.h>

#include "code-samples.h"
#include "find/backtrace.h"
#include "trace-samples.h"

#define FUNCTIONS   6
#define TASKS       2
#define DEPTH       24
#define RECORDS     150000
#define IN_SLAB     30000
#define LONG        45000
#define MOMENTS     200

struct frame {
    unsigned function;
    uint64_t from;              /* where its caller has called it */
    unsigned record;            /* which has done so */
};

struct task_stack {
    struct frame frames[DEPTH];
    unsigned n;
};

struct scene {
    struct task_stack tasks[TASKS];
    unsigned running;
    struct btrail_record records[RECORDS];
    GArray *events;
    unsigned wanted[MOMENTS];   /* records, in order */
    struct task_stack stacks[MOMENTS];  /* after each of them */
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
};

static int compare(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return (x > y) - (x < y);
}

static void call(struct task_stack *t, unsigned i, struct btrail_record *r)
{
    const struct frame *caller = &t->frames[t->n - 1];
    unsigned callee = g_test_rand_int_range(1, FUNCTIONS);

    r->from = sample_function(caller->function) +
              16u * (uint64_t)g_test_rand_int_range(1, SAMPLE_CALLS + 1);
    r->to = sample_function(callee);
    t->frames[t->n++] = (struct frame) { callee, r->from, i };
}

static void go_back(struct task_stack *t, struct btrail_record *r)
{
    const struct frame *f = &t->frames[--t->n];

    r->from = sample_function(f->function) + SAMPLE_RET;
    r->to = f->from + 2;
}

static void add_event(struct scene *s, const struct btrail_event *e)
{
    g_array_append_vals(s->events, e, 1);
}

static void make_random(struct scene *s, bool gaps)
{
    unsigned next = 0;

    for (unsigned i = 0; i < MOMENTS; i++) {
        s->wanted[i] = g_test_rand_int_range(0, RECORDS);
    }
    qsort(s->wanted, MOMENTS, sizeof(*s->wanted), compare);
    for (unsigned i = 0; i < RECORDS; i++) {
        bool gap = gaps && i && !g_test_rand_int_range(0, 20000);
        bool task = !i || gap || !g_test_rand_int_range(0, 2000);
        struct btrail_event e = { .index = i };
        struct task_stack *t;

        if (gap) {
            e.type = BTRAIL_EVENT_GAP;
            e.reason = BTRAIL_GAP_OVERFLOW;
            add_event(s, &e);
        }
        for (unsigned k = 0; (!i || gap) && k < TASKS; k++) {
            s->tasks[k] = (struct task_stack) { .n = 1 };
        }
        if (task) {
            s->running = g_test_rand_int_range(0, TASKS);
            e.type = BTRAIL_EVENT_TASK;
            e.reason = 0;
            e.data[0] = (uint64_t)(s->running + 1) << 32 | (s->running + 1);
            memcpy(&e.data[1], "task", 4);
            add_event(s, &e);
        }
        t = &s->tasks[s->running];
        /* For long, nothing returns to where a task has begun. */
        if (t->n <= (i / LONG % 2 ? DEPTH / 3 : 1) ||
            (t->n < DEPTH && g_test_rand_bit())) {
            call(t, i, &s->records[i]);
        } else {
            go_back(t, &s->records[i]);
        }
        while (next < MOMENTS && s->wanted[next] == i) {
            s->stacks[next++] = *t;
        }
    }
}

static void append(struct scene *s, struct btrail_writer *w)
{
    const struct btrail_event time = {
        .type = BTRAIL_EVENT_TIME, .data = { 1, 0, BTRAIL_NO_ICOUNT },
    };
    unsigned done = 0;

    g_array_prepend_val(s->events, time);
    for (unsigned i = 0; i < RECORDS; i += IN_SLAB) {
        struct btrail_slab slab = {
            .first_index = i, .cr3 = 0x5000, .records = s->records + i,
            .n_records = IN_SLAB,
            .events = (const struct btrail_event *)s->events->data + done,
        };

        while (done + slab.n_events < s->events->len &&
               slab.events[slab.n_events].index < i + IN_SLAB) {
            slab.n_events++;
        }
        done += slab.n_events;
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
}

static struct scene *scene_new(bool gaps)
{
    static const char meta[] = "{\"tick_ns\": 0, \"privilege\": \"all\"}";
    struct scene *s = g_new0(struct scene, 1);
    struct btrail_writer *w;

    s->events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    make_random(s, gaps);
    s->path = sample_path();
    g_assert_cmpint(btrail_writer_open(&w, s->path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    sample_functions(w, 0x5000, FUNCTIONS);
    append(s, w);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    s->symbols = sample_symbolizer(s->trace, "");
    return s;
}

static void scene_free(struct scene *s)
{
    symbolizer_free(s->symbols);
    btrail_trace_close(s->trace);
    sample_remove(s->path);
    g_array_unref(s->events);
    g_free(s);
}

/*
 * All calls since the record from which on it is known, and the function that
 * has made the first one of them.  Returns how many are not known.
 */
static unsigned check(const struct backtrace *found,
                      const struct task_stack *t)
{
    unsigned known = 1, i;

    for (i = 1; i < t->n; i++) {
        known += t->frames[i].record >= found->since;
    }
    g_assert_false(found->whole);
    g_assert_cmpuint(found->calls->len, ==, known);
    for (i = 0; i < known; i++) {
        const struct stack_call *c = &g_array_index(found->calls,
                                                    struct stack_call, i);
        const struct frame *f = &t->frames[t->n - 1 - i];

        g_assert_cmphex(c->function->start, ==, sample_function(f->function));
        if (i) {
            g_assert_cmphex(c->from, ==, f[1].from);
        }
        g_assert_false(c->entry);
    }
    return t->n - known;
}

static unsigned check_all(struct scene *s, bool gaps, bool limited,
                          bool in_order)
{
    struct backtraces *b = backtraces_new(s->trace, s->symbols);
    unsigned unknown = 0;

    if (limited) {
        backtraces_limit(b, BACKTRACE_FEWEST);
    }
    /* All that comes before each of them is read, unless it is limited. */
    for (unsigned i = 0; i < (in_order || limited ? MOMENTS : MOMENTS / 4);
         i++) {
        unsigned n = in_order ? i :
                     (unsigned)g_test_rand_int_range(0, MOMENTS);
        const struct moment at = { .vcpu = 0, .index = s->wanted[n] };
        const struct backtrace *found;

        g_assert_true(backtraces_at(b, &at, &found));
        g_assert_cmpuint(found->since, <=, at.index);
        g_assert_true(limited || gaps || !found->since);
        unknown += check(found, &s->stacks[n]);
    }
    backtraces_free(b);
    return unknown;
}

static void check_scene(bool gaps)
{
    struct scene *s = scene_new(gaps);
    unsigned unknown;

    g_assert_cmpuint(check_all(s, gaps, false, true), ==, 0);
    g_assert_cmpuint(check_all(s, gaps, false, false), ==, 0);
    /* One goes on where the one before it was. */
    g_assert_cmpuint(check_all(s, gaps, true, true), ==, 0);
    unknown = check_all(s, gaps, true, false);
    g_assert_true(gaps || unknown);
    scene_free(s);
}

static void test_random(void)
{
    check_scene(false);
}

/* Nothing before a gap counts. */
static void test_gaps(void)
{
    check_scene(true);
}

/* Where the trace ends, and where there is no such vCPU */
static void test_errors(void)
{
    struct scene *s = scene_new(false);
    struct backtraces *b = backtraces_new(s->trace, s->symbols);
    const struct moment end = { .index = RECORDS };
    const struct moment other = { .vcpu = 1, .index = 5 };
    const struct moment at = { .index = s->wanted[7] };
    const struct backtrace *found;

    g_assert_false(backtraces_at(b, &end, &found));
    g_assert_false(backtraces_at(b, &other, &found));
    g_assert_true(backtraces_at(b, &at, &found));
    g_assert_cmpuint(check(found, &s->stacks[7]), ==, 0);
    backtraces_free(b);
    scene_free(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/backtrace/random", test_random);
    g_test_add_func("/backtrace/gaps", test_gaps);
    g_test_add_func("/backtrace/errors", test_errors);
    return g_test_run();
}
