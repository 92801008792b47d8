/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From packets of Intel PT to records: see flow.h
 */

#include <string.h>

#include <glib.h>

#include "pt/flow.h"
#include "pt/guest-clock.h"
#include "pt/packets.h"

/* Records that are held until they are sure, and that are given at once */
#define HELD        (1u << 20)
#define BATCH       4096u
#define EVENTS      (1u << 16)
/*
 * Blocks that are passed with no packet to say so: so many at once, and for
 * each byte of the stream.  A loop without an end passes them all.
 */
#define STEPS       (1u << 16)
#define STEPS_BYTE  64u
/* The CPU has as many: SDM, "Indirect Transfer Compression for Returns" */
#define CALLS       64u

/**
 * enum flow_state
 *
 * @SEEK: a PSB must come
 * @LOST: packets are read, and where the guest is is not known
 * @OFF:  the guest is not traced, until TIP.PGE
 * @HOST: the host runs
 * @FLOW: where the guest is is known
 */
enum flow_state { SEEK, LOST, OFF, HOST, FLOW };

struct flow_call {
    uint64_t to;
    struct linked_block *block;     /* that ends with it; NULL: dropped */
};

struct pt_flow {
    struct pt_flow_options o;
    struct linked_blocks *blocks;
    pt_flow_fn *give;
    void *give_opaque;
    struct pt_flow_count count;
    struct guest_clock clock;
    struct pt_split split;

    /*
     * The place: the start of @block; or if that is NULL, @ip.  @via: the block
     * whose link @way leads there, and is not made yet.
     */
    enum flow_state state;
    struct linked_block *block;
    uint64_t ip;
    struct linked_block *via;
    unsigned way;
    uint64_t cr3;
    unsigned bits;
    enum pt_gap reason;             /* why a walk has failed */
    unsigned steps;
    uint64_t steps_at;              /* offset where they were granted */

    /* TNT of which a TIP that was deferred comes later; the oldest is bit 63 */
    uint64_t tnt;
    unsigned n_tnt;
    struct flow_call calls[CALLS];
    unsigned top, depth;

    /* Packets that say something of the next ones */
    uint64_t last_ip;
    unsigned items;                 /* between BBP and BEP */
    bool fup_alone;                 /* FUP belongs to the packet before it */
    bool has_fup;                   /* the place is that of an event: TIP */
    uint64_t fup;
    bool has_pip;                   /* TIP goes to another address space */
    uint64_t pip;
    unsigned mode;                  /* of the code that TIP goes to; or 0 */
    bool overflow;                  /* FUP says where the guest goes on */
    bool flushed;                   /* no TNT before it is of after a TIP */
    bool in_guest, knows_guest;

    bool in_psb;
    bool psb_has_ip, psb_has_pip;
    uint64_t psb_ip, psb_cr3;
    bool psb_guest;
    struct pt_packet psb_times[2];  /* TSC and TMA, which come before PIP */
    unsigned n_psb_times;
    unsigned psb_bits;

    bool has_exit;                  /* the host runs since a VM exit at @exit */
    uint64_t exit;
    bool entering;                  /* TIP is that of a VM entry */

    /* Records: those before @sure are sure. */
    struct btrail_record *records;
    unsigned n, sure, size;
    unsigned limit;                 /* where something is to be done */
    uint64_t given;
    struct pt_flow_event *events;
    unsigned n_events, sure_events, size_events;
    uint64_t told_cr3, told_tsc;
    unsigned told_bits;
    bool knows_told;

    bool gap;
    enum pt_gap gap_reason;
    uint64_t gap_bytes;

    uint64_t at, end;               /* offsets of the packet */
    uint64_t counted;               /* bytes that were said what they are */
    uint64_t begin;                 /* offset of what was fed last */
    uint64_t since, since_records;
};

struct pt_flow *pt_flow_new(const struct pt_flow_options *options,
                            pt_code_fn *code, void *code_opaque,
                            pt_flow_fn *give, void *give_opaque)
{
    struct pt_flow *f = g_new0(struct pt_flow, 1);

    f->o = *options;
    f->o.time_step = f->o.time_step ? f->o.time_step : PT_FLOW_TIME_STEP;
    f->blocks = linked_blocks_new(options->memory, code, code_opaque);
    f->give = give;
    f->give_opaque = give_opaque;
    memcpy(f->clock.tsc_per_ctc, options->tsc_per_ctc,
           sizeof(f->clock.tsc_per_ctc));
    f->clock.mtc_shift = options->mtc_shift;
    f->clock.bus_ratio = options->bus_ratio;
    f->clock.host = options->host_tsc;
    f->size = f->limit = BATCH;
    f->records = g_new(struct btrail_record, f->size);
    f->size_events = 256;
    f->events = g_new(struct pt_flow_event, f->size_events);
    f->steps = STEPS;
    f->bits = 64;
    f->in_guest = f->knows_guest = options->bare;
    f->gap = true;
    f->gap_reason = PT_GAP_BEGIN;
    return f;
}

void pt_flow_free(struct pt_flow *f)
{
    if (f) {
        linked_blocks_free(f->blocks);
        g_free(f->records);
        g_free(f->events);
        g_free(f);
    }
}

