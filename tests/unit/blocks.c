/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of the device's blocks.c: what GDB gets of a stream
 *
 * The expected blocks are made forwards, while the stream is.
 */

#include "qemu/osdep.h"
#include <glib.h>

#include "blocks.h"

#define KERNEL      UINT64_C(0xffffffff81000000)
#define USER        UINT64_C(0x401000)
#define UNMAPPED    UINT64_C(0xffffffffc0000000)    /* and above */
#define STRAIGHT    16          /* from the first to the last instruction */

struct block {
    uint64_t begin, end;
};

/*
 * A vCPU that executes: it is at @pc, STRAIGHT bytes after where it has
 * branched to.
 */
struct vcpu {
    uint64_t pc, cr3;
    GArray *records, *events;
    uint64_t first_cr3;
    GArray *slabs;              /* index where each one begins */
    GArray *slab_events;        /* likewise */
    GArray *slab_cr3;
    unsigned lost_slabs;        /* that the buffer does not have any more */
    GArray *got;
};

static struct vcpu *vcpu_new(uint64_t pc, uint64_t cr3)
{
    struct vcpu *v = g_new0(struct vcpu, 1);
    unsigned zero = 0;

    v->pc = pc;
    v->cr3 = cr3;
    v->records = g_array_new(FALSE, FALSE, sizeof(struct btrail_record));
    v->events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    v->slabs = g_array_new(FALSE, FALSE, sizeof(unsigned));
    v->slab_events = g_array_new(FALSE, FALSE, sizeof(unsigned));
    v->slab_cr3 = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    v->got = g_array_new(FALSE, FALSE, sizeof(struct block));
    g_array_append_val(v->slabs, zero);
    g_array_append_val(v->slab_events, zero);
    g_array_append_val(v->slab_cr3, cr3);
    return v;
}

static void vcpu_free(struct vcpu *v)
{
    GArray *arrays[] = { v->records, v->events, v->slabs, v->slab_events,
                         v->slab_cr3, v->got };

    for (unsigned i = 0; i < G_N_ELEMENTS(arrays); i++) {
        g_array_unref(arrays[i]);
    }
    g_free(v);
}

static void branch(struct vcpu *v, uint64_t to)
{
    struct btrail_record record = { .from = v->pc, .to = to };

    g_array_append_val(v->records, record);
    v->pc = to + STRAIGHT;
}

static void event(struct vcpu *v, uint16_t type, uint16_t reason,
                  uint64_t data)
{
    struct btrail_event e = {
        .index = v->records->len,
        .type = type,
        .reason = reason,
        .data = { data },
    };

    g_array_append_val(v->events, e);
}

static void load_cr3(struct vcpu *v, uint64_t cr3)
{
    v->cr3 = cr3;
    event(v, BTRAIL_EVENT_CR3, 0, cr3);
}

static void gap(struct vcpu *v, uint16_t reason, uint64_t pc)
{
    event(v, BTRAIL_EVENT_GAP, reason, 0);
    v->pc = pc;
}

static void new_slab(struct vcpu *v)
{
    g_array_append_val(v->slabs, v->records->len);
    g_array_append_val(v->slab_events, v->events->len);
    g_array_append_val(v->slab_cr3, v->cr3);
}

static bool get_slab(void *opaque, unsigned n, BranchTraceSlab *slab)
{
    const struct vcpu *v = opaque;
    unsigned slabs = v->slabs->len, i = slabs - 1 - n;
    const unsigned *first = (unsigned *)v->slabs->data;
    const unsigned *event = (unsigned *)v->slab_events->data;

    if (n >= slabs - v->lost_slabs) {
        return false;
    }
    *slab = (BranchTraceSlab) {
        .first_index = first[i],
        .cr3 = g_array_index(v->slab_cr3, uint64_t, i),
        .records = (struct btrail_record *)v->records->data + first[i],
        .events = (struct btrail_event *)v->events->data + event[i],
        .n_records = (n ? first[i + 1] : v->records->len) - first[i],
        .n_events = (n ? event[i + 1] : v->events->len) - event[i],
    };
    return true;
}

static bool is_mapped(void *opaque, uint64_t page)
{
    g_assert_cmphex(page % BRANCH_TRACE_CODE_PAGE, ==, 0);
    return page < UNMAPPED;
}

static void get_block(void *opaque, uint64_t begin, uint64_t end)
{
    struct vcpu *v = opaque;
    struct block block = { begin, end };

    g_array_append_val(v->got, block);
}

