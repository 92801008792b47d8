/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/profile.h, against a count that goes through the records of
 * a trace one after the other
 */
#include "analyze/profile.h"
#include "cli/cli.h"
#include "random-trace.h"
#include "trace-samples.h"

static const char *const filters[] = {
    NULL, "cpu == 0", "time > 0.000002", "index < 50", "index < 70 || cpu > 1",
    "from < 0x8", "cr3 == 0x3000", "cpu != 1 && to > 4 || index >= 200",
    "cpu == 77", "!(index < 20 || index > 60) && from < to", "user || kernel",
    "kernel", "sym == '[unknown]' && !user || comm ~ 0x1000",
};

static char *key(const struct named_record *r, bool by_vcpu)
{
    return g_strdup_printf("%s %u %" G_GINT64_MODIFIER "x %" G_GINT64_MODIFIER
                           "x", r->process->comm, by_vcpu ? r->vcpu : 0,
                           r->from, r->to);
}

static void count(GHashTable *table, char *name, uint64_t n)
{
    n += GPOINTER_TO_SIZE(g_hash_table_lookup(table, name));
    g_hash_table_insert(table, name, GSIZE_TO_POINTER(n));
}

struct counting {
    GHashTable *table;
    bool by_vcpu;
};

static void take(void *opaque, const struct named_record *r, uint64_t n)
{
    struct counting *c = opaque;

    count(c->table, key(r, c->by_vcpu), n);
}

static GHashTable *table_new(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
}

static uint64_t count_slowly(const struct cli_trace *t, struct symbolizer *s,
                             const struct filter *filter, bool by_vcpu,
                             GHashTable *table)
{
    uint64_t records = 0;
    unsigned i;
    size_t k;

    for (i = 0; i < btrail_trace_streams(t->trace); i++) {
        struct btrail_stream_info info;
        struct btrail_cursor *cursor;
        struct btrail_batch b;

        btrail_trace_stream(t->trace, i, &info);
        g_assert_cmpint(btrail_cursor_open(&cursor, t->trace, info.vcpu, 0),
                        ==, 0);
        while (!btrail_cursor_next(cursor, &b)) {
            for (k = 0; k < b.count; k++) {
                const struct symbolizer_where where =
                    symbolizer_at(info.vcpu, &b, k);
                enum btrail_certainty certainty;
                struct place from, to;
                const struct named_record r = {
                    .vcpu = info.vcpu, .index = b.index + k,
                    .time = b.time.host >= t->start ?
                            (int64_t)(b.time.host - t->start) : -1,
                    .from = b.records[k].from, .to = b.records[k].to,
                    .process = symbolizer_process(s, &where, &certainty),
                    .from_place = &from, .to_place = &to,
                };

                symbolizer_place(s, r.process, &where, r.from, &from);
                symbolizer_place(s, r.process, &where, r.to, &to);
                if (!filter || filter_matches(filter, &r)) {
                    count(table, key(&r, by_vcpu), 1);
                    records++;
                }
            }
        }
        btrail_cursor_close(cursor);
    }
    return records;
}

static void check(const struct cli_trace *t, const char *text, bool by_vcpu,
                  unsigned threads)
{
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
    struct filter *filter = text ? filter_parse(text, NULL) : NULL;
    const struct profile_options options = {
        .names = s, .filter = filter, .by_vcpu = by_vcpu, .threads = threads,
        .edges = 1u << 20, .window = WINDOW_ALL(t->start),
    };
    struct counting c = { table_new(), by_vcpu };
    GHashTable *slow = table_new();
    struct fold_sums p;
    GHashTableIter iter;
    gpointer name, n;

    g_assert_cmpint(profile_trace(&p, t->trace, &options, take, &c), ==, 0);
    g_assert_cmpuint(p.records, ==,
                     count_slowly(t, s, filter, by_vcpu, slow));
    g_assert_cmpuint(p.others, ==, 0);
    g_assert_cmpuint(g_hash_table_size(c.table), ==, g_hash_table_size(slow));
    g_hash_table_iter_init(&iter, slow);
    while (g_hash_table_iter_next(&iter, &name, &n)) {
        g_assert_true(g_hash_table_lookup(c.table, name) == n);
    }
    g_hash_table_unref(c.table);
    g_hash_table_unref(slow);
    filter_free(filter);
    symbolizer_free(s);
}

static void test_random(void)
{
    unsigned round, i;

    for (round = 0; round < 5; round++) {
        struct random_trace *random = random_trace_new(1 + round % 3, 40);
        char *paths[] = { random->path, NULL };
        struct cli_trace t;

        g_assert_true(cli_trace_open(&t, paths));
        for (i = 0; i < G_N_ELEMENTS(filters); i++) {
            check(&t, filters[i], i & 1, 1 + (i + round) % 4);
        }
        cli_trace_close(&t);
        random_trace_free(random);
    }
}

static void add_all(void *opaque, const struct named_record *r, uint64_t n)
{
    *(uint64_t *)opaque += n;
}

/* If there are more edges than are kept at a time, none is lost. */
static void test_limit(void)
{
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
    char *path = sample_path(), *paths[] = { path, NULL };
    struct profile_options options = {
        .names = s, .window = WINDOW_ALL(0),
    };
    struct cli_trace t;
    unsigned threads;

    sample_write(path, 40);
    g_assert_true(cli_trace_open(&t, paths));
    for (threads = 1; threads < 5; threads++) {
        struct fold_sums p;
        uint64_t sum = 0;

        options.threads = threads;
        options.edges = 500;
        g_assert_cmpint(profile_trace(&p, t.trace, &options, add_all, &sum),
                        ==, 0);
        g_assert_cmpuint(sum, ==, 2 * 40 * SAMPLE_CHUNK_RECORDS);
        g_assert_cmpuint(p.records, ==, sum);
        g_assert_cmpuint(p.others, ==, 0);
        g_assert_cmpuint(p.lost, ==, 2 * SAMPLE_LOST);
    }
    cli_trace_close(&t);
    symbolizer_free(s);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/profile/random", test_random);
    g_test_add_func("/profile/limit", test_limit);
    return g_test_run();
}
