/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Windows: what gdb gets of a lane, how it numbers that, and which code it
 * reads, compared with what the test has made
 */

#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include "code-samples.h"
#include "gdb/walk-window.h"
#include "trace-samples.h"

#define PAGE    4096u
#define USER    UINT64_C(0x10000000000)
#define LATER   (USER + 2 * PAGE)
#define NOWHERE (USER + 4 * PAGE)
#define LOW     UINT64_C(0x8048000)
#define KERNEL  UINT64_C(0xffffffff81000000)
#define THUNK   (KERNEL + 0x100)
#define IRET    (KERNEL + 0x200)
#define FILL    (KERNEL + 0x300)
#define TIMER   (KERNEL + 0x10000)
#define CR3     0x1000
#define CR3_32  0x2000
/* From this record of vCPU 0 on, the page LATER has other code. */
#define CHANGED 20

#define VCPUS   2u
#define N       400u
#define LOST    7u

/**
 * struct step - a record that is made, and what is before it
 * @lost: LOST records are missing before it
 */
struct step {
    unsigned vcpu;
    uint64_t from;
    uint64_t to;
    bool lost;
};

/**
 * struct fixture
 * @at: of each step
 */
struct fixture {
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct lane *lane;
    GArray *at;
};

/*
 * Code in which instructions of several lengths are mixed, and where each
 * begins
 */
static uint8_t user[PAGE];
static GArray *starts;

static void make_user(void)
{
    static const char *const instructions[] = {
        "\x90", "\x89\xc8", "\x48\x89\xc8", "\x0f\x1f\x40\x01",
        "\xb8\x01\x02\x03\x04", "\x66\x0f\x1f\x44\x01\x01",
    };
    unsigned at = 0;

    starts = g_array_new(FALSE, FALSE, sizeof(unsigned));
    while (at < PAGE - 8) {
        const char *insn = instructions[
            g_test_rand_int_range(0, G_N_ELEMENTS(instructions))];

        g_array_append_val(starts, at);
        memcpy(user + at, insn, strlen(insn));
        at += strlen(insn);
    }
}

static uint64_t start(unsigned i)
{
    return USER + g_array_index(starts, unsigned, i);
}

static void make_kernel(uint8_t *page)
{
    memset(page, 0x90, PAGE);
    /* call 1f; pause; lfence; jmp; 1: mov [rsp], rax; ret */
    memcpy(page + 0x100, "\xe8\x07\0\0\0\xf3\x90\x0f\xae\xe8\xeb\xf9"
           "\x48\x89\x04\x24\xc3", 17);
    memcpy(page + 0x200, "\x90\x48\xcf", 3);
    /* nop; call 1f; int3; 1: */
    memcpy(page + 0x300, "\x90\xe8\x01\0\0\0\xcc", 7);
}

static void write_code(struct btrail_writer *w)
{
    static uint8_t kernel[PAGE];
    /* inc eax; mov eax, 1; nop; ret */
    static const uint8_t low[] = "\x40\xb8\x01\0\0\0\x90\xc3";
    /* Instructions of 2 bytes, where later there are some of 1 byte */
    static const uint8_t later[] = "\x89\xc8\x89\xc8\x89\xc8\x89\xc8\x89\xc8"
                                   "\x89\xc8\x89\xc8\x89\xc8";
    struct sample_code code[4 * VCPUS + 1];
    size_t n = 0;

    make_kernel(kernel);
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        code[n++] = (struct sample_code) { vcpu, 0, CR3, USER, user, PAGE };
        code[n++] = (struct sample_code) {
            vcpu, 0, CR3, LATER, later, sizeof(later) - 1,
        };
        code[n++] = (struct sample_code) {
            vcpu, 0, CR3_32, LOW, low, sizeof(low) - 1,
        };
        code[n++] = (struct sample_code) { vcpu, 0, CR3, KERNEL, kernel, PAGE };
    }
    code[n++] = (struct sample_code) { 0, CHANGED, CR3, LATER, low, 0 };
    sample_code(w, code, n);
}

/* Writes step @i; returns its index. */
static uint64_t write_step(struct btrail_writer *w, uint64_t cr3,
                           const struct step *s, uint64_t next)
{
    const struct btrail_record record = { s->from, s->to, 0 };
    const struct btrail_event gap = {
        .index = next + LOST, .type = BTRAIL_EVENT_GAP,
        .reason = BTRAIL_GAP_OVERFLOW, .data = { LOST },
    };
    const struct btrail_slab slab = {
        .first_index = next + (s->lost ? LOST : 0), .cr3 = cr3,
        .records = &record, .n_records = 1, .events = &gap,
        .n_events = s->lost,
    };

    g_assert_cmpint(btrail_writer_append(w, s->vcpu, &slab), ==, 0);
    return slab.first_index;
}

