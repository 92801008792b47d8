/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kinds of edges: see stack-edge.h
 */

#include <string.h>

#include "lib/agent/code-piece.h"
#include "symbolize/entry-place.h"
#include "symbolize/executed.h"
#include "symbolize/instruction.h"
#include "symbolize/retpoline.h"
#include "symbolize/stack-edge.h"
#include "util/hash.h"

#define FIRST_BITS      12

/* How far into a function a jump to another stack is looked for */
#define RESTACKS_WITHIN 512

/* The target of a call that is this close after it is not a function. */
#define NEAR_CALL       32

/* The space of edges in the kernel; user edges have one for each process */
#define KERNEL_SPACE    UINT32_MAX

/* Edges are allocated this many at a time, and do not move. */
#define GROUP           1024

/* Those that came last, close together, so that a cache has them */
#define RECENT_BITS     15

#define PAGE            BTRAIL_CODE_PAGE_SIZE
#define PAGES_BITS      11

/*
 * The content that a page has for some records of a vCPU
 *
 * @page:  its address, with the number of the vCPU in the low bits, and with
 *         CROSSES for instructions that can end on the next page
 * @cr3:   of a page of user mode
 * @since: the first record
 * @n:     how many; 0: none
 */
struct known_content {
    uint64_t page;
    uint64_t cr3;
    uint64_t since;
    uint64_t n;
    uint64_t content;
};

#define CROSSES         (PAGE / 2)
G_STATIC_ASSERT(BTRAIL_MAX_VCPUS <= CROSSES);

struct stack_edges {
    struct symbolizer *s;
    size_t many;
    struct known_content pages[1u << PAGES_BITS];
    struct btrail_code_stretch stretches[BTRAIL_MAX_VCPUS];
    const struct stack_edge *recent[1u << RECENT_BITS];
    struct stack_edge **slots;
    unsigned bits;
    size_t used;
    GPtrArray *groups;          /* of GROUP edges */
};

/* Does a retpoline end at an address, with a return or a jump to one? */
static bool is_retpoline_end(struct stack_edges *st,
                             const struct process *process,
                             const struct symbolizer_where *where,
                             uint64_t address)
{
    uint8_t bytes[RETPOLINE_BEFORE];
    size_t n = sizeof(bytes);
    bool exact;

    if (symbolizer_code(st->s, process, where, address - n, bytes, n,
                        &exact) < n) {
        /* The page before this one is not known. */
        n = MIN(n, address % BTRAIL_CODE_PAGE_SIZE);
        n = symbolizer_code(st->s, process, where, address - n, bytes, n,
                            &exact) == n ? n : 0;
    }
    return retpoline_end(bytes, n, symbolizer_bits(st->s, process, where,
                                                  address));
}

/* Does nothing return to the place from which @e calls? */
static bool is_retpoline_call(struct stack_edges *st,
                              const struct process *process,
                              const struct symbolizer_where *where,
                              const struct stack_edge *e)
{
    struct symbolizer_where there = *where;
    uint8_t bytes[RETPOLINE_TARGET];
    bool exact;
    size_t n;

    there.index++;
    n = symbolizer_code(st->s, process, &there, e->to, bytes, sizeof(bytes),
                        &exact);
    return retpoline_target(bytes, n,
                            symbolizer_bits(st->s, process, &there, e->to),
                            e->to - e->back <= RETPOLINE_SKIP);
}

/*
 * The kind of an edge that the instruction in the file cannot have made.  A
 * kernel changes its code when it boots: it replaces calls of a thunk by what
 * the thunk does, and no-ops by jumps.  The same holds for the vDSO.
 */
static enum stack_edge_kind kind_of_changed(struct stack_edges *st,
                                      const struct process *process,
                                      const struct symbolizer_where *where,
                                      const struct stack_edge *e,
                                      const struct instruction *insn)
{
    struct place target;

    if (e->handler) {
        return STACK_EDGE_INTERRUPT;
    }
    switch (insn->kind) {
    case INSTRUCTION_CALL:
        return STACK_EDGE_CALL;
    case INSTRUCTION_JUMP:
        symbolizer_place(st->s, process, where, insn->target, &target);
        if (strstr(target.function->name, "return_thunk") &&
            !is_retpoline_end(st, process, where, e->from)) {
            return STACK_EDGE_RET;
        }
        return STACK_EDGE_JUMP_FAR;
    default:
        return e->from_fn == e->to_fn ? STACK_EDGE_JUMP :
               e->start ? STACK_EDGE_CALL : STACK_EDGE_INTERRUPT;
    }
}

/*
 * Is this where one BPF program begins if another one jumps to it?  That skips
 * the first instructions, which have no call.
 */
