/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: a gdb that walks a trace
 *
 * The input is packets of a gdb, one in each line, and after an empty line the
 * trace: both are hostile.  Whatever they are, each packet has an answer, or
 * the gdb is hung up on.
 */

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "gdb/rsp.h"
#include "gdb/trace-target.h"
#include "read.h"
#include "util/apart.h"

#define MAX_PACKETS 64
/* Records that an input can speak of, in few bytes */
#define MAX_RECORDS 100000

/* What is done apart is done here, where a fault is seen. */
struct apart {
    int fd;
    GByteArray *answer;
};

struct apart *apart_start(apart_fn *compute, void *opaque)
{
    struct apart *a = g_new(struct apart, 1);

    a->fd = eventfd(1, EFD_CLOEXEC);
    a->answer = g_byte_array_new();
    compute(opaque, a->answer);
    return a;
}

int apart_fd(const struct apart *a)
{
    return a->fd;
}

void apart_read(struct apart *a, bool *done)
{
    *done = true;
}

const GByteArray *apart_answer(const struct apart *a)
{
    return a->answer;
}

void apart_free(struct apart *a)
{
    if (a) {
        close(a->fd);
        g_byte_array_unref(a->answer);
        g_free(a);
    }
}

GByteArray *apart_run(apart_fn *compute, void *opaque,
                      bool (*go_on)(void *opaque), void *go_on_opaque)
{
    GByteArray *answer = g_byte_array_new();

    compute(opaque, answer);
    return answer;
}

/* Reads what the server has sent; false if it has hung up. */
static bool drain(int sock)
{
    char bytes[4096];
    ssize_t n;

    do {
        g_main_context_iteration(NULL, FALSE);
        n = recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT);
    } while (n > 0);
    return n != 0;
}

static bool ask(int sock, const char *packet, size_t n)
{
    g_autoptr(GByteArray) out = g_byte_array_new();
    unsigned turns = 0;

    rsp_append(out, packet, n);
    if (send(sock, out->data, out->len, MSG_NOSIGNAL) < 0) {
        return false;
    }
    while (drain(sock)) {
        struct pollfd readable = { .fd = sock, .events = POLLIN };

        if (!poll(&readable, 1, 0) && ++turns > 4) {
            return true;
        }
    }
    return false;
}

static void talk(struct trace_target *s, const char *packets, size_t size)
{
    unsigned left = MAX_PACKETS;
    int socks[2];

    fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
    trace_target_serve(s, NULL, socks[0], socks[0]);
    while (size && left--) {
        const char *end = memchr(packets, '\n', size);
        size_t n = end ? (size_t)(end - packets) : size;

        /* These would end a packet, or begin another one. */
        if (!memchr(packets, '$', n) && !memchr(packets, '#', n) &&
            !ask(socks[1], packets, n)) {
            break;
        }
        size -= end ? n + 1 : n;
        packets += n + 1;
    }
    close(socks[1]);
    while (g_main_context_iteration(NULL, FALSE)) {
        continue;
    }
}

static bool is_short(const struct btrail_trace *trace)
{
    struct btrail_stream_info info;
    uint64_t records = 0;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        records += MIN(info.records, MAX_RECORDS);
    }
    return records < MAX_RECORDS;
}

int fuzz_input(const uint8_t *data, size_t size)
{
    const uint8_t *end = memmem(data, size, "\n\n", 2);
    size_t packets = end ? (size_t)(end - data) : 0;
    struct btrail_trace *trace = NULL;
    struct symbolizer *symbols;
    struct trace_target *s;
    struct fuzz_file file;

    if (!end) {
        return 0;
    }
    file = fuzz_file(end + 2, size - packets - 2);
    if (btrail_trace_open(&trace, file.path) || !is_short(trace)) {
        btrail_trace_close(trace);
        close(file.fd);
        return 0;
    }
    symbols = symbolizer_new(&(struct symbolizer_options) { NULL }, trace,
                             NULL);
    fuzz_require(symbols);
    s = trace_target_new(&(struct trace_target_options) {
        .trace = trace, .symbols = symbols, .walk = { NULL, -1 },
    }, NULL);
    if (s) {
        fuzz_accepted();
        talk(s, (const char *)data, packets);
    }
    trace_target_free(s);
    symbolizer_free(symbols);
    btrail_trace_close(trace);
    close(file.fd);
    return 0;
}
