/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading and writing through a pipe, which holds less than there is
 */

#include <errno.h>
#include <glib.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/whole-io.h"

#define SIZE    (1u << 20)

struct candidates {
    int fd;
    const char *bytes;
};

static gpointer write_pieces(gpointer opaque)
{
    struct candidates *p = opaque;

    g_assert_cmpint(whole_write(p->fd, p->bytes, 3), ==, 0);
    g_assert_cmpint(whole_write(p->fd, p->bytes + 3, SIZE - 3), ==, 0);
    close(p->fd);
    return NULL;
}

static void test_pipe(void)
{
    g_autofree char *sent = g_malloc(SIZE);
    g_autofree char *got = g_malloc(SIZE * 2);
    struct candidates pieces = { .bytes = sent };
    GThread *thread;
    int ends[2];

    for (unsigned i = 0; i < SIZE; i++) {
        sent[i] = i * 7 + i / 251;
    }
    g_assert_cmpint(pipe(ends), ==, 0);
    pieces.fd = ends[1];
    thread = g_thread_new("write", write_pieces, &pieces);
    g_assert_cmpint(whole_read(ends[0], got, SIZE / 2), ==, SIZE / 2);
    /* More than there is */
    g_assert_cmpint(whole_read(ends[0], got + SIZE / 2, SIZE), ==,
                    SIZE / 2);
    g_thread_join(thread);
    close(ends[0]);
    g_assert_cmpmem(got, SIZE, sent, SIZE);
}

static void test_errors(void)
{
    char byte = 0;
    int ends[2];

    g_assert_cmpint(whole_read(-1, &byte, 1), ==, -1);
    g_assert_cmpint(errno, ==, EBADF);
    g_assert_cmpint(whole_write(-1, &byte, 1), ==, EBADF);
    signal(SIGPIPE, SIG_IGN);
    g_assert_cmpint(pipe(ends), ==, 0);
    close(ends[0]);
    g_assert_cmpint(whole_write(ends[1], &byte, 1), ==, EPIPE);
    close(ends[1]);
}

static void test_hang_up(void)
{
    char byte = 0;
    int ends[2];

    signal(SIGPIPE, SIG_DFL);
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), ==, 0);
    g_assert_cmpint(whole_send(ends[1], &byte, 1), ==, 0);
    close(ends[0]);
    g_assert_cmpint(whole_send(ends[1], &byte, 1), ==, EPIPE);
    close(ends[1]);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/whole-io/pipe", test_pipe);
    g_test_add_func("/whole-io/errors", test_errors);
    g_test_add_func("/whole-io/hang-up", test_hang_up);
    return g_test_run();
}
