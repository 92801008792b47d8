/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures that survive the process: see service-state.h
 */

#include <string.h>
#include <unistd.h>

#include "service/lock.h"
#include "service/log.h"
#include "service/peer-process.h"
#include "service/service-state.h"
#include "util/json.h"

/* How often what is left is checked for processes that are gone */
#define LEFT_TIMEOUT_S  60

/* A member of the left capture @i: "name", "folder" or "process" */
static const char *left_at(struct service_state *s, unsigned i,
                           const char *member)
{
    return btrail_json_string(g_ptr_array_index(s->left, i), member);
}

/* The sessions that are left of guests with this folder */
static GPtrArray *left_in(struct service_state *s, const char *folder)
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

const char *service_state_writing(struct service_state *s,
                                  const struct folder *folder,
                                  const char *file)
{
    g_autofree char *name = g_path_get_basename(folder->path);
    g_autoptr(GPtrArray) left = left_in(s, name);

    for (unsigned i = 0; i < left->len; i++) {
        JsonObject *session = g_ptr_array_index(left, i);

        if (folder_is_one_trace(commanded(session, "file"), file)) {
            return commanded(session, "session");
        }
    }
    return NULL;
}

void service_state_take(struct service_state *s,
                        const char *capture)
{
    for (unsigned i = 0; i < s->left->len; i++) {
        if (!strcmp(left_at(s, i, "name"), capture)) {
            g_ptr_array_remove_index(s->left, i);
            return;
        }
    }
}

/* Adds the captures @from to @to; they are not left any more. */
static void take_all(struct service_state *s, GPtrArray *from,
                     GPtrArray *to)
{
    for (unsigned i = 0; i < from->len; i++) {
        JsonObject *c = g_ptr_array_index(from, i);

        service_state_take(s, btrail_json_string(c, "name"));
        g_ptr_array_add(to, json_object_ref(c));
    }
}

void service_state_save(struct service_state *s,
                        GPtrArray *captures)
{
    g_autoptr(GPtrArray) all = state_files_new();
    g_autoptr(GError) error = NULL;

    /*
     * These are written first: they have what the file of a session that
     * continues does not name any more.
     */
    completions_save(s->completions, all);
    take_all(s, captures, all);
    for (unsigned i = 0; i < s->left->len; i++) {
        g_ptr_array_add(all, json_object_ref(g_ptr_array_index(s->left, i)));
    }
    if (!state_files_write(s->files, all, &error)) {
        service_log(SERVICE_LOG_ERROR,
                    "sessions will be lost when this service "
                    "restarts: %s", error->message);
    }
}

/*
 * Nobody continues what is left of processes that are gone.  Only the process
 * itself, or the kernel, knows that: whoever says the name of the guest may be
 * another one.  @process, unless it is NULL, has no capture but @capture.
 */
static void give_up(struct service_state *s, const char *process,
                    const char *capture)
{
    for (unsigned i = 0; i < s->left->len; ) {
        const char *of = left_at(s, i, "process");
        bool over = process && !strcmp(of, process) &&
                    g_strcmp0(left_at(s, i, "name"), capture);
        JsonObject *left = g_ptr_array_index(s->left, i);

        if (json_object_has_member(left, "inspected") ||
            !(over || process_is_gone(of))) {
            i++;
            continue;
        }
        completions_add_all(s->completions, left);
        g_ptr_array_remove_index(s->left, i);
        host_has_changed(s->host);
    }
}

void service_state_forget(struct service_state *s,
                          const char *process, const char *capture)
{
    give_up(s, *process ? process : NULL, capture);
}

JsonObject *service_state_find(struct service_state *s,
                               const struct folder *folder,
                               const char *process,
                               const char *capture)
{
    g_autofree char *name = g_path_get_basename(folder->path);

    for (unsigned i = 0; capture && *process && i < s->left->len; i++) {
        if (!strcmp(left_at(s, i, "name"), capture) &&
            !strcmp(left_at(s, i, "folder"), name) &&
            !strcmp(left_at(s, i, "process"), process)) {
            return g_ptr_array_index(s->left, i);
        }
    }
    return NULL;
}

