/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A gdb that a test plays: see gdb-side.h
 */

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb-side.h"

/* Answers come sooner. */
#define PATIENCE    (10 * G_TIME_SPAN_SECOND)

struct gdb gdb_new(int *sock)
{
    struct gdb gdb = { .parser = rsp_parser_new(1u << 20) };
    int socks[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==, 0);
    gdb.sock = socks[0];
    *sock = socks[1];
    return gdb;
}

void leave(struct gdb *gdb)
{
    if (!gdb->parser) {
        return;
    }
    /* What is done apart has a copy of it. */
    shutdown(gdb->sock, SHUT_RDWR);
    close(gdb->sock);
    g_clear_pointer(&gdb->parser, rsp_parser_free);
    while (g_main_context_iteration(NULL, FALSE)) {
        continue;
    }
}

void say(struct gdb *gdb, const char *payload)
{
    g_autoptr(GByteArray) out = g_byte_array_new();

    rsp_append(out, payload, strlen(payload));
    g_assert_cmpint(write(gdb->sock, out->data, out->len), ==, out->len);
}

void interrupt(struct gdb *gdb)
{
    g_assert_cmpint(write(gdb->sock, "\x03", 1), ==, 1);
}

char *hear(struct gdb *gdb)
{
    gint64 deadline = g_get_monotonic_time() + PATIENCE;
    enum rsp_kind kind;
    size_t n;
    char c;

    while (g_get_monotonic_time() < deadline) {
        ssize_t got = recv(gdb->sock, &c, 1, MSG_DONTWAIT);

        if (got == 0) {
            return NULL;
        }
        if (got < 0) {
            g_main_context_iteration(NULL, FALSE);
            continue;
        }
        rsp_parse(gdb->parser, &c, 1, &kind);
        if (kind == RSP_PACKET) {
            return g_strdup(rsp_payload(gdb->parser, &n));
        }
    }
    g_assert_not_reached();
}

void check(struct gdb *gdb, const char *request, const char *want)
{
    g_autofree char *got = NULL;

    if (request) {
        say(gdb, request);
    }
    got = hear(gdb);
    g_assert_cmpstr(got, ==, want);
}

void say_monitor(struct gdb *gdb, const char *line)
{
    g_autoptr(GString) request = g_string_new("qRcmd,");

    rsp_append_hex(request, line, strlen(line));
    say(gdb, request->str);
}

void check_printed(struct gdb *gdb, const char *begin)
{
    g_autofree char *said = hear(gdb), *text = NULL;

    g_assert_cmpint(said[0], ==, 'O');
    text = rsp_unhex(said + 1, NULL);
    g_assert_true(g_str_has_prefix(text, begin));
}

void monitor(struct gdb *gdb, const char *line, const char *begin)
{
    g_autofree char *said = NULL;

    say_monitor(gdb, line);
    check_printed(gdb, begin);
    said = hear(gdb);
    g_assert_true(!strcmp(said, "OK") || !strcmp(said, "E01"));
}
