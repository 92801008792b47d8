/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections of devices to the service: see service-private.h
 */

#include <errno.h>
#include <glib-unix.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backtrail/transport.h"
#include "util/json.h"
#include "service/log.h"
#include "service/service-private.h"

/* Connections that have not said yet what they are */
#define MAX_NEW         256
#define NEW_TIMEOUT_S   10

void service_connection_free(struct connection *c)
{
    if (c->readable) {
        g_source_remove(c->readable);
    }
    if (c->timeout) {
        g_source_remove(c->timeout);
    }
    if (c->sock >= 0) {
        close(c->sock);
    }
    btrail_control_free(c->control);
    g_free(c);
}

/*
 * Control connections
 */

/* Is it one folder, and not another one that has taken its place? */
static bool same_folder(const struct btrail_folder *a,
                        const struct btrail_folder *b)
{
    struct stat x, y;

    return !strcmp(a->path, b->path) && !fstat(a->fd, &x) &&
           !fstat(b->fd, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* One that is gone and had the same folder, and so the same name */
static struct btrail_guest *find_gone(struct btrail_service *s,
                                      const struct btrail_folder *folder)
{
    unsigned i;

    for (i = 0; i < s->guests->len; i++) {
        struct btrail_guest *g = guest_at(s, i);

        if (btrail_guest_is_idle(g) && !service_is_connected(s, g) &&
            same_folder(btrail_guest_folder(g), folder)) {
            return g;
        }
    }
    return NULL;
}

static bool take_identity(struct connection *c, JsonObject *json,
                          struct btrail_guest_identity *identity,
                          GError **error)
{
    const char *name = btrail_json_string(json, "name");
    gint64 vcpus = btrail_json_int(json, "vcpus", 0);

    if (vcpus < 1 || vcpus > BTRAIL_MAX_VCPUS) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_PEER,
                                  "the device broke the protocol: 'vcpus'");
    }
    if (name && strlen(name) > 255) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_PEER,
                                  "the guest's name is too long");
    }
    identity->vcpus = vcpus;
    identity->name = name && *name ? g_strdup(name) :
                     g_strdup_printf("qemu-%d", c->pid);
    identity->folder = btrail_folder_guest(
        c->service->folder, identity->name, btrail_json_string(json, "uuid"),
        c->uid, error);
    return identity->folder;
}

static bool on_guest(void *opaque, JsonObject *json, GError **error)
{
    struct connection *c = opaque;
    struct btrail_service *s = c->service;
    struct btrail_guest_identity identity = { .cpu = s->cpu };
    JsonObject *info = btrail_json_object(json, "capture");
    const char *capture = info ? btrail_json_string(info, "capture") : NULL;
    struct btrail_state_capture *left;
    struct btrail_guest *g;

    if (s->ending) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_COMMAND,
                                  "the service is about to end");
    }
    if (!take_identity(c, json, &identity, error)) {
        g_free(identity.name);
        return false;
    }
    g = service_find_capture(s, capture);
    if (!g || strcmp(btrail_guest_folder(g)->path, identity.folder->path)) {
        g = find_gone(s, identity.folder);
        if (g) {
            btrail_guest_set_vcpus(g, identity.vcpus);
        }
    }
    if (g) {
        g_free(identity.name);
        btrail_folder_free(identity.folder);
    } else {
        g = btrail_guest_new(&identity, &service_guest_host, s);
        g_ptr_array_add(s->guests, g);
    }
    c->guest = g;
    btrail_log(BTRAIL_LOG_DEBUG, "guest %s: connected, process %d",
               btrail_guest_name(g), c->pid);
    left = g_strcmp0(btrail_guest_capture(g), capture) ?
           service_find_left(s, g, capture) : NULL;
    service_forget_left(s, g, capture);
    if (left) {
        btrail_guest_connect(g, c->control, NULL);
        btrail_guest_restore(g, left);
    } else {
        btrail_guest_connect(g, c->control, capture);
    }
    return true;
}

