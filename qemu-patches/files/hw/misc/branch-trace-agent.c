/*
 * Branch trace: the connection to the agent
 *
 * The agent is not trusted: it is never waited for but by a coroutine with a
 * time limit, and whatever it says that it must not disconnects it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <glib-unix.h>
#include <sys/un.h>
#include "io/channel-socket.h"
#include "qapi/error.h"
#include "qemu/sockets.h"
#include "qemu/timer.h"
#include "branch-trace-agent.h"
#include "branch-trace-memory.h"

/*
 * An agent that lives answers within milliseconds, and no other QMP command
 * runs meanwhile.
 */
#define HANDSHAKE_TIMEOUT_MS    1500

struct BranchTraceAgent {
    QIOChannelSocket *ioc;
    guint watch;
    struct btrail_msg in;
    size_t in_len;
    BranchTraceAgentHandler *handler;
    void *opaque;
};

/*
 * Unlike qio_channel_socket_connect_sync(), this never waits for an agent that
 * does not accept connections.
 */
static int agent_connect_unix(const char *path, Error **errp)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd;

    if (strlen(path) >= sizeof(un.sun_path)) {
        error_setg(errp, "path '%s' is too long for a socket", path);
        return -1;
    }
    strcpy(un.sun_path, path);

    fd = qemu_socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || !g_unix_set_fd_nonblocking(fd, true, NULL)) {
        error_setg_errno(errp, errno, "cannot create a socket");
        goto fail;
    }
    if (RETRY_ON_EINTR(connect(fd, (struct sockaddr *)&un, sizeof(un))) < 0) {
        error_setg_errno(errp, errno, "nobody accepts connections at '%s'",
                         path);
        goto fail;
    }
    return fd;

fail:
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

static QIOChannelSocket *agent_socket(SocketAddress *addr, Error **errp)
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
        fd = agent_connect_unix(addr->u.q_unix.path, errp);
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

    ioc = agent_socket(addr, errp);
    if (ioc && qio_channel_set_blocking(QIO_CHANNEL(ioc), false, errp) < 0) {
        object_unref(OBJECT(ioc));
        ioc = NULL;
    }
    if (!ioc) {
        error_prepend(errp, "cannot connect to the trace agent: ");
    }
    return ioc;
}

/* There is one at a time. */
static QIOChannel *in_handshake;

void branch_trace_agent_cancel(void)
{
    if (in_handshake) {
        qio_channel_shutdown(in_handshake, QIO_CHANNEL_SHUTDOWN_BOTH, NULL);
    }
}

static void agent_handshake_timeout(void *opaque)
{
    QIOChannel *ioc = opaque;

    qio_channel_shutdown(ioc, QIO_CHANNEL_SHUTDOWN_BOTH, NULL);
}

static bool agent_msg_valid(const struct btrail_msg *msg)
{
    return msg->magic == BTRAIL_MSG_MAGIC &&
           msg->version == BTRAIL_TRANSPORT_VERSION;
}

static bool coroutine_fn agent_handshake(QIOChannel *ioc,
                                         const BranchTraceBuffer *buf,
                                         uint32_t slot, Error **errp)
{
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_HELLO,
        .reason = slot,
        .value = buf->size,
    };
    struct iovec iov = { .iov_base = &msg, .iov_len = sizeof(msg) };
    int fds[] = { buf->fd, buf->ready[1], buf->free[1] };
    QEMUTimer *timer;
    bool ok;

    /* Not the variant that waits: there is room in a socket that is new. */
    if (qio_channel_writev_full(ioc, &iov, 1, fds, ARRAY_SIZE(fds), 0,
                                NULL) != sizeof(msg)) {
        error_setg(errp, "the connection to the agent is closed or full: "
                   "it must be a new one");
        return false;
    }

    timer = timer_new_ms(QEMU_CLOCK_REALTIME, agent_handshake_timeout, ioc);
    timer_mod(timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) +
              HANDSHAKE_TIMEOUT_MS);
    in_handshake = ioc;
    ok = qio_channel_read_all(ioc, (char *)&msg, sizeof(msg), NULL) == 0;
    in_handshake = NULL;
    timer_free(timer);

    if (!ok) {
        error_setg(errp, "the agent closed the connection or did not answer "
                   "within %d ms; see its messages for the reason",
                   HANDSHAKE_TIMEOUT_MS);
        return false;
    }
    if (!agent_msg_valid(&msg) || msg.type != BTRAIL_MSG_READY) {
        error_setg(errp, "the agent does not speak version %d of the branch "
                   "trace transport", BTRAIL_TRANSPORT_VERSION);
        return false;
    }
    if ((msg.value & BTRAIL_READY_MEMORY) && !branch_trace_memory_send(ioc)) {
        error_setg(errp, "the agent does not take what it has asked for");
        return false;
    }
    return true;
}

