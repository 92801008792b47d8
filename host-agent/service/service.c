/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service: see service.h
 */

#include <string.h>
#include <unistd.h>

#include "service/usage.h"
#include "service/log.h"
#include "service/service.h"
#include "service/service-state.h"
#include "util/clock.h"

/* Guests that are gone, and whose sessions are still in the status */
#define MAX_GONE        256

/* How often the limits are checked */
#define TICK_S          1

/*
 * Guests that are gone
 */

/*
 * Each guest that connects gets a folder.  If it was never traced, the folder
 * is removed with it, or their number would grow forever.
 */
static void remove_unused(struct btrail_host *host,
                          const struct btrail_folder *folder)
{
    for (unsigned i = 0; i < host->guests->len; i++) {
        const struct btrail_guest *g = g_ptr_array_index(host->guests, i);

        if (!strcmp(g->folder->path, folder->path)) {
            return;
        }
    }
    btrail_folder_remove_unused(folder);
}

/* Forgets the first guests that are gone, if there are more than @keep. */
static void forget_gone(struct btrail_host *host, unsigned keep)
{
    unsigned i, n = 0;

    for (i = 0; i < host->guests->len; i++) {
        n += btrail_guest_is_idle(g_ptr_array_index(host->guests, i));
    }
    for (i = 0; i < host->guests->len && n > keep; ) {
        struct btrail_guest *g = g_ptr_array_index(host->guests, i);

        if (btrail_guest_is_idle(g)) {
            g_ptr_array_remove_index(host->guests, i);
            remove_unused(host, g->folder);
            btrail_guest_free(g);
            n--;
        } else {
            i++;
        }
    }
}

static bool all_done(const struct btrail_host *host)
{
    for (unsigned i = 0; i < host->guests->len; i++) {
        const struct btrail_guest *g = g_ptr_array_index(host->guests, i);

        if (g->members->len || g->capture.name) {
            return false;
        }
    }
    return true;
}

static gboolean sweep(gpointer opaque)
{
    struct btrail_service *s = opaque;

    s->sweeping = 0;
    forget_gone(&s->host, MAX_GONE);
    /* The next process completes what this one does not. */
    if (s->ended && all_done(&s->host) &&
        (s->detaching || !btrail_completions_busy(
             s->host.state->completions))) {
        void (*ended)(void *) = s->ended;

        s->ended = NULL;
        btrail_service_state_save(s->host.state);
        ended(s->opaque);
    }
    return G_SOURCE_REMOVE;
}

static gboolean host_changed(gpointer opaque)
{
    struct btrail_service *s = opaque;

    btrail_service_state_save(s->host.state);
    /* Guests are freed when nothing else happens to them. */
    if (!s->sweeping) {
        s->sweeping = g_idle_add(sweep, s);
    }
    return G_SOURCE_CONTINUE;
}

static gboolean dispatch_changed(GSource *source, GSourceFunc callback,
                                 gpointer opaque)
{
    g_source_set_ready_time(source, -1);
    return callback(opaque);
}

/* Handles all changes of one turn of the main loop before anything else. */
static GSource *new_changed(struct btrail_service *s)
{
    static GSourceFuncs funcs = { .dispatch = dispatch_changed };
    GSource *source = g_source_new(&funcs, sizeof(*source));

    g_source_set_callback(source, host_changed, s, NULL);
    g_source_set_priority(source, G_PRIORITY_HIGH);
    g_source_attach(source, NULL);
    return source;
}

/*
 * Start and end
 */

static void set_cpu(struct btrail_host *host)
{
    btrail_cpu_pool_set(host->cpu, host->config->each.cpu,
                        host->config->all.cpu, btrail_clock_ns());
}

/* Guests can be traced without. */
static void listen_to_ports(struct btrail_service *s)
{
    g_autoptr(GError) error = NULL;

    s->ports = btrail_listener_new(s->host.config, BTRAIL_LISTENER_OF_PORTS,
                                   btrail_names_ports_add,
                                   s->connections.ports, &error);
    if (error) {
        btrail_log(BTRAIL_LOG_WARNING, "guests cannot say names: %s",
                   error->message);
    }
}

