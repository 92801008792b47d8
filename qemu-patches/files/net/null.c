/*
 * A network that nothing is connected to
 *
 * This work is licensed under the terms of the GNU GPL, version 2 or later.
 * See the COPYING file in the top-level directory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/iov.h"
#include "net/net.h"
#include "clients.h"

static ssize_t net_null_receive(NetClientState *nc, const uint8_t *buf,
                                size_t size)
{
    return size;
}

static ssize_t net_null_receive_iov(NetClientState *nc,
                                    const struct iovec *iov, int iovcnt)
{
    return iov_size(iov, iovcnt);
}

/*
 * Whatever a tap device does with packets for the guest, it can have done with
 * those that never come.
 */
static bool net_null_can(NetClientState *nc)
{
    return true;
}

static bool net_null_has_vnet_hdr_len(NetClientState *nc, int len)
{
    return true;
}

static void net_null_set_vnet_hdr_len(NetClientState *nc, int len)
{
}

static NetClientInfo net_null_info = {
    .type = NET_CLIENT_DRIVER_NULL,
    .size = sizeof(NetClientState),
    .receive = net_null_receive,
    .receive_iov = net_null_receive_iov,
    .has_ufo = net_null_can,
    .has_uso = net_null_can,
    .has_vnet_hdr = net_null_can,
    .has_vnet_hdr_len = net_null_has_vnet_hdr_len,
    .set_vnet_hdr_len = net_null_set_vnet_hdr_len,
};

int net_init_null(const Netdev *netdev, const char *name,
                  NetClientState *peer, Error **errp)
{
    NetClientState *nc = qemu_new_net_client(&net_null_info, peer, "null",
                                             name);

    qemu_set_info_str(nc, "nothing is connected");
    return 0;
}