const struct pt_flow_count *pt_flow_counted(const struct pt_flow *f)
{
    return &f->count;
}

void pt_flow_add_counts(struct pt_flow_count *sum, const struct pt_flow_count *c)
{
    sum->decoded += c->decoded;
    sum->skipped += c->skipped;
    sum->host += c->host;
    sum->records += c->records;
    sum->dropped += c->dropped;
    sum->exits += c->exits;
    for (unsigned i = 0; i < PT_GAPS; i++) {
        sum->gaps[i] += c->gaps[i];
    }
}

const struct linked_blocks_count *pt_flow_blocks(const struct pt_flow *f)
{
    return linked_blocks_counted(f->blocks);
}

const char *pt_gap_name(enum pt_gap gap)
{
    static const char *const names[] = {
        [PT_GAP_NONE] = "none",
        [PT_GAP_BEGIN] = "begin",
        [PT_GAP_OVERFLOW] = "packets-lost",
        [PT_GAP_RING] = "ring-full",
        [PT_GAP_UNREADABLE] = "code-unreadable",
        [PT_GAP_CHANGED] = "code-changed",
        [PT_GAP_LOST] = "lost-way",
        [PT_GAP_OFF] = "not-traced",
        [PT_GAP_MODE] = "mode",
    };

    return gap < PT_GAPS ? names[gap] : names[PT_GAP_NONE];
}

static struct pt_moment moment(const struct pt_flow *f)
{
    return (struct pt_moment){
        .tsc = f->clock.now,
        .records = f->given + f->n,
        .since = f->since,
        .since_records = f->since_records,
    };
}

static bool fail(struct pt_flow *f, enum pt_gap reason)
{
    f->reason = reason;
    return false;
}

/*
 * What is given out
 */

static void set_limit(struct pt_flow *f)
{
    uint64_t until = linked_blocks_until_records(f->blocks);
    uint64_t left = until > f->given + f->n ? until - f->given : f->n + 1;

    f->limit = MIN(f->size, left);
}

static void hand_out(struct pt_flow *f)
{
    if (f->sure || f->sure_events) {
        f->give(f->give_opaque, f->records, f->sure, f->events,
                f->sure_events);
    }
    f->n -= f->sure;
    memmove(f->records, f->records + f->sure, f->n * sizeof(*f->records));
    f->n_events -= f->sure_events;
    memmove(f->events, f->events + f->sure_events,
            f->n_events * sizeof(*f->events));
    for (unsigned i = 0; i < f->n_events; i++) {
        f->events[i].at -= f->sure;
    }
    f->given += f->sure;
    f->count.records += f->sure;
    f->sure = f->sure_events = 0;
    set_limit(f);
}

/* The place is no block any more, but an address. */
static void forget_block(struct pt_flow *f)
{
    if (f->block) {
        f->ip = f->block->start;
        f->block = NULL;
    }
}

static void expire(struct pt_flow *f, bool gap)
{
    struct pt_moment m = moment(f);

    forget_block(f);
    linked_blocks_expire(f->blocks, &m, gap);
    set_limit(f);
}

/* The limit is reached: makes room for a record. */
static bool make_room(struct pt_flow *f)
{
    if (f->given + f->n >= linked_blocks_until_records(f->blocks)) {
        expire(f, false);
    }
    if (f->n == f->size) {
        hand_out(f);
    }
    if (f->n == f->size) {
        if (f->size == HELD) {
            return fail(f, PT_GAP_LOST);
        }
        f->size *= 2;
        f->records = g_renew(struct btrail_record, f->records, f->size);
    }
    set_limit(f);
    return true;
}

static bool record(struct pt_flow *f, uint64_t from, uint64_t to)
{
    f->records[f->n++] = (struct btrail_record){ .from = from, .to = to };
    return f->n < f->limit || make_room(f);
}

static void add_event(struct pt_flow *f, enum pt_flow_event_type type,
                      enum pt_gap gap, uint64_t value)
{
    struct pt_flow_event *e;

    /* Of the same type, the last one before a record is enough. */
    for (unsigned i = f->n_events; type != PT_FLOW_GAP && i > f->sure_events;
         i--) {
        e = &f->events[i - 1];
        if (e->at != f->n || e->type == PT_FLOW_GAP) {
            break;
        }
        if (e->type == type) {
            e->value = value;
            e->bits = type == PT_FLOW_CR3 && f->o.modes ? f->bits : 0;
            return;
        }
    }
    if (f->n_events == f->size_events) {
        f->size_events *= 2;
        f->events = g_renew(struct pt_flow_event, f->events, f->size_events);
    }
    f->events[f->n_events++] = (struct pt_flow_event){
        .type = type, .gap = gap, .value = value, .at = f->n, .offset = f->at,
        .bits = type == PT_FLOW_CR3 && f->o.modes ? f->bits : 0,
    };
}

