/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events of one moment: see batch.h
 */

#include <stdlib.h>
#include <string.h>

#include "batch.h"

bool batch_init(struct batch *b)
{
    memset(b, 0, sizeof(*b));
    b->events = malloc(BATCH_MAX * sizeof(*b->events));
    b->text = malloc(BATCH_TEXT);
    return b->events && b->text;
}

void batch_free(struct batch *b)
{
    free(b->events);
    free(b->text);
}

bool batch_add(struct batch *b, const struct batch_event *event,
               struct outbox_text first, struct outbox_text second)
{
    struct batch_event *e;

    if (b->n == BATCH_MAX ||
        first.size + second.size > BATCH_TEXT - b->text_used) {
        return false;
    }
    e = &b->events[b->n];
    *e = *event;
    e->order = b->n++;
    e->text = b->text_used;
    e->first_size = first.size;
    e->second_size = second.size;
    if (first.size) {
        memcpy(b->text + b->text_used, first.data, first.size);
    }
    if (second.size) {
        memcpy(b->text + b->text_used + first.size, second.data, second.size);
    }
    b->text_used += first.size + second.size;
    return true;
}

static int by_time(const void *p, const void *q)
{
    const struct batch_event *a = p, *b = q;

    return a->ns != b->ns ? (a->ns < b->ns ? -1 : 1) :
           a->order < b->order ? -1 : 1;
}

void batch_send(struct batch *b, const struct tsc_clock *clock,
                struct outbox *out)
{
    qsort(b->events, b->n, sizeof(*b->events), by_time);
    for (uint32_t i = 0; i < b->n; i++) {
        struct batch_event *e = &b->events[i];
        const char *text = b->text + e->text;

        /* The time is the first member of all. */
        e->mapping.time = tsc_clock_at(clock, e->ns);
        if (!outbox_put(out, e->type, &e->mapping, e->size,
                        (struct outbox_text) { text, e->first_size },
                        (struct outbox_text) { text + e->first_size,
                                               e->second_size },
                        OUTBOX_KEEP_EVENTS)) {
            outbox_lost(out, BTRAIL_GUEST_LOST_EVENTS, 1);
        }
    }
    b->n = b->text_used = 0;
}