static BranchTraceBlocksSource source_of(struct vcpu *v)
{
    g_array_set_size(v->got, 0);
    return (BranchTraceBlocksSource) {
        .pc = v->pc,
        .cr3 = v->cr3,
        .most = UINT64_MAX,
        .slab = get_slab,
        .readable = is_mapped,
        .block = get_block,
        .opaque = v,
    };
}

static void check_blocks(const struct vcpu *v, const struct block *want,
                         unsigned n)
{
    for (unsigned i = 0; i < MIN(n, v->got->len); i++) {
        const struct block *got = &g_array_index(v->got, struct block, i);

        g_assert_cmphex(got->begin, ==, want[i].begin);
        g_assert_cmphex(got->end, ==, want[i].end);
    }
    g_assert_cmpuint(v->got->len, ==, n);
}

#define CHECK_BLOCKS(v, ...) \
    G_STMT_START { \
        const struct block want_[] = { __VA_ARGS__ }; \
        check_blocks(v, want_, G_N_ELEMENTS(want_)); \
    } G_STMT_END

#define BLOCK(begin)    { begin, (begin) + STRAIGHT }
#define ONE(addr)       { addr, addr }
#define MISSING(begin)  { begin, (begin) - 1 }

static void read_all(struct vcpu *v)
{
    BranchTraceBlocksSource source = source_of(v);

    branch_trace_blocks_all(&source);
}

static bool read_since(struct vcpu *v, uint64_t since)
{
    BranchTraceBlocksSource source = source_of(v);

    return branch_trace_blocks_since(&source, since);
}

/* Blocks end with the branching instruction, the newest where the vCPU is. */
static void test_all(void)
{
    struct vcpu *v = vcpu_new(KERNEL, 0x1000);
    BranchTraceBlocksSource source;

    read_all(v);
    CHECK_BLOCKS(v, ONE(KERNEL));
    branch(v, KERNEL + 0x100);
    branch(v, USER);
    new_slab(v);
    branch(v, KERNEL + 0x200);
    read_all(v);
    CHECK_BLOCKS(v, BLOCK(KERNEL + 0x200), BLOCK(USER), BLOCK(KERNEL + 0x100),
                 ONE(KERNEL));

    source = source_of(v);
    source.most = 2;
    branch_trace_blocks_all(&source);
    CHECK_BLOCKS(v, BLOCK(KERNEL + 0x200), BLOCK(USER),
                 ONE(KERNEL + 0x100 + STRAIGHT));
    source = source_of(v);
    source.first = 2;
    branch_trace_blocks_all(&source);
    CHECK_BLOCKS(v, BLOCK(KERNEL + 0x200), ONE(USER + STRAIGHT));
    v->lost_slabs = 1;
    read_all(v);
    CHECK_BLOCKS(v, BLOCK(KERNEL + 0x200), ONE(USER + STRAIGHT));
    vcpu_free(v);
}

/* Of another address space, only what all have is there. */
static void test_cr3(void)
{
    struct vcpu *v = vcpu_new(KERNEL, 0x1000);

    branch(v, USER);
    branch(v, KERNEL + 0x100);
    load_cr3(v, 0x2000);
    branch(v, USER + 0x100);
    branch(v, KERNEL + 0x200);
    /* Flags and PCID are no address space. */
    load_cr3(v, 0x2000 | 0x18 | 1ull << 61);
    branch(v, USER + 0x200);
    read_all(v);
    CHECK_BLOCKS(v, BLOCK(USER + 0x200), BLOCK(KERNEL + 0x200),
                 BLOCK(USER + 0x100), BLOCK(KERNEL + 0x100), ONE(KERNEL));

    /* One that has come back can be another one at the same place. */
    branch(v, KERNEL + 0x300);
    load_cr3(v, 0x1000);
    load_cr3(v, 0x2000);
    read_all(v);
    CHECK_BLOCKS(v, BLOCK(KERNEL + 0x300), BLOCK(KERNEL + 0x200),
                 BLOCK(KERNEL + 0x100), ONE(KERNEL));

    /* A block in which CR3 is loaded is of neither. */
    branch(v, USER + 0x300);
    load_cr3(v, 0x3000);
    read_all(v);
    CHECK_BLOCKS(v, ONE(USER + 0x300 + STRAIGHT), MISSING(USER + 0x300),
                 BLOCK(KERNEL + 0x300), BLOCK(KERNEL + 0x200),
                 BLOCK(KERNEL + 0x100), ONE(KERNEL));
    vcpu_free(v);
}

