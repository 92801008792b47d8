/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When the processes of a name ran, and ended: random runs of tasks on two
 * vCPUs, against a search of all of them
 */

#include <string.h>

#include "find/process-runs.h"
#include "trace-samples.h"

#define VCPUS       2u
#define RUNS        14u         /* of each vCPU */
#define RECORDS     4u          /* of each run, at most */
#define PIDS        4u
#define ROUNDS      (g_test_slow() ? 300u : 40u)
#define DEAD        UINT64_C(0xffffffff81000100)
#define LOW_DEAD    UINT64_C(0xc1000100)

/* A task runs: its records, and their counts of instructions */
struct run {
    uint32_t pid;               /* 0: the trace does not name it */
    uint32_t tid;
    unsigned name;
    unsigned n;
    bool dead;
    uint64_t index;             /* of the first one */
    uint64_t keys[RECORDS];
};

struct scene {
    struct run runs[VCPUS][RUNS];
    uint64_t dead;              /* where tasks end; 0: not known */
};

static const char *const names[] = { "init", "sh", "a b" };

static void make_random(struct scene *s, GRand *rand)
{
    uint64_t index[VCPUS] = { 0 }, key = 100;

    for (unsigned i = 0; i < RUNS; i++) {
        for (unsigned v = 0; v < VCPUS; v++) {
            struct run *r = &s->runs[v][i];

            *r = (struct run) {
                .pid = (uint32_t)g_rand_int_range(rand, 0, PIDS + 1),
                .name = (unsigned)g_rand_int_range(rand, 0, 3),
                .n = (unsigned)g_rand_int_range(rand, 0, RECORDS + 1),
                .dead = !g_rand_int_range(rand, 0, 3), .index = index[v],
            };
            r->tid = r->pid + 10 * (uint32_t)g_rand_int_range(rand, 0, 2);
            for (unsigned k = 0; k < r->n; k++) {
                key += (uint64_t)g_rand_int_range(rand, 1, 9);
                r->keys[k] = key;
            }
            index[v] += r->n;
        }
    }
}

