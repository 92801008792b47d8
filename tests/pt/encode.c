/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A PT stream of what a vCPU did: see encode.h
 *
 * What a CPU writes is in SDM vol. 3, "Intel Processor Trace"; that of packets
 * for VM exits and entries in system mode, and where stock Linux switches
 * tracing, in docs/pt.md.  Nobody has compared this with a CPU.
 *
 * A walk is what is executed between two records: from the target of the one to
 * the instruction of the next.  It is followed before anything of it is
 * written: only so it is known whether the trace has its code, in which mode it
 * ran, and where CR3 was loaded.
 */

#include <string.h>

#include "encode.h"
#include "host.h"
#include "packets.h"

#define STEPS       (1u << 16)
#define STACK       64u         /* calls that a CPU remembers */
#define QUEUE       8u          /* TIPs that wait for a TNT */
/* Of the crystal, of which MTC counts: one of its ticks is this many of TSC */
#define RATIO       125u

struct step {
    uint64_t address;
    uint64_t label;             /* after it */
    uint8_t kind;
    uint8_t length;
};

struct walk {
    bool known;
    uint64_t at;
    unsigned bits;
    uint64_t label;             /* where it begins */
    struct truth_insn last;     /* at the record's @from */
    unsigned n;                 /* instructions before that */
    struct step *steps;
};

/* Instructions in a row that were executed since the last packet */
struct row {
    uint64_t first, last;
    uint64_t at;
};

struct encoder {
    struct truth *t;
    const struct encode_options *o;
    struct encoded *result;
    struct packets p;
    GRand *rand;
    struct walk walks[2];       /* of records with even and odd numbers */
    uint64_t at;                /* this record's walk, or its branch, is next */
    uint64_t ip;
    uint64_t label;
    unsigned bits;
    bool on;                    /* in step with the truth */
    bool enabled;               /* PacketEn */
    uint64_t tnt;
    unsigned tnts;
    uint64_t queue[QUEUE];
    uint64_t queue_at[QUEUE];   /* the record of each */
    unsigned queued;
    uint64_t covered;           /* records that the TNT in hand says */
    uint64_t settled;           /* records before this one are said, or lost */
    uint64_t *offsets;          /* where the stream has said each */
    uint64_t stack[STACK];
    unsigned top, depth;
    GArray *rows;
    size_t psb_at;
    uint64_t ctc, cyc_tsc;
    GHashTable *compat;         /* roots of 32-bit programs */
    GHashTable *handlers;       /* where interrupts and faults go */
};

static bool once_in(struct encoder *e, unsigned n)
{
    return n && !g_rand_int_range(e->rand, 0, n);
}

static uint64_t below(struct encoder *e, uint64_t n)
{
    return g_rand_int_range(e->rand, 0, n);
}

static size_t length(const struct encoder *e)
{
    return e->p.out->len;
}

static uint64_t shifted(const struct encoder *e, uint64_t ip)
{
    return ip + e->o->shift;
}

static bool selected(const struct encoder *e, uint64_t ip, uint64_t label)
{
    if (e->o->low != e->o->high && (ip < e->o->low || ip >= e->o->high)) {
        return false;
    }
    switch (e->o->select) {
    case ENCODE_SELECT_KERNEL:
        return ip >> 63;
    case ENCODE_SELECT_USER:
        return !(ip >> 63) &&
               (!e->o->root || btrail_cr3_root(label) == e->o->root);
    default:
        return true;
    }
}

/* Has a hypervisor anything to do with the stream? */
static bool is_guest(const struct encoder *e)
{
    return e->o->select == ENCODE_SELECT_ALL && e->o->low == e->o->high;
}

/* What PIP says of VMX: an address filter is one of the guest's addresses. */
static bool is_non_root(const struct encoder *e)
{
    return e->o->select == ENCODE_SELECT_ALL;
}

/*
 * Walks
 */

enum where {                    /* does CR3 change */
    AT_CR3, AT_CR, AT_START,
};

static bool try_walk(struct encoder *e, struct walk *w, uint64_t start,
                     uint64_t before, uint64_t after, unsigned bits,
                     enum where where)
{
    uint64_t from = e->t->r[w->at].from, a = start;
    uint64_t label = where == AT_START ? after : before;