static gboolean agent_readable(QIOChannel *ioc, GIOCondition cond,
                               gpointer opaque)
{
    BranchTraceAgent *agent = opaque;
    struct btrail_msg msg;
    ssize_t n;

    n = qio_channel_read(ioc, (char *)&agent->in + agent->in_len,
                         sizeof(agent->in) - agent->in_len, NULL);
    if (n == QIO_CHANNEL_ERR_BLOCK) {
        return G_SOURCE_CONTINUE;
    }
    if (n <= 0) {
        agent->watch = 0;
        agent->handler(agent->opaque, BRANCH_TRACE_AGENT_GONE);
        return G_SOURCE_REMOVE;
    }
    agent->in_len += n;
    if (agent->in_len < sizeof(agent->in)) {
        return G_SOURCE_CONTINUE;
    }

    msg = agent->in;
    agent->in_len = 0;
    if (agent_msg_valid(&msg)) {
        switch (msg.type) {
        case BTRAIL_MSG_FLUSH:
            agent->handler(agent->opaque, BRANCH_TRACE_AGENT_FLUSH);
            return G_SOURCE_CONTINUE;
        case BTRAIL_MSG_RESEND_CODE:
            agent->handler(agent->opaque, BRANCH_TRACE_AGENT_RESEND_CODE);
            return G_SOURCE_CONTINUE;
        case BTRAIL_MSG_STOP:
            agent->handler(agent->opaque, BRANCH_TRACE_AGENT_STOP);
            return G_SOURCE_CONTINUE;
        }
    }
    agent->watch = 0;
    agent->handler(agent->opaque, BRANCH_TRACE_AGENT_GARBAGE);
    return G_SOURCE_REMOVE;
}

BranchTraceAgent *branch_trace_agent_connect(SocketAddress *addr,
                                             const BranchTraceBuffer *buf,
                                             uint32_t slot,
                                             BranchTraceAgentHandler *handler,
                                             void *opaque, Error **errp)
{
    QIOChannelSocket *ioc;
    BranchTraceAgent *agent;

    ioc = branch_trace_agent_open(addr, errp);
    if (!ioc) {
        return NULL;
    }
    qio_channel_set_name(QIO_CHANNEL(ioc), "branch-trace-agent");
    if (!agent_handshake(QIO_CHANNEL(ioc), buf, slot, errp)) {
        object_unref(OBJECT(ioc));
        return NULL;
    }

    agent = g_new0(BranchTraceAgent, 1);
    agent->ioc = ioc;
    agent->handler = handler;
    agent->opaque = opaque;
    return agent;
}

void branch_trace_agent_listen(BranchTraceAgent *agent)
{
    agent->watch = qio_channel_add_watch(QIO_CHANNEL(agent->ioc),
                                         G_IO_IN | G_IO_HUP | G_IO_ERR,
                                         agent_readable, agent, NULL);
}

void branch_trace_agent_send_end(BranchTraceAgent *agent, uint32_t reason)
{
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_END,
        .reason = reason,
    };

    /*
     * Nothing but HELLO and MEMORY has been sent, so there is room unless the
     * agent has shrunk it to nothing; it sees the end of the connection then.
     */
    qio_channel_write(QIO_CHANNEL(agent->ioc), (char *)&msg, sizeof(msg),
                      NULL);
}

void branch_trace_agent_close(BranchTraceAgent *agent)
{
    if (agent->watch) {
        g_source_remove(agent->watch);
    }
    qio_channel_close(QIO_CHANNEL(agent->ioc), NULL);
    object_unref(OBJECT(agent->ioc));
    g_free(agent);
}
