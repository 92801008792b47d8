/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QMP client: see qmp.h
 */

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/json.h"
#include "monitor/qmp.h"
#include "util/unix-socket.h"
#include "util/wait.h"

/* QEMU sends one JSON object a line; all of them are far shorter. */
#define MAX_LINE    (16u << 20)
#define MAX_EVENTS  1000

struct btrail_qmp {
    int sock;                   /* -1 if another program has it */
    btrail_qmp_executor *execute;
    void *opaque;
    char *version;
    GByteArray *in;
    gint64 last_id;
    GQueue *events;             /* names; NULL if they are not kept */
};

static bool qmp_protocol_error(GError **error, const char *what)
{
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                "this does not look like a QMP monitor: %s", what);
    return false;
}

static bool qmp_closed(GError **error)
{
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_CLOSED,
                "QEMU closed the monitor connection");
    return false;
}

static bool wait_for(struct btrail_qmp *qmp, short events, gint64 deadline,
                     int cancel_fd, GError **error)
{
    return btrail_wait(qmp->sock, events, deadline, cancel_fd,
                       "the monitor does not answer; it talks to one client "
                       "at a time, so give QEMU one of its own for this: "
                       "-qmp unix:PATH,server=on,wait=off", error);
}

/* Returns a line without its end, NUL-terminated; free it. */
static char *read_line(struct btrail_qmp *qmp, gint64 deadline, int cancel_fd,
                       GError **error)
{
    size_t seen = 0;

    for (;;) {
        const uint8_t *end = qmp->in->len > seen ?
            memchr(qmp->in->data + seen, '\n', qmp->in->len - seen) : NULL;
        uint8_t bytes[4096];
        ssize_t n;

        if (end) {
            size_t len = end - qmp->in->data;
            char *line = g_strndup((char *)qmp->in->data, len);

            g_byte_array_remove_range(qmp->in, 0, len + 1);
            return line;
        }
        seen = qmp->in->len;
        if (seen > MAX_LINE) {
            qmp_protocol_error(error, "a line without an end");
            return NULL;
        }
        if (!wait_for(qmp, POLLIN, deadline, cancel_fd, error)) {
            return NULL;
        }
        n = recv(qmp->sock, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (n < 0 && errno != ECONNRESET) {
            btrail_agent_error_errno(error, "cannot read from the monitor");
            return NULL;
        }
        if (n <= 0) {
            qmp_closed(error);
            return NULL;
        }
        g_byte_array_append(qmp->in, bytes, n);
    }
}

/* Returns the next JSON object, whatever it is. */
static JsonNode *read_object(struct btrail_qmp *qmp, gint64 deadline,
                             int cancel_fd, GError **error)
{
    g_autofree char *line = read_line(qmp, deadline, cancel_fd, error);
    g_autoptr(JsonNode) node = NULL;

    if (!line) {
        return NULL;
    }
    node = btrail_json_parse_object(line);
    if (!node) {
        qmp_protocol_error(error, "a line that is not a JSON object");
        return NULL;
    }
    return g_steal_pointer(&node);
}

static bool send_all(struct btrail_qmp *qmp, const char *text, size_t len,
                     int fd, gint64 deadline, int cancel_fd, GError **error)
{
    while (len) {
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control = { 0 };
        struct iovec iov = { (void *)text, len };
        struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
        ssize_t n;

        if (fd >= 0) {
            struct cmsghdr *c;

            mh.msg_control = &control;
            mh.msg_controllen = sizeof(control);
            c = CMSG_FIRSTHDR(&mh);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(c), &fd, sizeof(fd));
        }
        if (!wait_for(qmp, POLLOUT, deadline, cancel_fd, error)) {
            return false;
        }
        n = sendmsg(qmp->sock, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            return qmp_closed(error);
        }
        if (n < 0) {
            return btrail_agent_error_errno(error,
                                            "cannot write to the monitor");
        }
        /* The descriptor went with the first byte. */
        fd = -1;
        text += n;
        len -= n;
    }
    return true;
}

char *btrail_qmp_format(const char *command, JsonObject *arguments, gint64 id)
{
    g_autoptr(JsonObject) object = json_object_new();

    json_object_set_string_member(object, "execute", command);
    if (arguments) {
        json_object_set_object_member(object, "arguments", arguments);
    }
    if (id) {
        json_object_set_int_member(object, "id", id);
    }
    return btrail_json_text(object, FALSE);
}

static void set_command_error(GError **error, JsonObject *failure)
{
    const char *class = btrail_json_string(failure, "class");
    const char *desc = btrail_json_string(failure, "desc");
    int code = !g_strcmp0(class, "CommandNotFound") ?
               BTRAIL_AGENT_ERROR_NO_COMMAND :
               !g_strcmp0(class, "DeviceNotFound") ?
               BTRAIL_AGENT_ERROR_NO_DEVICE : BTRAIL_AGENT_ERROR_COMMAND;

    g_set_error_literal(error, BTRAIL_AGENT_ERROR, code,
                        desc ? desc : "failed without a reason");
}

JsonNode *btrail_qmp_result(JsonObject *reply, GError **error)
{
    JsonObject *failure = btrail_json_object(reply, "error");

    if (failure) {
        set_command_error(error, failure);
        return NULL;
    }
    if (!json_object_has_member(reply, "return")) {
        qmp_protocol_error(error, "a reply without a result");
        return NULL;
    }
    return json_object_dup_member(reply, "return");
}

