/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording of which only the last part is kept
 *
 * From time to time the guest is stopped while its state is saved, with what it
 * has written to its disks: a replay can begin there.  Once one that is old
 * enough is the recording's base, what was before it is removed, also from the
 * log, except what QEMU reads of it when it starts.
 *
 * The manifest always names files that do not change any more.  If the recorder
 * is killed, what is left begins with the last base that it had.
 */

#ifndef BTRAIL_RING_H
#define BTRAIL_RING_H

#include "replay/emulator.h"
#include "replay/recording.h"

struct ring;

/*
 * @keep_ns of the guest's time on this host are kept, at least; both others
 * outlive it.
 */
struct ring *ring_new(struct recording *recording, struct emulator *emulator,
                      uint64_t keep_ns);

/*
 * From here on, what the guest writes to its disks can be copied; it has not
 * begun yet.
 */
bool ring_prepare(struct ring *r, GError **error);

/* The guest begins. */
void ring_begin(struct ring *r);

/* For how long there is nothing to do */
int ring_wait_ms(const struct ring *r);

/*
 * Saves the guest, and removes what is too old.  After an error the guest is
 * stopped.
 */
bool ring_turn(struct ring *r, GError **error);

/* Removes what the recording does not need, once QEMU has ended. */
void ring_end(struct ring *r);
void ring_free(struct ring *r);

#endif /* BTRAIL_RING_H */