static bool is_tail_entry(const struct place *place)
{
    const char *name = place->function->name;

    return place->offset >= 10 && place->offset <= 16 &&
           !strncmp(name, "bpf_prog_", 9) &&
           strspn(name + 9, "0123456789abcdef") >= 16;
}

/*
 * Does a program jump to another stack of its own?  The stack pointer is in no
 * record, but the code that loads it is known.  So this is no call at the end
 * of a function, which leaves it as it was.
 */
static bool is_restacking(struct stack_edges *st,
                          const struct process *process,
                          const struct symbolizer_where *where,
                          const struct place *from, uint64_t address)
{
    uint8_t bytes[RESTACKS_WITHIN];
    bool exact;

    return from->function->known && from->offset <= sizeof(bytes) &&
           symbolizer_bits(st->s, process, where, address) == 64 &&
           symbolizer_code(st->s, process, where, address - from->offset,
                           bytes, from->offset, &exact) == from->offset &&
           instruction_changes_stack(bytes, from->offset);
}

static void classify(struct stack_edges *st, const struct process *process,
                     const struct symbolizer_where *where,
                     struct stack_edge *e)
{
    bool from_kernel = e->from >= ADDRESS_SHARED;
    bool to_kernel = e->to >= ADDRESS_SHARED;
    uint8_t bytes[INSTRUCTION_MAX];
    struct instruction insn;
    struct place from, to;
    bool exact;
    size_t n;

    symbolizer_place(st->s, process, where, e->from, &from);
    symbolizer_target(st->s, process, where, e->to, &to);
    n = symbolizer_code(st->s, process, where, e->from, bytes,
                        sizeof(bytes), &exact);
    instruction_decode(bytes, n, symbolizer_bits(st->s, process, where,
                                                 e->from),
                       e->from, &insn);
    e->from_fn = from.function;
    e->to_fn = to.function;
    e->start = to.function->known &&
               (!to.offset || (e->from_fn != e->to_fn && is_tail_entry(&to)));
    e->handler = to_kernel && entry_place_handler(&to);
    e->back = insn.length ? e->from + insn.length : 0;
    if (from_kernel && e->handler && executed_anywhere(&insn)) {
        e->back = e->from;
        e->kind = STACK_EDGE_INTERRUPT;
        return;
    }
    if (!instruction_goes(&insn, e->to) &&
        (from_kernel ? to_kernel && !exact :
         !to_kernel && process->known)) {
        e->kind = kind_of_changed(st, process, where, e, &insn);
        e->back = e->kind == STACK_EDGE_INTERRUPT ? e->from : 0;
        return;
    }
    if (!instruction_goes(&insn, e->to)) {
        /* The instruction was interrupted, and is executed afterwards. */
        e->back = e->from;
        e->kind = to_kernel && !from_kernel ? STACK_EDGE_ENTRY :
                  STACK_EDGE_INTERRUPT;
        return;
    }
    if (to_kernel != from_kernel) {
        e->kind = to_kernel ? STACK_EDGE_ENTRY : STACK_EDGE_EXIT;
        if (to_kernel && insn.kind != INSTRUCTION_SYSCALL &&
            insn.kind != INSTRUCTION_INT && insn.length) {
            e->back = e->from;
        }
        return;
    }
    switch (insn.kind) {
    case INSTRUCTION_UNKNOWN:
        e->kind = STACK_EDGE_UNKNOWN;
        break;
    case INSTRUCTION_CALL:
        /* Code calls the next instruction to get its own address. */
        e->kind = e->to == e->back ? STACK_EDGE_JUMP : STACK_EDGE_CALL;
        if (!exact && !insn.direct) {
            /* The kernel may have replaced it by a shorter one. */
            e->back = 0;
        }
        e->inner = e->from_fn == e->to_fn && !e->start;
        if ((e->inner && to_kernel && e->to - e->from < NEAR_CALL) ||
            (insn.direct && is_retpoline_call(st, process, where, e))) {
            /* Such a call fills the return predictor, or is a jump. */
            e->kind = STACK_EDGE_JUMP;
        }
        e->inner &= e->from_fn->known;
        e->switches = to_kernel && e->start &&
                      !strcmp(to.function->name, "__switch_to_asm");
        e->ends = to_kernel && e->start &&
                  !strcmp(to.function->name, "do_task_dead");
        break;
    case INSTRUCTION_RET:
        e->kind = is_retpoline_end(st, process, where, e->from) ?
                  STACK_EDGE_JUMP_FAR : STACK_EDGE_RET;
        break;
    case INSTRUCTION_IRET:
    case INSTRUCTION_SYSRET:
        /* One to the next instruction only serializes. */
        e->kind = e->to == e->back ? STACK_EDGE_JUMP : STACK_EDGE_IRET;
        break;
    case INSTRUCTION_INT:
        e->kind = STACK_EDGE_INTERRUPT;
        break;
    case INSTRUCTION_JUMP:
        /* Keep the entry of a system call, whose name is the call's. */
        e->stays = to_kernel && e->from_fn != e->to_fn && e->start &&
                   from.function->syscall;
        e->kind = !insn.direct ? STACK_EDGE_JUMP_FAR :
                  is_retpoline_end(st, process, where, e->from) ?
                  STACK_EDGE_REPLACES : STACK_EDGE_JUMP;
        e->restacks = !insn.direct && !from_kernel &&
                      is_restacking(st, process, where, &from, e->from);
        break;
    default:
        e->kind = STACK_EDGE_JUMP;
        break;
    }
}

