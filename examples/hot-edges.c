/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: hot-edges FILE [N]
 *
 * Prints, for each address space, the N edges (pairs of from and to) that were
 * taken most often, one a line: CR3, from, to, how often.  Streams are decoded
 * by several threads; each thread counts for itself.
 *
 *     cc hot-edges.c $(pkg-config --cflags --libs backtrail)
 */

#include <backtrail/trace.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Different edges a thread counts at most; they take 64 bytes each. */
#define MAX_EDGES   (1u << 22)

struct edge {
    uint64_t cr3;
    uint64_t from;
    uint64_t to;
    uint64_t count;             /* 0: the slot is free */
};

/* A hash table with open addressing */
struct table {
    struct edge *slots;
    size_t size;                /* a power of two, at least twice @used */
    size_t used;
};

struct count {
    struct table *tables;       /* one for each thread */
    uint64_t bad_chunks;
};

/* The slot of an edge, or the free one where it would be */
static struct edge *find(const struct table *t, uint64_t cr3, uint64_t from,
                         uint64_t to)
{
    uint64_t hash = (cr3 ^ from * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu ^
                    to * 0xc4ceb9fe1a85ec53u;
    size_t i;

    for (i = hash ^ hash >> 32;; i++) {
        struct edge *e = &t->slots[i & (t->size - 1)];

        if (!e->count ||
            (e->cr3 == cr3 && e->from == from && e->to == to)) {
            return e;
        }
    }
}

/* False if there is no memory. */
static bool grow(struct table *t)
{
    struct table larger = { .size = t->size ? 2 * t->size : 1024 };
    size_t i;

    larger.slots = calloc(larger.size, sizeof(*larger.slots));
    if (!larger.slots) {
        return false;
    }
    for (i = 0; i < t->size; i++) {
        const struct edge *e = &t->slots[i];

        if (e->count) {
            *find(&larger, e->cr3, e->from, e->to) = *e;
        }
    }
    larger.used = t->used;
    free(t->slots);
    *t = larger;
    return true;
}

/* False if there are too many different ones. */
static bool add(struct table *t, uint64_t cr3, uint64_t from, uint64_t to,
                uint64_t count)
{
    struct edge *e;

    if (2 * t->used >= t->size && t->used < MAX_EDGES && !grow(t)) {
        return false;
    }
    e = find(t, cr3, from, to);
    if (!e->count) {
        if (t->used == MAX_EDGES) {
            return false;
        }
        *e = (struct edge) { cr3, from, to, 0 };
        t->used++;
    }
    e->count += count;
    return true;
}

/* Called by all threads, but each has a number of its own. */
static int take(void *opaque, const struct btrail_piece *piece,
                const struct btrail_batch *batch)
{
    struct count *count = opaque;
    size_t i;

    if (!batch) {
        if (piece->bad) {
            __atomic_add_fetch(&count->bad_chunks, 1, __ATOMIC_RELAXED);
        }
        return 0;
    }
    for (i = 0; i < batch->count; i++) {
        if (!add(&count->tables[piece->worker], btrail_cr3_root(batch->cr3),
                 batch->records[i].from, batch->records[i].to, 1)) {
            return -BTRAIL_ERR_MEMORY;
        }
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    if (x->cr3 != y->cr3) {
        return x->cr3 < y->cr3 ? -1 : 1;
    }
    if (x->count != y->count) {
        return x->count > y->count ? -1 : 1;
    }
    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return x->to < y->to ? -1 : x->to > y->to;
}

static void print(struct table *t, unsigned long top)
{
    size_t i, n = 0;
    unsigned long of_space = 0;

    for (i = 0; i < t->size; i++) {
        if (t->slots[i].count) {
            t->slots[n++] = t->slots[i];
        }
    }
    if (n) {
        qsort(t->slots, n, sizeof(*t->slots), compare);
    }
    for (i = 0; i < n; i++) {
        const struct edge *e = &t->slots[i];

        of_space = i && e->cr3 == e[-1].cr3 ? of_space + 1 : 0;
        if (of_space < top) {
            printf("0x%016" PRIx64 " 0x%016" PRIx64 " 0x%016" PRIx64 " %" PRIu64
                   "\n", e->cr3, e->from, e->to, e->count);
        }
    }
}

/* Put what all threads have counted into the first table. */
static bool sum_up(struct table *tables, unsigned threads)
{
    unsigned i;
    size_t k;

    for (i = 1; i < threads; i++) {
        for (k = 0; k < tables[i].size; k++) {
            const struct edge *e = &tables[i].slots[k];

            if (e->count &&
                !add(&tables[0], e->cr3, e->from, e->to, e->count)) {
                return false;
            }
        }
        free(tables[i].slots);
        tables[i].slots = NULL;
    }
    return true;
}

int main(int argc, char **argv)
{
    unsigned threads = btrail_parallel_threads();
    struct table tables[BTRAIL_MAX_THREADS] = { { NULL, 0, 0 } };
    struct count count = { tables, 0 };
    struct btrail_trace *trace;
    unsigned long top = 10;
    int ret;

    if (argc < 2 || argc > 3 || (argc > 2 && !(top = strtoul(argv[2], NULL,
                                                            10)))) {
        fprintf(stderr, "usage: hot-edges FILE [N]\n");
        return 2;
    }
    ret = btrail_trace_open_parts(&trace, argv[1]);
    if (!ret) {
        ret = btrail_parallel_decode(trace, NULL, 0, 0, threads, take, &count);
        btrail_trace_close(trace);
    }
    if (!ret && !sum_up(tables, threads)) {
        ret = -BTRAIL_ERR_MEMORY;
    }
    if (ret) {
        fprintf(stderr, "%s: %s\n", argv[1], ret == -BTRAIL_ERR_IO ?
                strerror(errno) : btrail_strerror(ret));
        return 1;
    }
    if (count.bad_chunks) {
        fprintf(stderr, "%" PRIu64 " damaged chunks\n", count.bad_chunks);
    }
    print(&tables[0], top);
    free(tables[0].slots);
    return 0;
}
