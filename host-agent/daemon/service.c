/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service: see service.h
 */

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <grp.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backtrail/transport.h"
#include "folder.h"
#include "guest.h"
#include "json.h"
#include "log.h"
#include "service.h"

/* Connections that have not said yet what they are */
#define MAX_NEW         256
#define NEW_TIMEOUT_S   10

/* Guests that are gone, and whose sessions can still be asked about */
#define MAX_GONE        256

/* How often it is looked at what is taken */
#define TICK_S          1

/* Guests whose devices have not come again by then are gone. */
#define LEFT_TIMEOUT_S  60

struct connection {
    struct btrail_service *service;
    int pid;
    unsigned uid;
    int sock;                       /* until it is known what it is */
    guint readable, timeout;
    struct btrail_control *control;
    struct btrail_guest *guest;     /* NULL before it has said */
};

struct btrail_service {
    struct btrail_config *config;
    struct btrail_folder *folder;
    char *state_path;
    int lock;
    int sock;
    guint accepting, ticking, saving, sweeping, leaving;
    GPtrArray *new;                 /* of struct connection */
    GPtrArray *connections;         /* of struct connection: control */
    GPtrArray *guests;              /* of struct btrail_guest */
    GPtrArray *left;                /* of struct btrail_state_capture */
    struct btrail_usage all;        /* as of the last tick */
    bool ending;
    void (*ended)(void *opaque);
    void *opaque;
};

/*
 * What guests ask their host
 */

static struct btrail_guest *guest_at(struct btrail_service *s, unsigned i)
{
    return g_ptr_array_index(s->guests, i);
}

static const struct btrail_config *host_config(void *opaque)
{
    struct btrail_service *s = opaque;

    return s->config;
}

/* Of all, as it is now; the disk is looked at. */
static void measure(struct btrail_service *s, struct btrail_usage *all)
{
    unsigned i;

    memset(all, 0, sizeof(*all));
    for (i = 0; i < s->guests->len; i++) {
        struct btrail_usage one = { 0 };

        btrail_guest_usage(guest_at(s, i), &one);
        all->sessions += one.sessions;
        all->memory += one.memory;
    }
    if (s->config->all.disk) {
        all->disk = btrail_folder_usage(s->folder);
    }
}

static void measure_guest(struct btrail_service *s, struct btrail_guest *g,
                          struct btrail_usage *usage)
{
    memset(usage, 0, sizeof(*usage));
    btrail_guest_usage(g, usage);
    if (s->config->each.disk) {
        usage->disk = btrail_folder_usage(btrail_guest_folder(g));
    }
}

static bool host_admit(void *opaque, struct btrail_guest *g, uint64_t memory,
                       GError **error)
{
    struct btrail_service *s = opaque;
    struct btrail_usage one, all;

    if (s->ending) {
        return btrail_daemon_fail(error, BTRAIL_DAEMON_ERROR_COMMAND,
                                  "the service is about to end");
    }
    measure_guest(s, g, &one);
    measure(s, &all);
    return btrail_quota_admit(s->config, &one, &all, memory,
                               btrail_folder_space(s->folder), error);
}

static bool is_left(struct btrail_service *s, const char *name, bool remove)
{
    unsigned i;

    for (i = 0; i < s->left->len; i++) {
        struct btrail_state_capture *c = g_ptr_array_index(s->left, i);

        if (!strcmp(c->name, name)) {
            if (remove) {
                g_ptr_array_remove_index(s->left, i);
            }
            return true;
        }
    }
    return false;
}

static gboolean save(gpointer opaque)
{
    struct btrail_service *s = opaque;
    g_autoptr(GPtrArray) captures = g_ptr_array_new();
    g_autoptr(GPtrArray) own = g_ptr_array_new_with_free_func(
        (GDestroyNotify)btrail_state_capture_free);
    g_autoptr(GError) error = NULL;
    unsigned i;

    s->saving = 0;
    for (i = 0; i < s->guests->len; i++) {
        struct btrail_state_capture *c = btrail_guest_save(guest_at(s, i));

        if (c) {
            g_ptr_array_add(own, c);
        }
        if (c && c->sessions->len) {
            g_ptr_array_add(captures, c);
            is_left(s, c->name, true);
        }
    }
    for (i = 0; i < s->left->len; i++) {
        g_ptr_array_add(captures, g_ptr_array_index(s->left, i));
    }
    if (!btrail_state_write(s->state_path, captures, &error)) {
        btrail_log(BTRAIL_LOG_ERROR, "sessions will be lost when this service "
                   "is restarted: %s", error->message);
    }
    return G_SOURCE_REMOVE;
}