    w->label = label;
    w->bits = bits;
    for (w->n = 0; a != from; w->n++) {
        struct truth_insn i = truth_insn(e->t, w->at, label, bits, a);

        if (w->n == STEPS) {
            return false;
        }
        switch (i.kind) {
        case INSN_CR3:
        case INSN_CR:
            if (i.kind == INSN_CR3 ? where == AT_CR3 : where == AT_CR) {
                label = after;
            }
            break;
        case INSN_PLAIN:
        case INSN_MAY_EXIT:
        case INSN_JCC:
        case INSN_INTO:
        case INSN_EXITS:
            break;
        default:
            return false;
        }
        w->steps[w->n] = (struct step) { a, label, i.kind, i.length };
        if (selected(e, a, label) != selected(e, start, label)) {
            return false;
        }
        a += i.length;
        if (bits != 64) {
            a = (uint32_t)a;
        }
    }
    w->last = truth_insn(e->t, w->at, label, bits, from);
    return label == after;
}

static gpointer root_key(uint64_t label)
{
    return GSIZE_TO_POINTER(btrail_cr3_root(label) >> 5);
}

/* What was executed before a record, valid until that of the next but one */
static struct walk *walk(struct encoder *e, uint64_t at)
{
    struct walk *w = &e->walks[at % 2];
    uint64_t after, before, start;
    unsigned modes[2] = { 64, 0 };

    if (w->at == at) {
        return w;
    }
    w->at = at;
    w->known = false;
    after = truth_label(e->t, at);
    before = at ? truth_label(e->t, at - 1) : after;
    start = at ? e->t->r[at - 1].to : e->t->r[at].from;
    if (after & BTRAIL_CR3_NESTED) {
        return w;               /* of another hypervisor than Intel's */
    }
    if (btrail_cr3_code_bits(after)) {
        modes[0] = btrail_cr3_code_bits(after);
    } else if (e->o->narrow) {
        modes[0] = start >= e->o->narrow && !(start >> 32) ? 32 : 64;
    } else if (!(start >> 32)) {
        bool compat = g_hash_table_contains(e->compat, root_key(after));

        modes[compat ? 0 : 1] = 32;
        modes[compat ? 1 : 0] = 64;
    }
    for (int m = 0; m < 2 && modes[m] && !w->known; m++) {
        if (truth_pip(before) == truth_pip(after)) {
            w->known = try_walk(e, w, start, after, after, modes[m], AT_START);
            continue;
        }
        for (enum where h = AT_CR3; h <= AT_START && !w->known; h++) {
            w->known = try_walk(e, w, start, before, after, modes[m], h);
        }
    }
    if (w->known && w->bits == 32 && !btrail_cr3_code_bits(after)) {
        g_hash_table_add(e->compat, root_key(after));
    }
    return w;
}

static bool gap_before(const struct encoder *e, uint64_t at)
{
    for (unsigned i = 0; i < e->t->gaps->len; i++) {
        if (g_array_index(e->t->gaps, struct truth_gap, i).at == at) {
            return true;
        }
    }
    return false;
}

/*
 * Packets, and what they say of records
 */

/* All that is written says that the records before @at were made. */
static void settle(struct encoder *e, uint64_t at)
{
    for (; e->settled < at; e->settled++) {
        e->offsets[e->settled] = length(e);
        if (e->result->known[e->settled] == ENCODE_LOST) {
            e->result->known[e->settled] = ENCODE_DETERMINED;
        }
    }
}

/* Whatever is not said by now is never said. */
static void lose(struct encoder *e, uint64_t at)
{
    for (; e->settled < at; e->settled++) {
        e->offsets[e->settled] = 0;
        e->result->known[e->settled] = ENCODE_LOST;
    }
    e->tnts = 0;
    e->tnt = 0;
    e->queued = 0;
}

static uint64_t tsc_now(const struct encoder *e)
{
    return truth_tsc(e->t, MIN(e->at, e->t->n - 1));
}

static void count_cycles(struct encoder *e)
{
    uint64_t tsc = tsc_now(e);

    if (e->o->cyc && tsc > e->cyc_tsc) {
        packets_cyc(&e->p, tsc - e->cyc_tsc);
        e->cyc_tsc = tsc;
    }
}

static void flush(struct encoder *e)
{
    if (!e->tnts) {
        return;
    }
    count_cycles(e);
    packets_tnt(&e->p, e->tnt, e->tnts);
    e->tnts = 0;
    e->tnt = 0;
    for (unsigned i = 0; i < e->queued; i++) {
        settle(e, e->queue_at[i]);
        packets_ip(&e->p, PACKETS_TIP, e->queue[i]);
    }
    e->queued = 0;
    settle(e, e->covered);
}

