/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The way back of a replay: states of the guest that it can return to
 *
 * They are internal snapshots of QEMU in an image of their own, whose spacing
 * doubles when there are too many.
 */

#ifndef BTRAIL_WAY_BACK_H
#define BTRAIL_WAY_BACK_H

#include "replay/emulator.h"

struct way_back;

/* Makes the image, and adds it to the arguments of an emulator that has not
 * started and that lives as long. */
struct way_back *way_back_new(struct emulator *e, GError **error);
void way_back_free(struct way_back *w);

/* Keeps the state of the guest, which stands at this instruction. */
bool way_back_mark(struct way_back *w, uint64_t icount, GError **error);

/* Where the next mark is due */
uint64_t way_back_next(const struct way_back *w);

/**
 * way_back_load - get near a place
 * @at:     where the guest stands
 * @icount: the place
 *
 * Loads the last mark that is not behind @icount, unless the guest gets there
 * from @at without passing one.
 */
bool way_back_load(struct way_back *w, uint64_t at, uint64_t icount,
                   GError **error);

#endif /* BTRAIL_WAY_BACK_H */
