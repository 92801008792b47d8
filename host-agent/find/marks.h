/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks in a trace: where their code is, which record is one, and its value
 */

#ifndef BTRAIL_MARKS_H
#define BTRAIL_MARKS_H

#include "symbolize/symbolizer.h"
#include "util/agent-error.h"
#include "util/mark-wanted.h"
#include "util/mark.h"

struct marks;

/**
 * marks_new
 * @trace:   outlives the result
 * @symbols: of @trace, which then must not be used at the same time; or NULL
 *
 * Errors: COMMAND: the trace cannot be read.
 */
struct marks *marks_new(const struct btrail_trace *trace,
                        struct symbolizer *symbols, GError **error);
void marks_free(struct marks *m);

/**
 * marks_find - where marks are
 * @wanted:    of this name
 * @addresses: gets what their records go to, which others can go to as well
 *
 * Errors: NAMES: none of the code that was captured has such a mark; COMMAND.
 */
bool marks_find(struct marks *m, const struct mark_wanted *wanted,
                GArray *addresses, GError **error);

/* Is the first record of a batch a mark's? */
bool marks_at(struct marks *m, unsigned vcpu, const struct btrail_batch *b,
              struct mark *mark);

/*
 * Reads the value of the mark that the first record of a batch is, also if the
 * thread was interrupted, and continued on another vCPU.  False if it is not
 * known: there is none, records are missing, or the trace does not say for sure
 * where the thread continued; in a guest that can have one vCPU it does.
 */
bool marks_value(struct marks *m, unsigned vcpu, const struct btrail_batch *b,
                 const struct mark *mark, uint64_t *value);

/**
 * struct marks_found - a mark with its value
 * @known: the value is
 */
struct marks_found {
    struct mark mark;
    bool known;
    uint64_t value;
};

/* False if the first record of a batch is not a mark's. */
bool marks_read(struct marks *m, unsigned vcpu, const struct btrail_batch *b,
                struct marks_found *found);

/* "NAME" and "= VALUE", or "= ?" if the value is not known; not quoted */
#define MARKS_TEXT  (MARK_NAME_MAX + 32)
const char *marks_text(const struct marks_found *found, char buf[MARKS_TEXT]);

/* Is the first record of a batch a mark that is wanted? */
bool marks_match(struct marks *m, unsigned vcpu, const struct btrail_batch *b,
                 const struct mark_wanted *wanted);

#endif /* BTRAIL_MARKS_H */
