/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whose a connection is: those of this user, of another one, and of nobody
 *
 * Other users are there where the test runs as root.
 */

#include <gio/gio.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/peer-owner.h"

#define OTHER   4242

/* What is listened at, and what is connected to it */
struct way {
    const char *name;
    const char *listens;
    const char *connects;   /* at the same port */
    int family;             /* of the socket that connects */
};

static const struct way ways[] = {
    { "IPv4", "127.0.0.1", "127.0.0.1", AF_INET },
    { "IPv6", "::1", "::1", AF_INET6 },
    { "IPv4 to both", "::", "127.0.0.1", AF_INET },
    { "mapped", "127.0.0.1", "::ffff:127.0.0.1", AF_INET6 },
    { "mapped to both", "::", "::ffff:127.0.0.1", AF_INET6 },
};

static socklen_t make_address(struct sockaddr_storage *a, int family,
                              const char *text, in_port_t port)
{
    g_autoptr(GInetAddress) ip = g_inet_address_new_from_string(text);
    struct sockaddr_in *in = (void *)a;
    struct sockaddr_in6 *in6 = (void *)a;

    memset(a, 0, sizeof(*a));
    a->ss_family = family;
    if (family == AF_INET) {
        memcpy(&in->sin_addr, g_inet_address_to_bytes(ip), 4);
        in->sin_port = port;
        return sizeof(*in);
    }
    memcpy(&in6->sin6_addr, g_inet_address_to_bytes(ip), 16);
    in6->sin6_port = port;
    return sizeof(*in6);
}

/* -1 if there is no IPv6 */
static int listen_at(const struct way *way, in_port_t *port)
{
    struct sockaddr_storage a;
    int family = strchr(way->listens, ':') ? AF_INET6 : AF_INET;
    socklen_t size = make_address(&a, family, way->listens, 0);
    int sock = socket(family, SOCK_STREAM, 0);

    if (sock < 0 || bind(sock, (struct sockaddr *)&a, size)) {
        g_assert_cmpint(family, ==, AF_INET6);
        return -1;
    }
    g_assert_cmpint(listen(sock, 4), ==, 0);
    g_assert_cmpint(getsockname(sock, (struct sockaddr *)&a, &size), ==, 0);
    *port = family == AF_INET ? ((struct sockaddr_in *)&a)->sin_port :
                                ((struct sockaddr_in6 *)&a)->sin6_port;
    return sock;
}

static int connect_to(const struct way *way, in_port_t port)
{
    struct sockaddr_storage a;
    socklen_t size = make_address(&a, way->family, way->connects, port);
    int sock = socket(way->family, SOCK_STREAM, 0);

    return sock >= 0 && !connect(sock, (struct sockaddr *)&a, size) ? sock :
           -1;
}

/* Another user connects; ends when it gets a byte, or has closed at once. */
static pid_t connect_as_other(const struct way *way, in_port_t port,
                              bool closes)
{
    pid_t pid = fork();

    if (!pid) {
        int sock = setresuid(OTHER, OTHER, OTHER) ? -1 : connect_to(way, port);
        char c;

        if (sock >= 0 && closes) {
            close(sock);
        } else if (sock >= 0) {
            read(sock, &c, 1);
        }
        _exit(sock < 0);
    }
    g_assert_cmpint(pid, >, 0);
    return pid;
}

