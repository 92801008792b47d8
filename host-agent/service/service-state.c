/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures that survive the process: see service-state.h
 */

#include <string.h>
#include <unistd.h>

#include "service/lock.h"
#include "service/log.h"
#include "service/process.h"
#include "service/service-state.h"
#include "util/json.h"

/* How often what is left is checked for processes that are gone */
#define LEFT_TIMEOUT_S  60

/* A member of the left capture @i: "name", "folder" or "process" */
static const char *left_at(struct btrail_service_state *s, unsigned i,
                           const char *member)
{
    return btrail_json_string(g_ptr_array_index(s->left, i), member);
}

static bool is_over(JsonObject *session)
{
    return json_object_get_boolean_member_with_default(session, "over", false);
}

/* Does a guest have the capture, or inspect what is left of it? */
static bool is_taken(struct btrail_service_state *s, const char *capture)
{
    for (unsigned i = 0; i < s->host->guests->len; i++) {
        const struct btrail_guest *g = g_ptr_array_index(s->host->guests, i);

        if (!g_strcmp0(g->capture.name, capture)) {
            return true;
        }
    }
    return false;
}

/* The sessions that are left of guests with this folder */
static GPtrArray *left_in(struct btrail_service_state *s, const char *folder)
{
    GPtrArray *left = g_ptr_array_new();

    for (unsigned i = 0; i < s->left->len; i++) {
        JsonArray *sessions = btrail_json_array(
            g_ptr_array_index(s->left, i), "sessions");

        for (unsigned k = 0; !strcmp(left_at(s, i, "folder"), folder) &&
             k < json_array_get_length(sessions); k++) {
            g_ptr_array_add(left, json_array_get_object_element(sessions, k));
        }
    }
    return left;
}

/* A member of the command of a session: "file" or "session" */
static const char *commanded(JsonObject *session, const char *member)
{
    return btrail_json_string(btrail_json_object(session, "command"), member);
}

const char *btrail_service_state_writing(struct btrail_service_state *s,
                                         const struct btrail_folder *folder,
                                         const char *file)
{
    g_autofree char *name = g_path_get_basename(folder->path);
    g_autoptr(GPtrArray) left = left_in(s, name);

    for (unsigned i = 0; i < left->len; i++) {
        JsonObject *session = g_ptr_array_index(left, i);

        if (btrail_folder_is_one_trace(commanded(session, "file"), file)) {
            return commanded(session, "session");
        }
    }
    return NULL;
}

void btrail_service_state_take(struct btrail_service_state *s,
                               const char *capture)
{
    for (unsigned i = 0; i < s->left->len; i++) {
        if (!strcmp(left_at(s, i, "name"), capture)) {
            g_ptr_array_remove_index(s->left, i);
            return;
        }
    }
}

void btrail_service_state_save(struct btrail_service_state *s)
{
    g_autoptr(GPtrArray) captures = btrail_state_new();
    g_autoptr(GError) error = NULL;

    /*
     * These are written first: of a session that continues, they have what the
     * file of the session itself does not name any more.
     */
    btrail_completions_save(s->completions, captures);
    for (unsigned i = 0; i < s->host->guests->len; i++) {
        const struct btrail_guest *g = g_ptr_array_index(s->host->guests, i);
        JsonObject *c = guest_capture_save(&g->capture);

        if (c) {
            g_ptr_array_add(captures, c);
            btrail_service_state_take(s, g->capture.name);
        }
    }
    for (unsigned i = 0; i < s->left->len; i++) {
        g_ptr_array_add(captures,
                        json_object_ref(g_ptr_array_index(s->left, i)));
    }
    if (!btrail_state_write(s->files, captures, &error)) {
        btrail_log(BTRAIL_LOG_ERROR, "sessions will be lost when this service "
                   "restarts: %s", error->message);
    }
}

/* Nobody continues the left capture @i. */
static void give_up(struct btrail_service_state *s, unsigned i)
{
    btrail_completions_add_all(s->completions, g_ptr_array_index(s->left, i));
    g_ptr_array_remove_index(s->left, i);
    btrail_host_changed(s->host);
}

void btrail_service_state_forget(struct btrail_service_state *s,
                                 const struct btrail_guest *g,
                                 const char *capture)
{
    for (unsigned i = 0; i < s->left->len; ) {
        const char *name = left_at(s, i, "name");
        const char *process = left_at(s, i, "process");
        bool says = process && *process &&
                    !strcmp(process, g->link.process) &&
                    g_strcmp0(name, capture);

        /*
         * Only the process itself, or the kernel, knows.  Whoever says the name
         * of the guest may be another one.
         */
        if (!is_taken(s, name) &&
            (says || (process && btrail_process_is_gone(process)))) {
            give_up(s, i);
        } else {
            i++;
        }
    }
}

