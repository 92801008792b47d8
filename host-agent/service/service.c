/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service: see service.h
 */

#include <string.h>
#include <unistd.h>

#include "util/clock.h"
#include "service/log.h"
#include "service/service-private.h"

/* Guests that are gone, and whose sessions can still be asked about */
#define MAX_GONE        256

/* How often it is looked at what is taken */
#define TICK_S          1

/*
 * What guests ask their host
 */

static struct btrail_symbol_files host_files(void *opaque)
{
    struct btrail_service *s = opaque;

    return s->files;
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
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_COMMAND,
                                  "the service is about to end");
    }
    measure_guest(s, g, &one);
    measure(s, &all);
    return btrail_quota_admit(s->config, &one, &all, memory,
                               btrail_folder_space(s->folder), error);
}

bool service_is_connected(struct btrail_service *s,
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

static bool host_admit_dump(void *opaque, struct btrail_guest *g,
                            GError **error)
{
    struct btrail_service *s = opaque;
    struct btrail_usage one, all;

    measure_guest(s, g, &one);
    measure(s, &all);
    return btrail_quota_admit_disk(s->config, &one, &all,
                                   btrail_folder_space(s->folder), error);
}

static bool host_ending(void *opaque)
{
    struct btrail_service *s = opaque;

    return s->ending;
}

static void host_over(void *opaque, const char *capture)
{
    service_take_left(opaque, capture);
    service_changed(opaque);
}

bool service_has_capture(struct btrail_service *s, const char *capture)
{
    unsigned i;

    for (i = 0; i < s->guests->len; i++) {
        if (!g_strcmp0(btrail_guest_capture(guest_at(s, i)), capture)) {
            return true;
        }
    }
    return false;
}

struct btrail_guest *service_find_capture(struct btrail_service *s,
                                          const char *capture)
{
    unsigned i;

    for (i = 0; capture && i < s->guests->len; i++) {
        struct btrail_guest *g = guest_at(s, i);

        if (!g_strcmp0(btrail_guest_capture(g), capture) &&
            !service_is_connected(s, g)) {
            return g;
        }
    }
    return NULL;
}

/*
 * Whoever connects has a folder.  One of a guest that was never traced goes
 * with it, or they would be ever more.
 */
static void remove_unused(struct btrail_service *s, struct btrail_guest *gone)
{
    const struct btrail_folder *f = btrail_guest_folder(gone);
    unsigned i;

    for (i = 0; i < s->guests->len; i++) {
        if (!strcmp(btrail_guest_folder(guest_at(s, i))->path, f->path)) {
            return;
        }
    }
    btrail_folder_remove_unused(f);
}

/* Forget guests that are gone, the first ones, if there are many. */
static void forget_gone(struct btrail_service *s, unsigned keep)
{
    unsigned i, n = 0;

    for (i = 0; i < s->guests->len; i++) {
        n += btrail_guest_is_idle(guest_at(s, i)) &&
             !service_is_connected(s, guest_at(s, i));
    }
    for (i = 0; i < s->guests->len && n > keep; ) {
        struct btrail_guest *g = guest_at(s, i);

        if (btrail_guest_is_idle(g) && !service_is_connected(s, g)) {
            g_ptr_array_remove_index(s->guests, i);
            remove_unused(s, g);
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
            service_save(s);
        }
        ended(s->opaque);
    }
    return G_SOURCE_REMOVE;
}

void service_sweep_later(struct btrail_service *s)
{
    if (!s->sweeping) {
        s->sweeping = g_idle_add(sweep, s);
    }
}

/* Once for all that happens at a time, but before anything else does */
void service_changed(void *opaque)
{
    struct btrail_service *s = opaque;

    if (!s->saving) {
        s->saving = g_idle_add_full(G_PRIORITY_HIGH, service_save, s, NULL);
    }
    service_sweep_later(s);
}

static void host_idle(void *opaque, struct btrail_guest *g)
{
    service_sweep_later(opaque);
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

const struct btrail_guest_host service_guest_host = {
    .config = host_config,
    .files = host_files,
    .admit = host_admit,
    .admit_dump = host_admit_dump,
    .ending = host_ending,
    .over = host_over,
    .changed = service_changed,
    .idle = host_idle,
    .past = host_past,
};

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

static void set_cpu(struct btrail_service *s)
{
    btrail_cpu_pool_set(s->cpu, s->config->each.cpu, s->config->all.cpu,
                        btrail_clock_ns());
}

struct btrail_service *
btrail_service_new(struct btrail_config *config,
                   const struct btrail_symbol_files *files, GError **error)
{
    struct btrail_service *s = g_new0(struct btrail_service, 1);

    s->config = config;
    s->cpu = btrail_cpu_pool_new();
    set_cpu(s);
    if (files) {
        s->files = *files;
    }
    s->sock = s->sock_lock = s->lock = -1;
    s->new = g_ptr_array_new();
    s->connections = g_ptr_array_new();
    s->guests = g_ptr_array_new();
    s->folder = btrail_folder_open(config->traces, error);
    if (!s->folder || !service_lock_state(s, error)) {
        goto fail;
    }
    service_read_state(s);
    if (!service_listen(s, error)) {
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
    set_cpu(s);
}

static void begin_end(struct btrail_service *s, void (*done)(void *opaque),
                      void *opaque)
{
    s->ending = true;
    s->ended = done;
    s->opaque = opaque;
}

void btrail_service_detach(struct btrail_service *s,
                          void (*done)(void *opaque), void *opaque)
{
    unsigned i;

    begin_end(s, done, opaque);
    /* They are for the next process to wait for. */
    g_clear_handle_id(&s->leaving, g_source_remove);
    for (i = 0; i < s->guests->len; i++) {
        struct btrail_state_capture *c =
            btrail_guest_detach(guest_at(s, i),
                               "the service is being restarted");

        if (c && c->sessions->len) {
            service_take_left(s, c->name);
            g_ptr_array_add(s->left, c);
        } else if (c) {
            btrail_state_capture_free(c);
        }
    }
    service_changed(s);
}

void btrail_service_end(struct btrail_service *s,
                        void (*done)(void *opaque), void *opaque)
{
    unsigned i;

    begin_end(s, done, opaque);
    for (i = 0; i < s->guests->len; i++) {
        btrail_guest_end(guest_at(s, i), "the service has ended");
    }
    service_sweep_later(s);
}

void btrail_service_free(struct btrail_service *s)
{
    unsigned i;

    if (!s) {
        return;
    }
    service_hush(s);
    g_clear_handle_id(&s->ticking, g_source_remove);
    g_clear_handle_id(&s->leaving, g_source_remove);
    for (i = 0; i < s->new->len; i++) {
        service_connection_free(g_ptr_array_index(s->new, i));
    }
    for (i = 0; i < s->connections->len; i++) {
        struct connection *c = g_ptr_array_index(s->connections, i);

        if (c->guest) {
            btrail_guest_connect(c->guest, NULL, NULL);
        }
        service_connection_free(c);
    }
    g_ptr_array_set_size(s->connections, 0);
    /* Also those that have had something executed: nobody answers any more. */
    for (i = 0; i < s->guests->len; i++) {
        btrail_guest_free(guest_at(s, i));
    }
    g_ptr_array_set_size(s->guests, 0);
    g_clear_handle_id(&s->saving, g_source_remove);
    g_clear_handle_id(&s->sweeping, g_source_remove);
    g_ptr_array_unref(s->new);
    g_ptr_array_unref(s->connections);
    g_ptr_array_unref(s->guests);
    if (s->left) {
        g_ptr_array_unref(s->left);
    }
    btrail_folder_free(s->folder);
    btrail_cpu_pool_free(s->cpu);
    if (s->lock >= 0) {
        close(s->lock);
    }
    g_free(s->state_path);
    btrail_config_free(s->config);
    g_free(s);
}
