/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: GDB's remote serial protocol
 *
 * The input is what a gdb or a stub sends.  Whatever the pieces in which it
 * arrives, the same is found in it, and a packet that is sent on arrives as it
 * was.
 */

#include <glib.h>
#include <string.h>

#include "fuzz.h"
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