static void tell_cr3(struct pt_flow *f)
{
    unsigned bits = f->o.modes ? f->bits : 0;

    if (!f->knows_told || f->told_cr3 != f->cr3 || f->told_bits != bits) {
        add_event(f, PT_FLOW_CR3, PT_GAP_NONE, f->cr3);
        f->told_cr3 = f->cr3;
        f->told_bits = bits;
        f->knows_told = true;
    }
}

static void tell_time(struct pt_flow *f)
{
    if (f->clock.known && f->clock.now - f->told_tsc >= f->o.time_step) {
        add_event(f, PT_FLOW_TIME, PT_GAP_NONE, f->clock.now);
        f->told_tsc = f->clock.now;
    }
}

/* Says of all bytes up to the end of the packet what they are. */
static void settle(struct pt_flow *f, uint64_t end)
{
    uint64_t n = end - f->counted;

    f->counted = end;
    switch (f->state) {
    case FLOW:
        f->count.decoded += n;
        break;
    case HOST:
        f->count.host += n;
        break;
    default:
        f->count.skipped += n;
        f->gap_bytes += n;
        break;
    }
}

/* What was made so far is sure. */
static void confirm(struct pt_flow *f)
{
    settle(f, f->end);
    f->sure = f->n;
    f->sure_events = f->n_events;
    if (f->sure >= BATCH / 2 || f->sure_events >= BATCH / 2) {
        hand_out(f);
    }
}

static void open_gap(struct pt_flow *f, enum pt_gap reason)
{
    if (!f->gap) {
        f->gap = true;
        f->gap_reason = reason;
        f->gap_bytes = 0;
    }
}

/* A gap that is not closed says so by its first reason. */
static void close_gap(struct pt_flow *f)
{
    if (f->gap) {
        add_event(f, PT_FLOW_GAP, f->gap_reason, f->gap_bytes);
        f->count.gaps[f->gap_reason]++;
        f->gap = false;
    }
}

static void set_state(struct pt_flow *f, enum flow_state state)
{
    settle(f, f->end);
    f->state = state;
    f->n_tnt = 0;
    f->has_fup = f->has_pip = f->fup_alone = f->flushed = false;
    f->overflow = f->entering = false;
    f->block = f->via = NULL;
}

/* Drops what is not sure, and goes on where a packet says so. */
static void lose(struct pt_flow *f, enum pt_gap reason, enum flow_state state)
{
    open_gap(f, reason);
    if (f->state == FLOW) {
        /* What is not settled says nothing any more. */
        f->state = LOST;
        f->count.dropped += f->n - f->sure;
        f->n = f->sure;
        f->n_events = f->sure_events;
        f->knows_told = false;
        f->told_tsc = 0;
        set_limit(f);
    }
    f->has_exit = false;
    set_state(f, state);
}

static void clear_calls(struct pt_flow *f)
{
    f->top = f->depth = 0;
}

/* The guest is at an address. */
static void start(struct pt_flow *f, uint64_t ip)
{
    if (!f->knows_guest || !f->in_guest) {
        return;
    }
    if (f->bits == 16 && !f->o.linear) {
        lose(f, PT_GAP_MODE, LOST);
        return;
    }
    set_state(f, FLOW);
    f->has_exit = false;
    close_gap(f);
    tell_cr3(f);
    tell_time(f);
    clear_calls(f);
    f->ip = ip;
    f->since = f->at;
    f->since_records = f->given + f->n;
    expire(f, true);
    confirm(f);
}

/*
 * Walking
 */

/* All blocks were dropped. */
static void forget_all(struct pt_flow *f)
{
    f->block = f->via = NULL;
    for (unsigned i = 0; i < CALLS; i++) {
        f->calls[i].block = NULL;
    }
}

static struct linked_block *found(struct pt_flow *f,
                                  struct linked_block *block,
                                  enum pt_code_result result, bool flushed)
{
    if (flushed) {
        forget_all(f);
    }
    if (!block) {
        fail(f, result == PT_CODE_UNREADABLE ? PT_GAP_UNREADABLE :
                result == PT_CODE_CHANGED ? PT_GAP_CHANGED : PT_GAP_LOST);
    }
    set_limit(f);
    return block;
}

static struct linked_block *at(struct pt_flow *f, uint64_t ip)
{
    struct pt_moment m = moment(f);
    enum pt_code_result result;
    bool flushed;
    struct linked_block *b = linked_blocks_at(f->blocks, f->cr3, f->bits, ip,
                                              &m, &result, &flushed);

    return found(f, b, result, flushed);
}

static struct linked_block *follow(struct pt_flow *f, struct linked_block *b,
                                   unsigned way)
{
    struct pt_moment m = moment(f);
    enum pt_code_result result;
    bool flushed;

    b = linked_blocks_follow(f->blocks, b, way, f->cr3, f->bits, &m, &result,
                             &flushed);
    return found(f, b, result, flushed);
}

/* The block at the place; NULL if there is no code */
static struct linked_block *here(struct pt_flow *f)
{
    if (f->block) {
        f->ip = f->block->start;
        return f->block;
    }
    f->block = f->via ? follow(f, f->via, f->way) : at(f, f->ip);
    f->via = NULL;
    return f->block;
}

