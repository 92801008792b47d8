/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Removing folders that we have made
 */

#ifndef BTRAIL_REMOVE_FOLDER_H
#define BTRAIL_REMOVE_FOLDER_H

/* With all that is in it; links are removed, and not followed. */
void remove_folder(const char *folder);

#endif /* BTRAIL_REMOVE_FOLDER_H */