/*
 * Devices connect again within a second.  What is left of a process that runs
 * stays: a QEMU that is stopped connects when it continues.
 */
gboolean service_state_timed_out(gpointer opaque)
{
    struct service_state *s = opaque;

    /* Of one that /proc did not show, nobody will ever know. */
    give_up(s, "", NULL);
    if (s->left->len) {
        return G_SOURCE_CONTINUE;
    }
    s->timeout = 0;
    return G_SOURCE_REMOVE;
}

void service_state_leave(struct service_state *s,
                         GPtrArray *captures)
{
    g_clear_handle_id(&s->timeout, g_source_remove);
    take_all(s, captures, s->left);
}

static void changed(void *opaque)
{
    host_has_changed(opaque);
}

/* Does a session that is left continue, or complete, the trace of this one? */
static bool continues(struct service_state *s, const char *folder,
                      JsonObject *session)
{
    g_autoptr(GPtrArray) left = left_in(s, folder);

    for (unsigned i = 0; i < left->len; i++) {
        JsonObject *other = g_ptr_array_index(left, i);

        if (other != session && !btrail_json_is_true(other, "over") &&
            !strcmp(commanded(session, "file"), commanded(other, "file"))) {
            return true;
        }
    }
    return false;
}

/* Sessions that were over are completed now. */
static void take_over(struct service_state *s)
{
    for (unsigned i = 0; i < s->left->len; ) {
        JsonObject *capture = g_ptr_array_index(s->left, i);
        JsonArray *sessions = btrail_json_array(capture, "sessions");

        for (unsigned k = 0; k < json_array_get_length(sessions); ) {
            JsonObject *session = json_array_get_object_element(sessions, k);

            if (!btrail_json_is_true(session, "over")) {
                k++;
                continue;
            }
            /* Two must not complete one trace, nor one inspect it meanwhile. */
            if (continues(s, left_at(s, i, "folder"), session)) {
                json_object_set_int_member(session, "parts", 0);
            }
            completions_add(s->completions, capture, session);
            json_array_remove_element(sessions, k);
        }
        if (json_array_get_length(sessions)) {
            i++;
        } else {
            g_ptr_array_remove_index(s->left, i);
        }
    }
}

struct service_state *
service_state_open(struct host *host, GError **error)
{
    struct service_state *s;
    const char *folder = host->config->state;
    g_autofree char *lock = g_build_filename(folder, "lock", NULL);
    struct state_files *files;
    int fd;

    if (g_mkdir_with_parents(folder, 0700) < 0) {
        service_fail_errno(error, "%s", folder);
        return NULL;
    }
    fd = service_lock(lock, "runs with", folder, error);
    if (fd < 0) {
        return NULL;
    }
    files = state_files_open(folder, error);
    if (!files) {
        close(fd);
        return NULL;
    }
    s = g_new0(struct service_state, 1);
    s->host = host;
    s->lock = fd;
    s->files = files;
    s->completions = completions_new(host->folder, changed, host);
    s->left = state_files_read(files);
    take_over(s);
    if (s->left->len) {
        service_log(SERVICE_LOG_INFO, "%u guests were being traced; their "
                    "sessions continue as they connect", s->left->len);
        s->timeout = g_timeout_add_seconds(LEFT_TIMEOUT_S,
                                           service_state_timed_out, s);
    }
    return s;
}

void service_state_close(struct service_state *s)
{
    if (s) {
        g_clear_handle_id(&s->timeout, g_source_remove);
        g_ptr_array_unref(s->left);
        completions_free(s->completions);
        state_files_close(s->files);
        close(s->lock);
        g_free(s);
    }
}
