/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test ports through which guests say names
 */

#include <glib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/names-port.h"

#define MOST    3

struct fixture {
    struct names_ports *all;
    pid_t connected;            /* the last one */
    int ends[16];               /* of QEMU, one for each port */
    unsigned n;
};

static void connected(void *opaque, const struct peer_process *peer)
{
    ((struct fixture *)opaque)->connected = peer->pid;
}

static struct peer_process peer_of(pid_t pid)
{
    struct peer_process peer = { .pid = pid, .uid = 7 };

    g_snprintf(peer.process, sizeof(peer.process), "%d-1-boot", (int)pid);
    return peer;
}

static void set_up(struct fixture *f, gconstpointer data)
{
    f->all = names_ports_new(MOST, connected, f);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    names_ports_free(f->all);
    for (unsigned i = 0; i < f->n; i++) {
        if (f->ends[i] >= 0) {
            close(f->ends[i]);
        }
    }
}

/* Process @pid connects; returns which end it has. */
static unsigned connect_port(struct fixture *f, pid_t pid)
{
    struct peer_process peer = peer_of(pid);
    int socks[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==, 0);
    f->connected = 0;
    f->ends[f->n] = socks[0];
    names_ports_add(f->all, socks[1], &peer);
    return f->n++;
}

/* Does what is written to the port of a process reach an end? */
static void check_reaches(struct fixture *f, pid_t pid, unsigned end)
{
    struct peer_process peer = peer_of(pid);
    int sock = names_ports_get(f->all, &peer);
    char byte = (char)pid, got = 0;

    g_assert_cmpint(sock, >=, 0);
    g_assert_cmpint(write(sock, &byte, 1), ==, 1);
    g_assert_cmpint(recv(f->ends[end], &got, 1, MSG_DONTWAIT), ==, 1);
    g_assert_cmpint(got, ==, byte);
    close(sock);
}

static void check_none(struct fixture *f, pid_t pid)
{
    struct peer_process peer = peer_of(pid);

    g_assert_cmpint(names_ports_get(f->all, &peer), ==, -1);
}

static bool is_closed(int sock)
{
    char byte;

    return recv(sock, &byte, 1, MSG_DONTWAIT) == 0;
}

static void test_whose(struct fixture *f, gconstpointer data)
{
    unsigned first = connect_port(f, 1), second;

    g_assert_cmpint(f->connected, ==, 1);
    second = connect_port(f, 2);
    g_assert_cmpint(f->connected, ==, 2);
    check_reaches(f, 1, first);
    check_reaches(f, 2, second);
    check_none(f, 3);
    /* What is got is one's own to close. */
    check_reaches(f, 1, first);
}

/* QEMU connects again, perhaps before its hanging up is known. */
static void test_again(struct fixture *f, gconstpointer data)
{
    unsigned first = connect_port(f, 1), second = connect_port(f, 1);

    g_assert_true(is_closed(f->ends[first]));
    check_reaches(f, 1, second);
    close(f->ends[second]);
    f->ends[second] = -1;
    while (g_main_context_iteration(NULL, FALSE)) {
    }
    check_none(f, 1);
}

static void test_most(struct fixture *f, gconstpointer data)
{
    unsigned end;

    for (pid_t pid = 1; pid <= MOST; pid++) {
        connect_port(f, pid);
    }
    end = connect_port(f, MOST + 1);
    g_assert_cmpint(f->connected, ==, 0);
    g_assert_true(is_closed(f->ends[end]));
    check_none(f, MOST + 1);
    check_reaches(f, 1, 0);
    /* One that has a port already does not need another place. */
    end = connect_port(f, 2);
    check_reaches(f, 2, end);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, function) \
    g_test_add("/names-port/" name, struct fixture, NULL, set_up, function, \
               tear_down)
    ADD("whose", test_whose);
    ADD("again", test_again);
    ADD("most", test_most);
    return g_test_run();
}
