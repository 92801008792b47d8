/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A stream in pieces gives what one flow gives of it: random streams, of a
 * guest that does what its code says, of any packets, and of any bytes
 */

#include <string.h>

#include "pt-samples.h"
#include "pt/flow-pieces.h"

#define CODE    UINT64_C(0x401000)
#define KERNEL  UINT64_C(0xffffffff81000000)
#define CR3     0x5000
#define OTHER   0x7000
#define GONE    0x6000          /* nothing of it can be read */
#define THREADS 3

static const struct {
    uint64_t address;
    const char *hex;
} samples[] = {
    { CODE, "90 7405 eb0b" },           /* nop; je 401008; jmp 401010 */
    { CODE + 8, "e813000000 eb01" },    /* call 401020; jmp 401010 */
    { CODE + 0x10, "ffe0" },            /* jmp *%rax */
    { CODE + 0x20, "c3" },              /* ret */
    { CODE + 0x30, "0f22d8 ffe0" },     /* mov %rax,%cr3; jmp *%rax */
    { CODE + 0x40, "ebfe" },            /* jmp 401040 */
    { CODE + 0x50, "eb01 90 ebfb" },    /* jmp 401053; nop; jmp 401050 */
    { KERNEL, "90 48cf" },              /* nop; iretq */
};

static uint8_t pages[2][4096];

/* What was given, one number after the other */
struct given {
    GArray *numbers;
    uint64_t records;
};

static void make_pages(void)
{
    memset(pages, 0xcc, sizeof(pages));
    for (unsigned i = 0; i < G_N_ELEMENTS(samples); i++) {
        g_autoptr(GByteArray) bytes = g_byte_array_new();

        pt_put(bytes, samples[i].hex);
        memcpy(pages[samples[i].address >> 63] + samples[i].address % 4096,
               bytes->data, bytes->len);
    }
}

static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    if (address >> 12 != KERNEL >> 12 &&
        (cr3 == GONE || address >> 12 != CODE >> 12)) {
        return PT_CODE_UNREADABLE;
    }
    *code = (struct pt_code){
        .bytes = pages[address >> 63] + address % 4096,
        .size = 4096 - address % 4096,
        .tsc = UINT64_MAX, .records = UINT64_MAX,
    };
    return PT_CODE_READ;
}

static void add(struct given *g, uint64_t number)
{
    g_array_append_val(g->numbers, number);
}

static void give(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct given *g = opaque;
    size_t e = 0;

    for (size_t i = 0; i <= n; i++) {
        for (; e < n_events && events[e].at == i; e++) {
            add(g, ~(uint64_t)events[e].type);
            add(g, events[e].gap);
            add(g, events[e].value);
            add(g, events[e].offset);
            add(g, g->records + i);
        }
        if (i < n) {
            add(g, records[i].from);
            add(g, records[i].to);
        }
    }
    g_assert_cmpuint(e, ==, n_events);
    g->records += n;
}

/* Returns how many pieces were decoded again. */
static uint64_t compare(const GByteArray *s, const struct pt_flow_options *o,
                        size_t size, uint64_t *pieces)
{
    struct given one = { g_array_new(FALSE, FALSE, 8), 0 };
    struct given many = { g_array_new(FALSE, FALSE, 8), 0 };
    void *const nobody[THREADS + 1] = { NULL };
    struct flow_pieces_options p = {
        .flow = *o, .piece = size, .code = read_code, .code_opaque = nobody,
    };
    struct pt_flow *f = pt_flow_new(o, read_code, NULL, give, &one);
    struct flow_pieces_count count;

    pt_flow_feed(f, s->data, s->len);
    pt_flow_finish(f);
    for (p.threads = 1; p.threads <= THREADS; p.threads += 2) {
        g_array_set_size(many.numbers, 0);
        many.records = 0;
        flow_pieces_decode(&p, s->data, s->len, give, &many, &count);
        g_assert_cmpmem(one.numbers->data, one.numbers->len * 8,
                        many.numbers->data, many.numbers->len * 8);
        g_assert_cmpmem(pt_flow_counted(f), sizeof(count.flow), &count.flow,
                        sizeof(count.flow));
        g_assert_cmpuint(count.flow.decoded + count.flow.skipped +
                         count.flow.host, ==, s->len);
        g_assert_cmpuint(count.again, <=, count.pieces);
    }
    pt_flow_free(f);
    g_array_free(one.numbers, TRUE);
    g_array_free(many.numbers, TRUE);
    *pieces += count.pieces;
    return count.again;
}

