/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who used a vCPU while a thread did not run: random threads that take turns on
 * two vCPUs, against a list of who had each nanosecond
 */

#include <string.h>

#include "analyze/cpu-use.h"

#define VCPUS   2u
#define THREADS 7u              /* the last two are the idle tasks */
#define IDLE    (THREADS - VCPUS)
#define NOBODY  THREADS
#define LENGTH  60000u
#define START   1000u

struct actor {
    struct process owner;
    struct process process;
    struct process other;       /* the same thread in another address space */
    struct cpu_use_mark mark;
    uint64_t marked;            /* when */
    unsigned vcpu;              /* where it was last */
    uint64_t since;             /* its last record was over, if it is away */
    bool away;
    bool unsure;                /* something was not known since the mark */
};

struct scene {
    struct cpu_use *use;
    struct actor actors[THREADS];
    uint8_t owner[VCPUS][LENGTH];       /* of each ns after START */
    uint8_t away[THREADS][LENGTH];      /* the vCPU that it has left, + 1 */
    uint64_t clocks[VCPUS];
    unsigned running[VCPUS];
    GRand *rand;
};

static void scene_init(struct scene *s, unsigned seed)
{
    memset(s, 0, sizeof(*s));
    memset(s->owner, NOBODY, sizeof(s->owner));
    s->use = cpu_use_new();
    s->rand = g_rand_new_with_seed(seed);
    for (unsigned i = 0; i < THREADS; i++) {
        struct actor *a = &s->actors[i];

        a->owner = (struct process) { .owner = &a->owner, .tid = -1,
                                      .comm = "x" };
        a->process = (struct process) {
            .owner = &a->owner, .pid = i < IDLE ? 10 + i / 2 : 0,
            .tid = i < IDLE ? 10 + i : 0, .comm = i < IDLE ? "x" : "idle",
        };
        a->other = a->process;
    }
    for (unsigned v = 0; v < VCPUS; v++) {
        s->clocks[v] = START;
        s->running[v] = NOBODY;
    }
}

static void scene_clear(struct scene *s)
{
    cpu_use_free(s->use);
    g_rand_free(s->rand);
}

static void check(struct scene *s, struct actor *a, uint64_t now)
{
    const struct cpu_use_thread *t = cpu_use_thread(s->use, &a->process);
    struct cpu_use_sum sum = cpu_use_since(t, &a->mark);
    unsigned i = a - s->actors;
    bool idle = false;
    uint64_t want = 0, used[THREADS + 1] = { 0 }, said = 0;

    for (uint64_t ns = a->marked - START; ns < now - START; ns++) {
        if (s->away[i][ns]) {
            want++;
            used[s->owner[s->away[i][ns] - 1][ns]]++;
        }
    }
    g_assert_true(sum.least == a->unsure);
    if (!a->unsure) {
        g_assert_cmpuint(sum.ns, ==, want);
    }
    g_assert_cmpuint(sum.n_users, <=, CPU_USE_USERS);
    for (unsigned k = 0; k < sum.n_users; k++) {
        const struct cpu_use_user *user = &sum.users[k];
        uint64_t all = 0;

        for (unsigned n = 0; n < THREADS; n++) {
            all += s->actors[n].process.tid == user->process->tid ?
                   used[n] : 0;
        }
        if (!user->process->tid) {
            /* Whether it is idle still, another vCPU can know too early. */
            all += 50 * (cpu_use_mark(t).waits - a->mark.waits);
            g_assert_cmpuint(user->ns, <=, all);
            idle = true;
        } else {
            g_assert_cmpuint(user->ns, <=, all);
        }
        if (!sum.others && !idle) {
            g_assert_cmpuint(user->ns, ==, all);
        }
        g_assert_true(user->process->tid != a->process.tid);
        g_assert_true(!k || user->ns <= sum.users[k - 1].ns);
        said += user->ns;
    }
    g_assert_cmpuint(said + sum.others, ==, sum.ns);
}

/* A thread makes records for a while. */
static void run(struct scene *s, unsigned vcpu, unsigned thread)
{
    struct actor *a = &s->actors[thread];
    /* Sometimes the vCPU has waited before. */
    uint64_t wait = g_rand_int_range(s->rand, 0, 5) ? 0 : 7;
    uint64_t since = s->clocks[vcpu] + wait;
    uint64_t until = since + g_rand_int_range(s->rand, 1, 40);

    if (thread != s->running[vcpu] && s->running[vcpu] < IDLE) {
        s->actors[s->running[vcpu]].away = true;
        s->actors[s->running[vcpu]].since = s->clocks[vcpu];
    }
    /* Time after the last record of an idle task is its own, and so is what a
     * vCPU has waited while a thread ran. */
    if (s->running[vcpu] != NOBODY &&
        (s->running[vcpu] >= IDLE || s->running[vcpu] == thread)) {
        memset(&s->owner[vcpu][since - wait - START], s->running[vcpu], wait);
    }
    memset(&s->owner[vcpu][since - START], thread, until - since);
    if (a->away) {
        memset(&s->away[thread][a->since - START], a->vcpu + 1,
               since - a->since);
    }
    cpu_use_runs(s->use, vcpu, g_rand_boolean(s->rand) ? &a->process :
                 &a->other, since, until);
    a->away = false;
    a->vcpu = vcpu;
    s->running[vcpu] = thread;
    s->clocks[vcpu] = until;
    if (thread < IDLE && !g_rand_int_range(s->rand, 0, 3)) {
        check(s, a, since);
        if (g_rand_boolean(s->rand)) {
            a->mark = cpu_use_mark(cpu_use_thread(s->use, &a->process));
            a->marked = since;
            a->unsure = false;
        }
    }
}

