/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that an address space of a guest, which stands still, has as code and
 * as data that can be written to
 *
 * A program can write its code through another mapping, as those do that never
 * have a page that can be written to and executed.  The mapping of the code
 * does not say so; the other one has the same page of memory.
 */

#ifndef BTRAIL_DATA_FRAMES_H
#define BTRAIL_DATA_FRAMES_H

#include "guest-linux/guest-memory.h"

struct data_frames;

/**
 * data_frames_new - go through the page tables of user mode
 * @root:   physical address of the highest table
 * @levels: 2 to 5, as for page_walk_init()
 * @budget: how many tables may be read; gets what is left
 */
struct data_frames *data_frames_new(const struct guest_memory *memory,
                                    uint64_t root, unsigned levels,
                                    uint64_t *budget);
void data_frames_free(struct data_frames *d);

/*
 * Was code at this physical address written to, or can it have been?  Also if
 * there were too many tables, so that nobody knows.
 */
bool data_frames_have(const struct data_frames *d, uint64_t physical);

#endif /* BTRAIL_DATA_FRAMES_H */
