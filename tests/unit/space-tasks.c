/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/space-tasks.h: a trace with tasks at random, which are
 * counted while it is made
 */
#include <glib.h>
#include <string.h>

#include "analyze/tally.h"
#include "scratch.h"

/* Those that a filter chooses: of sh on a vCPU, with one target, late */
#define CHOSEN      "comm == sh && cpu == 1 && to == 0x2001"
#define START       1000
#define LATE        10          /* slabs */

enum { VCPUS = 3, SLABS = 40, RECORDS = 500, SPACES = 5, TASKS = 7 };

static const char *const names[] = { "sh", "make", "kworker/0:1", "cc" };

/* What is counted: "cr3 name pid" -> records */
static void count(GHashTable *sums, uint64_t cr3, const char *name,
                  int64_t pid, uint64_t n)
{
    char *key = g_strdup_printf("%" G_GINT64_MODIFIER "x %s %"
                                G_GINT64_FORMAT, cr3, name, pid);
    uint64_t sum = GPOINTER_TO_SIZE(g_hash_table_lookup(sums, key)) + n;

    g_hash_table_insert(sums, key, GSIZE_TO_POINTER(sum));
}

/* Writes one slab; its tasks have threads, which do not count apart. */
static void write_slab(struct btrail_writer *w, unsigned vcpu, unsigned number,
                       GHashTable *sums, GHashTable *chosen)
{
    struct btrail_record records[RECORDS];
    struct btrail_event events[3 * RECORDS];
    struct btrail_slab slab = {
        .first_index = (uint64_t)number * RECORDS, .records = records,
        .n_records = RECORDS, .events = events,
    };
    uint64_t cr3 = 0x1000 * (1 + number % SPACES);
    const char *name = NULL;
    uint32_t pid = 0;

    slab.cr3 = cr3;
    for (unsigned i = 0; i < RECORDS; i++) {
        uint64_t index = slab.first_index + i;

        if (!i) {
            events[slab.n_events++] = (struct btrail_event) {
                .index = index, .type = BTRAIL_EVENT_TIME,
                .data = { START + index, 0, BTRAIL_NO_ICOUNT },
            };
        }
        if (g_test_rand_int_range(0, 20) == 0) {
            cr3 = 0x1000 * g_test_rand_int_range(1, SPACES + 1);
            events[slab.n_events++] = (struct btrail_event) {
                .index = index, .type = BTRAIL_EVENT_CR3, .data = { cr3 },
            };
        }
        if (!i || g_test_rand_int_range(0, 15) == 0) {
            struct btrail_event e = {
                .index = index, .type = BTRAIL_EVENT_TASK,
            };

            name = names[g_test_rand_int_range(0, G_N_ELEMENTS(names))];
            pid = g_test_rand_int_range(1, TASKS);
            e.reason = *name == 'k' ? BTRAIL_TASK_KERNEL : 0;
            e.data[0] = (uint64_t)pid << 32 | g_test_rand_int_range(1, 9);
            memcpy(&e.data[1], name, strlen(name));
            if (g_test_rand_int_range(0, 10) == 0) {
                e = (struct btrail_event) {
                    .index = index, .type = BTRAIL_EVENT_TASK,
                    .reason = BTRAIL_TASK_UNKNOWN,
                };
                name = NULL;
            }
            events[slab.n_events++] = e;
        }
        records[i] = (struct btrail_record) { 0x1000, 0x2000 + i % 4, 0 };
        if (name) {
            count(sums, cr3, name, pid, 1);
            if (!strcmp(name, "sh") && vcpu == 1 && i % 4 == 1 &&
                number >= LATE) {
                count(chosen, cr3, name, pid, 1);
            }
        } else {
            g_autofree char *unknown = g_strdup_printf(
                "cr3:0x%" G_GINT64_MODIFIER "x", cr3);

            count(sums, cr3, unknown, -1, 1);
        }
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

/* Compares what is counted with what was written. */
static void check(const struct btrail_trace *trace, const char *text,
                  const struct window *window, unsigned threads,
                  GHashTable *wanted)
{
    static const struct fold_limits limits = { 1000, 100000 };
    const struct symbolizer_options options = { 0 };
    struct symbolizer *s = symbolizer_new(&options, trace, NULL);
    struct filter *filter = text ? filter_parse(text, NULL) : NULL;
    struct space_tasks *tasks = space_tasks_new(s, filter, window);
    g_autoptr(GHashTable) found = g_hash_table_new_full(
        g_str_hash, g_str_equal, g_free, NULL);
    struct tally sum;
    GHashTableIter iter;
    gpointer key, value;

    g_assert_cmpint(tally_trace(&sum, trace, tasks, threads, &limits), ==, 0);
    g_assert_cmpuint(sum.spaces->len, ==, SPACES);
    for (unsigned i = 0; i < SPACES; i++) {
        const struct space *space = sum.spaces->pdata[i];
        uint64_t last = UINT64_MAX, records = 0;
        size_t n;
        const struct space_task *t = space_tasks_of(tasks, &space->key, &n);

        for (size_t j = 0; j < n; j++) {
            g_assert_cmpuint(t[j].records, <=, last);
            g_assert_cmpuint(t[j].likely, ==, 0);
            last = t[j].records;
            records += last;
            count(found, space->key.cr3, t[j].process->comm, t[j].process->pid,
                  last);
        }
        g_assert_cmpuint(records, ==, space->records);
    }
    g_assert_cmpuint(g_hash_table_size(found), ==, g_hash_table_size(wanted));
    g_hash_table_iter_init(&iter, wanted);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        g_assert_true(g_hash_table_lookup(found, key) == value);
    }
    tally_clear(&sum);
    space_tasks_free(tasks);
    filter_free(filter);
    symbolizer_free(s);
}

static void test_counts(gconstpointer folder)
{
    static const unsigned threads[] = { 1, 3 };
    const struct window late = { START, LATE * RECORDS, UINT64_MAX };
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    g_autoptr(GHashTable) wanted = g_hash_table_new_full(g_str_hash,
                                                         g_str_equal, g_free,
                                                         NULL);
    g_autoptr(GHashTable) chosen = g_hash_table_new_full(g_str_hash,
                                                         g_str_equal, g_free,
                                                         NULL);
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    for (unsigned i = 0; i < VCPUS * SLABS; i++) {
        write_slab(w, i % VCPUS, i / VCPUS, wanted, chosen);
        if (i % 31 == 30) {
            g_assert_cmpint(btrail_writer_flush(w), ==, 0);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned k = 0; k < G_N_ELEMENTS(threads); k++) {
        check(trace, NULL, &WINDOW_ALL(START), threads[k], wanted);
        check(trace, CHOSEN, &late, threads[k], chosen);
    }
    btrail_trace_close(trace);
}

int main(int argc, char **argv)
{
    char *folder = scratch_new();
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/space-tasks/counts", folder, test_counts);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
