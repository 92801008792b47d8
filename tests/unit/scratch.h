/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A folder for the files of a test
 */

#ifndef BTRAIL_SCRATCH_H
#define BTRAIL_SCRATCH_H

char *scratch_new(void);

/* Remove it, with all that is in it. */
void scratch_remove(char *folder);

#endif /* BTRAIL_SCRATCH_H */
