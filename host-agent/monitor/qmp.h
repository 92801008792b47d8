/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QMP client: one command at a time; events are ignored unless they are
 * kept
 */

#ifndef BTRAIL_QMP_H
#define BTRAIL_QMP_H

#include <json-glib/json-glib.h>
#include <sys/types.h>

#include "monitor/qmp-message.h"

struct qmp;

/**
 * qmp_connect - connect to a monitor and negotiate
 * @path:       of its unix socket, or as QEMU's option has it, "unix:PATH,..."
 * @cancel_fd:  give up when it becomes readable, -1 for never
 */
struct qmp *qmp_connect(const char *path, int timeout_ms,
                        int cancel_fd, GError **error);

/* The same once a QEMU listens there, which can take as long as it likes */
struct qmp *qmp_await(const char *path, int timeout_ms, int cancel_fd,
                      GError **error);

/* The same with a connected socket, which is taken in any case */
struct qmp *qmp_new(int sock, int timeout_ms, int cancel_fd,
                    GError **error);

/**
 * qmp_adopt - the connection of another process, which has ended
 * @sock: which it has negotiated; taken
 *
 * It can have read a part of a line, and answers to its commands can come.
 */
struct qmp *qmp_adopt(int sock);

/* Executes a command as qmp_execute() does. */
typedef JsonNode *qmp_executor(void *opaque, const char *command,
                               JsonObject *arguments, int fd,
                               GError **error);

/* The same for a monitor that another program is connected to, which passes
 * commands on; there are no events then. */
struct qmp *qmp_through(qmp_executor *execute,
                        void *opaque);
void qmp_free(struct qmp *qmp);

/* Its socket, or -1 */
int qmp_socket(const struct qmp *qmp);

/* QEMU's version as text, from the greeting, or NULL */
const char *qmp_version(const struct qmp *qmp);

/*
 * The process that listens at the monitor's socket, as the kernel says; 0 if
 * that is not known.  It is not QEMU's if another program has made the socket,
 * as libvirt does, or passes commands on.
 */
pid_t qmp_peer(const struct qmp *qmp);

/**
 * qmp_execute - run a command
 * @arguments: taken, or NULL
 * @fd:        a file descriptor to send along, or -1; stays the caller's
 *
 * Returns what the command returned, or NULL and @error.
 */
JsonNode *qmp_execute(struct qmp *qmp, const char *command,
                      JsonObject *arguments, int fd, int timeout_ms,
                      int cancel_fd, GError **error);

/* From here on events are kept until qmp_next_event() has them; if there
 * are very many, the oldest are dropped. */
void qmp_keep_events(struct qmp *qmp);

/* Called for each event as soon as it was read, also if none are kept */
typedef void qmp_event_fn(void *opaque, const char *name);
void qmp_on_event(struct qmp *qmp, qmp_event_fn *seen, void *opaque);

/* The name of the next event, to be freed, or NULL and @error: TIMEOUT,
 * CANCELLED, CLOSED, ... */
char *qmp_next_event(struct qmp *qmp, int timeout_ms,
                     int cancel_fd, GError **error);

#endif /* BTRAIL_QMP_H */
