/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writing with the API: random traces are read back as they were written.
 */

#include <errno.h>

#include "trace-samples.h"

static uint64_t random64(void)
{
    return (uint64_t)(uint32_t)g_test_rand_int() << 32 |
           (uint32_t)g_test_rand_int();
}

/* What is known of a stream while it is written, to compare with */
struct model {
    GArray *records;            /* of struct btrail_record */
    GArray *indices;            /* of uint64_t */
    GArray *cr3s;
    GArray *events;             /* of struct btrail_event */
    uint64_t index;
    uint64_t cr3;
    uint64_t clock;
};

static void append_random_slab(struct btrail_writer *w, unsigned vcpu,
                               struct model *m)
{
    struct btrail_record records[200];
    struct btrail_event events[60];
    struct btrail_slab slab = { .records = records, .events = events };
    unsigned n = g_test_rand_int_range(0, 200), i;
    struct btrail_event e;

    if (g_test_rand_int_range(0, 4) == 0) {
        e = (struct btrail_event) {
            .type = BTRAIL_EVENT_GAP,
            .reason = BTRAIL_GAP_OVERFLOW,
            .data = { g_test_rand_int_range(0, 1000) },
        };
        m->index += e.data[0];
        e.index = m->index;
        events[slab.n_events++] = e;
        g_array_append_val(m->events, e);
    }
    slab.first_index = m->index;
    slab.cr3 = m->cr3;
    for (i = 0; i < n; i++) {
        struct btrail_record r = {
            .from = 0x400000 + g_test_rand_int_range(0, 50) * 8,
            .to = 0x400000 + g_test_rand_int_range(0, 50) * 8,
        };

        if (g_test_rand_int_range(0, 50) == 0) {
            r.from = random64();
            r.flags = g_test_rand_bit() ? BTRAIL_RECORD_PREDICTED :
                      random64();
        }
        memset(&e, 0, sizeof(e));
        if (slab.n_events < 50) {
            switch (g_test_rand_int_range(0, 40)) {
            case 0:
                e.type = BTRAIL_EVENT_CR3;
                m->cr3 = e.data[0] = random64() & ~0xfffull;
                break;
            case 1:
                e.type = BTRAIL_EVENT_TIME;
                e.data[0] = m->clock += g_test_rand_int_range(0, 1000000);
                e.data[1] = random64();
                e.data[2] = random64();
                break;
            case 2:
                e.type = BTRAIL_EVENT_PAUSE;
                e.reason = BTRAIL_PAUSE_VM_STOP;
                e.data[0] = random64();
                break;
            case 3:
                /* Between records, not before the first of a slab */
                if (i) {
                    e.type = BTRAIL_EVENT_GAP;
                    e.data[0] = g_test_rand_bit() ? BTRAIL_LOST_UNKNOWN : 5;
                    m->index += e.data[0] == 5 ? 5 : 0;
                }
                break;
            default:
                break;
            }
        }
        if (e.type) {
            e.index = m->index;
            events[slab.n_events++] = e;
            g_array_append_val(m->events, e);
        }
        records[slab.n_records++] = r;
        g_array_append_val(m->records, r);
        g_array_append_val(m->indices, m->index);
        g_array_append_val(m->cr3s, m->cr3);
        m->index++;
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    if (g_test_rand_int_range(0, 20) == 0) {
        g_assert_cmpint(btrail_writer_flush(w), ==, 0);
    }
}

static void compare(struct btrail_trace *trace, unsigned vcpu,
                    const struct model *m)
{
    struct btrail_cursor *cursor;
    unsigned r = 0, e = 0;
    struct btrail_batch b;
    int ret;

    g_assert_cmpint(btrail_cursor_open(&cursor, trace, vcpu, 0), ==, 0);
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        size_t i;

        g_assert_false(b.synthetic);
        if (b.event) {
            g_assert_cmpuint(e, <, m->events->len);
            g_assert_cmpmem(b.event, sizeof(*b.event),
                            &g_array_index(m->events, struct btrail_event,
                                           e++), sizeof(*b.event));
            continue;
        }
        for (i = 0; i < b.count; i++, r++) {
            g_assert_cmpuint(r, <, m->records->len);
            g_assert_cmpmem(&b.records[i], sizeof(*b.records),
                            &g_array_index(m->records, struct btrail_record,
                                           r), sizeof(*b.records));
            g_assert_cmpuint(b.index + i, ==,
                             g_array_index(m->indices, uint64_t, r));
            g_assert_cmphex(b.cr3, ==, g_array_index(m->cr3s, uint64_t, r));
        }
    }
    g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
    g_assert_cmpuint(r, ==, m->records->len);
    g_assert_cmpuint(e, ==, m->events->len);
    btrail_cursor_close(cursor);
}

/* Random slabs of random vCPUs come back bit by bit and in order. */
static void test_random(void)
{
    enum { VCPUS = 3 };
    struct model models[VCPUS];
    char *path = sample_path();
    struct btrail_writer *w;
    struct btrail_trace *trace;
    unsigned i;

    for (i = 0; i < VCPUS; i++) {
        models[i] = (struct model) {
            .records = g_array_new(FALSE, FALSE,
                                   sizeof(struct btrail_record)),
            .indices = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
            .cr3s = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
            .events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event)),
        };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (i = 0; i < 500; i++) {
        unsigned vcpu = g_test_rand_int_range(0, VCPUS);

        append_random_slab(w, vcpu, &models[vcpu]);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (i = 0; i < VCPUS; i++) {
        compare(trace, i, &models[i]);
        g_array_free(models[i].records, TRUE);
        g_array_free(models[i].indices, TRUE);
        g_array_free(models[i].cr3s, TRUE);
        g_array_free(models[i].events, TRUE);
    }
    btrail_trace_close(trace);
    sample_remove(path);
}

static void test_arguments(void)
{
    char *path = sample_path();
    struct btrail_event event = { .type = BTRAIL_EVENT_CR3 };
    struct btrail_slab slab = { .n_records = 1 };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(NULL, path, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_open(&w, NULL, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_open(&w, path, 0x100), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, "\xff", 1), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_meta(w, "a\0b", 3), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_meta(w, "", 0), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_append(w, BTRAIL_MAX_VCPUS, &slab), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_append(w, 0, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==,
                    -BTRAIL_ERR_ARGUMENT);
    slab.n_records = 0;
    slab.n_events = 1;
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==,
                    -BTRAIL_ERR_ARGUMENT);
    slab.events = &event;
    event.index = 1;
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==,
                    -BTRAIL_ERR_SLAB);
    g_assert_cmpint(btrail_writer_flush(NULL), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_writer_close(NULL), ==, 0);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/writer/random", test_random);
    g_test_add_func("/writer/arguments", test_arguments);
    return g_test_run();
}
