/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Walkers: where they go, compared with all records of the trace.  Its code is
 * not known, so of each block there are its first instruction and its last one.
 */

#include "gdb/walker.h"
#include "symbolize/stack-edge.h"
#include "trace-samples.h"

#define SLAB    100u
#define SLABS   60u
#define N       (SLAB * SLABS)
#define PLACES  150

static struct btrail_record records[N];

/* What ran: addresses, and after which record */
struct step {
    uint64_t pc;
    uint64_t index;
};

static uint64_t some_address(void)
{
    return 0x1000 + g_test_rand_int_range(0, PLACES) * 64;
}

static void make_records(void)
{
    for (unsigned i = 0; i < N; i++) {
        records[i].from = i ? records[i - 1].to + 4 : 0x1000;
        records[i].to = some_address();
        records[i].flags = 0;
    }
}

static GArray *make_steps(unsigned lost)
{
    GArray *steps = g_array_new(FALSE, FALSE, sizeof(struct step));

    for (unsigned i = 0; i < N; i++) {
        uint64_t index = i < N / 2 ? i : i + lost;
        struct step to = { records[i].to, index };

        g_array_append_val(steps, to);
        if (i + 1 < N) {
            struct step from = { records[i + 1].from, index };

            g_array_append_val(steps, from);
        }
    }
    return steps;
}

static const struct step *step_at(const GArray *steps, unsigned i)
{
    return &g_array_index(steps, struct step, i);
}

/**
 * struct fixture
 */
struct fixture {
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct walker *walker;
    struct stack_edges *edges;
    GArray *steps;
};

static struct fixture begin(unsigned lost)
{
    struct fixture f = { .path = sample_path() };
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

static void end(struct fixture *f)
{
    stack_edges_free(f->edges);
    walker_free(f->walker);
    symbolizer_free(f->symbols);
    btrail_trace_close(f->trace);
    g_array_unref(f->steps);
    unlink(f->path);
    g_free(f->path);
}

static void require_at(const struct fixture *f, unsigned i)
{
    const struct step *s = step_at(f->steps, i);

    g_assert_nonnull(walker_spot(f->walker));
    g_assert_cmphex(walker_pc(f->walker), ==, s->pc);
    g_assert_cmpuint(walker_record(f->walker)->at.index, ==, s->index);
}

static void go(struct fixture *f, unsigned i)
{
    const struct step *s = step_at(f->steps, i);
    const struct walker_spot spot = {
        { 0, s->index }, i && step_at(f->steps, i - 1)->index == s->index,
    };

    g_assert_true(walker_go(f->walker, &spot));
    require_at(f, i);
}

static void walk(unsigned lost)
{
    struct fixture f = begin(lost);
    unsigned n = f.steps->len;

    go(&f, 0);
    g_assert_false(walker_back(f.walker));
    for (unsigned i = 1; i < n; i++) {
        g_assert_true(walker_step(f.walker));
        require_at(&f, i);
    }
    g_assert_false(walker_step(f.walker));
    require_at(&f, n - 1);
    for (unsigned i = n - 1; i--;) {
        g_assert_true(walker_back(f.walker));
        require_at(&f, i);
    }
    g_assert_false(walker_back(f.walker));
    require_at(&f, 0);
    end(&f);
}

static void test_walk(void)
{
    walk(0);
}

/* The hole is longer than what is read at once. */
static void test_lost(void)
{
    walk(7);
    walk(100000);
}

static bool go_on(void *opaque)
{
    unsigned *left = opaque;

    return !left || (*left)--;
}

/* The step that a search must come to; -1 if none */
static int search_all(const GArray *steps, unsigned from, bool forward,
                      const uint64_t *addresses, unsigned n)
{
    int by = forward ? 1 : -1;

    for (int i = (int)from + by; i >= 0 && i < (int)steps->len; i += by) {
        for (unsigned k = 0; k < n; k++) {
            if (step_at(steps, i)->pc == addresses[k]) {
                return i;
            }
        }
    }
    return -1;
}

static void search(unsigned lost)
{
    struct fixture f = begin(lost);

    for (unsigned i = 0; i < 300; i++) {
        /* Also some that never run */
        uint64_t addresses[] = {
            some_address() + 4 * (i % 3), i % 7 ? some_address() : 0x77,
        };
        unsigned from = g_test_rand_int_range(0, f.steps->len);
        unsigned n = 1 + i % 2;
        bool forward = g_test_rand_bit();
        int found = search_all(f.steps, from, forward, addresses, n);
        enum walker_answer answer;

        go(&f, from);
        answer = walker_search(f.walker, addresses, n, forward, go_on, NULL);
        g_assert_cmpint(answer, ==, found < 0 ? WALKER_END : WALKER_FOUND);
        require_at(&f, found >= 0 ? (unsigned)found :
                   forward ? f.steps->len - 1 : 0);
    }
    end(&f);
}

static void test_search(void)
{
    search(0);
    search(9);
}

static void test_interrupted(void)
{
    struct fixture f = begin(0);
    const uint64_t address = some_address() + 8;
    unsigned left = 0;

    go(&f, 1234);
    g_assert_cmpint(walker_search(f.walker, &address, 1, false, go_on, &left),
                    ==, WALKER_INTERRUPTED);
    require_at(&f, 1234);
    end(&f);
}

/*
 * Nothing here is a call or returns, so that a way ends at a stop or at records
 * that are missing; the first block of which nothing is known ends one, too.
 */
static void ways(unsigned lost)
{
    struct fixture f = begin(lost);

    for (unsigned i = 0; i < 300; i++) {
        const uint64_t addresses[] = { some_address() + 4 * (i % 2) };
        struct walker_stops stops = { addresses, i % 5 ? 1 : 0, go_on, NULL };
        unsigned half = N, from = g_test_rand_int_range(0, f.steps->len);
        bool forward = i % 3;
        int found = search_all(f.steps, from, forward, addresses, stops.n);
        enum walker_way way;

        /* Of which the second half begins after what is missing. */
        if (found >= 0 && lost && (from < half) != (found < (int)half)) {
            found = -1;
        }
        go(&f, from);
        way = forward ? walker_return(f.walker, f.edges, UINT64_MAX, &stops) :
                        walker_caller(f.walker, f.edges, UINT64_MAX, &stops);
        g_assert_cmpint(way, ==, found < 0 ? WALKER_NOWHERE : WALKER_STOP);
        require_at(&f, found < 0 ? from : (unsigned)found);
    }
    end(&f);
}

static void test_ways(void)
{
    ways(0);
    ways(9);
}

/* A walker with no patience left stays where it was. */
static void test_impatient(void)
{
    struct fixture f = begin(0);
    const uint64_t address = some_address() + 8;
    struct walker_stops stops = { &address, 1, go_on, NULL };

    go(&f, 1234);
    g_assert_cmpint(walker_return(f.walker, f.edges, 100, &stops), ==,
                    WALKER_NOWHERE);
    require_at(&f, 1234);
    g_assert_cmpint(walker_caller(f.walker, f.edges, 100, &stops), ==,
                    WALKER_NOWHERE);
    require_at(&f, 1234);
    end(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/walker/walk", test_walk);
    g_test_add_func("/walker/lost", test_lost);
    g_test_add_func("/walker/search", test_search);
    g_test_add_func("/walker/interrupted", test_interrupted);
    g_test_add_func("/walker/ways", test_ways);
    g_test_add_func("/walker/impatient", test_impatient);
    return g_test_run();
}
