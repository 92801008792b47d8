/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A client of the service: whom it speaks for, and which session it means
 */

#ifndef BTRAIL_CLIENT_SERVICE_CLIENT_H
#define BTRAIL_CLIENT_SERVICE_CLIENT_H

#include <json-glib/json-glib.h>
#include <stdbool.h>

/**
 * struct service_client - a way to the service that traces one guest
 * @ask: sends a command, which is taken.  Returns the answer, or NULL and an
 *       error of agent-error.h
 */
struct service_client {
    JsonObject *(*ask)(void *opaque, JsonObject *command, GError **error);
    void *opaque;
};

/* How long QEMU waits for the service's answer */
#define SERVICE_CLIENT_TIMEOUT_MS   30000

/*
 * The QMP command that forwards a command to the service, and its arguments, of
 * which @command is taken; @agent: the service's socket, if the command must
 * name it, or NULL
 */
#define SERVICE_CLIENT_COMMAND      "branch-trace-agent"
JsonObject *service_client_arguments(JsonObject *command, const char *agent);

/*
 * The owner of sessions started here, to be freed: users of two hosts are two
 * owners.
 */
char *service_client_owner(void);

/* The answer to "status", of one session or of all (NULL) */
JsonObject *service_client_status(const struct service_client *c,
                                  const char *session, GError **error);

/**
 * service_client_choose - the session that a command is about
 * @given: its name, or NULL for the only one that this user has started
 *
 * The name is to be freed.  The error is an option's (G_OPTION_ERROR) if the
 * service was asked and there is no such session, or more than one.
 */
char *service_client_choose(const struct service_client *c, const char *given,
                            GError **error);

/**
 * service_client_await_found - give a session time to find what it waits for
 * @answer: to the command "start"
 *
 * This takes a second at most.  Returns the session if there is still something
 * that it has not found, or NULL.
 */
JsonObject *service_client_await_found(const struct service_client *c,
                                       JsonObject *answer);

#endif /* BTRAIL_CLIENT_SERVICE_CLIENT_H */
