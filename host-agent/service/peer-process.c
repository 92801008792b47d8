/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes at the other end of sockets: see peer-process.h
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/peer-process.h"
#include "util/close.h"

/* Linux 6.5; headers may be older. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD    77
#endif

/* Reads a small file of the kernel's; false and errno if it cannot be read. */
static bool read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    btrail_close(fd);
    text[n < 0 ? 0 : n] = '\0';
    return n > 0;
}

/* Ticks since boot, from proc_pid_stat(5); false if the process has ended. */
static bool parse_start(const char *stat, unsigned long long *start)
{
    /* The name before it may have any characters. */
    const char *state = strrchr(stat, ')');

    return state && sscanf(state + 1, " %*[^ZX ] %*d %*d %*d %*d %*d %*u %*u "
                           "%*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                           start) == 1;
}

/* False if that is not known at the moment, such as for lack of a descriptor */
static bool find_id(char id[PROCESS_ID], pid_t pid)
{
    char path[64], stat[1024], boot[64];
    unsigned long long start;

    id[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (pid <= 0) {
        return true;
    }
    if (!read_file(path, stat, sizeof(stat))) {
        return errno == ENOENT || errno == ESRCH;
    }
    if (!parse_start(stat, &start)) {
        return true;
    }
    if (!read_file("/proc/sys/kernel/random/boot_id", boot, sizeof(boot))) {
        return false;
    }
    boot[strcspn(boot, "\n")] = '\0';
    snprintf(id, PROCESS_ID, "%d-%llu-%.36s", (int)pid, start, boot);
    return true;
}

void process_id(char id[PROCESS_ID], pid_t pid)
{
    find_id(id, pid);
}

bool process_is_gone(const char *id)
{
    char now[PROCESS_ID];

    return find_id(now, atoi(id)) && strcmp(now, id);
}

/*
 * Whoever has connected may have passed the socket on and ended, and another
 * process may have its number by now.  Older kernels do not say that.
 */
static bool has_ended(int sock)
{
    struct pollfd fd = { .events = POLLIN };
    socklen_t length = sizeof(fd.fd);
    bool ended;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd.fd, &length) < 0) {
        return errno != ENOPROTOOPT;
    }
    ended = poll(&fd, 1, 0) > 0;
    close(fd.fd);
    return ended;
}

bool peer_process_get(struct peer_process *peer, int sock)
{
    struct ucred cred;
    socklen_t length = sizeof(cred);

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &length) < 0 ||
        cred.pid <= 0) {
        return false;
    }
    peer->pid = cred.pid;
    peer->uid = cred.uid;
    process_id(peer->process, cred.pid);
    return !has_ended(sock);
}

bool peer_process_is_same(const struct peer_process *a,
                          const struct peer_process *b)
{
    return a->pid == b->pid && !strcmp(a->process, b->process);
}
