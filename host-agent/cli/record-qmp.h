/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record --qmp SOCKET: a trace that this process writes
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
 * @attach:    take over the active capture, as it is
 * @names:     read names from the guest's memory
 * @wait_for_scan: have the guest wait for each snapshot
 * @duration:  nanoseconds, 0 for no limit
 * @signal_fd: the first signal stops the session, the second one ends this
 *             process
 * @quiet:     no progress and no summary
 */
struct cli_record_qmp {
    const char *socket;
    const struct btrail_store_options *store;
    JsonObject *arguments;
    JsonObject *metadata;
    bool attach;
    bool names;
    bool wait_for_scan;
    uint64_t duration;
    int signal_fd;
    bool quiet;
};

/* Starts the session, writes its trace and prints a summary.  Returns an exit
 * code. */
int cli_record_qmp(const struct cli_record_qmp *options);

#endif /* BTRAIL_CLI_RECORD_QMP_H */