static void go(struct pt_flow *f, uint64_t ip, struct linked_block *b)
{
    f->ip = ip;
    f->block = b;
    f->via = NULL;
}

/* After a link */
static void go_by(struct pt_flow *f, struct linked_block *b, unsigned way)
{
    f->block = b->link[way].to;
    f->ip = way ? b->taken : b->next;
    f->via = f->block ? NULL : b;
    f->way = way;
}

static void push(struct pt_flow *f, struct linked_block *b)
{
    f->calls[f->top++ % CALLS] = (struct flow_call){ b->next, b };
    f->depth = MIN(f->depth + 1, CALLS);
}

static struct flow_call *last_call(struct pt_flow *f)
{
    return f->depth ? &f->calls[(f->top - 1) % CALLS] : NULL;
}

static void pop(struct pt_flow *f)
{
    if (f->depth) {
        f->depth--;
        f->top--;
    }
}

/* Goes where a call returns to. */
static void go_back(struct pt_flow *f, const struct flow_call *c)
{
    struct linked_block *b = c->block;

    if (b && b->space == linked_block_space(f->cr3, c->to, f->bits)) {
        go_by(f, b, 0);
    } else {
        go(f, c->to, NULL);
    }
}

/* More blocks to pass, for the bytes that were read since */
static bool grant_steps(struct pt_flow *f)
{
    uint64_t n = (f->end - f->steps_at) * STEPS_BYTE;

    f->steps = MIN(n, STEPS);
    f->steps_at = f->end;
    return f->steps || fail(f, PT_GAP_LOST);
}

/* Passes the block at the place, which needs no packet; false if it does. */
static bool pass(struct pt_flow *f, struct linked_block *b)
{
    if (!f->steps && !grant_steps(f)) {
        return false;
    }
    f->steps--;
    switch (b->kind) {
    case LINKED_CALL:
        if (b->taken != b->next) {
            push(f, b);
        }
        /* fall through */
    case LINKED_JUMP:
        go_by(f, b, 1);
        return record(f, b->from, b->taken);
    case LINKED_ON:
    case LINKED_CR3:
    case LINKED_CR:
        go_by(f, b, 0);
        return true;
    default:
        return fail(f, PT_GAP_LOST);
    }
}

/* Goes to an address that no packet leads to. */
static bool walk_to(struct pt_flow *f, uint64_t ip)
{
    for (;;) {
        struct linked_block *b;
        uint64_t offset;

        if (f->block) {
            f->ip = f->block->start;
        }
        if (f->ip == ip) {
            return true;
        }
        b = here(f);
        if (!b) {
            return false;
        }
        offset = ip - b->start;
        if (offset < 64 && b->starts >> offset & 1) {
            go(f, ip, NULL);
            return true;
        }
        if (!pass(f, b)) {
            return false;
        }
    }
}

/*
 * Branches as TNT says them, the oldest in bit 63.  Ends before a block that
 * needs a TIP: that was deferred, and comes.
 */
static bool walk_branches(struct pt_flow *f, uint64_t bits, unsigned n)
{
    struct linked_block *b = here(f);
    struct btrail_record *r, *end;
    unsigned steps = f->steps;

    if (!b) {
        return false;
    }
    r = f->records + f->n;
    end = f->records + f->limit;
    while (n) {
        struct linked_block *to;
        unsigned way = 1;

        if (G_LIKELY(b->kind == LINKED_CONDITIONAL)) {
            way = bits >> 63;
            bits <<= 1;
            n--;
            /* Written in each case: whether it counts is hard to predict. */
            *r = (struct btrail_record){ .from = b->from, .to = b->taken };
            r += way;
            to = b->link[way].to;
            if (G_LIKELY(to && r != end)) {
                b = to;
                continue;
            }
            go_by(f, b, way);
            goto gone;
        }
        switch (b->kind) {
        case LINKED_CALL:
            if (b->taken != b->next) {
                push(f, b);
            }
            /* fall through */
        case LINKED_JUMP:
            *r++ = (struct btrail_record){ .from = b->from, .to = b->taken };
            to = b->link[1].to;
            steps--;
            break;
        case LINKED_ON:
        case LINKED_CR3:
        case LINKED_CR:
            way = 0;
            to = b->link[0].to;
            steps--;
            break;
        case LINKED_RET:
            if (f->o.returns && bits >> 63) {
                struct flow_call *c = last_call(f);

                if (!c) {
                    /* The CPU knows a call that is not known here. */
                    f->n = r - f->records;
                    return fail(f, PT_GAP_LOST);
                }
                bits <<= 1;
                n--;
                *r++ = (struct btrail_record){ .from = b->from, .to = c->to };
                pop(f);
                go_back(f, c);
                goto gone;
            }
            /* fall through */
        default:
            f->n = r - f->records;
            f->steps = steps;
            go(f, b->start, b);
            f->tnt = bits;
            f->n_tnt = n;
            return true;
        }
        if (G_LIKELY(to && r != end && steps)) {
            b = to;
            continue;
        }
        go_by(f, b, way);
gone:
        f->n = r - f->records;
        f->steps = steps;
        if (r == end && !make_room(f)) {
            return false;
        }
        if (!steps && !grant_steps(f)) {
            return false;
        }
        if (!n) {
            return true;
        }
        b = here(f);
        if (!b) {
            return false;
        }
        steps = f->steps;
        r = f->records + f->n;
        end = f->records + f->limit;
    }
    f->n = r - f->records;
    f->steps = steps;
    go(f, b->start, b);
    return true;
}

