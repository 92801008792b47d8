/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From packets to records: hand-made streams of code that is written here
 *
 * Each stream is read whole, byte by byte, with blocks that are dropped again
 * and again, and in pieces of any size: the same must come of it.
 */

#include <string.h>

#include "pt-samples.h"
#include "pt/flow.h"

#define CODE    0x401000
#define CR3     0x5000

static const struct sample {
    uint64_t address;
    const char *hex;
} samples[] = {
    /* nop; je 401008; jmp 401010 */
    { 0x401000, "90 7405 eb0b" },
    /* call 401020; jmp 401010 */
    { 0x401008, "e813000000 eb01" },
    { 0x401010, "ffe0" },                   /* jmp *%rax */
    { 0x401020, "c3" },                     /* ret */
    { 0x401030, "0f22d8 ffe0" },            /* mov %rax,%cr3; jmp *%rax */
    { 0x401040, "ebfe" },                   /* jmp 401040 */
    { 0x401050, "f4 ebfd" },                /* hlt; jmp 401050 */
    { 0x401060, "0f05 eb9c" },              /* syscall; jmp 401000 */
    { 0x401070, "ffd0 ebfc" },              /* call *%rax; jmp 401070 */
    { 0x401080, "e800000000 58 c3" },       /* call 401085; pop; ret */
    { 0x401090, "0f01c1 eb00 90 ffe0" },    /* vmcall; jmp; nop; jmp *%rax */
    { 0x4010a0, "c7f800000000 eb00 ffe0" }, /* xbegin; jmp; jmp *%rax */
    { 0x4010c0, "0f22c0 ffe0" },            /* mov %rax,%cr0; jmp *%rax */
    { 0x4010d0, "cd80 ebfc" },              /* int $0x80; jmp 4010d0 */
    /* An instruction in two pages: jmp 401000 */
    { 0x401ffe, "e9fdefffff" },
    { 0xffffffff81000000, "90 48cf" },      /* nop; iretq */
    { 0xffffffff81000010, "0f22d8 48cf" },
    /* 66 e9: jmp in 32-bit code, to 16 bits of an address */
    { 0x12000, "66e9fc0f" },
    { 0x13000, "ffe0" },
    { 0x3000, "ffe0" },
};

struct world {
    GString *text;
    uint64_t offset;                /* of bytes that are not given at once */
    bool changed;
    unsigned asked;
};

static uint8_t pages[8][4096];

static uint8_t *page_of(uint64_t address)
{
    static const uint64_t addresses[] = {
        0x401000, 0x402000, 0xffffffff81000000, 0x12000, 0x13000, 0x3000,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(addresses); i++) {
        if (address >> 12 == addresses[i] >> 12) {
            return pages[i];
        }
    }
    return NULL;
}

static void make_pages(void)
{
    memset(pages, 0xcc, sizeof(pages));
    for (unsigned i = 0; i < G_N_ELEMENTS(samples); i++) {
        g_autoptr(GByteArray) bytes = g_byte_array_new();

        pt_put(bytes, samples[i].hex);
        for (unsigned j = 0; j < bytes->len; j++) {
            uint64_t a = samples[i].address + j;

            page_of(a)[a % 4096] = bytes->data[j];
        }
    }
}

static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    struct world *w = opaque;
    uint8_t *page = page_of(address);

    w->asked++;
    if (cr3 == 0x6000) {
        return PT_CODE_CHANGED;
    }
    if (!page || (cr3 != CR3 && cr3 != 0x7000 && !(address >> 63))) {
        return PT_CODE_UNREADABLE;
    }
    *code = (struct pt_code){
        .bytes = page + address % 4096, .size = 4096 - address % 4096,
        .tsc = UINT64_MAX, .records = UINT64_MAX,
    };
    return PT_CODE_READ;
}

