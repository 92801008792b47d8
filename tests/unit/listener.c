/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of service/listener.h: sockets that are bound, passed, refused, removed
 */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scratch.h"
#include "service/listener.h"

struct fixture {
    char *folder;
    char *path;
    struct config config;
    unsigned accepted;
    pid_t peer;
};

static void got(void *opaque, int sock, const struct peer_process *peer)
{
    struct fixture *f = opaque;

    f->accepted++;
    f->peer = peer->pid;
    close(sock);
}

static void set_up(struct fixture *f, gconstpointer data)
{
    f->folder = scratch_new();
    f->path = g_build_filename(f->folder, "run", "sock", NULL);
    f->config.socket = f->path;
    f->config.socket_mode = 0640;
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    scratch_remove(f->folder);
    g_free(f->path);
}

/* Returns a connection, or -1. */
static int join(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_assert_cmpint(sock, >=, 0);
    g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
    if (connect(sock, (struct sockaddr *)&address, sizeof(address))) {
        close(sock);
        return -1;
    }
    return sock;
}

static bool can_join(const char *path)
{
    int sock = join(path);

    if (sock >= 0) {
        close(sock);
    }
    return sock >= 0;
}

static struct listener *start(struct fixture *f, enum listener_kind kind)
{
    g_autoptr(GError) error = NULL;
    struct listener *l = listener_new(&f->config, kind, got, f, &error);

    g_assert_no_error(error);
    return l;
}

static void expect_error(struct fixture *f, const char *text)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(listener_new(&f->config, LISTENER_OF_DEVICES, got, f,
                               &error));
    g_assert_nonnull(error);
    g_assert_nonnull(strstr(error->message, text));
}

static void serve(struct fixture *f, unsigned accepted)
{
    gint64 until = g_get_monotonic_time() + 10 * G_TIME_SPAN_SECOND;

    while (f->accepted < accepted && g_get_monotonic_time() < until) {
        g_main_context_iteration(NULL, FALSE);
        g_usleep(1000);
    }
    g_assert_cmpuint(f->accepted, ==, accepted);
}

static void test_bound(struct fixture *f, gconstpointer data)
{
    g_autofree char *names = g_strconcat(f->path, LISTENER_NAMES, NULL);
    struct listener *l = start(f, LISTENER_OF_DEVICES), *ports;
    struct stat st;
    int sock;

    g_assert_cmpint(stat(f->path, &st), ==, 0);
    g_assert_true(S_ISSOCK(st.st_mode));
    g_assert_cmpint(st.st_mode & 0777, ==, 0640);
    ports = start(f, LISTENER_OF_PORTS);
    sock = join(f->path);
    g_assert_cmpint(sock, >=, 0);
    serve(f, 1);
    g_assert_cmpint(f->peer, ==, getpid());
    close(sock);
    g_assert_true(can_join(names));
    serve(f, 2);
    /* Nobody else listens there as long as this does. */
    expect_error(f, "listens at");
    g_assert_true(can_join(f->path));
    serve(f, 3);
    listener_free(l);
    g_assert_cmpint(access(f->path, F_OK), !=, 0);
    g_assert_cmpint(access(names, F_OK), ==, 0);
    listener_free(ports);
    g_assert_cmpint(access(names, F_OK), !=, 0);
}

static void test_stale(struct fixture *f, gconstpointer data)
{
    struct listener *l;

    listener_free(start(f, LISTENER_OF_DEVICES));
    g_assert_true(g_file_set_contents(f->path, "stale", -1, NULL));
    l = start(f, LISTENER_OF_DEVICES);
    g_assert_true(can_join(f->path));
    serve(f, 1);
    /* Another process has put its own there. */
    g_assert_cmpint(g_unlink(f->path), ==, 0);
    g_assert_true(g_file_set_contents(f->path, "another", -1, NULL));
    listener_free(l);
    g_assert_cmpint(access(f->path, F_OK), ==, 0);
}

static void test_errors(struct fixture *f, gconstpointer data)
{
    g_autofree char *name = g_strnfill(120, 'x');
    g_autofree char *text = g_build_filename(f->folder, name, NULL);

    f->config.socket_group = (char *)"no such group";
    expect_error(f, "there is no group 'no such group'");
    f->config.socket_group = NULL;
    f->config.socket = text;
    expect_error(f, "too long for a socket");
    f->config.socket = (char *)"/proc/none/sock";
    expect_error(f, "/proc/none");
}

/* A connection that was made is served; without one, none is made any more. */
static void test_refused(struct fixture *f, gconstpointer data)
{
    struct listener *l = start(f, LISTENER_OF_DEVICES);
    int sock = join(f->path);

    g_assert_cmpint(sock, >=, 0);
    g_assert_false(listener_refuse(l, &f->config));
    g_assert_cmpuint(f->accepted, ==, 1);
    g_assert_true(can_join(f->path));
    serve(f, 2);
    g_assert_true(listener_refuse(l, &f->config));
    g_assert_false(can_join(f->path));
    g_assert_true(listener_refuse(l, &f->config));
    g_assert_cmpuint(f->accepted, ==, 2);
    close(sock);
    listener_free(l);
}

static int bound_to(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);

    g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
    g_assert_cmpint(bind(sock, (struct sockaddr *)&address, sizeof(address)),
                    ==, 0);
    return sock;
}

/* What systemd passes begins with this descriptor; see sd_listen_fds(3). */
static void pass(int sock, int to, const char *n)
{
    g_autofree char *pid = g_strdup_printf("%d", getpid());

    g_assert_cmpint(dup2(sock, to), ==, to);
    g_assert_true(g_setenv("LISTEN_PID", pid, TRUE));
    g_assert_true(g_setenv("LISTEN_FDS", n, TRUE));
}

/* In a process of its own, with descriptors of its own */
static void take_passed(struct fixture *f, const char *path)
{
    struct listener *l;
    int sock = bound_to(path);

    /* It does not listen yet. */
    pass(sock, 3, "1");
    expect_error(f, "listening UNIX sockets");
    g_assert_cmpint(listen(sock, 1), ==, 0);
    pass(sock, 3, "3");
    expect_error(f, "one or two");
    pass(sock, 3, "1");
    l = start(f, LISTENER_OF_DEVICES);
    g_assert_cmpint(fcntl(3, F_GETFD) & FD_CLOEXEC, ==, FD_CLOEXEC);
    g_assert_true(can_join(path));
    serve(f, 1);
    /* There is none for ports, and then nothing more is passed. */
    g_assert_null(start(f, LISTENER_OF_PORTS));
    g_assert_null(g_getenv("LISTEN_FDS"));
    /* It is systemd's: it listens on, and the file stays. */
    g_assert_true(listener_refuse(l, &f->config));
    g_assert_true(can_join(path));
    listener_free(l);
    g_assert_cmpint(access(path, F_OK), ==, 0);
    _exit(0);
}

static void test_passed(struct fixture *f, gconstpointer data)
{
    g_autofree char *path = g_build_filename(f->folder, "passed", NULL);
    pid_t child = fork();
    int status;

    if (!child) {
        take_passed(f, path);
    }
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_cmpint(status, ==, 0);
}

#define ADD(name, test) \
    g_test_add("/listener/" name, struct fixture, NULL, set_up, test, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("bound", test_bound);
    ADD("stale", test_stale);
    ADD("errors", test_errors);
    ADD("refused", test_refused);
    ADD("passed", test_passed);
    return g_test_run();
}
