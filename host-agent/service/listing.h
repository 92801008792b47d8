/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The traces that are in a guest's folder
 */

#ifndef BTRAIL_LISTING_H
#define BTRAIL_LISTING_H

#include <json-glib/json-glib.h>

#include "service/folder.h"

/*
 * The newest traces are listed, up to this many, and as many as a message has
 * room for; others are counted.
 */
#define LISTING_MAX  1000

/**
 * service_listing - list all traces of a folder
 * @writing: names of those that sessions write to, which are not opened
 *
 * May run in any thread, and takes long.  Returns the result of "list".
 */
JsonObject *service_listing(const struct folder *folder,
                            GHashTable *writing);

#endif /* BTRAIL_LISTING_H */
