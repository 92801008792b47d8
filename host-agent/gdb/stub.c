/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connection to QEMU's gdbstub: see stub.h
 */

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb/rsp.h"
#include "gdb/stub.h"
#include "util/wait.h"

/* QEMU's packets have 4096 bytes, and twice that with digits. */
#define LIMIT       (64u << 10)
#define TIMEOUT_MS  60000
#define OUTPUT      (1u << 20)

struct stub {
    int sock;
    struct rsp_parser *parser;
    char in[4096];
    size_t begin, end;      /* what of @in is not parsed yet */
};

struct stub *stub_new(int sock)
{
    struct stub *s = g_new0(struct stub, 1);

    s->sock = sock;
    s->parser = rsp_parser_new(LIMIT);
    return s;
}

void stub_free(struct stub *s)
{
    if (s) {
        close(s->sock);
        rsp_parser_free(s->parser);
        g_free(s);
    }
}

int stub_fd(const struct stub *s)
{
    return s->sock;
}

static bool protocol_error(GError **error, const char *what)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "QEMU's gdbstub %s", what);
    return false;
}

static bool send_bytes(struct stub *s, const void *bytes, size_t n,
                       GError **error)
{
    gint64 deadline = g_get_monotonic_time() + TIMEOUT_MS * 1000ll;
    const char *c = bytes;

    while (n) {
        ssize_t sent = send(s->sock, c, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent >= 0) {
            c += sent;
            n -= sent;
        } else if (errno == EAGAIN) {
            if (!wait_for_fd(s->sock, POLLOUT, deadline, -1,
                             "QEMU's gdbstub does not read", error)) {
                return false;
            }
        } else if (errno != EINTR) {
            return agent_error_errno(error, "QEMU's gdbstub");
        }
    }
    return true;
}

static bool receive(struct stub *s, gint64 deadline, GError **error)
{
    ssize_t n;

    do {
        if (!wait_for_fd(s->sock, POLLIN, deadline, -1,
                         "QEMU's gdbstub does not answer", error)) {
            return false;
        }
        n = recv(s->sock, s->in, sizeof(s->in), MSG_DONTWAIT);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    if (n < 0) {
        return agent_error_errno(error, "QEMU's gdbstub");
    }
    if (n == 0) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED,
                    "QEMU has ended");
        return false;
    }
    s->begin = 0;
    s->end = n;
    return true;
}

/* The next packet, which is acknowledged */
static char *next_packet(struct stub *s, gint64 deadline, size_t *n,
                         GError **error)
{
    enum rsp_kind kind;
    const char *payload;
    size_t length;

    for (;;) {
        if (s->begin == s->end && !receive(s, deadline, error)) {
            return NULL;
        }
        s->begin += rsp_parse(s->parser, s->in + s->begin,
                              s->end - s->begin, &kind);
        switch (kind) {
        case RSP_PACKET:
            payload = rsp_payload(s->parser, &length);
            if (n) {
                *n = length;
            }
            return send_bytes(s, "+", 1, error) ?
                   g_memdup2(payload, length + 1) : NULL;
        case RSP_NACK:
            protocol_error(error, "has not understood a request");
            return NULL;
        case RSP_BAD:
            protocol_error(error, "sends a packet with a wrong checksum");
            return NULL;
        case RSP_LONG:
            protocol_error(error, "sends a packet that is too long");
            return NULL;
        default:
            break;
        }
    }
}

static bool send_packet(struct stub *s, const char *request, size_t n,
                        GError **error)
{
    g_autoptr(GByteArray) out = g_byte_array_new();

    rsp_append(out, request, n);
    return send_bytes(s, out->data, out->len, error);
}

/* Is it what the monitor prints?  "OK" is not. */
static bool is_output(const char *answer, GString *output)
{
    g_autofree char *text = NULL;

    if (answer[0] != 'O' || !strcmp(answer, "OK")) {
        return false;
    }
    text = rsp_unhex(answer + 1, NULL);
    if (text && output && output->len < OUTPUT) {
        g_string_append(output, text);
    }
    return true;
}

static char *ask(struct stub *s, const char *request, size_t length,
                 GString *output, size_t *n, GError **error)
{
    gint64 deadline = g_get_monotonic_time() + TIMEOUT_MS * 1000ll;
    char *answer;

    if (!send_packet(s, request, length, error)) {
        return NULL;
    }
    while ((answer = next_packet(s, deadline, n, error)) &&
           is_output(answer, output)) {
        g_free(answer);
    }
    return answer;
}

char *stub_ask(struct stub *s, const char *request, GString *output,
               size_t *n, GError **error)
{
    return ask(s, request, strlen(request), output, n, error);
}

char *stub_forward(struct stub *s, const char *request, size_t length,
                   size_t *n, GError **error)
{
    return ask(s, request, length, NULL, n, error);
}

bool stub_run(struct stub *s, const char *request, GError **error)
{
    return send_packet(s, request, strlen(request), error);
}

bool stub_stopped(struct stub *s, int timeout_ms, char **answer,
                  GError **error)
{
    gint64 deadline = g_get_monotonic_time() + timeout_ms * 1000ll;
    g_autoptr(GError) local = NULL;

    while ((*answer = next_packet(s, deadline, NULL, &local)) &&
           is_output(*answer, NULL)) {
        g_free(*answer);
    }
    if (*answer && (!**answer || !strchr("TSWXE", **answer))) {
        g_clear_pointer(answer, g_free);
        return protocol_error(error, "asks for something while it runs");
    }
    if (*answer || g_error_matches(local, AGENT_ERROR,
                                   AGENT_ERROR_TIMEOUT)) {
        return true;
    }
    g_propagate_error(error, g_steal_pointer(&local));
    return false;
}

bool stub_interrupt(struct stub *s, GError **error)
{
    return send_bytes(s, "\x03", 1, error);
}
