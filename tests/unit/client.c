/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of gdb/client.h: what a gdb sends, in any pieces, and what it gets, as
 * bytes of the remote serial protocol
 */

#include <fcntl.h>
#include <glib.h>
#include <glib-unix.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb/client.h"

#define PACKET  100u            /* the most bytes of a request */

/**
 * struct scene
 * @sock:   the gdb's side
 * @seen:   what was called
 * @answers: each request at once, with itself
 * @asks:   client_waits() while a request is served; @waited: what it said
 */
struct scene {
    struct client *client;
    int sock;
    int out;
    GString *seen;
    bool answers;
    bool asks;
    bool waited;
};

static void on_packet(void *opaque, const char *payload, size_t n)
{
    struct scene *s = opaque;

    g_assert_cmpint(payload[n], ==, '\0');
    g_string_append_printf(s->seen, "[%s]", payload);
    g_assert_cmpuint(strlen(payload), ==, n);
    if (s->asks) {
        s->waited = client_waits(s->client);
        g_string_append(s->seen, "served ");
    }
    if (s->answers) {
        client_answer(s->client, payload, n);
    }
}

static void on_interrupt(void *opaque)
{
    struct scene *s = opaque;

    g_string_append(s->seen, "interrupt ");
}

static void on_closed(void *opaque)
{
    struct scene *s = opaque;

    g_string_append(s->seen, "closed");
    client_free(s->client);
    s->client = NULL;
}

static const struct client_functions functions = {
    on_packet, on_interrupt, on_closed,
};

static void begin(struct scene *s)
{
    int socks[2];

    *s = (struct scene) { .seen = g_string_new(NULL) };
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==, 0);
    s->sock = s->out = socks[1];
    s->client = client_new(NULL, socks[0], socks[0], PACKET, &functions, s);
    g_assert_cmpint(client_in(s->client), ==, socks[0]);
}

static void iterate(void)
{
    while (g_main_context_iteration(NULL, FALSE)) {
        continue;
    }
}

static void end(struct scene *s)
{
    client_free(s->client);
    close(s->sock);
    if (s->out != s->sock) {
        close(s->out);
    }
    g_string_free(s->seen, TRUE);
    iterate();
}

static void put(const struct scene *s, const void *bytes, size_t n)
{
    g_assert_cmpint(write(s->out, bytes, n), ==, n);
}

/* Sends a packet. */
static void request(const struct scene *s, const char *payload)
{
    g_autofree char *packet = NULL;
    uint8_t sum = 0;

    for (const char *p = payload; *p; p++) {
        sum += *p;
    }
    packet = g_strdup_printf("$%s#%02x", payload, sum);
    put(s, packet, strlen(packet));
}

/* All that has come, as text */
static char *get(const struct scene *s)
{
    GString *text = g_string_new(NULL);
    char bytes[4096];
    ssize_t n;

    g_assert_true(g_unix_set_fd_nonblocking(s->sock, TRUE, NULL));
    while ((n = read(s->sock, bytes, sizeof(bytes))) > 0) {
        g_string_append_len(text, bytes, n);
    }
    return g_string_free(text, FALSE);
}

/* What was called, and what gdb got, since the last time */
#define CHECK(s, calls, bytes) \
    do { \
        g_autofree char *got_ = NULL; \
        \
        iterate(); \
        got_ = get(s); \
        g_assert_cmpstr((s)->seen->str, ==, calls); \
        g_assert_cmpstr(got_, ==, bytes); \
        g_string_truncate((s)->seen, 0); \
    } while (0)

static void test_requests(void)
{
    struct scene s;

    begin(&s);
    request(&s, "abc");
    CHECK(&s, "[abc]", "+");
    client_answer(s.client, "ok", 2);
    CHECK(&s, "", "$ok#da");
    put(&s, "+", 1);
    s.answers = true;
    request(&s, "");
    CHECK(&s, "[]", "+$#00");
    request(&s, "x");
    CHECK(&s, "[x]", "+$x#78");
    end(&s);
}

/* What is damaged is asked for again, by either side; once nobody acknowledges,
 * it cannot be. */
static void test_acks(void)
{
    struct scene s;

    begin(&s);
    put(&s, "$abc#27", 7);
    CHECK(&s, "", "-");
    s.answers = true;
    request(&s, "abc");
    CHECK(&s, "[abc]", "+$abc#26");
    for (unsigned i = 0; i < 3; i++) {
        put(&s, "-", 1);
        CHECK(&s, "", "$abc#26");
    }
    client_stop_acks(s.client);
    request(&s, "d");
    CHECK(&s, "[d]", "$d#64");
    put(&s, "-", 1);
    CHECK(&s, "", "");
    put(&s, "$abc#27", 7);
    CHECK(&s, "closed", "");
    end(&s);
}

