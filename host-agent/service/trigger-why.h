/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why a trigger has acted, in words: for status, log and the trace of a dump
 */

#ifndef BTRAIL_SERVICE_TRIGGER_WHY_H
#define BTRAIL_SERVICE_TRIGGER_WHY_H

#include "drain/trigger.h"

/*
 * @at, @until: the places of the trigger; the latter NULL if it has none.
 * To be freed
 */
char *trigger_why(const char *at, const char *until,
                  const struct trigger_hit *hit);

#endif /* BTRAIL_SERVICE_TRIGGER_WHY_H */