static void add_to_runs(GArray *runs, unsigned vcpu, uint64_t index)
{
    const struct lane_run run = { .vcpu = vcpu, .begin = index,
                                  .end = index + 1 };
    struct lane_run *last = runs->len ?
        &g_array_index(runs, struct lane_run, runs->len - 1) : NULL;

    if (last && last->vcpu == vcpu) {
        last->end = index + 1;
    } else {
        g_array_append_val(runs, run);
    }
}

static GArray *write_steps(struct fixture *f, struct btrail_writer *w,
                           uint64_t cr3, const struct step *steps, size_t n)
{
    GArray *runs = g_array_new(FALSE, FALSE, sizeof(struct lane_run));
    uint64_t next[VCPUS] = { 0 };

    f->at = g_array_new(FALSE, FALSE, sizeof(struct lane_at));
    for (size_t i = 0; i < n; i++) {
        unsigned vcpu = steps[i].vcpu;
        uint64_t index = write_step(w, cr3, &steps[i], next[vcpu]);
        struct lane_at at = { .index = index };

        next[vcpu] = index + 1;
        add_to_runs(runs, vcpu, index);
        at.run = runs->len - 1;
        g_array_append_val(f->at, at);
    }
    return runs;
}

static void setup(struct fixture *f, uint64_t cr3, const struct step *steps,
                  size_t n)
{
    g_autofree char *map = g_strdup_printf(
        "%" PRIx64 " T function\n"
        "%" PRIx64 " T asm_sysvec_apic_timer_interrupt\n"
        "cr3 %x pid=5 sample\n", KERNEL, TIMER, CR3);
    struct btrail_writer *w;
    GArray *runs;

    f->path = sample_path();
    g_assert_cmpint(btrail_writer_open(&w, f->path, 0), ==, 0);
    write_code(w);
    sample_low_process(w, CR3_32, LOW);
    runs = write_steps(f, w, cr3, steps, n);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&f->trace, f->path), ==, 0);
    f->symbols = sample_symbolizer(f->trace, map);
    f->lane = lane_new(f->trace, f->symbols, runs);
}

static void teardown(struct fixture *f)
{
    lane_free(f->lane);
    symbolizer_free(f->symbols);
    btrail_trace_close(f->trace);
    sample_remove(f->path);
    g_array_unref(f->at);
}

static struct walker_spot spot_of(const struct fixture *f, unsigned step,
                                  unsigned number)
{
    return (struct walker_spot) {
        g_array_index(f->at, struct lane_at, step), number,
    };
}

static struct walk_window *window(const struct fixture *f, unsigned step,
                                  unsigned number, size_t before, size_t after)
{
    const struct walker_spot spot = spot_of(f, step, number);

    return walk_window_new(f->symbols, f->lane, &spot, before, after);
}

static void require_same(const struct walker_spot *got,
                         const struct walker_spot *want)
{
    g_assert_cmpuint(got->at.run, ==, want->at.run);
    g_assert_cmpuint(got->at.index, ==, want->at.index);
    g_assert_cmpuint(got->number, ==, want->number);
}

/* A number of a window is that of an instruction, and the other way round. */
static void require_number(const struct fixture *f, const struct walk_window *w,
                           unsigned number, unsigned step, unsigned of_step)
{
    const struct walker_spot want = spot_of(f, step, of_step);
    struct walker_spot got;

    g_assert_true(walk_window_spot(w, number, &got));
    require_same(&got, &want);
    g_assert_cmpuint(walk_window_number(w, &want), ==, number);
    g_assert_true(walk_window_has(w, &want));
}

/* There are no more. */
static void require_numbers(const struct walk_window *w, unsigned n)
{
    struct walker_spot got;

    g_assert_false(walk_window_spot(w, 0, &got));
    g_assert_true(walk_window_spot(w, n, &got));
    require_same(&got, walk_window_end(w));
    g_assert_false(walk_window_spot(w, n + 1, &got));
    g_assert_false(walk_window_spot(w, UINT32_MAX, &got));
}