/* Text of what is given: "FROM>TO", "cr3:N", "gap:REASON/BYTES" */
static void give(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct world *w = opaque;
    size_t e = 0;

    for (size_t i = 0; i <= n; i++) {
        for (; e < n_events && events[e].at == i; e++) {
            switch (events[e].type) {
            case PT_FLOW_CR3:
                g_string_append_printf(w->text, "cr3:%" G_GINT64_MODIFIER "x",
                                       events[e].value);
                if (events[e].bits) {
                    g_string_append_printf(w->text, "/%u", events[e].bits);
                }
                g_string_append_c(w->text, ' ');
                break;
            case PT_FLOW_TIME:
                g_string_append_printf(w->text, "time:%" G_GUINT64_FORMAT " ",
                                       events[e].value);
                break;
            case PT_FLOW_GAP:
                g_string_append_printf(w->text, "gap:%s/%" G_GUINT64_FORMAT
                                       " ", pt_gap_name(events[e].gap),
                                       events[e].value);
                break;
            }
        }
        if (i < n) {
            g_assert_cmphex(records[i].flags, ==, 0);
            g_string_append_printf(w->text, "%" G_GINT64_MODIFIER "x>%"
                                   G_GINT64_MODIFIER "x ", records[i].from,
                                   records[i].to);
        }
    }
    g_assert_cmpuint(e, ==, n_events);
}

/* What comes of a stream that is fed in pieces of @step bytes */
static char *decode(const GByteArray *s, const struct pt_flow_options *o,
                    size_t step, struct pt_flow_count *count)
{
    struct world w = { .text = g_string_new(NULL) };
    struct pt_flow_options small = *o;
    struct pt_flow *f;

    /* Enough for all blocks, and soon made */
    small.memory = o->memory ? o->memory : 1 << 16;
    f = pt_flow_new(&small, read_code, &w, give, &w);
    for (size_t i = 0; i < s->len; i += step) {
        size_t n = MIN(step, s->len - i);
        uint8_t *part = g_memdup2(s->data + i, n);

        pt_flow_feed(f, part, n);
        g_free(part);
    }
    pt_flow_finish(f);
    *count = *pt_flow_counted(f);
    g_assert_cmpuint(count->decoded + count->skipped + count->host, ==,
                     s->len);
    pt_flow_free(f);
    return g_string_free(w.text, FALSE);
}

static struct pt_flow_count check(const GByteArray *s,
                                  const struct pt_flow_options *o,
                                  const char *expected)
{
    struct pt_flow_options few = *o;
    struct pt_flow_count count;
    char *text = decode(s, o, MAX(s->len, 1), &count);

    if (expected) {
        g_assert_cmpstr(text, ==, expected);
    }
    few.memory = 1;
    for (size_t step = 1; step < 40; step += 1 + step / 4) {
        struct pt_flow_count again;
        char *parts = decode(s, step % 2 ? o : &few, step, &again);

        g_assert_cmpstr(parts, ==, text);
        g_assert_cmpmem(&count, sizeof(count), &again, sizeof(again));
        g_free(parts);
    }
    g_free(text);
    return count;
}

static const struct pt_flow_options plain, returns = { .returns = true };

static GByteArray *begin(uint64_t ip)
{
    GByteArray *s = g_byte_array_new();

    pt_put_psb(s, PT_MODE_64, CR3, true, ip);
    return s;
}
#define BEGIN   "gap:begin/35 cr3:5000 "

static void test_branches(void)
{
    g_autoptr(GByteArray) s = begin(CODE);

    pt_put_tnt(s, "t");
    pt_put_ip(s, PT_TIP, 2, 0x100d);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1060);
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP, 6, 0x401062);
    /* The next branches are direct: no packet says that they were executed. */
    check(s, &plain, BEGIN
          "401001>401008 401008>401020 401020>40100d 40100d>401010 "
          "401010>401000 401003>401010 401010>401060 "
          "401060>ffffffff81000000 ffffffff81000001>401062 ");
}

static void test_returns(void)
{
    g_autoptr(GByteArray) s = begin(CODE);
    struct pt_flow_options keep = { .returns = true, .keep_returns = true };

    pt_put_tnt(s, "tt");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    /* One that is not compressed */
    pt_put_tnt(s, "t");
    pt_put_ip(s, PT_TIP, 2, 0x1070);
    /* call *; it returns here, twice: once for each call */
    pt_put_ip(s, PT_TIP, 2, 0x1020);
    pt_put_tnt(s, "t");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &returns, BEGIN
          "401001>401008 401008>401020 401020>40100d 40100d>401010 "
          "401010>401000 401001>401008 401008>401020 401020>401070 "
          "401070>401020 401020>401072 401072>401070 401070>401000 ");
    /* By libipt's rule the first call's address is still there. */
    pt_put_tnt(s, "nt");
    check(s, &keep, NULL);
    g_byte_array_set_size(s, 0);
    pt_put_psb(s, PT_MODE_64, CR3, true, 0x401020);
    pt_put_tnt(s, "t");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    /* No call is known to which it could return. */
    check(s, &returns, BEGIN "gap:lost-way/4 ");
}

