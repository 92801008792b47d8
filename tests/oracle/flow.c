/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The flow of control: records and address spaces, from the blocks and
 * interruptions that the log has
 *
 * Only the last instruction of a block can branch.  A block is committed when
 * the log shows that it was indeed started; then the way from the block before
 * it, through all interruptions between the two, makes records.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "flow.h"

#define FLUSH_RECORDS   65536

#define EFL_CF          0x001u
#define EFL_PF          0x004u
#define EFL_ZF          0x040u
#define EFL_SF          0x080u
#define EFL_OF          0x800u

#define SVM_EXIT_EXCP_DB    0x41u
#define SVM_EXIT_INTR       0x60u
#define SVM_EXIT_VINTR      0x64u
/* A block that was executed: records before it, and where it begins */
struct executed {
    uint64_t index;
    uint64_t start;
    uint32_t len;
    uint32_t long_mode;
};

/* Index of the instruction of a block at pc, -1 if none begins there. */
static int insn_at(const struct step *s, uint64_t pc)
{
    uint64_t offset = pc - s->start;

    if (offset < s->code->len) {
        for (unsigned i = 0; i < s->code->insns; i++) {
            if (s->code->offset[i] == offset) {
                return i;
            }
        }
    }
    return -1;
}

/* The flow of control leaves s at its instruction number index. */
static void set_last(struct derive *d, struct step *s, unsigned index)
{
    const uint16_t *offset = s->code->offset;

    s->last.pc = s->start + offset[index];
    if (!(s->flags & HF_CS64)) {
        s->last.pc &= 0xffffffff;
    }
    s->last.bytes = s->code->bytes + offset[index];
    s->last.len = offset[index + 1] - offset[index];
    if (!insn_classify(&s->last, s->flags, s->cs_base)) {
        fail(d, "a branch with an impossible displacement");
    }
}

/* Does pc follow right behind s? */
static bool is_next(const struct step *s, uint64_t pc)
{
    uint64_t next = s->last.pc + s->last.len;

    if (s->flags & HF_CS64) {
        return pc == next;
    }
    if (pc == (next & 0xffffffff)) {
        return true;
    }
    /* 16-bit code may run over the end of its 64 KiB. */
    return !(s->flags & HF_CS32) &&
           pc == ((s->cs_base + ((next - s->cs_base) & 0xffff)) & 0xffffffff);
}

static uint64_t next_of(const struct step *s)
{
    uint64_t next = s->last.pc + s->last.len;

    return s->flags & HF_CS64 ? next : next & 0xffffffff;
}

static uint64_t count_register(const struct step *s, uint64_t cx)
{
    return s->last.addr_bits == 64 ? cx :
           cx & ((1ull << s->last.addr_bits) - 1);
}

/* Is the conditional branch s taken, given the registers before it? */
static bool is_taken(const struct step *s)
{
    uint32_t f = s->regs.flags;
    uint64_t left;
    bool r;

    if (s->last.kind == K_JCC) {
        switch (s->last.cond >> 1) {
        case 0:
            r = f & EFL_OF;
            break;
        case 1:
            r = f & EFL_CF;
            break;
        case 2:
            r = f & EFL_ZF;
            break;
        case 3:
            r = f & (EFL_CF | EFL_ZF);
            break;
        case 4:
            r = f & EFL_SF;
            break;
        case 5:
            r = f & EFL_PF;
            break;
        case 6:
            r = !(f & EFL_SF) != !(f & EFL_OF);
            break;
        default:
            r = (f & EFL_ZF) || !(f & EFL_SF) != !(f & EFL_OF);
            break;
        }
        return r != (s->last.cond & 1);
    }
    if (s->last.kind == K_JCXZ) {
        return count_register(s, s->regs.cx) == 0;
    }
    if (s->last.kind == K_INTO) {
        return f & EFL_OF;
    }
    left = count_register(s, s->regs.cx - 1);
    return left && (s->last.cond == 2 || s->last.cond == !!(f & EFL_ZF));
}

/* Records and address spaces. */