/* Pieces of a trace as gdb gets it, the oldest one first */
struct piece {
    uint64_t begin;
    uint64_t end;
};

static void require_pieces(const struct walk_window *w,
                           const struct piece *pieces, size_t n)
{
    GString *got = walk_window_xml(w);
    g_autoptr(GString) want = g_string_new(
        "<!DOCTYPE btrace SYSTEM \"btrace.dtd\">\n<btrace version=\"1.0\">\n");

    for (size_t i = n; i; i--) {
        g_string_append_printf(want, "<block begin=\"0x%" PRIx64 "\" end=\"0x%"
                               PRIx64 "\"/>\n", pieces[i - 1].begin,
                               pieces[i - 1].end);
    }
    g_string_append(want, "</btrace>\n");
    g_assert_cmpstr(got->str, ==, want->str);
    g_string_free(got, TRUE);
}

/*
 * Blocks in code of which each instruction is known
 */

/* The block after each step: instructions of the user's page */
static struct range {
    unsigned first;
    unsigned last;
} ranges[N];

static void make_steps(struct step *steps, bool lost)
{
    unsigned vcpu = 0;

    for (unsigned i = 0; i < N; i++) {
        unsigned first = g_test_rand_int_range(0, starts->len - 30);

        /* Often the same code again */
        ranges[i] = i > 10 && g_test_rand_bit() ? ranges[i - 10] :
            (struct range) { first, first + g_test_rand_int_range(0, 20) };
        vcpu = g_test_rand_int_range(0, 9) ? vcpu : !vcpu;
        steps[i] = (struct step) {
            vcpu, i ? start(ranges[i - 1].last) : USER, start(ranges[i].first),
            lost && i && !g_test_rand_int_range(0, 20),
        };
    }
}

static unsigned size_of(unsigned step)
{
    return step + 1 < N ? ranges[step].last - ranges[step].first + 1 : 1;
}

/*
 * A window has all instructions from the first one of a step up to one of
 * another.
 */
static void require_range(const struct fixture *f, const struct walk_window *w,
                          unsigned first, unsigned last, unsigned number)
{
    const struct walker_spot begin = spot_of(f, first, 0);
    const struct walker_spot end = spot_of(f, last, number);
    struct piece pieces[N];
    unsigned n = 0;

    require_same(walk_window_begin(w), &begin);
    require_same(walk_window_end(w), &end);
    for (unsigned i = first; i <= last; i++) {
        unsigned size = i < last ? size_of(i) : number + 1;

        pieces[i - first] = (struct piece) {
            start(ranges[i].first), start(ranges[i].first + size - 1),
        };
        for (unsigned k = 0; k < size; k++) {
            require_number(f, w, ++n, i, k);
        }
    }
    require_numbers(w, n);
    require_pieces(w, pieces, last - first + 1);
}

/*
 * What is outside of it has the number of its first instruction, or its last
 * one.
 */
static void require_outside(const struct fixture *f,
                            const struct walk_window *w, unsigned first,
                            unsigned last, unsigned number)
{
    for (unsigned i = 0; i < N; i += 1 + i / 7) {
        const struct walker_spot spot = spot_of(f, i, size_of(i) - 1);
        bool before = i < first;

        if (before || i > last || (i == last && spot.number > number)) {
            g_assert_false(walk_window_has(w, &spot));
            g_assert_cmpuint(walk_window_number(w, &spot), ==, before ? 1 :
                             walk_window_number(w, walk_window_end(w)));
        }
    }
}

/* It reads all code that ran in it, and no other. */
static void require_code(const struct walk_window *w, unsigned first,
                         unsigned last, unsigned number)
{
    bool known[PAGE] = { false };

    for (unsigned i = first; i <= last; i++) {
        unsigned size = i < last ? size_of(i) : number + 1;

        for (uint64_t a = start(ranges[i].first);
             a < start(ranges[i].first + size); a++) {
            known[a - USER] = true;
        }
    }
    for (unsigned i = 0; i < PAGE - 1; i++) {
        uint8_t bytes[2];
        size_t n = walk_window_read(w, USER + i, bytes, 2);

        g_assert_cmpuint(n, ==, known[i] ? 1 + known[i + 1] : 0);
        g_assert_cmpmem(bytes, n, user + i, n);
    }
}

