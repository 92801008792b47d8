/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What ends the way of a walker: see walker-parts.h
 */

#include "gdb/walker-parts.h"
#include "util/search.h"

/* How often it asks whether to continue */
#define PATIENCE    65536

bool walker_has(const uint64_t *addresses, size_t n, uint64_t first,
                uint64_t last)
{
    size_t i = btrail_up_to(addresses, n, sizeof(*addresses), false, 0, last);

    return i && addresses[i - 1] >= first;
}

int walker_find(struct walker *w, const uint64_t *addresses, size_t n,
                bool forward, unsigned from)
{
    int step = forward ? 1 : -1;

    for (int i = forward ? (int)from : (int)from - 1;
         i >= 0 && i < (int)walker_size(w); i += step) {
        uint64_t address = block_address(walker_block(w), i);

        if (walker_has(addresses, n, address, address)) {
            return i;
        }
    }
    return -1;
}

bool walker_stop_in_block(struct walker *w, const struct walker_stops *stops,
                          bool forward, unsigned from)
{
    const struct lane_record *next = walker_next_record(w);
    int found;

    /* Most blocks need not be decoded. */
    if (next && !next->lost &&
        !walker_has(stops->addresses, stops->n, walker_record(w)->record.to,
                    next->record.from)) {
        return false;
    }
    found = walker_find(w, stops->addresses, stops->n, forward,
                        MIN(from, walker_size(w)));
    if (found >= 0) {
        w->spot.number = found;
    }
    return found >= 0;
}

bool walker_at_stop(struct walker *w, const struct walker_stops *stops)
{
    uint64_t pc = walker_pc(w);

    return walker_spot(w) && walker_has(stops->addresses, stops->n, pc, pc);
}

bool walker_has_patience(const struct walker_stops *stops, uint64_t left)
{
    return left && (left % PATIENCE || stops->go_on(stops->opaque));
}

bool walker_stop_between(struct walker *w, const struct walker_stops *stops,
                         const struct lane_at *begin,
                         const struct lane_record *next, uint64_t pc)
{
    return stops->n &&
           (!next || next->lost ||
            walker_has(stops->addresses, stops->n, pc, next->record.from)) &&
           walker_load(w, begin) && walker_stop_in_block(w, stops, true, 0);
}

bool walker_back_to_stop(struct walker *w, const struct walker_stops *stops,
                         const struct lane_at *until, unsigned before)
{
    for (uint64_t n = 1; stops->n && !lane_before(&w->spot.at, until); n++) {
        if (walker_stop_in_block(w, stops, false, before)) {
            return true;
        }
        if (walker_record(w)->lost || !walker_has_patience(stops, n) ||
            !walker_move(w, -1)) {
            break;
        }
        before = UINT_MAX;
    }
    return false;
}
