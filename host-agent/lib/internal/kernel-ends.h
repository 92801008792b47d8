/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When no kernel ran that a trace knows anything of
 *
 * KERNEL events say which kernel runs.  Where a producer sends none, the
 * sideband says of a kernel when it was last seen to run (BTRAIL_SIDEBAND_ENDED).
 * From then on no kernel is known, up to the first symbols of the next one.
 */

#ifndef BTRAIL_KERNEL_ENDS_H
#define BTRAIL_KERNEL_ENDS_H

#include <glib.h>

#include "backtrail/trace.h"

/*
 * The times without a kernel, by the sideband of a trace: an array with a
 * reference for the caller; NULL if there are none
 */
GArray *btrail_kernel_ends_read(const struct btrail_trace *trace);

/*
 * Is a time such a one?  From *@from to *@last, which can be NULL, the answer is
 * the same.  @ends can be NULL.
 */
bool btrail_kernel_ends_at(const GArray *ends, uint64_t time, uint64_t *from,
                           uint64_t *last);

/*
 * Takes the data of a piece of the kind ENDED: when it was known.  False if
 * they contradict the piece's time, or are of another size; even then, *@known
 * is as a reader takes it.
 */
bool btrail_kernel_ended_get(const struct btrail_sideband_info *info,
                             const void *data, uint64_t *known);

#endif /* BTRAIL_KERNEL_ENDS_H */