/* The next packet says where something goes: what is said of it before? */
static void apply_pending(struct pt_flow *f)
{
    bool tell = f->has_pip || (f->mode && f->o.modes && f->knows_told);

    if (f->mode) {
        f->bits = f->mode;
        f->mode = 0;
    }
    if (f->has_pip) {
        f->has_pip = false;
        f->cr3 = f->pip;
    }
    if (tell) {
        tell_cr3(f);
    }
}

/* A TIP says where the next branch of its kind goes. */
static bool walk_branch(struct pt_flow *f, uint64_t ip)
{
    struct linked_block *b, *to = NULL;
    const struct flow_call *c = NULL;
    bool changes = f->mode || f->has_pip;
    uint64_t space;

    for (;;) {
        b = here(f);
        if (!b) {
            return false;
        }
        if (b->kind >= LINKED_JUMP_TO) {
            break;
        }
        if (!pass(f, b)) {
            return false;
        }
    }
    if (b->kind == LINKED_CALL_TO) {
        push(f, b);
    } else if (b->kind == LINKED_RET) {
        c = last_call(f);
        if (!f->o.keep_returns) {
            pop(f);
        }
    }
    go(f, ip, NULL);
    if (!record(f, b->from, ip)) {
        return false;
    }
    if (G_UNLIKELY(changes)) {
        apply_pending(f);
        return true;
    }
    if (c && c->to == ip) {
        go_back(f, c);
        return true;
    }
    space = linked_block_space(f->cr3, ip, f->bits);
    if (b->far && b->far->start == ip && b->far->space == space) {
        f->block = b->far;
        return true;
    }
    /* If it cannot be read, whoever goes on from there finds out. */
    to = at(f, ip);
    if (to) {
        f->block = to;
        /* A guess, even if all were dropped meanwhile */
        b->far = to;
    }
    return true;
}

/*
 * Packets
 */

static void read_fup(struct pt_flow *f)
{
    uint64_t ip = f->last_ip;

    if (f->fup_alone) {
        f->fup_alone = false;
        f->flushed = true;
        return;
    }
    if (f->state == LOST) {
        f->flushed = true;
        if (f->overflow) {
            start(f, ip);
        }
        return;
    }
    if (f->state != FLOW) {
        return;
    }
    if (f->n_tnt || f->has_fup) {
        lose(f, PT_GAP_LOST, LOST);
    } else if (!walk_to(f, ip)) {
        lose(f, f->reason, LOST);
        f->flushed = true;
    } else {
        confirm(f);
        f->has_fup = true;
        f->fup = ip;
    }
}

/*
 * A VM entry goes to @ip.  Where that is not where the exit was, the guest has
 * gone on after an instruction that the hypervisor has executed, or to the
 * handler of an event: what came between is not in the stream.
 */
static void enter(struct pt_flow *f, uint64_t ip)
{
    bool known = f->has_exit, exits = false;
    uint64_t exit = f->exit, next = exit;

    if (known && ip != exit) {
        struct linked_block *b = at(f, exit);

        if (b) {
            next = exit + b->length;
            exits = b->exits;
        } else {
            /* Which instruction it was decides what the record is. */
            known = false;
            open_gap(f, f->reason);
        }
    }
    if (known && f->mode && f->mode != f->bits && ip == next) {
        known = false;
    }
    if (f->mode == 16 && !f->o.linear) {
        known = false;
    }
    if (!known || f->gap) {
        open_gap(f, PT_GAP_LOST);
        f->cr3 = f->pip;
        f->has_pip = false;
        apply_pending(f);
        /* There it stays, if it cannot start. */
        set_state(f, LOST);
        start(f, ip);
        return;
    }
    set_state(f, FLOW);
    f->has_exit = false;
    go(f, ip, NULL);
    f->has_pip = f->pip != f->cr3;
    /* What the host's TSCs have said meanwhile */
    tell_time(f);
    if (ip != exit && ip != next && !record(f, exits ? next : exit, ip)) {
        lose(f, f->reason, LOST);
        return;
    }
    apply_pending(f);
    confirm(f);
}

