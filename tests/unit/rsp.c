/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * GDB's remote serial protocol: packets in a stream of bytes
 *
 * Packets and checksums are those of GDB's manual, or were sent by GDB 13.
 */

#include <glib.h>
#include <string.h>

#include "gdb/rsp.h"

#define LIMIT   512

static const char names[] = {
    [RSP_PACKET] = 'P', [RSP_NOTIFICATION] = 'N', [RSP_BAD] = 'B',
    [RSP_LONG] = 'L',   [RSP_ACK] = '+',          [RSP_NACK] = '-',
    [RSP_INTERRUPT] = 'I',
};

/* What is found in @n bytes, passed on @step at a time: "+P(OK)..." */
static char *found(const char *bytes, size_t n, size_t step)
{
    struct rsp_parser *p = rsp_parser_new(LIMIT);
    GString *out = g_string_new(NULL);

    while (n) {
        size_t part = MIN(n, step), used;
        enum rsp_kind kind;
        const char *payload;
        size_t length;

        used = rsp_parse(p, bytes, part, &kind);
        g_assert_cmpuint(used, <=, part);
        g_assert_true(used == part || kind != RSP_MORE);
        g_assert_cmpuint(used, >, 0);
        bytes += used;
        n -= used;
        if (kind == RSP_MORE) {
            continue;
        }
        g_string_append_c(out, names[kind]);
        if (kind == RSP_PACKET || kind == RSP_NOTIFICATION) {
            payload = rsp_payload(p, &length);
            g_assert_cmpint(payload[length], ==, '\0');
            g_string_append_printf(out, "(%s)", payload);
        }
    }
    rsp_parser_free(p);
    return g_string_free(out, FALSE);
}

static void check_bytes(const char *bytes, size_t n, const char *want)
{
    for (size_t step = 1; step <= n; step++) {
        g_autofree char *got = found(bytes, n, step);

        g_assert_cmpstr(got, ==, want);
    }
}

static void check(const char *bytes, const char *want)
{
    check_bytes(bytes, strlen(bytes), want);
}

static void test_packets(void)
{
    check("$OK#9a", "P(OK)");
    check("$#00", "P()");
    check("+$vMustReplyEmpty#3a", "+P(vMustReplyEmpty)");
    check("$g#67+$m0,4#FD-", "P(g)+P(m0,4)-");
    check("%Stop:T05#99$OK#9a", "N(Stop:T05)P(OK)");
    check("\x03", "I");
    check("xyz\x03#00$OK#9a", "IP(OK)");
    check("$X0,1:\x03#22\x03", "P(X0,1:\x03)I");
}

/* "0* " is "0000" in GDB's manual. */
static void test_runs(void)
{
    check("$0* #7a", "P(0000)");
    check("$ab*\"c#72", "P(abbbbbbc)");
    check("$* #4a", "B");
    check("$0*#5a", "B");
    check("$0*\x1f#79", "B");
    check("$0*\x7f#d9", "B");
}

/* Escapes stay: "}" and the byte, with bit 5 changed */
static void test_escapes(void)
{
    check("$X0,1:}\x03#9f", "P(X0,1:}\x03)");
}

static void test_bad(void)
{
    check("$OK#9b", "B");
    check("$OK#9b$OK#9a", "BP(OK)");
    check("$OK#9g", "B");
    check("$OK#x9", "B");
    check("$OK#", "");
    /* Cut off by the next one */
    check("$m0,$OK#9a", "P(OK)");
    check("$m0,4#$OK#9a", "P(OK)");
    check("$m0,4#f$OK#9a", "P(OK)");
    check("$0*$OK#9a", "P(OK)");
    check_bytes("$\0#00", 5, "P()");
}

static void test_limit(void)
{
    g_autoptr(GByteArray) out = g_byte_array_new();
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *most = g_strnfill(LIMIT, 'a');
    g_autofree char *want = g_strdup_printf("P(%s)", most);
    g_autofree char *more = g_strnfill(LIMIT + 1, 'a');

    rsp_append(out, most, LIMIT);
    check_bytes((const char *)out->data, out->len, want);
    g_byte_array_set_size(out, 0);
    rsp_append(out, more, LIMIT + 1);
    rsp_append(out, "OK", 2);
    check_bytes((const char *)out->data, out->len, "LP(OK)");
    /* By a run: 6 times 97 more bytes */
    g_string_assign(text, "$0*~*~*~*~*~*~#00$OK#9a");
    check(text->str, "LP(OK)");
}

static void test_append(void)
{
    g_autoptr(GByteArray) out = g_byte_array_new();

    rsp_append(out, "OK", 2);
    rsp_append(out, "", 0);
    rsp_append(out, "vCont;c", 7);
    g_byte_array_append(out, (const guint8 *)"", 1);
    g_assert_cmpstr((char *)out->data, ==, "$OK#9a$#00$vCont;c#a8");
}

static void test_hex(void)
{
    g_autoptr(GString) out = g_string_new("O");
    g_autofree char *text = rsp_unhex("484c0a", NULL);
    g_autofree char *bytes = NULL;
    size_t n;

    rsp_append_hex(out, "a\n\xff", 3);
    g_assert_cmpstr(out->str, ==, "O610aff");
    g_assert_cmpstr(text, ==, "HL\n");
    bytes = rsp_unhex("00fF", &n);
    g_assert_cmpuint(n, ==, 2);
    g_assert_cmpmem(bytes, 3, "\0\xff", 3);
    g_assert_null(rsp_unhex("0", NULL));
    g_assert_null(rsp_unhex("0g", NULL));
    g_assert_null(rsp_unhex("-1", NULL));
    g_free(bytes);
    bytes = rsp_unhex("", &n);
    g_assert_cmpuint(n, ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rsp/packets", test_packets);
    g_test_add_func("/rsp/runs", test_runs);
    g_test_add_func("/rsp/escapes", test_escapes);
    g_test_add_func("/rsp/bad", test_bad);
    g_test_add_func("/rsp/limit", test_limit);
    g_test_add_func("/rsp/append", test_append);
    g_test_add_func("/rsp/hex", test_hex);
    return g_test_run();
}
