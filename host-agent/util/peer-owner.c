/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whose a connection is: see peer-owner.h
 *
 * A unix socket says it (unix(7)).  TCP does not: but over the loopback
 * interface, the other end is a socket of this host, too, and the kernel says
 * of each one whose it is (sock_diag(7)).
 */

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/peer-owner.h"

#define ANSWER_SECONDS  2

/* Of a user who has no number in this namespace */
static uid_t overflow_uid(void)
{
    g_autofree char *text = NULL;

    return g_file_get_contents("/proc/sys/kernel/overflowuid", &text, NULL,
                               NULL) ? strtoul(text, NULL, 10) : 65534;
}

/* Does each user of the host have a number here, so that none shares one? */
static bool has_all_users(void)
{
    g_autofree char *text = NULL;
    unsigned long first, outside, n;

    return g_file_get_contents("/proc/self/uid_map", &text, NULL, NULL) &&
           sscanf(text, "%lu %lu %lu", &first, &outside, &n) == 3 && !first &&
           n >= UINT32_MAX;
}

static bool is_own(uid_t uid)
{
    return (!uid || uid == geteuid()) &&
           (uid != overflow_uid() || has_all_users());
}

/* One end of a connection; IPv4 is IPv4 also where IPv6 has it mapped. */
struct peer_end {
    sa_family_t family;
    __be32 address[4];
    __be16 port;
};

static bool get_end(const struct sockaddr_storage *from, struct peer_end *end)
{
    const struct sockaddr_in *in = (const void *)from;
    const struct sockaddr_in6 *in6 = (const void *)from;

    memset(end, 0, sizeof(*end));
    if (from->ss_family == AF_INET) {
        end->family = AF_INET;
        end->address[0] = in->sin_addr.s_addr;
        end->port = in->sin_port;
    } else if (from->ss_family == AF_INET6 &&
               IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
        end->family = AF_INET;
        memcpy(end->address, &in6->sin6_addr.s6_addr[12], 4);
        end->port = in6->sin6_port;
    } else if (from->ss_family == AF_INET6) {
        end->family = AF_INET6;
        memcpy(end->address, &in6->sin6_addr, 16);
        end->port = in6->sin6_port;
    } else {
        return false;
    }
    return end->family == AF_INET ?
           ntohl(end->address[0]) >> 24 == IN_LOOPBACKNET :
           IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 request;
};

static bool ask(int diag, const struct peer_end *theirs,
                const struct peer_end *ours)
{
    const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    const struct timeval patience = { .tv_sec = ANSWER_SECONDS };
    struct question q = {
        .head = {
            .nlmsg_len = sizeof(q),
            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
            .nlmsg_flags = NLM_F_REQUEST,
        },
        .request = {
            .sdiag_family = theirs->family,
            .sdiag_protocol = IPPROTO_TCP,
            .idiag_states = ~0u,
            /* As its owner sees it */
            .id = {
                .idiag_sport = theirs->port,
                .idiag_dport = ours->port,
                .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE },
            },
        },
    };

    memcpy(q.request.id.idiag_src, theirs->address, sizeof(theirs->address));
    memcpy(q.request.id.idiag_dst, ours->address, sizeof(ours->address));
    return !setsockopt(diag, SOL_SOCKET, SO_RCVTIMEO, &patience,
                       sizeof(patience)) &&
           sendto(diag, &q, sizeof(q), 0, (const struct sockaddr *)&kernel,
                  sizeof(kernel)) == sizeof(q);
}

/*
 * A socket that its process has closed is root's to the kernel, and has no
 * inode any more; one that only listens is another one.
 */
static bool is_owned(const struct inet_diag_msg *m,
                     const struct peer_end *theirs,
                     const struct peer_end *ours)
{
    return m->idiag_state == TCP_ESTABLISHED && m->idiag_inode &&
           m->id.idiag_sport == theirs->port &&
           m->id.idiag_dport == ours->port && is_own(m->idiag_uid);
}

static bool answers_own(int diag, const struct peer_end *theirs,
                        const struct peer_end *ours)
{
    union {
        struct nlmsghdr head;
        char bytes[4096];
    } answer;
    struct sockaddr_nl from;
    struct iovec part = { &answer, sizeof(answer) };
    struct msghdr message = {
        .msg_name = &from, .msg_namelen = sizeof(from),
        .msg_iov = &part, .msg_iovlen = 1,
    };
    ssize_t n = recvmsg(diag, &message, 0);

    return n >= 0 && !(message.msg_flags & MSG_TRUNC) &&
           from.nl_family == AF_NETLINK && !from.nl_pid &&
           NLMSG_OK(&answer.head, (size_t)n) &&
           answer.head.nlmsg_type == SOCK_DIAG_BY_FAMILY &&
           answer.head.nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg))
           && is_owned(NLMSG_DATA(&answer.head), theirs, ours);
}

static bool tcp_is_own(const struct sockaddr_storage *peer,
                       const struct sockaddr_storage *local)
{
    struct peer_end theirs, ours;
    bool own;
    int diag;

    if (!get_end(peer, &theirs) || !get_end(local, &ours) ||
        theirs.family != ours.family) {
        return false;
    }
    diag = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    own = diag >= 0 && ask(diag, &theirs, &ours) &&
          answers_own(diag, &theirs, &ours);
    if (diag >= 0) {
        close(diag);
    }
    return own;
}

bool peer_is_own(int sock)
{
    struct sockaddr_storage peer = { .ss_family = AF_UNSPEC };
    struct sockaddr_storage local = { .ss_family = AF_UNSPEC };
    socklen_t peer_size = sizeof(peer), local_size = sizeof(local);
    struct ucred who;
    socklen_t who_size = sizeof(who);

    if (getpeername(sock, (struct sockaddr *)&peer, &peer_size) ||
        getsockname(sock, (struct sockaddr *)&local, &local_size)) {
        return false;
    }
    if (local.ss_family == AF_UNIX) {
        return !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &who_size) &&
               is_own(who.uid);
    }
    return tcp_is_own(&peer, &local);
}
