/*
 * Branch trace: the control connection to the agent
 *
 * Forwards commands to the agent, and executes those that the agent has for
 * the device.  The agent is not trusted: its messages are bounded and checked,
 * the queue of those that it does not read is bounded too, and any message
 * that it must not send disconnects it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "block/aio.h"
#include "block/thread-pool.h"
#include "hw/boards.h"
#include "hw/misc/branch-trace-transport.h"
#include "io/channel-socket.h"
#include "qapi/clone-visitor.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-branch-trace.h"
#include "qapi/qapi-visit-branch-trace.h"
#include "qapi/qapi-visit-sockets.h"
#include "qapi/qmp-registry.h"
#include "qapi/qobject-output-visitor.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qemu/uuid.h"
#include "qobject/qjson.h"
#include "qobject/qnum.h"
#include "qobject/qstring.h"
#include "system/system.h"
#include "agent-socket.h"
#include "control.h"

/* Bytes that wait for an agent that does not read */
#define MAX_QUEUED              (4u * BTRAIL_JSON_MAX)

#define RECONNECT_MS            1000

/*
 * One connection.  It is freed when it is lost and no command runs any more
 * that came over it.
 */
typedef struct ControlConn {
    BranchTraceControl *control;
    unsigned refs;
    QIOChannelSocket *ioc;
    guint in_watch;
    guint out_watch;
    char *failure;              /* why it cannot be used any more */
    QDict *executing;           /* a command; nothing is read meanwhile */
    int64_t executing_id;
    bool parsing;               /* a message; likewise */

    struct btrail_msg head;
    size_t have;                /* bytes of @head, then of @text */
    char *text;                 /* NULL while in @head */

    GByteArray *out;
    size_t out_done;
} ControlConn;

/* A command that waits for its reply */
typedef struct ControlCall {
    uint64_t id;
    Coroutine *co;
    bool done;
    QObject *ret;
    Error *err;
    uint32_t timeout_ms;
    BranchTraceControl *control;
    QTAILQ_ENTRY(ControlCall) next;
} ControlCall;

struct BranchTraceControl {
    QmpCommandList permitted;
    ControlConn *conn;          /* NULL while there is none */
    SocketAddress *addr;        /* of @conn or the last one; NULL if no path */
    uint64_t next_id;
    QTAILQ_HEAD(, ControlCall) calls;
    Coroutine *executing;
    bool own;
    bool exiting;
    QEMUTimer *reconnect;
    QEMUBH *bh;
    BranchTraceInfo *(*capture)(void *opaque);
    void *opaque;
};

static void conn_listen(ControlConn *conn);

/* Calls */

/* The coroutine continues later, so that the list does not change here. */
static void call_done(ControlCall *call)
{
    call->done = true;
    QTAILQ_REMOVE(&call->control->calls, call, next);
    aio_co_schedule(qemu_get_aio_context(), call->co);
}

static void fail_calls(BranchTraceControl *control, const char *why)
{
    ControlCall *call, *next;

    QTAILQ_FOREACH_SAFE(call, &control->calls, next, next) {
        error_setg(&call->err, "%s", why);
        call_done(call);
    }
}

static void call_timeout(void *opaque)
{
    ControlCall *call = opaque;

    if (!call->done) {
        error_setg(&call->err, "the trace agent did not answer within %u ms; "
                   "see its messages for the reason", call->timeout_ms);
        call_done(call);
    }
}

/* Connections */

static void conn_unref(ControlConn *conn)
{
    if (--conn->refs) {
        return;
    }
    g_byte_array_free(conn->out, true);
    g_free(conn->text);
    g_free(conn->failure);
    g_free(conn);
}

static void conn_close(ControlConn *conn)
{
    conn->control->conn = NULL;
    g_clear_handle_id(&conn->in_watch, g_source_remove);
    g_clear_handle_id(&conn->out_watch, g_source_remove);
    branch_trace_agent_close(conn->ioc);
    conn->ioc = NULL;
    conn_unref(conn);
}

