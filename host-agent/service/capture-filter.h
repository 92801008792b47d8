/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The filter of a guest's capture: the union of what its sessions request
 */

#ifndef BTRAIL_CAPTURE_FILTER_H
#define BTRAIL_CAPTURE_FILTER_H

#include "service/command.h"

/*
 * The union of @n commands "start", at least one, as arguments of
 * branch-trace-start and -change.  Arrays are sorted, so equal filters have
 * equal members.
 */
JsonObject *capture_filter(struct service_command *const *commands,
                           unsigned n);

#endif /* BTRAIL_CAPTURE_FILTER_H */
