/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sorter: sorts numbers by heap sort and by a recursive quick sort whose
 * comparison is called through a pointer: calls, returns, indirect branches
 */

#include <string.h>

#include "workload.h"

#define COUNT 10000

typedef int compare_fn(uint32_t a, uint32_t b);

static int ascending(uint32_t a, uint32_t b)
{
    return a < b;
}

static int descending(uint32_t a, uint32_t b)
{
    return a > b;
}

static int by_low_half(uint32_t a, uint32_t b)
{
    uint16_t x = a, y = b;

    return x != y ? x < y : a < b;
}

static compare_fn *volatile const orders[] = {
    ascending, descending, by_low_half,
};

static void quick_sort(uint32_t *v, long lo, long hi, compare_fn *before)
{
    while (lo < hi) {
        uint32_t pivot = v[lo + (hi - lo) / 2];
        long i = lo, j = hi;

        while (i <= j) {
            while (before(v[i], pivot)) {
                i++;
            }
            while (before(pivot, v[j])) {
                j--;
            }
            if (i <= j) {
                uint32_t t = v[i];

                v[i++] = v[j];
                v[j--] = t;
            }
        }
        quick_sort(v, lo, j, before);
        lo = i;
    }
}

static void sift(uint32_t *v, long root, long count, compare_fn *before)
{
    long child;

    while ((child = root * 2 + 1) < count) {
        uint32_t t;

        if (child + 1 < count && before(v[child], v[child + 1])) {
            child++;
        }
        if (!before(v[root], v[child])) {
            return;
        }
        t = v[root];
        v[root] = v[child];
        v[child] = t;
        root = child;
    }
}

static void heap_sort(uint32_t *v, long count, compare_fn *before)
{
    long i;

    for (i = count / 2 - 1; i >= 0; i--) {
        sift(v, i, count, before);
    }
    for (i = count - 1; i > 0; i--) {
        uint32_t t = v[0];

        v[0] = v[i];
        v[i] = t;
        sift(v, 0, i, before);
    }
}

int main(int argc, char **argv)
{
    static uint32_t quick[COUNT], heap[COUNT];
    struct workload w;

    workload_begin(&w, "sorter", argc, argv);
    do {
        compare_fn *before = orders[w.rounds % 3];
        uint64_t state = w.rounds * 2 + 1;
        long i;

        for (i = 0; i < COUNT; i++) {
            quick[i] = heap[i] = workload_random(&state);
        }
        quick_sort(quick, 0, COUNT - 1, before);
        heap_sort(heap, COUNT, before);
        if (memcmp(quick, heap, sizeof(quick)) != 0) {
            workload_print("BT: error comm=sorter\n");
            return 1;
        }
        for (i = 0; i < COUNT; i += 100) {
            workload_add(&w, quick[i]);
        }
    } while (workload_next(&w));
    return workload_end(&w);
}