static void reconnect_later(BranchTraceControl *control)
{
    if (control->own && !control->exiting && control->addr) {
        timer_mod(control->reconnect,
                  qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + RECONNECT_MS);
    }
}

/* Marks a connection as lost.  It is closed later, by control_bh(). */
static void G_GNUC_PRINTF(2, 3) conn_fail(ControlConn *conn, const char *fmt,
                                          ...)
{
    va_list ap;

    if (!conn->failure) {
        va_start(ap, fmt);
        conn->failure = g_strdup_vprintf(fmt, ap);
        va_end(ap);
        qemu_bh_schedule(conn->control->bh);
    }
}

static void conn_write(ControlConn *conn)
{
    ssize_t n;

    while (!conn->failure && conn->out_done < conn->out->len) {
        n = qio_channel_write(QIO_CHANNEL(conn->ioc),
                              (char *)conn->out->data + conn->out_done,
                              conn->out->len - conn->out_done, NULL);
        if (n == QIO_CHANNEL_ERR_BLOCK) {
            break;
        }
        if (n <= 0) {
            conn_fail(conn, "the trace agent has closed the control "
                      "connection");
            return;
        }
        conn->out_done += n;
    }
    g_byte_array_remove_range(conn->out, 0, conn->out_done);
    conn->out_done = 0;
    if (conn->out->len && !conn->out_watch) {
        /* Sources belong to the main loop: control_bh() adds one. */
        qemu_bh_schedule(conn->control->bh);
    }
}

static gboolean conn_writable(QIOChannel *ioc, GIOCondition cond,
                              gpointer opaque)
{
    ControlConn *conn = opaque;

    conn->out_watch = 0;
    conn_write(conn);
    return G_SOURCE_REMOVE;
}

static void conn_send_text(ControlConn *conn, const GString *text)
{
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_JSON,
        .value = text->len,
    };

    if (conn->failure) {
        return;
    }
    if (text->len > BTRAIL_JSON_MAX) {
        conn_fail(conn, "a message for the trace agent is larger than %u "
                  "bytes", BTRAIL_JSON_MAX);
        return;
    }
    if (conn->out->len + sizeof(msg) + text->len > MAX_QUEUED) {
        conn_fail(conn, "the trace agent does not read its messages");
        return;
    }
    g_byte_array_append(conn->out, (uint8_t *)&msg, sizeof(msg));
    g_byte_array_append(conn->out, (uint8_t *)text->str, text->len);
    conn_write(conn);
}

/* Takes over @message. */
static void conn_send(ControlConn *conn, QDict *message)
{
    GString *text = qobject_to_json(QOBJECT(message));

    conn_send_text(conn, text);
    g_string_free(text, true);
    qobject_unref(message);
}

/* Takes over @reply. */
static void conn_send_reply(ControlConn *conn, int64_t id, QDict *reply)
{
    qdict_put_str(reply, "type", "reply");
    qdict_put_int(reply, "id", id);
    conn_send(conn, reply);
}

/* Commands that the agent has the device execute */

static void coroutine_fn execute_co(void *opaque)
{
    ControlConn *conn = opaque;
    BranchTraceControl *control = conn->control;
    QDict *reply;

    control->executing = qemu_coroutine_self();
    reply = qmp_dispatch(&control->permitted, QOBJECT(conn->executing), false,
                         NULL);
    control->executing = NULL;

    qobject_unref(conn->executing);
    conn->executing = NULL;
    if (control->conn == conn) {
        conn_send_reply(conn, conn->executing_id, reply);
        conn_listen(conn);
    } else {
        qobject_unref(reply);
    }
    conn_unref(conn);
}

