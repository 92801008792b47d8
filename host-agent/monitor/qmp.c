/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QMP client: see qmp.h
 */

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/qmp.h"
#include "util/json.h"
#include "util/unix-socket.h"
#include "util/wait.h"

/* QEMU sends one JSON object a line; all of them are far shorter. */
#define MAX_LINE    (16u << 20)
#define MAX_EVENTS  1000
#define AWAIT_US    20000       /* between two looks at who listens */
/* More commands than any process gives */
#define ADOPTED_ID  (G_GINT64_CONSTANT(1) << 40)

struct qmp {
    int sock;                   /* -1 if another program has it */
    qmp_executor *execute;
    void *opaque;
    char *version;
    GByteArray *in;
    gint64 last_id;
    GQueue *events;             /* names; NULL if they are not kept */
    qmp_event_fn *seen;         /* or NULL */
    void *seen_opaque;
    bool torn;                  /* the first line may lack its begin */
};

static bool qmp_protocol_error(GError **error, const char *what)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "this does not look like a QMP monitor: %s", what);
    return false;
}

static bool qmp_closed(GError **error)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED,
                "QEMU closed the monitor connection");
    return false;
}

static bool wait_for(struct qmp *qmp, short events, gint64 deadline,
                     int cancel_fd, GError **error)
{
    return wait_for_fd(qmp->sock, events, deadline, cancel_fd,
                       "the monitor does not answer; it talks to one client "
                       "at a time, so give QEMU one of its own for this: "
                       "-qmp unix:PATH,server=on,wait=off", error);
}

/* Returns a line without its end, NUL-terminated; free it. */
static char *read_line(struct qmp *qmp, gint64 deadline, int cancel_fd,
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
            agent_error_errno(error, "cannot read from the monitor");
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
static JsonNode *read_object(struct qmp *qmp, gint64 deadline,
                             int cancel_fd, GError **error)
{
    for (;;) {
        g_autofree char *line = read_line(qmp, deadline, cancel_fd, error);
        g_autoptr(JsonNode) node = line ? btrail_json_parse_object(line) :
                                   NULL;
        bool torn = qmp->torn;

        qmp->torn = false;
        if (!line) {
            return NULL;
        }
        if (node) {
            return g_steal_pointer(&node);
        }
        if (!torn) {
            qmp_protocol_error(error, "a line that is not a JSON object");
            return NULL;
        }
    }
}

static bool send_all(struct qmp *qmp, const char *text, size_t len,
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
            return agent_error_errno(error,
                                     "cannot write to the monitor");
        }
        /* The descriptor went with the first byte. */
        fd = -1;
        text += n;
        len -= n;
    }
    return true;
}

static bool keep_event(struct qmp *qmp, JsonObject *object)
{
    const char *name = btrail_json_string(object, "event");

    if (qmp->seen && name) {
        qmp->seen(qmp->seen_opaque, name);
    }
    if (qmp->events && name) {
        g_queue_push_tail(qmp->events, g_strdup(name));
        if (g_queue_get_length(qmp->events) > MAX_EVENTS) {
            g_free(g_queue_pop_head(qmp->events));
        }
    }
    return name;
}

void qmp_keep_events(struct qmp *qmp)
{
    if (!qmp->events) {
        qmp->events = g_queue_new();
    }
}

void qmp_on_event(struct qmp *qmp, qmp_event_fn *seen, void *opaque)
{
    qmp->seen = seen;
    qmp->seen_opaque = opaque;
}

char *qmp_next_event(struct qmp *qmp, int timeout_ms,
                     int cancel_fd, GError **error)
{
    gint64 deadline = g_get_monotonic_time() + timeout_ms * 1000ll;

    qmp_keep_events(qmp);
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

JsonNode *qmp_execute(struct qmp *qmp, const char *command,
                      JsonObject *arguments, int fd, int timeout_ms,
                      int cancel_fd, GError **error)
{
    g_autofree char *text = NULL, *line = NULL;
    gint64 deadline = g_get_monotonic_time() + timeout_ms * 1000ll;

    if (qmp->execute) {
        return qmp->execute(qmp->opaque, command, arguments, fd, error);
    }
    text = qmp_format(command, arguments, ++qmp->last_id);
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
        result = qmp_result(reply, error);
        if (!result) {
            g_prefix_error(error, "%s: ", command);
        }
        return result;
    }
}