/* A call of the next instruction has no RET of its own. */
static void test_zero_call(void)
{
    g_autoptr(GByteArray) s = begin(0x401070);

    pt_put_ip(s, PT_TIP, 2, 0x1080);
    pt_put_tnt(s, "t");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &returns, BEGIN "401070>401080 401080>401085 401086>401072 "
          "401072>401070 401070>401000 ");
}

/* The TNT has what is behind TIPs, too. */
static void test_deferred(void)
{
    g_autoptr(GByteArray) s = begin(CODE);

    pt_put_tnt(s, "tnt");
    pt_put_ip(s, PT_TIP, 2, 0x100d);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put_ip(s, PT_FUP, 2, 0x1008);
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    check(s, &plain, BEGIN
          "401001>401008 401008>401020 401020>40100d 40100d>401010 "
          "401010>401000 401003>401010 401010>401000 401001>401008 "
          "401008>ffffffff81000000 ");
}

static void test_interrupt(void)
{
    g_autoptr(GByteArray) s = begin(CODE);

    pt_put_tnt(s, "n");
    /* Behind the jump that no packet says */
    pt_put_ip(s, PT_FUP, 2, 0x1010);
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP, 6, 0x401010);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    /* In the middle of a block; with a task switch */
    pt_put_ip(s, PT_FUP, 2, 0x1001);
    pt_put_pip(s, 0x7000, true);
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP, 6, 0x4010d0);
    /* INT n: the FUP is that of the instruction. */
    pt_put_ip(s, PT_FUP, 2, 0x10d0);
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP, 6, 0x4010d2);
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    check(s, &plain, BEGIN
          "401003>401010 401010>ffffffff81000000 ffffffff81000001>401010 "
          "401010>401000 401001>ffffffff81000000 cr3:7000 "
          "ffffffff81000001>4010d0 4010d0>ffffffff81000000 "
          "ffffffff81000001>4010d2 4010d2>4010d0 4010d0>ffffffff81000000 ");
    /* Not where an instruction begins */
    g_byte_array_set_size(s, 35);
    pt_put_ip(s, PT_FUP, 2, 0x1002);
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP, 6, 0x401010);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &plain, BEGIN "gap:lost-way/10 cr3:5000 "
          "ffffffff81000001>401010 401010>401000 ");
}

/* What is not sure is not given out. */
static void test_dropped(void)
{
    g_autoptr(GByteArray) s = begin(CODE);
    struct pt_flow_count count;

    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put_tnt(s, "t");
    pt_put_tnt(s, "t");
    pt_put_tnt(s, "t");
    pt_put_psb(s, PT_MODE_64, CR3, true, CODE);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    count = check(s, &plain, BEGIN
                  "401003>401010 401010>401000 gap:lost-way/38 cr3:5000 "
                  "401003>401010 401010>401000 ");
    g_assert_cmpuint(count.dropped, ==, 2);
    g_assert_cmpuint(count.gaps[PT_GAP_LOST], ==, 1);
    g_assert_cmpuint(count.skipped, ==, 35 + 38);
}

static void test_loop(void)
{
    g_autoptr(GByteArray) s = begin(0x401040);

    /* The guest is interrupted in it. */
    pt_put_ip(s, PT_FUP, 2, 0x1040);
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP, 6, 0x401040);
    /* What comes out of it cannot be. */
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put_psb(s, PT_MODE_64, CR3, true, CODE);
    check(s, &plain, BEGIN
          "401040>ffffffff81000000 ffffffff81000001>401040 "
          "gap:lost-way/38 cr3:5000 ");
}

static void test_cr3(void)
{
    g_autoptr(GByteArray) s = begin(0x401030);

    pt_put_pip(s, 0x7000, true);
    pt_put_ip(s, PT_TIP, 2, 0x10c0);
    /* Paging is switched: CR3 is the same or not. */
    pt_put_pip(s, CR3, true);
    pt_put_ip(s, PT_TIP, 2, 0x1010);
    pt_put_pip(s, 0x7000, true);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &plain, BEGIN
          "cr3:7000 401033>4010c0 cr3:5000 4010c3>401010 "
          "gap:lost-way/11 cr3:7000 ");
    /* The same code in another address space, where it is not known */
    g_byte_array_set_size(s, 35);
    pt_put_pip(s, 0x8000, true);
    pt_put_ip(s, PT_TIP, 2, 0x1010);
    check(s, &plain, BEGIN "gap:code-unreadable/11 ");
    g_byte_array_set_size(s, 35);
    pt_put_pip(s, 0x6000, true);
    pt_put_ip(s, PT_TIP, 2, 0x1010);
    check(s, &plain, BEGIN "gap:code-changed/11 ");
}

