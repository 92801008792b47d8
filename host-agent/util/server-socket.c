/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sockets that others connect to: see server-socket.h
 */

#include <errno.h>
#include <glib-unix.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/peer-owner.h"
#include "util/server-socket.h"

#define BACKLOG         16
/* When there are no more descriptors, or no memory, some may be free later. */
#define BACK_OFF_MS     100
/* Ports of IPv4 that are tried, of which that of IPv6 may be taken */
#define TRIES           64

/* One that listens, and what watches it or waits to do so again */
struct ear {
    struct server_socket *s;
    int sock;
    guint source;
};

struct server_socket {
    struct ear ears[2];
    unsigned n;
    bool anybody;           /* and the sockets are the caller's */
    server_socket_fn *accepted;
    void (*failed)(void *opaque);
    void *opaque;
};

static void watch(struct ear *e);

static gboolean on_patience(gpointer opaque)
{
    watch(opaque);
    return G_SOURCE_REMOVE;
}

static gboolean on_connection(gint fd, GIOCondition condition, gpointer opaque)
{
    struct ear *e = opaque;
    struct server_socket *s = e->s;
    int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const int on = 1;

    if (sock < 0) {
        if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS &&
            errno != ENOMEM) {
            return G_SOURCE_CONTINUE;
        }
        if (s->failed) {
            s->failed(s->opaque);
        }
        e->source = g_timeout_add(BACK_OFF_MS, on_patience, e);
        return G_SOURCE_REMOVE;
    }
    if (s->anybody || peer_is_own(sock)) {
        /* Requests and answers are short.  A unix socket knows no delay. */
        setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        s->accepted(s->opaque, sock);
    } else {
        close(sock);
    }
    return G_SOURCE_CONTINUE;
}

static void watch(struct ear *e)
{
    e->source = g_unix_fd_add(e->sock, G_IO_IN, on_connection, e);
}

void server_socket_accept(struct server_socket *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct ear *e = &s->ears[i];
        struct pollfd ready = { .fd = e->sock, .events = POLLIN };
        guint source = e->source;

        if (poll(&ready, 1, 0) == 1 &&
            !on_connection(e->sock, G_IO_IN, e)) {
            g_source_remove(source);
        }
    }
}

int server_socket_fd(const struct server_socket *s)
{
    return s->ears[0].sock;
}

static void add(struct server_socket *s, int sock)
{
    struct ear *e = &s->ears[s->n++];

    e->s = s;
    e->sock = sock;
    watch(e);
}

static struct server_socket *new_socket(server_socket_fn *accepted,
                                        void *opaque)
{
    struct server_socket *s = g_new0(struct server_socket, 1);

    s->accepted = accepted;
    s->opaque = opaque;
    return s;
}

struct server_socket *server_socket_take(int sock, server_socket_fn *accepted,
                                         void (*failed)(void *opaque),
                                         void *opaque)
{
    struct server_socket *s = new_socket(accepted, opaque);

    s->anybody = true;
    s->failed = failed;
    add(s, sock);
    return s;
}

void server_socket_free(struct server_socket *s)
{
    if (s) {
        for (unsigned i = 0; i < s->n; i++) {
            g_source_remove(s->ears[i].source);
            if (!s->anybody) {
                close(s->ears[i].sock);
            }
        }
        g_free(s);
    }
}

