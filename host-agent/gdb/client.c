/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connection of a gdb: see client.h
 */

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gdb/client.h"
#include "gdb/rsp.h"
#include "util/quote.h"

/* The most that may wait for a gdb that does not read */
#define MAX_OUT     (4u << 20)
/* A gdb that has connected asks something within this time. */
#define SILENT_S    10
/* Text in one packet */
#define TEXT        1024

struct client {
    int in;
    int out_fd;
    bool pipe;              /* the latter is no socket */
    GMainContext *context;
    GSource *in_source;
    GSource *out_source;
    GSource *close_source;
    GSource *silent_source; /* until its first request */
    char bytes[4096];       /* of which these are not parsed yet */
    ssize_t begin, end;
    struct rsp_parser *parser;
    const struct client_functions *functions;
    void *opaque;
    GByteArray *out;
    GByteArray *last;       /* the last answer, to send again */
    bool waits;
    bool no_acks;
};

static void remove_source(GSource **source)
{
    if (*source) {
        g_source_destroy(*source);
        g_clear_pointer(source, g_source_unref);
    }
}

static GSource *add_source(struct client *c, GSource *source,
                           GSourceFunc function)
{
    g_source_set_callback(source, function, c, NULL);
    g_source_attach(source, c->context);
    return source;
}

static GSource *watch(struct client *c, int fd, GIOCondition condition,
                      GUnixFDSourceFunc function)
{
    return add_source(c, g_unix_fd_source_new(fd, condition),
                      G_SOURCE_FUNC(function));
}

static gboolean tell_closed(gpointer opaque)
{
    struct client *c = opaque;

    remove_source(&c->close_source);
    c->functions->closed(c->opaque);
    return G_SOURCE_REMOVE;
}

/*
 * The owner learns of it in the main loop: it may be in the midst of
 * something.
 */
static void hang_up(struct client *c)
{
    remove_source(&c->silent_source);
    remove_source(&c->in_source);
    remove_source(&c->out_source);
    if (!c->close_source) {
        c->close_source = add_source(c, g_idle_source_new(), tell_closed);
    }
}

static gboolean on_silence(gpointer opaque)
{
    hang_up(opaque);
    return G_SOURCE_REMOVE;
}

static void flush(struct client *c);

static gboolean on_writable(gint fd, GIOCondition condition, gpointer opaque)
{
    struct client *c = opaque;

    remove_source(&c->out_source);
    flush(c);
    return G_SOURCE_REMOVE;
}

