/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The user's own service, a backtraild for guests whose device names none
 *
 * It is started when a guest needs it, and ends when it has had nothing to do
 * for a while.
 */

#ifndef BTRAIL_CLI_OWN_SERVICE_H
#define BTRAIL_CLI_OWN_SERVICE_H

#include <glib.h>

/* The path of its socket, to be freed, once it listens there; or NULL */
char *cli_own_service_start(GError **error);

/* Its folder for traces, to be freed */
char *cli_own_service_traces(void);

#endif /* BTRAIL_CLI_OWN_SERVICE_H */
