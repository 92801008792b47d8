/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events of one moment: they come from several CPUs, and are sent in the order
 * of time
 */

#ifndef BTRAIL_BATCH_H
#define BTRAIL_BATCH_H

#include "outbox.h"
#include "tsc.h"

#define BATCH_MAX       (1u << 14)
#define BATCH_TEXT      (1u << 21)

/* An event, with a time of the clock where its message has one of the TSC */
struct batch_event {
    uint64_t ns;
    uint32_t order;
    uint16_t type;
    uint32_t size;
    union {
        struct btrail_guest_mapping mapping;
        struct btrail_guest_fork fork;
        struct btrail_guest_exit exit;
        struct btrail_guest_name name;
    };
    uint32_t text;              /* where its first text is, the second after */
    uint32_t first_size;
    uint32_t second_size;
};

struct batch {
    struct batch_event *events;
    uint32_t n;
    char *text;
    uint32_t text_used;
};

bool batch_init(struct batch *b);
void batch_free(struct batch *b);

/* Adds an event; false if there is no room. */
bool batch_add(struct batch *b, const struct batch_event *event,
               struct outbox_text first, struct outbox_text second);

/* Sends all, and forgets them. */
void batch_send(struct batch *b, const struct tsc_clock *clock,
                struct outbox *out);

#endif /* BTRAIL_BATCH_H */
