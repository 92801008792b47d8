/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record: what it was asked for, and its two ways to a guest
 */

#ifndef BTRAIL_CLI_RECORD_H
#define BTRAIL_CLI_RECORD_H

#include <json-glib/json-glib.h>
#include <stdbool.h>

#include "lib/internal/store.h"

/**
 * struct record_request - the options; those that are texts have been checked
 * @domain:      of libvirt, or NULL
 * @qmp:         socket of QEMU's monitor, or NULL
 * @duration_ns: 0 for no limit
 * @store:       how the trace is written
 * @arguments:   of branch-trace-start
 * @metadata:    for the trace; members are added
 * @signal_fd:   the first signal stops the session, the second one ends this
 *               process
 */
struct record_request {
    char *domain;
    char *connect;
    char *qmp;
    char *output;
    char **processes;
    char *session;
    char *vcpus;
    gboolean user;
    gboolean kernel;
    char **cr3;
    char *overflow;
    char *buffer_size;
    char *agent_timeout;
    char *duration;
    char *split;
    char *ring;
    char *fsync;
    char *names;
    gboolean attach;
    gboolean force;
    gboolean quiet;

    uint64_t duration_ns;
    struct btrail_store_options store;
    JsonObject *arguments;
    JsonObject *metadata;
    int signal_fd;
};

/*
 * record DOMAIN has the service run a session; record --qmp SOCKET writes the
 * trace itself.  Both wait for the end and print a summary.  They return an
 * exit code.
 */
int record_domain(const struct record_request *request);
int record_qmp(const struct record_request *request);

#endif /* BTRAIL_CLI_RECORD_H */
