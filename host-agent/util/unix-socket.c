/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections to unix sockets: see unix-socket.h
 */

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/agent-error.h"
#include "util/unix-socket.h"

int unix_try(const char *path, int type)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock, reason;

    if (g_strlcpy(address.sun_path, path, sizeof(address.sun_path)) >=
        sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    sock = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (sock >= 0 && connect(sock, (const struct sockaddr *)&address,
                             sizeof(address)) < 0) {
        reason = errno;
        close(sock);
        errno = reason;
        return -1;
    }
    return sock;
}

int unix_connect(const char *path, GError **error)
{
    int sock = unix_try(path, SOCK_STREAM);

    if (sock < 0 && errno == ENAMETOOLONG) {
        agent_fail(error, AGENT_ERROR_SYSTEM,
                   "%s: too long for a socket", path);
    } else if (sock < 0) {
        agent_error_errno(error, path);
    }
    return sock;
}