struct btrail_service *
btrail_service_new(struct btrail_config *config,
                   const struct btrail_symbol_files *files, GError **error)
{
    struct btrail_service *s = g_new0(struct btrail_service, 1);
    struct btrail_host *host = &s->host;

    host->config = config;
    host->cpu = btrail_cpu_pool_new();
    set_cpu(host);
    if (files) {
        host->files = *files;
    }
    host->guests = g_ptr_array_new();
    host->changed = new_changed(s);
    btrail_connections_init(&s->connections, host);
    host->folder = btrail_folder_open(config->traces, error);
    host->state = host->folder ? btrail_service_state_open(host, error) : NULL;
    s->listener = host->state ? btrail_listener_new(
        config, BTRAIL_LISTENER_OF_DEVICES, btrail_connections_add,
        &s->connections, error) : NULL;
    if (!s->listener) {
        btrail_service_free(s);
        return NULL;
    }
    listen_to_ports(s);
    s->ticking = g_timeout_add_seconds(TICK_S, btrail_usage_enforce, host);
    return s;
}

void btrail_service_reload(struct btrail_service *s,
                           struct btrail_config *config)
{
    struct btrail_config *old = s->host.config;

    if (strcmp(config->socket, old->socket) ||
        strcmp(config->traces, old->traces) ||
        strcmp(config->state, old->state) ||
        config->socket_mode != old->socket_mode ||
        g_strcmp0(config->socket_group, old->socket_group)) {
        btrail_log(BTRAIL_LOG_WARNING, "socket and folders stay as they are "
                   "until the service restarts");
    }
    g_free(config->socket);
    g_free(config->traces);
    g_free(config->state);
    config->socket = g_strdup(old->socket);
    config->traces = g_strdup(old->traces);
    config->state = g_strdup(old->state);
    s->host.config = config;
    btrail_config_free(old);
    set_cpu(&s->host);
}

static gboolean watch_idle(gpointer opaque)
{
    struct btrail_service *s = opaque;
    bool idle = all_done(&s->host) &&
                !btrail_completions_busy(s->host.state->completions);

    s->idle_s = idle ? s->idle_s + 1 : 0;
    if (s->idle_s < s->most_idle_s) {
        return G_SOURCE_CONTINUE;
    }
    s->watching = 0;
    s->idle(s->idle_opaque);
    return G_SOURCE_REMOVE;
}

void btrail_service_watch_idle(struct btrail_service *s, unsigned seconds,
                               void (*idle)(void *opaque), void *opaque)
{
    s->most_idle_s = seconds;
    s->idle = idle;
    s->idle_opaque = opaque;
    s->watching = g_timeout_add_seconds(1, watch_idle, s);
}

static void begin_end(struct btrail_service *s, void (*done)(void *opaque),
                      void *opaque)
{
    s->host.ending = true;
    s->ended = done;
    s->opaque = opaque;
    btrail_host_changed(&s->host);
}

void btrail_service_detach(struct btrail_service *s,
                           void (*done)(void *opaque), void *opaque)
{
    s->detaching = true;
    begin_end(s, done, opaque);
    btrail_service_state_detach(s->host.state);
}

void btrail_service_end(struct btrail_service *s,
                        void (*done)(void *opaque), void *opaque)
{
    begin_end(s, done, opaque);
    for (unsigned i = 0; i < s->host.guests->len; i++) {
        btrail_guest_end(g_ptr_array_index(s->host.guests, i),
                         "the service has ended");
    }
}

void btrail_service_free(struct btrail_service *s)
{
    struct btrail_host *host;

    if (!s) {
        return;
    }
    host = &s->host;
    btrail_listener_free(s->listener);
    btrail_listener_free(s->ports);
    g_clear_handle_id(&s->ticking, g_source_remove);
    g_clear_handle_id(&s->watching, g_source_remove);
    btrail_connections_clear(&s->connections);
    /* Also guests that wait for an answer: nobody answers any more. */
    g_ptr_array_set_free_func(host->guests, (GDestroyNotify)btrail_guest_free);
    g_ptr_array_unref(host->guests);
    g_clear_handle_id(&s->sweeping, g_source_remove);
    g_source_destroy(host->changed);
    g_source_unref(host->changed);
    btrail_service_state_close(host->state);
    btrail_folder_free(host->folder);
    btrail_cpu_pool_free(host->cpu);
    btrail_config_free(host->config);
    g_free(s);
}
