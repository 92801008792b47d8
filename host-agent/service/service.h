/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service: its socket, its guests, and how it starts and ends
 */

#ifndef BTRAIL_SERVICE_H
#define BTRAIL_SERVICE_H

#include "service/listener.h"
#include "service/service-connection.h"

/**
 * struct service
 * @host:    its guests, and what they share
 * @detaching: the next process continues its sessions
 * @ended:   called with @opaque when the service has ended
 */
struct service {
    struct host host;
    struct listener *listener, *ports;
    struct connections connections;
    guint ticking, sweeping, watching;
    unsigned idle_s, most_idle_s;
    void (*idle)(void *opaque);
    void *idle_opaque;
    bool detaching;
    void (*ended)(void *opaque);
    void *opaque;
};

/*
 * Open the folders and the socket; @config is taken, also on failure.
 * Sessions of the process before continue when their guests connect again.
 * @files finds symbols in files of guests, until the service is freed; or NULL
 */
struct service *
service_new(struct config *config,
            const struct symbol_files *files, GError **error);

/* Use another configuration, which is taken, as far as that can change. */
void service_reload(struct service *s,
                    struct config *config);

/* Call @idle once there was no session for @seconds, and nothing to write. */
void service_watch_idle(struct service *s, unsigned seconds,
                        void (*idle)(void *opaque), void *opaque);

/*
 * End all sessions, start no more, and call @done once all traces are
 * complete.
 */
void service_end(struct service *s,
                 void (*done)(void *opaque), void *opaque);

/*
 * Hand all sessions over to the next process, start no more, and call @done
 * once everything that they have recorded is written.
 */
void service_detach(struct service *s,
                    void (*done)(void *opaque), void *opaque);

void service_free(struct service *s);

#endif /* BTRAIL_SERVICE_H */