static void conn_execute(ControlConn *conn, const QDict *message, int64_t id)
{
    const char *name = qdict_get_try_str(message, "execute");
    QObject *arguments = qdict_get(message, "arguments");
    QDict *args = qobject_to(QDict, arguments);
    Error *err = NULL;

    if (!name) {
        error_setg(&err, "'execute' must be the name of a command");
    } else if (arguments && !args) {
        error_setg(&err, "'arguments' must be an object");
    } else if (args && qdict_haskey(args, "agent")) {
        /* Not by a number either: the agent does not own QEMU's descriptors. */
        error_setg(&err, "'agent' is not permitted over the control "
                   "connection: omit it");
    } else if (conn->control->executing) {
        /* It came over a connection that was lost meanwhile. */
        error_setg(&err, "a command is still being executed: try again when "
                   "it has ended");
    }
    if (err) {
        conn_send_reply(conn, id, qmp_error_response(err));
        return;
    }

    conn->executing_id = id;
    conn->executing = qdict_new();
    qdict_put_str(conn->executing, "execute", name);
    if (args) {
        qdict_put(conn->executing, "arguments", qobject_ref(args));
    }
    conn->refs++;
    qemu_coroutine_enter(qemu_coroutine_create(execute_co, conn));
}

static void conn_reply(ControlConn *conn, const QDict *message, uint64_t id)
{
    BranchTraceControl *control = conn->control;
    QObject *ret = qdict_get(message, "return");
    QObject *error = qdict_get(message, "error");
    QDict *error_dict = qobject_to(QDict, error);
    const char *desc = error_dict ? qdict_get_try_str(error_dict, "desc")
                                  : NULL;
    ControlCall *call;

    if (id >= control->next_id) {
        conn_fail(conn, "the trace agent has replied to a command that was "
                  "never sent");
        return;
    }
    if (!ret == !error || (error && !desc)) {
        conn_fail(conn, "the trace agent has sent a reply without a 'return' "
                  "or an 'error' with a 'desc'");
        return;
    }
    QTAILQ_FOREACH(call, &control->calls, next) {
        if (call->id == id) {
            break;
        }
    }
    if (!call) {
        /* The reply comes too late. */
        return;
    }
    if (desc) {
        error_setg(&call->err, "%s", desc);
    } else {
        call->ret = qobject_ref(ret);
    }
    call_done(call);
}

static bool few_values(const char *text)
{
    unsigned n = 0;

    for (; *text; text++) {
        n += *text == ',' || *text == '[' || *text == '{';
    }
    return n <= BTRAIL_JSON_MAX_VALUES;
}

/* A message, and what it says; NULL if that is no JSON */
typedef struct Message {
    char *text;
    size_t size;
    bool few_values;
    QObject *object;
} Message;

/* In a thread of the pool: this takes long where there are many values. */
static int parse_job(void *opaque)
{
    Message *m = opaque;

    m->few_values = few_values(m->text);
    /* The parser would end at a NUL. */
    if (m->few_values && !memchr(m->text, '\0', m->size)) {
        m->object = qobject_from_json(m->text, NULL);
    }
    g_free(m->text);
    return 0;
}

static void conn_message(ControlConn *conn, const Message *m)
{
    const QDict *message = qobject_to(QDict, m->object);
    const char *type;
    QNum *number;
    int64_t id;

    if (!m->few_values) {
        conn_fail(conn, "the trace agent has sent a message with more than %d "
                  "values", BTRAIL_JSON_MAX_VALUES);
        return;
    }
    if (!message) {
        conn_fail(conn, "the trace agent has sent a message that is not a "
                  "JSON object");
        return;
    }
    type = qdict_get_try_str(message, "type");
    number = qobject_to(QNum, qdict_get(message, "id"));
    if (!type || !number || !qnum_get_try_int(number, &id) || id < 0) {
        conn_fail(conn, "the trace agent has sent a message without a valid "
                  "'type' or 'id'");
        return;
    }
    if (!strcmp(type, "reply")) {
        conn_reply(conn, message, id);
    } else if (!strcmp(type, "execute")) {
        conn_execute(conn, message, id);
    } else {
        conn_fail(conn, "the trace agent has sent a message of an unknown "
                  "type");
    }
}

