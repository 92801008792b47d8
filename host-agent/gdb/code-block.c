/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions that ran between two records: see code-block.h
 */

#include "gdb/code-block.h"
#include "symbolize/entry-place.h"
#include "symbolize/instruction.h"
#include "util/hash.h"
#include "util/search.h"

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
/*
 * Of a retpoline, from its call to what is called, and from there to its return
 */
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

/* A function can lie right after its caller. */
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

/*
 * Adds instructions up to the one at @to.  False if execution does not come
 * there.
 */
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

/* Instructions whose ways are kept */
#define WAYS_MAX    (1u << 20)
/* None of them is before that. */
#define NOWHERE     UINT64_MAX

/**
 * struct block_search
 * @process, @where, @bits: where code was read, and in which mode
 * @ways: address of an instruction -> the first of the addresses that execution
 *        from there on comes to without a branch; or NOWHERE
 * @ends: of each of the addresses, the last one that a way can come to from
 *        there
 * @steps: instructions of the way that is followed
 */
struct block_search {
    struct symbolizer *s;
    const uint64_t *addresses;
    size_t n;
    const struct process *process;
    struct symbolizer_where where;
    unsigned bits;
    uint64_t *ends;
    GHashTable *ways;
    GArray *steps;
};

struct block_search *block_search_new(struct symbolizer *s,
                                      const uint64_t *addresses, size_t n)
{
    struct block_search *b = g_new0(struct block_search, 1);

    b->s = s;
    b->addresses = addresses;
    b->n = n;
    b->ends = g_new(uint64_t, n);
    for (size_t i = n; i--;) {
        b->ends[i] = i + 1 < n && addresses[i + 1] - addresses[i] <= BLOCK_MAX ?
                     b->ends[i + 1] : addresses[i];
    }
    b->ways = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, g_free,
                                    g_free);
    b->steps = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    return b;
}

void block_search_free(struct block_search *b)
{
    if (b) {
        g_hash_table_unref(b->ways);
        g_array_unref(b->steps);
        g_free(b->ends);
        g_free(b);
    }
}

/* Which of the addresses is the first one from @at on, within reach; or @n */
static size_t next_of(const struct block_search *b, uint64_t at)
{
    size_t i = at ? btrail_up_to(b->addresses, b->n, sizeof(uint64_t), false,
                                 0, at - 1) : 0;

    return i < b->n && b->addresses[i] - at <= BLOCK_MAX ? i : b->n;
}

static bool is_wanted(const struct block_search *b, uint64_t address)
{
    size_t i = btrail_up_to(b->addresses, b->n, sizeof(uint64_t), false, 0,
                            address);

    return i && b->addresses[i - 1] == address;
}

/* Is the code up to an address what it was when ways were followed? */
static bool is_same_code(const struct block_search *b,
                         const struct process *process,
                         const struct symbolizer_where *where, unsigned bits,
                         uint64_t from, uint64_t to)
{
    const struct symbolizer_where *first = where->index < b->where.index ?
                                           where : &b->where;
    uint64_t last = MAX(where->index, b->where.index);

    return process == b->process && bits == b->bits &&
           where->vcpu == b->where.vcpu && where->cr3 == b->where.cr3 &&
           where->time == b->where.time && where->kernel == b->where.kernel &&
           where->leaves == b->where.leaves &&
           symbolizer_code_until(b->s, first, from,
                                 to - from + INSTRUCTION_MAX) > last;
}

static void keep_ways(struct block_search *b, uint64_t end)
{
    if (g_hash_table_size(b->ways) + b->steps->len > WAYS_MAX) {
        g_hash_table_remove_all(b->ways);
    }
    for (guint i = 0; i < b->steps->len; i++) {
        uint64_t *step = g_new(uint64_t, 1), *to = g_new(uint64_t, 1);

        *step = g_array_index(b->steps, uint64_t, i);
        *to = end;
        g_hash_table_replace(b->ways, step, to);
    }
}

/* Which of the addresses execution comes to first, from @from on */
static uint64_t follow(struct block_search *b, uint64_t from)
{
    struct code c = { .s = b->s, .process = b->process, .where = b->where };
    uint64_t end = NOWHERE, at = from;
    struct instruction insn;

    g_array_set_size(b->steps, 0);
    while (at >= from) {
        size_t i = next_of(b, at);
        const uint64_t *known = g_hash_table_lookup(b->ways, &at);

        if (i == b->n || known || b->addresses[i] == at) {
            end = known ? *known : i < b->n ? at : NOWHERE;
            break;
        }
        g_array_append_val(b->steps, at);
        if (!decode(&c, at, b->bits, &insn) || instruction_always_goes(&insn)) {
            break;
        }
        at += insn.length;
    }
    keep_ways(b, end);
    return end;
}

bool block_search_has(struct block_search *b, const struct lane_record *begin,
                      const struct lane_record *end)
{
    const struct process *process = end ? end->process : begin->process;
    const struct symbolizer_where where = block_where(begin, end);
    uint64_t to = begin->record.to, from = end ? end->record.from : 0;
    unsigned bits;
    size_t i;

    if (!end || end->lost || btrail_pseudo_name(to) ||
        btrail_pseudo_name(from) || from - to > BLOCK_MAX) {
        /* There is nothing to decode. */
        struct block block = block_read(b->s, begin, end);
        bool found = false;

        for (i = 0; i < block.addresses->len; i++) {
            found |= is_wanted(b, block_address(&block, i));
        }
        block_clear(&block);
        return found;
    }
    if (is_wanted(b, from) && !block_interrupted(b->s, end)) {
        return true;
    }
    i = next_of(b, to);
    if (from < to) {
        /*
         * Nobody executes code that wraps around the end of the address
         * space.
         */
        return is_wanted(b, to);
    }
    if (i == b->n || b->addresses[i] >= from) {
        return false;
    }
    bits = symbolizer_bits(b->s, process, &where, to);
    if (!is_same_code(b, process, &where, bits, to, b->ends[i])) {
        g_hash_table_remove_all(b->ways);
        b->process = process;
        b->where = where;
        b->bits = bits;
    }
    return follow(b, to) < from;
}

void block_clear(struct block *b)
{
    g_clear_pointer(&b->addresses, g_array_unref);
}

uint64_t block_address(const struct block *b, unsigned i)
{
    return g_array_index(b->addresses, uint64_t, i);
}
