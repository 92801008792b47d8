/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code of a session: from items of the producer to pieces of sideband
 */

#ifndef BTRAIL_SESSION_CODE_H
#define BTRAIL_SESSION_CODE_H

#include "drain/output.h"

struct session_code;

/*
 * @o must live as long as the result, and so must the @budget that what waits
 * is taken from.  With @chosen not all items are handed over: contents to which
 * no item refers are left out.  A content may come before the item that refers
 * to it, with a limited number of contents in between.
 */
struct session_code *
session_code_new(struct output *o, struct btrail_budget *budget,
                 bool chosen);
/* Discards what was not flushed. */
void session_code_free(struct session_code *c);

/* Adds an item, by its number; @page if it is of BTRAIL_CODE_BYTES. */
void session_code_item(struct session_code *c, unsigned vcpu,
                       uint64_t number,
                       const struct btrail_code_item *item,
                       const uint8_t *page);

/* Writes what was added. */
void session_code_flush(struct session_code *c);

#endif /* BTRAIL_SESSION_CODE_H */
