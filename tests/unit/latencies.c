/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long calls took, for each combination of names: random ones against lists
 * of all of them
 */

#include "analyze/latencies.h"

#define ROWS    24u
#define CALLS   60000u

static const char *const comms[] = { "a", "ab", "" };
static const char *const modules[] = { "", "b" };
static const char *const functions[] = { "f", "bf", "b", "" };

static void name_row(unsigned i, const char *names[LATENCIES_NAMES])
{
    names[0] = comms[i % 3];
    names[1] = modules[i / 3 % 2];
    names[2] = functions[i / 6 % 4];
}

/* What is known of all calls of a row */
struct model {
    uint64_t whole;
    uint64_t partial;
    uint64_t sum;
    uint64_t of_whole;
    uint64_t max;
};

static void check_row(const struct latencies *l, unsigned i,
                      const struct model *m)
{
    const char *names[LATENCIES_NAMES];
    const struct latency *row;

    name_row(i, names);
    row = latencies_find(l, names);
    g_assert_nonnull(row);
    for (unsigned k = 0; k < LATENCIES_NAMES; k++) {
        g_assert_cmpstr(row->names[k], ==, names[k]);
    }
    g_assert_cmpuint(histogram_count(row->times), ==, m->whole);
    g_assert_cmpuint(row->partial, ==, m->partial);
    g_assert_cmpuint(latency_value(row, LATENCY_COUNT), ==,
                     m->whole + m->partial);
    g_assert_cmpuint(latency_value(row, LATENCY_TOTAL), ==, m->sum);
    g_assert_cmpuint(latency_value(row, LATENCY_MAX), ==, m->max);
    g_assert_cmpuint(latency_value(row, LATENCY_MEAN), ==,
                     m->whole ? m->of_whole / m->whole : 0);
}

static void check_orders(struct latencies *l, unsigned rows)
{
    for (unsigned key = 0; key < LATENCY_KEYS; key++) {
        const GPtrArray *sorted = latencies_sorted(l, key);

        g_assert_cmpuint(sorted->len, ==, rows);
        for (unsigned i = 1; i < rows; i++) {
            g_assert_cmpuint(latency_value(sorted->pdata[i - 1], key), >=,
                             latency_value(sorted->pdata[i], key));
        }
        g_assert_nonnull(latency_key_name(key));
    }
    g_assert_null(latency_key_name(LATENCY_KEYS));
}

static void test_random(void)
{
    struct latencies *l = latencies_new(0);
    struct model models[ROWS] = { { 0 } };
    GRand *rand = g_rand_new_with_seed(40);

    for (unsigned n = 0; n < CALLS; n++) {
        unsigned i = g_rand_int_range(rand, 0, ROWS);
        uint64_t ns = g_rand_int(rand) >> g_rand_int_range(rand, 0, 32);
        bool whole = i && g_rand_int_range(rand, 0, 10);
        const char *names[LATENCIES_NAMES];
        struct model *m = &models[i];

        name_row(i, names);
        latencies_add(l, names, ns, whole);
        m->whole += whole;
        m->partial += !whole;
        m->sum += ns;
        m->of_whole += whole ? ns : 0;
        m->max = MAX(m->max, ns);
    }
    for (unsigned i = 0; i < ROWS; i++) {
        check_row(l, i, &models[i]);
    }
    check_orders(l, ROWS);
    g_assert_cmpuint(latencies_others(l), ==, 0);
    latencies_free(l);
    g_rand_free(rand);
}

/* There are more names than rows. */
static void test_limit(void)
{
    struct latencies *l = latencies_new(5);
    const char *names[LATENCIES_NAMES];

    for (unsigned n = 0; n < 100 * ROWS; n++) {
        name_row(n % ROWS, names);
        latencies_add(l, names, n, true);
    }
    name_row(4, names);
    g_assert_cmpuint(histogram_count(latencies_find(l, names)->times), ==,
                     100);
    name_row(5, names);
    g_assert_null(latencies_find(l, names));
    g_assert_cmpuint(latencies_others(l), ==, 100 * (ROWS - 5));
    check_orders(l, 5);
    latencies_free(l);
}

/* Times of hostile files */
static void test_extremes(void)
{
    struct latencies *l = latencies_new(0);
    const char *names[LATENCIES_NAMES];

    name_row(0, names);
    for (unsigned i = 0; i < 1000; i++) {
        latencies_add(l, names, UINT64_MAX, true);
    }
    for (unsigned key = LATENCY_TOTAL; key < LATENCY_KEYS; key++) {
        g_assert_cmpuint(latency_value(latencies_find(l, names), key), >=,
                         UINT64_MAX - UINT64_MAX / 128);
    }
    latencies_free(l);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/latencies/random", test_random);
    g_test_add_func("/latencies/limit", test_limit);
    g_test_add_func("/latencies/extremes", test_extremes);
    return g_test_run();
}