/* The window around an instruction of a step */
static void check_window(const struct fixture *f, const struct step *steps,
                         unsigned step, size_t before, size_t after)
{
    unsigned first = step, last = step;
    unsigned number = g_test_rand_int_range(0, size_of(step));
    struct walk_window *w;

    /* After a hole, a block has its first instruction and its last one. */
    if (step + 1 < N && steps[step + 1].lost) {
        number = 0;
    }
    w = window(f, step, number, before, after);
    while (first && step - first < before && !steps[first].lost) {
        first--;
    }
    while (last + 1 < N && last - step < after && !steps[last + 1].lost) {
        last++;
    }
    if (last > step && last - step < after && last + 1 < N) {
        /* The block before the hole is not known. */
        last--;
        number = last > step || after ? size_of(last) - 1 : number;
    } else if (last > step) {
        number = 0;
    }
    require_range(f, w, first, last, number);
    require_outside(f, w, first, last, number);
    require_code(w, first, last, number);
    walk_window_free(w);
}

static void check_windows(bool lost)
{
    static const size_t sizes[] = { 0, 1, 2, 9, 60, 1000 };
    struct step steps[N];
    struct fixture f;

    make_steps(steps, lost);
    setup(&f, CR3, steps, N);
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        check_window(&f, steps, 0, sizes[i], sizes[i]);
        check_window(&f, steps, N - 1, sizes[i], sizes[i]);
    }
    for (unsigned i = 0; i < 60; i++) {
        check_window(&f, steps, g_test_rand_int_range(0, N),
                     sizes[g_test_rand_int_range(0, 6)],
                     sizes[g_test_rand_int_range(0, 6)]);
    }
    teardown(&f);
}

static void test_whole(void)
{
    check_windows(false);
}

static void test_lost(void)
{
    check_windows(true);
}

/*
 * Windows that end early, or leave something out
 */

/* One vCPU runs blocks, each of which begins where the record before goes. */
static struct step *make_blocks(const struct piece *blocks, size_t n)
{
    struct step *steps = g_new0(struct step, n);

    for (size_t i = 0; i < n; i++) {
        steps[i].from = i ? blocks[i - 1].end : NOWHERE;
        steps[i].to = blocks[i].begin;
    }
    return steps;
}

/*
 * Code was changed: on the way there a window ends before, on the way back it
 * begins after.
 */
static void test_changed(void)
{
    /* The first block after whose record there is other code */
    enum { FIRST = CHANGED - 1, BLOCKS = 2 * CHANGED };
    struct piece blocks[BLOCKS];
    g_autofree struct step *steps = NULL;
    struct fixture f;
    struct walk_window *w;
    struct walker_spot spot;
    uint8_t byte;

    for (unsigned i = 0; i < BLOCKS; i++) {
        /* It is more that runs of the other code, and the same now and then. */
        unsigned skip = i < FIRST ? 4 : (i - FIRST) % 2 * 4;

        blocks[i] = (struct piece) { LATER + skip, LATER + 8 };
    }
    steps = make_blocks(blocks, BLOCKS);
    setup(&f, CR3, steps, BLOCKS);

    w = window(&f, 5, 1, 100, 100);
    spot = spot_of(&f, 0, 0);
    require_same(walk_window_begin(w), &spot);
    spot = spot_of(&f, FIRST - 1, 2);
    require_same(walk_window_end(w), &spot);
    require_pieces(w, blocks, FIRST);
    require_numbers(w, 3 * FIRST);
    g_assert_cmpuint(walk_window_read(w, LATER + 4, &byte, 1), ==, 1);
    g_assert_cmphex(byte, ==, 0x89);
    /* This has not run in it. */
    g_assert_cmpuint(walk_window_read(w, LATER + 2, &byte, 1), ==, 0);
    walk_window_free(w);

    w = window(&f, BLOCKS - 2, 1, 100, 0);
    spot = spot_of(&f, FIRST, 0);
    require_same(walk_window_begin(w), &spot);
    spot = spot_of(&f, BLOCKS - 2, 1);
    require_same(walk_window_end(w), &spot);
    g_assert_cmpuint(walk_window_read(w, LATER + 4, &byte, 1), ==, 1);
    g_assert_cmphex(byte, ==, 0x90);
    walk_window_free(w);

    /* Of the first one with other code, as much as it stands after */
    w = window(&f, FIRST, 6, 100, 0);
    spot = spot_of(&f, FIRST, 0);
    require_same(walk_window_begin(w), &spot);
    spot = spot_of(&f, FIRST, 6);
    require_same(walk_window_end(w), &spot);
    walk_window_free(w);
    w = window(&f, FIRST, 2, 100, 0);
    spot = spot_of(&f, 0, 0);
    require_same(walk_window_begin(w), &spot);
    walk_window_free(w);
    teardown(&f);
}

