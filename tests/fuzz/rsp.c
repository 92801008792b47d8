/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: GDB's remote serial protocol
 *
 * The input is what a gdb or a stub sends.  Whatever the pieces in which it
 * arrives, the same is found in it, and a packet that is sent on arrives as it
 * was.  What a request's arguments are is the same when they are written again.
 */

#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include "fuzz.h"
#include "gdb/packet.h"
#include "gdb/rsp.h"

#define LIMIT   1024

/* A packet that was found is found again in what is sent on. */
static void send_on(const char *payload, size_t n)
{
    struct rsp_parser *p = rsp_parser_new(LIMIT);
    g_autoptr(GByteArray) out = g_byte_array_new();
    enum rsp_kind kind;
    const char *again;
    size_t m;

    rsp_append(out, payload, n);
    fuzz_require(rsp_parse(p, out->data, out->len, &kind) == out->len);
    fuzz_require(kind == RSP_PACKET);
    again = rsp_payload(p, &m);
    fuzz_require(n == m && !memcmp(payload, again, n));
    rsp_parser_free(p);
}

/* Digits stand for bytes, and they for the digits. */
static void decode(const char *payload)
{
    size_t n;
    char *bytes = rsp_unhex(payload, &n);

    if (bytes) {
        GString *digits = g_string_new(NULL);

        rsp_append_hex(digits, bytes, n);
        fuzz_require(!g_ascii_strcasecmp(digits->str, payload));
        g_string_free(digits, TRUE);
        g_free(bytes);
    }
}

/* Arguments by their schema, as they would be written */
static char *write_values(const char *schema, const struct packet_value *v)
{
    GString *text = g_string_new(NULL);

    for (; *schema; schema++) {
        switch (*schema) {
        case '?':
            break;
        case 'n':
        case 't':
            g_string_append_printf(text, "%" PRIx64, v++->number);
            break;
        case 'c':
            g_string_append_c(text, v++->number);
            break;
        case 's':
            g_string_append(text, v++->text);
            break;
        default:
            g_string_append_c(text, *schema);
            break;
        }
    }
    return g_string_free(text, FALSE);
}

static void read_values(const char *schema, const char *text)
{
    struct packet_value values[PACKET_VALUES], again[PACKET_VALUES];
    char *written;

    if (!packet_parse(schema, text, values)) {
        return;
    }
    written = write_values(schema, values);
    fuzz_require(packet_parse(schema, written, again));
    for (unsigned i = 0; i < PACKET_VALUES; i++) {
        fuzz_require(values[i].number == again[i].number);
        fuzz_require(!g_strcmp0(values[i].text, again[i].text));
    }
    g_free(written);
}

static void read_actions(const char *text)
{
    struct packet_move move, again;
    char *written;

    if (packet_move_parse(text, &move)) {
        written = g_strdup_printf("%c:%" PRIx64, move.step ? 's' : 'c',
                                  move.thread);
        fuzz_require(packet_move_parse(written, &again));
        fuzz_require(move.step == again.step && move.thread == again.thread);
        g_free(written);
    }
}

/* The arguments of requests, by some that there are */
static void read_request(const char *request)
{
    static const struct packet table[] = {
        { "H", "ct" }, { "S", "n" }, { "T", "t" }, { "Z", "n,n,ns" },
        { "m", "n,n" }, { "qBacktrail.caller", "?:n" },
        { "qBacktrail.on:", "n,n,n" }, { "qRcmd,", "s" },
        { "qThreadExtraInfo,", "t" }, { "vCont;", "s" }, { NULL },
    };
    const char *text;
    const struct packet *p = packet_find(table, request, &text);

    if (p) {
        fuzz_require(g_str_has_prefix(request, p->name));
        fuzz_require(text == request + strlen(p->name));
        read_values(p->schema, text);
        read_actions(text);
    }
}

/* All that is found, in pieces of @step bytes */
static GString *parse(const uint8_t *data, size_t size, size_t step)
{
    struct rsp_parser *p = rsp_parser_new(LIMIT);
    GString *found = g_string_new(NULL);

    while (size) {
        size_t part = MIN(size, step);
        enum rsp_kind kind;
        size_t used = rsp_parse(p, data, part, &kind);
        const char *payload;
        size_t n;

        fuzz_require(used && used <= part);
        fuzz_require(used == part || kind != RSP_MORE);
        data += used;
        size -= used;
        if (kind == RSP_MORE) {
            continue;
        }
        g_string_append_c(found, kind);
        payload = rsp_payload(p, &n);
        fuzz_require(n <= LIMIT && !payload[n]);
        if (kind == RSP_PACKET || kind == RSP_NOTIFICATION) {
            g_string_append_len(found, payload, n);
            send_on(payload, n);
            decode(payload);
            read_request(payload);
        }
    }
    rsp_parser_free(p);
    return found;
}

int fuzz_input(const uint8_t *data, size_t size)
{
    GString *whole = parse(data, size, size);
    GString *bytes = parse(data, size, 1);
    GString *some = parse(data, size, 1 + size % 7);

    fuzz_require(g_string_equal(whole, bytes));
    fuzz_require(g_string_equal(whole, some));
    if (memchr(whole->str, RSP_PACKET, whole->len)) {
        fuzz_accepted();
    }
    g_string_free(whole, TRUE);
    g_string_free(bytes, TRUE);
    g_string_free(some, TRUE);
    return 0;
}
