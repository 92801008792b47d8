/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections to unix sockets: see unix-socket.h
 */

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/agent-error.h"
#include "util/unix-socket.h"

int btrail_unix_connect(const char *path, GError **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock;

    if (strlen(path) >= sizeof(address.sun_path)) {
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_SYSTEM,
                    "%s: too long for a socket", path);
        return -1;
    }
    strcpy(address.sun_path, path);
    sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, (const struct sockaddr *)&address,
                            sizeof(address)) < 0) {
        btrail_agent_error_errno(error, path);
        if (sock >= 0) {
            close(sock);
        }
        return -1;
    }
    return sock;
}