static void flush_queue(struct derive *d)
{
    if (d->queue_len && fwrite(d->queue, sizeof(*d->queue), d->queue_len,
                               d->out_records) != d->queue_len) {
        fail(d, "cannot write the records: %s", strerror(errno));
    }
    d->flushed += d->queue_len;
    d->queue_len = 0;
}

/* Adds a record; returns its index. */
static int64_t emit(struct derive *d, uint64_t from, uint64_t to,
                    enum kind kind, uint32_t flags)
{
    if (d->queue_len == d->queue_size) {
        d->queue_size = d->queue_size ? d->queue_size * 2 : 2 * FLUSH_RECORDS;
        d->queue = must(d, realloc(d->queue,
                                   d->queue_size * sizeof(*d->queue)));
    }
    if (!d->frame_count && d->queue_len >= FLUSH_RECORDS) {
        flush_queue(d);
    }
    d->queue[d->queue_len].from = from;
    d->queue[d->queue_len].to = to;
    d->queue[d->queue_len].flags = d->insn_count << 16 | d->doubt;
    d->doubt = false;
    d->count[kind][mode_of(flags)]++;
    return d->flushed + d->queue_len++;
}

static void end_span(struct derive *d)
{
    fprintf(d->out_spans, "%" PRIu64 " %s ", d->span_start,
            d->span_nested ? "nested" : "own");
    if (d->span_known) {
        fprintf(d->out_spans, "%" PRIx64 "\n", d->span_cr3);
    } else {
        fprintf(d->out_spans, "?\n");
    }
}

static void begin_span(struct derive *d, bool known, uint64_t cr3)
{
    end_span(d);
    d->span_start = d->flushed + d->queue_len;
    d->span_known = known;
    d->span_cr3 = known ? cr3 : 0;
    d->span_nested = d->nested;
}

/* A register dump shows the address space. */
static void learn_cr3(struct derive *d, uint64_t cr3)
{
    if (!d->span_known) {
        d->span_known = true;
        d->span_cr3 = cr3;
    } else if (d->span_cr3 != cr3) {
        fail(d, "CR3 went from %" PRIx64 " to %" PRIx64 " by itself",
             d->span_cr3, cr3);
    }
}

/* Real-mode frames whose return address is not known yet. */

static void patch(struct derive *d, int64_t record, bool to, uint64_t value)
{
    if (record >= 0) {
        struct record *r = &d->queue[record - d->flushed];

        *(to ? &r->to : &r->from) = value;
    }
}

static void resolve_frame(struct derive *d, uint64_t sp, uint64_t value)
{
    for (int i = d->frame_count - 1; i >= 0; i--) {
        if (d->frames[i].sp == sp) {
            patch(d, d->frames[i].to_patch, true, value);
            patch(d, d->frames[i].from_patch, false, value);
            d->frames[i] = d->frames[--d->frame_count];
            return;
        }
    }
}

static bool is_branch(enum kind kind)
{
    return kind >= K_JCC && kind <= K_VMRUN;
}

/*
 * P was not completed.  Whether QEMU counts it depends on where in QEMU its
 * fault was found: one at translation counts, one of an access to memory does
 * not.
 */
static void not_completed(struct derive *d)
{
    d->insn_count--;
    d->doubt = true;
}

/*
 * P was executed and the CPU then stood at pc: make the record if P has
 * branched there.
 */
