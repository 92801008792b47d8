/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: elements of one size, the oldest first, whose memory is
 * taken from a budget
 *
 * Their memory is that of twice as many elements at most, and it is given back
 * when most of them are forgotten.  So adding and forgetting only now and then
 * take time in proportion to the number of elements.
 */

#ifndef BTRAIL_NAME_QUEUE_H
#define BTRAIL_NAME_QUEUE_H

#include <glib.h>

#include "lib/agent/budget.h"

/**
 * struct name_queue
 * @data, @len: the elements
 * @size:       of each
 * @room:       for this many
 */
struct name_queue {
    struct btrail_budget *budget;
    char *data;
    guint len;
    guint size;
    guint room;
};

#define NAME_QUEUE_INIT(budget, type) \
    ((struct name_queue) { (budget), .size = sizeof(type) })

#define name_queue_index(q, type, i)    (((type *)(void *)(q)->data)[i])

/* Adds some; false, and adds none, if the budget is used up. */
bool name_queue_add(struct name_queue *q, const void *elements, guint n);

/* Forgets the first @n. */
void name_queue_forget(struct name_queue *q, guint n);

/* Forgets all. */
void name_queue_clear(struct name_queue *q);

#endif /* BTRAIL_NAME_QUEUE_H */
