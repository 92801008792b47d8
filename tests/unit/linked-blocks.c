/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocks of decoded instructions: what ends one, links, and code that changes
 */

#include <glib.h>
#include <string.h>

#include "pt-samples.h"
#include "pt/linked-blocks.h"

#define CODE    0x401000u

struct world {
    uint8_t bytes[3 * 4096];
    size_t piece;                   /* the most that is given at once */
    uint64_t missing;               /* a page that is not known */
    uint64_t until;                 /* records */
    unsigned asked;
};

static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    struct world *w = opaque;
    uint64_t offset = (address & 0xffffff) - CODE;

    w->asked++;
    if (offset >= sizeof(w->bytes) ||
        (w->missing && address >> 12 == w->missing >> 12)) {
        return PT_CODE_UNREADABLE;
    }
    *code = (struct pt_code){
        .bytes = w->bytes + offset,
        .size = MIN(w->piece, sizeof(w->bytes) - offset),
        .tsc = UINT64_MAX, .records = w->until,
    };
    return PT_CODE_READ;
}

static void put(struct world *w, unsigned offset, const char *hex)
{
    g_autoptr(GByteArray) b = g_byte_array_new();

    pt_put(b, hex);
    memcpy(w->bytes + offset, b->data, b->len);
}

static struct world *world_new(void)
{
    struct world *w = g_new0(struct world, 1);

    w->piece = 4096;
    w->until = UINT64_MAX;
    memset(w->bytes, 0x90, sizeof(w->bytes));
    return w;
}

static const struct pt_moment start;

static struct linked_block *at(struct linked_blocks *b, unsigned bits,
                               uint64_t address)
{
    enum pt_code_result result;
    bool flushed;

    return linked_blocks_at(b, 0x5000, bits, address, &start, &result,
                            &flushed);
}

