/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A control connection: see control.h
 */

#include <errno.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/control.h"
#include "service/message.h"
#include "util/hash.h"
#include "util/json.h"

/* Bytes that wait for a device that does not read */
#define MAX_QUEUED      (8u << 20)

/* Bytes read from one connection before others have their turn */
#define READ_AT_A_TIME  (64u << 10)

/* A device answers at once, unless something delays QEMU's main loop. */
#define ANSWER_TIMEOUT_S    30

struct executed {
    gint64 id;
    char *command;
    gint64 deadline;            /* g_get_monotonic_time() */
    control_answer *answer;
    void *opaque;
};

struct control {
    int sock;
    const struct control_handler *handler;
    void *opaque;
    unsigned refs;
    bool freed;
    struct message_reader *reader;
    bool has_guest;
    guint in, out, timer;       /* sources */
    GQueue queue;               /* of GBytes */
    size_t queued;              /* bytes in it */
    size_t sent;                /* of the first one */
    gint64 last_id;
    GQueue executed;            /* of struct executed */
    GHashTable *commands;       /* ids, gint64 */
    GError *why;                /* why it will be closed */
    guint closing;              /* source */
};

static void executed_free(struct executed *e)
{
    g_free(e->command);
    g_free(e);
}

static void control_unref(struct control *c)
{
    if (--c->refs) {
        return;
    }
    message_reader_free(c->reader);
    g_queue_clear_full(&c->queue, (GDestroyNotify)g_bytes_unref);
    g_queue_clear_full(&c->executed, (GDestroyNotify)executed_free);
    g_hash_table_unref(c->commands);
    g_clear_error(&c->why);
    g_free(c);
}

static void hang_up(struct control *c)
{
    g_clear_handle_id(&c->in, g_source_remove);
    g_clear_handle_id(&c->out, g_source_remove);
    g_clear_handle_id(&c->timer, g_source_remove);
    if (c->sock >= 0) {
        close(c->sock);
        c->sock = -1;
    }
}

void control_free(struct control *c)
{
    if (c) {
        c->freed = true;
        hang_up(c);
        g_clear_handle_id(&c->closing, g_source_remove);
        control_unref(c);
    }
}

bool control_is_idle(const struct control *c)
{
    return !g_hash_table_size(c->commands) && !c->executed.length &&
           !c->queue.length;
}

/* Runs from the main loop, so that no handler is called recursively. */
static gboolean report_closed(gpointer opaque)
{
    struct control *c = opaque;
    struct executed *e;

    c->closing = 0;
    c->refs++;
    while (!c->freed && (e = g_queue_pop_head(&c->executed))) {
        e->answer(e->opaque, NULL, c->why);
        executed_free(e);
    }
    if (!c->freed) {
        c->handler->closed(c->opaque, c->why);
    }
    control_unref(c);
    return G_SOURCE_REMOVE;
}

/* @error is taken. */
static void break_up(struct control *c, GError *error)
{
    if (c->why || c->freed) {
        g_error_free(error);
        return;
    }
    c->why = error;
    hang_up(c);
    c->closing = g_idle_add(report_closed, c);
}

static void G_GNUC_PRINTF(2, 3) lose_peer(struct control *c,
                                          const char *format, ...)
{
    va_list args;

    va_start(args, format);
    break_up(c, g_error_new_valist(SERVICE_ERROR,
                                   SERVICE_ERROR_PEER, format, args));
    va_end(args);
}

static void breach(struct control *c, const char *what)
{
    lose_peer(c, "the device broke the protocol: %s", what);
}

/* False if there is no room at the moment. */
static bool send_some(struct control *c)
{
    while (c->queue.head) {
        GBytes *bytes = c->queue.head->data;
        size_t size;
        const char *data = g_bytes_get_data(bytes, &size);
        ssize_t n = send(c->sock, data + c->sent, size - c->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return false;
        }
        if (n < 0) {
            lose_peer(c, "QEMU is gone: %s", g_strerror(errno));
            return true;
        }
        c->sent += n;
        if (c->sent == size) {
            g_bytes_unref(g_queue_pop_head(&c->queue));
            c->queued -= size;
            c->sent = 0;
        }
    }
    return true;
}