static void new_row(struct encoder *e, uint64_t first)
{
    struct row row = { first, first, e->at };
    struct row *last = e->rows->len ?
        &g_array_index(e->rows, struct row, e->rows->len - 1) : NULL;

    if (last && last->first == first && last->last == first) {
        /* A branch has only just arrived there. */
        *last = row;
    } else {
        g_array_append_val(e->rows, row);
    }
}

/* A decoder that has used a packet knows where it is. */
static void arrived(struct encoder *e, uint64_t ip)
{
    g_array_set_size(e->rows, 0);
    new_row(e, ip);
}

static void tnt(struct encoder *e, bool taken, uint64_t covered)
{
    e->tnt = e->tnt << 1 | taken;
    e->covered = covered;
    if (++e->tnts == e->o->tnt) {
        flush(e);
    }
}

/* @may: is it of a branch whose TIP can come after bits of later branches? */
static void tip(struct encoder *e, uint64_t ip, bool may)
{
    if (may && e->o->deferred && e->tnts && e->queued < QUEUE &&
        once_in(e, 2)) {
        e->queue_at[e->queued] = e->at;
        e->queue[e->queued++] = shifted(e, ip);
        e->covered = e->at + 1;
        e->result->counts.deferred++;
        return;
    }
    flush(e);
    count_cycles(e);
    packets_ip(&e->p, PACKETS_TIP, shifted(e, ip));
}

/*
 * A FUP says that the guest is at @ip.  A decoder goes on until it is there, so
 * it stops the first time.  If the way has gone there before, and no packet has
 * said so, it knows nothing of the rounds since then.
 */
static void known_at(struct encoder *e, uint64_t ip)
{
    const struct row *rows = (const struct row *)e->rows->data;

    for (unsigned i = 0; i + 1 < e->rows->len; i++) {
        if (ip >= rows[i].first && ip <= rows[i].last) {
            settle(e, rows[i].at);
            e->result->counts.undetermined_loops++;
            for (; e->settled < e->at; e->settled++) {
                e->offsets[e->settled] = length(e);
            }
            break;
        }
    }
    settle(e, e->at);
}

static void fup(struct encoder *e, uint64_t ip)
{
    flush(e);
    count_cycles(e);
    packets_ip(&e->p, PACKETS_FUP, shifted(e, ip));
    known_at(e, ip);
    arrived(e, ip);
    e->result->counts.fups++;
}

static unsigned mode_packet(unsigned bits)
{
    return bits == 64 ? PACKETS_MODE_64 :
           bits == 32 ? PACKETS_MODE_32 : PACKETS_MODE_16;
}

static void set_mode(struct encoder *e, unsigned bits)
{
    if (e->bits != bits) {
        packets_mode(&e->p, mode_packet(bits));
        e->bits = bits;
    }
}

static void guest_pip(struct encoder *e, uint64_t label)
{
    if (e->o->select != ENCODE_SELECT_USER) {
        packets_pip(&e->p, truth_pip(label), is_non_root(e));
    }
    e->label = label;
}

static void place(struct encoder *e, enum encode_place_kind kind, uint64_t at)
{
    struct encode_place p = { length(e), at, tsc_now(e), kind };

    g_array_append_val(e->result->places, p);
}

static void full_time(struct encoder *e, bool host)
{
    uint64_t tsc = tsc_now(e);

    packets_tsc(&e->p, tsc + (host ? e->o->host_tsc : 0));
    e->cyc_tsc = tsc;
    if (e->o->mtc >= 0) {
        e->ctc = tsc / RATIO;
        packets_tma(&e->p, e->ctc, tsc % RATIO);
    }
    packets_cbr(&e->p, 30);
}

static void tick(struct encoder *e)
{
    uint64_t ctc = tsc_now(e) / RATIO;

    if (e->o->mtc >= 0 && ctc >> e->o->mtc > e->ctc >> e->o->mtc) {
        flush(e);
        count_cycles(e);
        e->ctc = ctc;
        packets_mtc(&e->p, ctc >> e->o->mtc);
    }
}

/* PSB+, where records from @at on are known if one begins to read there */
static void psb(struct encoder *e, uint64_t ip, uint64_t at, bool host)
{
    flush(e);
    place(e, ENCODE_PSB, at);
    packets_psb(&e->p);
    full_time(e, host);
    packets_mode(&e->p, host ? PACKETS_MODE_64 : mode_packet(e->bits));
    if (once_in(e, 2)) {
        packets_mode(&e->p, PACKETS_MODE_TSX);
    }
    if (host) {
        packets_pip(&e->p, HOST_CR3, false);
    } else if (e->o->select != ENCODE_SELECT_USER) {
        packets_pip(&e->p, truth_pip(e->label), is_non_root(e));
    }
    if (is_guest(e)) {
        packets_vmcs(&e->p, 0x7654000);
    }
    packets_ip(&e->p, PACKETS_FUP, shifted(e, ip));
    packets_psbend(&e->p);
    if (!host) {
        known_at(e, ip);
    }
    e->depth = 0;
    e->psb_at = length(e);
    e->result->counts.psbs++;
}

