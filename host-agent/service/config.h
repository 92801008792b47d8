/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The configuration of the service: backtraild.conf
 */

#ifndef BTRAIL_CONFIG_H
#define BTRAIL_CONFIG_H

#include <sys/types.h>

#include "service/service-error.h"

/**
 * struct config_limits - 0 is no limit
 * @cpu:      CPU time used for tracing, in percent of one CPU
 * @sessions: that run at the same time
 * @disk:     bytes of traces, including those of sessions that have ended
 * @memory:   bytes of buffers, of the agent and shared with QEMU
 */
struct config_limits {
    uint64_t cpu;
    uint64_t sessions;
    uint64_t disk;
    uint64_t memory;
};

/**
 * struct config
 * @socket:       where devices connect, unless systemd passes the socket
 * @socket_mode:  its permissions; if the file does not say, its group may
 *                connect if that is named
 * @socket_group: its group; NULL for that of the process
 * @traces:       folder of all traces
 * @state:        folder for state that must survive the process
 * @verbose:      log more than problems
 * @guests:       the most that are connected at the same time
 * @each:         limits of each guest
 * @all:          limits of all guests together
 * @names:        bytes of memory for the names of each guest
 * @ring:         the most bytes that a session of mode "last" keeps
 * @keep_free:    bytes that traces leave free on their disk
 * @buffer_size:  bytes of QEMU's buffer per vCPU
 * @agent_timeout: milliseconds that a guest waits if this process hangs or
 *                is gone
 * @sysroots:     folders with files of guests at the guests' paths; NULL or
 *                NULL-terminated
 * @debug_dirs:   folders of files by build-id, likewise
 */
struct config {
    char *socket;
    mode_t socket_mode;
    char *socket_group;
    char *traces;
    char *state;
    bool verbose;
    uint64_t guests;
    struct config_limits each;
    struct config_limits all;
    uint64_t names;
    uint64_t ring;
    uint64_t keep_free;
    uint64_t buffer_size;
    uint64_t agent_timeout;
    char **sysroots;
    char **debug_dirs;
};

/**
 * config_read - read a configuration
 * @path: a file that must exist, or NULL for the defaults
 *
 * An error names the file, the group and the key.
 */
struct config *config_read(const char *path, GError **error);

/* The same for the content of a file; errors call it @name. */
struct config *config_parse(const char *text, const char *name,
                            GError **error);
void config_free(struct config *c);

#endif /* BTRAIL_CONFIG_H */