int qmp_socket(const struct qmp *qmp)
{
    return qmp->sock;
}

const char *qmp_version(const struct qmp *qmp)
{
    return qmp->version;
}

pid_t qmp_peer(const struct qmp *qmp)
{
    struct ucred who;
    socklen_t size = sizeof(who);

    return qmp->sock >= 0 && !getsockopt(qmp->sock, SOL_SOCKET, SO_PEERCRED,
                                         &who, &size) ? who.pid : 0;
}

static bool read_greeting(struct qmp *qmp, gint64 deadline,
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

struct qmp *qmp_new(int sock, int timeout_ms, int cancel_fd,
                    GError **error)
{
    struct qmp *qmp = g_new0(struct qmp, 1);
    g_autoptr(JsonNode) node = NULL;

    qmp->sock = sock;
    qmp->in = g_byte_array_new();
    if (read_greeting(qmp, g_get_monotonic_time() + timeout_ms * 1000ll,
                      cancel_fd, error)) {
        node = qmp_execute(qmp, "qmp_capabilities", NULL, -1,
                           timeout_ms, cancel_fd, error);
    }
    if (!node) {
        qmp_free(qmp);
        return NULL;
    }
    return qmp;
}

struct qmp *qmp_adopt(int sock)
{
    struct qmp *qmp = g_new0(struct qmp, 1);

    qmp->sock = sock;
    qmp->in = g_byte_array_new();
    qmp->last_id = ADOPTED_ID;
    qmp->torn = true;
    return qmp;
}

struct qmp *qmp_through(qmp_executor *execute,
                        void *opaque)
{
    struct qmp *qmp = g_new0(struct qmp, 1);

    qmp->sock = -1;
    qmp->in = g_byte_array_new();
    qmp->execute = execute;
    qmp->opaque = opaque;
    return qmp;
}

/* The path of a socket that may be given as QEMU's -qmp has it; to be freed */
static char *plain_path(const char *path, GError **error)
{
    static const char unix_socket[] = "unix:";

    if (g_str_has_prefix(path, "tcp:") || g_str_has_prefix(path, "telnet:")) {
        agent_fail(error, AGENT_ERROR_COMMAND, "'%s' is not the path of a unix "
                   "socket; start QEMU with -qmp unix:PATH,server=on,wait=off",
                   path);
        return NULL;
    }
    if (g_str_has_prefix(path, unix_socket)) {
        path += strlen(unix_socket);
        return g_strndup(path, strcspn(path, ","));
    }
    return g_strdup(path);
}

struct qmp *qmp_connect(const char *path, int timeout_ms,
                        int cancel_fd, GError **error)
{
    g_autofree char *plain = plain_path(path, error);
    int sock = plain ? unix_connect(plain, error) : -1;

    return sock < 0 ? NULL : qmp_new(sock, timeout_ms, cancel_fd,
                                     error);
}

/* Returns a connection to a path as soon as somebody listens there, or -1. */
static int await_listener(const char *path, int cancel_fd, GError **error)
{
    g_autoptr(GError) local = NULL;
    int sock;

    while ((sock = unix_try(path, SOCK_STREAM)) < 0 &&
           (errno == ENOENT || errno == ECONNREFUSED)) {
        g_clear_error(&local);
        wait_for_fd(-1, 0, g_get_monotonic_time() + AWAIT_US, cancel_fd, "",
                    &local);
        if (!g_error_matches(local, AGENT_ERROR, AGENT_ERROR_TIMEOUT)) {
            g_propagate_error(error, g_steal_pointer(&local));
            return -1;
        }
    }
    return sock >= 0 ? sock : unix_connect(path, error);
}

struct qmp *qmp_await(const char *path, int timeout_ms, int cancel_fd,
                      GError **error)
{
    g_autofree char *plain = plain_path(path, error);
    int sock = plain ? await_listener(plain, cancel_fd, error) : -1;

    return sock < 0 ? NULL : qmp_new(sock, timeout_ms, cancel_fd, error);
}

void qmp_free(struct qmp *qmp)
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