/* One of the kinds of noise that are wanted, if it can be here */
static void noise(struct encoder *e)
{
    switch (1u << below(e, ENCODE_NOISE_KINDS) & e->o->noise_kinds) {
    case ENCODE_NOISE_PAD:
        packets_pad(&e->p);
        break;
    case ENCODE_NOISE_CBR:
        packets_cbr(&e->p, 20 + below(e, 10));
        break;
    case ENCODE_NOISE_MNT:
        packets_mnt(&e->p, below(e, 1000));
        break;
    case ENCODE_NOISE_STOPS:
        packets_exstop(&e->p, false);
        packets_pwrx(&e->p);
        break;
    }
}

/*
 * The host
 */

static uint64_t slot_address(unsigned slot)
{
    return HOST_BASE + slot * HOST_SLOT;
}

static unsigned any_slot(struct encoder *e)
{
    unsigned slot;

    do {
        slot = below(e, HOST_SIZE / HOST_SLOT);
    } while (HOST_IS_ENTRY(slot) || host_head(slot));
    return slot;
}

/* Goes to a slot, by the indirect jump at the end of another one. */
static void host_jump(struct encoder *e, unsigned from, unsigned to)
{
    unsigned n = host_branches(from);

    if (n) {
        packets_tnt(&e->p, below(e, 1u << n), n);
    }
    packets_ip(&e->p, PACKETS_TIP, slot_address(to));
}

static unsigned host_noise(struct encoder *e, unsigned slot)
{
    unsigned ptwrite = below(e, HOST_SIZE / HOST_SLOT / 16) * 16 + 2;
    bool ip = once_in(e, 2);

    switch (1u << below(e, ENCODE_NOISE_HOST_KINDS) & e->o->noise_kinds) {
    case ENCODE_NOISE_MWAIT:
        packets_mwait(&e->p);
        packets_pwre(&e->p);
        packets_exstop(&e->p, true);
        packets_ip(&e->p, PACKETS_FUP, slot_address(slot) + host_head(slot));
        packets_pwrx(&e->p);
        return slot;
    case ENCODE_NOISE_PTW:
        host_jump(e, slot, ptwrite);
        packets_ptw(&e->p, below(e, 1 << 30), once_in(e, 2), ip);
        if (ip) {
            packets_ip(&e->p, PACKETS_FUP, slot_address(ptwrite));
        }
        return ptwrite;
    default:
        noise(e);
        return slot;
    }
}

/* The thread does not run; then it does, and there is no PSB. */
static unsigned host_sleep(struct encoder *e, unsigned slot)
{
    unsigned wrmsr = below(e, HOST_SIZE / HOST_SLOT / 16) * 16;
    uint64_t ip = slot_address(wrmsr);

    host_jump(e, slot, wrmsr);
    packets_ip(&e->p, PACKETS_FUP, ip);
    packets_no_ip(&e->p, PACKETS_TIP_PGD);
    if (once_in(e, 2)) {
        packets_pip(&e->p, HOST_CR3, false);
        full_time(e, true);
    }
    packets_mode(&e->p, PACKETS_MODE_64);
    place(e, ENCODE_ON, e->at);
    packets_ip(&e->p, PACKETS_TIP_PGE, ip + host_head(wrmsr));
    e->result->counts.slept++;
    return wrmsr;
}

/*
 * A VM exit at @ip, what the host does, and the entry at @to.  @first is the
 * first record that is known if one begins to read in between.
 */
