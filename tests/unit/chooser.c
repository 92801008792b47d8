/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/chooser.h: what it remembers against the filter itself
 */
#include <glib.h>
#include <string.h>

#include "analyze/chooser.h"
#include "scratch.h"

enum { RECORDS = 5000, ROUNDS = 60 };

/* With more edges than are remembered */
static void make_records(struct btrail_record *records)
{
    for (unsigned i = 0; i < RECORDS; i++) {
        records[i] = (struct btrail_record) {
            0x1000 + g_test_rand_int_range(0, 400),
            0x2000 + g_test_rand_int_range(0, 400), 0,
        };
    }
}

static void check(struct chooser *c, const struct filter *f, uint64_t start,
                  struct symbolizer *names)
{
    g_autofree struct btrail_record *records = g_new(struct btrail_record,
                                                     RECORDS);
    g_autofree bool *counts = g_new(bool, RECORDS);
    struct btrail_batch b = {
        .index = g_test_rand_int_range(0, 100000), .records = records,
        .count = RECORDS,
        .time = { .host = start + g_test_rand_int_range(0, 20) },
    };
    unsigned vcpu = g_test_rand_int_range(0, 3);
    const struct symbolizer_where where = {
        .vcpu = vcpu, .index = b.index,
        .cr3 = 0x1000 * g_test_rand_int_range(1, 3),
    };
    enum btrail_certainty certainty;
    struct task task = {
        .process = symbolizer_process(names, &where, &certainty),
        .where = where,
    };
    size_t n;

    make_records(records);
    memset(counts, 0xff, RECORDS);
    n = chooser_choose(c, vcpu, &task, &b, counts);
    for (unsigned i = 0; i < RECORDS; i++) {
        const struct named_record r = {
            .vcpu = vcpu, .index = b.index + i, .time = b.time.host - start,
            .from = records[i].from, .to = records[i].to,
            .process = task.process, .lines = names,
        };

        const struct btrail_batch one = {
            .index = r.index, .records = records + i, .count = 1,
            .time = b.time,
        };

        g_assert_cmpint(counts[i], ==, filter_matches(f, &r));
        g_assert_cmpint(counts[i], ==,
                        chooser_has(c, vcpu, &task, &one, i & 1));
        n -= counts[i];
    }
    g_assert_cmpuint(n, ==, 0);
}

static void test_choose(gconstpointer folder)
{
    static const char *const filters[] = {
        "from >= 0x1080", "pid == 7", "comm == sh && to < 0x20c0",
        "from == 0x1010 || cpu == 2", "index < 50000 && to > 0x2010",
        "time < 10ns && from > 0x1100 || pid == 1", "kernel",
    };
    g_autofree char *map = g_build_filename(folder, "names.map", NULL);
    const struct symbolizer_options options = { .map = map };
    struct symbolizer *names;

    g_assert_true(g_file_set_contents(map, "cr3 1000 pid=1 init\n"
                                      "cr3 2000 pid=7 sh\n", -1, NULL));
    names = symbolizer_new(&options, NULL, NULL);
    g_assert_nonnull(names);

    for (unsigned i = 0; i < G_N_ELEMENTS(filters); i++) {
        struct filter *f = filter_parse(filters[i], NULL);
        struct chooser *c = chooser_new(names, f, &WINDOW_ALL(1000));

        for (unsigned k = 0; k < ROUNDS; k++) {
            check(c, f, 1000, names);
        }
        chooser_free(c);
        filter_free(f);
    }
    symbolizer_free(names);
    chooser_free(NULL);
}

int main(int argc, char **argv)
{
    char *folder = scratch_new();
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/chooser/choose", folder, test_choose);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
