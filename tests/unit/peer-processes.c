/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process for each peer: how much it may have, and that all others stay
 */

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb/peer-processes.h"

#define SHORT   (20 * G_TIME_SPAN_SECOND)
#define MIB     (UINT64_C(1) << 20)

/* This many bytes as it asks for; 'y' if it can have them */
static void serve(void *opaque, unsigned number, int in, int out)
{
    uint64_t want;

    while (read(in, &want, sizeof(want)) == sizeof(want)) {
        char *all = g_try_malloc(want);
        char answer = all ? 'y' : 'n';

        if (all) {
            memset(all, 1, MIN(want, MIB));
        }
        g_assert_cmpint(write(out, &answer, 1), ==, 1);
        g_free(all);
        if (!want) {
            /* It has no way to do with less, and the test knows that. */
            g_assert_nonnull(freopen("/dev/null", "w", stdout));
            g_assert_nonnull(freopen("/dev/null", "w", stderr));
            g_malloc(PEER_MEMORY_MAX + MIB);
        }
    }
}

static void on_ended(void *opaque, unsigned number)
{
    *(unsigned *)opaque = number;
}

static int connect_peer(struct peer_processes *p)
{
    int socks[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==, 0);
    peer_processes_add(p, socks[1], socks[1]);
    return socks[0];
}

static char ask(int peer, uint64_t want)
{
    char answer;

    g_assert_cmpint(write(peer, &want, sizeof(want)), ==, sizeof(want));
    return read(peer, &answer, 1) == 1 ? answer : 0;
}

static void test_memory(void)
{
    static const struct peer_functions functions = { serve, on_ended };
    unsigned ended = 0;
    struct peer_processes *p = peer_processes_new(&functions, &ended);
    int a = connect_peer(p), b = connect_peer(p);
    gint64 deadline = g_get_monotonic_time() + SHORT;

#ifdef __SANITIZE_ADDRESS__
    /* It ends a process itself that can have no more. */
    g_test_skip("a sanitizer takes memory in its own way");
    close(a);
    close(b);
    peer_processes_free(p);
    return;
#endif
    g_assert_cmpint(ask(a, PEER_MEMORY_MAX - 64 * MIB), ==, 'y');
    g_assert_cmpint(ask(a, PEER_MEMORY_MAX + MIB), ==, 'n');
    g_assert_cmpint(ask(b, PEER_MEMORY_MAX - 64 * MIB), ==, 'y');
    /* A process that must have more ends, and no other one does. */
    ask(a, 0);
    while (!ended && g_get_monotonic_time() < deadline) {
        g_main_context_iteration(NULL, FALSE);
    }
    g_assert_cmpuint(ended, ==, 1);
    g_assert_cmpuint(peer_processes_count(p), ==, 1);
    g_assert_cmpint(ask(b, MIB), ==, 'y');
    close(a);
    close(b);
    peer_processes_free(p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/peer-processes/memory", test_memory);
    return g_test_run();
}
