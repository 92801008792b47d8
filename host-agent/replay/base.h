/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The base of a recording: what its guest was like when the recording began,
 * if it was not switched on then
 *
 * It is the state of the devices and the RAM as QEMU migrates it.  The QEMU
 * that records loads it, and so does each one that replays.
 */

#ifndef BTRAIL_BASE_H
#define BTRAIL_BASE_H

#include "replay/emulator.h"
#include "replay/recording.h"

/* Has QEMU load it, if the recording has one; before the start. */
void base_add(const struct recording *r, struct emulator *e);

/* Waits until QEMU has loaded it; the guest is stopped. */
bool base_wait(const struct recording *r, struct emulator *e, GError **error);

#endif /* BTRAIL_BASE_H */