/* The host does something, with packets of each kind. */
static void put_host(GByteArray *s)
{
    pt_put_pip(s, 0x9000, false);
    pt_put(s, "02c8 0100 0000 00");
    pt_put_mode(s, PT_MODE_64);
    pt_put_ip(s, PT_TIP, 6, 0xffffffffc0a01000);
    pt_put_tnt(s, "tntntntntnt");
    pt_put_tnt(s, "tn");
    pt_put_ip(s, PT_FUP, 2, 0x1010);
    pt_put_ip(s, PT_TIP, 4, 0x81000000);
    pt_put_psb(s, PT_MODE_32, 0xa000, false, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP_PGD, 0, 0);
    pt_put_ip(s, PT_TIP_PGE, 2, 0x10);
    pt_put_mode(s, PT_MODE_16);
    pt_put_ip(s, PT_TIP, 2, 0x100);
}

static void put_entry(GByteArray *s, uint64_t cr3, uint64_t ip)
{
    pt_put_pip(s, cr3, true);
    pt_put(s, "02c8 0100 0000 00");
    pt_put_mode(s, PT_MODE_64);
    pt_put_ip(s, PT_TIP, 6, ip);
}

static void test_exits(void)
{
    g_autoptr(GByteArray) s = begin(CODE), host = g_byte_array_new();
    struct pt_flow_count count;

    put_host(host);
    /* It goes on where it was. */
    pt_put_ip(s, PT_FUP, 2, 0x1001);
    put_host(s);
    put_entry(s, CR3, 0x401001);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 6, 0x401050);
    /* HLT, and an interrupt: behind the instruction */
    pt_put_ip(s, PT_FUP, 2, 0x1050);
    put_host(s);
    put_entry(s, CR3, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP, 6, 0x401051);
    /* HLT, and nothing */
    pt_put_ip(s, PT_FUP, 2, 0x1050);
    put_host(s);
    put_entry(s, CR3, 0x401051);
    /* Where an instruction was not executed: an interrupt */
    pt_put_ip(s, PT_FUP, 2, 0x1050);
    put_host(s);
    put_entry(s, CR3, 0x401050);
    pt_put_ip(s, PT_FUP, 2, 0x1051);
    put_host(s);
    put_entry(s, 0x7000, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP, 6, 0x401010);
    pt_put_ip(s, PT_TIP, 2, 0x1090);
    pt_put_ip(s, PT_FUP, 2, 0x1090);
    put_host(s);
    put_entry(s, 0x7000, 0x401093);
    pt_put_ip(s, PT_TIP, 6, 0x401010);
    count = check(s, &plain, BEGIN
                  "401003>401010 401010>401050 401051>ffffffff81000000 "
                  "ffffffff81000001>401051 401051>401050 401051>401050 "
                  "401051>ffffffff81000000 cr3:7000 ffffffff81000001>401010 "
                  "401010>401090 401093>401095 401096>401010 ");
    g_assert_cmpuint(count.exits, ==, 6);
    /* The PIP of an exit is the guest's. */
    g_assert_cmpuint(count.host, ==, 6 * (host->len - 8 + 8 + 7 + 2 + 7));
}

/* The stream begins in the host; and a PSB says that it is the guest. */
static void test_host(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();
    struct pt_flow_count count;

    pt_put_psb(s, PT_MODE_64, 0x9000, false, 0xffffffff81000000);
    put_host(s);
    put_entry(s, CR3, 0x401010);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put_ip(s, PT_FUP, 2, 0x1000);
    put_host(s);
    pt_put_psb(s, PT_MODE_64, CR3, true, CODE);
    pt_put_tnt(s, "n");
    count = check(s, &plain, "gap:begin/35 cr3:5000 401010>401000 "
                  "gap:lost-way/0 ");
    g_assert_cmpuint(count.skipped, ==, 35);
}

