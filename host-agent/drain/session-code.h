/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that a session gets: from items to pieces of sideband
 */

#ifndef BTRAIL_SESSION_CODE_H
#define BTRAIL_SESSION_CODE_H

#include "drain/output.h"

struct btrail_session_code;

/*
 * @o must live as long as it does.  With @chosen not all items are handed to
 * it: contents that none of them speaks of are left out.  They may come before
 * the items that speak of them, up to a number of contents in between.
 */
struct btrail_session_code *btrail_session_code_new(struct btrail_output *o,
                                                    bool chosen);
/* What has not been flushed is gone. */
void btrail_session_code_free(struct btrail_session_code *c);

/* An item, by its number; @page if it is of BTRAIL_CODE_BYTES. */
void btrail_session_code_item(struct btrail_session_code *c, unsigned vcpu,
                              uint64_t number,
                              const struct btrail_code_item *item,
                              const uint8_t *page);

/* Write what has come. */
void btrail_session_code_flush(struct btrail_session_code *c);

#endif /* BTRAIL_SESSION_CODE_H */
