/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service: a socket, the guests whose devices connect to it, and what they
 * may take together
 */

#ifndef BTRAIL_SERVICE_H
#define BTRAIL_SERVICE_H

#include "service/config.h"
#include "guest-linux/symbol-places.h"

struct btrail_service;

/*
 * Open the folders and the socket; @config is taken, also on failure.  What a
 * process before has left is gone on with as its guests connect again.
 * @files: who knows files of guests, until the service is freed; or NULL
 */
struct btrail_service *
btrail_service_new(struct btrail_config *config,
                   const struct btrail_symbol_files *files, GError **error);

/* Use another configuration, which is taken, as far as that can change. */
void btrail_service_reload(struct btrail_service *s,
                           struct btrail_config *config);

/*
 * End all sessions, take no new ones, and call @done once all traces are
 * complete.
 */
void btrail_service_end(struct btrail_service *s,
                        void (*done)(void *opaque), void *opaque);

/*
 * Leave all sessions to the next process, take no new ones, and call @done once
 * what they have is written.
 */
void btrail_service_detach(struct btrail_service *s,
                          void (*done)(void *opaque), void *opaque);

void btrail_service_free(struct btrail_service *s);

/*
 * For tests: a connection of a device's, as if it had come through the socket,
 * from a process of this number.  @sock is taken.
 */
void btrail_service_accept(struct btrail_service *s, int sock, int pid,
                           unsigned uid);

#endif /* BTRAIL_SERVICE_H */