static void test_psb(void)
{
    g_autoptr(GByteArray) s = begin(CODE);

    pt_put_tnt(s, "n");
    /* In the middle of the flow, behind a jump */
    pt_put_psb(s, PT_MODE_64, CR3, true, 0x401010);
    pt_put_ip(s, PT_TIP, 6, 0x401000);
    /* It says something else than was thought. */
    pt_put_psb(s, PT_MODE_64, 0x7000, true, 0x401000);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 6, 0x401000);
    /* It is cut short. */
    pt_put(s, "0282 0282 0282 0282 0282 0282 0282 0282");
    pt_put_tnt(s, "n");
    pt_put_psb(s, PT_MODE_64, CR3, true, CODE);
    check(s, &plain, BEGIN
          "401003>401010 401010>401000 gap:lost-way/35 cr3:7000 "
          "401003>401010 401010>401000 gap:lost-way/52 cr3:5000 ");
}

static void test_overflow(void)
{
    struct pt_flow_options trust = { .trust_overflow = true };
    g_autoptr(GByteArray) s = begin(CODE);

    pt_put_tnt(s, "n");
    pt_put(s, "02f3");
    pt_put_tsc(s, 5);
    pt_put_ip(s, PT_FUP, 6, CODE);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &trust, BEGIN
          "gap:packets-lost/15 cr3:5000 401003>401010 "
          "401010>401000 ");
    /* A VM exit could be among what was lost. */
    check(s, &plain, BEGIN "gap:packets-lost/19 ");
    pt_put_pip(s, 0x7000, true);
    pt_put_ip(s, PT_TIP, 6, CODE);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &plain, BEGIN "gap:packets-lost/34 cr3:7000 "
          "401003>401010 401010>401000 ");
}

static void test_off(void)
{
    g_autoptr(GByteArray) s = begin(CODE);

    /* A branch leaves what is traced, with and without an address. */
    pt_put_ip(s, PT_TIP_PGD, 2, 0x1008);
    pt_put_ip(s, PT_TIP_PGE, 2, 0x1000);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP_PGD, 0, 0);
    pt_put_ip(s, PT_TIP_PGE, 2, 0x1000);
    pt_put_ip(s, PT_FUP, 2, 0x1001);
    pt_put_ip(s, PT_TIP_PGD, 6, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP_PGE, 6, 0x401010);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &plain, BEGIN
          "401001>401008 gap:not-traced/3 cr3:5000 "
          "gap:not-traced/3 cr3:5000 401001>ffffffff81000000 "
          "gap:not-traced/7 cr3:5000 401010>401000 ");
}

/* Packets that have a FUP of their own, which no TIP follows */
static void test_alone(void)
{
    g_autoptr(GByteArray) s = begin(0x4010a0);

    pt_put(s, "9921");
    pt_put_ip(s, PT_FUP, 2, 0x10a0);
    pt_put(s, "0292 0102 0304");
    pt_put_ip(s, PT_FUP, 2, 0x10a6);
    pt_put(s, "0263 81 0c 0102 0304 02b3");
    pt_put_ip(s, PT_FUP, 2, 0x10a6);
    pt_put(s, "d9e0 01 0500");
    pt_put_ip(s, PT_FUP, 2, 0x10a6);
    pt_put(s, "d920 01");
    /* The transaction is aborted. */
    pt_put(s, "9922");
    pt_put_ip(s, PT_FUP, 2, 0x10a8);
    pt_put_ip(s, PT_TIP, 2, 0x10a6);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &plain, BEGIN
          "4010a6>4010a8 4010a8>4010a6 4010a6>4010a8 4010a8>401000 ");
}

