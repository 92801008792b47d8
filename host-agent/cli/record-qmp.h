/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record --qmp SOCKET: a session that is written here
 */

#ifndef BTRAIL_CLI_RECORD_QMP_H
#define BTRAIL_CLI_RECORD_QMP_H

#include <json-glib/json-glib.h>
#include <stdbool.h>

#include "lib/internal/store.h"

/**
 * struct cli_record_qmp
 * @socket:    of QEMU's monitor
 * @store:     how the trace is written
 * @arguments: of branch-trace-start
 * @metadata:  for the trace; members are added
 * @attach:    take over the session that is active, as it is
 * @names:     look for names in the guest's memory
 * @patient:   have the guest wait for each snapshot
 * @duration:  nanoseconds, 0 for no limit
 * @signal_fd: a signal that comes there stops the session; a second one ends
 *             the process
 * @quiet:     no progress, and no summary
 */
struct cli_record_qmp {
    const char *socket;
    const struct btrail_store_options *store;
    JsonObject *arguments;
    JsonObject *metadata;
    bool attach;
    bool names;
    bool patient;
    uint64_t duration;
    int signal_fd;
    bool quiet;
};

/* Start the session, write its trace, and say what there is; an exit code */
int cli_record_qmp(const struct cli_record_qmp *options);

#endif /* BTRAIL_CLI_RECORD_QMP_H */