/* What each instruction ends a block as, in which mode */
static void test_kinds(void)
{
    static const struct {
        const char *hex;
        unsigned bits, length;
        int kind;
        int64_t taken;              /* from the next one on */
    } samples[] = {
        { "74 10", 64, 2, LINKED_CONDITIONAL, 16 },
        { "0f8f 00010000", 64, 6, LINKED_CONDITIONAL, 256 },
        { "e2 fe", 64, 2, LINKED_CONDITIONAL, -2 },
        { "e3 7f", 32, 2, LINKED_CONDITIONAL, 127 },
        { "e1 00", 16, 2, LINKED_CONDITIONAL, 0 },
        { "eb 80", 64, 2, LINKED_JUMP, -128 },
        { "e9 00ffffff", 32, 5, LINKED_JUMP, -256 },
        { "e9 0001", 16, 3, LINKED_JUMP, 256 },
        { "e8 00000000", 64, 5, LINKED_CALL, 0 },
        { "e8 f0ff", 16, 3, LINKED_CALL, -16 },
        { "ffe0", 64, 2, LINKED_JUMP_TO, 0 },
        { "ff2500000000", 64, 6, LINKED_JUMP_TO, 0 },
        { "3effe0", 64, 3, LINKED_JUMP_TO, 0 },
        { "ffd0", 64, 2, LINKED_CALL_TO, 0 },
        { "41ff5308", 64, 4, LINKED_CALL_TO, 0 },
        { "c3", 64, 1, LINKED_RET, 0 },
        { "f3c3", 64, 2, LINKED_RET, 0 },
        { "c20800", 64, 3, LINKED_RET, 0 },
        { "cb", 64, 1, LINKED_FAR, 0 },
        { "ca0800", 32, 3, LINKED_FAR, 0 },
        { "ff28", 64, 2, LINKED_FAR, 0 },
        { "48ff18", 64, 3, LINKED_FAR, 0 },
        { "ea 00001000 1000", 32, 7, LINKED_FAR, 0 },
        { "9a 0000 0010", 16, 5, LINKED_FAR, 0 },
        { "48cf", 64, 2, LINKED_FAR, 0 },
        { "0f05", 64, 2, LINKED_FAR, 0 },
        { "0f34", 32, 2, LINKED_FAR, 0 },
        { "480f07", 64, 3, LINKED_FAR, 0 },
        { "cd80", 32, 2, LINKED_FAR, 0 },
        { "cc", 64, 1, LINKED_FAR, 0 },
        { "f1", 64, 1, LINKED_FAR, 0 },
        { "0faa", 64, 2, LINKED_FAR, 0 },
        { "f30f01ca", 64, 4, LINKED_FAR, 0 },
        { "f20f01ca", 64, 4, LINKED_FAR, 0 },
        { "f30f01ec", 64, 4, LINKED_FAR, 0 },
        { "d500a1 0010000000000000", 64, 11, LINKED_JUMP_TO, 0 },
        { "d510ffd0", 64, 4, LINKED_CALL_TO, 0 },
        { "0f22d8", 64, 3, LINKED_CR3, 0 },
        { "0f22c0", 32, 3, LINKED_CR, 0 },
        { "440f22c0", 64, 4, LINKED_CR, 0 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(samples); i++) {
        struct world *w = world_new();
        struct linked_blocks *b = linked_blocks_new(1, read_code, w);
        unsigned bits = samples[i].bits, length = samples[i].length;
        struct linked_block *block;

        put(w, 0x101, samples[i].hex);
        block = at(b, bits, CODE + 0x100);
        g_assert_nonnull(block);
        g_assert_cmpint(block->kind, ==, samples[i].kind);
        g_assert_cmphex(block->from, ==, CODE + 0x101);
        g_assert_cmphex(block->next, ==, CODE + 0x101 + length);
        g_assert_cmphex(block->starts, ==, 3);
        g_assert_cmpuint(block->length, ==, 1);
        g_assert_false(block->exits);
        if (samples[i].kind <= LINKED_CALL) {
            g_assert_cmphex(block->taken, ==,
                            block->next + samples[i].taken);
        }
        linked_blocks_free(b);
        g_free(w);
    }
}

/* What does not end one, and what a hypervisor executes */
static void test_plain(void)
{
    static const char *const exits[] = {
        "f4", "0fa2", "0f32", "0f30", "ec", "ee", "e410", "0f01c1",
    };
    struct world *w = world_new();
    struct linked_blocks *b = linked_blocks_new(1, read_code, w);

    /* mov %cr3,%rax; ud2; into's place is no instruction here; xbegin */
    put(w, 0x200, "0f20d8 0f0b c7f810000000 c3");
    g_assert_cmphex(at(b, 64, CODE + 0x200)->from, ==, CODE + 0x20b);
    put(w, 0x300, "ce c3");
    g_assert_cmphex(at(b, 32, CODE + 0x300)->from, ==, CODE + 0x301);
    g_assert_null(at(b, 64, CODE + 0x300));
    for (unsigned i = 0; i < G_N_ELEMENTS(exits); i++) {
        put(w, 0x400 + 16 * i, exits[i]);
        g_assert_true(at(b, 64, CODE + 0x400 + 16 * i)->exits);
    }
    linked_blocks_free(b);
    g_free(w);
}

/* A long one is cut, and goes on in the next. */
static void test_long(void)
{
    struct world *w = world_new();
    struct linked_blocks *b = linked_blocks_new(1, read_code, w);
    struct linked_block *block = at(b, 64, CODE + 0x100);

    g_assert_cmpint(block->kind, ==, LINKED_ON);
    g_assert_cmpuint(block->instructions, ==, 64);
    g_assert_cmphex(block->starts, ==, UINT64_MAX);
    g_assert_cmphex(block->next, ==, CODE + 0x140);
    linked_blocks_free(b);
    g_free(w);
}

/* An instruction in two pages, or in pieces; and half of one */
static void test_pages(void)
{
    for (unsigned piece = 1; piece < 20; piece++) {
        struct world *w = world_new();
        struct linked_blocks *b = linked_blocks_new(1, read_code, w);
        struct linked_block *block;

        w->piece = piece;
        put(w, 0xffd, "e900010000");
        block = at(b, 64, CODE + 0xff0);
        g_assert_cmphex(block->from, ==, CODE + 0xffd);
        g_assert_cmphex(block->taken, ==, CODE + 0x1102);
        /* It is gone with either page. */
        linked_blocks_change(b, 0x5000, CODE + 0x1fff);
        g_assert_true(at(b, 64, CODE + 0xff0) != block);
        block = at(b, 64, CODE + 0xff0);
        linked_blocks_change(b, 0x5000, CODE);
        w->missing = CODE + 0x1000;
        /* Up to it the code is known. */
        g_assert_cmphex(at(b, 64, CODE + 0xff0)->next, ==, CODE + 0xffd);
        g_assert_null(at(b, 64, CODE + 0xffd));
        linked_blocks_free(b);
        g_free(w);
    }
}

static void test_links(void)
{
    struct world *w = world_new();
    struct linked_blocks *b = linked_blocks_new(0, read_code, w);
    struct linked_block *jump, *to, *other;
    enum pt_code_result result;
    unsigned asked;
    bool flushed;

    put(w, 0x100, "eb fe");
    put(w, 0x200, "e9 fb0d0000");           /* to the next page */
    put(w, 0x1000, "c3");
    jump = at(b, 64, CODE + 0x200);
    g_assert_null(jump->link[1].to);
    to = linked_blocks_follow(b, jump, 1, 0x5000, 64, &start, &result,
                              &flushed);
    g_assert_true(jump->link[1].to == to && to->start == CODE + 0x1000);
    /* One that is known is not asked for again. */
    asked = w->asked;
    g_assert_true(at(b, 64, CODE + 0x1000) == to);
    g_assert_cmpuint(w->asked, ==, asked);
    /* In another address space and mode it is another one. */
    other = linked_blocks_at(b, 0x6000, 64, CODE + 0x1000, &start, &result,
                             &flushed);
    g_assert_true(other && other != to);
    g_assert_true(at(b, 32, CODE + 0x1000) != to);
    /* The kernel's are the same. */
    other = at(b, 64, 0xffffffff81000000 + CODE);
    g_assert_true(linked_blocks_at(b, 0x6000, 64, 0xffffffff81000000 + CODE,
                                   &start, &result, &flushed) == other);
    /* No link leads to what has changed. */
    put(w, 0x1000, "ffe0");
    linked_blocks_change(b, 0x5000, CODE + 0x1000);
    g_assert_null(jump->link[1].to);
    to = linked_blocks_follow(b, jump, 1, 0x5000, 64, &start, &result,
                              &flushed);
    g_assert_cmpint(to->kind, ==, LINKED_JUMP_TO);
    g_assert_true(jump->link[1].to == to);
    /* One to itself */
    jump = at(b, 64, CODE + 0x100);
    g_assert_true(linked_blocks_follow(b, jump, 1, 0x5000, 64, &start,
                                       &result, &flushed) == jump);
    linked_blocks_change(b, 0x5000, CODE);
    g_assert_null(jump->link[1].to);
    g_assert_true(at(b, 64, CODE + 0x100) != jump);
    linked_blocks_free(b);
    g_free(w);
}

static void test_expire(void)
{
    struct world *w = world_new();
    struct linked_blocks *b = linked_blocks_new(0, read_code, w);
    struct pt_moment m = { .records = 9 };
    struct linked_block *block;

    w->until = 10;
    block = at(b, 64, CODE + 0x100);
    w->until = UINT64_MAX;
    at(b, 64, CODE + 0x1100);
    g_assert_cmpuint(linked_blocks_until_records(b), ==, 10);
    linked_blocks_expire(b, &m, false);
    g_assert_true(at(b, 64, CODE + 0x100) == block);
    m.records = 10;
    linked_blocks_expire(b, &m, false);
    g_assert_true(at(b, 64, CODE + 0x100) != block);
    g_assert_cmpuint(linked_blocks_until_records(b), ==, UINT64_MAX);
    /* Behind a gap, numbers of records say nothing. */
    w->until = 20;
    block = at(b, 64, CODE + 0x2100);
    linked_blocks_expire(b, &m, true);
    g_assert_true(at(b, 64, CODE + 0x2100) != block);
    g_assert_cmpuint(linked_blocks_counted(b)->changed, ==, 2);
    linked_blocks_free(b);
    g_free(w);
}

/* There is no room for more: all are dropped, and made again. */
static void test_flush(void)
{
    struct world *w = world_new();
    struct linked_blocks *b = linked_blocks_new(1, read_code, w);
    enum pt_code_result result;
    unsigned flushes = 0;

    for (unsigned i = 0; i < 1000; i++) {
        struct linked_block *block;
        bool flushed;

        block = linked_blocks_at(b, 0x5000, 64, CODE + i * 8, &start, &result,
                                 &flushed);
        flushes += flushed;
        g_assert_cmphex(block->start, ==, CODE + i * 8);
        g_assert_true(at(b, 64, CODE + i * 8) == block);
    }
    g_assert_cmpuint(flushes, ==, 15);
    g_assert_cmpuint(linked_blocks_counted(b)->flushed, ==, 15);
    /* What is not known takes no room. */
    w->missing = CODE;
    for (unsigned i = 0; i < 1000; i++) {
        g_assert_null(at(b, 64, CODE + 0x100 + i));
        g_assert_null(at(b, 64, 0));
    }
    g_assert_cmpuint(linked_blocks_counted(b)->flushed, ==, 15);
    linked_blocks_free(b);
    g_free(w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/linked-blocks/kinds", test_kinds);
    g_test_add_func("/linked-blocks/plain", test_plain);
    g_test_add_func("/linked-blocks/long", test_long);
    g_test_add_func("/linked-blocks/pages", test_pages);
    g_test_add_func("/linked-blocks/links", test_links);
    g_test_add_func("/linked-blocks/expire", test_expire);
    g_test_add_func("/linked-blocks/flush", test_flush);
    return g_test_run();
}