static void coroutine_fn message_co(void *opaque)
{
    ControlConn *conn = opaque;
    Message m = {
        .text = g_steal_pointer(&conn->text),
        .size = conn->head.value,
    };

    thread_pool_submit_co(parse_job, &m);
    /* Like other QMP commands, not while a block job waits for its end. */
    aio_co_schedule(iohandler_get_aio_context(), qemu_coroutine_self());
    qemu_coroutine_yield();

    conn->parsing = false;
    if (conn->control->conn == conn && !conn->failure) {
        conn_message(conn, &m);
        conn_listen(conn);
    }
    qobject_unref(m.object);
    conn_unref(conn);
}

static void conn_head(ControlConn *conn)
{
    const struct btrail_msg *head = &conn->head;

    if (head->magic != BTRAIL_MSG_MAGIC ||
        head->version != BTRAIL_TRANSPORT_VERSION ||
        head->type != BTRAIL_MSG_JSON) {
        conn_fail(conn, "the trace agent does not speak version %d of the "
                  "branch trace transport", BTRAIL_TRANSPORT_VERSION);
        return;
    }
    if (!head->value || head->value > BTRAIL_JSON_MAX) {
        conn_fail(conn, "the trace agent has sent a message of %" PRIu64
                  " bytes: from 1 to %u are allowed", head->value,
                  BTRAIL_JSON_MAX);
        return;
    }
    conn->text = g_malloc(head->value + 1);
    conn->text[head->value] = '\0';
    conn->have = 0;
}

static gboolean conn_readable(QIOChannel *ioc, GIOCondition cond,
                              gpointer opaque)
{
    ControlConn *conn = opaque;
    size_t size = conn->text ? conn->head.value : sizeof(conn->head);
    char *to = conn->text ?: (char *)&conn->head;
    ssize_t n;

    n = branch_trace_agent_read(conn->ioc->fd, to + conn->have,
                                size - conn->have);
    if (n < 0 && errno == EAGAIN) {
        return G_SOURCE_CONTINUE;
    }
    if (n < 0 && errno == BRANCH_TRACE_AGENT_FILES) {
        conn_fail(conn, "the trace agent has sent file descriptors");
    } else if (n <= 0) {
        conn_fail(conn, "the trace agent has closed the control connection");
    } else {
        conn->have += n;
        if (conn->have == size && !conn->text) {
            conn_head(conn);
        } else if (conn->have == size) {
            conn->have = 0;
            conn->parsing = true;
            conn->refs++;
            qemu_coroutine_enter(qemu_coroutine_create(message_co, conn));
        }
    }
    if (!conn->failure && !conn->parsing) {
        return G_SOURCE_CONTINUE;
    }
    conn->in_watch = 0;
    return G_SOURCE_REMOVE;
}

static void conn_listen(ControlConn *conn)
{
    if (!conn->in_watch && !conn->failure && !conn->executing &&
        !conn->parsing) {
        conn->in_watch = qio_channel_add_watch(QIO_CHANNEL(conn->ioc),
                                               G_IO_IN | G_IO_HUP | G_IO_ERR,
                                               conn_readable, conn, NULL);
    }
}

static QDict *guest_message(BranchTraceControl *control)
{
    QDict *guest = qdict_new();
    BranchTraceInfo *info = control->capture(control->opaque);

    qdict_put_str(guest, "type", "guest");
    if (qemu_get_vm_name()) {
        qdict_put_str(guest, "name", qemu_get_vm_name());
    }
    if (qemu_uuid_set) {
        char uuid[UUID_STR_LEN];

        qemu_uuid_unparse(&qemu_uuid, uuid);
        qdict_put_str(guest, "uuid", uuid);
    }
    qdict_put_int(guest, "vcpus", current_machine->smp.max_cpus);
    if (info) {
        QObject *object;
        Visitor *v = qobject_output_visitor_new(&object);

        visit_type_BranchTraceInfo(v, NULL, &info, &error_abort);
        visit_complete(v, &object);
        visit_free(v);
        qapi_free_BranchTraceInfo(info);
        qdict_put_obj(guest, "capture", object);
    }
    return guest;
}