static void host(struct encoder *e, uint64_t ip, uint64_t to, uint64_t to_label,
                 unsigned to_bits, uint64_t first)
{
    unsigned slot = any_slot(e), entry, rounds = 1 + below(e, 40);
    size_t begin;

    fup(e, ip);
    begin = length(e);
    packets_pip(&e->p, HOST_CR3, false);
    if (once_in(e, 2)) {
        packets_vmcs(&e->p, 0x7654000);
    }
    if (e->bits != 64) {
        packets_mode(&e->p, PACKETS_MODE_64);
    }
    packets_ip(&e->p, PACKETS_TIP, slot_address(slot));
    for (unsigned i = 0; i < rounds; i++) {
        unsigned next = any_slot(e);

        if (e->o->noise && once_in(e, 20)) {
            slot = host_noise(e, slot);
        }
        if (length(e) - e->psb_at >= e->o->psb) {
            psb(e, slot_address(slot) + host_head(slot), first, true);
        }
        host_jump(e, slot, next);
        slot = next;
        if (e->o->sleeps && once_in(e, 100)) {
            slot = host_sleep(e, slot);
        }
        if (e->o->overflows && once_in(e, 2000)) {
            slot = any_slot(e);
            packets_ovf(&e->p);
            place(e, ENCODE_OVF, first);
            packets_ip(&e->p, PACKETS_FUP, slot_address(slot));
            if (first > e->at) {
                /* Nobody knows any more where the exit was. */
                lose(e, first);
            }
            e->depth = 0;
            e->result->counts.overflows++;
        }
    }
    entry = below(e, HOST_SIZE / HOST_SLOT / 16) * 16 + 1;
    host_jump(e, slot, entry);
    place(e, ENCODE_ENTRY, first);
    packets_pip(&e->p, truth_pip(to_label), true);
    if (to_bits != 64) {
        packets_mode(&e->p, mode_packet(to_bits));
    }
    packets_ip(&e->p, PACKETS_TIP, to);
    e->label = to_label;
    e->bits = to_bits;
    e->result->counts.exits++;
    e->result->counts.host_bytes += length(e) - begin;
    arrived(e, to);
}

/*
 * Branches
 */

static void push(struct encoder *e, uint64_t ip)
{
    e->stack[e->top++ % STACK] = ip;
    e->depth = MIN(e->depth + 1, STACK);
}

static bool ret(struct encoder *e, uint64_t to)
{
    bool same = e->depth && e->stack[(e->top - 1) % STACK] == to;

    if (e->o->ret == ENCODE_RET_ALL_TIP) {
        return false;
    }
    if (e->depth && (same || e->o->ret == ENCODE_RET_POP_ALL)) {
        e->top--;
        e->depth--;
    }
    e->result->counts.compressed += same;
    return same;
}

/* Where a direct branch goes */
static uint64_t target(const struct walk *w, uint64_t from)
{
    uint64_t to = from + w->last.length + w->last.relative;

    return w->bits == 64 ? to : (uint32_t)to;
}

static gpointer address_key(uint64_t address)
{
    return GSIZE_TO_POINTER(address);
}

/* What no branch goes to: nothing else comes there from what is no branch. */
static void learn_handlers(struct encoder *e)
{
    for (uint64_t i = 0; i < e->t->n; i++) {
        uint64_t label = truth_label(e->t, i);
        unsigned bits = btrail_cr3_code_bits(label) ?: 64;

        if (truth_insn(e->t, i, label, bits, e->t->r[i].from).kind ==
            INSN_PLAIN && (bits != 64 || e->t->r[i].to >> 63)) {
            g_hash_table_add(e->handlers, address_key(e->t->r[i].to));
        }
    }
}

/*
 * What comes where a record goes is not that of its instruction.  At a far
 * branch, both are the same to who decodes.
 */
static bool interrupted(const struct encoder *e, const struct walk *w,
                        const struct truth_record *r)
{
    switch (w->last.kind) {
    case INSN_JCC:
    case INSN_JMP:
    case INSN_CALL:
        return r->to != target(w, r->from);
    case INSN_JMP_TO:
    case INSN_CALL_TO:
    case INSN_RET:
        return (r->to >> 63 && !(r->from >> 63)) ||
               g_hash_table_contains(e->handlers, address_key(r->to));
    case INSN_FAR:
    case INSN_INT:
    case INSN_INTO:
        return false;
    default:
        return true;
    }
}

/* What a branch does to what follows, which is that of @next */
static void change(struct encoder *e, const struct walk *next)
{
    if (next && next->known) {
        if (truth_pip(next->label) != truth_pip(e->label)) {
            flush(e);
            guest_pip(e, next->label);
        }
        if (next->bits != e->bits) {
            flush(e);
            set_mode(e, next->bits);
        }
    }
}

