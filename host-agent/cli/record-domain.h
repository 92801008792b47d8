/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record DOMAIN: a session of the service's
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
 * @command:   that starts the session
 * @signal_fd: a signal that comes there stops the session; a second one ends
 *             the wait
 * @quiet:     no progress, and no summary
 */
struct cli_record_domain {
    const char *connect;
    const char *name;
    const char *session;
    JsonObject *command;
    int signal_fd;
    bool quiet;
};

/* Start the session, wait for its end, and say what there is; an exit code */
int cli_record_domain(const struct cli_record_domain *options);

#endif /* BTRAIL_CLI_RECORD_DOMAIN_H */