static void flow(struct derive *d, uint64_t pc)
{
    const struct step *p = &d->prev;

    if (!p->valid) {
        return;
    }
    switch (p->last.kind) {
    case K_NONE:
    case K_MOVCR:
    case K_REP:
        if (is_next(p, pc)) {
            return;
        }
        if (pc == p->last.pc && p->last.kind == K_REP) {
            return;
        }
        if (!(p->flags & HF_PE)) {
            /* Only an NMI in real mode leaves no line in the log. */
            emit(d, next_of(p), pc, K_ASYNC, p->flags);
            return;
        }
        fail(d, "went to %" PRIx64 " without a branch", pc);
    case K_JCC:
    case K_LOOP:
    case K_JCXZ:
        if (is_next(p, pc)) {
            if (p->last.target == pc) {
                if (!p->regs.valid) {
                    fail(d, "whether a branch to the next instruction is "
                         "taken is not known: log with -d cpu");
                }
                if (is_taken(p)) {
                    emit(d, p->last.pc, pc, p->last.kind, p->flags);
                }
            }
            return;
        }
        if (pc != p->last.target) {
            fail(d, "a conditional branch to %" PRIx64 " went to %" PRIx64,
                 p->last.target, pc);
        }
        break;
    case K_INTO:
        if (is_next(p, pc)) {
            return;
        }
        break;
    case K_JMP:
    case K_CALL:
        if (pc != p->last.target) {
            fail(d, "a branch to %" PRIx64 " went to %" PRIx64,
                 p->last.target, pc);
        }
        break;
    case K_VMRUN:
        if (d->failed_vmrun) {
            if (!is_next(p, pc)) {
                fail(d, "a VMRUN that failed went to %" PRIx64, pc);
            }
            not_completed(d);
            return;
        }
        break;
    case K_INT:
    case K_INT3:
    case K_ICEBP:
        if (p->flags & HF_PE) {
            fail(d, "an interrupt to %" PRIx64 " that the log does not show",
                 pc);
        }
        break;
    default:
        break;
    }
    emit(d, p->last.pc, pc, p->last.kind, p->flags);
    if (p->last.kind == K_IRET && d->frame_count && p->regs.valid) {
        resolve_frame(d, p->regs.ss_base + (p->regs.sp & 0xffff), pc);
    }
}

/*
 * P was executed: what comes now is in the address space that it has loaded.
 * Which one that is the log has only in 64-bit mode; else the next register
 * dump shows it.
 */
static void flowed(struct derive *d)
{
    if (!d->prev.valid || d->failed_vmrun) {
        return;
    }
    d->nested |= d->prev.last.kind == K_VMRUN;
    if (d->prev.loads_cr3 || d->prev.last.kind == K_MOVCR ||
        d->prev.last.kind == K_RSM || d->prev.last.kind == K_VMRUN) {
        begin_span(d, d->prev.know_cr3, d->prev.new_cr3);
    }
}

/* Does this interruption come after P, whatever its address? */
static bool is_asynchronous(const struct interruption *it)
{
    switch (it->kind) {
    case K_HARDWARE:
    case K_ASYNC:
    case K_SMI:
    case K_INJECTED:
        return true;
    case K_VMEXIT:
        return (it->vector >= SVM_EXIT_INTR && it->vector <= SVM_EXIT_VINTR) ||
               it->vector == SVM_EXIT_EXCP_DB;
    default:
        return false;
    }
}

/*
 * Where the CPU stood when something interrupted it in real mode, whose log
 * line gives no address.  Returns false if only the stack knows.
 */
static bool real_mode_from(struct derive *d, const struct interruption *it,
                           uint64_t *from)
{
    const struct step *p = &d->prev;

    if (d->have_hint) {
        *from = d->hint;
        return true;
    }
    if (!p->valid) {
        fail(d, "interrupted before the first instruction");
    }
    if (it->kind == K_EXCEPTION && it->vector != VEC_DB) {
        if (p->code->insns > 1) {
            fail(d, "which instruction of a block has faulted is not known: "
                 "log with one-insn-per-tb=on");
        }
        *from = p->last.pc;
        return true;
    }
    switch (p->last.kind) {
    case K_NONE:
    case K_MOVCR:
        *from = next_of(p);
        return true;
    case K_JCC:
    case K_LOOP:
    case K_JCXZ:
        if (!p->regs.valid) {
            return false;
        }
        *from = is_taken(p) ? p->last.target : next_of(p);
        return true;
    case K_JMP:
    case K_CALL:
        *from = p->last.target;
        return true;
    default:
        return false;
    }
}

/* Flags of the mode that it interrupted: an injected event, the guest's. */
static uint32_t flags_of(struct derive *d, const struct interruption *it,
                         const struct step *n)
{
    return it->kind == K_INJECTED && n ? n->flags : d->prev.flags;
}

