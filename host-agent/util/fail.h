/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions that return whether all went well
 */

#ifndef BTRAIL_FAIL_H
#define BTRAIL_FAIL_H

#include <glib.h>
#include <stdbool.h>

/* Set @error, which can be NULL, to a message; always false. */
bool fail_with(GError **error, GQuark domain, int code, const char *format,
               ...) G_GNUC_PRINTF(4, 5);

#endif /* BTRAIL_FAIL_H */
