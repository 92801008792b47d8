/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QMP client: one command at a time; events are ignored unless they are
 * kept
 */

#ifndef BTRAIL_QMP_H
#define BTRAIL_QMP_H

#include <json-glib/json-glib.h>

#include "util/agent-error.h"

struct btrail_qmp;

/* The text of a command, one line without its end, to be freed.  @arguments is
 * taken and may be NULL; @id may be 0 for none. */
char *btrail_qmp_format(const char *command, JsonObject *arguments, gint64 id);

/* What the reply to a command returns, or NULL and the error in it */
JsonNode *btrail_qmp_result(JsonObject *reply, GError **error);

/**
 * btrail_qmp_connect - connect to a monitor and negotiate
 * @path:       of its unix socket
 * @cancel_fd:  give up when it becomes readable, -1 for never
 */
struct btrail_qmp *btrail_qmp_connect(const char *path, int timeout_ms,
                                      int cancel_fd, GError **error);

/* The same with a connected socket, which is taken in any case */
struct btrail_qmp *btrail_qmp_new(int sock, int timeout_ms, int cancel_fd,
                                  GError **error);

/* Executes a command as btrail_qmp_execute() does. */
typedef JsonNode *btrail_qmp_executor(void *opaque, const char *command,
                                      JsonObject *arguments, int fd,
                                      GError **error);

/* The same for a monitor that another program is connected to, which passes
 * commands on; there are no events then. */
struct btrail_qmp *btrail_qmp_through(btrail_qmp_executor *execute,
                                      void *opaque);
void btrail_qmp_free(struct btrail_qmp *qmp);

/* QEMU's version as text, from the greeting, or NULL */
const char *btrail_qmp_version(const struct btrail_qmp *qmp);

/**
 * btrail_qmp_execute - run a command
 * @arguments: taken, or NULL
 * @fd:        a file descriptor to send along, or -1; stays the caller's
 *
 * Returns what the command returned, or NULL and @error.
 */
JsonNode *btrail_qmp_execute(struct btrail_qmp *qmp, const char *command,
                             JsonObject *arguments, int fd, int timeout_ms,
                             int cancel_fd, GError **error);

/* From here on events are kept until btrail_qmp_next_event() has them; if there
 * are very many, the oldest are dropped. */
void btrail_qmp_keep_events(struct btrail_qmp *qmp);

/* The name of the next event, to be freed, or NULL and @error: TIMEOUT,
 * CANCELLED, CLOSED, ... */
char *btrail_qmp_next_event(struct btrail_qmp *qmp, int timeout_ms,
                            int cancel_fd, GError **error);

#endif /* BTRAIL_QMP_H */
