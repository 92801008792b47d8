/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walker is before one instruction of a lane: see walker.h
 */

#include "gdb/walker-parts.h"

struct walker *walker_new(const struct btrail_trace *trace,
                          struct symbolizer *symbols, struct lane *lane)
{
    struct walker *w = g_new0(struct walker, 1);

    w->trace = trace;
    w->symbols = symbols;
    w->lane = lane;
    w->here = -1;
    w->before = w->after = WALKER_AROUND;
    return w;
}

static void forget(struct walker *w)
{
    if (w->records) {
        lane_release(w->lane, w->records);
        w->records = NULL;
    }
    block_clear(&w->block);
    w->here = -1;
}

void walker_free(struct walker *w)
{
    if (w) {
        forget(w);
        lane_stack_free(w->stack);
        g_clear_pointer(&w->ended, g_array_unref);
        lane_free(w->lane);
        g_free(w->kinds);
        g_free(w);
    }
}

struct lane *walker_lane(const struct walker *w)
{
    return w->lane;
}

const struct lane_record *walker_kept(const struct walker *w, ssize_t i)
{
    return i >= 0 && w->records && i < (ssize_t)w->records->len ?
           &g_array_index(w->records, struct lane_record, i) : NULL;
}

const struct walker_spot *walker_spot(const struct walker *w)
{
    return w->here >= 0 ? &w->spot : NULL;
}

const struct lane_record *walker_record(const struct walker *w)
{
    return walker_kept(w, w->here);
}

const struct lane_record *walker_next_record(const struct walker *w)
{
    return walker_kept(w, w->here + 1);
}

const struct block *walker_block(struct walker *w)
{
    if (!w->block.addresses && !walker_record(w)) {
        w->block.addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    } else if (!w->block.addresses) {
        w->block = block_read(w->symbols, walker_kept(w, w->here),
                              walker_kept(w, w->here + 1));
    }
    return &w->block;
}

unsigned walker_size(struct walker *w)
{
    return walker_block(w)->addresses->len;
}

uint64_t walker_pc(struct walker *w)
{
    return w->spot.number >= walker_size(w) ? 0 :
           block_address(walker_block(w), w->spot.number);
}

struct symbolizer_where walker_where(const struct walker *w)
{
    return block_where(walker_record(w), walker_next_record(w));
}

const struct process *walker_process(const struct walker *w)
{
    const struct lane_record *next = walker_next_record(w);

    return next ? next->process : walker_record(w)->process;
}

void walker_stand(struct walker *w, ssize_t i)
{
    block_clear(&w->block);
    w->here = i;
    w->spot = (struct walker_spot) { walker_kept(w, i)->at, 0 };
}

bool walker_load(struct walker *w, const struct lane_at *at)
{
    const struct lane_at to = *at;
    ssize_t here;
    GArray *records;

    /* Its memory may be needed. */
    forget(w);
    records = lane_read(w->lane, &to, w->before, w->after, &here);
    if (!records->len) {
        lane_release(w->lane, records);
        return false;
    }
    w->records = records;
    walker_stand(w, MAX(here, 0));
    return true;
}

bool walker_move(struct walker *w, int by)
{
    struct lane_at at = w->spot.at;
    ssize_t i = w->here + by;

    if (!walker_record(w)) {
        return false;
    }
    /* The block's end is known from the record after it. */
    if (!walker_kept(w, i) || (by > 0 && !walker_kept(w, i + 1))) {
        /* To seek takes as long as to read many. */
        w->before = by < 0 ? MIN(w->before * 4, WALKER_FAR) : WALKER_AROUND;
        w->after = by > 0 ? MIN(w->after * 4, WALKER_FAR) : WALKER_AROUND;
        if (!walker_load(w, &at)) {
            return false;
        }
        i = w->here + by;
    }
    if (!walker_kept(w, i)) {
        return false;
    }
    walker_stand(w, i);
    return true;
}

bool walker_move_on(struct walker *w, int by)
{
    const struct walker_spot from = w->spot;

    while (walker_move(w, by)) {
        if (walker_size(w)) {
            return true;
        }
    }
    if (walker_load(w, &from.at) && from.number < walker_size(w)) {
        w->spot.number = from.number;
    }
    return false;
}

bool walker_go(struct walker *w, const struct walker_spot *spot)
{
    const struct walker_spot to = *spot;

    w->before = w->after = WALKER_AROUND;
    if (!walker_load(w, &to.at)) {
        return false;
    }
    if (walker_size(w)) {
        w->spot.number = MIN(to.number, walker_size(w) - 1);
        return true;
    }
    if (walker_move_on(w, 1)) {
        return true;
    }
    if (walker_move_on(w, -1)) {
        w->spot.number = walker_size(w) - 1;
        return true;
    }
    forget(w);
    return false;
}

bool walker_step(struct walker *w)
{
    if (w->spot.number + 1 < walker_size(w)) {
        w->spot.number++;
        return true;
    }
    return walker_move_on(w, 1);
}

bool walker_back(struct walker *w)
{
    if (w->spot.number) {
        w->spot.number--;
        return true;
    }
    if (!walker_move_on(w, -1)) {
        return false;
    }
    w->spot.number = walker_size(w) - 1;
    return true;
}
