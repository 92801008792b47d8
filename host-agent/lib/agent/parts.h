/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of the files of a trace that was split
 *
 * The first one has the name that the user gave, such as x.btrail; those that
 * follow are x.1.btrail, x.2.btrail and so on.  A name that does not end with
 * ".btrail" gets the number at its end: x, x.1, x.2.
 */

#ifndef BTRAIL_PARTS_H
#define BTRAIL_PARTS_H

#include <glib.h>
#include <stdint.h>

/* The name of a part; the caller frees it. */
char *btrail_part_path(const char *path, uint32_t part);

/*
 * The name of part 0, given the name of part @part; NULL if @path is not the
 * name of such a part.  The caller frees it.
 */
char *btrail_part_first(const char *path, uint32_t part);

/* The number in a name that may be that of a part; 0 if there is none */
uint32_t btrail_part_number(const char *path);

/*
 * The existing parts, as uint32_t, in order and without part 0; none if the
 * folder cannot be read.  The caller frees the array.
 */
GArray *btrail_parts_find(const char *path);

#endif /* BTRAIL_PARTS_H */
