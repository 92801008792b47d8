/*
 * Branch trace: the socket where the agent listens
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <glib-unix.h>
#include <sys/un.h>
#include "qapi/error.h"
#include "qemu/sockets.h"
#include "agent-socket.h"
#include "background.h"

static void explain(int error, const char *path, Error **errp)
{
    switch (error) {
    case ENOENT:
        error_setg(errp, "there is no socket '%s': start backtraild on the "
                   "host of this guest, or name the socket where it listens",
                   path);
        break;
    case ECONNREFUSED:
        error_setg(errp, "nothing listens at '%s': start backtraild on the "
                   "host of this guest", path);
        break;
    case EACCES:
    case EPERM:
        error_setg(errp, "QEMU, which runs as user %u, is not permitted to "
                   "connect to '%s': backtrail doctor says what keeps it "
                   "from the socket", geteuid(), path);
        break;
    case EAGAIN:
        error_setg(errp, "'%s' accepts no more connections: see whether "
                   "backtraild hangs, and restart it", path);
        break;
    default:
        error_setg_errno(errp, error, "cannot connect to '%s'", path);
    }
}

/*
 * Unlike qio_channel_socket_connect_sync(), this never waits for an agent that
 * does not accept connections.
 */
static int connect_unix(const char *path, Error **errp)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd;

    if (strlen(path) >= sizeof(un.sun_path)) {
        error_setg(errp, "the path '%s' is too long for a socket: at most %zu "
                   "bytes are possible", path, sizeof(un.sun_path) - 1);
        return -1;
    }
    strcpy(un.sun_path, path);

    fd = qemu_socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || !g_unix_set_fd_nonblocking(fd, true, NULL)) {
        error_setg_errno(errp, errno, "cannot create a socket");
        goto fail;
    }
    if (RETRY_ON_EINTR(connect(fd, (struct sockaddr *)&un, sizeof(un))) < 0) {
        explain(errno, path, errp);
        goto fail;
    }
    return fd;

fail:
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

static QIOChannelSocket *open_socket(SocketAddress *addr, Error **errp)
{
    QIOChannelSocket *ioc;
    int fd, type;
    socklen_t len = sizeof(type);

    switch (addr->type) {
    case SOCKET_ADDRESS_TYPE_FD:
        ioc = qio_channel_socket_new();
        if (qio_channel_socket_connect_sync(ioc, addr, errp) < 0) {
            goto fail;
        }
        break;
    case SOCKET_ADDRESS_TYPE_UNIX:
        fd = connect_unix(addr->u.q_unix.path, errp);
        if (fd < 0) {
            return NULL;
        }
        ioc = qio_channel_socket_new_fd(fd, errp);
        if (!ioc) {
            close(fd);
            return NULL;
        }
        break;
    default:
        error_setg(errp, "the trace buffer can only be passed over a unix "
                   "socket: use an address of type 'unix' or 'fd'");
        return NULL;
    }

    if (!qio_channel_has_feature(QIO_CHANNEL(ioc),
                                 QIO_CHANNEL_FEATURE_FD_PASS) ||
        getsockopt(ioc->fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
        type != SOCK_STREAM) {
        error_setg(errp, "the connection to the agent is not a unix stream "
                   "socket");
        goto fail;
    }
    return ioc;

fail:
    object_unref(OBJECT(ioc));
    return NULL;
}

QIOChannelSocket *branch_trace_agent_open(SocketAddress *addr, Error **errp)
{
    QIOChannelSocket *ioc;
    ERRP_GUARD();

    if (!branch_trace_background_has_room(errp)) {
        return NULL;
    }
    ioc = open_socket(addr, errp);
    if (ioc && (qio_channel_set_blocking(QIO_CHANNEL(ioc), false, errp) < 0 ||
                !branch_trace_agent_prepare(ioc->fd, errp))) {
        object_unref(OBJECT(ioc));
        ioc = NULL;
    }
    if (!ioc) {
        error_prepend(errp, "cannot connect to the trace agent: ");
    }
    return ioc;
}

bool branch_trace_agent_prepare(int fd, Error **errp)
{
    int on = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)) < 0) {
        error_setg_errno(errp, errno, "cannot prepare a socket");
        return false;
    }
    return true;
}

ssize_t branch_trace_agent_read(int fd, void *buf, size_t size)
{
    struct iovec iov = { .iov_base = buf, .iov_len = size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t n;

    n = RETRY_ON_EINTR(recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT));
    if (n > 0 && (msg.msg_flags & MSG_CTRUNC)) {
        errno = BRANCH_TRACE_AGENT_FILES;
        return -1;
    }
    /* No more than that: there can be descriptors with the next byte. */
    return n > 0 ? RETRY_ON_EINTR(recv(fd, buf, n, MSG_DONTWAIT)) : n;
}

bool branch_trace_agent_is_gone(int fd)
{
    char byte;

    return !RETRY_ON_EINTR(recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT));
}

static void close_job(void *opaque)
{
    close(GPOINTER_TO_INT(opaque));
}

void branch_trace_agent_close(QIOChannelSocket *ioc)
{
    qio_channel_shutdown(QIO_CHANNEL(ioc), QIO_CHANNEL_SHUTDOWN_BOTH, NULL);
    /* Whoever has the last reference to the channel does not close it. */
    branch_trace_background_run(close_job, GINT_TO_POINTER(ioc->fd));
    ioc->fd = -1;
    object_unref(OBJECT(ioc));
}