static void read_tip(struct pt_flow *f, bool has_ip)
{
    uint64_t ip = f->last_ip, tnt = f->tnt;
    unsigned n = f->n_tnt;

    switch (f->state) {
    case HOST:
        if (f->entering && has_ip) {
            enter(f, ip);
        }
        f->mode = 0;
        return;
    case LOST:
        apply_pending(f);
        if (f->flushed && has_ip) {
            start(f, ip);
        }
        return;
    case FLOW:
        break;
    default:
        f->mode = 0;
        return;
    }
    if (!has_ip) {
        lose(f, PT_GAP_LOST, LOST);
        return;
    }
    f->n_tnt = 0;
    if (f->has_fup) {
        f->has_fup = false;
        go(f, ip, NULL);
        if (!record(f, f->fup, ip)) {
            lose(f, f->reason, LOST);
            return;
        }
        apply_pending(f);
    } else if (!walk_branch(f, ip)) {
        lose(f, f->reason, LOST);
        apply_pending(f);
        return;
    }
    if (G_UNLIKELY(f->bits == 16) && !f->o.linear) {
        confirm(f);
        lose(f, PT_GAP_MODE, LOST);
        return;
    }
    confirm(f);
    if (n && !walk_branches(f, tnt, n)) {
        lose(f, f->reason, LOST);
    }
}

static void read_tnt(struct pt_flow *f, uint64_t bits, unsigned n)
{
    f->flushed = false;
    if (f->state != FLOW || !n) {
        return;
    }
    if (f->n_tnt || f->has_fup || f->has_pip) {
        lose(f, PT_GAP_LOST, LOST);
    } else if (!walk_branches(f, bits << (64 - n), n)) {
        lose(f, f->reason, LOST);
    }
}

/* The guest is traced from here on. */
static void read_on(struct pt_flow *f, bool has_ip)
{
    uint64_t ip = f->last_ip;

    if (f->state == HOST) {
        if (f->entering && has_ip) {
            if (f->has_exit && ip != f->exit) {
                /* It can have run where a filter lets nothing be traced. */
                f->has_exit = false;
                open_gap(f, PT_GAP_OFF);
            }
            enter(f, ip);
        }
        f->mode = 0;
        return;
    }
    if (f->state == SEEK) {
        return;
    }
    if (f->state == FLOW) {
        lose(f, PT_GAP_LOST, LOST);
    }
    apply_pending(f);
    if (has_ip) {
        start(f, ip);
    }
}

/* Goes to the branch that leaves what is traced. */
static bool walk_off(struct pt_flow *f, uint64_t ip)
{
    for (;;) {
        struct linked_block *b = here(f);

        if (!b) {
            return false;
        }
        if (b->kind >= LINKED_JUMP_TO ||
            (b->kind <= LINKED_CALL && b->taken == ip)) {
            go(f, ip, NULL);
            return record(f, b->from, ip);
        }
        if (!pass(f, b)) {
            return false;
        }
    }
}

/* From here on the guest is not traced. */
static void read_off(struct pt_flow *f, bool has_ip)
{
    uint64_t ip = f->last_ip;

    if (f->state == HOST || f->state == SEEK) {
        f->mode = 0;
        return;
    }
    if (f->state == FLOW) {
        bool good = !f->n_tnt;

        if (good && has_ip) {
            good = f->has_fup ? record(f, f->fup, ip) : walk_off(f, ip);
        }
        if (!good) {
            lose(f, f->n_tnt ? PT_GAP_LOST : f->reason, OFF);
            return;
        }
        confirm(f);
    }
    apply_pending(f);
    lose(f, PT_GAP_OFF, OFF);
}

/*
 * A PIP that is followed by no TIP is that of the next instruction that loads
 * CR3; or paging, if there is none before the next branch that needs a packet.
 */
static bool walk_to_cr3(struct pt_flow *f)
{
    unsigned n = 0, place = 0;
    struct linked_block *b = here(f);
    bool far = false;

    for (; b && n < 256; n++) {
        unsigned way = b->kind == LINKED_JUMP || b->kind == LINKED_CALL;

        if (b->kind == LINKED_CR3 || b->kind == LINKED_CR) {
            place = n + 1;
        }
        if (b->kind == LINKED_CR3 || b->kind >= LINKED_JUMP_TO ||
            b->kind == LINKED_CONDITIONAL) {
            far = b->kind == LINKED_FAR;
            break;
        }
        b = b->link[way].to ? b->link[way].to : follow(f, b, way);
    }
    if (!place) {
        if (far) {
            f->has_pip = true;
            return true;
        }
        return fail(f, b ? PT_GAP_LOST : f->reason);
    }
    while (place--) {
        b = here(f);
        if (!b || !pass(f, b)) {
            return false;
        }
    }
    forget_block(f);
    f->via = NULL;
    f->cr3 = f->pip;
    tell_cr3(f);
    return true;
}

static void read_pip(struct pt_flow *f, const struct pt_packet *p)
{
    bool guest = p->form || f->o.bare;

    f->in_guest = guest;
    f->knows_guest = true;
    switch (f->state) {
    case SEEK:
        return;
    case HOST:
        f->entering = guest;
        f->pip = p->value;
        return;
    case LOST:
    case OFF:
        f->flushed = true;
        if (guest) {
            f->cr3 = p->value;
        } else {
            set_state(f, HOST);
        }
        return;
    case FLOW:
        break;
    }
    if (f->n_tnt) {
        lose(f, PT_GAP_LOST, guest ? LOST : HOST);
    } else if (!guest) {
        if (f->has_fup) {
            confirm(f);
            f->exit = f->fup;
            f->has_exit = true;
            f->count.exits++;
            set_state(f, HOST);
        } else {
            lose(f, PT_GAP_LOST, HOST);
        }
    } else {
        f->pip = p->value;
        if (f->has_fup) {
            f->has_pip = true;
        } else if (!walk_to_cr3(f)) {
            lose(f, f->reason, LOST);
            f->cr3 = p->value;
            f->flushed = true;
        }
    }
    if (f->state == LOST && guest) {
        f->cr3 = p->value;
    }
}

