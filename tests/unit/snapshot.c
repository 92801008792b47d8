/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshots of processes: encoded, decoded, and refused when damaged.
 */

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "backtrail/names.h"

static const uint8_t id[20] = { 1, 0, 3 };

static struct btrail_thread threads[] = {
    { 7, -1, 100, "main" }, { 9, 3, 120, "wor\xffker" },
};
static struct btrail_mapping mappings[] = {
    { 0x400000, 0x401000, 0, 5 | BTRAIL_MAPPING_FILE, sizeof(id), "/bin/a",
      id },
    { 0x401000, 0x402000, 0x1000, 3 | BTRAIL_MAPPING_FILE, sizeof(id),
      "/bin/a", id },
    { 0x7ffe00000000, 0x7ffe00021000, 0, 3, 0, "[stack]", NULL },
    { 0xffffffffff600000, UINT64_MAX, 0, 4, 0, "", NULL },
};
static struct btrail_process processes[] = {
    { 0x1000, 0, 0, 0, 50, 60, BTRAIL_PROCESS_KERNEL, 2, 0, 0, 0,
      "kthreadd", "", "" },
    { 0x2000, 0x3000, 0xffff888000001000, 100, 40, 55, 0, 7, 1, 0, 8, "a",
      "/bin/a", "a\0-x\0y\0", 2, 4, threads, mappings },
};
static struct btrail_snapshot sample = { 50, 60, BTRAIL_SNAPSHOT_WHOLE, 2, processes };

static void *encode(const struct btrail_snapshot *snapshot, size_t *size)
{
    void *data;

    g_assert_cmpint(btrail_snapshot_encode(snapshot, &data, size), ==, 0);
    return data;
}

static void check_process(const struct btrail_process *a,
                          const struct btrail_process *b)
{
    uint32_t i;

    g_assert_cmphex(a->pgd, ==, b->pgd);
    g_assert_cmphex(a->user_pgd, ==, b->user_pgd);
    g_assert_cmphex(a->mm, ==, b->mm);
    g_assert_cmpuint(a->start_time, ==, b->start_time);
    g_assert_cmpuint(a->first, ==, b->first);
    g_assert_cmpuint(a->last, ==, b->last);
    g_assert_cmpuint(a->flags, ==, b->flags);
    g_assert_cmpuint(a->pid, ==, b->pid);
    g_assert_cmpuint(a->parent, ==, b->parent);
    g_assert_cmpstr(a->comm, ==, b->comm);
    g_assert_cmpstr(a->exe, ==, b->exe);
    g_assert_cmpmem(a->command_line, a->command_line_size, b->command_line,
                    b->command_line_size);
    g_assert_cmpint(a->command_line[a->command_line_size], ==, 0);
    g_assert_cmpuint(a->n_threads, ==, b->n_threads);
    for (i = 0; i < a->n_threads; i++) {
        g_assert_cmpuint(a->threads[i].tid, ==, b->threads[i].tid);
        g_assert_cmpint(a->threads[i].vcpu, ==, b->threads[i].vcpu);
        g_assert_cmpuint(a->threads[i].start_time, ==,
                         b->threads[i].start_time);
        g_assert_cmpstr(a->threads[i].comm, ==, b->threads[i].comm);
    }
    g_assert_cmpuint(a->n_mappings, ==, b->n_mappings);
    for (i = 0; i < a->n_mappings; i++) {
        const struct btrail_mapping *m = &a->mappings[i];
        const struct btrail_mapping *n = &b->mappings[i];

        g_assert_cmphex(m->start, ==, n->start);
        g_assert_cmphex(m->end, ==, n->end);
        g_assert_cmphex(m->offset, ==, n->offset);
        g_assert_cmphex(m->flags, ==, n->flags);
        g_assert_cmpstr(m->path, ==, n->path);
        g_assert_cmpmem(m->build_id, m->build_id_size, n->build_id,
                        n->build_id_size);
    }
}

static void test_round(void)
{
    struct btrail_snapshot empty = { 0 };
    struct btrail_snapshot *snapshot;
    size_t size;
    void *data = encode(&sample, &size);
    uint32_t i;

    g_assert_cmpint(btrail_snapshot_decode(&snapshot, data, size), ==, 0);
    g_assert_cmpuint(snapshot->begin, ==, 50);
    g_assert_cmpuint(snapshot->end, ==, 60);
    g_assert_cmpuint(snapshot->flags, ==, BTRAIL_SNAPSHOT_WHOLE);
    g_assert_cmpuint(snapshot->n, ==, 2);
    for (i = 0; i < 2; i++) {
        check_process(&snapshot->processes[i], &processes[i]);
    }
    btrail_snapshot_free(snapshot);
    free(data);

    data = encode(&empty, &size);
    g_assert_cmpint(btrail_snapshot_decode(&snapshot, data, size), ==, 0);
    g_assert_cmpuint(snapshot->n, ==, 0);
    btrail_snapshot_free(snapshot);
    free(data);
    btrail_snapshot_free(NULL);
}