/* -1 with errno */
static int open_socket(const struct sockaddr *address, socklen_t size)
{
    int sock = socket(address->sa_family,
                      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    bool ok = sock >= 0;
    int reason;

    if (ok && address->sa_family != AF_UNIX) {
        ok = !setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    if (ok && address->sa_family == AF_INET6) {
        ok = !setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    if (ok && !bind(sock, address, size) && !listen(sock, BACKLOG)) {
        return sock;
    }
    reason = errno;
    if (sock >= 0) {
        close(sock);
    }
    errno = reason;
    return -1;
}

struct server_socket *server_socket_unix(const char *path,
                                         server_socket_fn *accepted,
                                         void *opaque, GError **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct server_socket *s;
    mode_t old;
    int sock = -1;

    if (g_strlcpy(address.sun_path, path, sizeof(address.sun_path)) >=
        sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
    } else {
        old = umask(0177);
        sock = open_socket((const struct sockaddr *)&address,
                           sizeof(address));
        umask(old);
    }
    if (sock < 0) {
        agent_error_errno(error, path);
        return NULL;
    }
    s = new_socket(accepted, opaque);
    add(s, sock);
    return s;
}

static int open_port4(unsigned *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(*port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t size = sizeof(address);
    int sock = open_socket((const struct sockaddr *)&address, size);

    if (sock >= 0 &&
        getsockname(sock, (struct sockaddr *)&address, &size)) {
        close(sock);
        return -1;
    }
    *port = ntohs(address.sin_port);
    return sock;
}

static int open_port6(unsigned port)
{
    const struct sockaddr_in6 address = {
        .sin6_family = AF_INET6, .sin6_port = htons(port),
        .sin6_addr = IN6ADDR_LOOPBACK_INIT,
    };

    return open_socket((const struct sockaddr *)&address, sizeof(address));
}

/* Without IPv6 nobody else can sit there either. */
static bool has_no_ipv6(int reason)
{
    return reason == EAFNOSUPPORT || reason == EADDRNOTAVAIL;
}

/* Both, or neither; -1 in @socks[1] if there is no IPv6. */
static bool open_ports(unsigned *port, int socks[2])
{
    const unsigned wanted = *port;
    int reason = EADDRINUSE;

    for (unsigned i = 0; i < (wanted ? 1 : TRIES) && reason == EADDRINUSE;
         i++) {
        *port = wanted;
        socks[0] = open_port4(port);
        if (socks[0] < 0) {
            return false;
        }
        socks[1] = open_port6(*port);
        if (socks[1] >= 0 || has_no_ipv6(errno)) {
            return true;
        }
        reason = errno;
        close(socks[0]);
    }
    errno = reason;
    return false;
}

/* Would anybody get in?  Kernels and containers can be without sock_diag. */
static bool knows_own(int listener, unsigned port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct sockaddr_in peer, own = { .sin_port = 0 };
    socklen_t peer_size, own_size = sizeof(own);
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), other;
    bool known = false, ours = false;

    if (sock < 0 ||
        connect(sock, (const struct sockaddr *)&address, sizeof(address)) ||
        getsockname(sock, (struct sockaddr *)&own, &own_size)) {
        own.sin_port = 0;
    }
    /* Others may have come already; they can come again. */
    while (own.sin_port && !ours &&
           (other = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        peer_size = sizeof(peer);
        ours = !getpeername(other, (struct sockaddr *)&peer, &peer_size) &&
               peer.sin_port == own.sin_port;
        known = ours && peer_is_own(other);
        close(other);
    }
    if (sock >= 0) {
        close(sock);
    }
    return known;
}

struct server_socket *server_socket_port(unsigned *port,
                                         server_socket_fn *accepted,
                                         void *opaque, GError **error)
{
    struct server_socket *s;
    int socks[2];

    if (!open_ports(port, socks)) {
        agent_error_errno(error, "the port");
        return NULL;
    }
    if (!knows_own(socks[0], *port)) {
        close(socks[0]);
        if (socks[1] >= 0) {
            close(socks[1]);
        }
        agent_fail(error, AGENT_ERROR_SYSTEM,
                   "no port: of no connection to it the kernel says "
                   "that it is this user's (sock_diag)");
        return NULL;
    }
    s = new_socket(accepted, opaque);
    for (unsigned i = 0; i < G_N_ELEMENTS(socks); i++) {
        if (socks[i] >= 0) {
            add(s, socks[i]);
        }
    }
    return s;
}
