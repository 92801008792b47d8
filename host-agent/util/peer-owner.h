/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whose a connection is, by the word of the kernel
 */

#ifndef BTRAIL_PEER_OWNER_H
#define BTRAIL_PEER_OWNER_H

#include <stdbool.h>

/**
 * peer_is_own - has this user, or root, made the other end of a connection?
 * @sock: a connected unix socket, or one of TCP over the loopback interface,
 *        IPv4 or IPv6
 *
 * False if it was another user, and whenever that is not known: the peer has
 * closed its socket already, is in another network or user namespace, or on
 * another host.
 */
bool peer_is_own(int sock);

#endif /* BTRAIL_PEER_OWNER_H */