/* The same block is not the same code, later or on another vCPU. */
static void test_same_block(void)
{
    enum { FIRST = CHANGED - 1, OTHER = CHANGED + 10, BLOCKS = 2 * CHANGED };
    struct piece blocks[BLOCKS];
    g_autofree struct step *steps = NULL;
    struct walker_spot begin, end;
    struct fixture f;
    struct walk_window *w;

    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = (struct piece) { LATER + 4, LATER + 8 };
    }
    steps = make_blocks(blocks, BLOCKS);
    for (unsigned i = OTHER; i < BLOCKS; i++) {
        steps[i].vcpu = 1;
    }
    setup(&f, CR3, steps, BLOCKS);

    w = window(&f, 5, 0, 100, 100);
    end = spot_of(&f, FIRST - 1, 2);
    require_same(walk_window_end(w), &end);
    walk_window_free(w);
    w = window(&f, FIRST + 3, 0, 100, 100);
    begin = spot_of(&f, FIRST, 0);
    require_same(walk_window_begin(w), &begin);
    /* A block is of the vCPU it ends on. */
    end = spot_of(&f, OTHER - 2, 4);
    require_same(walk_window_end(w), &end);
    walk_window_free(w);
    w = window(&f, OTHER + 3, 0, 100, 100);
    begin = spot_of(&f, OTHER - 1, 0);
    require_same(walk_window_begin(w), &begin);
    walk_window_free(w);
    teardown(&f);
}

/*
 * Records are missing right after where it stands: it ends there, and has what
 * is before.
 */
static void test_lost_after(void)
{
    const struct piece blocks[] = {
        { start(0), start(3) }, { start(5), start(6) }, { start(1), start(9) },
        { start(0), start(3) },
    };
    const struct piece want[] = {
        blocks[0], blocks[1], { start(1), start(1) },
    };
    const struct piece ends[] = {
        blocks[0], blocks[1], { start(1), start(1) }, { start(9), 0 },
        { start(9), start(9) },
    };
    g_autofree struct step *steps = make_blocks(blocks, G_N_ELEMENTS(blocks));
    const size_t afters[] = { 0, 1, 50 };
    struct fixture f;

    steps[3].lost = true;
    setup(&f, CR3, steps, G_N_ELEMENTS(blocks));
    for (unsigned i = 0; i < G_N_ELEMENTS(afters); i++) {
        struct walk_window *w = window(&f, 2, 0, 50, afters[i]);

        require_pieces(w, want, G_N_ELEMENTS(want));
        require_numbers(w, 7);
        walk_window_free(w);
        /* Between the two instructions that are known there is a hole. */
        w = window(&f, 2, 1, 50, afters[i]);
        require_pieces(w, ends, G_N_ELEMENTS(ends));
        require_number(&f, w, 9, 2, 1);
        require_numbers(w, 9);
        walk_window_free(w);
    }
    teardown(&f);
}