static bool control_connect(BranchTraceControl *control, SocketAddress *addr,
                            Error **errp)
{
    QIOChannelSocket *ioc = branch_trace_agent_open(addr, errp);
    ControlConn *conn;

    if (!ioc) {
        return false;
    }
    qio_channel_set_name(QIO_CHANNEL(ioc), "branch-trace-control");
    if (addr != control->addr) {
        qapi_free_SocketAddress(control->addr);
        control->addr = addr->type == SOCKET_ADDRESS_TYPE_UNIX
                     ? QAPI_CLONE(SocketAddress, addr) : NULL;
    }
    timer_del(control->reconnect);

    conn = g_new0(ControlConn, 1);
    conn->control = control;
    conn->refs = 1;
    conn->ioc = ioc;
    conn->out = g_byte_array_new();
    control->conn = conn;
    conn_send(conn, guest_message(control));
    conn_listen(conn);
    return true;
}

static void control_lost(BranchTraceControl *control)
{
    g_autofree char *why = g_strdup(control->conn->failure);

    conn_close(control->conn);
    fail_calls(control, why);
    reconnect_later(control);
}

/* Closes a connection that is lost, or waits until it can be written. */
static void control_bh(void *opaque)
{
    BranchTraceControl *control = opaque;
    ControlConn *conn = control->conn;

    if (!conn) {
        return;
    }
    if (conn->failure) {
        control_lost(control);
    } else if (conn->out->len && !conn->out_watch) {
        conn->out_watch = qio_channel_add_watch(QIO_CHANNEL(conn->ioc),
                                                G_IO_OUT | G_IO_HUP | G_IO_ERR,
                                                conn_writable, conn, NULL);
    }
}

static void control_reconnect(void *opaque)
{
    BranchTraceControl *control = opaque;

    if (!control->conn && control->own &&
        !control_connect(control, control->addr, NULL)) {
        reconnect_later(control);
    }
}

static bool same_path(const SocketAddress *a, const SocketAddress *b)
{
    return a && b && a->type == SOCKET_ADDRESS_TYPE_UNIX && a->type == b->type
           && !strcmp(a->u.q_unix.path, b->u.q_unix.path);
}

/* Makes sure that there is a connection, to @addr if it was @named. */
static bool control_prepare(BranchTraceControl *control, SocketAddress *addr,
                            bool named, Error **errp)
{
    /* An agent closes a connection that it does not need, to have another. */
    if (control->conn && control->conn->in_watch &&
        branch_trace_agent_is_gone(control->conn->ioc->fd)) {
        conn_fail(control->conn, "the trace agent has closed the control "
                  "connection");
    }
    if (control->conn && control->conn->failure) {
        control_lost(control);
    }
    if (named && !same_path(addr, control->addr)) {
        if (control->own || !QTAILQ_EMPTY(&control->calls)) {
            error_setg(errp, "another trace agent has the active capture or "
                       "a command: omit 'agent'");
            return false;
        }
        if (control->conn) {
            conn_close(control->conn);
        }
    } else if (control->own && control->addr) {
        addr = control->addr;
    }
    if (!control->conn && !control_connect(control, addr, errp)) {
        return false;
    }
    return true;
}

