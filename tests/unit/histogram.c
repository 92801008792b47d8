/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often values of each size have come, against all of them in order
 */

#include <stdlib.h>

#include "util/histogram.h"

#define MANY    20000u

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Of values in order, as a person would say it with all of them in view */
static uint64_t percentile(const uint64_t *values, size_t n, unsigned percent)
{
    size_t i = 0;

    while ((i + 1) * 100 < n * percent) {
        i++;
    }
    return values[i];
}

static void check_powers(const struct histogram *h, const uint64_t *values,
                         size_t n)
{
    for (unsigned i = 0; i < HISTOGRAM_POWERS; i++) {
        uint64_t from = i ? UINT64_C(1) << i : 0;
        uint64_t last = i == 63 ? UINT64_MAX : (UINT64_C(2) << i) - 1;
        uint64_t want = 0;

        for (size_t k = 0; k < n; k++) {
            want += values[k] >= from && values[k] <= last;
        }
        g_assert_cmpuint(histogram_power(h, i), ==, want);
    }
}

static void check(const uint64_t *unsorted, size_t n)
{
    g_autofree uint64_t *values = g_memdup2(unsorted, n * sizeof(*values));
    struct histogram *h = histogram_new();
    long double sum = 0, mean;
    bool exact = n <= HISTOGRAM_EXACT;

    for (size_t i = 0; i < n; i++) {
        histogram_add(h, values[i]);
        sum += values[i];
    }
    qsort(values, n, sizeof(*values), compare);
    g_assert_cmpuint(histogram_count(h), ==, n);
    g_assert_cmpuint(histogram_max(h), ==, values[n - 1]);
    g_assert_true(histogram_exact(h) == exact);
    mean = histogram_mean(h);
    g_assert_true(mean <= sum / n * (1 + 1e-12L));
    g_assert_true(mean + 1 >= sum / n * (1 - 1e-12L));
    for (unsigned percent = 0; percent <= 100; percent++) {
        uint64_t want = percentile(values, n, percent);
        uint64_t got = histogram_percentile(h, percent);

        if (exact || percent == 100 || want < HISTOGRAM_STEPS) {
            g_assert_cmpuint(got, ==, want);
        }
        g_assert_cmpuint(MAX(got, want) - MIN(got, want), <=,
                         want / (2 * HISTOGRAM_STEPS));
    }
    check_powers(h, values, n);
    histogram_free(h);
}

static uint64_t random_value(GRand *rand)
{
    uint64_t value = (uint64_t)g_rand_int(rand) << 32 | g_rand_int(rand);

    return value >> g_rand_int_range(rand, 0, 64);
}

/* Of all sizes; of one; of those near a power of two */
static void test_random(void)
{
    g_autofree uint64_t *values = g_new(uint64_t, MANY);
    GRand *rand = g_rand_new_with_seed(40);

    for (unsigned round = 0; round < 60; round++) {
        size_t n = round < 20 ? round + 1 :
                   round < 40 ? HISTOGRAM_EXACT - 10 + round - 20 :
                   (size_t)g_rand_int_range(rand, 300, MANY);
        uint64_t around = UINT64_C(1) << g_rand_int_range(rand, 3, 63);

        for (size_t i = 0; i < n; i++) {
            values[i] = round % 3 == 0 ? random_value(rand) :
                        round % 3 == 1 ? around - 4 +
                                         g_rand_int_range(rand, 0, 8) :
                        random_value(rand) >> 40;
        }
        check(values, n);
    }
    g_rand_free(rand);
}

static void test_extremes(void)
{
    g_autofree uint64_t *values = g_new(uint64_t, MANY);
    struct histogram *none = histogram_new();

    g_assert_cmpuint(histogram_count(none), ==, 0);
    g_assert_cmpuint(histogram_max(none), ==, 0);
    g_assert_cmpuint(histogram_mean(none), ==, 0);
    g_assert_cmpuint(histogram_percentile(none, 50), ==, 0);
    g_assert_cmpuint(histogram_power(none, 63), ==, 0);
    histogram_free(none);
    for (size_t i = 0; i < MANY; i++) {
        values[i] = UINT64_MAX;
    }
    check(values, MANY);
    for (size_t i = 0; i < MANY; i++) {
        values[i] = 0;
    }
    check(values, MANY);
    /* One in a thousand, as the slow ones are */
    for (size_t i = 0; i < MANY; i++) {
        values[i] = i % 1000 ? 1000 + i % 7 : 300000000;
    }
    check(values, MANY);
}

/*
 * Of many histograms with one budget, those that know their values know all of
 * them, and no more memory is taken than there is.
 */
static void test_budget(void)
{
    enum { N = 100, VALUES = 600 };
    const uint64_t bytes = 40 * 1024;
    struct histogram_budget budget = { bytes, 0 };
    struct histogram *within[N], *alone[N];
    GRand *rand = g_rand_new_with_seed(41);
    unsigned known = 0;

    for (unsigned i = 0; i < N; i++) {
        within[i] = histogram_new_within(&budget);
        alone[i] = histogram_new();
    }
    for (unsigned k = 0; k < N * VALUES; k++) {
        unsigned i = g_rand_int_range(rand, 0, N);
        uint64_t value = random_value(rand) >> (i % 2 ? 58 : 0);

        /* Some have few. */
        if (i % 10 && k > N * 20) {
            continue;
        }
        histogram_add(within[i], value);
        histogram_add(alone[i], value);
        g_assert_cmpuint(budget.left, <=, bytes);
    }
    for (unsigned i = 0; i < N; i++) {
        bool is = histogram_known(within[i]);

        known += is;
        g_assert_cmpuint(histogram_count(within[i]), ==,
                         histogram_count(alone[i]));
        g_assert_cmpuint(histogram_max(within[i]), ==,
                         histogram_max(alone[i]));
        g_assert_cmpuint(histogram_mean(within[i]), ==,
                         histogram_mean(alone[i]));
        for (unsigned p = 0; p <= 100; p++) {
            g_assert_cmpuint(histogram_percentile(within[i], p), ==,
                             is ? histogram_percentile(alone[i], p) : 0);
        }
        for (unsigned p = 0; p < HISTOGRAM_POWERS; p++) {
            g_assert_cmpuint(histogram_power(within[i], p), ==,
                             is ? histogram_power(alone[i], p) : 0);
        }
        histogram_free(within[i]);
        histogram_free(alone[i]);
    }
    g_assert_cmpuint(known, >, N / 10);
    g_assert_cmpuint(known, ==, N - budget.forgotten);
    g_assert_cmpuint(budget.forgotten, >, 0);
    g_rand_free(rand);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/histogram/random", test_random);
    g_test_add_func("/histogram/extremes", test_extremes);
    g_test_add_func("/histogram/budget", test_budget);
    return g_test_run();
}
