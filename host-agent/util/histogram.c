/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often values of each size have come: see histogram.h
 */

#include "util/histogram.h"
#include "util/sort.h"

/* Values below are in a range of their own. */
#define SMALL   HISTOGRAM_STEPS

/* The least room for values that is taken */
#define ROOM    4u

/*
 * @budget: or NULL
 * @taken:  bytes of it
 * @values: NULL if there are too many to be kept
 * @room:   for them
 * @powers: those that have values, HISTOGRAM_STEPS counts each.  The first one
 *          is of values below SMALL
 * @forgotten: there was not enough left of the budget
 */
struct histogram {
    struct histogram_budget *budget;
    uint64_t taken;
    uint64_t count;
    uint64_t max;
    unsigned __int128 sum;
    GArray *values;
    unsigned room;
    uint64_t *powers[HISTOGRAM_POWERS];
    bool forgotten;
};

struct histogram *histogram_new(void)
{
    struct histogram *h = g_new0(struct histogram, 1);

    h->values = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    return h;
}

struct histogram *histogram_new_within(struct histogram_budget *budget)
{
    struct histogram *h = histogram_new();

    h->budget = budget;
    return h;
}

static void forget(struct histogram *h)
{
    if (h->values) {
        g_clear_pointer(&h->values, g_array_unref);
    }
    for (unsigned i = 0; i < HISTOGRAM_POWERS; i++) {
        g_clear_pointer(&h->powers[i], g_free);
    }
    h->budget->left += h->taken;
    h->taken = 0;
    h->forgotten = true;
    h->budget->forgotten++;
}

/* Takes bytes of the budget.  False if there are not as many: then it has
 * forgotten its values. */
static bool take(struct histogram *h, uint64_t bytes)
{
    if (!h->budget) {
        return true;
    }
    if (h->budget->left < bytes) {
        forget(h);
        return false;
    }
    h->budget->left -= bytes;
    h->taken += bytes;
    return true;
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
        if (!take(h, HISTOGRAM_STEPS * sizeof(uint64_t))) {
            return;
        }
        h->powers[power] = g_new0(uint64_t, HISTOGRAM_STEPS);
    }
    h->powers[power][(value - begin) / width]++;
}

/* Counts the values that were kept, and keeps no more. */
static void count_values(struct histogram *h)
{
    g_autoptr(GArray) values = g_steal_pointer(&h->values);

    for (guint i = 0; i < values->len && !h->forgotten; i++) {
        count_value(h, g_array_index(values, uint64_t, i));
    }
    if (h->budget && !h->forgotten) {
        h->budget->left += h->room * sizeof(uint64_t);
        h->taken -= h->room * sizeof(uint64_t);
    }
}

/* False if there is none: then it has forgotten its values. */
static bool make_room(struct histogram *h)
{
    unsigned room = h->room ? 2 * h->room : ROOM;

    if (h->values->len < h->room) {
        return true;
    }
    if (!take(h, (room - h->room) * sizeof(uint64_t))) {
        return false;
    }
    h->room = room;
    return true;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->count++;
    h->sum += value;
    h->max = MAX(h->max, value);
    if (h->values && h->values->len == HISTOGRAM_EXACT) {
        count_values(h);
    }
    if (h->forgotten || (h->values && !make_room(h))) {
        return;
    }
    if (h->values) {
        g_array_append_val(h->values, value);
    } else {
        count_value(h, value);
    }
}

bool histogram_known(const struct histogram *h)
{
    return !h->forgotten;
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

    if (!h->count || h->forgotten) {
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
