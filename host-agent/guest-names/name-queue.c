/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: see name-queue.h
 */

#include <string.h>

#include "guest-names/name-queue.h"

#define ROOM_LEAST  16u

/* There is memory for as many elements as the queue has, or will have. */
static bool set_room(struct name_queue *q, guint room)
{
    if (room > q->room &&
        !btrail_budget_keep(q->budget, (uint64_t)room * q->size)) {
        return false;
    }
    if (room < q->room) {
        btrail_budget_give(q->budget, (uint64_t)(q->room - room) * q->size);
    } else if (q->room) {
        btrail_budget_drop(q->budget, (uint64_t)q->room * q->size);
    }
    q->data = g_realloc_n(q->data, room, q->size);
    q->room = room;
    return true;
}

bool name_queue_add(struct name_queue *q, const void *elements, guint n)
{
    guint need = q->len + n;

    if (need > q->room &&
        !set_room(q, MAX(MAX(need, q->room * 2), ROOM_LEAST))) {
        return false;
    }
    if (n) {
        memcpy(q->data + (size_t)q->len * q->size, elements,
               (size_t)n * q->size);
        q->len = need;
    }
    return true;
}

void name_queue_forget(struct name_queue *q, guint n)
{
    if (!n) {
        return;
    }
    q->len -= n;
    if (!q->len) {
        name_queue_clear(q);
        return;
    }
    memmove(q->data, q->data + (size_t)n * q->size, (size_t)q->len * q->size);
    if (q->room > ROOM_LEAST && q->len < q->room / 4) {
        set_room(q, MAX(q->room / 2, ROOM_LEAST));
    }
}

void name_queue_clear(struct name_queue *q)
{
    if (q->room) {
        btrail_budget_drop(q->budget, (uint64_t)q->room * q->size);
    }
    g_clear_pointer(&q->data, g_free);
    q->len = q->room = 0;
}
