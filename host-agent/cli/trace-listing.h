/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folders of guests and the traces in them, printed
 */

#ifndef BTRAIL_TRACE_LISTING_H
#define BTRAIL_TRACE_LISTING_H

#include <json-glib/json-glib.h>

#include "cli/traces.h"

/* {"guest":, "uuid":, "folder":, "traces": [...]} for each folder */
JsonArray *cli_listing(GPtrArray *folders);

/* Prints that as a table, with a line for each folder. */
void cli_listing_print(JsonArray *guests);

#endif /* BTRAIL_TRACE_LISTING_H */