/* A gdb that does not wait for its answer is not served any more. */
static void test_impatient(void)
{
    struct scene s;

    begin(&s);
    request(&s, "a");
    request(&s, "b");
    CHECK(&s, "[a]closed", "+");
    end(&s);

    /* Nor is one that has sent more meanwhile: what serves it learns that. */
    begin(&s);
    s.asks = true;
    request(&s, "a");
    request(&s, "b");
    CHECK(&s, "[a]served closed", "+");
    g_assert_false(s.waited);
    end(&s);

    /* Each after the other's answer is fine, also if they come together. */
    begin(&s);
    s.answers = true;
    request(&s, "a");
    request(&s, "b");
    CHECK(&s, "[a][b]", "+$a#61+$b#62");
    end(&s);
}

/* Its user can interrupt, also what is served. */
static void test_interrupt(void)
{
    struct scene s;

    begin(&s);
    put(&s, "\x03\x03", 2);
    CHECK(&s, "interrupt interrupt ", "");
    s.asks = s.answers = true;
    request(&s, "a");
    put(&s, "\x03", 1);
    CHECK(&s, "[a]interrupt served ", "+$a#61");
    g_assert_true(s.waited);
    request(&s, "a");
    CHECK(&s, "[a]served ", "+$a#61");
    g_assert_true(s.waited);
    /* It hangs up meanwhile. */
    request(&s, "a");
    shutdown(s.sock, SHUT_WR);
    iterate();
    g_assert_false(s.waited);
    g_assert_cmpstr(s.seen->str, ==, "[a]served closed");
    end(&s);
}

/* What comes while a request is served, and has come in part before */
static void test_waits(void)
{
    struct scene s;

    begin(&s);
    request(&s, "a");
    CHECK(&s, "[a]", "+");
    g_assert_false(client_has_sent(s.client));
    g_assert_true(client_waits(s.client));
    put(&s, "\x03", 1);
    g_assert_true(client_has_sent(s.client));
    g_assert_true(client_waits(s.client));
    g_assert_cmpstr(s.seen->str, ==, "interrupt ");
    g_assert_false(client_has_sent(s.client));
    request(&s, "b");
    g_assert_false(client_waits(s.client));
    /* It is closed later. */
    g_assert_cmpstr(s.seen->str, ==, "interrupt ");
    g_assert_false(client_waits(s.client));
    CHECK(&s, "interrupt closed", "");
    end(&s);
}

/* Requests that are too long, and one that is not */
static void test_long(void)
{
    for (unsigned more = 0; more < 2; more++) {
        g_autofree char *text = g_strnfill(PACKET + more, 'x');
        g_autofree char *seen = g_strdup_printf("[%s]", text);
        struct scene s;

        begin(&s);
        request(&s, text);
        CHECK(&s, more ? "closed" : seen, more ? "" : "+");
        end(&s);
    }
}

/* After what ends the connection, nothing counts. */
static void test_over(void)
{
    g_autoptr(GString) all = g_string_new("$");
    struct scene s;

    for (unsigned i = 0; i <= PACKET; i++) {
        g_string_append_c(all, 'x');
    }
    g_string_append(all, "#00\x03$a#61\x03");
    begin(&s);
    put(&s, all->str, all->len);
    CHECK(&s, "closed", "");
    end(&s);
}

/* Requests in pieces of any size */
static void test_pieces(void)
{
    for (unsigned round = 0; round < 200; round++) {
        g_autoptr(GString) all = g_string_new(NULL);
        g_autoptr(GString) seen = g_string_new(NULL);
        g_autoptr(GString) wanted = g_string_new(NULL);
        struct scene s;

        for (unsigned i = 0; i < 10; i++) {
            unsigned n = g_test_rand_int_range(0, 20);
            g_autofree char *text = g_strnfill(n, 'a' + i);
            uint8_t sum = n * ('a' + i);

            g_string_append_printf(all, "+$%s#%02x", text, sum);
            g_string_append_printf(seen, "[%s]", text);
            g_string_append_printf(wanted, "+$%s#%02x", text, sum);
            if (!g_test_rand_int_range(0, 4)) {
                g_string_append_c(all, 3);
                g_string_append(seen, "interrupt ");
            }
        }
        begin(&s);
        s.answers = true;
        for (size_t at = 0; at < all->len; ) {
            size_t n = g_test_rand_int_range(1, 30);

            n = MIN(n, all->len - at);
            put(&s, all->str + at, n);
            at += n;
            if (g_test_rand_bit()) {
                iterate();
            }
        }
        CHECK(&s, seen->str, wanted->str);
        end(&s);
    }
}

static GSource *silence(const struct scene *s)
{
    return g_main_context_find_source_by_funcs_user_data(
        NULL, &g_timeout_funcs, s->client);
}

/* Whoever says nothing for long leaves, but for one that has said something. */
static void test_silence(void)
{
    struct scene s;

    begin(&s);
    put(&s, "+", 1);
    CHECK(&s, "", "");
    g_assert_nonnull(silence(&s));
    g_source_set_ready_time(silence(&s), 0);
    CHECK(&s, "closed", "");
    end(&s);

    begin(&s);
    s.answers = true;
    request(&s, "a");
    CHECK(&s, "[a]", "+$a#61");
    g_assert_null(silence(&s));
    end(&s);
}