static bool is_connected(struct btrail_service *s,
                         const struct btrail_guest *g)
{
    unsigned i;

    for (i = 0; i < s->connections->len; i++) {
        const struct connection *c = g_ptr_array_index(s->connections, i);

        if (c->guest == g) {
            return true;
        }
    }
    return false;
}

/* Forget guests that are gone, the first ones, if there are many. */
static void forget_gone(struct btrail_service *s, unsigned keep)
{
    unsigned i, n = 0;

    for (i = 0; i < s->guests->len; i++) {
        n += btrail_guest_is_idle(guest_at(s, i)) &&
             !is_connected(s, guest_at(s, i));
    }
    for (i = 0; i < s->guests->len && n > keep; ) {
        struct btrail_guest *g = guest_at(s, i);

        if (btrail_guest_is_idle(g) && !is_connected(s, g)) {
            g_ptr_array_remove_index(s->guests, i);
            btrail_guest_free(g);
            n--;
        } else {
            i++;
        }
    }
}

static bool all_done(struct btrail_service *s)
{
    struct btrail_usage all = { 0 };
    unsigned i;

    for (i = 0; i < s->guests->len; i++) {
        struct btrail_usage one = { 0 };

        btrail_guest_usage(guest_at(s, i), &one);
        all.sessions += one.sessions;
        all.sessions += btrail_guest_capture(guest_at(s, i)) != NULL;
    }
    return !all.sessions;
}

static gboolean sweep(gpointer opaque)
{
    struct btrail_service *s = opaque;

    s->sweeping = 0;
    forget_gone(s, MAX_GONE);
    if (s->ending && s->ended && all_done(s)) {
        void (*ended)(void *) = s->ended;

        s->ended = NULL;
        if (s->saving) {
            g_source_remove(s->saving);
            save(s);
        }
        ended(s->opaque);
    }
    return G_SOURCE_REMOVE;
}

static void sweep_later(struct btrail_service *s)
{
    if (!s->sweeping) {
        s->sweeping = g_idle_add(sweep, s);
    }
}

/* Once for all that happens at a time, but before anything else does */
static void host_changed(void *opaque)
{
    struct btrail_service *s = opaque;

    if (!s->saving) {
        s->saving = g_idle_add_full(G_PRIORITY_HIGH, save, s, NULL);
    }
    sweep_later(s);
}

static void host_idle(void *opaque, struct btrail_guest *g)
{
    sweep_later(opaque);
}

static void host_past(void *opaque, struct btrail_guest *g,
                      const char *session, JsonArray *sessions)
{
    struct btrail_service *s = opaque;
    const char *path = btrail_guest_folder(g)->path;
    unsigned i;

    for (i = 0; i < s->guests->len; i++) {
        if (guest_at(s, i) != g &&
            !strcmp(btrail_guest_folder(guest_at(s, i))->path, path)) {
            btrail_guest_past(guest_at(s, i), session, sessions);
        }
    }
}

static const struct btrail_guest_host host = {
    .config = host_config,
    .admit = host_admit,
    .changed = host_changed,
    .idle = host_idle,
    .past = host_past,
};

/*
 * Control connections
 */

static void connection_free(struct connection *c)
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

static struct btrail_guest *find_by_capture(struct btrail_service *s,
                                            const char *capture)
{
    unsigned i;

    for (i = 0; capture && i < s->guests->len; i++) {
        struct btrail_guest *g = guest_at(s, i);

        if (!g_strcmp0(btrail_guest_capture(g), capture) &&
            !is_connected(s, g)) {
            return g;
        }
    }
    return NULL;
}

