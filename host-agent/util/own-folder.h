/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folders that belong to this user, as what is in them is trusted
 */

#ifndef BTRAIL_OWN_FOLDER_H
#define BTRAIL_OWN_FOLDER_H

#include "util/agent-error.h"

/*
 * Is this a folder of this user's, and no link to one, that nobody else may
 * write to or replace?  An error says what is wrong.
 */
bool own_folder(const char *path, GError **error);

/*
 * Makes a folder in the user's runtime folder, with those above it, unless it
 * is there, and requires that it is this user's alone.  @whose says for people
 * what it is of.
 */
bool own_folder_make(const char *path, const char *whose, GError **error);

#endif /* BTRAIL_OWN_FOLDER_H */
