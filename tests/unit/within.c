/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * While a vCPU was in a function: random calls of tasks that run in turn,
 * against the stack of each
 */

#include <glib.h>
#include <string.h>

#include "code-samples.h"
#include "find/within.h"
#include "trace-samples.h"

#define FUNCTIONS   5
#define WANTED      1           /* this one of them */
#define TASKS       3
#define DEPTH       12
#define RECORDS     6000
#define ROUNDS      12


struct frame {
    unsigned function;
    uint64_t back;              /* where its caller goes on */
};

struct task_stack {
    struct frame frames[DEPTH];
    unsigned n;
};

struct scene {
    struct task_stack tasks[TASKS];
    unsigned running;
    struct btrail_record records[RECORDS];
    uint64_t keys[RECORDS];     /* instructions up to the end of each */
    bool inside[RECORDS];       /* after it, the vCPU is in the function */
    bool lost[RECORDS];         /* something is missing before it */
    GArray *events;
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
};

static bool is_in(const struct task_stack *t)
{
    for (unsigned i = 0; i < t->n; i++) {
        if (t->frames[i].function == WANTED) {
            return true;
        }
    }
    return false;
}

/* Each task begins in a function that is not wanted. */
static void forget(struct scene *s)
{
    for (unsigned i = 0; i < TASKS; i++) {
        s->tasks[i] = (struct task_stack) { .n = 1 };
    }
}

static void call(struct scene *s, GRand *rand, struct btrail_record *r)
{
    struct task_stack *t = &s->tasks[s->running];
    unsigned caller = t->frames[t->n - 1].function;
    unsigned callee = (unsigned)g_rand_int_range(rand, 1, FUNCTIONS);

    r->from = sample_function(caller) +
              16u * (uint64_t)g_rand_int_range(rand, 1, SAMPLE_CALLS + 1);
    r->to = sample_function(callee);
    t->frames[t->n++] = (struct frame) { callee, r->from + 2 };
}

static void go_back(struct scene *s, struct btrail_record *r)
{
    struct task_stack *t = &s->tasks[s->running];
    const struct frame *f = &t->frames[--t->n];

    r->from = sample_function(f->function) + SAMPLE_RET;
    r->to = f->back;
}

/* Events before record @i */
static void add_events(struct scene *s, unsigned i)
{
    struct btrail_event e = {
        .index = i, .type = BTRAIL_EVENT_TASK,
        .data = { (uint64_t)(s->running + 1) << 32 | (s->running + 1) },
    };

    if (s->lost[i]) {
        const struct btrail_event gap = {
            .index = i, .type = BTRAIL_EVENT_GAP,
            .reason = BTRAIL_GAP_OVERFLOW, .data = { 0 },
        };

        g_array_append_val(s->events, gap);
    }
    memcpy(&e.data[1], "task", 4);
    g_array_append_val(s->events, e);
}

static void make_random(struct scene *s, GRand *rand, bool gaps)
{
    uint64_t key = 1000;

    forget(s);
    s->running = 0;
    g_array_set_size(s->events, 0);
    for (unsigned i = 0; i < RECORDS; i++) {
        struct task_stack *t;
        unsigned running = g_rand_int_range(rand, 0, 8) ? s->running :
                           (unsigned)g_rand_int_range(rand, 0, TASKS);

        s->lost[i] = gaps && i && !g_rand_int_range(rand, 0, 300);
        if (s->lost[i]) {
            forget(s);
        }
        if (!i || s->lost[i] || running != s->running) {
            s->running = running;
            add_events(s, i);
        }
        t = &s->tasks[s->running];
        /* What runs next says where the vCPU was before. */
        if (i) {
            s->inside[i - 1] = s->lost[i] ? s->inside[i - 1] : is_in(t);
        }
        s->records[i].flags = 0;
        if (t->n == 1 || (t->n < DEPTH && g_rand_int_range(rand, 0, 2))) {
            call(s, rand, &s->records[i]);
        } else {
            go_back(s, &s->records[i]);
        }
        key += (uint64_t)g_rand_int_range(rand, 1, 5);
        s->keys[i] = key;
        s->records[i].flags = key << BTRAIL_RECORD_ICOUNT_SHIFT;
        s->inside[i] = is_in(t);
    }
}

