/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions that ran between two records: see block.h
 */

#include "gdb/block.h"
#include "symbolize/entry-place.h"
#include "symbolize/instruction.h"

/* Bytes that are read at once */
#define PIECE   512

size_t block_code(struct symbolizer *s, const struct process *process,
                  const struct symbolizer_where *where, uint64_t address,
                  void *buf, size_t n)
{
    bool exact;

    return symbolizer_code_captured(s, where, address) ?
           symbolizer_code(s, process, where, address, buf, n, &exact) :
           symbolizer_constant(s, process, where, address, buf, n);
}

struct symbolizer_where block_where(const struct lane_record *begin,
                                    const struct lane_record *end)
{
    struct symbolizer_where where = lane_where(end ? end : begin);

    if (!end) {
        where.index++;
    }
    return where;
}

/* Where a branch into the kernel goes; false if that has no name */
static bool find_target(struct symbolizer *s, const struct lane_record *r,
                        struct place *to)
{
    const struct symbolizer_where where = lane_where(r);

    if (r->record.to < ADDRESS_SHARED) {
        return false;
    }
    symbolizer_target(s, r->process, &where, r->record.to, to);
    return to->function->known;
}

/* Of a call with a relative address */
#define CALL_SIZE   5
/* Of a retpoline, from its call to what is called, and from there to its return
 * */
#define NEAR        32

static bool is_instruction(struct symbolizer *s, const struct lane_record *r,
                           enum instruction_kind kind)
{
    const struct symbolizer_where where = lane_where(r);
    uint8_t bytes[INSTRUCTION_MAX];
    struct instruction insn;
    size_t n = block_code(s, r->process, &where, r->record.from, bytes,
                          sizeof(bytes));

    return instruction_decode(bytes, n, 64, r->record.from, &insn) &&
           insn.kind == kind;
}

/* A function can lie right behind its caller. */
static bool enters_function(struct symbolizer *s, const struct lane_record *r)
{
    struct place to;

    return find_target(s, r, &to) && !to.offset;
}

bool block_near_call(struct symbolizer *s, const struct lane_record *r)
{
    const struct btrail_record *c = &r->record;

    return c->from >= ADDRESS_SHARED && c->to - c->from > CALL_SIZE &&
           c->to - c->from < NEAR && is_instruction(s, r, INSTRUCTION_CALL) &&
           !enters_function(s, r);
}

bool block_iret(struct symbolizer *s, const struct lane_record *r)
{
    return r->record.from >= ADDRESS_SHARED &&
           is_instruction(s, r, INSTRUCTION_IRET);
}

/* What the CPU goes to with a record, see entry_place_handler(); or 0 */
static uint64_t handler_kind(struct symbolizer *s, const struct lane_record *r)
{
    struct place to;
    uint64_t kind = find_target(s, r, &to) ? entry_place_handler(&to) : 0;

    /*
     * An IRET to a handler returns there, where an NMI has come as it began:
     * Linux lets no interrupts come before an IRET.  NMIs come anywhere.
     */
    return !kind || g_str_has_suffix(to.function->name, "nmi") ||
           !block_iret(s, r) ? kind : 0;
}

bool block_interrupted(struct symbolizer *s, const struct lane_record *r)
{
    return handler_kind(s, r) == BTRAIL_PSEUDO_INTERRUPT;
}

bool block_delivery(struct symbolizer *s, const struct lane_record *r)
{
    return handler_kind(s, r);
}

bool block_retpoline(struct symbolizer *s, const struct lane_record *call,
                     const struct lane_record *ret)
{
    const struct btrail_record *c = &call->record, *r = &ret->record;

    return r->from - c->to < NEAR && r->to != c->from + CALL_SIZE &&
           !ret->lost && block_near_call(s, call) &&
           is_instruction(s, ret, INSTRUCTION_RET);
}

/**
 * struct code - bytes that are read ahead
 */
struct code {
    struct symbolizer *s;
    const struct process *process;
    struct symbolizer_where where;
    uint8_t bytes[PIECE];
    uint64_t address;
    size_t n;
};

/* The instruction at an address */
static bool decode(struct code *c, uint64_t address, unsigned bits,
                   struct instruction *insn)
{
    uint64_t skip = address - c->address;

    if (skip > c->n || c->n - skip < INSTRUCTION_MAX) {
        c->address = address;
        c->n = block_code(c->s, c->process, &c->where, address, c->bytes,
                          sizeof(c->bytes));
        skip = 0;
    }
    return instruction_decode(c->bytes + skip, c->n - skip, bits, address,
                              insn);
}

static void add(struct block *b, uint64_t address)
{
    g_array_append_val(b->addresses, address);
}

/* Adds instructions up to the one at @to.  False if it does not come there. */
static bool add_all(struct block *b, struct code *c, uint64_t from,
                    uint64_t to)
{
    struct instruction insn;

    if (to - from > BLOCK_MAX) {
        add(b, from);
        return false;
    }
    for (uint64_t at = from; at - from <= to - from; at += insn.length) {
        add(b, at);
        if (at == to) {
            return true;
        }
        if (!decode(c, at, b->bits, &insn) || instruction_always_goes(&insn)) {
            break;
        }
    }
    return false;
}

struct block block_read(struct symbolizer *s, const struct lane_record *begin,
                        const struct lane_record *end)
{
    struct block b = {
        .addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t)), .bits = 64,
    };
    const struct process *process = end ? end->process : begin->process;
    struct code c = {
        .s = s, .process = process, .where = block_where(begin, end),
    };
    bool begins = !btrail_pseudo_name(begin->record.to);
    bool ends = end && !btrail_pseudo_name(end->record.from);
    uint64_t to = begin->record.to, from = end ? end->record.from : 0;

    if (begins || ends) {
        b.bits = symbolizer_bits(s, process, &c.where, begins ? to : from);
    }
    if (!begins || !ends || end->lost) {
        if (begins) {
            add(&b, to);
        }
        b.hole = begins && ends;
        if (ends) {
            add(&b, from);
        }
    } else if (!add_all(&b, &c, to, from)) {
        b.hole = b.addresses->len;
        add(&b, from);
    }
    if (ends && block_interrupted(s, end)) {
        g_array_set_size(b.addresses, b.addresses->len - 1);
        b.hole = b.hole == b.addresses->len ? 0 : b.hole;
    }
    return b;
}

void block_clear(struct block *b)
{
    g_clear_pointer(&b->addresses, g_array_unref);
}

uint64_t block_address(const struct block *b, unsigned i)
{
    return g_array_index(b->addresses, uint64_t, i);
}