static void test_random(void)
{
    struct scene *s = g_new(struct scene, 1);

    for (unsigned round = 0; round < 30; round++) {
        scene_init(s, round);
        for (unsigned i = 0; i < THREADS; i++) {
            s->actors[i].marked = START;
        }
        while (MAX(s->clocks[0], s->clocks[1]) < START + LENGTH - 100) {
            unsigned vcpu = s->clocks[1] < s->clocks[0];
            unsigned thread = g_rand_int_range(s->rand, 0, IDLE + 1);
            const struct actor *a = &s->actors[thread];

            if (thread == IDLE || thread == s->running[!vcpu] ||
                (a->away && (a->since > s->clocks[vcpu]))) {
                thread = IDLE + vcpu;
            }
            run(s, vcpu, thread);
        }
        scene_clear(s);
    }
    g_free(s);
}

/* Where records are missing, or nobody knows who ran, more can have been. */
static void test_unknown(void)
{
    for (unsigned how = 0; how < 3; how++) {
        struct scene *s = g_new(struct scene, 1);
        const struct process *one, *two;
        struct cpu_use_mark mark;
        struct cpu_use_sum sum;

        scene_init(s, how);
        one = &s->actors[0].process;
        two = &s->actors[1].process;
        mark = cpu_use_mark(cpu_use_thread(s->use, one));
        cpu_use_runs(s->use, 0, one, 1000, 1010);
        cpu_use_runs(s->use, 0, two, 1010, 1020);
        if (how == 1) {
            cpu_use_gap(s->use, 1);
        } else if (how == 2) {
            cpu_use_runs(s->use, 1, NULL, 1010, 1020);
        }
        cpu_use_runs(s->use, 0, one, 1020, 1030);
        sum = cpu_use_since(cpu_use_thread(s->use, one), &mark);
        g_assert_true(sum.least == (how > 0));
        g_assert_cmpuint(sum.ns, ==, how ? 0 : 10);
        g_assert_cmpuint(sum.n_users, ==, how ? 0 : 1);
        g_assert_null(cpu_use_thread(s->use, &s->actors[IDLE].process));
        g_assert_null(cpu_use_thread(s->use, NULL));
        sum = cpu_use_since(NULL, &mark);
        g_assert_cmpuint(sum.ns, ==, 0);
        scene_clear(s);
        g_free(s);
    }
}

/* Of more waits, and of more runs, than are kept, the time is right, and what
 * is not known of their users is said. */
static void test_many(void)
{
    struct scene *s = g_new(struct scene, 1);
    const struct process *one, *two, *three;
    struct cpu_use_mark mark;
    struct cpu_use_sum sum;
    uint64_t clock = 1000;

    scene_init(s, 1);
    one = &s->actors[0].process;
    two = &s->actors[1].process;
    three = &s->actors[2].process;
    mark = cpu_use_mark(cpu_use_thread(s->use, one));
    for (unsigned i = 0; i < 3 * CPU_USE_WAITS; i++, clock += 30) {
        cpu_use_runs(s->use, 0, one, clock, clock + 10);
        cpu_use_runs(s->use, 0, two, clock + 10, clock + 30);
    }
    cpu_use_runs(s->use, 0, one, clock, clock + 10);
    sum = cpu_use_since(cpu_use_thread(s->use, one), &mark);
    g_assert_cmpuint(sum.ns, ==, 3 * CPU_USE_WAITS * 20);
    g_assert_cmpuint(sum.users[0].ns, ==, CPU_USE_WAITS * 20);
    g_assert_cmpuint(sum.others, ==, 2 * CPU_USE_WAITS * 20);
    g_assert_false(sum.least);

    mark = cpu_use_mark(cpu_use_thread(s->use, one));
    clock += 10;
    for (unsigned i = 0; i < 2000; i++, clock += 20) {
        cpu_use_runs(s->use, 0, two, clock, clock + 10);
        cpu_use_runs(s->use, 0, three, clock + 10, clock + 20);
    }
    cpu_use_runs(s->use, 0, one, clock, clock + 10);
    sum = cpu_use_since(cpu_use_thread(s->use, one), &mark);
    g_assert_cmpuint(sum.ns, ==, 2000 * 20);
    g_assert_cmpuint(sum.n_users, ==, 2);
    g_assert_cmpuint(sum.users[0].ns + sum.users[1].ns + sum.others, ==,
                     sum.ns);
    g_assert_cmpuint(sum.others, >, 0);
    g_assert_cmpuint(sum.others, <, sum.ns);
    scene_clear(s);
    g_free(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cpu-use/random", test_random);
    g_test_add_func("/cpu-use/unknown", test_unknown);
    g_test_add_func("/cpu-use/many", test_many);
    return g_test_run();
}