static void branch(struct encoder *e, const struct walk *w,
                   const struct walk *next)
{
    const struct truth_record *r = &e->t->r[e->at];

    switch (w->last.kind) {
    case INSN_JCC:
        tnt(e, true, e->at + 1);
        arrived(e, r->to);
        return;
    case INSN_CALL:
        if (w->last.relative) {
            push(e, r->from + w->last.length);
        }
        /* fall through */
    case INSN_JMP:
        return;
    case INSN_CALL_TO:
        push(e, r->from + w->last.length);
        break;
    case INSN_RET:
        if (ret(e, r->to)) {
            tnt(e, true, e->at + 1);
            arrived(e, r->to);
            return;
        }
        break;
    case INSN_INT:
    case INSN_INTO:
        if (e->o->int_fup || w->last.kind == INSN_INTO) {
            fup(e, r->from);
        }
        change(e, next);
        break;
    case INSN_FAR:
        change(e, next);
        break;
    default:
        break;
    }
    /* Of a RET, a bit would say that it is compressed. */
    tip(e, r->to, w->last.kind == INSN_JMP_TO ||
                  w->last.kind == INSN_CALL_TO);
    if (!e->queued) {
        settle(e, e->at + 1);
    }
    arrived(e, r->to);
}

/*
 * Can an interrupt come with a VM entry, so that who decodes knows its @from?
 * It is where the exit was, and that is behind an instruction that exits, or at
 * it.  With page tables of its own, a guest's faults of fetches are no exits.
 */
static bool can_inject(const struct encoder *e, const struct walk *w)
{
    switch (w->last.kind) {
    case INSN_NONE:
    case INSN_EXITS:
    case INSN_MAY_EXIT:
    case INSN_CR:
    case INSN_CR3:
        return false;
    default:
        return e->o->inject;
    }
}

static void interrupt(struct encoder *e, const struct walk *w,
                      const struct walk *next)
{
    const struct truth_record *r = &e->t->r[e->at];
    const struct step *last = w->n ? &w->steps[w->n - 1] : NULL;
    bool known = next && next->known;

    if (is_guest(e) && (w->last.kind == INSN_RSM ||
                        (can_inject(e, w) && once_in(e, 2)))) {
        /* If the one before has exited, the interrupt comes with its entry. */
        bool behind = last && last->kind == INSN_EXITS && e->o->natural &&
                      e->o->inject && w->last.kind != INSN_RSM;

        host(e, behind ? last->address : r->from, r->to,
             known ? next->label : e->label, known ? next->bits : e->bits,
             e->at + 1);
        e->result->counts.injected++;
    } else {
        fup(e, r->from);
        change(e, next);
        tip(e, r->to, false);
    }
    settle(e, e->at + 1);
    arrived(e, r->to);
}

/* A record that goes to what is not selected */
static void leave(struct encoder *e, const struct walk *w)
{
    const struct truth_record *r = &e->t->r[e->at];

    if (interrupted(e, w, r) || w->last.kind == INSN_INTO) {
        fup(e, r->from);
    }
    flush(e);
    if (e->o->low != e->o->high) {
        packets_ip(&e->p, PACKETS_TIP_PGD, shifted(e, r->to));
    } else {
        packets_no_ip(&e->p, PACKETS_TIP_PGD);
        e->result->known[e->at] = ENCODE_PARTLY;
    }
    settle(e, e->at + 1);
    e->enabled = false;
}

/* A record that comes from there */
static void come(struct encoder *e, const struct walk *next)
{
    const struct truth_record *r = &e->t->r[e->at];

    e->result->known[e->at] = ENCODE_PARTLY;
    if (next && next->known) {
        if (truth_pip(next->label) != truth_pip(e->label)) {
            guest_pip(e, next->label);
        }
        e->bits = next->bits;
    }
    if (!length(e)) {
        psb(e, r->to, e->at + 1, false);
    } else {
        packets_mode(&e->p, mode_packet(e->bits));
        place(e, ENCODE_ON, e->at + 1);
        packets_ip(&e->p, PACKETS_TIP_PGE, shifted(e, r->to));
    }
    settle(e, e->at + 1);
    e->depth = 0;
    e->enabled = true;
    arrived(e, r->to);
}

/*
 * The way
 */