/* The bytes that docs/trace-format.md tells, by hand */
static void test_bytes(void)
{
    static const uint8_t bytes[] = {
        1, 60, 10,                              /* flags, end, took */
        3, 2, 'a', 'b', 0, 2, 'c', 0,           /* strings */
        1,                                      /* processes */
        0x80, 0x20, 0, 5, 6, 30, 20, 2, 7, 1,   /* pgd ... parent */
        0, 1, 2,                                /* comm, exe, command line */
        1, 7, 0, 1, 0,                          /* threads */
        1, 0x80, 0x20, 0x80, 0x20, 3, 4, 0, 1,  /* mappings */
    };
    struct btrail_thread t = { 7, -1, 5, "ab" };
    struct btrail_mapping m = { 0x1000, 0x2000, 3, 4, 0, "ab", NULL };
    struct btrail_process p = {
        0x1000, 0, 5, 6, 30, 40, 2, 7, 1, 0, 2, "ab", "", "c", 1, 1, &t, &m
    };
    struct btrail_snapshot want = { 50, 60, 1, 1, &p };
    struct btrail_snapshot *snapshot;
    size_t size;
    void *data = encode(&want, &size);

    g_assert_cmpmem(data, size, bytes, sizeof(bytes));
    free(data);
    g_assert_cmpint(btrail_snapshot_decode(&snapshot, bytes, sizeof(bytes)), ==, 0);
    check_process(&snapshot->processes[0], &p);
    btrail_snapshot_free(snapshot);
}

/* Whatever the bytes are, it is a snapshot, which can be encoded, or an error. */
static void test_damage(void)
{
    struct btrail_snapshot *snapshot;
    size_t size, again;
    uint8_t *data = encode(&sample, &size);
    void *copy;
    size_t i;
    int n;

    for (i = 0; i < size; i++) {
        copy = g_memdup2(data, i);
        g_assert_cmpint(btrail_snapshot_decode(&snapshot, copy, i), ==,
                        -BTRAIL_ERR_CORRUPT);
        g_free(copy);
    }
    data = realloc(data, size + 1);
    data[size] = 0;
    g_assert_cmpint(btrail_snapshot_decode(&snapshot, data, size + 1), ==,
                    -BTRAIL_ERR_CORRUPT);
    for (n = 0; n < 200000; n++) {
        uint8_t *bytes = g_memdup2(data, size);
        int k;

        for (k = g_test_rand_int_range(1, 4); k; k--) {
            bytes[g_test_rand_int_range(0, size)] =
                g_test_rand_int_range(0, 256);
        }
        if (!btrail_snapshot_decode(&snapshot, bytes, size)) {
            g_assert_cmpint(btrail_snapshot_encode(snapshot, &copy, &again), ==, 0);
            free(copy);
            btrail_snapshot_free(snapshot);
        }
        g_free(bytes);
    }
    free(data);
}

/* A count is not believed before there is room for this many. */
static void test_counts(void)
{
    static const uint8_t strings[] = { 1, 60, 10, 0xff, 0xff, 0x3f, 0, 0 };
    static const uint8_t procs[] = { 1, 60, 10, 0, 0xff, 0xff, 3, 0, 0 };
    struct btrail_snapshot *snapshot;

    g_assert_cmpint(btrail_snapshot_decode(&snapshot, strings, sizeof(strings)), ==,
                    -BTRAIL_ERR_CORRUPT);
    g_assert_cmpint(btrail_snapshot_decode(&snapshot, procs, sizeof(procs)), ==,
                    -BTRAIL_ERR_CORRUPT);
    g_assert_cmpint(btrail_snapshot_decode(NULL, procs, sizeof(procs)), ==,
                    -BTRAIL_ERR_ARGUMENT);
}

static void refuse(struct btrail_process p)
{
    struct btrail_snapshot snapshot = { 50, 60, 0, 1, &p };
    size_t size;
    void *data;

    g_assert_cmpint(btrail_snapshot_encode(&snapshot, &data, &size), ==,
                    -BTRAIL_ERR_ARGUMENT);
}

static void test_refuse(void)
{
    struct btrail_thread two[2] = { threads[1], threads[0] };
    struct btrail_mapping m = mappings[0];
    struct btrail_process p = processes[1];

    p.threads = two;
    refuse(p);
    p = processes[1];
    p.comm = NULL;
    refuse(p);
    p = processes[1];
    p.last = 61;
    refuse(p);
    p = processes[1];
    p.first = 56;
    refuse(p);
    p = processes[1];
    p.n_mappings = 1;
    p.mappings = &m;
    m.end = m.start;
    refuse(p);
    m = mappings[0];
    m.build_id_size = BTRAIL_BUILD_ID_MAX + 1;
    refuse(p);
    m = mappings[0];
    m.path = NULL;
    refuse(p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/snapshot/round", test_round);
    g_test_add_func("/snapshot/bytes", test_bytes);
    g_test_add_func("/snapshot/damage", test_damage);
    g_test_add_func("/snapshot/counts", test_counts);
    g_test_add_func("/snapshot/refuse", test_refuse);
    return g_test_run();
}
