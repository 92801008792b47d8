/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The traces that are in a guest's folder
 */

#ifndef BTRAIL_LISTING_H
#define BTRAIL_LISTING_H

#include <json-glib/json-glib.h>

#include "service/folder.h"

/* So many traces, the newest ones, are listed; others are counted. */
#define BTRAIL_LISTING_MAX  1000

/**
 * btrail_listing - look at all traces
 * @writing: names of those that sessions write to: they are not opened
 *
 * Any thread; takes a while.  Returns what the command "list" does.
 */
JsonNode *btrail_listing(const struct btrail_folder *folder,
                         GHashTable *writing);

#endif /* BTRAIL_LISTING_H */