static void open_trace(struct scene *s)
{
    static const char meta[] = "{\"tick_ns\": 0, \"privilege\": \"all\"}";
    const struct btrail_event time = {
        .type = BTRAIL_EVENT_TIME, .data = { 1, 0, 1000 },
    };
    struct btrail_slab slab = {
        .cr3 = 0x5000, .records = s->records, .n_records = RECORDS,
    };
    struct btrail_writer *w;

    s->path = sample_path();
    g_array_prepend_val(s->events, time);
    slab.events = (const struct btrail_event *)s->events->data;
    slab.n_events = s->events->len;
    g_assert_cmpint(btrail_writer_open(&w, s->path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    sample_functions(w, 0x5000, FUNCTIONS);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    s->symbols = sample_symbolizer(s->trace, "");
}

static void close_trace(struct scene *s)
{
    symbolizer_free(s->symbols);
    btrail_trace_close(s->trace);
    sample_remove(s->path);
}

/* What the stacks say of an instruction count; nothing is known before the
 * first record, or after the last one before something is missing. */
static bool want(const struct scene *s, uint64_t key)
{
    unsigned i = 0, end = RECORDS;

    while (i < end) {
        unsigned middle = (i + end) / 2;

        if (s->keys[middle] <= key) {
            i = middle + 1;
        } else {
            end = middle;
        }
    }
    return i && s->inside[i - 1] &&
           ((i < RECORDS && !s->lost[i]) || key == s->keys[i - 1]);
}

static void check_random(bool gaps)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(gaps);
    struct scene *s = g_new0(struct scene, 1);
    unsigned count = 0;

    s->events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    for (unsigned round = 0; round < ROUNDS; round++) {
        g_autoptr(GError) error = NULL;
        struct within *w;

        make_random(s, rand, gaps);
        open_trace(s);
        w = within_new(s->trace, s->symbols, 0, NULL, "f1", 0, &error);
        g_assert_no_error(error);
        for (uint64_t key = 0; key < s->keys[RECORDS - 1] + 20; key++) {
            /* Clocks differ a little. */
            uint64_t at = key - MIN(key, (uint64_t)g_rand_int_range(rand, 0,
                                                                    10));
            bool in = within_has(w, at, &error);

            g_assert_no_error(error);
            g_assert_cmpint(in, ==, want(s, at));
            count += in;
        }
        within_free(w);
        close_trace(s);
    }
    g_assert_cmpuint(count, >, 1000);
    g_array_unref(s->events);
    g_free(s);
}

static void test_random(void)
{
    check_random(false);
}

/* What is missing can be the return. */
static void test_gaps(void)
{
    check_random(true);
}

static void check_error(struct scene *s, unsigned vcpu, const char *process,
                        const char *function, const char *want)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(within_new(s->trace, s->symbols, vcpu, process, function, 0,
                             &error));
    g_assert_nonnull(strstr(error->message, want));
}

/* Nobody is in a function that is not there, or on a vCPU that is not. */
static void test_errors(void)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(3);
    struct scene *s = g_new0(struct scene, 1);

    s->events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    make_random(s, rand, false);
    open_trace(s);
    check_error(s, 1, NULL, "f1", "no vCPU 1");
    check_error(s, 0, NULL, "f9", "f9");
    within_free(NULL);
    close_trace(s);
    g_array_unref(s->events);
    g_free(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/within/random", test_random);
    g_test_add_func("/within/gaps", test_gaps);
    g_test_add_func("/within/errors", test_errors);
    return g_test_run();
}
