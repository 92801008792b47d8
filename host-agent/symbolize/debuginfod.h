/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fetching debugging information by build-id, from servers of debuginfod
 *
 * This asks the network for what a guest has in its memory, so it is only used
 * if somebody wants it.
 */

#ifndef BTRAIL_DEBUGINFOD_H
#define BTRAIL_DEBUGINFOD_H

#include <glib.h>
#include <stdbool.h>

struct debuginfod;

/*
 * The servers are those of $DEBUGINFOD_URLS.  Returns NULL with an error if
 * that names none, or elfutils' library is not installed.
 */
struct debuginfod *debuginfod_new(GError **error);
void debuginfod_free(struct debuginfod *d);

/*
 * Fetches the file of a build-id, or the one with its debugging information,
 * into the cache of the client.  Returns its path, to be freed; or NULL.
 */
char *debuginfod_fetch(struct debuginfod *d, const char *build_id, bool debug);

/* Why servers could not be asked, after which none is; NULL if they could */
const char *debuginfod_failure(const struct debuginfod *d);

#endif /* BTRAIL_DEBUGINFOD_H */
