/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the function that a walker is in was called, and where it returns to:
 * see walker.h
 */

#include "gdb/walker-parts.h"
#include "symbolize/stack-edge.h"

/*
 * What is known of the stack depends on how far before it is followed from:
 * these many records, and how many times more the next time.
 */
#define NEAR        8192u
#define FARTHER     16
/*
 * A function whose call is not known within these has been running long, and
 * which stack is the right one need not be known from farther before, either.
 */
#define NEARBY      (2u << 20)

/* Calls that records have ended, within the last ones that were looked at */
struct ended {
    struct lane_at by;
    struct lane_at call;
};

static struct lane_stack *stack_of(struct walker *w, struct stack_edges *edges)
{
    if (!w->stack) {
        w->stack = lane_stack_new(w->lane, w->symbols, edges);
        w->ended = g_array_new(FALSE, FALSE, sizeof(struct ended));
    }
    return w->stack;
}

/* Follows the stack up to a record, from this many before it on. */
static bool follow_from(struct walker *w, struct stack_edges *edges,
                        const struct lane_at *at, uint64_t back)
{
    struct lane_stack *s = stack_of(w, edges);

    lane_stack_begin(s, at, back);
    return lane_stack_follow(s, at);
}

/* The stack after a record, if it is followed to close before that */
static bool is_followed(struct walker *w, const struct lane_at *at)
{
    const struct lane_record *last = w->stack ? lane_stack_last(w->stack) :
                                                NULL;

    if (!last || last->at.run != at->run || last->at.index > at->index ||
        at->index - last->at.index > NEAR) {
        return false;
    }
    return last->at.index == at->index ||
           (lane_stack_follow(w->stack, at) && lane_stack_next(w->stack));
}

/* Does a record return, if no call is known that does? */
static bool returns(const struct stack_edge *e,
                    const struct stack_state *before)
{
    return !before->replaced &&
           (e->kind == STACK_EDGE_RET || e->kind == STACK_EDGE_IRET ||
            e->kind == STACK_EDGE_EXIT);
}

/*
 * Which calls have ended with the record that is followed next?  @way: of the
 * record, backwards.  @guess: be content if it may be another stack
 */
static enum call_found find_ended(struct walker *w, bool guess,
                                  enum walker_way *way, struct lane_at *call)
{
    struct lane_stack *s = w->stack;
    const struct stack_state before = lane_stack_state(s);
    const struct lane_record *r = lane_stack_next(s);
    struct stack_state now;
    uint32_t number;

    if (!r) {
        return FOUND_NONE;
    }
    now = lane_stack_state(s);
    number = now.begins ? now.call : now.ended;
    *way = now.begins ? WALKER_CALLER : WALKER_CALLEE;
    if (number) {
        *call = lane_stack_where(s, number);
        return guess || number > now.guessed ? FOUND_CALL : FOUND_UNSURE;
    }
    if (now.begins || now.strays ||
        (!now.depth && returns(lane_stack_edge(s), &before))) {
        if (!now.whole) {
            return FOUND_UNSURE;
        }
        /* The program has begun this stack. */
        *way = WALKER_CALLER;
    }
    return FOUND_NONE;
}

/* What was found for a record when a later one was looked at */
static bool is_noted(const struct walker *w, const struct lane_at *by,
                     struct lane_at *call)
{
    size_t low = 0, high = w->ended ? w->ended->len : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct ended *e = &g_array_index(w->ended, struct ended, middle);

        if (lane_before(&e->by, by)) {
            low = middle + 1;
        } else if (lane_before(by, &e->by)) {
            high = middle;
        } else {
            *call = e->call;
            return true;
        }
    }
    return false;
}

/* Is what may be another stack taken for the right one? */
static bool is_content(const struct walker *w, uint64_t back, uint64_t limit)
{
    return back >= MIN(limit, NEARBY) || lane_stack_whole(w->stack);
}

