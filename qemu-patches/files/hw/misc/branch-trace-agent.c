/*
 * Branch trace: the connection to the agent
 *
 * The agent is not trusted: it is never waited for but by a coroutine with a
 * time limit, and whatever it says that it must not disconnects it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "io/channel-socket.h"
#include "qapi/error.h"
#include "qemu/timer.h"
#include "branch-trace-agent.h"

/* An agent that lives answers within milliseconds. */
#define HANDSHAKE_TIMEOUT_MS    5000

struct BranchTraceAgent {
    QIOChannelSocket *ioc;
    guint watch;
    struct btrail_msg in;
    size_t in_len;
    BranchTraceAgentHandler *handler;
    void *opaque;
};

typedef struct AgentConnect {
    Coroutine *co;
    Error *err;
    bool done;
} AgentConnect;

static void agent_connected(QIOTask *task, gpointer opaque)
{
    AgentConnect *connect = opaque;

    qio_task_propagate_error(task, &connect->err);
    connect->done = true;
    aio_co_wake(connect->co);
}

static bool coroutine_fn agent_connect(QIOChannelSocket *ioc,
                                       SocketAddress *addr, Error **errp)
{
    AgentConnect connect = { .co = qemu_coroutine_self() };

    switch (addr->type) {
    case SOCKET_ADDRESS_TYPE_FD:
        /* Only here, not in the thread of a task, is the monitor known. */
        return qio_channel_socket_connect_sync(ioc, addr, errp) == 0;
    case SOCKET_ADDRESS_TYPE_UNIX:
        /* This may block if the agent does not accept connections. */
        qio_channel_socket_connect_async(ioc, addr, agent_connected, &connect,
                                         NULL, NULL);
        while (!connect.done) {
            qemu_coroutine_yield();
        }
        if (connect.err) {
            error_propagate(errp, connect.err);
            return false;
        }
        return true;
    default:
        error_setg(errp, "the trace buffer can only be passed over a unix "
                   "socket: use an address of type 'unix' or 'fd'");
        return false;
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
                                         Error **errp)
{
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_HELLO,
        .value = buf->size,
    };
    struct iovec iov = { .iov_base = &msg, .iov_len = sizeof(msg) };
    int fds[] = { buf->fd, buf->ready_fd, buf->free_fd };
    QEMUTimer *timer;
    bool ok;
    ERRP_GUARD();

    if (qio_channel_writev_full_all(ioc, &iov, 1, fds, ARRAY_SIZE(fds), 0,
                                    errp) < 0) {
        error_prepend(errp, "cannot send the trace buffer to the agent: ");
        return false;
    }

    timer = timer_new_ms(QEMU_CLOCK_REALTIME, agent_handshake_timeout, ioc);
    timer_mod(timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) +
              HANDSHAKE_TIMEOUT_MS);
    ok = qio_channel_read_all(ioc, (char *)&msg, sizeof(msg), NULL) == 0;
    timer_free(timer);

    if (!ok) {
        error_setg(errp, "the agent closed the connection or did not answer "
                   "within %d s; see its messages for the reason",
                   HANDSHAKE_TIMEOUT_MS / 1000);
        return false;
    }
    if (!agent_msg_valid(&msg) || msg.type != BTRAIL_MSG_READY) {
        error_setg(errp, "the agent does not speak version %d of the branch "
                   "trace transport", BTRAIL_TRANSPORT_VERSION);
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
                                             BranchTraceAgentHandler *handler,
                                             void *opaque, Error **errp)
{
    QIOChannelSocket *ioc = qio_channel_socket_new();
    BranchTraceAgent *agent;
    ERRP_GUARD();

    qio_channel_set_name(QIO_CHANNEL(ioc), "branch-trace-agent");
    if (!agent_connect(ioc, addr, errp)) {
        error_prepend(errp, "cannot connect to the trace agent: ");
        goto fail;
    }
    if (!qio_channel_has_feature(QIO_CHANNEL(ioc),
                                 QIO_CHANNEL_FEATURE_FD_PASS)) {
        error_setg(errp, "the connection to the agent is not a unix socket");
        goto fail;
    }
    if (qio_channel_set_blocking(QIO_CHANNEL(ioc), false, errp) < 0 ||
        !agent_handshake(QIO_CHANNEL(ioc), buf, errp)) {
        goto fail;
    }

    agent = g_new0(BranchTraceAgent, 1);
    agent->ioc = ioc;
    agent->handler = handler;
    agent->opaque = opaque;
    return agent;

fail:
    object_unref(OBJECT(ioc));
    return NULL;
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
     * Nothing but HELLO has been sent, so there is room unless the agent has
     * shrunk it to nothing; it sees the end of the connection then.
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