static void test_modes(void)
{
    struct pt_flow_options linear = { .linear = true };
    struct pt_flow_options told = { .linear = true, .modes = true };
    g_autoptr(GByteArray) s = g_byte_array_new();

    pt_put_psb(s, PT_MODE_32, CR3, true, 0x12000);
    /* jmp with 16 bits: 12000 + 4 + ffc, less what does not fit */
    pt_put_ip(s, PT_FUP, 4, 0x3000);
    pt_put_mode(s, PT_MODE_64);
    pt_put_ip(s, PT_TIP, 6, 0x401060);
    pt_put_mode(s, PT_MODE_16);
    pt_put_ip(s, PT_TIP, 6, 0x12000);
    pt_put_ip(s, PT_FUP, 6, 0x12000);
    pt_put_mode(s, PT_MODE_64);
    pt_put_ip(s, PT_TIP, 6, 0x401010);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    /* In 16-bit code 66 e9 has 32 bits, which are not there. */
    check(s, &linear, BEGIN
          "12000>3000 3000>401060 401060>12000 12000>401010 401010>401000 ");
    check(s, &plain, BEGIN
          "12000>3000 3000>401060 401060>12000 gap:mode/16 cr3:5000 "
          "401010>401000 ");
    /* Which mode it was, from which record on */
    check(s, &told, "gap:begin/35 cr3:5000/32 12000>3000 3000>401060 "
          "cr3:5000/64 401060>12000 cr3:5000/16 12000>401010 cr3:5000/64 "
          "401010>401000 ");
    told.linear = false;
    check(s, &told, "gap:begin/35 cr3:5000/32 12000>3000 3000>401060 "
          "cr3:5000/64 401060>12000 cr3:5000/16 gap:mode/16 cr3:5000/64 "
          "401010>401000 ");
    /* CR3 is written, and code goes on in another mode. */
    g_byte_array_set_size(s, 0);
    pt_put_psb(s, PT_MODE_64, CR3, true, 0x401030);
    pt_put_pip(s, 0x7000, true);
    pt_put_mode(s, PT_MODE_32);
    pt_put_ip(s, PT_TIP, 6, 0x4010c0);
    pt_put_mode(s, PT_MODE_32);
    pt_put_psb(s, PT_MODE_32, 0x7000, true, 0x4010c0);
    check(s, &told, "gap:begin/35 cr3:5000/64 cr3:7000/64 401033>4010c0 "
          "cr3:7000/32 ");
}

/* No hypervisor: NR is always 0; or user mode alone, and there is no PIP. */
static void test_bare(void)
{
    struct pt_flow_options bare = { .bare = true };
    g_autoptr(GByteArray) s = g_byte_array_new();

    pt_put_psb(s, PT_MODE_64, CR3, false, 0x401030);
    pt_put_pip(s, 0x7000, false);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &bare, BEGIN "cr3:7000 401033>401000 ");
    g_byte_array_set_size(s, 0);
    pt_put(s, "0282 0282 0282 0282 0282 0282 0282 0282 9901");
    pt_put_ip(s, PT_FUP, 6, 0xffffffff81000000);
    pt_put(s, "0223");
    pt_put_ip(s, PT_TIP_PGD, 0, 0);
    pt_put_ip(s, PT_TIP_PGE, 6, 0xffffffff81000000);
    pt_put_ip(s, PT_TIP, 4, 0x81000000);
    check(s, &bare, "gap:begin/27 cr3:0 gap:not-traced/7 cr3:0 "
          "ffffffff81000001>ffffffff81000000 ");
}

static void test_time(void)
{
    struct pt_flow_options o = { .time_step = 1 };
    g_autoptr(GByteArray) s = g_byte_array_new();

    pt_put_tsc(s, 3);
    pt_put_psb(s, PT_MODE_64, CR3, true, CODE);
    pt_put_tsc(s, 100);
    pt_put_tsc(s, 200);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put_tsc(s, 300);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &o, "gap:begin/43 cr3:5000 time:200 401003>401010 "
          "401010>401000 time:300 401003>401010 401010>401000 ");
    /* In PSB+, whose it is is said behind it. */
    g_byte_array_set_size(s, 0);
    for (unsigned guest = 0; guest < 2; guest++) {
        pt_put(s, "0282 0282 0282 0282 0282 0282 0282 0282");
        pt_put_tsc(s, 1000 + guest);
        pt_put(s, "9901");
        pt_put_pip(s, CR3, guest);
        pt_put_ip(s, PT_FUP, 6, CODE);
        pt_put(s, "0223");
    }
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &o, "gap:begin/43 cr3:5000 time:1001 401003>401010 "
          "401010>401000 ");
}