/* As a CPU writes it: with all times */
static void put_psb(GByteArray *s, uint64_t tsc, uint64_t cr3, bool guest,
                    uint64_t ip)
{
    pt_put(s, "0282 0282 0282 0282 0282 0282 0282 0282");
    pt_put_tsc(s, tsc);
    pt_put(s, "0273 3412 00 0500");             /* TMA */
    pt_put(s, "0203 1e00");                     /* CBR */
    pt_put(s, "9901");                          /* MODE.Exec */
    pt_put_pip(s, cr3, guest);
    pt_put_ip(s, PT_FUP, 6, ip);
    pt_put(s, "0223");
}

static void put_exit(GByteArray *s, uint64_t tsc, uint64_t cr3)
{
    pt_put_ip(s, PT_FUP, 6, CODE);
    pt_put_pip(s, 0x9000, false);
    pt_put_ip(s, PT_TIP, 6, KERNEL);
    pt_put_tsc(s, tsc);
    if (tsc % 5 == 0) {
        put_psb(s, tsc, 0x9000, false, KERNEL);
    }
    pt_put_pip(s, cr3, true);
    pt_put_ip(s, PT_TIP, 6, CODE);
}

struct guest {
    GByteArray *s;
    GRand *rand;
    uint64_t tsc;
    uint64_t cr3;
    bool returns;
};

static int below(struct guest *g, int n)
{
    return g_rand_int_range(g->rand, 0, n);
}

/* From CODE, where it is, to CODE */
static void do_something(struct guest *g)
{
    GByteArray *s = g->s;

    g->tsc += below(g, 20000);
    switch (below(g, 16)) {
    case 0:
        put_psb(s, g->tsc, g->cr3, true, CODE);
        break;
    case 1:
        put_exit(s, g->tsc, g->cr3);
        break;
    case 2:
        pt_put_tsc(s, g->tsc);
        break;
    case 3:
        pt_put(s, "5937");                      /* MTC */
        break;
    case 4:
        pt_put(s, "a3");                        /* CYC */
        break;
    case 5:
        g->cr3 = g->cr3 == CR3 ? OTHER : CR3;
        pt_put_tnt(s, "n");
        pt_put_ip(s, PT_TIP, 2, 0x1030);
        pt_put_pip(s, g->cr3, true);
        pt_put_ip(s, PT_TIP, 2, 0x1000);
        break;
    case 6:
        pt_put_ip(s, PT_FUP, 6, CODE);
        pt_put_ip(s, PT_TIP, 6, KERNEL);
        pt_put_ip(s, PT_TIP, 6, CODE);
        break;
    default:
        if (below(g, 2)) {
            pt_put_tnt(s, "n");
        } else if (g->returns) {
            pt_put_tnt(s, "tt");
        } else {
            pt_put_tnt(s, "t");
            pt_put_ip(s, PT_TIP, 2, 0x100d);
        }
        pt_put_ip(s, PT_TIP, 2, 0x1000);
        break;
    }
}