/* As many bytes as can be sent without waiting */
static ssize_t send_some(struct client *c)
{
    struct pollfd ready = { .fd = c->out_fd, .events = POLLOUT };

    if (!c->pipe) {
        return send(c->out_fd, c->out->data, c->out->len,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (poll(&ready, 1, 0) != 1) {
        errno = EAGAIN;
        return -1;
    }
    return write(c->out_fd, c->out->data, MIN(c->out->len, PIPE_BUF));
}

static void flush(struct client *c)
{
    while (c->out->len && !c->out_source && !c->close_source) {
        ssize_t n = send_some(c);

        if (n >= 0) {
            g_byte_array_remove_range(c->out, 0, n);
        } else if (errno == EAGAIN) {
            c->out_source = watch(c, c->out_fd, G_IO_OUT, on_writable);
        } else if (errno != EINTR) {
            hang_up(c);
        }
    }
}

static void send_bytes(struct client *c, const void *bytes, size_t n)
{
    if (c->out->len + n > MAX_OUT) {
        hang_up(c);
    } else {
        g_byte_array_append(c->out, bytes, n);
        flush(c);
    }
}

static void send_packet(struct client *c, const char *payload, size_t n)
{
    g_byte_array_set_size(c->last, 0);
    rsp_append(c->last, payload, n);
    send_bytes(c, c->last->data, c->last->len);
}

static void take_packet(struct client *c)
{
    g_autofree char *request = NULL;
    const char *payload;
    size_t n;

    if (c->waits) {
        hang_up(c);
        return;
    }
    remove_source(&c->silent_source);
    if (!c->no_acks) {
        send_bytes(c, "+", 1);
    }
    payload = rsp_payload(c->parser, &n);
    /* The parser may go on before it is served. */
    request = g_memdup2(payload, n + 1);
    c->waits = true;
    c->functions->packet(c->opaque, request, n);
}

static void take(struct client *c, enum rsp_kind kind)
{
    switch (kind) {
    case RSP_PACKET:
        take_packet(c);
        break;
    case RSP_INTERRUPT:
        c->functions->interrupt(c->opaque);
        break;
    case RSP_NACK:
        if (!c->no_acks) {
            send_bytes(c, c->last->data, c->last->len);
        }
        break;
    case RSP_BAD:
        if (c->no_acks) {
            hang_up(c);
        } else {
            send_bytes(c, "-", 1);
        }
        break;
    case RSP_LONG:
        hang_up(c);
        break;
    default:
        break;
    }
}

static void parse(struct client *c)
{
    while (c->begin < c->end && !c->close_source) {
        enum rsp_kind kind;

        c->begin += rsp_parse(c->parser, c->bytes + c->begin,
                              c->end - c->begin, &kind);
        take(c, kind);
    }
}

static gboolean on_readable(gint fd, GIOCondition condition, gpointer opaque)
{
    struct client *c = opaque;
    ssize_t n = read(fd, c->bytes, sizeof(c->bytes));

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return G_SOURCE_CONTINUE;
    }
    if (n <= 0) {
        hang_up(c);
        return G_SOURCE_CONTINUE;
    }
    c->begin = 0;
    c->end = n;
    parse(c);
    return G_SOURCE_CONTINUE;
}

int client_in(const struct client *c)
{
    return c->in;
}

bool client_has_sent(const struct client *c)
{
    struct pollfd ready = { .fd = c->in, .events = POLLIN };

    return poll(&ready, 1, 0) == 1;
}

bool client_waits(struct client *c)
{
    parse(c);
    if (!c->close_source && client_has_sent(c)) {
        on_readable(c->in, G_IO_IN, c);
    }
    return !c->close_source;
}

struct client *client_new(GMainContext *context, int in, int out,
                          size_t packet_size,
                          const struct client_functions *functions,
                          void *opaque)
{
    struct client *c = g_new0(struct client, 1);
    struct stat st;

    c->in = in;
    c->out_fd = out;
    c->pipe = !fstat(out, &st) && !S_ISSOCK(st.st_mode);
    c->parser = rsp_parser_new(packet_size);
    c->functions = functions;
    c->opaque = opaque;
    c->out = g_byte_array_new();
    c->last = g_byte_array_new();
    c->context = context;
    c->in_source = watch(c, in, G_IO_IN | G_IO_HUP, on_readable);
    c->silent_source = add_source(c, g_timeout_source_new_seconds(SILENT_S),
                                  on_silence);
    return c;
}

void client_free(struct client *c)
{
    if (c) {
        remove_source(&c->in_source);
        remove_source(&c->out_source);
        remove_source(&c->close_source);
        remove_source(&c->silent_source);
        close(c->in);
        if (c->out_fd != c->in) {
            close(c->out_fd);
        }
        rsp_parser_free(c->parser);
        g_byte_array_unref(c->out);
        g_byte_array_unref(c->last);
        g_free(c);
    }
}

void client_answer(struct client *c, const char *payload, size_t n)
{
    c->waits = false;
    send_packet(c, payload, n);
}

void client_print(struct client *c, const char *text)
{
    size_t left = strlen(text);

    while (left) {
        g_autoptr(GString) packet = g_string_new("O");
        size_t n = MIN(left, TEXT);

        rsp_append_hex(packet, text, n);
        send_packet(c, packet->str, packet->len);
        text += n;
        left -= n;
    }
}

void client_print_error(struct client *c, const char *message)
{
    g_autofree char *quoted = btrail_quote(message, "");
    g_autofree char *line = g_strconcat(quoted, "\n", NULL);

    client_print(c, line);
}

void client_answer_interrupted(struct client *c)
{
    static const char text[] = "interrupted\n";
    g_autoptr(GString) digits = g_string_new(NULL);

    rsp_append_hex(digits, text, strlen(text));
    client_answer(c, digits->str, digits->len);
}

void client_stop_acks(struct client *c)
{
    c->no_acks = true;
}

void client_end(struct client *c)
{
    hang_up(c);
}