static void read_overflow(struct pt_flow *f)
{
    bool trust = f->o.trust_overflow && f->knows_guest;
    bool exit;

    f->in_psb = false;
    f->mode = 0;
    guest_clock_lose(&f->clock);
    if (f->state == SEEK) {
        return;
    }
    if (f->state == FLOW && !f->n_tnt) {
        /* What TNT has said was so. */
        confirm(f);
    }
    exit = f->state == HOST;
    lose(f, PT_GAP_OVERFLOW, trust && exit ? HOST : LOST);
    f->overflow = trust && !exit;
    f->knows_guest = trust;
}

static void begin_psb(struct pt_flow *f)
{
    f->last_ip = 0;
    f->in_psb = true;
    f->psb_has_ip = f->psb_has_pip = false;
    f->n_psb_times = 0;
    f->psb_bits = f->mode ? f->mode : f->bits;
    f->items = 0;
    if (f->state == FLOW && (f->n_tnt || f->has_fup || f->has_pip)) {
        lose(f, PT_GAP_LOST, LOST);
    }
    if (f->state == SEEK) {
        set_state(f, LOST);
    }
}

/* What PSB+ has said is so, whatever was before. */
static void take_psb(struct pt_flow *f)
{
    f->bits = f->psb_bits;
    f->mode = 0;
    if (f->psb_has_pip) {
        f->cr3 = f->psb_cr3;
        f->in_guest = f->psb_guest;
        f->knows_guest = true;
    }
    if (!f->knows_guest) {
        return;
    }
    if (!f->in_guest) {
        if (f->state != HOST) {
            lose(f, PT_GAP_LOST, HOST);
        }
    } else if (f->psb_has_ip) {
        if (f->state == HOST) {
            lose(f, PT_GAP_LOST, LOST);
        }
        start(f, f->psb_ip);
    } else {
        lose(f, PT_GAP_OFF, OFF);
    }
}

static void read_time(struct pt_flow *f, const struct pt_packet *p)
{
    bool psb = f->in_psb && f->psb_has_pip;
    bool guest = psb ? f->psb_guest : f->in_guest;
    bool known = psb || f->knows_guest;

    guest_clock_read(&f->clock, p, known && guest, known && !guest);
    if (f->clock.now >= linked_blocks_until_tsc(f->blocks)) {
        expire(f, false);
    }
    if (f->state == FLOW) {
        tell_time(f);
        if (f->n_events >= EVENTS) {
            hand_out(f);
            if (f->n_events >= EVENTS) {
                lose(f, PT_GAP_LOST, LOST);
            }
        }
    }
}

static void end_psb(struct pt_flow *f)
{
    for (unsigned i = 0; i < f->n_psb_times; i++) {
        read_time(f, &f->psb_times[i]);
    }
    f->in_psb = false;
    if (f->state == HOST && !(f->psb_has_pip && f->psb_guest)) {
        f->mode = 0;
        return;
    }
    if (f->state == FLOW) {
        bool same = f->psb_has_ip && f->psb_bits == f->bits &&
                    (!f->psb_has_pip ||
                     (f->psb_guest && f->psb_cr3 == f->cr3));

        if (same && walk_to(f, f->psb_ip)) {
            f->mode = 0;
            clear_calls(f);
            confirm(f);
            return;
        }
        lose(f, same ? f->reason : PT_GAP_LOST, LOST);
    }
    take_psb(f);
}

/* Between PSB and PSBEND: what the CPU is like. */
static void read_in_psb(struct pt_flow *f, const struct pt_packet *p)
{
    switch (p->type) {
    case PT_PACKET_PIP:
        f->psb_has_pip = true;
        f->psb_cr3 = p->value;
        f->psb_guest = p->form || f->o.bare;
        break;
    case PT_PACKET_MODE_EXEC:
        f->psb_bits = p->form;
        break;
    case PT_PACKET_FUP:
        if (pt_packet_ip(p, &f->last_ip)) {
            f->psb_has_ip = true;
            f->psb_ip = f->last_ip;
        }
        break;
    case PT_PACKET_PSBEND:
        end_psb(f);
        break;
    case PT_PACKET_TNT:
    case PT_PACKET_TIP:
    case PT_PACKET_TIP_PGE:
    case PT_PACKET_TIP_PGD:
        f->in_psb = false;
        lose(f, PT_GAP_LOST, SEEK);
        break;
    }
}

