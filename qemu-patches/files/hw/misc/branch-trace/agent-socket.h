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

#endif /* HW_MISC_BRANCH_TRACE_AGENT_SOCKET_H */
