/*
 * Branch trace: the data connection, over which an agent gets a capture
 *
 * The agent is not trusted: only a coroutine waits for it, with a time limit,
 * and any message that it must not send disconnects it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include "qapi/error.h"
#include "qemu/timer.h"
#include "agent-socket.h"
#include "data-connection.h"
#include "hw/misc/branch-trace.h"
#include "memory.h"

/*
 * An agent that works answers within milliseconds; one that holds the capture
 * may need a second to find the guest's kernel.  No other QMP command runs
 * meanwhile.
 */
#define HANDSHAKE_TIMEOUT_MS    1500

struct BranchTraceData {
    QIOChannelSocket *ioc;
    guint watch;
    struct {
        struct btrail_msg msg;
        struct btrail_tasks tasks[BTRAIL_TASKS_MAX];
    } in;
    size_t in_len;
    BranchTraceKernels kernels; /* of the last TASKS */
    BranchTraceMemory *memory;  /* that the agent knows */
    bool shares_memory;         /* it has requested MEMORY in READY, */
    bool wants_memory;          /* and again since the last one */
    bool knows_kernels;
    BranchTraceDataHandler *handler;
    void *opaque;
};

void branch_trace_data_cancel(BranchTraceData *data)
{
    qio_channel_shutdown(QIO_CHANNEL(data->ioc), QIO_CHANNEL_SHUTDOWN_BOTH,
                         NULL);
}

static void handshake_timeout(void *opaque)
{
    branch_trace_data_cancel(opaque);
}

/* Waits until all has come; otherwise returns a negative error code. */
static int coroutine_fn read_all(QIOChannelSocket *ioc, void *buf, size_t size)
{
    size_t have = 0;
    ssize_t n;

    while (have < size) {
        n = branch_trace_agent_read(ioc->fd, (char *)buf + have, size - have);
        if (n > 0) {
            have += n;
        } else if (n < 0 && errno == EAGAIN) {
            qio_channel_yield(QIO_CHANNEL(ioc), G_IO_IN);
        } else {
            return n ? -errno : -ECONNRESET;
        }
    }
    return 0;
}

static bool msg_is_valid(const struct btrail_msg *msg)
{
    return msg->magic == BTRAIL_MSG_MAGIC &&
           msg->version == BTRAIL_TRANSPORT_VERSION;
}

static bool msg_has_tasks(const struct btrail_msg *msg)
{
    return msg_is_valid(msg) && msg->type == BTRAIL_MSG_TASKS &&
           btrail_tasks_size_in(msg->value) && branch_trace_data_accepts_tasks();
}

/* Begins descriptions of tasks, of which the rest is 0. */
static size_t begin_tasks(BranchTraceData *data)
{
    memset(data->in.tasks, 0, sizeof(data->in.tasks));
    return data->in.msg.value;
}

/* Without a number nobody looks which kernel runs. */
static bool kernel_is_valid(const struct btrail_tasks *tasks)
{
    return tasks->number
           ? tasks->number <= BTRAIL_TASKS_MAX_NUMBER && !tasks->reserved &&
             tasks->mark >= BTRAIL_TASKS_MIN_ADDRESS &&
             tasks->mark <= -(uint64_t)BTRAIL_TASKS_MARK
           : !tasks->mark && !tasks->mark_physical && !tasks->reserved;
}

/* Nothing is asked for, or all of it in a way that can be. */
static bool wakes_are_valid(const struct btrail_tasks *tasks)
{
    unsigned n = 0;

    for (unsigned i = 0; i < BTRAIL_TASKS_WAKING; i++) {
        if (tasks->waking[i] && (tasks->waking[i] < tasks->wake || n < i)) {
            return false;
        }
        n += !!tasks->waking[i];
    }
    if (!tasks->wake) {
        return !n && !tasks->wake_new && !tasks->waking_new;
    }
    return n && tasks->wake >= BTRAIL_TASKS_MIN_ADDRESS &&
           tasks->wake_new >= BTRAIL_TASKS_MIN_ADDRESS &&
           tasks->waking_new >= tasks->wake_new;
}

static bool states_are_valid(const struct btrail_tasks *tasks)
{
    if (!tasks->state) {
        return !tasks->on_queue && !tasks->delayed && !tasks->dead &&
               !tasks->interruptible && !tasks->uninterruptible;
    }
    return tasks->state < BTRAIL_TASKS_MAX_OFFSET &&
           tasks->on_queue < BTRAIL_TASKS_MAX_OFFSET &&
           tasks->delayed < BTRAIL_TASKS_MAX_OFFSET;
}

static bool is_described(const struct btrail_tasks *tasks)
{
    static const struct btrail_tasks none;

    return memcmp(tasks, &none, sizeof(none));
}

