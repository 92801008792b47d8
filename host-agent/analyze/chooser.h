/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which records of a trace the filter chooses
 */

#ifndef BTRAIL_CHOOSER_H
#define BTRAIL_CHOOSER_H

#include "analyze/window.h"
#include "symbolize/filter.h"

struct chooser;

/*
 * @filter and @names are used as long as the chooser is, @names by one thread
 * at a time.
 */
struct chooser *chooser_new(struct symbolizer *names,
                            const struct filter *filter,
                            const struct window *window);
void chooser_free(struct chooser *c);

/*
 * Finds which records of a part of a batch, which one task has made, are
 * chosen: sets @counts of each.  Returns their number.
 */
size_t chooser_choose(struct chooser *c, unsigned vcpu,
                      const struct task *task, const struct btrail_batch *b,
                      bool *counts);

/*
 * Is a record of a task chosen, the only one of a batch?  @within: it would be,
 * if it were in the set of filter_within()
 */
bool chooser_has(struct chooser *c, unsigned vcpu, const struct task *task,
                 const struct btrail_batch *b, bool within);

#endif /* BTRAIL_CHOOSER_H */
