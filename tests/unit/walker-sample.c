/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walker in a trace: see walker-sample.h
 */

#include "trace-samples.h"
#include "walker-sample.h"

#define SLAB    100u
#define SLABS   60u
#define N       WALKER_SAMPLE_N
#define PLACES  150

G_STATIC_ASSERT(N == SLAB * SLABS);

static struct btrail_record records[N];

uint64_t walker_sample_address(void)
{
    return 0x1000 + g_test_rand_int_range(0, PLACES) * 64;
}

static void make_records(void)
{
    for (unsigned i = 0; i < N; i++) {
        records[i].from = i ? records[i - 1].to + 4 : 0x1000;
        records[i].to = walker_sample_address();
        records[i].flags = 0;
    }
}

static GArray *make_steps(unsigned lost)
{
    GArray *steps = g_array_new(FALSE, FALSE, sizeof(struct walker_step));

    for (unsigned i = 0; i < N; i++) {
        uint64_t index = i < N / 2 ? i : i + lost;
        struct walker_step to = { records[i].to, index };

        g_array_append_val(steps, to);
        if (i + 1 < N) {
            struct walker_step from = { records[i + 1].from, index };

            g_array_append_val(steps, from);
        }
    }
    return steps;
}

struct walker_sample walker_sample_begin(unsigned lost)
{
    struct walker_sample f = { .path = sample_path() };
    struct lane *lane;
    const struct sample_slabs slabs = {
        .records = records, .n_records = SLAB, .n = SLABS, .lost = lost,
        .in_chunk = 8,
    };

    make_records();
    sample_write_slabs(f.path, &slabs);
    g_assert_cmpint(btrail_trace_open(&f.trace, f.path), ==, 0);
    f.symbols = symbolizer_new(&(struct symbolizer_options) { NULL }, f.trace,
                               NULL);
    lane = lane_new_vcpu(f.trace, f.symbols, 0);
    g_assert_nonnull(lane);
    f.walker = walker_new(f.trace, f.symbols, lane);
    f.edges = stack_edges_new(f.symbols, 1);
    f.steps = make_steps(lost);
    return f;
}

void walker_sample_end(struct walker_sample *f)
{
    stack_edges_free(f->edges);
    walker_free(f->walker);
    symbolizer_free(f->symbols);
    btrail_trace_close(f->trace);
    g_array_unref(f->steps);
    unlink(f->path);
    g_free(f->path);
}

void walker_sample_at(const struct walker_sample *f, unsigned i)
{
    const struct walker_step *s = walker_sample_step(f, i);

    g_assert_nonnull(walker_spot(f->walker));
    g_assert_cmphex(walker_pc(f->walker), ==, s->pc);
    g_assert_cmpuint(walker_record(f->walker)->at.index, ==, s->index);
}

void walker_sample_go(struct walker_sample *f, unsigned i)
{
    const struct walker_step *s = walker_sample_step(f, i);
    const struct walker_spot spot = {
        { 0, s->index }, i && walker_sample_step(f, i - 1)->index == s->index,
    };

    g_assert_true(walker_go(f->walker, &spot));
    walker_sample_at(f, i);
}

int walker_sample_search(const struct walker_sample *f, unsigned from,
                         bool forward, const uint64_t *addresses, unsigned n)
{
    int by = forward ? 1 : -1;

    for (int i = (int)from + by; i >= 0 && i < (int)f->steps->len; i += by) {
        for (unsigned k = 0; k < n; k++) {
            if (walker_sample_step(f, i)->pc == addresses[k]) {
                return i;
            }
        }
    }
    return -1;
}

bool walker_sample_go_on(void *opaque)
{
    unsigned *left = opaque;

    return !left || (*left)--;
}