/* Finds the content of the page of a branch at record @index. */
static void find_content(struct stack_edges *st,
                         const struct symbolizer_where *where, uint64_t index,
                         uint64_t from, struct known_content *c)
{
    struct symbolizer_where at = *where;

    at.index = index;
    c->since = index;
    c->n = symbolizer_code_until(st->s, &at, from, INSTRUCTION_MAX) - index;
    c->content = symbolizer_code_content(st->s, &at, from);
    if (c->page & CROSSES) {
        c->content = btrail_hash3(c->content, symbolizer_code_content(
            st->s, &at, from + INSTRUCTION_MAX), 0);
    }
}

/* The same, from those that are remembered */
static const struct known_content *
get_content(struct stack_edges *st, const struct symbolizer_where *where,
            uint64_t index, uint64_t from)
{
    uint64_t cr3 = from >> 63 ? 0 : where->cr3;
    uint64_t page = (from & -(uint64_t)PAGE) | where->vcpu |
                    (from % PAGE > PAGE - INSTRUCTION_MAX ? CROSSES : 0);
    struct known_content *c = &st->pages[btrail_hash3(page, cr3, 0) >>
                                         (64 - PAGES_BITS)];

    if (c->page != page || c->cr3 != cr3 || index - c->since >= c->n) {
        c->page = page;
        c->cr3 = cr3;
        find_content(st, where, index, from, c);
    }
    return c;
}

/* The records around @index, in which code is the same: no more than these */
static const struct btrail_code_stretch *
get_stretch(struct stack_edges *st, const struct symbolizer_where *where,
            uint64_t index)
{
    struct btrail_code_stretch *s = &st->stretches[where->vcpu];

    if (!s->number || index < s->begin || index >= s->end) {
        struct symbolizer_where at = *where;

        at.index = index;
        *s = symbolizer_code_stretch(st->s, &at);
    }
    return s;
}

static struct stack_edge **edge_slot(const struct stack_edges *st,
                                     uint32_t space, uint32_t era,
                                     uint64_t content, uint64_t from,
                                     uint64_t to)
{
    size_t mask = ((size_t)1 << st->bits) - 1;
    size_t i = btrail_hash3(from, to + (content << 48),
                            (uint64_t)era << 32 | space) >> (64 - st->bits);

    for (;; i = (i + 1) & mask) {
        const struct stack_edge *e = st->slots[i];

        if (!e || (e->from == from && e->to == to && e->space == space &&
                   e->era == era && e->content == content)) {
            return &st->slots[i];
        }
    }
}

static void grow_edges(struct stack_edges *st)
{
    size_t i, n = (size_t)1 << st->bits;
    struct stack_edge **old = st->slots;

    st->bits++;
    st->slots = g_new0(struct stack_edge *, (size_t)1 << st->bits);
    for (i = 0; i < n; i++) {
        if (old[i]) {
            *edge_slot(st, old[i]->space, old[i]->era, old[i]->content,
                       old[i]->from, old[i]->to) = old[i];
        }
    }
    g_free(old);
}

static struct stack_edge *new_edge(struct stack_edges *st)
{
    size_t i = st->used++ % GROUP;

    if (!i) {
        g_ptr_array_add(st->groups, g_new(struct stack_edge, GROUP));
    }
    return (struct stack_edge *)st->groups->pdata[st->groups->len - 1] + i;
}

/*
 * The edge of a record in an era, which is that of the kernel's names if it has
 * to do with the kernel
 */
