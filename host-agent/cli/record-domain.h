/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record DOMAIN: a session of the service
 */

#ifndef BTRAIL_CLI_RECORD_DOMAIN_H
#define BTRAIL_CLI_RECORD_DOMAIN_H

#include <json-glib/json-glib.h>
#include <stdbool.h>

/**
 * struct cli_record_domain
 * @connect:   libvirt's URI, or NULL
 * @name:      of the domain
 * @session:   its name
 * @command:   starts the session
 * @signal_fd: the first signal stops the session, the second one ends this
 *             process
 * @quiet:     no progress and no summary
 */
struct cli_record_domain {
    const char *connect;
    const char *name;
    const char *session;
    JsonObject *command;
    int signal_fd;
    bool quiet;
};

/* Starts the session, waits for its end and prints a summary.  Returns an exit
 * code. */
int cli_record_domain(const struct cli_record_domain *options);

#endif /* BTRAIL_CLI_RECORD_DOMAIN_H */
