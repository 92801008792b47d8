/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of gdb/stub.h: a gdbstub that answers in pieces, prints, asks, says
 * anything or nothing, and ends
 */

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb/rsp.h"
#include "gdb/stub.h"

/* The other end has said all before it is asked. */
static struct stub *begin(int *sock)
{
    int socks[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==, 0);
    *sock = socks[1];
    return stub_new(socks[0]);
}

static void end(struct stub *s, int sock)
{
    stub_free(s);
    close(sock);
}

static void put_bytes(int sock, const char *bytes, size_t n)
{
    g_assert_cmpint(write(sock, bytes, n), ==, n);
}

static void put(int sock, const char *payload)
{
    g_autoptr(GByteArray) out = g_byte_array_new();

    rsp_append(out, payload, strlen(payload));
    put_bytes(sock, (const char *)out->data, out->len);
}

/* What the other end has received since */
static void require_heard(int sock, const char *want)
{
    char text[256];
    ssize_t n = recv(sock, text, sizeof(text) - 1, MSG_DONTWAIT);

    text[MAX(n, 0)] = '\0';
    g_assert_cmpstr(text, ==, want);
}

static void test_ask(void)
{
    g_autofree char *answer = NULL, *other = NULL;
    int sock;
    struct stub *s = begin(&sock);
    GError *error = NULL;
    size_t n;

    put_bytes(sock, "+", 1);
    put(sock, "OK");
    answer = stub_ask(s, "Hg1", NULL, &n, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(answer, ==, "OK");
    g_assert_cmpuint(n, ==, 2);
    require_heard(sock, "$Hg1#e0+");
    /* Any bytes are answered as they come. */
    put_bytes(sock, "+$a}\x03#e1", 8);
    other = stub_forward(s, "a\0b", 3, &n, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(n, ==, 3);
    g_assert_cmpstr(other, ==, "a}\x03");
    end(s, sock);
}

static gpointer say_slowly(gpointer opaque)
{
    static const char text[] = "+$T05thread:01;#07";
    int sock = GPOINTER_TO_INT(opaque);

    for (unsigned i = 0; text[i]; i++) {
        put_bytes(sock, &text[i], 1);
        g_usleep(200);
    }
    return NULL;
}

/* A byte at a time */
static void test_pieces(void)
{
    g_autofree char *answer = NULL;
    int sock;
    struct stub *s = begin(&sock);
    GThread *thread = g_thread_new("stub", say_slowly, GINT_TO_POINTER(sock));
    GError *error = NULL;

    answer = stub_ask(s, "?", NULL, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(answer, ==, "T05thread:01;");
    g_thread_join(thread);
    end(s, sock);
}

/* What the monitor prints comes before the answer, and is bounded. */
static void test_output(void)
{
    g_autoptr(GString) output = g_string_new(NULL);
    g_autofree char *answer = NULL, *many = NULL;
    int sock;
    struct stub *s = begin(&sock);
    GError *error = NULL;

    put(sock, "O68690a");
    put(sock, "Ozz");
    put(sock, "O");
    put(sock, "O796f");
    put(sock, "OK");
    answer = stub_ask(s, "qRcmd,6869", output, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(answer, ==, "OK");
    g_assert_cmpstr(output->str, ==, "hi\nyo");
    /* Also if nobody wants it */
    put(sock, "O68690a");
    put(sock, "E01");
    many = stub_ask(s, "qRcmd,6869", NULL, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(many, ==, "E01");
    end(s, sock);
}

static gpointer flood(gpointer opaque)
{
    g_autofree char *hex = g_strnfill(20000, '6');
    g_autofree char *payload = g_strconcat("O", hex, NULL);
    int sock = GPOINTER_TO_INT(opaque);

    for (unsigned i = 0; i < 200; i++) {
        put(sock, payload);
    }
    put(sock, "OK");
    return NULL;
}

static gpointer drain(gpointer opaque)
{
    char bytes[4096];

    while (read(GPOINTER_TO_INT(opaque), bytes, sizeof(bytes)) > 0) {
        continue;
    }
    return NULL;
}

static void test_flood(void)
{
    g_autoptr(GString) output = g_string_new(NULL);
    g_autofree char *answer = NULL;
    int sock;
    struct stub *s = begin(&sock);
    GThread *says = g_thread_new("stub", flood, GINT_TO_POINTER(sock));
    GThread *hears = g_thread_new("drain", drain, GINT_TO_POINTER(sock));
    GError *error = NULL;

    answer = stub_ask(s, "qRcmd,68", output, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(answer, ==, "OK");
    g_assert_cmpuint(output->len, >=, 1u << 20);
    g_assert_cmpuint(output->len, <=, (1u << 20) + 10000);
    g_thread_join(says);
    stub_free(s);
    g_thread_join(hears);
    close(sock);
}

static void require_refused(const char *bytes, size_t n, const char *why)
{
    int sock;
    struct stub *s = begin(&sock);
    GError *error = NULL;

    put_bytes(sock, bytes, n);
    g_assert_null(stub_ask(s, "g", NULL, NULL, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_assert_nonnull(strstr(error->message, why));
    g_clear_error(&error);
    end(s, sock);
}

static void test_hostile(void)
{
    g_autofree char *letters = g_strnfill((64 << 10) + 1, 'a');
    g_autofree char *much = g_strconcat("$", letters, "#00", NULL);

    require_refused("-", 1, "understood");
    require_refused("+$OK#00", 7, "checksum");
    require_refused("$OK#zz", 6, "checksum");
    require_refused(much, strlen(much), "too long");
}

/* It ends before it answers, or within an answer. */
static void test_ends(void)
{
    static const char *const said[] = { "", "+", "+$T0" };

    for (unsigned i = 0; i < G_N_ELEMENTS(said); i++) {
        int sock;
        struct stub *s = begin(&sock);
        GError *error = NULL;

        put_bytes(sock, said[i], strlen(said[i]));
        g_assert_cmpint(shutdown(sock, SHUT_WR), ==, 0);
        g_assert_null(stub_ask(s, "g", NULL, NULL, &error));
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED);
        g_clear_error(&error);
        end(s, sock);
    }
}

static void test_run(void)
{
    static const char *const asks[] = { "Fopen,1000/5,601,1ff", "", "m12" };
    static const char *const stops[] = {
        "T05thread:01;", "S05", "W00", "X09", "E22",
    };
    char *answer;
    int sock;
    struct stub *s = begin(&sock);
    GError *error = NULL;

    g_assert_true(stub_run(s, "vCont;c", &error));
    require_heard(sock, "$vCont;c#a8");
    /* It still runs. */
    g_assert_true(stub_stopped(s, 0, &answer, &error));
    g_assert_null(answer);
    put_bytes(sock, "+$T0", 4);
    g_assert_true(stub_stopped(s, 1, &answer, &error));
    g_assert_null(answer);
    g_assert_no_error(error);
    g_assert_true(stub_interrupt(s, &error));
    require_heard(sock, "\x03");
    put_bytes(sock, "2#b6", 4);
    g_assert_true(stub_stopped(s, 1000, &answer, &error));
    g_assert_cmpstr(answer, ==, "T02");
    g_free(answer);
    for (unsigned i = 0; i < G_N_ELEMENTS(stops); i++) {
        put(sock, "O68690a");
        put(sock, stops[i]);
        g_assert_true(stub_stopped(s, 1000, &answer, &error));
        g_assert_cmpstr(answer, ==, stops[i]);
        g_free(answer);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(asks); i++) {
        put(sock, asks[i]);
        g_assert_false(stub_stopped(s, 1000, &answer, &error));
        g_assert_null(answer);
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
        g_clear_error(&error);
    }
    g_assert_cmpint(shutdown(sock, SHUT_WR), ==, 0);
    g_assert_false(stub_stopped(s, 1000, &answer, &error));
    g_assert_null(answer);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED);
    g_clear_error(&error);
    end(s, sock);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/stub/ask", test_ask);
    g_test_add_func("/stub/pieces", test_pieces);
    g_test_add_func("/stub/output", test_output);
    g_test_add_func("/stub/flood", test_flood);
    g_test_add_func("/stub/hostile", test_hostile);
    g_test_add_func("/stub/ends", test_ends);
    g_test_add_func("/stub/run", test_run);
    return g_test_run();
}