static const struct stack_edge *
get_edge(struct stack_edges *st, const struct process *process,
         const struct symbolizer_where *where, uint32_t era,
         const struct btrail_record *r)
{
    uint32_t space = r->from >= ADDRESS_SHARED && r->to >= ADDRESS_SHARED ?
                     KERNEL_SPACE : process->owner->id;
    const struct known_content *known = get_content(st, where, where->index,
                                                    r->from);
    const struct btrail_code_stretch *stretch = get_stretch(st, where,
                                                            where->index);
    uint64_t content = known->content;
    struct stack_edge **slot = edge_slot(st, space, era, content, r->from,
                                         r->to), *e = *slot;

    if (!e) {
        if (st->used >= ((size_t)1 << st->bits) / 4 * 3) {
            grow_edges(st);
            slot = edge_slot(st, space, era, content, r->from, r->to);
        }
        *slot = e = new_edge(st);
        *e = (struct stack_edge) {
            .from = r->from, .to = r->to, .space = space, .era = era,
            .content = content,
        };
        classify(st, process->owner, where, e);
        e->plain = e->from_fn == e->to_fn &&
                   (e->kind == STACK_EDGE_JUMP ||
                    (e->kind == STACK_EDGE_UNKNOWN && !e->start));
    }
    /* What is not known may be reported later in the stretch. */
    e->stretches[where->vcpu % STACK_EDGE_VCPUS] =
        known->since + known->n >= stretch->end ? stretch->number : 0;
    return e;
}

const struct stack_edge *
stack_edges_get(struct stack_edges *st, const struct process *process,
                const struct symbolizer_where *where,
                const struct btrail_record *r)
{
    return get_edge(st, process, where, (r->from | r->to) < ADDRESS_SHARED ?
                    btrail_cr3_code_bits(where->cr3) :
                    symbolizer_era(st->s, where), r);
}

void stack_edges_get_all(struct stack_edges *st, const struct process *process,
                         const struct symbolizer_where *where,
                         const struct btrail_record *records, size_t n,
                         const struct stack_edge **edges,
                         struct stack_run *runs)
{
    const uint32_t id = process->owner->id;
    const uint32_t all_era = symbolizer_era(st->s, where);
    const uint32_t mode = btrail_cr3_code_bits(where->cr3);
    const unsigned vcpu = where->vcpu % STACK_EDGE_VCPUS;
    const struct stack_edge *before = NULL;
    struct stack_run run;
    uint32_t stretch = 0;
    uint64_t end = 0;           /* of the stretch */

    for (size_t i = 0; i < n; i++) {
        uint64_t from = records[i].from, to = records[i].to;
        uint32_t space = (from & to) >> 63 ? KERNEL_SPACE : id;
        uint32_t era = (from | to) >> 63 ? all_era : mode;
        const struct stack_edge **recent =
            &st->recent[btrail_hash3(from, to, space) >> (64 - RECENT_BITS)];
        const struct stack_edge *e = *recent;
        bool stays;

        if (G_UNLIKELY(where->index + i >= end)) {
            const struct btrail_code_stretch *s =
                get_stretch(st, where, where->index + i);

            stretch = s->number;
            end = s->end;
        }
        if (G_UNLIKELY(!e || e->from != from || e->to != to ||
                       e->space != space || e->era != era ||
                       e->stretches[vcpu] != stretch)) {
            struct symbolizer_where at = *where;

            at.index += i;
            e = get_edge(st, process, &at, era, &records[i]);
            *recent = e;
        }
        stays = before && e->plain && e->from_fn == before->to_fn &&
                     !((e->from ^ before->to) >> 63);

        /* Which one it is cannot be predicted: no branches here */
        runs += before && !stays;
        run.n = stays ? run.n + 1 : 0;
        run.unknown = stays ? run.unknown + (e->kind == STACK_EDGE_UNKNOWN) :
                      0;
        *runs = run;
        edges[i] = before = e;
    }
}

bool stack_edges_many(const struct stack_edges *st)
{
    return st->used >= st->many;
}

static void begin_edges(struct stack_edges *st)
{
    st->bits = FIRST_BITS;
    st->used = 0;
    st->slots = g_new0(struct stack_edge *, (size_t)1 << st->bits);
    st->groups = g_ptr_array_new_with_free_func(g_free);
}

static void end_edges(struct stack_edges *st)
{
    g_free(st->slots);
    g_ptr_array_unref(st->groups);
}

void stack_edges_reset(struct stack_edges *st)
{
    end_edges(st);
    memset(st->recent, 0, sizeof(st->recent));
    begin_edges(st);
}

struct stack_edges *stack_edges_new(struct symbolizer *s, unsigned many)
{
    struct stack_edges *st = g_new0(struct stack_edges, 1);

    st->s = s;
    st->many = many ? many : STACK_MANY_EDGES;
    begin_edges(st);
    return st;
}

void stack_edges_free(struct stack_edges *st)
{
    if (st) {
        end_edges(st);
        g_free(st);
    }
}
