/*
 * Branch trace: the socket where the agent listens
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_AGENT_SOCKET_H
#define HW_MISC_BRANCH_TRACE_AGENT_SOCKET_H

#include "io/channel-socket.h"
#include "qapi/qapi-types-sockets.h"

/* Opens a connection to the agent, on which no call ever waits. */
QIOChannelSocket *branch_trace_agent_open(SocketAddress *addr, Error **errp);

/**
 * branch_trace_agent_prepare - prepare a socket for branch_trace_agent_read()
 *
 * The kernel drops urgent data (MSG_OOB) on the way to what comes after it, and
 * descriptors that came with it.  Here it is data like any other.
 */
bool branch_trace_agent_prepare(int fd, Error **errp);

/*
 * Sets @errno to this if the agent has sent descriptors of files.  Then nothing
 * more can be read.
 */
#define BRANCH_TRACE_AGENT_FILES    EBADMSG

/**
 * branch_trace_agent_read - read from a socket whose other end the agent has
 *
 * The socket is prepared.  This does not wait.  Descriptors of files are not
 * received: dropping one can take any time, because it may be the last one of
 * that file.
 *
 * Returns: bytes read, 0 at the end, or -1 and errno
 */
ssize_t branch_trace_agent_read(int fd, void *buf, size_t size);

/* Has the agent closed it, and is nothing left to be read?  Does not wait. */
bool branch_trace_agent_is_gone(int fd);

/* Shuts the connection down; its resources are freed later. */
void branch_trace_agent_close(QIOChannelSocket *ioc);

#endif /* HW_MISC_BRANCH_TRACE_AGENT_SOCKET_H */
