/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completing the traces of sessions that nobody continues: see completion.h
 */

#include <errno.h>

#include "service/completion.h"
#include "service/leftover.h"
#include "util/json.h"

struct completions {
    const struct folder *all;
    void (*changed)(void *opaque);
    void *opaque;
    GPtrArray *jobs;
};

/**
 * struct job
 * @all:     NULL once nobody waits for it
 * @capture: with one session, see state.h
 * @session: a copy for the thread: JSON must not be shared with one
 * @folder:  of its guest
 * @whole:   nothing is left to do
 * @done:    its thread is through
 */
struct job {
    struct completions *all;
    JsonObject *capture;
    JsonNode *session;
    struct folder *folder;
    bool whole;
    bool done;
};

static JsonNode *copy(JsonObject *object)
{
    g_autofree char *text = btrail_json_text(object, FALSE);

    return btrail_json_parse_object(text);
}

static void free_job(struct job *job)
{
    json_object_unref(job->capture);
    json_node_unref(job->session);
    folder_free(job->folder);
    g_free(job);
}

/* What has failed stays in the state: the next process tries again. */
static gboolean job_done(gpointer opaque)
{
    struct job *job = opaque;
    struct completions *c = job->all;

    job->done = true;
    if (!c) {
        free_job(job);
        return G_SOURCE_REMOVE;
    }
    if (job->whole) {
        g_ptr_array_remove(c->jobs, job);
        free_job(job);
    }
    c->changed(c->opaque);
    return G_SOURCE_REMOVE;
}

static gpointer complete_thread(gpointer opaque)
{
    struct job *job = opaque;

    job->whole = leftover_complete(
        job->folder, json_node_get_object(job->session));
    g_idle_add(job_done, job);
    return NULL;
}

void completions_add(struct completions *c, JsonObject *capture,
                     JsonObject *session)
{
    const char *name = btrail_json_string(capture, "folder");
    struct folder *folder = folder_existing(c->all, name);
    bool none = !folder && (errno == ENOENT || errno == ENOTDIR ||
                            errno == ELOOP);
    JsonNode *session_copy = copy(session);
    JsonArray *sessions;
    struct job *job;

    if (none || !session_copy) {
        g_clear_pointer(&session_copy, json_node_unref);
        folder_free(folder);
        return;
    }
    json_object_set_boolean_member(session, "over", true);
    sessions = json_array_new();
    json_array_add_object_element(sessions, json_object_ref(session));
    job = g_new0(struct job, 1);
    job->all = c;
    job->folder = folder;
    job->session = session_copy;
    job->done = !folder;
    job->capture = btrail_json_new(
        "s:name", btrail_json_string(capture, "name"), "s:folder", name,
        "s:process", btrail_json_string(capture, "process"),
        "a:sessions", sessions, NULL);
    g_ptr_array_add(c->jobs, job);
    if (folder) {
        g_thread_unref(g_thread_new("complete", complete_thread, job));
    }
    c->changed(c->opaque);
}

void completions_add_all(struct completions *c,
                         JsonObject *capture)
{
    JsonArray *sessions = json_object_get_array_member(capture, "sessions");

    for (unsigned i = 0; i < json_array_get_length(sessions); i++) {
        completions_add(c, capture,
                        json_array_get_object_element(sessions, i));
    }
}

bool completions_busy(const struct completions *c)
{
    for (unsigned i = 0; i < c->jobs->len; i++) {
        const struct job *job = g_ptr_array_index(c->jobs, i);

        if (!job->done) {
            return true;
        }
    }
    return false;
}

void completions_save(const struct completions *c,
                      GPtrArray *captures)
{
    for (unsigned i = 0; i < c->jobs->len; i++) {
        const struct job *job = g_ptr_array_index(c->jobs, i);

        g_ptr_array_add(captures, json_object_ref(job->capture));
    }
}

struct completions *
completions_new(const struct folder *all,
                void (*changed)(void *opaque), void *opaque)
{
    struct completions *c = g_new0(struct completions, 1);

    c->all = all;
    c->changed = changed;
    c->opaque = opaque;
    c->jobs = g_ptr_array_new();
    return c;
}

void completions_free(struct completions *c)
{
    for (unsigned i = 0; i < c->jobs->len; i++) {
        struct job *job = g_ptr_array_index(c->jobs, i);

        job->all = NULL;
        if (job->done) {
            free_job(job);
        }
    }
    g_ptr_array_unref(c->jobs);
    g_free(c);
}
