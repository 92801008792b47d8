/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Notifications to systemd: see notify.h
 */

#include <errno.h>
#include <glib.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "service/log.h"
#include "service/notify.h"
#include "util/close.h"

void service_notify(const char *state)
{
    const char *path = g_getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t n = path ? strlen(path) : 0;
    int sock;

    if (n < 2 || n >= sizeof(address.sun_path) || !strchr("/@", *path)) {
        return;
    }
    memcpy(address.sun_path, path, n);
    if (*path == '@') {
        address.sun_path[0] = '\0';
    }
    sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0 ||
        sendto(sock, state, strlen(state), MSG_NOSIGNAL,
               (struct sockaddr *)&address,
               offsetof(struct sockaddr_un, sun_path) + n) < 0) {
        service_log(SERVICE_LOG_WARNING, "cannot notify %s of '%s': %s", path,
                    state, g_strerror(errno));
    }
    btrail_close(sock);
}
