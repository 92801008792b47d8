/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guests use, measured and held against the configured limits
 */

#ifndef BTRAIL_USAGE_H
#define BTRAIL_USAGE_H

#include "service/guest.h"

/* May @g start another session? */
bool btrail_usage_admit(const struct btrail_guest *g, GError **error);

/* End sessions of guests that use more than they may; for a timer. */
void btrail_usage_enforce(struct btrail_host *host);

#endif /* BTRAIL_USAGE_H */