/* The vCPU has slept: only the host says when it went on. */
static void test_host_time(void)
{
    struct pt_flow_options o = { .time_step = 1 };
    g_autoptr(GByteArray) s = g_byte_array_new();

    pt_put_psb(s, PT_MODE_64, CR3, true, CODE);
    pt_put_tsc(s, 100);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_FUP, 2, 0x1010);
    pt_put_pip(s, 0x9000, false);
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    pt_put_tsc(s, 7300);
    pt_put_pip(s, CR3, true);
    pt_put_ip(s, PT_TIP, 6, CODE + 0x10);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &o, BEGIN "time:100 401003>401010 401010>401000 ");
    o.host_tsc = (struct kvm_tsc){ -UINT64_C(7000), 1, 0 };
    check(s, &o, BEGIN "time:100 401003>401010 time:300 401010>401000 ");
    /* To a handler, of which the record is made at the entry */
    g_byte_array_set_size(s, s->len - 10);
    pt_put_ip(s, PT_TIP, 6, CODE);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &o, BEGIN "time:100 401003>401010 time:300 401010>401000 "
          "401003>401010 401010>401000 ");
    /* From a PSB of the host on; and where nobody knows whose it is */
    g_byte_array_set_size(s, 0);
    pt_put(s, "0282 0282 0282 0282 0282 0282 0282 0282");
    pt_put_tsc(s, 7100);
    pt_put_pip(s, 0x9000, false);
    pt_put_ip(s, PT_FUP, 6, 0xffffffff81000000);
    pt_put(s, "0223");
    pt_put_pip(s, CR3, true);
    pt_put_ip(s, PT_TIP, 6, CODE + 0x10);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &o, "gap:begin/41 cr3:5000 time:100 401010>401000 ");
    pt_put(s, "02f3");                  /* OVF */
    pt_put_tsc(s, 7900);
    pt_put_pip(s, CR3, true);
    pt_put_ip(s, PT_TIP, 6, CODE + 0x10);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    check(s, &o, "gap:begin/41 cr3:5000 time:100 401010>401000 "
          "gap:packets-lost/23 cr3:5000 401010>401000 ");
}

/* Bytes are missing; and the stream ends in a packet. */
static void test_missing(void)
{
    struct world w = { .text = g_string_new(NULL) };
    g_autoptr(GByteArray) s = begin(CODE);
    struct pt_flow *f = pt_flow_new(&plain, read_code, &w, give, &w);
    const struct pt_flow_count *count = pt_flow_counted(f);

    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_flow_feed(f, s->data, s->len - 1);
    pt_flow_missing(f);
    pt_flow_feed(f, s->data + 20, s->len - 20);
    pt_flow_missing(f);
    pt_flow_feed(f, s->data, s->len - 1);
    pt_flow_finish(f);
    g_assert_cmpstr(w.text->str, ==, BEGIN "401003>401010 401010>401000 "
                    "gap:ring-full/59 cr3:5000 401003>401010 401010>401000 "
                    "gap:lost-way/2 ");
    g_assert_cmpuint(count->decoded + count->skipped + count->host, ==,
                     3 * s->len - 22);
    pt_flow_free(f);
    g_string_free(w.text, TRUE);
}

static void test_change(void)
{
    struct world w = { .text = g_string_new(NULL) };
    g_autoptr(GByteArray) s = begin(CODE);
    struct pt_flow *f = pt_flow_new(&plain, read_code, &w, give, &w);
    unsigned asked;

    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_flow_feed(f, s->data, s->len);
    asked = w.asked;
    pt_flow_feed(f, s->data + 35, s->len - 35);
    g_assert_cmpuint(w.asked, ==, asked);
    /* je becomes jne's place: 401001 jumps to 401010 */
    page_of(CODE)[2] = 0x0d;
    pt_flow_change(f, CR3, CODE + 100);
    g_byte_array_set_size(s, 35);
    pt_put_tnt(s, "t");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_flow_feed(f, s->data + 35, s->len - 35);
    g_assert_cmpuint(w.asked, >, asked);
    pt_flow_finish(f);
    page_of(CODE)[2] = 0x05;
    g_assert_true(g_str_has_suffix(w.text->str,
                                   " 401001>401010 401010>401000 "));
    g_assert_cmpuint(pt_flow_blocks(f)->changed, ==, 1);
    pt_flow_free(f);
    g_string_free(w.text, TRUE);
}

/* Records that nothing shows to be right are not held without an end. */
static void test_held(void)
{
    g_autoptr(GByteArray) s = begin(CODE);
    struct pt_flow *f;
    struct world w = { .text = g_string_new(NULL) };
    struct pt_flow_options o = returns;

    /* call; je; ret: round and round by TNT alone */
    memcpy(page_of(CODE) + 0x200, "\x74\xfe", 2);
    g_byte_array_set_size(s, 0);
    pt_put_psb(s, PT_MODE_64, CR3, true, 0x401200);
    for (unsigned i = 0; i < 30000; i++) {
        pt_put_tnt(s, "ttttttttttttttttttttttttttttttttttttttttttttttt");
    }
    f = pt_flow_new(&o, read_code, &w, give, &w);
    pt_flow_feed(f, s->data, s->len);
    pt_flow_finish(f);
    g_assert_cmpuint(pt_flow_counted(f)->records, ==, 0);
    g_assert_cmpuint(pt_flow_counted(f)->gaps[PT_GAP_LOST], ==, 1);
    g_assert_cmpuint(pt_flow_counted(f)->dropped, ==, 1 << 20);
    pt_flow_free(f);
    g_string_free(w.text, TRUE);
    make_pages();
}

