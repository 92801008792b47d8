/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces that a service has written, in the folders of their guests
 *
 * They are there whether the guest runs, is off or has been deleted, so neither
 * libvirt nor a service is asked about those of this host.  Commands about
 * those of another host run there, by ssh.
 */

#ifndef BTRAIL_CLI_TRACES_H
#define BTRAIL_CLI_TRACES_H

#include <glib.h>
#include <stdbool.h>

#include "cli/guest-client.h"
#include "service/folder.h"

/**
 * struct cli_traces - where to look
 * @guest:  options; a URI of another host, or a monitor
 * @folder: that of all traces; NULL for those of this host's service and of the
 *          user's own one
 * @name:   of the guest, or its UUID; NULL for all
 */
struct cli_traces {
    struct cli_guest guest;
    char *folder;
    const char *name;
};

#define CLI_TRACES_ENTRIES(t)                                               \
    { "connect", 'c', 0, G_OPTION_ARG_STRING, &(t)->guest.connect,          \
      "traces of another host: libvirt's URI, such as qemu+ssh://HOST/system",\
      "URI" },                                                              \
    { "qmp", 0, 0, G_OPTION_ARG_FILENAME, &(t)->guest.qmp,                  \
      "the guest of this QMP monitor, in place of GUEST", "SOCKET" },       \
    { "traces", 0, 0, G_OPTION_ARG_FILENAME, &(t)->folder,                  \
      "folder of all traces (default: those of this host's service, and "   \
      "of your own)", "FOLDER" }

/* Sets the guest; false after an error message if options exclude it. */
bool cli_traces_check(struct cli_traces *t, const char *name);

/* Are they on another host? */
bool cli_traces_remote(const struct cli_traces *t);

/**
 * cli_traces_run_remote - run this program on their host
 * @args: the command and its arguments, without --connect
 * @out:  gets what it prints, or -1
 *
 * Returns its exit code; CLI_FAILED after an error message.
 */
int cli_traces_run_remote(const struct cli_traces *t, const GPtrArray *args,
                          int out);

/* Runs a command for @t there, with an option and operands unless NULL. */
int cli_traces_forward(const struct cli_traces *t, const char *command,
                       const char *option, char *const *operands);

/*
 * The folders of guests, of struct folder; NULL after an error message.
 * Of a guest that is named there is one at least.
 */
GPtrArray *cli_traces_folders(struct cli_traces *t);

/*
 * The folder that has a trace, to be freed.  Without @file, which is then set,
 * it is the trace that was written last.  NULL after an error message.
 */
struct folder *cli_traces_find(struct cli_traces *t, char **file);

/* The names of all traces in @folder that are being written */
GHashTable *cli_traces_writing(const struct folder *folder);

void cli_traces_clear(struct cli_traces *t);

#endif /* BTRAIL_CLI_TRACES_H */