static bool description_is_valid(const struct btrail_tasks *tasks)
{
    return tasks->switch_to >= BTRAIL_TASKS_MIN_ADDRESS &&
           tasks->set_name >= BTRAIL_TASKS_MIN_ADDRESS &&
           tasks->switch_to != tasks->set_name &&
           tasks->tid < BTRAIL_TASKS_MAX_OFFSET &&
           tasks->pid < BTRAIL_TASKS_MAX_OFFSET &&
           tasks->name < BTRAIL_TASKS_MAX_OFFSET &&
           tasks->task_flags < BTRAIL_TASKS_MAX_OFFSET && !tasks->flags &&
           kernel_is_valid(tasks) && wakes_are_valid(tasks) &&
           states_are_valid(tasks);
}

/* Takes what TASKS has said; false if that cannot be. */
static bool take_tasks(BranchTraceData *data)
{
    BranchTraceKernels *kernels = &data->kernels;
    struct btrail_tasks tasks[BTRAIL_TASKS_MAX] = { };
    size_t size = btrail_tasks_size_in(data->in.msg.value);
    unsigned n = data->in.msg.value / size;

    for (unsigned i = 0; i < n; i++) {
        memcpy(&tasks[i], (const char *)data->in.tasks + i * size, size);
    }
    for (unsigned i = 0; i < n; i++) {
        if ((i || is_described(&tasks[i])) &&
            (!description_is_valid(&tasks[i]) || (i && !tasks[i].number))) {
            return false;
        }
    }
    memcpy(kernels->of, tasks, n * sizeof(*tasks));
    kernels->n = n == 1 && !is_described(tasks) ? 0 : n;
    return true;
}

/* Waits for a message and what belongs to it; returns as read_all(). */
static int coroutine_fn read_message(BranchTraceData *data)
{
    QEMUTimer *timer = timer_new_ms(QEMU_CLOCK_REALTIME, handshake_timeout,
                                    data);
    int ret;

    timer_mod(timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) +
              HANDSHAKE_TIMEOUT_MS);
    ret = read_all(data->ioc, &data->in.msg, sizeof(data->in.msg));
    if (!ret && msg_has_tasks(&data->in.msg)) {
        ret = read_all(data->ioc, data->in.tasks, begin_tasks(data));
    }
    timer_free(timer);
    return ret;
}

/* Was READY read?  @ret is what read_message() returned. */
static bool is_ready(const BranchTraceData *data, int ret, Error **errp)
{
    if (ret == -BRANCH_TRACE_AGENT_FILES) {
        error_setg(errp, "the trace agent has sent file descriptors");
        return false;
    }
    if (ret) {
        error_setg(errp, "the trace agent closed the connection or did not "
                   "answer within %d ms; see its messages for the reason",
                   HANDSHAKE_TIMEOUT_MS);
        return false;
    }
    if (!msg_is_valid(&data->in.msg) ||
        data->in.msg.type != BTRAIL_MSG_READY) {
        error_setg(errp, "the trace agent does not speak version %d of the "
                   "branch trace transport: install the version of "
                   "Backtrail that belongs to this QEMU",
                   BTRAIL_TRANSPORT_VERSION);
        return false;
    }
    return true;
}

static bool coroutine_fn handshake(BranchTraceData *data,
                                   const BranchTraceBuffer *buf,
                                   Error **errp)
{
    QIOChannel *ioc = QIO_CHANNEL(data->ioc);
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_HELLO,
        .reason = buf->slot,
        .value = buf->size,
    };
    struct iovec iov = { .iov_base = &msg, .iov_len = sizeof(msg) };
    int fds[] = { buf->fd, buf->ready[1], buf->free[1] };
    uint64_t flags;
    int ret;

    /* Not the variant that waits: a new socket has room. */
    if (qio_channel_writev_full(ioc, &iov, 1, fds, ARRAY_SIZE(fds), 0,
                                NULL) != sizeof(msg)) {
        error_setg(errp, "the connection to the trace agent is closed or full: "
                   "use a new one");
        return false;
    }

    if (!is_ready(data, read_message(data), errp)) {
        return false;
    }
    flags = data->in.msg.value;
    data->knows_kernels = flags & BTRAIL_READY_KERNELS;
    data->shares_memory = flags & BTRAIL_READY_MEMORY;
    if (data->shares_memory &&
        branch_trace_memory_send(ioc, &data->memory) < 0) {
        error_setg(errp, "the trace agent does not read what it has requested");
        return false;
    }
    if (!(flags & BTRAIL_READY_HOLD)) {
        return true;
    }
    ret = read_message(data);
    if (!ret && msg_has_tasks(&data->in.msg)) {
        if (!take_tasks(data)) {
            error_setg(errp, "the trace agent describes tasks as they cannot "
                       "be");
            return false;
        }
        ret = read_message(data);
    }
    return is_ready(data, ret, errp);
}

bool branch_trace_data_accepts_tasks(void)
{
    return branch_trace_producer()->tasks;
}

/* How much there is to read before the message is complete */
static size_t in_size(const BranchTraceData *data)
{
    return data->in_len >= sizeof(data->in.msg) &&
           msg_has_tasks(&data->in.msg)
           ? sizeof(data->in.msg) + data->in.msg.value
           : sizeof(data->in.msg);
}

