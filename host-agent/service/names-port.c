/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ports through which guests say names: see names-port.h
 */

#include <fcntl.h>
#include <glib-unix.h>
#include <unistd.h>

#include "service/log.h"
#include "service/names-port.h"

struct port {
    struct names_ports *all;
    struct peer_process peer;
    int sock;
    guint gone;                 /* a source */
};

struct names_ports {
    GPtrArray *ports;           /* of struct port */
    unsigned most;
    names_port_fn *connected;
    void *opaque;
};

static void free_port(gpointer p)
{
    struct port *port = p;

    g_clear_handle_id(&port->gone, g_source_remove);
    close(port->sock);
    g_free(port);
}

struct names_ports *
names_ports_new(unsigned most, names_port_fn *connected,
                void *opaque)
{
    struct names_ports *all = g_new0(struct names_ports, 1);

    all->ports = g_ptr_array_new_with_free_func(free_port);
    all->most = most;
    all->connected = connected;
    all->opaque = opaque;
    return all;
}

void names_ports_free(struct names_ports *all)
{
    if (all) {
        g_ptr_array_unref(all->ports);
        g_free(all);
    }
}

static struct port *find(const struct names_ports *all,
                         const struct peer_process *peer)
{
    for (unsigned i = 0; i < all->ports->len; i++) {
        struct port *port = g_ptr_array_index(all->ports, i);

        if (peer_process_is_same(&port->peer, peer)) {
            return port;
        }
    }
    return NULL;
}

/* Its process has ended, or has unplugged it. */
static gboolean is_gone(gint fd, GIOCondition condition, gpointer opaque)
{
    struct port *port = opaque;

    port->gone = 0;
    g_ptr_array_remove(port->all->ports, port);
    return G_SOURCE_REMOVE;
}

void names_ports_add(void *opaque, int sock,
                     const struct peer_process *peer)
{
    struct names_ports *all = opaque;
    struct port *port = find(all, peer);

    if (port) {
        g_ptr_array_remove(all->ports, port);
    }
    if (all->ports->len >= all->most) {
        service_log(SERVICE_LOG_WARNING, "process %d cannot say names: there "
                    "are as many ports as there may be", (int)peer->pid);
        close(sock);
        return;
    }
    port = g_new0(struct port, 1);
    port->all = all;
    port->peer = *peer;
    port->sock = sock;
    /* What it sends waits until somebody reads it. */
    port->gone = g_unix_fd_add(sock, G_IO_HUP | G_IO_ERR, is_gone, port);
    g_ptr_array_add(all->ports, port);
    all->connected(all->opaque, peer);
}

int names_ports_get(const struct names_ports *all,
                    const struct peer_process *peer)
{
    const struct port *port = find(all, peer);

    return port ? fcntl(port->sock, F_DUPFD_CLOEXEC, 0) : -1;
}
