/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks: see mark.h
 */

#include <glib.h>
#include <string.h>

#include "backtrail-mark.h"
#include "util/cr3-pair.h"
#include "util/mark.h"

/*
 * A short jump, and the bytes after it: signature, version, flags, name and
 * NUL
 */
#define JUMP        0xeb
#define JUMP_SIZE   2
#define FIXED       10
#define HEAD_MIN    (FIXED + 2)
#define HEAD_MAX    (FIXED + MARK_NAME_MAX + 1)

/* In the other form there are 4 of these bytes in each instruction. */
#define NOP_SIZE    7
#define NOP_BYTES   4
#define NOP_HEAD    (NOP_SIZE - NOP_BYTES)

/* The instructions of the value's code */
enum {
    CODE_ZERO = 3,
    CODE_ONE = 5,
    CODE_LAST = 7,
    CODE_NONE = 9,
    CODE_END = 11,
};

G_STATIC_ASSERT(MARK_NAME_MAX == BACKTRAIL_MARK_NAME_MAX);

static const uint8_t plain[] = { BACKTRAIL_MARK_SIGNATURE };
static const uint8_t packed[] = {
    BACKTRAIL_MARK_NOP, BACKTRAIL_MARK_SIGNATURE_A_,
    BACKTRAIL_MARK_NOP, BACKTRAIL_MARK_SIGNATURE_B_,
};
static const uint8_t nop[] = { BACKTRAIL_MARK_NOP };

/* Can a jump go over this many bytes? */
static bool is_plain_size(unsigned size)
{
    return size >= HEAD_MIN && size <= HEAD_MAX;
}

static bool is_packed_size(unsigned size)
{
    unsigned n = size / NOP_SIZE * NOP_BYTES;

    return size % NOP_SIZE == 0 && n >= HEAD_MIN &&
           n < HEAD_MAX + NOP_BYTES;
}

bool mark_fits(uint64_t from, uint64_t to)
{
    uint64_t size = to - from - JUMP_SIZE;

    return size < MARK_SIZE_MAX &&
           (is_plain_size(size) || is_packed_size(size));
}

/* The bytes of a head that is in instructions; false if it is not. */
static bool unpack(const uint8_t *bytes, unsigned size, uint8_t *head)
{
    for (unsigned i = 0; i < size / NOP_SIZE; i++) {
        const uint8_t *insn = bytes + i * NOP_SIZE;

        if (memcmp(insn, nop, sizeof(nop))) {
            return false;
        }
        memcpy(head + i * NOP_BYTES, insn + NOP_HEAD, NOP_BYTES);
    }
    return true;
}

/* @n bytes, of which the last @padding can be NULs after the name's. */
static bool parse_head(const uint8_t *head, unsigned n, unsigned padding,
                       struct mark *mark)
{
    const uint8_t *flags = head + sizeof(plain) + 1;
    const char *name = (const char *)flags + 1;
    size_t room = n - FIXED, len = strnlen(name, room);

    if (memcmp(head, plain, sizeof(plain)) ||
        head[sizeof(plain)] != BACKTRAIL_MARK_VERSION ||
        *flags & ~BACKTRAIL_MARK_HAS_VALUE ||
        !len || len > MARK_NAME_MAX || len + 1 > room ||
        len + 1 + padding < room) {
        return false;
    }
    for (size_t i = len; i < room; i++) {
        if (name[i]) {
            return false;
        }
    }
    memcpy(mark->name, name, len);
    mark->name[len] = '\0';
    mark->has_value = *flags & BACKTRAIL_MARK_HAS_VALUE;
    return true;
}

bool mark_decode(const void *bytes, size_t n, uint64_t from,
                 struct mark *mark)
{
    const uint8_t *jump = bytes, *after = jump + JUMP_SIZE;
    uint8_t head[MARK_SIZE_MAX];
    unsigned size;

    if (n < JUMP_SIZE || jump[0] != JUMP || n - JUMP_SIZE < jump[1]) {
        return false;
    }
    size = jump[1];
    mark->from = from;
    mark->to = from + JUMP_SIZE + size;
    return (is_plain_size(size) && parse_head(after, size, 0, mark)) ||
           (is_packed_size(size) && unpack(after, size, head) &&
            parse_head(head, size / NOP_SIZE * NOP_BYTES, NOP_BYTES - 1,
                       mark));
}