static BranchTraceDataEvent data_event(BranchTraceData *data)
{
    const struct btrail_msg *msg = &data->in.msg;

    if (msg_is_valid(msg)) {
        switch (msg->type) {
        case BTRAIL_MSG_TASKS:
            if (msg_has_tasks(msg) && take_tasks(data)) {
                return BRANCH_TRACE_DATA_TASKS;
            }
            break;
        case BTRAIL_MSG_FLUSH:
            return BRANCH_TRACE_DATA_FLUSH;
        case BTRAIL_MSG_RESEND_CODE:
            return BRANCH_TRACE_DATA_RESEND_CODE;
        case BTRAIL_MSG_STOP:
            return BRANCH_TRACE_DATA_STOP;
        }
    }
    return BRANCH_TRACE_DATA_INVALID;
}

/* Is it a request for MEMORY from an agent that has got the first one? */
static bool msg_wants_memory(const BranchTraceData *data)
{
    return msg_is_valid(&data->in.msg) &&
           data->in.msg.type == BTRAIL_MSG_MEMORY && data->shares_memory;
}

static gboolean data_readable(QIOChannel *ioc, GIOCondition cond,
                               gpointer opaque)
{
    BranchTraceData *data = opaque;
    BranchTraceDataEvent event = BRANCH_TRACE_DATA_CLOSED;
    ssize_t n;

    n = branch_trace_agent_read(data->ioc->fd,
                                (char *)&data->in + data->in_len,
                                in_size(data) - data->in_len);
    if (n < 0 && errno == EAGAIN) {
        return G_SOURCE_CONTINUE;
    }
    if (n < 0 && errno == BRANCH_TRACE_AGENT_FILES) {
        event = BRANCH_TRACE_DATA_INVALID;
    } else if (n > 0) {
        data->in_len += n;
        if (data->in_len == sizeof(data->in.msg) &&
            msg_has_tasks(&data->in.msg)) {
            begin_tasks(data);
        }
        if (data->in_len < in_size(data)) {
            return G_SOURCE_CONTINUE;
        }
        data->in_len = 0;
        if (msg_wants_memory(data)) {
            data->wants_memory = true;
            return G_SOURCE_CONTINUE;
        }
        event = data_event(data);
    }
    /* This may close the connection, and remove the source with it. */
    data->handler(data->opaque, event);
    return G_SOURCE_CONTINUE;
}

BranchTraceData *branch_trace_data_connect(SocketAddress *addr,
                                           const BranchTraceBuffer *buf,
                                           BranchTraceDataHandler *handler,
                                           void *opaque,
                                           BranchTraceData **connecting,
                                           Error **errp)
{
    QIOChannelSocket *ioc;
    BranchTraceData *data;
    bool ready;

    ioc = branch_trace_agent_open(addr, errp);
    if (!ioc) {
        return NULL;
    }
    qio_channel_set_name(QIO_CHANNEL(ioc), "branch-trace-data");
    data = g_new0(BranchTraceData, 1);
    data->ioc = ioc;
    data->handler = handler;
    data->opaque = opaque;
    *connecting = data;
    ready = handshake(data, buf, errp);
    *connecting = NULL;
    if (!ready) {
        branch_trace_data_close(data);
        return NULL;
    }
    return data;
}

void branch_trace_data_listen(BranchTraceData *data)
{
    data->watch = qio_channel_add_watch(QIO_CHANNEL(data->ioc),
                                         G_IO_IN | G_IO_HUP | G_IO_ERR,
                                         data_readable, data, NULL);
}

bool branch_trace_data_knows_kernels(const BranchTraceData *data)
{
    return data->knows_kernels;
}

const BranchTraceKernels *branch_trace_data_tasks(const BranchTraceData *data)
{
    return &data->kernels;
}

/* An agent could otherwise pile up files that nobody has received. */
static bool all_is_read(const BranchTraceData *data)
{
    int unread;

    return !ioctl(data->ioc->fd, SIOCOUTQ, &unread) && !unread;
}

void branch_trace_data_send_memory(BranchTraceData *data)
{
    if (data->wants_memory && all_is_read(data) &&
        branch_trace_memory_send(QIO_CHANNEL(data->ioc), &data->memory) > 0) {
        data->wants_memory = false;
    }
}

void branch_trace_data_send_end(BranchTraceData *data, uint32_t reason)
{
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_END,
        .reason = reason,
    };

    /*
     * Only HELLO and MEMORY have been sent, and MEMORY again when all was read,
     * so there is room, unless the agent has shrunk the socket's buffer; it
     * sees the end of the connection then.
     */
    qio_channel_write(QIO_CHANNEL(data->ioc), (char *)&msg, sizeof(msg),
                      NULL);
}

void branch_trace_data_close(BranchTraceData *data)
{
    g_clear_handle_id(&data->watch, g_source_remove);
    branch_trace_agent_close(data->ioc);
    g_free(data->memory);
    g_free(data);
}