static void on_command(void *opaque, gint64 id, JsonObject *command)
{
    struct connection *c = opaque;

    btrail_guest_command(c->guest, id, command);
}

static void on_event(void *opaque, const char *event, JsonObject *data)
{
    struct connection *c = opaque;

    btrail_guest_event(c->guest, event, data);
}

static void on_closed(void *opaque, const GError *why)
{
    struct connection *c = opaque;
    struct btrail_service *s = c->service;
    struct btrail_guest *g = c->guest;

    btrail_log(g_error_matches(why, BTRAIL_SERVICE_ERROR,
                               BTRAIL_SERVICE_ERROR_PEER) && g ?
               BTRAIL_LOG_DEBUG : BTRAIL_LOG_WARNING,
               "%s%s: %s", g ? "guest " : "a device",
               g ? btrail_guest_name(g) : "", why->message);
    g_ptr_array_remove(s->connections, c);
    if (g) {
        btrail_guest_connect(g, NULL, NULL);
    }
    service_connection_free(c);
    service_sweep_later(s);
}

static const struct btrail_control_handler control_handler = {
    .guest = on_guest,
    .command = on_command,
    .event = on_event,
    .closed = on_closed,
};

/*
 * New connections
 */

/* That of the same process which waits for data */
static struct btrail_guest *find_awaiting(struct btrail_service *s, int pid)
{
    unsigned i;

    for (i = 0; i < s->connections->len; i++) {
        const struct connection *c = g_ptr_array_index(s->connections, i);

        if (c->pid == pid && c->guest &&
            btrail_guest_awaits_data(c->guest)) {
            return c->guest;
        }
    }
    return NULL;
}

/* @c is freed. */
static void drop_new(struct connection *c, const char *why)
{
    if (why) {
        btrail_log(BTRAIL_LOG_WARNING, "a connection of process %d: %s",
                   c->pid, why);
    }
    g_ptr_array_remove(c->service->new, c);
    service_connection_free(c);
}

static void take_control(struct connection *c)
{
    struct btrail_service *s = c->service;

    if (s->connections->len >= s->config->guests) {
        drop_new(c, "there are as many guests as there may be");
        return;
    }
    g_ptr_array_remove(s->new, c);
    g_ptr_array_add(s->connections, c);
    c->control = btrail_control_new(c->sock, &control_handler, c);
    c->sock = -1;
}

static void take_data(struct connection *c)
{
    struct btrail_guest *g = find_awaiting(c->service, c->pid);

    if (!g) {
        drop_new(c, "nobody has asked it for records; start a session by "
                 "branch-trace-agent, not by branch-trace-start");
        return;
    }
    btrail_guest_data(g, c->sock);
    c->sock = -1;
    drop_new(c, NULL);
}

static gboolean new_readable(gint fd, GIOCondition condition, gpointer opaque)
{
    struct connection *c = opaque;
    struct btrail_msg msg;
    ssize_t n = recv(fd, &msg, sizeof(msg), MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return G_SOURCE_CONTINUE;
    }
    c->readable = 0;
    if (n < (ssize_t)sizeof(msg)) {
        /* A message comes as one, if its sender means well. */
        drop_new(c, n > 0 ? "this is not a message" : NULL);
    } else if (msg.magic != BTRAIL_MSG_MAGIC ||
               msg.version != BTRAIL_TRANSPORT_VERSION) {
        drop_new(c, "it does not speak this version of the transport; QEMU "
                 "and backtraild do not match");
    } else if (msg.type == BTRAIL_MSG_JSON) {
        g_source_remove(c->timeout);
        c->timeout = 0;
        take_control(c);
    } else if (msg.type == BTRAIL_MSG_HELLO) {
        take_data(c);
    } else {
        drop_new(c, "this is not a first message");
    }
    return G_SOURCE_REMOVE;
}

static gboolean new_timeout(gpointer opaque)
{
    struct connection *c = opaque;

    c->timeout = 0;
    drop_new(c, "it says nothing");
    return G_SOURCE_REMOVE;
}

