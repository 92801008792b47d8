/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guests use, measured and held against the configured limits
 */

#ifndef BTRAIL_USAGE_H
#define BTRAIL_USAGE_H

#include "service/host.h"

struct btrail_guest;

/* May @g start another session? */
bool btrail_usage_admit(const struct btrail_guest *g, GError **error);

/* May a session write another file into its guest's @folder? */
bool btrail_usage_admit_file(const struct btrail_host *host,
                             const struct btrail_folder *folder,
                             GError **error);

/* A GSourceFunc: ends sessions of guests that use more than they may. */
gboolean btrail_usage_enforce(gpointer host);

#endif /* BTRAIL_USAGE_H */
