/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions after and before one of a function: see walker.h
 */

#include "gdb/walker-parts.h"
#include "symbolize/stack-edge.h"
#include "util/hash.h"

/* Edges whose kinds are known: one for each hash */
#define KINDS_BITS  14

/* What an edge of a process does to the stack */
enum effect {
    EFFECT_UNKNOWN,
    EFFECT_NONE,
    EFFECT_CALL,
    EFFECT_RETURN,
    EFFECT_RET,                 /* a return, unless it is of a retpoline */
};

struct kind {
    uint64_t from;
    uint64_t to;
    const struct process *process;
    enum effect effect;
};

static enum effect find_effect(struct walker *w, struct stack_edges *edges)
{
    const struct lane_record *r = walker_record(w);
    const struct symbolizer_where where = lane_where(r);
    const struct stack_edge *e = stack_edges_get(edges, r->process, &where,
                                                 &r->record);

    /* What is interrupted can be a call or return, too. */
    if (block_delivery(w->symbols, r)) {
        return EFFECT_CALL;
    }
    switch (e->kind) {
    case STACK_EDGE_CALL:
    case STACK_EDGE_ENTRY:
    case STACK_EDGE_INTERRUPT:
        return EFFECT_CALL;
    case STACK_EDGE_IRET:
    case STACK_EDGE_EXIT:
        return EFFECT_RETURN;
    case STACK_EDGE_RET:
        return EFFECT_RET;
    default:
        return EFFECT_NONE;
    }
}

/* What the record after which it is does */
static enum effect effect_here(struct walker *w, struct stack_edges *edges)
{
    const struct lane_record *r = walker_record(w);
    uint64_t hash = btrail_hash2(r->record.from, r->record.to);
    struct kind *k;

    if (!w->kinds) {
        w->kinds = g_new0(struct kind, 1u << KINDS_BITS);
    }
    k = &w->kinds[hash >> (64 - KINDS_BITS)];
    if (k->effect == EFFECT_UNKNOWN || k->from != r->record.from ||
        k->to != r->record.to || k->process != r->process) {
        *k = (struct kind) { r->record.from, r->record.to, r->process,
                             find_effect(w, edges) };
    }
    if (k->effect != EFFECT_RET) {
        return k->effect;
    }
    /* The record before it need not be kept. */
    if (!w->here) {
        const struct lane_at at = w->spot.at;

        walker_load(w, &at);
    }
    /* The call of a retpoline is a jump to the classifier of edges. */
    return w->here > 0 &&
           block_retpoline(w->symbols, walker_kept(w, w->here - 1),
                           walker_record(w)) ? EFFECT_NONE : EFFECT_RETURN;
}

/* Can a record end calls? */
static bool can_end(struct walker *w, struct stack_edges *edges)
{
    const struct lane_record *r = walker_record(w);
    const struct symbolizer_where where = lane_where(r);
    const struct stack_edge *e;

    if (effect_here(w, edges) == EFFECT_RETURN) {
        return true;
    }
    e = stack_edges_get(edges, r->process, &where, &r->record);
    return e->kind == STACK_EDGE_JUMP_FAR && !e->start &&
           e->from_fn != e->to_fn && e->to < ADDRESS_SHARED;
}

/* The instruction before, also if that is none: see go_to_call() */
static bool back_at_once(struct walker *w)
{
    if (w->spot.number) {
        w->spot.number--;
        return true;
    }
    if (!walker_move(w, -1)) {
        return false;
    }
    w->spot.number = MAX(walker_size(w), 1) - 1;
    return true;
}

