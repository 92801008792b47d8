/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sockets that others connect to: who gets in, and what a port is
 */

#include <errno.h>
#include <glib/gstdio.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/server-socket.h"
#include "util/unix-socket.h"

#define OTHER   4242

static int accepted = -1;
static unsigned failures;

static void on_accepted(void *opaque, int sock)
{
    g_assert_true(opaque == &accepted);
    g_assert_cmpint(accepted, ==, -1);
    accepted = sock;
}

static void on_failed(void *opaque)
{
    g_assert_cmpint(errno, ==, EMFILE);
    failures++;
}

static void iterate(void)
{
    while (g_main_context_iteration(NULL, FALSE)) {
        continue;
    }
}

static void drop(int sock)
{
    close(sock);
    if (accepted >= 0) {
        close(accepted);
    }
    accepted = -1;
}

static int connect_to_port(int family, unsigned port)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port),
        .sin6_addr = IN6ADDR_LOOPBACK_INIT,
    };
    int sock = socket(family, SOCK_STREAM, 0);

    if (sock >= 0 && (family == AF_INET ?
                      connect(sock, (struct sockaddr *)&in, sizeof(in)) :
                      connect(sock, (struct sockaddr *)&in6, sizeof(in6)))) {
        close(sock);
        sock = -1;
    }
    return sock;
}

/* What another user gets there: 0 if it is hung up on, without a byte */
static int read_as_other(int family, unsigned port)
{
    pid_t pid = fork();
    int status;

    if (!pid) {
        struct timeval patience = { .tv_sec = 20 };
        char c;
        int sock = setresuid(OTHER, OTHER, OTHER) ? -1 :
                   connect_to_port(family, port);

        _exit(sock < 0 || setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience,
                                     sizeof(patience)) ||
              read(sock, &c, 1));
    }
    while (!waitpid(pid, &status, WNOHANG)) {
        g_main_context_iteration(NULL, FALSE);
    }
    return status;
}

static void test_port(void)
{
    const int families[] = { AF_INET, AF_INET6 };
    unsigned port = 0;
    struct server_socket *s = server_socket_port(&port, on_accepted, &accepted,
                                                 NULL);

    g_assert_nonnull(s);
    g_assert_cmpuint(port, !=, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(families); i++) {
        int sock = connect_to_port(families[i], port);

        if (sock < 0) {
            g_assert_cmpint(families[i], ==, AF_INET6);
            continue;
        }
        iterate();
        g_assert_cmpint(accepted, >=, 0);
        drop(sock);
        if (!geteuid()) {
            g_assert_cmpint(read_as_other(families[i], port), ==, 0);
            g_assert_cmpint(accepted, ==, -1);
        }
    }
    server_socket_free(s);
    g_assert_cmpint(connect_to_port(AF_INET, port), ==, -1);
}

/*
 * Where somebody else sits at the same port of IPv6, a client of "localhost"
 * could come to him.
 */
static void test_both_or_neither(void)
{
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT,
    };
    socklen_t size = sizeof(in6);
    int sock = socket(AF_INET6, SOCK_STREAM, 0);
    g_autoptr(GError) error = NULL;
    unsigned port;

    if (sock < 0 || bind(sock, (struct sockaddr *)&in6, size)) {
        g_test_skip("no IPv6");
        return;
    }
    listen(sock, 1);
    getsockname(sock, (struct sockaddr *)&in6, &size);
    port = ntohs(in6.sin6_port);
    g_assert_null(server_socket_port(&port, on_accepted, &accepted, &error));
    g_assert_nonnull(strstr(error->message, "in use"));
    g_assert_cmpint(connect_to_port(AF_INET, port), ==, -1);
    close(sock);
}

/*
 * Where nobody would get in there is no port: such as where users have no
 * numbers.
 */
static void test_unknown(void)
{
    pid_t pid = fork();
    int status;

    if (!pid) {
        g_autoptr(GError) error = NULL;
        unsigned port = 0;

        if (unshare(CLONE_NEWUSER)) {
            _exit(77);
        }
        _exit(server_socket_port(&port, on_accepted, &accepted, &error) ||
              !strstr(error->message, "sock_diag"));
    }
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        g_test_skip("no user namespaces");
    } else {
        g_assert_cmpint(status, ==, 0);
    }
}

static void test_unix(void)
{
    g_autofree char *folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "socket", NULL);
    g_autoptr(GError) error = NULL;
    mode_t old = umask(0);
    struct server_socket *s = server_socket_unix(path, on_accepted, &accepted,
                                                 NULL);
    struct stat st;
    int sock;

    g_assert_cmpint(umask(old), ==, 0);
    g_assert_nonnull(s);
    g_assert_cmpint(lstat(path, &st), ==, 0);
    g_assert_cmpuint(st.st_mode & 0777, ==, 0600);
    sock = unix_connect(path, NULL);
    g_assert_cmpint(sock, >=, 0);
    iterate();
    g_assert_cmpint(accepted, >=, 0);
    drop(sock);
    g_assert_null(server_socket_unix(path, on_accepted, &accepted, &error));
    g_assert_nonnull(strstr(error->message, path));
    server_socket_free(s);
    g_unlink(path);
    g_rmdir(folder);
}

/* Without descriptors it does not spin, and continues when there are some. */
static void test_back_off(void)
{
    unsigned turns = 0;
    struct server_socket *taken;
    struct rlimit limit, none;
    gint64 end;
    int sock, own = socket(AF_INET, SOCK_STREAM, 0), client;
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t size = sizeof(in);

    g_assert_cmpint(bind(own, (struct sockaddr *)&in, size), ==, 0);
    g_assert_cmpint(listen(own, 1), ==, 0);
    getsockname(own, (struct sockaddr *)&in, &size);
    taken = server_socket_take(own, on_accepted, on_failed, &accepted);
    client = socket(AF_INET, SOCK_STREAM, 0);
    iterate();
    g_assert_cmpint(connect(client, (struct sockaddr *)&in, size), ==, 0);
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    sock = dup(0);
    close(sock);
    none.rlim_cur = sock;
    setrlimit(RLIMIT_NOFILE, &none);
    end = g_get_monotonic_time() + 250000;
    while (g_get_monotonic_time() < end) {
        g_main_context_iteration(NULL, TRUE);
        turns++;
    }
    g_assert_cmpint(accepted, ==, -1);
    g_assert_cmpuint(failures, >, 0);
    g_assert_cmpuint(failures, <, 10);
    g_assert_cmpuint(turns, <, 20);
    setrlimit(RLIMIT_NOFILE, &limit);
    while (accepted < 0) {
        g_main_context_iteration(NULL, TRUE);
    }
    drop(client);
    server_socket_free(taken);
    /* It was the caller's. */
    g_assert_cmpint(close(own), ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/server-socket/port", test_port);
    g_test_add_func("/server-socket/both-or-neither", test_both_or_neither);
    g_test_add_func("/server-socket/unknown", test_unknown);
    g_test_add_func("/server-socket/unix", test_unix);
    g_test_add_func("/server-socket/back-off", test_back_off);
    return g_test_run();
}