/* All instructions before that of the record */
static void follow(struct encoder *e, const struct walk *w)
{
    const struct truth_record *r = &e->t->r[e->at];
    bool strange = interrupted(e, w, r);
    unsigned exit_at = UINT_MAX;

    if (is_guest(e) && once_in(e, e->o->exits)) {
        exit_at = below(e, w->n + 1);
    }
    for (unsigned i = 0; i < w->n; i++) {
        const struct step *s = &w->steps[i];
        struct row *row = &g_array_index(e->rows, struct row,
                                         e->rows->len - 1);
        uint64_t next = s->address + s->length;

        row->last = s->address;
        if (i == exit_at) {
            host(e, s->address, s->address, e->label, e->bits, e->at);
        }
        switch (s->kind) {
        case INSN_JCC:
            tnt(e, false, e->at);
            arrived(e, next);
            break;
        case INSN_CR:
            if (truth_pip(s->label) == truth_pip(e->label)) {
                break;
            }
            /* fall through */
        case INSN_CR3:
            flush(e);
            guest_pip(e, s->label);
            arrived(e, next);
            break;
        case INSN_EXITS:
            if (is_guest(e) && e->o->natural &&
                (i + 1 < w->n || !strange || !e->o->inject)) {
                host(e, s->address, next, e->label, e->bits, e->at);
            }
            break;
        }
    }
    g_array_index(e->rows, struct row, e->rows->len - 1).last = r->from;
    /* An interrupt that comes with the entry after HLT: nothing in between. */
    if (exit_at == w->n &&
        !(strange && w->n && w->steps[w->n - 1].kind == INSN_EXITS)) {
        host(e, r->from, r->from, e->label, e->bits, e->at);
    }
    e->result->counts.insns += w->n;
}

/* Where records before @at are lost and that one is the next */
static void resume(struct encoder *e, uint64_t at, bool first)
{
    const struct walk *w = walk(e, at);
    uint64_t ip = at ? e->t->r[at - 1].to : e->t->r[at].from;

    lose(e, at);
    e->at = at;
    e->enabled = selected(e, ip, w->label);
    e->depth = 0;
    e->on = true;
    if (first) {
        e->label = w->label;
        e->bits = w->bits;
        if (e->enabled) {
            psb(e, ip, at, false);
        }
    } else {
        bool changed = truth_pip(e->label) != truth_pip(w->label) ||
                       e->bits != w->bits;

        packets_ovf(&e->p);
        e->label = w->label;
        e->bits = w->bits;
        place(e, ENCODE_OVF, at);
        if (e->enabled) {
            packets_ip(&e->p, PACKETS_FUP, shifted(e, ip));
            if (changed || once_in(e, 4)) {
                psb(e, ip, at, false);
            }
        }
    }
    e->label = w->label;
    arrived(e, ip);
}

/* Makes records from @e->at on missing, if those behind are known. */
static void overflow(struct encoder *e)
{
    uint64_t n = 1 + below(e, 200), to = e->at + n;

    for (uint64_t i = e->at; i <= to; i++) {
        if (i >= e->t->n || gap_before(e, i)) {
            return;
        }
    }
    if (!walk(e, to)->known || walk(e, to)->bits != e->bits) {
        return;
    }
    if (once_in(e, 2)) {
        flush(e);
    }
    resume(e, to, false);
    e->result->counts.overflows++;
}

static void one(struct encoder *e)
{
    const struct truth_record *r = &e->t->r[e->at];
    const struct walk *w = walk(e, e->at), *next = NULL;
    bool to_selected;

    if (e->at + 1 < e->t->n && !gap_before(e, e->at + 1)) {
        next = walk(e, e->at + 1);
    }
    to_selected = selected(e, r->to, next && next->known ? next->label :
                           truth_label(e->t, e->at));
    if (e->enabled) {
        tick(e);
        if (e->o->noise && once_in(e, e->o->noise)) {
            flush(e);
            noise(e);
        }
        if (length(e) - e->psb_at >= e->o->psb) {
            psb(e, e->ip, e->at, false);
        }
        /* What no far branch has announced */
        change(e, w);
        follow(e, w);
        if (!to_selected) {
            leave(e, w);
        } else if (interrupted(e, w, r)) {
            interrupt(e, w, next);
        } else {
            e->result->counts.insns++;
            branch(e, w, next);
        }
    } else if (to_selected) {
        come(e, next);
    } else {
        lose(e, e->at + 1);
    }
    e->at++;
    e->ip = r->to;
    if (e->enabled) {
        new_row(e, e->ip);
    }
}

/* Somebody has the host stop tracing. */
static void end(struct encoder *e)
{
    if (e->o->part) {
        /* The PSB of the next part says the rest. */
        flush(e);
        e->settled = e->t->n;
    } else if (e->on && e->enabled) {
        fup(e, e->ip);
        if (is_guest(e)) {
            packets_pip(&e->p, HOST_CR3, false);
            packets_ip(&e->p, PACKETS_TIP, slot_address(0));
            packets_ip(&e->p, PACKETS_FUP, slot_address(0));
        }
        packets_no_ip(&e->p, PACKETS_TIP_PGD);
    }
    lose(e, e->t->n);
}