void btrail_service_accept(struct btrail_service *s, int sock, int pid,
                           unsigned uid)
{
    struct connection *c;

    if (s->new->len >= MAX_NEW) {
        btrail_log(BTRAIL_LOG_WARNING, "too many connections that say "
                   "nothing");
        close(sock);
        return;
    }
    c = g_new0(struct connection, 1);
    c->service = s;
    c->sock = sock;
    c->pid = pid;
    c->uid = uid;
    c->readable = g_unix_fd_add(sock, G_IO_IN, new_readable, c);
    c->timeout = g_timeout_add_seconds(NEW_TIMEOUT_S, new_timeout, c);
    g_ptr_array_add(s->new, c);
}

static gboolean acceptable(gint fd, GIOCondition condition, gpointer opaque)
{
    struct btrail_service *s = opaque;
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (sock < 0) {
        if (errno == EMFILE || errno == ENFILE) {
            btrail_log(BTRAIL_LOG_ERROR, "no more connections: %s",
                       g_strerror(errno));
            g_usleep(10000);
        }
        return G_SOURCE_CONTINUE;
    }
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
        close(sock);
        return G_SOURCE_CONTINUE;
    }
    btrail_service_accept(s, sock, cred.pid, cred.uid);
    return G_SOURCE_CONTINUE;
}

/*
 * The socket
 */

static bool set_group(const char *path, const char *group, GError **error)
{
    struct group *g;

    if (!group) {
        return true;
    }
    g = getgrnam(group);
    if (!g) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_CONFIG,
                                  "there is no group '%s'", group);
    }
    return !lchown(path, -1, g->gr_gid) ||
           btrail_daemon_fail_errno(error, "%s: group %s", path, group);
}

/* The file may be another's by now. */
void service_hush(struct btrail_service *s)
{
    struct stat st;

    g_clear_handle_id(&s->accepting, g_source_remove);
    if (s->sock_ino && !lstat(s->config->socket, &st) &&
        st.st_dev == s->sock_dev && st.st_ino == s->sock_ino) {
        unlink(s->config->socket);
    }
    s->sock_ino = 0;
    if (s->sock >= 0) {
        close(s->sock);
        s->sock = -1;
    }
    /* The lock's file stays: who opens it may have done so already. */
    if (s->sock_lock >= 0) {
        close(s->sock_lock);
        s->sock_lock = -1;
    }
}

bool service_listen(struct btrail_service *s, GError **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const char *path = s->config->socket;
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *lock = g_strconcat(path, ".lock", NULL);
    struct stat st;
    mode_t old;
    bool bound;

    if (strlen(path) >= sizeof(address.sun_path)) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_CONFIG,
                                  "%s: too long for a socket", path);
    }
    strcpy(address.sun_path, path);
    if (g_mkdir_with_parents(folder, 0755) < 0) {
        return btrail_daemon_fail_errno(error, "%s", folder);
    }
    s->sock_lock = service_lock(lock, "listens at", path, error);
    if (s->sock_lock < 0) {
        return false;
    }
    s->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->sock < 0) {
        return btrail_daemon_fail_errno(error, "socket");
    }
    /* It is nobody's: the lock is ours. */
    unlink(path);
    /* Nobody gets in before the permissions are right. */
    old = umask(0777);
    bound = !bind(s->sock, (struct sockaddr *)&address, sizeof(address));
    umask(old);
    if (!bound || lstat(path, &st) < 0) {
        return btrail_daemon_fail_errno(error, "%s", path);
    }
    s->sock_dev = st.st_dev;
    s->sock_ino = st.st_ino;
    if (!set_group(path, s->config->socket_group, error)) {
        return false;
    }
    if (chmod(path, s->config->socket_mode) < 0 ||
        listen(s->sock, 128) < 0) {
        return btrail_daemon_fail_errno(error, "%s", path);
    }
    s->accepting = g_unix_fd_add(s->sock, G_IO_IN, acceptable, s);
    return true;
}