/* A thunk that calls and returns to where it jumps is left out. */
static void test_retpoline(void)
{
    const struct piece blocks[] = {
        { start(0), start(3) },
        { THUNK, THUNK }, { THUNK + 12, THUNK + 16 },
        { start(5), start(8) }, { start(2), start(4) }, { start(9), start(9) },
    };
    const struct piece want[] = {
        blocks[0], blocks[3], blocks[4], { start(9), start(9) },
    };
    const struct piece ends[] = { blocks[0], { start(5), start(5) } };
    const struct piece early[] = {
        blocks[0], { THUNK - 2, THUNK - 1 }, blocks[2], { start(5), start(5) },
    };
    g_autofree struct step *steps = make_blocks(blocks, G_N_ELEMENTS(blocks));
    struct walker_spot spot;
    struct fixture f;
    struct walk_window *w;

    setup(&f, CR3, steps, G_N_ELEMENTS(blocks));
    w = window(&f, 5, 0, 50, 0);
    require_pieces(w, want, G_N_ELEMENTS(want));
    require_number(&f, w, 4, 0, 3);
    require_number(&f, w, 5, 3, 0);
    for (unsigned i = 0; i < 3; i++) {
        /* The last one before it */
        spot = spot_of(&f, 1 + i / 2, i % 2);
        g_assert_cmpuint(walk_window_number(w, &spot), ==, 4);
        g_assert_true(walk_window_has(w, &spot));
    }
    walk_window_free(w);
    /* Also if it stands right after */
    w = window(&f, 3, 0, 50, 0);
    require_pieces(w, ends, G_N_ELEMENTS(ends));
    walk_window_free(w);

    /* Unless it stands there */
    spot = spot_of(&f, 2, 1);
    w = window(&f, 2, 1, 50, 0);
    require_same(walk_window_end(w), &spot);
    walk_window_free(w);
    teardown(&f);

    /* It jumps to what is before the call. */
    steps[1].to = THUNK - 2;
    setup(&f, CR3, steps, G_N_ELEMENTS(blocks));
    w = window(&f, 3, 0, 50, 0);
    require_pieces(w, early, G_N_ELEMENTS(early));
    walk_window_free(w);
    teardown(&f);
    steps[1].to = THUNK;

    /* Records are missing between the jump to the thunk and its call. */
    steps[2].lost = true;
    setup(&f, CR3, steps, G_N_ELEMENTS(blocks));
    spot = spot_of(&f, 2, 0);
    w = window(&f, 5, 0, 50, 0);
    require_same(walk_window_begin(w), &spot);
    walk_window_free(w);
    teardown(&f);
}

/*
 * The last instruction of an interrupt, a call that does not return, and what
 * an interrupt comes before
 */
static void test_left_out(void)
{
    const struct piece blocks[] = {
        { IRET, IRET + 1 }, { start(0), start(3) }, { FILL, FILL + 1 },
        { FILL + 7, FILL + 9 }, { IRET + 1, IRET + 1 }, { start(5), start(7) },
        { start(0), start(3) }, { TIMER, TIMER }, { start(0), start(0) },
    };
    const struct piece want[] = {
        { IRET, IRET }, blocks[1], { FILL, FILL }, blocks[3], blocks[5],
        { start(0), start(2) }, blocks[7], blocks[8],
    };
    g_autofree struct step *steps = make_blocks(blocks, G_N_ELEMENTS(blocks));
    struct walker_spot spot;
    struct fixture f;
    struct walk_window *w;

    setup(&f, CR3, steps, G_N_ELEMENTS(blocks));
    w = window(&f, 8, 0, 50, 0);
    require_pieces(w, want, G_N_ELEMENTS(want));
    require_numbers(w, 1 + 4 + 1 + 3 + 3 + 3 + 1 + 1);
    spot = spot_of(&f, 0, 1);
    g_assert_cmpuint(walk_window_number(w, &spot), ==, 1);
    spot = spot_of(&f, 2, 1);
    g_assert_cmpuint(walk_window_number(w, &spot), ==, 6);
    spot = spot_of(&f, 4, 0);
    g_assert_cmpuint(walk_window_number(w, &spot), ==, 9);
    walk_window_free(w);
    /* Where it stands, it is not left out. */
    spot = spot_of(&f, 2, 1);
    w = window(&f, 2, 1, 50, 0);
    require_same(walk_window_end(w), &spot);
    g_assert_cmpuint(walk_window_number(w, &spot), ==, 7);
    walk_window_free(w);
    teardown(&f);
}

/* Each instruction of 32 bits is a piece. */
static void test_bits(void)
{
    const struct piece blocks[] = {
        { LOW, LOW + 7 }, { LOW + 1, LOW + 7 }, { LOW, LOW + 7 },
        { LOW + 1, LOW + 7 }, { LOW, LOW + 7 },
    };
    const struct piece want[] = {
        { LOW, LOW }, { LOW + 1, LOW + 1 }, { LOW + 6, LOW + 6 },
        { LOW + 7, LOW + 7 }, { LOW + 1, LOW + 1 }, { LOW + 6, LOW + 6 },
        { LOW + 7, LOW + 7 }, { LOW, LOW }, { LOW + 1, LOW + 1 },
        { LOW + 6, LOW + 6 }, { LOW + 7, LOW + 7 }, { LOW + 1, LOW + 1 },
        { LOW + 6, LOW + 6 },
    };
    g_autofree struct step *steps = make_blocks(blocks, G_N_ELEMENTS(blocks));
    struct fixture f;
    struct walk_window *w;
    uint8_t bytes[9];

    setup(&f, CR3_32, steps, G_N_ELEMENTS(blocks));
    w = window(&f, 3, 1, 50, 0);
    require_pieces(w, want, G_N_ELEMENTS(want));
    require_numbers(w, 13);
    require_number(&f, w, 6, 1, 1);
    require_number(&f, w, 13, 3, 1);
    g_assert_cmpuint(walk_window_read(w, LOW, bytes, sizeof(bytes)), ==, 8);
    g_assert_cmpmem(bytes, 8, "\x40\xb8\x01\0\0\0\x90\xc3", 8);
    walk_window_free(w);
    teardown(&f);
}

