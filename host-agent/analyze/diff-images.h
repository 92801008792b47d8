/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the images of processes are, as far as edges have shown
 *
 * A process that lives for a moment is in no snapshot: its mappings are found
 * page by page, by the contents of its code, and in one run other pages than in
 * another.  A page of which nothing is known, close to pages of an image, is
 * part of the image.
 */

#ifndef BTRAIL_DIFF_IMAGES_H
#define BTRAIL_DIFF_IMAGES_H

#include "symbolize/symbolizer.h"

struct diff_images;

struct diff_images *diff_images_new(void);
void diff_images_free(struct diff_images *d);

/**
 * diff_images_place - the place of an address
 * @cr3:   of the address space: a process has another one after an exec
 * @place: as symbolizer_place() has found it; gets a better one
 * @function: what @place->function can be; lives as long as the caller likes
 */
void diff_images_place(struct diff_images *d, const struct process *process,
                       uint64_t cr3, uint64_t address, struct place *place,
                       struct function *function);

#endif /* BTRAIL_DIFF_IMAGES_H */