/* The text of "O" packets */
static char *printed(const char *bytes)
{
    GString *text = g_string_new(NULL);

    while (*bytes) {
        uint8_t sum = 'O';
        unsigned byte, want;

        g_assert_true(g_str_has_prefix(bytes, "$O"));
        for (bytes += 2; *bytes != '#'; bytes += 2) {
            g_assert_cmpint(sscanf(bytes, "%2x", &byte), ==, 1);
            g_string_append_c(text, byte);
            sum += bytes[0] + bytes[1];
        }
        g_assert_cmpint(sscanf(bytes, "#%2x", &want), ==, 1);
        g_assert_cmpuint(sum, ==, want);
        bytes += 3;
    }
    return g_string_free(text, FALSE);
}

static void check_printed(struct scene *s, const char *wanted)
{
    g_autofree char *got = NULL, *text = NULL;

    iterate();
    got = get(s);
    text = printed(got);
    g_assert_cmpstr(text, ==, wanted);
}

static void test_print(void)
{
    struct scene s;

    begin(&s);
    request(&s, "a");
    CHECK(&s, "[a]", "+");
    client_print(s.client, "");
    CHECK(&s, "", "");
    client_print(s.client, "hi\n");
    CHECK(&s, "", "$O68690a#bd");
    for (unsigned n = 1; n < 20000; n = n * 3 + 1) {
        g_autofree char *text = g_malloc0(n + 1);

        for (unsigned i = 0; i < n; i++) {
            text[i] = 'a' + i % 26;
        }
        client_print(s.client, text);
        check_printed(&s, text);
    }
    /* What it has sent does not control its terminal. */
    client_print_error(s.client, "no \x1b[2J");
    check_printed(&s, "no \\x1b[2J\n");
    client_answer_interrupted(s.client);
    CHECK(&s, "", "$696e7465727275707465640a#56");
    end(&s);
}

/* A gdb that does not read gets all of it later; but not any amount. */
static void test_unread(void)
{
    g_autofree char *large = g_strnfill(60000, 'y');
    g_autoptr(GString) all = g_string_new(NULL);
    struct scene s;
    unsigned n = 0;

    begin(&s);
    request(&s, "a");
    CHECK(&s, "[a]", "+");
    for (unsigned i = 0; i < 10; i++) {
        client_answer(s.client, large, strlen(large));
        iterate();
    }
    g_assert_cmpstr(s.seen->str, ==, "");
    while (all->len < 10 * (strlen(large) + 4)) {
        g_autofree char *got = get(&s);

        g_string_append(all, got);
        iterate();
    }
    g_assert_cmpuint(all->len, ==, 10 * (strlen(large) + 4));
    for (; n < 10000 && s.client; n++) {
        client_answer(s.client, large, strlen(large));
        iterate();
    }
    g_assert_cmpuint(n, <, 10000);
    g_assert_cmpstr(s.seen->str, ==, "closed");
    end(&s);
}

/* Hung up on, it is not served; @closed comes later, and once. */
static void test_end(void)
{
    struct scene s;

    begin(&s);
    request(&s, "a");
    client_end(s.client);
    client_end(s.client);
    g_assert_false(client_waits(s.client));
    g_assert_cmpstr(s.seen->str, ==, "");
    CHECK(&s, "closed", "");
    end(&s);
    client_free(NULL);
}

/* Two files: both are closed with it. */
static void test_pipes(void)
{
    g_autofree char *large = g_strnfill(200000, 'z');
    g_autoptr(GString) all = g_string_new(NULL);
    struct scene s = { .seen = g_string_new(NULL), .answers = true };
    int in[2], out[2];

    g_assert_true(g_unix_open_pipe(in, FD_CLOEXEC, NULL));
    g_assert_true(g_unix_open_pipe(out, FD_CLOEXEC, NULL));
    s.sock = out[0];
    s.out = in[1];
    s.client = client_new(NULL, in[0], out[1], PACKET, &functions, &s);
    request(&s, "a");
    CHECK(&s, "[a]", "+$a#61");
    /* More than a pipe has room for */
    client_answer(s.client, large, strlen(large));
    while (all->len < strlen(large) + 4) {
        g_autofree char *got = get(&s);

        g_string_append(all, got);
        iterate();
    }
    g_assert_cmpuint(all->len, ==, strlen(large) + 4);
    client_free(s.client);
    s.client = NULL;
    g_assert_cmpint(fcntl(in[0], F_GETFD), ==, -1);
    g_assert_cmpint(fcntl(out[1], F_GETFD), ==, -1);
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/client/requests", test_requests);
    g_test_add_func("/client/acks", test_acks);
    g_test_add_func("/client/impatient", test_impatient);
    g_test_add_func("/client/interrupt", test_interrupt);
    g_test_add_func("/client/waits", test_waits);
    g_test_add_func("/client/long", test_long);
    g_test_add_func("/client/over", test_over);
    g_test_add_func("/client/pieces", test_pieces);
    g_test_add_func("/client/silence", test_silence);
    g_test_add_func("/client/print", test_print);
    g_test_add_func("/client/unread", test_unread);
    g_test_add_func("/client/end", test_end);
    g_test_add_func("/client/pipes", test_pipes);
    return g_test_run();
}
