/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process for each peer: see peer-processes.h
 */

#include <errno.h>
#include <glib-unix.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gdb/peer-processes.h"
#include "gdb/server.h"
#include "util/memory-limit.h"

/* After this many, numbers are used again; nobody has them any more by then. */
#define NUMBERS     200000

/*
 * A peer that has hung up is not served much longer, whatever is being done for
 * it.
 */
#define GONE_MS     500

/**
 * struct peer
 * @fd:          of the process; becomes readable when it has ended
 * @in:          of the peer, to see when it hangs up
 * @gone_source: when it hangs up, and then when the process is ended
 */
struct peer {
    struct peer_processes *peers;
    unsigned number;
    pid_t pid;
    int fd;
    guint source;
    int in;
    guint gone_source;
};

struct peer_processes {
    const struct peer_functions *functions;
    void *opaque;
    GPtrArray *peers;
    unsigned last;      /* number that was given */
};

static void free_peer(gpointer opaque)
{
    struct peer *peer = opaque;

    g_source_remove(peer->source);
    g_clear_handle_id(&peer->gone_source, g_source_remove);
    kill(peer->pid, SIGKILL);
    while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR) {
        continue;
    }
    close(peer->fd);
    close(peer->in);
    g_free(peer);
}

static gboolean on_patience(gpointer opaque)
{
    struct peer *peer = opaque;

    peer->gone_source = 0;
    kill(peer->pid, SIGKILL);
    return G_SOURCE_REMOVE;
}

static gboolean on_gone(gint fd, GIOCondition condition, gpointer opaque)
{
    struct peer *peer = opaque;

    peer->gone_source = g_timeout_add(GONE_MS, on_patience, peer);
    return G_SOURCE_REMOVE;
}

static gboolean on_end(gint fd, GIOCondition condition, gpointer opaque)
{
    struct peer *peer = opaque;
    struct peer_processes *p = peer->peers;
    unsigned number = peer->number;

    g_ptr_array_remove(p->peers, peer);
    p->functions->ended(p->opaque, number);
    return G_SOURCE_REMOVE;
}

struct peer_processes *
peer_processes_new(const struct peer_functions *functions, void *opaque)
{
    struct peer_processes *p = g_new0(struct peer_processes, 1);

    p->functions = functions;
    p->opaque = opaque;
    p->peers = g_ptr_array_new_with_free_func(free_peer);
    return p;
}

void peer_processes_free(struct peer_processes *p)
{
    if (p) {
        g_ptr_array_unref(p->peers);
        g_free(p);
    }
}

unsigned peer_processes_count(const struct peer_processes *p)
{
    return p->peers->len;
}

static void serve(struct peer_processes *p, pid_t server, int in, int out)
{
    sigset_t none;

    sigemptyset(&none);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    /* Ctrl-C at the terminal is for the process that has it. */
    signal(SIGINT, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != server) {
        _exit(1);
    }
    memory_limit(PEER_MEMORY_MAX);
    for (unsigned i = 0; i < p->peers->len; i++) {
        const struct peer *other = g_ptr_array_index(p->peers, i);

        close(other->fd);
        close(other->in);
    }
    p->functions->serve(p->opaque, p->last, in, out);
    _exit(0);
}

/* Takes @in. */
static void add(struct peer_processes *p, pid_t pid, int in)
{
    struct peer *peer;
    int fd = syscall(SYS_pidfd_open, pid, 0);

    if (fd < 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(in);
        return;
    }
    peer = g_new0(struct peer, 1);
    *peer = (struct peer) {
        .peers = p, .number = p->last, .pid = pid, .fd = fd, .in = in,
    };
    peer->source = g_unix_fd_add(fd, G_IO_IN, on_end, peer);
    peer->gone_source = g_unix_fd_add(in, POLLRDHUP, on_gone, peer);
    g_ptr_array_add(p->peers, peer);
}

void peer_processes_add(struct peer_processes *p, int in, int out)
{
    pid_t server = getpid(), pid = -1;

    if (p->peers->len < GDB_SERVERS_MAX) {
        p->last = p->last % NUMBERS + 1;
        pid = fork();
    }
    if (!pid) {
        serve(p, server, in, out);
    }
    if (pid > 0) {
        add(p, pid, in);
    } else {
        close(in);
    }
    if (out != in) {
        close(out);
    }
}