/* The same as find_ended(), of record @at, and notes what is found before it */
static enum call_found look_near(struct walker *w, struct stack_edges *edges,
                                 const struct lane_at *at, uint64_t limit,
                                 enum walker_way *way, struct lane_at *call)
{
    const struct lane_record *last;
    enum call_found found;

    lane_stack_begin(stack_of(w, edges), at, NEAR);
    g_array_set_size(w->ended, 0);
    do {
        found = find_ended(w, is_content(w, NEAR, limit), way, call);
        last = lane_stack_last(w->stack);
        if (last && found == FOUND_CALL && *way == WALKER_CALLEE) {
            const struct ended e = { last->at, *call };

            g_array_append_val(w->ended, e);
        }
    } while (last && lane_before(&last->at, at));
    return last ? found : FOUND_UNSURE;
}

/*
 * Goes to before a call; false if that is not known.  @at_once: also where what
 * was called, or where it returned to, was interrupted before it did anything
 */
static bool go_to_call(struct walker *w, const struct lane_at *call,
                       bool at_once)
{
    if (!walker_load(w, call) || walker_record(w)->lost ||
        !(at_once ? walker_move(w, -1) : walker_move_on(w, -1))) {
        return false;
    }
    w->spot.number = MAX(walker_size(w), 1) - 1;
    return true;
}

/* Is nothing more known of the stack if it is followed from farther before? */
static bool is_farthest(const struct walker *w, uint64_t back, uint64_t limit,
                        const struct walker_stops *stops)
{
    return back >= limit || lane_stack_whole(w->stack) ||
           !stops->go_on(stops->opaque);
}

enum walker_way walker_back_to_call(struct walker *w,
                                    const struct walker_stops *stops,
                                    const struct walker_spot *from,
                                    const struct lane_at *call, bool at_once)
{
    return walker_back_to_stop(w, stops, call, from->number) ? WALKER_STOP :
           go_to_call(w, call, at_once) ? WALKER_CALLER : WALKER_NOWHERE;
}

enum walker_way walker_caller(struct walker *w, struct stack_edges *edges,
                              uint64_t limit, const struct walker_stops *stops)
{
    const struct walker_spot from = w->spot;
    enum walker_way way = WALKER_NOWHERE;

    if (!walker_record(w)) {
        return WALKER_NOWHERE;
    }
    for (uint64_t back = MIN(NEAR, limit);;
         back = MIN(back * FARTHER, limit)) {
        struct lane_at call = lane_back(w->lane, from.at, back);
        struct stack_state s = { 0 };

        if (follow_from(w, edges, &from.at, back) &&
            lane_stack_next(w->stack)) {
            s = lane_stack_state(w->stack);
        }
        if (s.call && (s.call > s.guessed || is_content(w, back, limit))) {
            call = lane_stack_where(w->stack, s.call);
            way = walker_back_to_call(w, stops, &from, &call, false);
            break;
        }
        if (walker_back_to_stop(w, stops, &call, w->spot.number)) {
            way = WALKER_STOP;
            break;
        }
        if ((s.whole && !s.depth) || is_farthest(w, back, limit, stops)) {
            break;
        }
    }
    if (way == WALKER_NOWHERE) {
        walker_go(w, &from);
    }
    return way;
}

/**
 * struct way_out - of a function
 * @own:      the stack in it
 * @landing:  where it has led to, if it is @out
 * @farthest: nothing more would be known from farther before
 * @content:  it is enough to guess which stack continues
 */
struct way_out {
    struct stack_state own;
    struct stack_state landing;
    bool out;
    bool farthest;
    bool content;
};