/* Go from P through all interruptions up to n; n is NULL after a reset. */
static void walk_chain(struct derive *d, const struct step *n)
{
    struct interruption *it = &d->chain[0];
    bool completed;

    if (!it->have_from) {
        if (!real_mode_from(d, it, &it->from)) {
            struct pending_frame *f = &d->frames[d->frame_count];

            if (!n || !n->regs.valid || d->chain_len != 1 ||
                d->frame_count == FRAMES_MAX) {
                fail(d, "only the stack knows where it was interrupted: log "
                     "with -d cpu");
            }
            d->frame_count++;      /* from here on nothing is written out */
            f->sp = n->regs.ss_base + (n->regs.sp & 0xffff);
            f->to_patch = d->prev.last.kind == K_REP ? -1 :
                          emit(d, d->prev.last.pc, 0, d->prev.last.kind,
                               d->prev.flags);
            flowed(d);
            f->from_patch = emit(d, 0, n->start, it->kind, flags_of(d, it, n));
            return;
        }
        it->have_from = true;
    }

    if (d->prev.valid && d->prev.code->insns > 1 && it->kind == K_EXCEPTION) {
        /* It may have come before the end of the block. */
        int index = insn_at(&d->prev, it->from);

        if (index >= 0) {
            d->insn_count -= d->prev.code->insns - 1 - index;
            set_last(d, &d->prev, index);
        }
    }
    if (it->kind == K_INT) {
        if (it->from != d->prev.last.pc) {
            fail(d, "int n at %" PRIx64, it->from);
        }
        it->kind = d->prev.last.kind;   /* int n, int3 or into */
    } else if (it->kind == K_ICEBP) {
        it->from = d->prev.last.pc;     /* the log has what it pushes */
    } else {
        completed = true;
        if (it->from == d->prev.last.pc && d->prev.valid &&
            !is_asynchronous(it)) {
            /* A fault; or a trap after a branch to itself. */
            completed = it->kind == K_EXCEPTION && it->vector == VEC_DB &&
                        is_branch(d->prev.last.kind);
        }
        if (completed) {
            flow(d, it->from);
            flowed(d);
        } else {
            not_completed(d);
        }
    }
    for (int i = 0; i < d->chain_len; i++) {
        it = &d->chain[i];
        if (!it->have_from) {
            fail(d, "an interruption without an address");
        }
        if (it->have_cr3) {
            learn_cr3(d, it->cr3);
        }
        if (i + 1 < d->chain_len) {
            emit(d, it->from, d->chain[i + 1].from, it->kind,
                 flags_of(d, it, n));
        } else if (n) {
            emit(d, it->from, n->start, it->kind, flags_of(d, it, n));
        }
        d->nested &= !it->exits;
        if (it->loads_cr3 || it->exits || it->kind == K_SMI) {
            begin_span(d, false, 0);
        }
    }
}

static void list_code(struct derive *d, const struct step *s)
{
    struct code *c = s->code;
    enum mode mode = mode_of(s->flags);

    if (c->listed == mode + 1) {
        return;
    }
    c->listed = mode + 1;
    for (unsigned i = 0; i < c->insns; i++) {
        fprintf(d->out_insns, "%" PRIx64 " %s ", s->start + c->offset[i],
                mode_name[mode]);
        for (unsigned j = c->offset[i]; j < c->offset[i + 1]; j++) {
            fprintf(d->out_insns, "%02x", c->bytes[j]);
        }
        fputc('\n', d->out_insns);
    }
}

static void list_execution(struct derive *d, const struct step *s)
{
    const struct executed e = {
        d->flushed + d->queue_len, s->start, s->code->len,
        !!(s->flags & HF_CS64),
    };

    fwrite(&e, sizeof(e), 1, d->out_code);
    fwrite(s->code->bytes, s->code->len, 1, d->out_code);
}