/* Are the bytes from @at on, as far as the page has them, a signature's? */
static bool has_signature(const uint8_t *page, int at,
                          const uint8_t *signature, int n)
{
    return !memcmp(page + at, signature, MIN(n, MARK_PAGE - at));
}

/* A jump at an offset, which is on the page before if it is -1 */
static void scan_jump(const uint8_t *page, int at, mark_scan_fn *fn,
                      void *opaque)
{
    unsigned size = page[at + 1];
    int after = at + JUMP_SIZE;
    uint64_t from = (int64_t)at;
    struct mark mark;

    if ((!is_plain_size(size) ||
         !has_signature(page, after, plain, sizeof(plain))) &&
        (!is_packed_size(size) ||
         !has_signature(page, after, packed, sizeof(packed)))) {
        return;
    }
    if (at < 0 || after + size > MARK_PAGE) {
        fn(opaque, from, from + JUMP_SIZE + size, NULL);
    } else if (mark_decode(page + at, MARK_PAGE - at, from, &mark)) {
        fn(opaque, from, mark.to, &mark);
    }
}

void mark_scan(const uint8_t page[MARK_PAGE], mark_scan_fn *fn, void *opaque)
{
    const uint8_t *end = page + MARK_PAGE - 1, *at = page;

    scan_jump(page, -1, fn, opaque);
    while ((at = memchr(at, JUMP, end - at))) {
        scan_jump(page, at - page, fn, opaque);
        at++;
    }
}

void mark_value_begin(struct mark_value *v, const struct mark *mark)
{
    *v = (struct mark_value) { .jump = mark->from, .code = mark->to };
}

/* One more bit, after which there are others */
static enum mark_value_state add_bit(struct mark_value *v, uint64_t bit)
{
    if (v->bits == 63) {
        return MARK_VALUE_UNKNOWN;
    }
    v->value |= bit << v->bits++;
    v->at = 0;
    return MARK_VALUE_MORE;
}

/* A branch of the value's code, which goes to where it does */
static enum mark_value_state add_branch(struct mark_value *v, uint64_t from,
                                        uint64_t to)
{
    if (!to && (from == CODE_ZERO || from == CODE_ONE)) {
        return add_bit(v, from == CODE_ONE);
    }
    if (to == CODE_END && from == CODE_LAST) {
        v->value |= UINT64_C(1) << v->bits;
        return MARK_VALUE_KNOWN;
    }
    return to == CODE_END && from == CODE_NONE && !v->bits ?
           MARK_VALUE_KNOWN : MARK_VALUE_UNKNOWN;
}

/* Is an address, relative to the value's code, in the mark or its end? */
static bool is_own(const struct mark_value *v, uint64_t address)
{
    uint64_t size = v->code - v->jump;

    return address + size <= size + CODE_END;
}

static bool is_instruction(uint64_t offset)
{
    return !offset || (offset >= CODE_ZERO && offset < CODE_END &&
                       offset % 2);
}

/*
 * Whatever interrupts can run the same code, and be interrupted in it.  It has
 * returned before the interrupted one continues.
 */
static void add_away(struct mark_value *v, uint64_t from, uint64_t to)
{
    if (from == v->at && !is_own(v, to)) {
        v->inner++;
    } else if (to == v->at && !is_own(v, from)) {
        v->away = v->inner;
        v->inner -= v->away;
    }
}

enum mark_value_state mark_value_add(struct mark_value *v,
                                     const struct btrail_record *record,
                                     bool same)
{
    uint64_t from = record->from - v->code, to = record->to - v->code;

    if (v->away) {
        if (same) {
            add_away(v, from, to);
        }
        return MARK_VALUE_MORE;
    }
    if (!same || !is_instruction(from) || from < v->at) {
        return MARK_VALUE_UNKNOWN;
    }
    if (is_own(v, to)) {
        return add_branch(v, from, to);
    }
    v->away = true;
    v->at = from;
    return MARK_VALUE_MORE;
}

bool mark_thread_is_same(const struct mark_thread *t, const struct mark *mark,
                         const struct mark_thread *now)
{
    bool user = !(mark->from >> 63);

    if (t->named && now->named) {
        return t->tid == now->tid;
    }
    return !user || btrail_cr3_root(t->cr3) == btrail_cr3_root(now->cr3);
}

bool mark_thread_is_switched(const struct mark_thread *t,
                             const struct mark *mark,
                             const struct mark_thread *now)
{
    if (t->named || now->named) {
        return !mark_thread_is_same(t, mark, now);
    }
    return cr3_pair(t->cr3) != cr3_pair(now->cr3);
}