/* As walker_way_back(), over one record */
static enum walker_way back_one(struct walker *w, struct stack_edges *edges,
                                bool over, uint64_t limit,
                                const struct walker_stops *stops)
{
    const struct walker_spot from = w->spot;
    enum walker_way way = WALKER_SAME;
    enum call_found found = FOUND_NONE;
    struct lane_at call;
    bool lost = walker_record(w)->lost;

    if (!from.number && can_end(w, edges)) {
        found = walker_ended(w, edges, limit, stops, &way, &call);
        if (found == FOUND_NONE && way == WALKER_CALLEE) {
            way = WALKER_SAME;
        }
    } else if (!from.number && effect_here(w, edges) == EFFECT_CALL) {
        way = WALKER_CALLER;
    }
    if (found == FOUND_CALL && (over || way == WALKER_CALLER)) {
        enum walker_way gone = walker_back_to_call(w, stops, &from, &call,
                                                   over);

        if (gone != WALKER_NOWHERE) {
            return gone == WALKER_STOP ? gone :
                   way == WALKER_CALLEE ? WALKER_SAME : way;
        }
        walker_load(w, &from.at);
        w->spot.number = from.number;
    }
    /* Not into what somebody wants to go over, if it is not known to where */
    if (over && way == WALKER_CALLEE) {
        return WALKER_NOWHERE;
    }
    if (!(over ? back_at_once(w) : walker_back(w)) ||
        (way != WALKER_SAME && lost)) {
        return WALKER_NOWHERE;
    }
    return way;
}

enum walker_way walker_way_back(struct walker *w, struct stack_edges *edges,
                                bool over, uint64_t limit,
                                const struct walker_stops *stops)
{
    const struct walker_spot from = w->spot;
    enum walker_way way, result = WALKER_SAME;

    if (!walker_record(w)) {
        return WALKER_NOWHERE;
    }
    do {
        way = back_one(w, edges, over, limit, stops);
        result = way == WALKER_SAME ? result : way;
        /* What was called, or returned, was interrupted at once. */
    } while (way != WALKER_NOWHERE && !walker_size(w));
    if (way == WALKER_NOWHERE && !walker_size(w)) {
        walker_go(w, &from);
    }
    return result;
}

/* The most calls that one instruction leads into: it calls a function that is
 * interrupted at once, and what is called then, too */
#define ENTERED_MAX     4

/**
 * struct way_in
 * @entered: how many calls the way leads into
 * @begins:  of each of them, where it begins
 * @left:    the function where the way begins has ended
 * @lost:    records are missing
 */
struct way_in {
    unsigned entered;
    uint64_t begins[ENTERED_MAX];
    bool left;
    bool lost;
};

static bool add_way_in(struct way_in *in, enum effect effect,
                       const struct lane_record *r)
{
    in->lost |= r->lost;
    if (effect == EFFECT_CALL) {
        if (in->entered == ENTERED_MAX) {
            return false;
        }
        in->begins[in->entered++] = r->record.to;
    } else if (effect == EFFECT_RETURN && in->entered) {
        in->entered--;
    } else {
        in->left |= effect == EFFECT_RETURN;
    }
    return true;
}

/* Out of the calls that a way has led into, of which only the last one ran */
static enum walker_way out_of_all(struct walker *w, struct stack_edges *edges,
                                  uint64_t limit,
                                  const struct walker_stops *stops,
                                  const struct way_in *in)
{
    for (unsigned n = in->entered; n; n--) {
        enum walker_way way;

        /* What was interrupted need not continue: there are signals. */
        if (n < in->entered && walker_pc(w) != in->begins[n - 1]) {
            return WALKER_SAME;
        }
        way = walker_at_stop(w, stops) ? WALKER_STOP :
              walker_return(w, edges, limit, stops);
        if (way != WALKER_CALLER) {
            return way == WALKER_STOP ? way : WALKER_CALLEE;
        }
    }
    return in->left ? WALKER_CALLER : WALKER_SAME;
}

enum walker_way walker_way_on(struct walker *w, struct stack_edges *edges,
                              bool over, uint64_t limit,
                              const struct walker_stops *stops)
{
    const struct walker_spot from = w->spot;
    struct way_in in = { .entered = 0 };

    if (!walker_record(w)) {
        return WALKER_NOWHERE;
    }
    if (from.number + 1 < walker_size(w)) {
        w->spot.number++;
        return WALKER_SAME;
    }
    do {
        if (!walker_move(w, 1) ||
            !add_way_in(&in, effect_here(w, edges), walker_record(w))) {
            walker_go(w, &from);
            return WALKER_NOWHERE;
        }
    } while (!walker_size(w));
    if (in.lost && (in.entered || in.left)) {
        return WALKER_NOWHERE;
    }
    return !in.entered ? (in.left ? WALKER_CALLER : WALKER_SAME) :
           over ? out_of_all(w, edges, limit, stops, &in) : WALKER_CALLEE;
}
