/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A gdb that is set up: see start-gdb.h
 */

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "gdb/start-gdb.h"

static int open_socket(const char *path, bool listening, GError **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const struct sockaddr *to = (const struct sockaddr *)&address;
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (g_strlcpy(address.sun_path, path, sizeof(address.sun_path)) >=
        sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
    } else if (sock >= 0 &&
               (listening ? !bind(sock, to, sizeof(address)) &&
                            !listen(sock, 8) :
                            !connect(sock, to, sizeof(address)))) {
        return sock;
    }
    btrail_agent_error_errno(error, path);
    if (sock >= 0) {
        close(sock);
    }
    return -1;
}

int start_gdb_listen(const char *path, GError **error)
{
    return open_socket(path, true, error);
}

int start_gdb_connect(const char *path, GError **error)
{
    return open_socket(path, false, error);
}

/* gdb has its own way with the signals that we block. */
static void unblock_signals(void *opaque)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A gdb that runs */
struct running {
    GMainLoop *loop;
    GPid gdb;
    int status;
};

static void on_exit_of_gdb(GPid pid, gint status, gpointer opaque)
{
    struct running *r = opaque;

    r->status = status;
    g_main_loop_quit(r->loop);
}

static gboolean on_signal(gint fd, GIOCondition condition, gpointer opaque)
{
    const struct running *r = opaque;
    struct signalfd_siginfo info;

    /* gdb has Ctrl-C, too. */
    if (read(fd, &info, sizeof(info)) == sizeof(info) &&
        info.ssi_signo != SIGINT) {
        kill(r->gdb, SIGTERM);
    }
    return G_SOURCE_CONTINUE;
}

bool start_gdb(const char *commands, char *const *arguments, int signal_fd,
               int *status, GError **error)
{
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    struct running r = { .status = 0 };
    GSource *signals = NULL;
    bool ok;

    g_ptr_array_add(argv, (char *)"gdb");
    g_ptr_array_add(argv, (char *)"-q");
    g_ptr_array_add(argv, (char *)"-x");
    g_ptr_array_add(argv, (char *)commands);
    for (; arguments && *arguments; arguments++) {
        g_ptr_array_add(argv, *arguments);
    }
    g_ptr_array_add(argv, NULL);
    ok = g_spawn_async(NULL, (char **)argv->pdata, NULL,
                       G_SPAWN_SEARCH_PATH | G_SPAWN_CHILD_INHERITS_STDIN |
                       G_SPAWN_DO_NOT_REAP_CHILD, unblock_signals, NULL,
                       &r.gdb, error);
    if (!ok) {
        g_prefix_error(error, "install gdb: ");
        return false;
    }
    r.loop = g_main_loop_new(NULL, FALSE);
    g_child_watch_add(r.gdb, on_exit_of_gdb, &r);
    if (signal_fd >= 0) {
        signals = g_unix_fd_source_new(signal_fd, G_IO_IN);
        g_source_set_callback(signals, G_SOURCE_FUNC(on_signal), &r, NULL);
        g_source_attach(signals, NULL);
    }
    g_main_loop_run(r.loop);
    if (signals) {
        g_source_destroy(signals);
        g_source_unref(signals);
    }
    g_main_loop_unref(r.loop);
    *status = r.status;
    return true;
}