static void end(pid_t pid)
{
    int status;

    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void check_other(const struct way *way, int listener, in_port_t port)
{
    pid_t pid = connect_as_other(way, port, false);
    int sock = accept(listener, NULL, NULL);

    g_assert_cmpint(sock, >=, 0);
    g_assert_false(peer_is_own(sock));
    close(sock);
    end(pid);

    /* The kernel says that what has no owner any more is root's. */
    pid = connect_as_other(way, port, true);
    end(pid);
    sock = accept(listener, NULL, NULL);
    g_assert_cmpint(sock, >=, 0);
    g_assert_false(peer_is_own(sock));
    close(sock);
}

static void test_tcp(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(ways); i++) {
        in_port_t port;
        int listener = listen_at(&ways[i], &port);
        int theirs = listener < 0 ? -1 : connect_to(&ways[i], port), ours;

        if (theirs < 0) {
            g_assert_cmpint(ways[i].family + (listener < 0), !=, AF_INET);
            g_test_message("%s: no IPv6", ways[i].name);
            close(listener);
            continue;
        }
        g_test_message("%s", ways[i].name);
        ours = accept(listener, NULL, NULL);
        g_assert_true(peer_is_own(ours));
        g_assert_true(peer_is_own(theirs));
        /* One that nobody has closed, but that is not open either */
        shutdown(theirs, SHUT_WR);
        g_assert_false(peer_is_own(ours));
        close(theirs);
        g_assert_false(peer_is_own(ours));
        close(ours);
        if (!geteuid()) {
            check_other(&ways[i], listener, port);
        }
        close(listener);
    }
}

/* Root may connect to other users, who may not connect to each other. */
static void test_root(void)
{
    in_port_t port;
    int listener = listen_at(&ways[0], &port), theirs, ours, status;
    pid_t pid;

    if (geteuid()) {
        g_test_skip("not root");
        return;
    }
    theirs = connect_to(&ways[0], port);
    ours = accept(listener, NULL, NULL);
    pid = fork();
    if (!pid) {
        _exit(setresuid(OTHER, OTHER, OTHER) || !peer_is_own(ours));
    }
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_cmpint(status, ==, 0);
    close(theirs);
    close(ours);
    close(listener);
}

/* In a namespace where users have no numbers, nobody is known. */
static void test_namespace(void)
{
    in_port_t port;
    int listener = listen_at(&ways[0], &port), status, pair[2];
    int theirs = connect_to(&ways[0], port);
    int ours = accept(listener, NULL, NULL);
    pid_t pid;

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), ==, 0);
    pid = fork();
    if (!pid) {
        _exit(unshare(CLONE_NEWUSER) ? 77 :
              peer_is_own(ours) || peer_is_own(pair[0]));
    }
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        g_test_skip("no user namespaces");
    } else {
        g_assert_cmpint(status, ==, 0);
    }
    close(pair[0]);
    close(pair[1]);
    close(theirs);
    close(ours);
    close(listener);
}

static void test_unix(void)
{
    g_autofree char *folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), sock, pair[2];
    pid_t pid;

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), ==, 0);
    g_assert_true(peer_is_own(pair[0]));
    close(pair[0]);
    close(pair[1]);
    /* An abstract one, which other users can reach */
    g_snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s",
               folder);
    g_assert_cmpint(bind(listener, (struct sockaddr *)&address,
                         sizeof(address)), ==, 0);
    g_assert_cmpint(listen(listener, 1), ==, 0);
    pid = fork();
    if (!pid) {
        char c;

        sock = socket(AF_UNIX, SOCK_STREAM, 0);
        _exit((!geteuid() && setresuid(OTHER, OTHER, OTHER)) ||
              connect(sock, (struct sockaddr *)&address, sizeof(address)) ||
              read(sock, &c, 1));
    }
    sock = accept(listener, NULL, NULL);
    g_assert_cmpint(peer_is_own(sock), ==, geteuid() != 0);
    close(sock);
    end(pid);
    close(listener);
    rmdir(folder);
}

static void test_none(void)
{
    int sock = socket(AF_INET, SOCK_STREAM, 0);

    g_assert_false(peer_is_own(sock));
    g_assert_false(peer_is_own(-1));
    close(sock);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/peer-owner/tcp", test_tcp);
    g_test_add_func("/peer-owner/root", test_root);
    g_test_add_func("/peer-owner/namespace", test_namespace);
    g_test_add_func("/peer-owner/unix", test_unix);
    g_test_add_func("/peer-owner/none", test_none);
    return g_test_run();
}