static gboolean writable(gint fd, GIOCondition condition, gpointer opaque)
{
    struct control *c = opaque;

    if (send_some(c) && c->out) {
        c->out = 0;
        return G_SOURCE_REMOVE;
    }
    return c->out ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

/* @message is taken.  False if it is too long. */
static bool queue_message(struct control *c, JsonObject *message)
{
    GBytes *bytes = message_format(message);

    json_object_unref(message);
    if (!bytes) {
        return false;
    }
    if (c->why || c->freed) {
        g_bytes_unref(bytes);
        return true;
    }
    c->queued += g_bytes_get_size(bytes);
    g_queue_push_tail(&c->queue, bytes);
    if (!c->out && !send_some(c)) {
        c->out = g_unix_fd_add(c->sock, G_IO_OUT, writable, c);
    }
    if (c->queued > MAX_QUEUED) {
        breach(c, "it does not read its messages");
    }
    return true;
}

void control_fail(struct control *c, gint64 id, const char *why)
{
    JsonObject *error = btrail_json_new("s:class", "GenericError",
                                        "s:desc", why, NULL);

    g_hash_table_remove(c->commands, &id);
    queue_message(c, btrail_json_new("s:type", "reply", "U:id", id,
                                     "o:error", error, NULL));
}

void control_return(struct control *c, gint64 id,
                    JsonObject *result)
{
    JsonObject *message = btrail_json_new(
        "s:type", "reply", "U:id", id,
        "o:return", result ? result : json_object_new(), NULL);

    if (queue_message(c, message)) {
        g_hash_table_remove(c->commands, &id);
    } else {
        control_fail(c, id, "the answer is too long; ask for less");
    }
}

/* Checks the command that has waited the longest, which is the first. */
static gboolean timed_out(gpointer opaque)
{
    struct control *c = opaque;
    struct executed *e = g_queue_peek_head(&c->executed);

    if (e && e->deadline <= g_get_monotonic_time()) {
        c->timer = 0;
        lose_peer(c, "QEMU did not answer to %s within %d seconds", e->command,
                  ANSWER_TIMEOUT_S);
        return G_SOURCE_REMOVE;
    }
    return G_SOURCE_CONTINUE;
}

void control_execute(struct control *c, const char *command,
                     JsonObject *arguments,
                     control_answer *answer, void *opaque)
{
    JsonObject *message = btrail_json_new("s:type", "execute",
                                          "U:id", ++c->last_id,
                                          "s:execute", command, NULL);
    struct executed *e = g_new0(struct executed, 1);

    e->id = c->last_id;
    e->command = g_strdup(command);
    e->deadline = g_get_monotonic_time() +
                  ANSWER_TIMEOUT_S * G_TIME_SPAN_SECOND;
    e->answer = answer;
    e->opaque = opaque;
    g_queue_push_tail(&c->executed, e);
    if (arguments) {
        json_object_set_object_member(message, "arguments", arguments);
    }
    if (!c->timer && c->sock >= 0) {
        c->timer = g_timeout_add_seconds(1, timed_out, c);
    }
    /* The messages of the service itself are never too long. */
    queue_message(c, message);
}

static void take_reply(struct control *c, JsonObject *message)
{
    gint64 id = btrail_json_int(message, "id", -1);
    JsonObject *failure = btrail_json_object(message, "error");
    JsonNode *result = json_object_get_member(message, "return");
    g_autoptr(GError) error = NULL;
    struct executed *e = NULL;

    for (GList *l = c->executed.head; l && !e; l = l->next) {
        if (((struct executed *)l->data)->id == id) {
            e = l->data;
            g_queue_delete_link(&c->executed, l);
            break;
        }
    }
    if (!e) {
        breach(c, "a reply to an unknown command");
        return;
    }
    if (!failure == !result) {
        breach(c, "a reply without a result");
        e->answer(e->opaque, NULL, c->why);
    } else if (failure) {
        const char *desc = btrail_json_string(failure, "desc");

        service_fail(&error, SERVICE_ERROR_COMMAND, "%s",
                     desc ? desc : "failed without a reason");
        e->answer(e->opaque, NULL, error);
    } else {
        e->answer(e->opaque, result, NULL);
    }
    executed_free(e);
}

static void take_command(struct control *c, JsonObject *message)
{
    gint64 id = btrail_json_int(message, "id", -1);
    JsonObject *command = btrail_json_object(message, "command");
    gint64 *key;

    if (id < 0 || !command) {
        breach(c, "a command without 'id' or 'command'");
        return;
    }
    if (g_hash_table_contains(c->commands, &id)) {
        breach(c, "a command with the 'id' of another one");
        return;
    }
    if (g_hash_table_size(c->commands) >= CONTROL_MAX_COMMANDS) {
        breach(c, "too many commands");
        return;
    }
    key = g_new(gint64, 1);
    *key = id;
    g_hash_table_add(c->commands, key);
    c->handler->command(c->opaque, id, command);
}

static void take_guest(struct control *c, JsonObject *message)
{
    GError *error = NULL;

    c->has_guest = true;
    if (!c->handler->guest(c->opaque, message, &error)) {
        break_up(c, error);
    }
}

static void take_event(struct control *c, JsonObject *message)
{
    const char *event = btrail_json_string(message, "event");

    if (!event) {
        breach(c, "an event without a name");
        return;
    }
    c->handler->event(c->opaque, event, btrail_json_object(message, "data"));
}

static void take_message(struct control *c, JsonObject *message)
{
    const char *type = btrail_json_string(message, "type");

    if (!g_strcmp0(type, "guest") == c->has_guest) {
        breach(c, c->has_guest ? "'guest' a second time" :
               "it does not say 'guest' first");
    } else if (!g_strcmp0(type, "guest")) {
        take_guest(c, message);
    } else if (!g_strcmp0(type, "command")) {
        take_command(c, message);
    } else if (!g_strcmp0(type, "event")) {
        take_event(c, message);
    } else if (!g_strcmp0(type, "reply")) {
        take_reply(c, message);
    } else {
        breach(c, "a message of unknown 'type'");
    }
}

/* Reads once; false if there is nothing more to read, now or ever. */
static bool receive(struct control *c, size_t *budget)
{
    char bytes[16384];
    g_autoptr(JsonNode) node = NULL;
    GError *error = NULL;
    ssize_t n;

    n = recv(c->sock, bytes, MIN(message_wants(c->reader),
                                 sizeof(bytes)), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n <= 0) {
        lose_peer(c, "QEMU has closed the connection");
        return false;
    }
    *budget -= MIN(*budget, (size_t)n);
    if (!message_take(c->reader, bytes, n, &node, &error)) {
        break_up(c, error);
        return false;
    }
    if (node) {
        take_message(c, json_node_get_object(node));
    }
    return !c->freed && !c->why;
}

static gboolean readable(gint fd, GIOCondition condition, gpointer opaque)
{
    struct control *c = opaque;
    size_t budget = READ_AT_A_TIME;
    bool gone;

    c->refs++;
    while (budget && receive(c, &budget)) {
        continue;
    }
    gone = c->freed || c->why;
    control_unref(c);
    /* hang_up() has removed the source. */
    return gone ? G_SOURCE_REMOVE : G_SOURCE_CONTINUE;
}

struct control *
control_new(int sock, const struct control_handler *handler,
            void *opaque)
{
    struct control *c = g_new0(struct control, 1);

    c->sock = sock;
    c->handler = handler;
    c->opaque = opaque;
    c->refs = 1;
    c->reader = message_reader_new();
    g_queue_init(&c->queue);
    g_queue_init(&c->executed);
    c->commands = g_hash_table_new_full(btrail_int64_hash, g_int64_equal,
                                        g_free, NULL);
    c->in = g_unix_fd_add(sock, G_IO_IN, readable, c);
    return c;
}