static bool keep_event(struct btrail_qmp *qmp, JsonObject *object)
{
    const char *name = btrail_json_string(object, "event");

    if (qmp->events && name) {
        g_queue_push_tail(qmp->events, g_strdup(name));
        if (g_queue_get_length(qmp->events) > MAX_EVENTS) {
            g_free(g_queue_pop_head(qmp->events));
        }
    }
    return name;
}

void btrail_qmp_keep_events(struct btrail_qmp *qmp)
{
    if (!qmp->events) {
        qmp->events = g_queue_new();
    }
}

char *btrail_qmp_next_event(struct btrail_qmp *qmp, int timeout_ms,
                            int cancel_fd, GError **error)
{
    gint64 deadline = g_get_monotonic_time() + timeout_ms * 1000ll;

    btrail_qmp_keep_events(qmp);
    while (g_queue_is_empty(qmp->events)) {
        g_autoptr(JsonNode) node = read_object(qmp, deadline, cancel_fd,
                                               error);

        if (!node) {
            return NULL;
        }
        keep_event(qmp, json_node_get_object(node));
    }
    return g_queue_pop_head(qmp->events);
}

JsonNode *btrail_qmp_execute(struct btrail_qmp *qmp, const char *command,
                             JsonObject *arguments, int fd, int timeout_ms,
                             int cancel_fd, GError **error)
{
    g_autofree char *text = NULL, *line = NULL;
    gint64 deadline = g_get_monotonic_time() + timeout_ms * 1000ll;

    if (qmp->execute) {
        return qmp->execute(qmp->opaque, command, arguments, fd, error);
    }
    text = btrail_qmp_format(command, arguments, ++qmp->last_id);
    line = g_strconcat(text, "\n", NULL);
    if (!send_all(qmp, line, strlen(line), fd, deadline, cancel_fd, error)) {
        return NULL;
    }
    for (;;) {
        g_autoptr(JsonNode) node = read_object(qmp, deadline, cancel_fd,
                                               error);
        JsonObject *reply;
        JsonNode *result;

        if (!node) {
            return NULL;
        }
        reply = json_node_get_object(node);
        if (keep_event(qmp, reply) ||
            btrail_json_int(reply, "id", 0) != qmp->last_id) {
            /* An event, or the reply to a command that was given up */
            continue;
        }
        result = btrail_qmp_result(reply, error);
        if (!result) {
            g_prefix_error(error, "%s: ", command);
        }
        return result;
    }
}

const char *btrail_qmp_version(const struct btrail_qmp *qmp)
{
    return qmp->version;
}

static bool read_greeting(struct btrail_qmp *qmp, gint64 deadline,
                          int cancel_fd, GError **error)
{
    g_autoptr(JsonNode) node = NULL;
    JsonObject *object, *version;

    /*
     * An event can come first: for a moment QEMU takes a new client for the last
     * one, which had negotiated.
     */
    do {
        g_clear_pointer(&node, json_node_unref);
        node = read_object(qmp, deadline, cancel_fd, error);
        if (!node) {
            return false;
        }
        object = json_node_get_object(node);
    } while (keep_event(qmp, object));
    object = btrail_json_object(object, "QMP");
    if (!object) {
        return qmp_protocol_error(error, "it sends no greeting");
    }
    version = btrail_json_object(object, "version");
    if (version) {
        JsonObject *n = btrail_json_object(version, "qemu");
        const char *package = btrail_json_string(version, "package");

        if (n) {
            qmp->version = g_strdup_printf(
                "%d.%d.%d%s%s",
                (int)btrail_json_int(n, "major", 0),
                (int)btrail_json_int(n, "minor", 0),
                (int)btrail_json_int(n, "micro", 0),
                package && *package ? " " : "", package ? package : "");
        }
    }
    return true;
}

struct btrail_qmp *btrail_qmp_new(int sock, int timeout_ms, int cancel_fd,
                                  GError **error)
{
    struct btrail_qmp *qmp = g_new0(struct btrail_qmp, 1);
    g_autoptr(JsonNode) node = NULL;

    qmp->sock = sock;
    qmp->in = g_byte_array_new();
    if (read_greeting(qmp, g_get_monotonic_time() + timeout_ms * 1000ll,
                      cancel_fd, error)) {
        node = btrail_qmp_execute(qmp, "qmp_capabilities", NULL, -1,
                                  timeout_ms, cancel_fd, error);
    }
    if (!node) {
        btrail_qmp_free(qmp);
        return NULL;
    }
    return qmp;
}

struct btrail_qmp *btrail_qmp_through(btrail_qmp_executor *execute,
                                      void *opaque)
{
    struct btrail_qmp *qmp = g_new0(struct btrail_qmp, 1);

    qmp->sock = -1;
    qmp->in = g_byte_array_new();
    qmp->execute = execute;
    qmp->opaque = opaque;
    return qmp;
}

struct btrail_qmp *btrail_qmp_connect(const char *path, int timeout_ms,
                                      int cancel_fd, GError **error)
{
    int sock = btrail_unix_connect(path, error);

    return sock < 0 ? NULL : btrail_qmp_new(sock, timeout_ms, cancel_fd,
                                            error);
}

void btrail_qmp_free(struct btrail_qmp *qmp)
{
    if (qmp) {
        if (qmp->sock >= 0) {
            close(qmp->sock);
        }
        g_byte_array_unref(qmp->in);
        g_free(qmp->version);
        if (qmp->events) {
            g_queue_free_full(qmp->events, g_free);
        }
        g_free(qmp);
    }
}