/* The place of a PSB from @offset on, or NULL */
static const struct encode_place *next_psb(const struct encoder *e,
                                           uint64_t offset)
{
    for (unsigned i = 0; i < e->result->places->len; i++) {
        const struct encode_place *p =
            &g_array_index(e->result->places, struct encode_place, i);

        if (p->kind == ENCODE_PSB && p->offset >= offset) {
            return p;
        }
    }
    return NULL;
}

/* Takes bytes out, and what is known of records in them and up to a PSB. */
static void cut(struct encoder *e, uint64_t from, uint64_t to)
{
    const struct encode_place *next = next_psb(e, to);
    uint64_t first = next ? next->at : e->t->n;
    GArray *places = e->result->places;
    struct encode_place here = { from, first, 0, ENCODE_CUT };

    for (uint64_t i = 0; i < e->t->n; i++) {
        if (e->offsets[i] > from && i < first) {
            e->result->known[i] = ENCODE_LOST;
            e->offsets[i] = 0;
        } else if (e->offsets[i] > from) {
            e->offsets[i] -= MIN(to - from, e->offsets[i] - from);
        }
    }
    for (unsigned i = 0; i < places->len;) {
        struct encode_place *p = &g_array_index(places, struct encode_place,
                                                i);

        if (p->offset >= to) {
            p->offset -= to - from;
        } else if (p->offset >= from) {
            g_array_remove_index(places, i);
            continue;
        }
        i++;
    }
    g_array_append_val(places, here);
    g_byte_array_remove_range(e->p.out, from, to - from);
}

static gint compare_places(gconstpointer a, gconstpointer b)
{
    const struct encode_place *x = a, *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset ? 1 :
           x->kind == ENCODE_CUT ? -1 : y->kind == ENCODE_CUT;
}

static void cut_all(struct encoder *e)
{
    uint64_t size = length(e);

    /* From the last one on: offsets before it are those of now. */
    for (unsigned i = e->o->cuts; i--;) {
        uint64_t part = size / (e->o->cuts + 1);
        uint64_t from = part * (i + 1) - below(e, part / 4 + 1);
        uint64_t to = from + 1 + below(e, 3 * e->o->psb);

        to = MIN(to, length(e));
        if (from && to > from) {
            cut(e, from, to);
        }
    }
    if (e->o->begin && length(e) > 100) {
        cut(e, 0, 1 + below(e, MIN(length(e) / 2, 50000)));
    }
    g_array_sort(e->result->places, compare_places);
}

void encode(struct truth *t, const struct encode_options *o,
            struct encoded *result)
{
    struct encoder e = {
        .t = t, .o = o, .result = result,
        .rand = g_rand_new_with_seed(o->seed),
    };
    bool first = true;

    *result = (struct encoded) {
        .bytes = g_byte_array_new(),
        .known = g_new0(uint8_t, t->n + 1),
        .places = g_array_new(FALSE, FALSE, sizeof(struct encode_place)),
    };
    e.p.out = result->bytes;
    e.p.rand = e.rand;
    e.p.any_form = o->any_form;
    e.offsets = g_new0(uint64_t, t->n + 1);
    e.rows = g_array_new(FALSE, FALSE, sizeof(struct row));
    e.compat = g_hash_table_new(NULL, NULL);
    e.handlers = g_hash_table_new(NULL, NULL);
    learn_handlers(&e);
    e.at = o->part;
    for (int i = 0; i < 2; i++) {
        e.walks[i].steps = g_new(struct step, STEPS);
        e.walks[i].at = UINT64_MAX;
    }
    while (e.at < t->n) {
        if (e.on && gap_before(&e, e.at)) {
            e.on = false;
        }
        if (!walk(&e, e.at)->known) {
            e.on = false;
            result->counts.failed++;
            e.at++;
            continue;
        }
        if (!e.on) {
            resume(&e, e.at, first);
            e.ip = e.at ? t->r[e.at - 1].to : t->r[e.at].from;
            first = false;
        } else if (e.enabled && once_in(&e, o->overflows)) {
            overflow(&e);
            e.ip = e.at ? t->r[e.at - 1].to : e.ip;
        }
        one(&e);
    }
    end(&e);
    cut_all(&e);
    memcpy(result->forms, e.p.forms, sizeof(e.p.forms));
    for (int i = 0; i < 2; i++) {
        g_free(e.walks[i].steps);
    }
    g_free(e.offsets);
    g_array_free(e.rows, TRUE);
    g_hash_table_destroy(e.compat);
    g_hash_table_destroy(e.handlers);
    g_rand_free(e.rand);
}
