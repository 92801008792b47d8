/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections of devices to the service: see service-connection.h
 */

#include <errno.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backtrail/transport.h"
#include "service/guest-command.h"
#include "service/guest-restore.h"
#include "service/log.h"
#include "service/quota.h"
#include "service/ring-folder.h"
#include "service/service-connection.h"
#include "service/service-state.h"
#include "util/close.h"
#include "util/json.h"

/* Connections that have not sent anything yet */
#define MAX_UNKNOWN         256
#define UNKNOWN_TIMEOUT_S   10

/* QEMU has one, and may connect again before the end of that is known. */
#define MAX_OF_PROCESS      4

struct connection {
    struct connections *all;
    struct peer_process peer;
    int sock;                       /* -1 once it is another's */
    guint readable, timeout;
    struct control *control;
    struct guest *guest;            /* NULL before the device has named it */
};

static void free_connection(struct connection *c)
{
    g_clear_handle_id(&c->readable, g_source_remove);
    g_clear_handle_id(&c->timeout, g_source_remove);
    btrail_close(c->sock);
    control_free(c->control);
    g_free(c);
}

/*
 * Control connections
 */

/* Is it one folder, and not another one that has taken its place? */
static bool same_folder(const struct folder *a,
                        const struct folder *b)
{
    struct stat x, y;

    return !strcmp(a->path, b->path) && !fstat(a->fd, &x) &&
           !fstat(b->fd, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The guest @json describes, which the device has just sent */
static struct guest *find_guest(struct connection *c, JsonObject *json,
                                const char *capture, GError **error)
{
    struct host *host = c->all->host;
    const char *text = btrail_json_string(json, "name");
    gint64 vcpus = btrail_json_int(json, "vcpus", 0);
    g_autofree char *name = NULL;
    struct guest *gone = NULL;
    struct folder *folder;

    if (vcpus < 1 || vcpus > BTRAIL_MAX_VCPUS) {
        service_fail(error, SERVICE_ERROR_PEER,
                     "the device broke the protocol: 'vcpus'");
        return NULL;
    }
    if (text && strlen(text) > 255) {
        service_fail(error, SERVICE_ERROR_PEER,
                     "the guest's name is too long");
        return NULL;
    }
    name = text && *text ? g_strdup(text) :
                           g_strdup_printf("qemu-%d", (int)c->peer.pid);
    folder = folder_guest(host->folder, name,
                          btrail_json_string(json, "uuid"), c->peer.uid,
                          error);
    if (!folder) {
        return NULL;
    }
    part_ring_folder_remove_left(folder);
    for (unsigned i = 0; i < host->guests->len; i++) {
        struct guest *g = g_ptr_array_index(host->guests, i);

        if (g->link.control) {
            continue;
        }
        /* A name is no proof, nor is a capture's. */
        if (capture && !g_strcmp0(g->capture.name, capture) &&
            *c->peer.process &&
            !g_strcmp0(g->link.process, c->peer.process) &&
            !strcmp(g->folder->path, folder->path)) {
            folder_free(folder);
            return g;
        }
        if (!gone && guest_is_idle(g) &&
            same_folder(g->folder, folder)) {
            gone = g;
        }
    }
    if (gone) {
        /* It may have been started again with more vCPUs. */
        gone->vcpus = vcpus;
        folder_free(folder);
        return gone;
    }
    return guest_new(host, g_steal_pointer(&name), vcpus, folder);
}

static bool on_guest(void *opaque, JsonObject *json, GError **error)
{
    struct connection *c = opaque;
    struct host *host = c->all->host;
    JsonObject *info = btrail_json_object(json, "capture");
    const char *capture = info ? btrail_json_string(info, "capture") : NULL;
    JsonObject *left;
    struct guest *g;

    if (host->ending) {
        return service_fail(error, SERVICE_ERROR_COMMAND,
                            "the service is about to end");
    }
    g = find_guest(c, json, capture, error);
    if (!g) {
        return false;
    }
    c->guest = g;
    service_log(SERVICE_LOG_DEBUG, "guest %s: connected, process %d",
                g->link.name, (int)c->peer.pid);
    if (!*c->peer.process) {
        service_log(SERVICE_LOG_WARNING, "guest %s: /proc does not show its "
                    "process; its sessions will not continue if this service "
                    "restarts", g->link.name);
    }
    g_free(g->link.process);
    g->link.process = g_strdup(c->peer.process);
    g->link.uid = c->peer.uid;
    left = g_strcmp0(g->capture.name, capture) ?
           service_state_find(host->state, g->folder, g->link.process,
                              capture) : NULL;
    service_state_forget(host->state, g->link.process, capture);
    if (left) {
        guest_connect(g, c->control, NULL);
        guest_restore(g, left);
    } else {
        guest_connect(g, c->control, capture);
    }
    return true;
}

static void on_command(void *opaque, gint64 id, JsonObject *command)
{
    struct connection *c = opaque;

    guest_command(c->guest, id, command);
}

static void on_event(void *opaque, const char *event, JsonObject *data)
{
    struct connection *c = opaque;

    guest_event(c->guest, event, data);
}

/* @c is freed. */
static void remove_control(struct connection *c)
{
    g_ptr_array_remove(c->all->control, c);
    if (c->guest) {
        guest_connect(c->guest, NULL, NULL);
    }
    free_connection(c);
}

static void on_closed(void *opaque, const GError *why)
{
    struct connection *c = opaque;
    struct guest *g = c->guest;

    service_log(g_error_matches(why, SERVICE_ERROR,
                                SERVICE_ERROR_PEER) && g ?
                SERVICE_LOG_DEBUG : SERVICE_LOG_WARNING,
                "%s%s: %s", g ? "guest " : "a device", g ? g->link.name : "",
                why->message);
    remove_control(c);
}

static const struct control_handler control_handler = {
    .guest = on_guest,
    .command = on_command,
    .event = on_event,
    .closed = on_closed,
};

/*
 * New connections
 */

/* The guest of the same process that waits for data */
static struct guest *find_awaiting(const struct connection *data)
{
    for (unsigned i = 0; i < data->all->control->len; i++) {
        const struct connection *c = g_ptr_array_index(data->all->control, i);

        if (peer_process_is_same(&c->peer, &data->peer) && c->guest &&
            guest_capture_awaits_data(&c->guest->capture)) {
            return c->guest;
        }
    }
    return NULL;
}

/* @c is freed. */
static void drop_unknown(struct connection *c, const char *why)
{
    if (why) {
        service_log(SERVICE_LOG_WARNING, "a connection of process %d: %s",
                    (int)c->peer.pid, why);
    }
    g_ptr_array_remove(c->all->unknown, c);
    free_connection(c);
}

/*
 * Shares: whoever has the most gives way, so that it shuts out nobody else
 */

/* Nobody needs it: a device connects again for the next command. */
static bool is_idle(const struct connection *c)
{
    return !c->control ||
           (control_is_idle(c->control) &&
            (!c->guest || guest_is_untraced(c->guest)));
}

static unsigned count_of(GHashTable *counts, gpointer of)
{
    return GPOINTER_TO_UINT(g_hash_table_lookup(counts, of));
}

static void count(GHashTable *counts, gpointer of)
{
    g_hash_table_insert(counts, of,
                        GUINT_TO_POINTER(count_of(counts, of) + 1));
}

/*
 * The oldest idle connection of the process that has the most, among those of
 * the user who has the most, or of @only unless that is NULL; or NULL.
 */
static struct connection *find_dispensable(GPtrArray *list, const uid_t *only)
{
    g_autoptr(GHashTable) users = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) processes = g_hash_table_new(NULL, NULL);
    unsigned most_of_user = 0, most_of_process = 0;
    struct connection *found = NULL;

    for (unsigned i = 0; i < list->len; i++) {
        const struct connection *c = g_ptr_array_index(list, i);

        count(users, GUINT_TO_POINTER(c->peer.uid));
        count(processes, GUINT_TO_POINTER(c->peer.pid));
    }
    for (unsigned i = 0; i < list->len; i++) {
        struct connection *c = g_ptr_array_index(list, i);
        unsigned of_user = count_of(users, GUINT_TO_POINTER(c->peer.uid));
        unsigned of_process = count_of(processes,
                                       GUINT_TO_POINTER(c->peer.pid));

        if ((only && c->peer.uid != *only) || !is_idle(c) ||
            of_user < most_of_user || (of_user == most_of_user &&
                                       of_process <= most_of_process)) {
            continue;
        }
        most_of_user = of_user;
        most_of_process = of_process;
        found = c;
    }
    return found;
}

/* Closes a control connection; @c is freed. */
static void drop_control(struct connection *c, const char *why)
{
    service_log(SERVICE_LOG_DEBUG, "%s%s: hung up, %s", c->guest ? "guest " :
                "a device", c->guest ? c->guest->link.name : "", why);
    remove_control(c);
}

/* Makes room for the guest that @c is of; or returns why there is none. */
static const char *make_room(const struct connection *c)
{
    GPtrArray *control = c->all->control;
    uint64_t most = c->all->host->config->guests;
    unsigned of_user = 0, of_process = 0;
    struct connection *other;

    for (unsigned i = 0; i < control->len; i++) {
        other = g_ptr_array_index(control, i);
        of_user += other->peer.uid == c->peer.uid;
        of_process += other->peer.pid == c->peer.pid;
    }
    if (of_process >= MAX_OF_PROCESS) {
        return "its process is connected too often";
    }
    if (of_user >= quota_share(most)) {
        other = find_dispensable(control, &c->peer.uid);
        if (!other) {
            return "its user has as many guests as one user may have";
        }
        drop_control(other, "its user has as many guests as it may have");
    }
    if (control->len >= most) {
        other = find_dispensable(control, NULL);
        if (!other) {
            return "there are as many guests as there may be";
        }
        drop_control(other, "there are as many guests as there may be");
    }
    return NULL;
}

static void take_control(struct connection *c)
{
    struct connections *all = c->all;
    const char *why = make_room(c);

    if (why) {
        drop_unknown(c, why);
        return;
    }
    g_ptr_array_remove(all->unknown, c);
    g_ptr_array_add(all->control, c);
    c->control = control_new(c->sock, &control_handler, c);
    c->sock = -1;
}

/*
 * Names
 */

/* Has a guest that is traced asked for names, if its process has a port. */
static void ask_guest(struct connection *c)
{
    int sock = guest_capture_asks(&c->guest->capture) ?
               names_ports_get(c->all->ports, &c->peer) : -1;

    if (sock >= 0) {
        guest_capture_ask(&c->guest->capture, sock);
    }
}

/* A process has connected its port. */
static void got_port(void *opaque, const struct peer_process *peer)
{
    struct connections *all = opaque;

    for (unsigned i = 0; i < all->control->len; i++) {
        struct connection *c = g_ptr_array_index(all->control, i);

        if (c->guest && peer_process_is_same(&c->peer, peer)) {
            ask_guest(c);
        }
    }
}

static void take_data(struct connection *c)
{
    struct guest *g = find_awaiting(c);

    if (!g) {
        drop_unknown(c, "no session requests its records; start a session by "
                     "branch-trace-agent, not by branch-trace-start");
        return;
    }
    guest_capture_data(&g->capture, c->sock);
    c->sock = -1;
    c->guest = g;
    ask_guest(c);
    c->guest = NULL;
    drop_unknown(c, NULL);
}

static gboolean unknown_readable(gint fd, GIOCondition condition,
                                 gpointer opaque)
{
    struct connection *c = opaque;
    struct btrail_msg msg;
    ssize_t n = recv(fd, &msg, sizeof(msg), MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return G_SOURCE_CONTINUE;
    }
    c->readable = 0;
    if (n < (ssize_t)sizeof(msg)) {
        /* A device sends its first message as a whole. */
        drop_unknown(c, n > 0 ? "this is not a message" : NULL);
    } else if (msg.magic != BTRAIL_MSG_MAGIC ||
               msg.version != BTRAIL_TRANSPORT_VERSION) {
        drop_unknown(c, "unknown version of the transport; QEMU and "
                     "backtraild do not match");
    } else if (msg.type == BTRAIL_MSG_JSON) {
        g_clear_handle_id(&c->timeout, g_source_remove);
        take_control(c);
    } else if (msg.type == BTRAIL_MSG_HELLO) {
        take_data(c);
    } else {
        drop_unknown(c, "this is not a first message");
    }
    return G_SOURCE_REMOVE;
}

static gboolean unknown_timeout(gpointer opaque)
{
    struct connection *c = opaque;

    c->timeout = 0;
    drop_unknown(c, "it sends nothing");
    return G_SOURCE_REMOVE;
}

void connections_add(void *opaque, int sock,
                     const struct peer_process *peer)
{
    struct connections *all = opaque;
    struct connection *c;

    if (all->unknown->len >= MAX_UNKNOWN) {
        drop_unknown(find_dispensable(all->unknown, NULL),
                     "too many connections send nothing");
    }
    c = g_new0(struct connection, 1);
    c->all = all;
    c->sock = sock;
    c->peer = *peer;
    c->readable = g_unix_fd_add(sock, G_IO_IN, unknown_readable, c);
    c->timeout = g_timeout_add_seconds(UNKNOWN_TIMEOUT_S, unknown_timeout, c);
    g_ptr_array_add(all->unknown, c);
}

void connections_init(struct connections *all,
                      struct host *host)
{
    all->host = host;
    all->unknown = g_ptr_array_new();
    all->control = g_ptr_array_new();
    all->ports = names_ports_new(host->config->guests, got_port, all);
}

void connections_clear(struct connections *all)
{
    for (unsigned i = 0; i < all->unknown->len; i++) {
        free_connection(g_ptr_array_index(all->unknown, i));
    }
    while (all->control->len) {
        remove_control(g_ptr_array_index(all->control, 0));
    }
    names_ports_free(all->ports);
    g_ptr_array_unref(all->unknown);
    g_ptr_array_unref(all->control);
}