/*
 * Did the CPU leave the block before its end, to execute the instruction where
 * it left in a block of its own?  It does for an instruction that does I/O,
 * writes to this very block, or hits a watchpoint.  Nothing of that
 * instruction had been done before.
 */
static bool left_early(struct derive *d, const struct step *s,
                       const struct step *n)
{
    int index = insn_at(s, n->start);

    if (!n->resumes || index < 0) {
        return false;
    }
    d->insn_count -= s->code->insns - index;
    d->resumed_count++;
    return true;
}

void flow_commit(struct derive *d)
{
    if (!d->cand.valid) {
        return;
    }
    d->cand.valid = false;
    set_last(d, &d->cand, d->cand.code->insns - 1);
    list_code(d, &d->cand);
    if (d->saw_exception || d->saw_hardware) {
        fail(d, "internal: an interruption was not finished");
    }
    if (d->chain_len) {
        walk_chain(d, &d->cand);
    } else if (!d->prev.valid || !left_early(d, &d->prev, &d->cand)) {
        flow(d, d->cand.start);
        flowed(d);
    }
    if (d->cand.regs.valid) {
        learn_cr3(d, d->cand.regs.space);
    }
    d->chain_len = 0;
    d->failed_vmrun = false;
    d->have_hint = false;
    d->prev = d->cand;
    d->prev.valid = true;
    d->insn_count += d->prev.code->insns;
    list_execution(d, &d->prev);
}

struct interruption *flow_interruption(struct derive *d, enum kind kind,
                                       unsigned vector)
{
    struct interruption *it;

    if (d->chain_len == CHAIN_MAX) {
        fail(d, "more than %d interruptions in a row", CHAIN_MAX);
    }
    it = &d->chain[d->chain_len++];
    memset(it, 0, sizeof(*it));
    it->kind = kind;
    it->vector = vector;
    it->exits = kind == K_VMEXIT;
    d->interruption_count++;
    if (kind == K_EXCEPTION) {
        d->vectors[vector & 0xff]++;
    }
    return it;
}

void flow_merge_last(struct derive *d)
{
    if (d->chain_len >= 2 && d->chain[d->chain_len - 1].have_from &&
        d->chain[d->chain_len - 2].have_from &&
        d->chain[d->chain_len - 1].from == d->chain[d->chain_len - 2].from &&
        !d->chain[d->chain_len - 2].exits) {
        d->chain[d->chain_len - 2].exits = d->chain[d->chain_len - 1].exits;
        d->chain[d->chain_len - 2].loads_cr3 = false;
        d->chain_len--;
    }
}

void flow_finish_real_mode(struct derive *d)
{
    struct interruption *it = NULL;

    if (d->saw_exception) {
        it = flow_interruption(d, K_EXCEPTION, d->exception_vector);
    } else if (d->saw_hardware) {
        it = flow_interruption(d, K_HARDWARE, 0);
    } else if (d->saw_injection) {
        it = flow_interruption(d, K_INJECTED, 0);
    }
    d->saw_exception = d->saw_hardware = d->saw_injection = false;
    if (it && d->chain_len > 1) {
        /* Nested: same address as the one whose delivery failed. */
        if (it[-1].have_from) {
            it->have_from = true;
            it->from = it[-1].from;
            flow_merge_last(d);
        } else {
            d->chain_len--;
        }
    }
}

void flow_reset(struct derive *d)
{
    flow_commit(d);
    d->saw_exception = d->saw_hardware = d->saw_injection = false;
    if (d->chain_len) {
        walk_chain(d, NULL);
        d->chain_len = 0;
    }
    d->have_hint = false;
    d->prev.valid = false;
    if (d->frame_count) {
        fail(d, "a reset in an interrupt handler whose return address is not "
             "known");
    }
    begin_span(d, true, 0);
    fprintf(d->out_resets, "%" PRIu64 "\n", d->flushed + d->queue_len);
}

void flow_end(struct derive *d)
{
    flow_commit(d);
    if (d->frame_count) {
        fail(d, "%d interrupted addresses are still unknown", d->frame_count);
    }
    flush_queue(d);
    end_span(d);
}
