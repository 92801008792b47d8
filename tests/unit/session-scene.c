/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a session needs of its service: see session-scene.h
 */

#include <glib/gstdio.h>
#include <unistd.h>

#include "drain/session-feed.h"
#include "fake-device.h"
#include "lib/agent/stream.h"
#include "session-scene.h"
#include "util/event-fd.h"

#define MIB     (UINT64_C(1) << 20)

void session_scene_init(struct session_scene *c)
{
    static GSourceFuncs funcs;
    g_autofree char *traces = g_build_filename(folder, "traces", NULL);

    *c = (struct session_scene) {
        .host = {
            .config = config_parse("", "test", NULL),
            .folder = folder_open(traces, NULL),
            .changed = g_source_new(&funcs, sizeof(GSource)),
        },
        .budget = btrail_budget_new(MIB),
        .wake_fd = event_fd_new(),
    };
    c->folder = folder_guest(c->host.folder, "vm", NULL, 7, NULL);
    g_assert_nonnull(c->folder);
}

void session_scene_clear(struct session_scene *c)
{
    folder_free(c->folder);
    folder_free(c->host.folder);
    config_free(c->host.config);
    g_source_unref(c->host.changed);
    btrail_budget_unref(c->budget);
    close(c->wake_fd);
}

struct service_command *session_scene_command(const char *more)
{
    g_autofree char *text = g_strdup_printf(
        "{\"do\":\"start\",\"session\":\"s\",\"file\":\"f\"%s}", more);
    g_autoptr(JsonNode) node = btrail_json_parse_object(text);
    g_autoptr(GError) error = NULL;
    struct service_command *c;

    g_assert_nonnull(node);
    c = command_parse(json_node_get_object(node), &error);
    g_assert_no_error(error);
    return c;
}

static void session_event(void *opaque, struct service_session *s,
                          enum service_session_event event)
{
    struct session_scene *c = opaque;

    c->events[event]++;
    if (event == SERVICE_SESSION_DRAINED) {
        g_assert_cmpint(s->state, <, SERVICE_SESSION_ENDED);
        service_session_waited(s, &c->waited);
    }
}

struct service_session_options
session_scene_options(struct session_scene *c, const char *more)
{
    return (struct service_session_options) {
        .host = &c->host,
        .command = session_scene_command(more),
        .folder = c->folder,
        .guest = "vm",
        .event = session_event,
        .opaque = c,
    };
}

struct service_session *session_scene_make(struct session_scene *c,
                                           const char *more,
                                           JsonObject *state)
{
    const struct service_session_options options =
        session_scene_options(c, more);
    g_autoptr(GError) error = NULL;
    struct service_session *s =
        service_session_new(&options, state, NULL, &error);

    g_assert_no_error(error);
    return s;
}

void session_scene_feed(struct session_scene *c, struct service_session *s)
{
    static const struct btrail_shm_header header = {
        .vcpus = 1,
        .records_per_slab = FAKE_RECORDS,
        .events_per_slab = FAKE_EVENTS,
        .tick_ns = 1000000,
        .capture = "fake",
    };
    static const uint64_t indices[1];
    const struct session_source source = {
        .header = &header,
        .beginning = true,
        .indices = indices,
        .budget = c->budget,
        .wake_fd = c->wake_fd,
    };

    session_added(s->session);
    session_begin(s->session, &source);
}

void session_scene_records(struct service_session *s, uint64_t first,
                           unsigned n)
{
    session_scene_lost(s, first, first, n);
}

void session_scene_lost(struct service_session *s, uint64_t index,
                        uint64_t first, unsigned n)
{
    struct btrail_record records[FAKE_RECORDS];
    const struct btrail_slab slab = {
        .first_index = first, .cr3 = 0x1000, .records = records,
        .n_records = n,
    };
    struct btrail_checked_slab checked;

    for (unsigned i = 0; i < n; i++) {
        records[i] = (struct btrail_record) {
            .from = 0x1000, .to = 0x1000 + first + i,
        };
    }
    g_assert_true(btrail_slab_check(&slab, index, &checked));
    g_assert_cmpint(session_slab(s->session, 0, &checked, index,
                                 BTRAIL_GAP_CORRUPT), ==, 0);
}

void session_scene_stop(struct service_session *s, uint16_t reason)
{
    const struct session_ending ending = { .reason = reason };

    session_end(s->session, &ending);
}

void session_scene_wait(struct session_scene *c,
                        enum service_session_event event)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    while (!c->events[event]) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
    c->events[event] = 0;
}

void session_scene_end(struct session_scene *c, struct service_session *s)
{
    session_scene_stop(s, BTRAIL_END_STOPPED);
    session_scene_wait(c, SERVICE_SESSION_DONE);
}

char *session_scene_path(const struct session_scene *c, const char *name)
{
    return g_build_filename(c->folder->path, name, NULL);
}

void session_scene_remove(const struct session_scene *c)
{
    g_autofree char *path = session_scene_path(c, "f.btrail");

    g_assert_cmpint(g_unlink(path), ==, 0);
}
