/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages to the agent, in a queue that has a limit
 *
 * Nothing here waits: a message for which there is no room is left out, and the
 * agent learns how many were.
 */

#ifndef BTRAIL_OUTBOX_H
#define BTRAIL_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "backtrail/guest-names.h"

#define OUTBOX_SIZE     (1u << 20)

/*
 * Room that messages of less importance leave: what the kernel says of tasks is
 * said once only, lists can wait, and of switches there are many.
 */
#define OUTBOX_KEEP_EVENTS      4096u
#define OUTBOX_KEEP_SWITCHES    (OUTBOX_SIZE / 4)
#define OUTBOX_KEEP_LIST        (OUTBOX_SIZE / 2)

struct outbox {
    unsigned char *data;
    size_t first;               /* of the bytes that are not written yet */
    size_t used;
    uint64_t lost[BTRAIL_GUEST_LOST_LIST + 1];
};

struct outbox_text {
    const void *data;
    uint32_t size;
};

/* Returns false if there is no memory. */
bool outbox_init(struct outbox *o);
void outbox_free(struct outbox *o);

/* Forgets all. */
void outbox_clear(struct outbox *o);

static inline size_t outbox_room(const struct outbox *o)
{
    return OUTBOX_SIZE - o->used;
}

/*
 * Adds a message: a struct, and two texts, whose sizes the struct has.  Returns
 * false if less than @keep bytes of room would be left, or if it is too large.
 */
bool outbox_put(struct outbox *o, uint16_t type, const void *fixed, size_t size,
                struct outbox_text first, struct outbox_text second,
                size_t keep);

/* Counts what was left out. */
void outbox_lost(struct outbox *o, enum btrail_guest_lost_what what,
                 uint64_t n);

/* Adds messages of what was left out, at a time; as many as there is room for. */
void outbox_report_lost(struct outbox *o, uint64_t time);

/* Writes what fd takes now.  Returns false, with errno, if that is gone. */
bool outbox_write(struct outbox *o, int fd);

#endif /* BTRAIL_OUTBOX_H */