/* What is not there any more is not joined. */
static void test_unmapped(void)
{
    struct vcpu *v = vcpu_new(KERNEL, 0x1000);
    uint64_t edge = UNMAPPED - STRAIGHT / 2;

    branch(v, UNMAPPED);
    branch(v, UNMAPPED + 0x1000);
    branch(v, KERNEL + 0x100);
    branch(v, edge);
    branch(v, KERNEL + 0x200);
    read_all(v);
    CHECK_BLOCKS(v, BLOCK(KERNEL + 0x200), MISSING(edge),
                 BLOCK(KERNEL + 0x100), MISSING(UNMAPPED), ONE(KERNEL));

    /* Nor is what cannot be one block. */
    branch(v, KERNEL + 0x300);
    v->pc = KERNEL + 0x2ff;
    branch(v, KERNEL + 0x400);
    v->pc = KERNEL + 0x2000000;
    branch(v, KERNEL + 0x500);
    read_all(v);
    CHECK_BLOCKS(v, BLOCK(KERNEL + 0x500), MISSING(KERNEL + 0x300),
                 BLOCK(KERNEL + 0x200), MISSING(edge), BLOCK(KERNEL + 0x100),
                 MISSING(UNMAPPED), ONE(KERNEL));

    /* The vCPU's place is always reported. */
    branch(v, UNMAPPED + 0x2000);
    read_all(v);
    g_assert_cmpuint(v->got->len, ==, 9);
    g_assert_cmphex(g_array_index(v->got, struct block, 0).begin, ==,
                    UNMAPPED + 0x2000 + STRAIGHT);
    vcpu_free(v);
}

static void test_gap(void)
{
    struct vcpu *v = vcpu_new(KERNEL, 0x1000);

    branch(v, KERNEL + 0x100);
    gap(v, BTRAIL_GAP_DEBUGGER, KERNEL + 0x800);
    branch(v, KERNEL + 0x200);
    gap(v, BTRAIL_GAP_NESTED, KERNEL + 0x900);
    read_all(v);
    CHECK_BLOCKS(v, ONE(KERNEL + 0x900), MISSING(KERNEL + 0x200),
                 ONE(KERNEL + 0x200), ONE(KERNEL + 0x800),
                 MISSING(KERNEL + 0x100), ONE(KERNEL + 0x100), ONE(KERNEL));

    /* Before a reset, the guest was another. */
    new_slab(v);
    gap(v, BTRAIL_GAP_RESET, KERNEL + 0x40);
    branch(v, KERNEL + 0x300);
    read_all(v);
    CHECK_BLOCKS(v, BLOCK(KERNEL + 0x300), ONE(KERNEL + 0x40));
    gap(v, BTRAIL_GAP_RESTORED, KERNEL + 0x50);
    read_all(v);
    CHECK_BLOCKS(v, ONE(KERNEL + 0x50));
    vcpu_free(v);
}

static void test_since(void)
{
    struct vcpu *v = vcpu_new(KERNEL, 0x1000);
    BranchTraceBlocksSource source;

    branch(v, USER);
    g_assert_true(read_since(v, 1));
    CHECK_BLOCKS(v, { 0, v->pc });
    g_assert_false(read_since(v, 2));

    branch(v, KERNEL + 0x100);
    new_slab(v);
    branch(v, KERNEL + 0x200);
    g_assert_true(read_since(v, 1));
    CHECK_BLOCKS(v, BLOCK(KERNEL + 0x200), BLOCK(KERNEL + 0x100),
                 { 0, USER + STRAIGHT });
    source = source_of(v);
    source.most = 1;
    g_assert_false(branch_trace_blocks_since(&source, 1));
    source = source_of(v);
    source.most = 2;
    g_assert_true(branch_trace_blocks_since(&source, 1));

    /* The slab before is needed for what has happened at its end. */
    g_assert_true(read_since(v, 2));
    v->lost_slabs = 1;
    g_assert_true(read_since(v, 2));
    g_assert_false(read_since(v, 1));
    v->lost_slabs = 0;

    /* What GDB has of user mode is of the address space before. */
    load_cr3(v, 0x2000);
    g_assert_false(read_since(v, 2));
    branch(v, KERNEL + 0x300);
    g_assert_true(read_since(v, 4));
    gap(v, BTRAIL_GAP_DEBUGGER, KERNEL);
    g_assert_false(read_since(v, 4));
    branch(v, KERNEL + 0x400);
    g_assert_false(read_since(v, 4));
    g_assert_true(read_since(v, 5));
    vcpu_free(v);
}