/* Any packets, many of which make sense */
static void test_random(void)
{
    static const uint64_t places[] = {
        0x401000, 0x401008, 0x40100d, 0x401010, 0x401020, 0x401030, 0x401040,
        0x401050, 0x401060, 0x401070, 0x401080, 0x401090, 0x4010a0, 0x4010c0,
        0x4010d0, 0x401ffe, 0x402001, 0xffffffff81000000, 0x12000, 0x3000,
        0x500000,
    };
    static const uint64_t spaces[] = { CR3, 0x6000, 0x7000, 0x8000 };
    g_autoptr(GRand) rand = g_rand_new_with_seed(7);

    for (unsigned round = 0; round < 100; round++) {
        g_autoptr(GByteArray) s = begin(CODE);
        struct pt_flow_options o = {
            .returns = round & 1, .trust_overflow = round & 2,
            .linear = round & 4, .tsc_per_ctc = { 3, 2 }, .bus_ratio = 9,
            .time_step = 1,
        };

        for (unsigned i = 0; i < 200; i++) {
            uint64_t ip = places[g_rand_int_range(rand, 0,
                                                  G_N_ELEMENTS(places))];
            uint64_t cr3 = spaces[g_rand_int_range(rand, 0, 4)];

            switch (g_rand_int_range(rand, 0, 24)) {
            case 0:
                pt_put_psb(s, PT_MODE_64, cr3, i % 4, ip);
                break;
            case 1:
                pt_put_pip(s, cr3, i % 3);
                break;
            case 2:
                pt_put_mode(s, g_rand_int_range(rand, 0, 3));
                break;
            case 3:
                pt_put(s, "02f3");
                break;
            case 4:
                put_host(s);
                put_entry(s, cr3, ip);
                break;
            case 5:
                pt_put_ip(s, PT_TIP_PGD, i % 2 ? 6 : 0, ip);
                break;
            case 6:
                pt_put_ip(s, PT_TIP_PGE, 6, ip);
                break;
            case 7:
                pt_put(s, "0273 3412 00 05 00 5907 fb");
                break;
            case 8:
                pt_put_tsc(s, i);
                break;
            case 9: {
                uint8_t byte = g_rand_int(rand);

                g_byte_array_append(s, &byte, 1);
                break;
            }
            case 10:
            case 11:
            case 12:
            case 13:
                pt_put_ip(s, PT_FUP, 6, ip);
                break;
            case 14:
            case 15:
            case 16:
            case 17:
                pt_put_tnt(s, i % 2 ? "t" : "n");
                break;
            case 18:
                pt_put_tnt(s, "tnttntnttn");
                break;
            default:
                pt_put_ip(s, PT_TIP, 6, ip);
                break;
            }
        }
        check(s, &o, NULL);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    make_pages();
    g_test_add_func("/flow/branches", test_branches);
    g_test_add_func("/flow/returns", test_returns);
    g_test_add_func("/flow/zero-call", test_zero_call);
    g_test_add_func("/flow/deferred", test_deferred);
    g_test_add_func("/flow/interrupt", test_interrupt);
    g_test_add_func("/flow/dropped", test_dropped);
    g_test_add_func("/flow/loop", test_loop);
    g_test_add_func("/flow/cr3", test_cr3);
    g_test_add_func("/flow/exits", test_exits);
    g_test_add_func("/flow/host", test_host);
    g_test_add_func("/flow/psb", test_psb);
    g_test_add_func("/flow/overflow", test_overflow);
    g_test_add_func("/flow/off", test_off);
    g_test_add_func("/flow/alone", test_alone);
    g_test_add_func("/flow/modes", test_modes);
    g_test_add_func("/flow/bare", test_bare);
    g_test_add_func("/flow/time", test_time);
    g_test_add_func("/flow/host-time", test_host_time);
    g_test_add_func("/flow/missing", test_missing);
    g_test_add_func("/flow/change", test_change);
    g_test_add_func("/flow/held", test_held);
    g_test_add_func("/flow/random", test_random);
    return g_test_run();
}