/* Follows the way with one record; false if its end cannot be known. */
static bool follow_out(struct way_out *o, const struct stack_state *before,
                       const struct stack_state *now,
                       const struct stack_edge *e)
{
    bool mine = before->stack == o->own.stack;

    if (o->out) {
        return true;
    }
    if (mine && now->strays &&
        (!o->farthest || now->stack == o->own.stack)) {
        return false;
    }
    if (!o->own.depth) {
        o->out = mine && !before->depth && returns(e, before);
    } else if (now->stack == o->own.stack) {
        o->out = now->depth < o->own.depth ||
                 (o->own.handler && now->depth == o->own.depth &&
                  !now->handler);
    }
    if (o->out) {
        o->landing = *now;
        return o->content || now->guessed == o->own.guessed;
    }
    return true;
}

/* Is it where the way has led to, if that was interrupted at once? */
static bool has_landed(const struct way_out *o, const struct stack_state *now)
{
    return o->out && now->stack == o->landing.stack &&
           now->depth <= o->landing.depth;
}

/* As walker_return(), with what is known; WALKER_SAME: that is not enough. */
static enum walker_way go_out(struct walker *w, struct way_out *o,
                              uint64_t limit, const struct walker_stops *stops)
{
    struct stack_state before = o->own;
    struct lane_at at = w->spot.at;
    uint64_t pc = walker_record(w)->record.to;
    bool first = true;

    for (; walker_has_patience(stops, limit); limit--) {
        const struct lane_record *r = lane_stack_next(w->stack);
        struct stack_state now;

        if (!first && walker_stop_between(w, stops, &at, r, pc)) {
            return WALKER_STOP;
        }
        first = false;
        if (!r || r->lost) {
            break;
        }
        at = r->at;
        pc = r->record.to;
        now = lane_stack_state(w->stack);
        if (!follow_out(o, &before, &now, lane_stack_edge(w->stack))) {
            return o->farthest ? WALKER_NOWHERE : WALKER_SAME;
        }
        if (has_landed(o, &now) && walker_load(w, &at) && walker_size(w)) {
            return WALKER_CALLER;
        }
        before = now;
    }
    return WALKER_NOWHERE;
}

enum walker_way walker_return(struct walker *w, struct stack_edges *edges,
                              uint64_t limit, const struct walker_stops *stops)
{
    const struct walker_spot from = w->spot;
    enum walker_way way = WALKER_SAME;
    uint64_t back = 0;
    bool known;

    if (!walker_record(w)) {
        return WALKER_NOWHERE;
    }
    if (walker_stop_in_block(w, stops, true, from.number + 1)) {
        return WALKER_STOP;
    }
    for (known = is_followed(w, &from.at); way == WALKER_SAME; known = false) {
        struct way_out out = { .out = false };

        if (!known) {
            back = MIN(back ? back * FARTHER : NEAR, limit);
            known = follow_from(w, edges, &from.at, back) &&
                    lane_stack_next(w->stack);
        }
        if (!known) {
            way = WALKER_NOWHERE;
            break;
        }
        out.own = lane_stack_state(w->stack);
        out.farthest = is_farthest(w, back, limit, stops);
        out.content = is_content(w, back, limit);
        if (out.own.call || out.farthest || back >= NEARBY) {
            walker_load(w, &from.at);
            way = go_out(w, &out, limit, stops);
        }
    }
    if (way == WALKER_NOWHERE) {
        walker_go(w, &from);
    }
    return way;
}

enum call_found walker_ended(struct walker *w, struct stack_edges *edges,
                             uint64_t limit,
                             const struct walker_stops *stops,
                             enum walker_way *way, struct lane_at *call)
{
    const struct lane_at at = w->spot.at;
    enum call_found found;

    *way = WALKER_CALLEE;
    if (is_noted(w, &at, call)) {
        return FOUND_CALL;
    }
    found = look_near(w, edges, &at, limit, way, call);
    for (uint64_t back = NEAR; found == FOUND_UNSURE &&
                               !is_farthest(w, back, limit, stops);) {
        back = MIN(back * FARTHER, limit);
        found = !follow_from(w, edges, &at, back) ? FOUND_UNSURE :
                find_ended(w, is_content(w, back, limit), way, call);
    }
    return found;
}
