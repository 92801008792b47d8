/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service: see service.h
 */

#include <string.h>
#include <unistd.h>

#include "service/log.h"
#include "service/service-state.h"
#include "service/service.h"
#include "service/usage.h"
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
 * is removed with it; otherwise their number would grow forever.
 */
static void remove_unused(struct host *host,
                          const struct folder *folder)
{
    for (unsigned i = 0; i < host->guests->len; i++) {
        const struct guest *g = g_ptr_array_index(host->guests, i);

        if (!strcmp(g->folder->path, folder->path)) {
            return;
        }
    }
    folder_remove_unused(folder);
}

/* Forgets the first guests that are gone, if there are more than @keep. */
static void forget_gone(struct host *host, unsigned keep)
{
    unsigned i, n = 0;

    for (i = 0; i < host->guests->len; i++) {
        n += guest_is_idle(g_ptr_array_index(host->guests, i));
    }
    for (i = 0; i < host->guests->len && n > keep; ) {
        struct guest *g = g_ptr_array_index(host->guests, i);

        if (guest_is_idle(g)) {
            g_ptr_array_remove_index(host->guests, i);
            remove_unused(host, g->folder);
            guest_free(g);
            n--;
        } else {
            i++;
        }
    }
}

static bool all_done(const struct host *host)
{
    for (unsigned i = 0; i < host->guests->len; i++) {
        const struct guest *g = g_ptr_array_index(host->guests, i);

        if (g->members->len || g->capture.state != GUEST_CAPTURE_NONE) {
            return false;
        }
    }
    return true;
}

static gboolean sweep(gpointer opaque)
{
    struct service *s = opaque;

    s->sweeping = 0;
    forget_gone(&s->host, MAX_GONE);
    /* The next process completes what this one does not. */
    if (s->ended && all_done(&s->host) &&
        (s->detaching || !completions_busy(
             s->host.state->completions))) {
        void (*ended)(void *) = s->ended;

        s->ended = NULL;
        guest_save_all(&s->host);
        ended(s->opaque);
    }
    return G_SOURCE_REMOVE;
}

/* Handles all changes of one turn of the main loop before anything else. */
static gboolean host_changed(GSource *source, GSourceFunc callback,
                             gpointer opaque)
{
    struct service *s = opaque;

    g_source_set_ready_time(source, -1);
    guest_save_all(&s->host);
    /* Guests are freed when nothing else happens to them. */
    if (!s->sweeping) {
        s->sweeping = g_idle_add(sweep, s);
    }
    return G_SOURCE_CONTINUE;
}

/*
 * Limits
 */

static void end_all(struct host *host, const char *why)
{
    for (unsigned i = 0; i < host->guests->len; i++) {
        guest_end(g_ptr_array_index(host->guests, i), why);
    }
}

/* Ends sessions of guests that use more than they may. */
static gboolean enforce_limits(gpointer opaque)
{
    struct host *host = opaque;
    struct guest_member *m;
    struct guest *g;
    bool traced = false;
    const char *why;

    for (unsigned i = 0; i < host->guests->len; i++) {
        g = g_ptr_array_index(host->guests, i);
        if (g->capture.state == GUEST_CAPTURE_NONE) {
            continue;
        }
        traced = true;
        why = usage_guest_exceeded(g);
        if (why) {
            guest_end(g, why);
        }
    }
    why = traced ? usage_all_exceeded(host, &g, &m) : NULL;
    if (why && m) {
        guest_end_session(g, m, why);
    } else if (why) {
        end_all(host, why);
    }
    return G_SOURCE_CONTINUE;
}

/*
 * Start and end
 */

static void set_cpu(struct host *host)
{
    cpu_pool_set(host->cpu, host->config->each.cpu,
                 host->config->all.cpu, clock_ns());
}

static void on_device(void *opaque, int sock, const struct peer_process *peer)
{
    struct service *s = opaque;

    s->idle_s = 0;
    connections_add(&s->connections, sock, peer);
}

/* Guests can be traced without. */
static void listen_to_ports(struct service *s)
{
    g_autoptr(GError) error = NULL;

    s->ports = listener_new(s->host.config, LISTENER_OF_PORTS,
                            names_ports_add,
                            s->connections.ports, &error);
    if (error) {
        service_log(SERVICE_LOG_WARNING, "guests cannot say names: %s",
                    error->message);
    }
}

