/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of find/mark-sums.h: marks at random, added by several threads, and
 * counted one by one
 */

#include <stdlib.h>
#include <string.h>

#include "find/mark-sums.h"

enum { N = 3000, NAMES = 4, PIDS = 3, ROOM = 1000000 };

struct left {
    unsigned name;
    unsigned pid;
    bool valued;
    bool known;
    uint64_t value;
    uint64_t time;
};

static void make_marks(struct left *marks)
{
    for (unsigned i = 0; i < N; i++) {
        unsigned name = g_test_rand_int_range(0, NAMES);

        marks[i] = (struct left) {
            .name = name, .pid = g_test_rand_int_range(0, PIDS),
            /* One has no values, one has unknown ones only. */
            .valued = name, .known = name > 1 && g_test_rand_int_range(0, 9),
            .value = (uint64_t)g_test_rand_int() << g_test_rand_int_range(0,
                                                                          32),
            .time = i + 1,
        };
    }
}

static void add(struct mark_sums *s, unsigned worker, const struct left *m)
{
    const struct moment at = {
        .vcpu = m->time % 2, .index = m->time, .icount = BTRAIL_NO_ICOUNT,
        .time.host = m->time,
    };
    struct marks_found found = {
        .mark.has_value = m->valued, .known = m->known, .value = m->value,
    };
    char comm[8];

    g_snprintf(found.mark.name, sizeof(found.mark.name), "mark %u", m->name);
    g_snprintf(comm, sizeof(comm), "p%u", m->pid);
    mark_sums_add(s, worker, &found, comm, m->pid, &at);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Compares a row with the marks that are its. */
static void check_row(const struct mark_sum *s, const struct left *marks)
{
    uint64_t values[N], count = 0, valued = 0, known = 0, first = 0, last = 0;

    for (unsigned i = 0; i < N; i++) {
        const struct left *m = &marks[i];

        if (s->name[5] - '0' != (int)m->name || s->pid != m->pid) {
            continue;
        }
        count++;
        valued += m->valued;
        if (m->known) {
            values[known++] = m->value;
        }
        first = first ?: m->time;
        last = m->time;
    }
    qsort(values, known, sizeof(*values), by_value);
    g_assert_cmpuint(s->comm[1] - '0', ==, s->pid);
    g_assert_cmpuint(s->count, ==, count);
    g_assert_cmpuint(s->valued, ==, valued);
    g_assert_cmpuint(s->known, ==, known);
    if (known) {
        g_assert_cmpuint(s->smallest, ==, values[0]);
        g_assert_cmpuint(s->largest, ==, values[known - 1]);
        g_assert_cmpuint(s->median, ==, values[known % 2 ? known / 2 :
                                               known / 2 - 1]);
    }
    g_assert_true(s->exact);
    g_assert_cmpuint(s->first.time.host, ==, first);
    g_assert_cmpuint(s->last.time.host, ==, last);
}

static void check(const struct left *marks, unsigned threads)
{
    struct mark_sums *s = mark_sums_new(threads, ROOM, ROOM);
    const struct mark_sum *sum;
    uint64_t all = 0, before = UINT64_MAX;
    size_t n = 0;

    for (unsigned i = 0; i < N; i++) {
        add(s, g_test_rand_int_range(0, threads), &marks[i]);
    }
    g_assert_true(mark_sums_finish(s));
    for (; (sum = mark_sums_get(s, n)); n++) {
        g_assert_cmpuint(sum->count, <=, before);
        before = sum->count;
        all += before;
        check_row(sum, marks);
    }
    g_assert_cmpuint(n, ==, NAMES * PIDS);
    g_assert_cmpuint(all, ==, N);
    g_assert_cmpuint(mark_sums_marks(s), ==, N);
    g_assert_cmpuint(mark_sums_others(s), ==, 0);
    mark_sums_free(s);
}

static void test_random(void)
{
    struct left marks[N];

    make_marks(marks);
    for (unsigned threads = 1; threads < 5; threads++) {
        check(marks, threads);
    }
}

/* Rows beyond the limit are counted together, and several threads say that
 * they cannot know which. */
static void test_rows(void)
{
    struct left marks[N];

    make_marks(marks);
    for (unsigned threads = 1; threads < 3; threads++) {
        struct mark_sums *s = mark_sums_new(threads, 5, ROOM);
        uint64_t all = 0;
        size_t n;

        for (unsigned i = 0; i < N; i++) {
            add(s, i % threads, &marks[i]);
        }
        g_assert_cmpint(mark_sums_finish(s), ==, threads == 1);
        for (n = 0; mark_sums_get(s, n); n++) {
            all += mark_sums_get(s, n)->count;
        }
        g_assert_cmpuint(n, ==, 5);
        g_assert_cmpuint(mark_sums_marks(s), ==, N);
        g_assert_cmpuint(mark_sums_others(s), ==, N - all);
        mark_sums_free(s);
    }
}

/* Without room for its values, a row has no median; all else is right. */
static void test_values(void)
{
    struct mark_sums *s = mark_sums_new(1, ROOM, 10);
    struct left m = { .valued = true, .known = true };
    const struct mark_sum *many, *few;

    for (unsigned i = 0; i < 30; i++) {
        m.value = 50 - i;
        m.time++;
        add(s, 0, &m);
    }
    m.name = 1;
    for (unsigned i = 0; i < 10; i++) {
        m.value = i;
        m.time++;
        add(s, 0, &m);
    }
    g_assert_true(mark_sums_finish(s));
    many = mark_sums_get(s, 0);
    g_assert_cmpuint(many->count, ==, 30);
    g_assert_cmpuint(many->smallest, ==, 21);
    g_assert_cmpuint(many->largest, ==, 50);
    g_assert_false(many->exact);
    /* Its room is that of others then. */
    few = mark_sums_get(s, 1);
    g_assert_true(few->exact);
    g_assert_cmpuint(few->median, ==, 4);
    mark_sums_free(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/random", test_random);
    g_test_add_func("/rows", test_rows);
    g_test_add_func("/values", test_values);
    return g_test_run();
}