QObject *coroutine_fn
branch_trace_control_command(BranchTraceControl *control, QObject *command,
                             SocketAddress *addr, bool named,
                             uint32_t timeout_ms, Error **errp)
{
    ControlCall call = {
        .co = qemu_coroutine_self(),
        .timeout_ms = timeout_ms,
        .control = control,
    };
    g_autoptr(GString) text = NULL;
    QEMUTimer *timer;
    QDict *message;

    if (!qobject_to(QDict, command)) {
        error_setg(errp, "'command' must be an object");
        return NULL;
    }
    if (control->exiting) {
        error_setg(errp, "QEMU is about to end");
        return NULL;
    }

    message = qdict_new();
    qdict_put_str(message, "type", "command");
    qdict_put_int(message, "id", control->next_id);
    qdict_put_obj(message, "command", qobject_ref(command));
    text = qobject_to_json(QOBJECT(message));
    qobject_unref(message);
    if (text->len > BTRAIL_JSON_MAX) {
        error_setg(errp, "the command is too large: %u bytes are allowed",
                   BTRAIL_JSON_MAX);
        return NULL;
    }
    if (!control_prepare(control, addr, named, errp)) {
        return NULL;
    }

    call.id = control->next_id++;
    QTAILQ_INSERT_TAIL(&control->calls, &call, next);
    timer = timer_new_ms(QEMU_CLOCK_REALTIME, call_timeout, &call);
    timer_mod(timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + timeout_ms);
    conn_send_text(control->conn, text);
    while (!call.done) {
        qemu_coroutine_yield();
    }
    timer_free(timer);
    if (call.err) {
        error_propagate(errp, call.err);
    }
    return call.ret;
}

void branch_trace_control_event(BranchTraceControl *control, const char *event,
                                QDict *data)
{
    QDict *message;

    if (!control->conn) {
        qobject_unref(data);
        return;
    }
    message = qdict_new();
    qdict_put_str(message, "type", "event");
    qdict_put_str(message, "event", event);
    qdict_put(message, "data", data ?: qdict_new());
    conn_send(control->conn, message);
}

bool branch_trace_control_executes(BranchTraceControl *control)
{
    return control->executing && qemu_in_coroutine() &&
           control->executing == qemu_coroutine_self();
}

SocketAddress *branch_trace_control_address(BranchTraceControl *control)
{
    return control->addr;
}

void branch_trace_control_own(BranchTraceControl *control, bool own)
{
    control->own = own;
    if (!own) {
        timer_del(control->reconnect);
    } else if (!control->conn) {
        reconnect_later(control);
    }
}

void branch_trace_control_exit(BranchTraceControl *control)
{
    control->exiting = true;
    timer_del(control->reconnect);
    fail_calls(control, "QEMU is about to end");
}

BranchTraceControl *
branch_trace_control_new(BranchTraceInfo *(*capture)(void *opaque),
                         void *opaque)
{
    BranchTraceControl *control = g_new0(BranchTraceControl, 1);

    control->capture = capture;
    control->opaque = opaque;
    QTAILQ_INIT(&control->calls);
    control->reconnect = timer_new_ms(QEMU_CLOCK_REALTIME, control_reconnect,
                                      control);
    control->bh = qemu_bh_new(control_bh, control);

    /* An agent may execute these, and nothing else. */
    QTAILQ_INIT(&control->permitted);
    qmp_register_command(&control->permitted, "branch-trace-start",
                         qmp_marshal_branch_trace_start, QCO_COROUTINE, 0);
    qmp_register_command(&control->permitted, "branch-trace-change",
                         qmp_marshal_branch_trace_change, 0, 0);
    qmp_register_command(&control->permitted, "branch-trace-attach",
                         qmp_marshal_branch_trace_attach, QCO_COROUTINE, 0);
    qmp_register_command(&control->permitted, "branch-trace-stop",
                         qmp_marshal_branch_trace_stop, 0, 0);
    qmp_register_command(&control->permitted, "query-branch-trace",
                         qmp_marshal_query_branch_trace, 0, 0);
    return control;
}
