/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control connection of a guest's device, and the clients that send
 * commands through it
 *
 * The device forwards commands of clients.  A reply reaches its client only
 * if the connection that the command came through still exists.
 */

#ifndef BTRAIL_GUEST_LINK_H
#define BTRAIL_GUEST_LINK_H

#include <sys/types.h>

#include "service/control.h"

/**
 * struct guest_link
 * @name:        of the guest, for the log
 * @process:     id of the device's process, see peer-process.h; empty if it is not
 *               known, NULL before it has connected
 * @uid:         of this process
 * @control:     NULL while the device is not connected
 * @connections: number of the current connection
 */
struct guest_link {
    char *name;
    char *process;
    uid_t uid;
    struct control *control;
    unsigned connections;
};

/* A client that waits for the reply to its command; @id is -1 for none. */
struct guest_client {
    unsigned connection;
    gint64 id;
};

static inline struct guest_client
guest_link_client(const struct guest_link *link, gint64 id)
{
    return (struct guest_client) { link->connections, id };
}

/* Reply to a client, if it can still be reached; @result is taken. */
void guest_link_reply(struct guest_link *link, struct guest_client client,
                      JsonObject *result);
void guest_link_refuse(struct guest_link *link, struct guest_client client,
                       const char *why);

#endif /* BTRAIL_GUEST_LINK_H */