/* Streams at random: each block with what makes it one of these */

struct done {
    uint64_t begin, end;
    bool broken, over;
    unsigned cr3;               /* loads of another CR3 until it began */
};

static void put(GArray *want, bool *missing, uint64_t at, uint64_t begin,
                uint64_t end)
{
    struct block block = { at, at - 1 };

    if (*missing) {
        g_array_append_val(want, block);
        *missing = false;
    }
    block = (struct block) { begin, end };
    g_array_append_val(want, block);
}

static bool is_there(const struct done *d, unsigned cr3, uint64_t addr)
{
    return addr < UNMAPPED && (addr >> 63 || d->cr3 == cr3);
}

static void expect(GArray *want, const GArray *done, unsigned cr3)
{
    bool missing = false;
    uint64_t at = 0;

    for (unsigned i = done->len; i-- > 0;) {
        const struct done *d = &g_array_index(done, struct done, i);
        bool newest = i == done->len - 1;
        bool there = is_there(d, cr3, d->begin);

        if (!i || d->over) {
            if (newest || is_there(d, cr3, d->end)) {
                put(want, &missing, at, d->end, d->end);
            }
            return;
        }
        if (!d->broken && there) {
            put(want, &missing, at, d->begin, d->end);
            continue;
        }
        if (!d->broken && !newest && d->begin < UNMAPPED) {
            continue;
        }
        if (newest || (d->broken && is_there(d, cr3, d->end))) {
            put(want, &missing, at, d->end, d->end);
        }
        missing = true;
        at = d->begin;
        if ((newest || d->broken) && there) {
            put(want, &missing, at, d->begin, d->begin);
        }
    }
}

static uint64_t random_place(GRand *rand)
{
    static const uint64_t places[] = { KERNEL, KERNEL, USER, UNMAPPED };
    uint64_t at = g_rand_int_range(rand, 0, 256) * 4096;

    return places[g_rand_int_range(rand, 0, G_N_ELEMENTS(places))] + at;
}

static void test_random(void)
{
    GRand *rand = g_rand_new_with_seed(g_test_rand_int());

    for (unsigned round = 0; round < 3000; round++) {
        struct done now = { .begin = KERNEL };
        struct vcpu *v = vcpu_new(KERNEL, 0x1000);
        GArray *done = g_array_new(FALSE, FALSE, sizeof(struct done));
        GArray *want = g_array_new(FALSE, FALSE, sizeof(struct block));
        unsigned cr3 = 0;

        for (int n = g_rand_int_range(rand, 0, 40); n; n--) {
            switch (g_rand_int_range(rand, 0, 12)) {
            case 0:
                load_cr3(v, 0x1000 + 0x1000 * ++cr3);
                break;
            case 1:
                gap(v, BTRAIL_GAP_SMM, random_place(rand) + STRAIGHT);
                now.broken = true;
                break;
            case 2:
                if (!g_rand_int_range(rand, 0, 4)) {
                    gap(v, BTRAIL_GAP_RESET, random_place(rand) + STRAIGHT);
                    now.broken = now.over = true;
                }
                break;
            case 3:
                new_slab(v);
                break;
            default:
                now.end = v->pc;
                g_array_append_val(done, now);
                branch(v, random_place(rand));
                now = (struct done) {
                    .begin = v->pc - STRAIGHT,
                    .cr3 = cr3,
                };
            }
        }
        now.end = v->pc;
        g_array_append_val(done, now);
        expect(want, done, cr3);
        read_all(v);
        check_blocks(v, (struct block *)want->data, want->len);
        g_array_unref(done);
        g_array_unref(want);
        vcpu_free(v);
    }
    g_rand_free(rand);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/blocks/all", test_all);
    g_test_add_func("/blocks/cr3", test_cr3);
    g_test_add_func("/blocks/unmapped", test_unmapped);
    g_test_add_func("/blocks/gap", test_gap);
    g_test_add_func("/blocks/since", test_since);
    g_test_add_func("/blocks/random", test_random);
    return g_test_run();
}