/* Of unknown code there is a hole, and not too many are in one window. */
static void test_unknown(void)
{
    enum { HOLES = 16, BLOCKS = 3 * HOLES };
    const struct piece three[] = {
        { NOWHERE, NOWHERE }, { NOWHERE + 8, 0 }, { NOWHERE + 8, NOWHERE + 8 },
        { start(0), start(2) }, { NOWHERE, NOWHERE },
    };
    struct piece blocks[BLOCKS];
    g_autofree struct step *steps = NULL;
    struct walker_spot spot;
    struct fixture f;
    struct walk_window *w;
    uint8_t byte;

    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = i % 2 ? (struct piece) { start(0), start(2) } :
                            (struct piece) { NOWHERE, NOWHERE + 8 };
    }
    steps = make_blocks(blocks, BLOCKS);
    setup(&f, CR3, steps, BLOCKS);
    w = window(&f, 2, 0, 50, 0);
    require_pieces(w, three, G_N_ELEMENTS(three));
    require_numbers(w, 7);
    require_number(&f, w, 1, 0, 0);
    require_number(&f, w, 3, 0, 1);
    require_number(&f, w, 4, 1, 0);
    /* The hole's spot is where it ends. */
    g_assert_true(walk_window_spot(w, 2, &spot));
    g_assert_cmpuint(spot.number, ==, 1);
    g_assert_cmpuint(walk_window_read(w, NOWHERE, &byte, 1), ==, 0);
    walk_window_free(w);

    /* The next one would be one too many. */
    w = window(&f, 1, 0, 50, 50);
    spot = spot_of(&f, 2 * HOLES - 1, 2);
    require_same(walk_window_end(w), &spot);
    walk_window_free(w);
    w = window(&f, BLOCKS - 1, 0, 50, 0);
    spot = spot_of(&f, BLOCKS - 1, 0);
    require_same(walk_window_end(w), &spot);
    spot = spot_of(&f, 2 * HOLES, 0);
    require_same(walk_window_begin(w), &spot);
    walk_window_free(w);
    teardown(&f);
}

/* No record is there, or nothing is known of any. */
static void test_nothing(void)
{
    struct step steps[] = {
        { 0, NOWHERE, BTRAIL_PSEUDO_SYSCALL, true },
        { 0, BTRAIL_PSEUDO_FROM_KERNEL, BTRAIL_PSEUDO_SYSCALL, false },
    };
    const struct lane_run run = { 0, 0, LOST + 2, { 0 } };
    GArray *runs = g_array_new(FALSE, FALSE, sizeof(run));
    const struct walker_spot first = { { 0, 0 }, 0 };
    struct lane *lane;
    struct fixture f;

    setup(&f, CR3, steps, G_N_ELEMENTS(steps));
    g_assert_null(window(&f, 0, 0, 50, 50));
    g_assert_null(window(&f, 1, 0, 50, 0));
    g_array_append_val(runs, run);
    lane = lane_new(f.trace, f.symbols, runs);
    g_assert_null(walk_window_new(f.symbols, lane, &first, 50, 50));
    lane_free(lane);
    walk_window_free(NULL);
    teardown(&f);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    make_user();
    g_test_add_func("/walk-window/whole", test_whole);
    g_test_add_func("/walk-window/lost", test_lost);
    g_test_add_func("/walk-window/changed", test_changed);
    g_test_add_func("/walk-window/same-block", test_same_block);
    g_test_add_func("/walk-window/lost-after", test_lost_after);
    g_test_add_func("/walk-window/retpoline", test_retpoline);
    g_test_add_func("/walk-window/left-out", test_left_out);
    g_test_add_func("/walk-window/bits", test_bits);
    g_test_add_func("/walk-window/unknown", test_unknown);
    g_test_add_func("/walk-window/nothing", test_nothing);
    ret = g_test_run();
    g_array_unref(starts);
    return ret;
}
