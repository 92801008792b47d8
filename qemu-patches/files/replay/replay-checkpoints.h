/*
 * Checkpoints of a replay, in memory
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef REPLAY_CHECKPOINTS_H
#define REPLAY_CHECKPOINTS_H

/*
 * The instruction count of the last checkpoint from which a place can be
 * reached; -1 if there is none
 */
int64_t replay_checkpoints_find(int64_t icount);

/*
 * Stops the guest and goes to a checkpoint that was found.  After an error the
 * guest must not run.
 */
bool replay_checkpoints_load(int64_t icount, Error **errp);

/*
 * Of the intervals that end at a place, one before the other, leaves out those
 * in which the guest cannot meet a breakpoint or watchpoint.  Returns the place
 * where the first one ends that is not left out.
 */
int64_t replay_checkpoints_skip(int64_t icount);

/*
 * Makes room for this many bytes more, by merging checkpoints.  Returns false
 * if there is none.
 */
bool replay_checkpoints_reserve(uint64_t bytes);

/* Is there an object that takes them? */
bool replay_checkpoints_active(void);

/* The guest is no longer in a state that has come from a checkpoint. */
void replay_checkpoints_forget(void);

#endif