/* One that is gone and had the same folder */
static struct btrail_guest *find_gone(struct btrail_service *s,
                                      const char *path)
{
    unsigned i;

    for (i = 0; i < s->guests->len; i++) {
        struct btrail_guest *g = guest_at(s, i);

        if (btrail_guest_is_idle(g) && !is_connected(s, g) &&
            !strcmp(btrail_guest_folder(g)->path, path)) {
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
        return btrail_daemon_fail(error, BTRAIL_DAEMON_ERROR_PEER,
                                  "the device broke the protocol: 'vcpus'");
    }
    if (name && strlen(name) > 255) {
        return btrail_daemon_fail(error, BTRAIL_DAEMON_ERROR_PEER,
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

/* What was left of this guest and is not active any more is over. */
static void forget_left(struct btrail_service *s, struct btrail_guest *g,
                        const char *capture)
{
    g_autofree char *folder =
        g_path_get_basename(btrail_guest_folder(g)->path);
    unsigned i;

    for (i = 0; i < s->left->len; ) {
        struct btrail_state_capture *c = g_ptr_array_index(s->left, i);

        if (!strcmp(c->folder, folder) && g_strcmp0(c->name, capture) &&
            !find_by_capture(s, c->name)) {
            btrail_guest_complete(btrail_guest_folder(g), c);
            g_ptr_array_remove_index(s->left, i);
            host_changed(s);
        } else {
            i++;
        }
    }
}

static const struct btrail_state_capture *
find_left(struct btrail_service *s, struct btrail_guest *g,
          const char *capture)
{
    g_autofree char *folder =
        g_path_get_basename(btrail_guest_folder(g)->path);
    unsigned i;

    for (i = 0; capture && i < s->left->len; i++) {
        const struct btrail_state_capture *c = g_ptr_array_index(s->left, i);

        if (!strcmp(c->name, capture) && !strcmp(c->folder, folder)) {
            return c;
        }
    }
    return NULL;
}

static bool on_guest(void *opaque, JsonObject *json, GError **error)
{
    struct connection *c = opaque;
    struct btrail_service *s = c->service;
    struct btrail_guest_identity identity = { NULL };
    JsonObject *info = btrail_json_object(json, "capture");
    const char *capture = info ? btrail_json_string(info, "session") : NULL;
    const struct btrail_state_capture *left;
    struct btrail_guest *g;

    if (s->ending) {
        return btrail_daemon_fail(error, BTRAIL_DAEMON_ERROR_COMMAND,
                                  "the service is about to end");
    }
    if (!take_identity(c, json, &identity, error)) {
        g_free(identity.name);
        return false;
    }
    g = find_by_capture(s, capture);
    if (!g || strcmp(btrail_guest_folder(g)->path, identity.folder->path)) {
        g = find_gone(s, identity.folder->path);
    }
    if (g) {
        g_free(identity.name);
        btrail_folder_free(identity.folder);
    } else {
        g = btrail_guest_new(&identity, &host, s);
        g_ptr_array_add(s->guests, g);
    }
    c->guest = g;
    btrail_log(BTRAIL_LOG_DEBUG, "guest %s: connected, process %d",
               btrail_guest_name(g), c->pid);
    left = g_strcmp0(btrail_guest_capture(g), capture) ?
           find_left(s, g, capture) : NULL;
    forget_left(s, g, capture);
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

    btrail_log(g_error_matches(why, BTRAIL_DAEMON_ERROR,
                               BTRAIL_DAEMON_ERROR_PEER) && g ?
               BTRAIL_LOG_DEBUG : BTRAIL_LOG_WARNING,
               "%s%s: %s", g ? "guest " : "a device",
               g ? btrail_guest_name(g) : "", why->message);
    g_ptr_array_remove(s->connections, c);
    if (g) {
        btrail_guest_connect(g, NULL, NULL);
    }
    connection_free(c);
    sweep_later(s);
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
    connection_free(c);
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
 * Limits, while sessions run
 */

static void check_guest(struct btrail_service *s, struct btrail_guest *g)
{
    struct btrail_usage usage;
    const char *why;

    measure_guest(s, g, &usage);
    why = btrail_quota_guest_exceeded(s->config, &usage);
    if (why) {
        btrail_guest_end(g, why);
    }
}

/* One at a time: it may do to end the one that takes the most. */
static void check_all(struct btrail_service *s)
{
    struct btrail_guest *largest = NULL;
    struct btrail_usage all;
    uint64_t most = 0, space = btrail_folder_space(s->folder);
    const char *why;
    unsigned i;

    measure(s, &all);
    why = btrail_quota_all_exceeded(s->config, &all, space);
    if (!why) {
        return;
    }
    for (i = 0; i < s->guests->len; i++) {
        if (space < s->config->keep_free / 2) {
            btrail_guest_end(guest_at(s, i), why);
        } else if (btrail_guest_largest(guest_at(s, i)) > most) {
            most = btrail_guest_largest(guest_at(s, i));
            largest = guest_at(s, i);
        }
    }
    if (largest) {
        btrail_guest_end_largest(largest, why);
    }
}

static gboolean tick(gpointer opaque)
{
    struct btrail_service *s = opaque;
    bool active = false;
    unsigned i;

    for (i = 0; i < s->guests->len; i++) {
        if (btrail_guest_capture(guest_at(s, i))) {
            active = true;
            check_guest(s, guest_at(s, i));
        }
    }
    if (active) {
        check_all(s);
    }
    return G_SOURCE_CONTINUE;
}

/*
 * Begin and end
 */

static bool set_group(const char *path, const char *group, GError **error)
{
    struct group *g;

    if (!group) {
        return true;
    }
    g = getgrnam(group);
    if (!g) {
        return btrail_daemon_fail(error, BTRAIL_DAEMON_ERROR_CONFIG,
                                  "there is no group '%s'", group);
    }
    return !lchown(path, -1, g->gr_gid) ||
           btrail_daemon_fail_errno(error, "%s: group %s", path, group);
}

static bool listen_at(struct btrail_service *s, GError **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const char *path = s->config->socket;
    g_autofree char *folder = g_path_get_dirname(path);
    mode_t old;
    bool bound;

    if (strlen(path) >= sizeof(address.sun_path)) {
        return btrail_daemon_fail(error, BTRAIL_DAEMON_ERROR_CONFIG,
                                  "%s: too long for a socket", path);
    }
    strcpy(address.sun_path, path);
    if (g_mkdir_with_parents(folder, 0755) < 0) {
        return btrail_daemon_fail_errno(error, "%s", folder);
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
    if (!bound) {
        return btrail_daemon_fail_errno(error, "%s", path);
    }
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

/* One process for a state folder, and so for its sessions */
static bool lock_state(struct btrail_service *s, GError **error)
{
    g_autofree char *path = g_build_filename(s->config->state, "lock", NULL);

    if (g_mkdir_with_parents(s->config->state, 0700) < 0) {
        return btrail_daemon_fail_errno(error, "%s", s->config->state);
    }
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock < 0) {
        return btrail_daemon_fail_errno(error, "%s", path);
    }
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK) {
            return btrail_daemon_fail(error, BTRAIL_DAEMON_ERROR_CONFIG,
                                      "another backtraild runs with %s",
                                      s->config->state);
        }
        return btrail_daemon_fail_errno(error, "%s", path);
    }
    return true;
}

/* Devices come again within a second; who has not is gone. */
static gboolean left_alone(gpointer opaque)
{
    struct btrail_service *s = opaque;
    unsigned i;

    s->leaving = 0;
    for (i = 0; i < s->left->len; ) {
        struct btrail_state_capture *c = g_ptr_array_index(s->left, i);
        g_autofree char *path = g_build_filename(s->folder->path, c->folder,
                                                 NULL);
        struct btrail_folder *folder;

        if (find_by_capture(s, c->name)) {
            i++;
            continue;
        }
        folder = btrail_folder_open(path, NULL);
        if (folder) {
            btrail_guest_complete(folder, c);
            btrail_folder_free(folder);
        }
        g_ptr_array_remove_index(s->left, i);
        host_changed(s);
    }
    return G_SOURCE_REMOVE;
}

static void read_state(struct btrail_service *s)
{
    g_autoptr(GError) error = NULL;

    s->state_path = g_build_filename(s->config->state, "sessions.json", NULL);
    s->left = btrail_state_read(s->state_path, &error);
    if (!s->left) {
        btrail_log(BTRAIL_LOG_ERROR, "sessions of before do not go on: %s",
                   error->message);
        s->left = g_ptr_array_new_with_free_func(
            (GDestroyNotify)btrail_state_capture_free);
    }
    if (s->left->len) {
        btrail_log(BTRAIL_LOG_INFO, "%u guests were being traced; their "
                   "sessions go on as they connect", s->left->len);
        s->leaving = g_timeout_add_seconds(LEFT_TIMEOUT_S, left_alone, s);
    }
}

struct btrail_service *btrail_service_new(struct btrail_config *config,
                                          GError **error)
{
    struct btrail_service *s = g_new0(struct btrail_service, 1);

    s->config = config;
    s->sock = s->lock = -1;
    s->new = g_ptr_array_new();
    s->connections = g_ptr_array_new();
    s->guests = g_ptr_array_new();
    s->folder = btrail_folder_open(config->traces, error);
    if (!s->folder || !lock_state(s, error)) {
        goto fail;
    }
    read_state(s);
    if (!listen_at(s, error)) {
        goto fail;
    }
    s->ticking = g_timeout_add_seconds(TICK_S, tick, s);
    return s;

fail:
    btrail_service_free(s);
    return NULL;
}

void btrail_service_reload(struct btrail_service *s,
                           struct btrail_config *config)
{
    struct btrail_config *old = s->config;

    if (strcmp(config->socket, old->socket) ||
        strcmp(config->traces, old->traces) ||
        strcmp(config->state, old->state) ||
        config->socket_mode != old->socket_mode ||
        g_strcmp0(config->socket_group, old->socket_group)) {
        btrail_log(BTRAIL_LOG_WARNING, "socket and folders stay as they are "
                   "until the service is restarted");
    }
    g_free(config->socket);
    g_free(config->traces);
    g_free(config->state);
    config->socket = g_strdup(old->socket);
    config->traces = g_strdup(old->traces);
    config->state = g_strdup(old->state);
    s->config = config;
    btrail_config_free(old);
}

void btrail_service_end(struct btrail_service *s,
                        void (*done)(void *opaque), void *opaque)
{
    unsigned i;

    s->ending = true;
    s->ended = done;
    s->opaque = opaque;
    for (i = 0; i < s->guests->len; i++) {
        btrail_guest_end(guest_at(s, i), "the service has ended");
    }
    sweep_later(s);
}

static void clear_source(guint *source)
{
    if (*source) {
        g_source_remove(*source);
        *source = 0;
    }
}

void btrail_service_free(struct btrail_service *s)
{
    unsigned i;

    if (!s) {
        return;
    }
    clear_source(&s->accepting);
    clear_source(&s->ticking);
    clear_source(&s->leaving);
    if (s->sock >= 0) {
        unlink(s->config->socket);
        close(s->sock);
    }
    for (i = 0; i < s->new->len; i++) {
        connection_free(g_ptr_array_index(s->new, i));
    }
    for (i = 0; i < s->connections->len; i++) {
        struct connection *c = g_ptr_array_index(s->connections, i);

        if (c->guest) {
            btrail_guest_connect(c->guest, NULL, NULL);
        }
        connection_free(c);
    }
    g_ptr_array_set_size(s->connections, 0);
    forget_gone(s, 0);
    clear_source(&s->saving);
    clear_source(&s->sweeping);
    g_ptr_array_unref(s->new);
    g_ptr_array_unref(s->connections);
    g_ptr_array_unref(s->guests);
    if (s->left) {
        g_ptr_array_unref(s->left);
    }
    btrail_folder_free(s->folder);
    if (s->lock >= 0) {
        close(s->lock);
    }
    g_free(s->state_path);
    btrail_config_free(s->config);
    g_free(s);
}