/* What a guest does not do, or what cannot be decoded */
static void go_wrong(struct guest *g)
{
    static const uint64_t places[] = {
        CODE, CODE + 8, CODE + 0x10, CODE + 0x20, CODE + 0x40, CODE + 0x50,
        CODE + 0x53, KERNEL, 0x500000, CODE + 1,
    };
    uint64_t ip = places[below(g, G_N_ELEMENTS(places))];
    GByteArray *s = g->s;
    uint8_t byte;

    switch (below(g, 14)) {
    case 0:
        pt_put(s, "02f3");                      /* OVF */
        break;
    case 1:
        put_psb(s, g->tsc, GONE, true, ip);
        break;
    case 2:
        put_psb(s, g->tsc, CR3, true, ip);
        break;
    case 3:
        pt_put_psb(s, PT_MODE_32, CR3, true, ip);
        break;
    case 4:
        pt_put_psb(s, PT_MODE_64, OTHER, false, ip);
        break;
    case 5:
        pt_put_ip(s, PT_TIP, 6, ip);
        break;
    case 6:
        pt_put_ip(s, PT_FUP, 6, ip);
        break;
    case 7:
        pt_put_ip(s, PT_TIP_PGD, 0, 0);
        break;
    case 8:
        pt_put_ip(s, PT_TIP_PGE, 6, ip);
        break;
    case 9:
        pt_put_pip(s, CR3, below(g, 2));
        break;
    case 10:
        pt_put_tnt(s, "tntntn");
        break;
    case 11:
        pt_put(s, "0263 08");                   /* BBP */
        break;
    case 12:
        put_psb(s, g->tsc + (UINT64_C(1) << 55), CR3, true, CODE);
        break;
    default:
        byte = (uint8_t)below(g, 256);
        g_byte_array_append(s, &byte, 1);
        break;
    }
}

static struct pt_flow_options options_of(unsigned round)
{
    return (struct pt_flow_options){
        .returns = round & 1, .trust_overflow = round & 2,
        .linear = true, .tsc_per_ctc = { round & 4 ? 3 : 0, 2 },
        .bus_ratio = round & 8 ? 9 : 0, .mtc_shift = 3,
        .host_tsc = { .ratio = round & 16 ? 1 : 0 },
        /* Blocks are dropped all the time. */
        .memory = round & 32 ? 1 : 0,
    };
}

/* All goes as it should: no piece is decoded again. */
static void test_good(void)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(3);
    uint64_t pieces = 0;

    for (unsigned round = 0; round < 64; round++) {
        g_autoptr(GByteArray) s = g_byte_array_new();
        struct pt_flow_options o = options_of(round);
        struct guest g = { s, rand, 100000, CR3, o.returns };

        put_psb(s, g.tsc, CR3, true, CODE);
        for (unsigned i = 0; i < 2000; i++) {
            do_something(&g);
        }
        g_assert_cmpuint(compare(s, &o, 400, &pieces), ==, 0);
    }
    g_test_message("%" G_GUINT64_FORMAT " pieces", pieces);
    g_assert_cmpuint(pieces, >, 64 * 20);
}

/* Something goes wrong, seldom or often. */
static void test_bad(void)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(4);
    uint64_t pieces = 0, again = 0;

    for (unsigned round = 0; round < 1280; round++) {
        g_autoptr(GByteArray) s = g_byte_array_new();
        struct pt_flow_options o = options_of(round);
        struct guest g = { s, rand, 100000, CR3, o.returns };
        int often = 1 << (round / 64 % 10);

        o.bare = round % 7 == 0;
        put_psb(s, g.tsc, CR3, true, CODE);
        for (unsigned i = 0; i < 300; i++) {
            if (below(&g, often)) {
                do_something(&g);
            } else {
                go_wrong(&g);
            }
        }
        again += compare(s, &o, 1 + below(&g, 600), &pieces);
    }
    g_test_message("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " pieces "
                   "again", again, pieces);
    g_assert_cmpuint(again, >, pieces / 100);
    g_assert_cmpuint(again, <, pieces / 2);
}

/* More records than are kept ahead; and none at all */
static void test_sizes(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();
    struct pt_flow_options o = options_of(0);
    uint64_t pieces = 0;

    g_assert_cmpuint(compare(s, &o, 0, &pieces), ==, 0);
    g_assert_cmpuint(pieces, ==, 1);
    put_psb(s, 100000, CR3, true, CODE);
    while (s->len < 9u << 20) {
        pt_put_tnt(s, "t");
        pt_put_ip(s, PT_TIP, 2, 0x100d);
        pt_put_ip(s, PT_TIP, 2, 0x1000);
    }
    put_psb(s, 200000, CR3, true, CODE);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pieces = 0;
    g_assert_cmpuint(compare(s, &o, 0, &pieces), ==, 1);
    g_assert_cmpuint(pieces, ==, 2);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    make_pages();
    g_test_add_func("/flow-pieces/good", test_good);
    g_test_add_func("/flow-pieces/bad", test_bad);
    g_test_add_func("/flow-pieces/sizes", test_sizes);
    return g_test_run();
}