static void write_run(const struct scene *s, struct btrail_writer *w,
                      unsigned vcpu, const struct run *r, bool first)
{
    struct btrail_record records[RECORDS];
    struct btrail_event events[2] = {
        { .type = BTRAIL_EVENT_TIME, .index = r->index, .data = { 1, 0, 100 } },
        { .type = BTRAIL_EVENT_TASK, .index = r->index,
          .reason = r->pid ? 0 : 2,
          .data = { (uint64_t)r->pid << 32 | r->tid } },
    };
    const struct btrail_slab slab = {
        .first_index = r->index, .records = records, .n_records = r->n,
        .events = events + !first, .n_events = 1 + first,
    };

    if (r->pid) {
        memcpy(&events[1].data[1], names[r->name], strlen(names[r->name]));
    }
    for (unsigned k = 0; k < r->n; k++) {
        /* Its last record goes there. */
        records[k] = (struct btrail_record) {
            0x1000, r->dead && k == r->n - 1 ? s->dead : 0x2000,
            (uint64_t)r->keys[k] << BTRAIL_RECORD_ICOUNT_SHIFT,
        };
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

static struct btrail_trace *open_trace(const struct scene *s)
{
    g_autofree char *text = g_strdup_printf(
        "%" G_GINT64_MODIFIER "x T _text\n%" G_GINT64_MODIFIER
        "x T do_task_dead\n", s->dead - 0x100, s->dead);
    const struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .size = strlen(text), .time = 1,
    };
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    if (s->dead) {
        g_assert_cmpint(btrail_writer_sideband(w, &info, text), ==, 0);
    }
    for (unsigned i = 0; i < RUNS; i++) {
        for (unsigned v = 0; v < VCPUS; v++) {
            write_run(s, w, v, &s->runs[v][i], !i);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    sample_remove(path);
    return trace;
}

/* The last record before a run, or its first one; those without records, or of
 * the same task, are none. */
static uint64_t before(const struct scene *s, unsigned v, unsigned i)
{
    const struct run *runs = s->runs[v];

    for (unsigned k = i; k--;) {
        if (runs[k].n) {
            return runs[k].keys[runs[k].n - 1];
        }
    }
    return runs[i].keys[0];
}

static bool same_task(const struct run *a, const struct run *b)
{
    return a->pid == b->pid && a->tid == b->tid && a->name == b->name;
}

/* Does a run go on with the one before it that has records? */
static bool goes_on(const struct scene *s, unsigned v, unsigned i)
{
    for (unsigned k = i; k--;) {
        if (s->runs[v][k].n) {
            return same_task(&s->runs[v][k], &s->runs[v][i]);
        }
    }
    return false;
}

/* What there is to find, by its count; 0: nothing */
static uint64_t want(const struct scene *s, unsigned name,
                     enum process_run what)
{
    uint64_t first = UINT64_MAX, begun = UINT64_MAX, last = 0;
    uint64_t ends[PIDS + 1] = { 0 };
    bool dead[PIDS + 1] = { false };

    for (unsigned v = 0; v < VCPUS; v++) {
        bool task_dead = false;

        for (unsigned i = 0; i < RUNS; i++) {
            const struct run *r = &s->runs[v][i];
            uint64_t end = r->n ? r->keys[r->n - 1] : 0;

            if (!r->n) {
                continue;
            }
            /* Where one task goes on, it is one run. */
            task_dead = (goes_on(s, v, i) && task_dead) || r->dead;
            if (!r->pid || r->name != name) {
                continue;
            }
            /* Its vCPU can have waited since the record before. */
            if (!goes_on(s, v, i) && r->keys[0] < begun) {
                begun = r->keys[0];
                first = before(s, v, i);
            }
            last = MAX(last, end);
            if (end > ends[r->pid]) {
                ends[r->pid] = end;
                dead[r->pid] = task_dead;
            }
        }
    }
    if (what == PROCESS_RUN_FIRST || what == PROCESS_RUN_LAST) {
        return !last ? 0 : what == PROCESS_RUN_FIRST ? first : last;
    }
    first = UINT64_MAX;
    last = 0;
    for (unsigned pid = 1; pid <= PIDS; pid++) {
        if (dead[pid]) {
            first = MIN(first, ends[pid]);
            last = MAX(last, ends[pid]);
        }
    }
    return !last ? 0 : what == PROCESS_EXIT_FIRST ? first : last;
}

static void check(const struct scene *s, const struct btrail_trace *trace,
                  unsigned name, enum process_run what)
{
    g_autoptr(GError) error = NULL;
    uint64_t key = want(s, name, what);
    struct moment at;

    g_assert_cmpint(process_runs_find(trace, names[name], what, &at, &error),
                    ==, key != 0);
    if (key) {
        g_assert_no_error(error);
        g_assert_cmpuint(at.icount, ==, key);
    } else {
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
        g_assert_nonnull(strstr(error->message, names[name]));
    }
}

static void check_random(uint64_t dead)
{
    GRand *rand = g_rand_new_with_seed((guint32)dead);

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct scene s = { .dead = dead };
        struct btrail_trace *trace;

        make_random(&s, rand);
        trace = open_trace(&s);
        for (unsigned name = 0; name < 3; name++) {
            for (enum process_run what = PROCESS_RUN_FIRST;
                 what <= PROCESS_EXIT_LAST; what++) {
                check(&s, trace, name, what);
            }
        }
        btrail_trace_close(trace);
    }
    g_rand_free(rand);
}

static void test_random(void)
{
    check_random(DEAD);
}

/* A kernel of 32 bits is below 4 GiB. */
static void test_32(void)
{
    check_random(LOW_DEAD);
}

static void check_error(const struct btrail_trace *trace, enum process_run what,
                        const char *want)
{
    g_autoptr(GError) error = NULL;
    struct moment at;

    g_assert_false(process_runs_find(trace, "sh", what, &at, &error));
    g_assert_nonnull(strstr(error->message, want));
}

/* What a trace does not say */
static void test_errors(void)
{
    GRand *rand = g_rand_new_with_seed(1);
    struct scene s = { .dead = 0 };
    struct btrail_trace *trace;

    make_random(&s, rand);
    trace = open_trace(&s);
    check_error(trace, PROCESS_EXIT_FIRST, "no function do_task_dead");
    btrail_trace_close(trace);
    for (unsigned v = 0; v < VCPUS; v++) {
        for (unsigned i = 0; i < RUNS; i++) {
            s.runs[v][i].pid = 0;
        }
    }
    trace = open_trace(&s);
    check_error(trace, PROCESS_RUN_LAST, "names no processes");
    btrail_trace_close(trace);
    g_rand_free(rand);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/process-runs/random", test_random);
    g_test_add_func("/process-runs/32", test_32);
    g_test_add_func("/process-runs/errors", test_errors);
    return g_test_run();
}
