/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much of a guest a trace of Intel PT has, as its META says it
 */

#ifndef BTRAIL_CLI_PT_SHARE_H
#define BTRAIL_CLI_PT_SHARE_H

#include <json-glib/json-glib.h>
#include <stdbool.h>

/* A line without its end, to be freed; NULL if META has nothing of it */
char *pt_share_text(JsonObject *meta);

/* The same of its times */
char *pt_share_times(JsonObject *meta);

/* Are the bytes that were decoded, skipped and the host's those that were read?
 * True as well if META has nothing of them. */
bool pt_share_adds_up(JsonObject *meta);

#endif /* BTRAIL_CLI_PT_SHARE_H */
