/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record: what it was asked for, and its two ways to a guest
 */

#ifndef BTRAIL_CLI_RECORD_H
#define BTRAIL_CLI_RECORD_H

#include <json-glib/json-glib.h>
#include <stdbool.h>

#include "cli/guest-client.h"
#include "client/session-options.h"
#include "lib/agent/store.h"
#include "monitor/qmp.h"
#include "pt/frozen-trace.h"

/**
 * struct record_request - the options; those that are texts have been checked
 * @domain:      of libvirt, or NULL
 * @guest:       its options; they are used up
 * @session:     has a name
 * @store:       how the trace is written
 * @arguments:   of branch-trace-start, or the command of the service
 * @metadata:    for the trace; members are added
 * @pt_size:     bytes of a ring of --pt, a power of 2
 * @pt_clock:    of --pt-clock
 * @pt_host_tsc: the same, of the host's TSC; @ratio is 0 if it is not given
 * @signal_fd:   the first signal stops the session, the second one ends this
 *               process
 */
struct record_request {
    char *domain;
    struct cli_guest guest;
    struct session_options session;
    char *output;
    char *buffer_size;
    char *agent_timeout;
    char *ring;
    char *fsync;
    char *guest_names;
    gboolean from_start;
    gboolean attach;
    gboolean force;
    gboolean quiet;
    gboolean pt;
    gboolean live;
    char *last;
    char **pt_rings;
    char *pt_clock_text;
    gboolean pt_returns;

    uint64_t pt_size;
    struct vcpu_trace_clock pt_clock;
    struct kvm_tsc pt_host_tsc;
    struct btrail_store_options store;
    JsonObject *arguments;
    JsonObject *metadata;
    int signal_fd;
};

/*
 * One has the service run a session, the other one writes the trace of a guest
 * with a monitor itself.  Both wait for the end and print a summary.  They
 * return an exit code.
 */
int record_by_service(struct record_request *request);
int record_qmp(const struct record_request *request);

/* How much each vCPU's ring has, of @option: --last or --buffer-size; NULL: as
 * usual */
bool record_parse_pt_size(const char *option, const char *text,
                          uint64_t *size);

/* Opens the file that is written, or prints an error and returns NULL. */
struct btrail_store *record_open_store(const struct record_request *request);

/*
 * Writes the request's metadata into it, for a trace of rings of Intel PT that
 * begins at @began of the host's CLOCK_MONOTONIC; or prints an error, closes
 * the file and returns false.
 */
bool record_describe_pt(const struct record_request *request,
                        struct btrail_store *store, const struct qmp *qmp,
                        uint64_t began);

/*
 * Writes the trace of rings of Intel PT, of a guest that stands still: of files,
 * or of events that it opens, until the guest is to be stopped.
 */
int record_pt(const struct record_request *request);

/* The same of a guest that runs, of rings that are read while they fill. */
int record_live(const struct record_request *request);

#endif /* BTRAIL_CLI_RECORD_H */