JsonObject *btrail_service_state_find(struct btrail_service_state *s,
                                      const struct btrail_guest *g,
                                      const char *capture)
{
    g_autofree char *folder = g_path_get_basename(g->folder->path);

    for (unsigned i = 0; capture && i < s->left->len; i++) {
        const char *process = left_at(s, i, "process");

        /* The state of version 1 has no process. */
        if (!strcmp(left_at(s, i, "name"), capture) &&
            !strcmp(left_at(s, i, "folder"), folder) &&
            (!process || (*process && !strcmp(process, g->link.process)))) {
            return g_ptr_array_index(s->left, i);
        }
    }
    return NULL;
}

/*
 * Devices connect again within a second.  What is left of a guest that
 * inspects its traces stays, since that can take long.  So does what is left of
 * a process that runs: a QEMU that is stopped connects when it goes on.
 */
gboolean btrail_service_state_timed_out(gpointer opaque)
{
    struct btrail_service_state *s = opaque;

    for (unsigned i = 0; i < s->left->len; ) {
        const char *process = left_at(s, i, "process");
        bool runs = process && *process && !btrail_process_is_gone(process);

        if (runs || is_taken(s, left_at(s, i, "name"))) {
            i++;
        } else {
            give_up(s, i);
        }
    }
    if (s->left->len) {
        return G_SOURCE_CONTINUE;
    }
    s->timeout = 0;
    return G_SOURCE_REMOVE;
}

void btrail_service_state_detach(struct btrail_service_state *s)
{
    /* Waiting for devices is up to the next process. */
    g_clear_handle_id(&s->timeout, g_source_remove);
    for (unsigned i = 0; i < s->host->guests->len; i++) {
        JsonObject *c =
            btrail_guest_detach(g_ptr_array_index(s->host->guests, i),
                                "the service restarts");

        if (c) {
            btrail_service_state_take(s, btrail_json_string(c, "name"));
            g_ptr_array_add(s->left, c);
        }
    }
}

static void changed(void *opaque)
{
    btrail_host_changed(opaque);
}

/* Does a session that is left continue, or complete, the trace of this one? */
static bool continues(struct btrail_service_state *s, const char *folder,
                      JsonObject *session)
{
    g_autoptr(GPtrArray) left = left_in(s, folder);

    for (unsigned i = 0; i < left->len; i++) {
        JsonObject *other = g_ptr_array_index(left, i);

        if (other != session && !is_over(other) &&
            !strcmp(commanded(session, "file"), commanded(other, "file"))) {
            return true;
        }
    }
    return false;
}

/* Sessions that were over are completed now. */
static void take_over(struct btrail_service_state *s)
{
    for (unsigned i = 0; i < s->left->len; ) {
        JsonObject *capture = g_ptr_array_index(s->left, i);
        JsonArray *sessions = btrail_json_array(capture, "sessions");

        for (unsigned k = 0; k < json_array_get_length(sessions); ) {
            JsonObject *session = json_array_get_object_element(sessions, k);

            if (!is_over(session)) {
                k++;
                continue;
            }
            /* Two must not complete one trace, nor one inspect it meanwhile. */
            if (continues(s, left_at(s, i, "folder"), session)) {
                json_object_set_int_member(session, "parts", 0);
            }
            btrail_completions_add(s->completions, capture, session);
            json_array_remove_element(sessions, k);
        }
        if (json_array_get_length(sessions)) {
            i++;
        } else {
            g_ptr_array_remove_index(s->left, i);
        }
    }
}

struct btrail_service_state *
btrail_service_state_open(struct btrail_host *host, GError **error)
{
    struct btrail_service_state *s;
    const char *folder = host->config->state;
    g_autofree char *lock = g_build_filename(folder, "lock", NULL);
    struct btrail_state *files;
    int fd;

    if (g_mkdir_with_parents(folder, 0700) < 0) {
        btrail_service_fail_errno(error, "%s", folder);
        return NULL;
    }
    fd = btrail_lock(lock, "runs with", folder, error);
    if (fd < 0) {
        return NULL;
    }
    files = btrail_state_open(folder, error);
    if (!files) {
        close(fd);
        return NULL;
    }
    s = g_new0(struct btrail_service_state, 1);
    s->host = host;
    s->lock = fd;
    s->files = files;
    s->completions = btrail_completions_new(host->folder, changed, host);
    s->left = btrail_state_read(files);
    take_over(s);
    if (s->left->len) {
        btrail_log(BTRAIL_LOG_INFO, "%u guests were being traced; their "
                   "sessions continue as they connect", s->left->len);
        s->timeout = g_timeout_add_seconds(LEFT_TIMEOUT_S,
                                           btrail_service_state_timed_out, s);
    }
    return s;
}

void btrail_service_state_close(struct btrail_service_state *s)
{
    if (s) {
        g_clear_handle_id(&s->timeout, g_source_remove);
        g_ptr_array_unref(s->left);
        btrail_completions_free(s->completions);
        btrail_state_close(s->files);
        close(s->lock);
        g_free(s);
    }
}