static void read_packet(struct pt_flow *f, const struct pt_packet *p)
{
    bool has_ip;

    switch (p->type) {
    case PT_PACKET_TSC:
    case PT_PACKET_TMA:
        if (f->in_psb) {
            /* Whose they are is not known yet. */
            if (f->n_psb_times < G_N_ELEMENTS(f->psb_times)) {
                f->psb_times[f->n_psb_times++] = *p;
            }
            return;
        }
        /* fall through */
    case PT_PACKET_MTC:
    case PT_PACKET_CBR:
    case PT_PACKET_CYC:
        read_time(f, p);
        return;
    case PT_PACKET_PSB:
        begin_psb(f);
        return;
    case PT_PACKET_OVF:
        read_overflow(f);
        return;
    }
    if (f->in_psb) {
        read_in_psb(f, p);
        return;
    }
    switch (p->type) {
    case PT_PACKET_TNT:
        read_tnt(f, p->value, p->form);
        break;
    case PT_PACKET_TIP:
        has_ip = pt_packet_ip(p, &f->last_ip);
        read_tip(f, has_ip);
        break;
    case PT_PACKET_TIP_PGE:
        has_ip = pt_packet_ip(p, &f->last_ip);
        read_on(f, has_ip);
        break;
    case PT_PACKET_TIP_PGD:
        has_ip = pt_packet_ip(p, &f->last_ip);
        read_off(f, has_ip);
        break;
    case PT_PACKET_FUP:
        if (pt_packet_ip(p, &f->last_ip)) {
            read_fup(f);
        }
        break;
    case PT_PACKET_PIP:
        read_pip(f, p);
        break;
    case PT_PACKET_MODE_EXEC:
        f->mode = p->form;
        break;
    case PT_PACKET_MODE_TSX:
        /* An abort has a TIP after its FUP. */
        f->fup_alone = !(p->value & 2);
        break;
    case PT_PACKET_PTW:
    case PT_PACKET_EXSTOP:
    case PT_PACKET_TRIG:
        f->fup_alone |= p->ip;
        break;
    case PT_PACKET_BBP:
        f->items = p->form;
        break;
    case PT_PACKET_BEP:
        f->items = 0;
        f->fup_alone |= p->ip;
        break;
    }
}

static size_t run(void *opaque, const uint8_t *p, size_t n)
{
    struct pt_flow *f = opaque;
    uint64_t begin = f->begin;
    size_t i = 0;

    while (i < n) {
        struct pt_packet packet;
        int size;

        if (G_LIKELY(f->state == FLOW)) {
            unsigned byte = p[i];
            bool common = !f->in_psb && !f->items;
            unsigned tip;

            if (!(byte & 1) && byte > 2 && common) {
                unsigned bits = 30 - __builtin_clz(byte);

                f->at = begin + i++;
                f->end = f->at + 1;
                read_tnt(f, byte >> 1 & ((1u << bits) - 1), bits);
                continue;
            }
            if (n - i >= 9 && common &&
                (tip = pt_packet_tip(p + i, &f->last_ip))) {
                f->at = begin + i;
                f->end = f->at + tip;
                i += tip;
                read_tip(f, true);
                continue;
            }
        } else if (f->state == SEEK) {
            size_t skipped = pt_packet_seek_psb(p + i, n - i);

            i += skipped;
            f->end = begin + i;
            settle(f, f->end);
            if (n - i < PT_PACKET_MAX) {
                break;
            }
        }
        size = pt_packet_read(p + i, n - i, f->items, &packet);
        if (!size) {
            break;
        }
        f->at = begin + i;
        f->end = f->at + MAX(size, 1);
        i += MAX(size, 1);
        if (size < 0) {
            f->in_psb = false;
            f->items = 0;
            lose(f, PT_GAP_LOST, SEEK);
            f->knows_guest = f->o.bare;
        } else {
            read_packet(f, &packet);
        }
    }
    f->begin = begin + i;
    return i;
}

void pt_flow_feed(struct pt_flow *f, const uint8_t *p, size_t n)
{
    pt_split_feed(&f->split, p, n, run, f);
}

void pt_flow_give(struct pt_flow *f)
{
    hand_out(f);
}

/* What was kept of a packet is none. */
static void drop_kept(struct pt_flow *f)
{
    f->begin += f->split.n;
    f->end = f->begin;
    f->split.n = 0;
}

void pt_flow_missing(struct pt_flow *f)
{
    if (f->state == FLOW && !f->n_tnt) {
        /* What TNT has said was so. */
        confirm(f);
    }
    lose(f, PT_GAP_RING, SEEK);
    drop_kept(f);
    settle(f, f->end);
    f->in_psb = false;
    f->knows_guest = f->o.bare;
    f->mode = f->items = 0;
    guest_clock_lose(&f->clock);
}

void pt_flow_finish(struct pt_flow *f)
{
    if (f->state == FLOW) {
        confirm(f);
    }
    if (f->split.n) {
        lose(f, PT_GAP_LOST, SEEK);
    }
    drop_kept(f);
    settle(f, f->end);
    if (f->gap_bytes) {
        close_gap(f);
    }
    f->sure_events = f->n_events;
    hand_out(f);
}

unsigned pt_flow_held(const struct pt_flow *f)
{
    return f->n;
}

void pt_flow_change(struct pt_flow *f, uint64_t cr3, uint64_t address)
{
    forget_block(f);
    linked_blocks_change(f->blocks, cr3, address);
}