struct service *
service_new(struct config *config,
            const struct symbol_files *files, GError **error)
{
    static GSourceFuncs changed = { .dispatch = host_changed };
    struct service *s = g_new0(struct service, 1);
    struct host *host = &s->host;

    host->config = config;
    host->cpu = cpu_pool_new();
    set_cpu(host);
    if (files) {
        host->files = *files;
    }
    host->guests = g_ptr_array_new();
    host->changed = g_source_new(&changed, sizeof(*host->changed));
    g_source_set_callback(host->changed, NULL, s, NULL);
    g_source_set_priority(host->changed, G_PRIORITY_HIGH);
    g_source_attach(host->changed, NULL);
    connections_init(&s->connections, host);
    host->folder = folder_open(config->traces, error);
    host->state = host->folder ? service_state_open(host, error) : NULL;
    s->listener = host->state ? listener_new(
        config, LISTENER_OF_DEVICES, on_device, s, error) : NULL;
    if (!s->listener) {
        service_free(s);
        return NULL;
    }
    listen_to_ports(s);
    s->ticking = g_timeout_add_seconds(TICK_S, enforce_limits, host);
    return s;
}

void service_reload(struct service *s,
                    struct config *config)
{
    struct config *old = s->host.config;

    if (strcmp(config->socket, old->socket) ||
        strcmp(config->traces, old->traces) ||
        strcmp(config->state, old->state) ||
        config->socket_mode != old->socket_mode ||
        g_strcmp0(config->socket_group, old->socket_group)) {
        service_log(SERVICE_LOG_WARNING, "socket and folders stay as they are "
                    "until the service restarts");
    }
    g_free(config->socket);
    g_free(config->traces);
    g_free(config->state);
    config->socket = g_strdup(old->socket);
    config->traces = g_strdup(old->traces);
    config->state = g_strdup(old->state);
    s->host.config = config;
    config_free(old);
    set_cpu(&s->host);
}

static gboolean watch_idle(gpointer opaque)
{
    struct service *s = opaque;
    bool idle = all_done(&s->host) &&
                !completions_busy(s->host.state->completions);

    s->idle_s = idle ? s->idle_s + 1 : 0;
    /* Whoever has found the service listening finds it for as long again. */
    if (s->idle_s < s->most_idle_s ||
        !listener_refuse(s->listener, s->host.config)) {
        return G_SOURCE_CONTINUE;
    }
    s->watching = 0;
    s->idle(s->idle_opaque);
    return G_SOURCE_REMOVE;
}

void service_watch_idle(struct service *s, unsigned seconds,
                        void (*idle)(void *opaque), void *opaque)
{
    s->most_idle_s = seconds;
    s->idle = idle;
    s->idle_opaque = opaque;
    /* What has come is served first. */
    s->watching = g_timeout_add_seconds_full(G_PRIORITY_LOW, 1, watch_idle, s,
                                             NULL);
}

static void begin_end(struct service *s, void (*done)(void *opaque),
                      void *opaque)
{
    s->host.ending = true;
    s->ended = done;
    s->opaque = opaque;
    host_has_changed(&s->host);
}

void service_detach(struct service *s,
                    void (*done)(void *opaque), void *opaque)
{
    g_autoptr(GPtrArray) captures = state_files_new();

    s->detaching = true;
    begin_end(s, done, opaque);
    for (unsigned i = 0; i < s->host.guests->len; i++) {
        JsonObject *c = guest_detach(
            g_ptr_array_index(s->host.guests, i), "the service restarts");

        if (c) {
            g_ptr_array_add(captures, c);
        }
    }
    service_state_leave(s->host.state, captures);
}

void service_end(struct service *s,
                 void (*done)(void *opaque), void *opaque)
{
    begin_end(s, done, opaque);
    end_all(&s->host, "the service has ended");
}

void service_free(struct service *s)
{
    struct host *host;

    if (!s) {
        return;
    }
    host = &s->host;
    listener_free(s->listener);
    listener_free(s->ports);
    g_clear_handle_id(&s->ticking, g_source_remove);
    g_clear_handle_id(&s->watching, g_source_remove);
    connections_clear(&s->connections);
    /* Also guests that wait for an answer: nobody answers any more. */
    g_ptr_array_set_free_func(host->guests, (GDestroyNotify)guest_free);
    g_ptr_array_unref(host->guests);
    g_clear_handle_id(&s->sweeping, g_source_remove);
    g_source_destroy(host->changed);
    g_source_unref(host->changed);
    service_state_close(host->state);
    folder_free(host->folder);
    cpu_pool_free(host->cpu);
    config_free(host->config);
    g_free(s);
}
