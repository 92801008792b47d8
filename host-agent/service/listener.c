/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sockets that others connect to: see listener.h
 */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/listener.h"
#include "service/lock.h"
#include "service/log.h"
#include "util/close.h"
#include "util/server-socket.h"

/* The first descriptor that systemd passes; see sd_listen_fds(3). */
#define PASSED_FD   3

struct listener {
    char *path;                 /* that it has bound, or NULL */
    dev_t dev;
    ino_t ino;
    int sock, lock;
    enum listener_kind kind;
    unsigned n;                 /* connections */
    struct server_socket *server;
    listener_fn *accepted;
    void *opaque;
};

static void on_connection(void *opaque, int sock)
{
    struct listener *l = opaque;
    struct peer_process peer;

    l->n++;
    if (!peer_process_get(&peer, sock)) {
        service_log(SERVICE_LOG_WARNING,
                    "a connection of a process that is gone "
                    "or in another namespace");
        close(sock);
        return;
    }
    l->accepted(l->opaque, sock, &peer);
}

static void on_failure(void *opaque)
{
    service_log(SERVICE_LOG_ERROR, "no more connections: %s",
                g_strerror(errno));
}

/* How many sockets has systemd passed to this very process? */
static const char *passed(void)
{
    g_autofree char *pid = g_strdup_printf("%d", getpid());
    const char *n = g_strcmp0(g_getenv("LISTEN_PID"), pid) ? NULL :
                    g_getenv("LISTEN_FDS");

    return n && strcmp(n, "0") ? n : NULL;
}

/* Other processes must not take them for theirs. */
static void forget_passed(void)
{
    g_unsetenv("LISTEN_PID");
    g_unsetenv("LISTEN_FDS");
}

static bool take_passed(struct listener *l, const char *path,
                        GError **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNSPEC };
    socklen_t len = sizeof(address), int_len = sizeof(int);
    int fd = PASSED_FD + l->kind;
    int listens = 0, flags = fcntl(fd, F_GETFL);

    if ((strcmp(passed(), "1") && strcmp(passed(), "2")) || flags < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens,
                   &int_len) < 0 || !listens ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0 ||
        address.sun_family != AF_UNIX) {
        return service_fail(error, SERVICE_ERROR_CONFIG,
                            "systemd must pass one or two listening "
                            "UNIX sockets; see backtraild.socket");
    }
    l->sock = fd;
    if (fcntl(l->sock, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(l->sock, F_SETFL, flags | O_NONBLOCK) < 0) {
        return service_fail_errno(error, "the socket of systemd");
    }
    if (strcmp(address.sun_path, path)) {
        service_log(SERVICE_LOG_WARNING,
                    "listening at %s, as backtraild.socket "
                    "says, not at %s", address.sun_path, path);
    }
    return true;
}

static bool set_group(const char *path, const char *group, GError **error)
{
    struct group *g;

    if (!group) {
        return true;
    }
    g = getgrnam(group);
    if (!g) {
        return service_fail(error, SERVICE_ERROR_CONFIG,
                            "there is no group '%s'", group);
    }
    return !lchown(path, -1, g->gr_gid) ||
           service_fail_errno(error, "%s: group %s", path, group);
}

/* Whoever has the lock may. */
static bool bind_own(struct listener *l,
                     const struct config *config, const char *path,
                     GError **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct stat st;
    mode_t old;
    bool bound;

    strcpy(address.sun_path, path);
    l->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->sock < 0) {
        return service_fail_errno(error, "socket");
    }
    /* A stale file: whoever listened there would hold the lock. */
    unlink(path);
    /* Nobody connects before the permissions are right. */
    old = umask(0777);
    bound = !bind(l->sock, (struct sockaddr *)&address, sizeof(address));
    umask(old);
    if (!bound || lstat(path, &st) < 0) {
        return service_fail_errno(error, "%s", path);
    }
    g_free(l->path);
    l->path = g_strdup(path);
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    if (!set_group(path, config->socket_group, error)) {
        return false;
    }
    if (chmod(path, config->socket_mode) < 0 || listen(l->sock, 128) < 0) {
        return service_fail_errno(error, "%s", path);
    }
    return true;
}

static bool lock_and_bind(struct listener *l,
                          const struct config *config, const char *path,
                          GError **error)
{
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *lock = g_strconcat(path, ".lock", NULL);

    if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        return service_fail(error, SERVICE_ERROR_CONFIG,
                            "%s: too long for a socket", path);
    }
    if (g_mkdir_with_parents(folder, 0755) < 0) {
        return service_fail_errno(error, "%s", folder);
    }
    l->lock = service_lock(lock, "listens at", path, error);
    return l->lock >= 0 && bind_own(l, config, path, error);
}

static void serve(struct listener *l)
{
    l->server = server_socket_take(l->sock, on_connection, on_failure, l);
}

struct listener *listener_new(const struct config *config,
                              enum listener_kind kind,
                              listener_fn *accepted,
                              void *opaque, GError **error)
{
    struct listener *l = g_new0(struct listener, 1);
    g_autofree char *path = g_strconcat(
        config->socket, kind == LISTENER_OF_PORTS ?
        LISTENER_NAMES : "", NULL);
    bool last = kind == LISTENER_OF_PORTS, ok;

    l->sock = l->lock = -1;
    l->kind = kind;
    l->accepted = accepted;
    l->opaque = opaque;
    if (last && passed() && !strcmp(passed(), "1")) {
        /* Its unit is from before there were names. */
        forget_passed();
        listener_free(l);
        return NULL;
    }
    ok = passed() ? take_passed(l, path, error) :
         lock_and_bind(l, config, path, error);
    if (last) {
        forget_passed();
    }
    if (!ok) {
        listener_free(l);
        return NULL;
    }
    serve(l);
    return l;
}

/* Those that wait, too: a connection that was made is served. */
static bool accept_all(struct listener *l)
{
    unsigned before = l->n, last;

    do {
        last = l->n;
        server_socket_accept(l->server);
    } while (l->n != last);
    return l->n != before;
}

bool listener_refuse(struct listener *l, const struct config *config)
{
    g_autofree char *path = g_strdup(l->path);
    g_autoptr(GError) error = NULL;
    bool came;

    if (!l->server) {
        return true;
    }
    /* systemd goes on to listen, and starts the service again. */
    if (path) {
        shutdown(l->sock, SHUT_RD);
    }
    came = accept_all(l);
    if (!came || path) {
        server_socket_free(l->server);
        l->server = NULL;
    }
    if (came && path) {
        close(l->sock);
        if (bind_own(l, config, path, &error)) {
            serve(l);
        } else {
            service_log(SERVICE_LOG_ERROR, "no more connections: %s",
                        error->message);
        }
    }
    return !came;
}

void listener_free(struct listener *l)
{
    struct stat st;

    if (!l) {
        return;
    }
    server_socket_free(l->server);
    /* Another process may have replaced the file. */
    if (l->path && !lstat(l->path, &st) && st.st_dev == l->dev &&
        st.st_ino == l->ino) {
        unlink(l->path);
    }
    btrail_close(l->sock);
    /* The lock's file stays: another process may have opened it already. */
    btrail_close(l->lock);
    g_free(l->path);
    g_free(l);
}
