/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often values of each size have come: see histogram.h
 */

#include "util/histogram.h"
#include "util/sort.h"

/* Values below are in a range of their own. */
#define SMALL   HISTOGRAM_STEPS

/*
 * @values: NULL if there are too many to be kept
 * @powers: those that have values, HISTOGRAM_STEPS counts each.  The first one
 *          is of values below SMALL
 */
struct histogram {
    uint64_t count;
    uint64_t max;
    unsigned __int128 sum;
    GArray *values;
    uint64_t *powers[HISTOGRAM_POWERS];
};

struct histogram *histogram_new(void)
{
    struct histogram *h = g_new0(struct histogram, 1);

    h->values = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    return h;
}

void histogram_free(struct histogram *h)
{
    if (h) {
        if (h->values) {
            g_array_unref(h->values);
        }
        for (unsigned i = 0; i < HISTOGRAM_POWERS; i++) {
            g_free(h->powers[i]);
        }
        g_free(h);
    }
}

/* The power of two that a value is not below */
static unsigned power_of(uint64_t value)
{
    return 63 - __builtin_clzll(value | 1);
}

static void count_value(struct histogram *h, uint64_t value)
{
    unsigned power = value < SMALL ? 0 : power_of(value);
    uint64_t begin = power ? UINT64_C(1) << power : 0;
    uint64_t width = power ? begin / HISTOGRAM_STEPS : 1;

    if (!h->powers[power]) {
        h->powers[power] = g_new0(uint64_t, HISTOGRAM_STEPS);
    }
    h->powers[power][(value - begin) / width]++;
}

/* Counts the values that were kept, and keeps no more. */
static void count_values(struct histogram *h)
{
    for (guint i = 0; i < h->values->len; i++) {
        count_value(h, g_array_index(h->values, uint64_t, i));
    }
    g_clear_pointer(&h->values, g_array_unref);
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->count++;
    h->sum += value;
    h->max = MAX(h->max, value);
    if (h->values && h->values->len == HISTOGRAM_EXACT) {
        count_values(h);
    }
    if (h->values) {
        g_array_append_val(h->values, value);
    } else {
        count_value(h, value);
    }
}

uint64_t histogram_count(const struct histogram *h)
{
    return h->count;
}

uint64_t histogram_max(const struct histogram *h)
{
    return h->max;
}

uint64_t histogram_mean(const struct histogram *h)
{
    return h->count ? h->sum / h->count : 0;
}

bool histogram_exact(const struct histogram *h)
{
    return h->values;
}

/* The middle of the range that has value number @rank, from 1 */
static uint64_t ranked(const struct histogram *h, uint64_t rank)
{
    for (unsigned i = 0; i < HISTOGRAM_POWERS; i++) {
        uint64_t begin = i ? UINT64_C(1) << i : 0;
        uint64_t width = i ? begin / HISTOGRAM_STEPS : 1;

        for (unsigned k = 0; h->powers[i] && k < HISTOGRAM_STEPS; k++) {
            if (h->powers[i][k] >= rank) {
                return MIN(begin + k * width + width / 2, h->max);
            }
            rank -= h->powers[i][k];
        }
    }
    return h->max;
}

uint64_t histogram_percentile(const struct histogram *h, unsigned percent)
{
    uint64_t rank = ((unsigned __int128)h->count * percent + 99) / 100;
    g_autoptr(GArray) sorted = NULL;

    if (!h->count) {
        return 0;
    }
    rank = CLAMP(rank, 1, h->count);
    if (!h->values) {
        return rank == h->count ? h->max : ranked(h, rank);
    }
    sorted = g_array_copy(h->values);
    btrail_order_u64(sorted);
    return g_array_index(sorted, uint64_t, rank - 1);
}

uint64_t histogram_power(const struct histogram *h, unsigned i)
{
    const uint64_t *counts = h->powers[i < power_of(SMALL) ? 0 : i];
    uint64_t n = 0;

    if (h->values) {
        for (guint k = 0; k < h->values->len; k++) {
            n += power_of(g_array_index(h->values, uint64_t, k)) == i;
        }
        return n;
    }
    for (unsigned k = 0; counts && k < HISTOGRAM_STEPS; k++) {
        n += i >= power_of(SMALL) || power_of(k) == i ? counts[k] : 0;
    }
    return n;
}
