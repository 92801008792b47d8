/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guests use, measured and held against the configured limits
 */

#ifndef BTRAIL_USAGE_H
#define BTRAIL_USAGE_H

#include "service/guest.h"

/* May @g start another session? */
bool usage_admit(const struct guest *g, GError **error);

/* The limit because of which all sessions of @g are to end, or NULL */
const char *usage_guest_exceeded(const struct guest *g);

/*
 * The limit of all guests together because of which the session @m of @g is to
 * end, or NULL.  @m is NULL if the sessions of all guests are to end.
 */
const char *usage_all_exceeded(const struct host *host,
                               struct guest **g,
                               struct guest_member **m);

#endif /* BTRAIL_USAGE_H */
