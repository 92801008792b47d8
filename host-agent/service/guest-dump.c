/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Dumps of a guest's flight recorders: see guest-dump.h
 */

#include <string.h>

#include "service/guest-dump.h"
#include "service/log.h"
#include "util/json.h"

/* Dumps that are done and still in the status */
#define MAX_DUMPS       16

/* A dump that a client has requested, or that a panic has caused */
struct guest_dump {
    GQueue *dumps;
    struct guest_link *link;
    struct guest_client client;
    guint reply_source;
    JsonObject *status;
    bool done;
};

static void free_dump(struct guest_dump *d)
{
    json_object_unref(d->status);
    g_free(d);
}

void guest_dump_clear(GQueue *dumps)
{
    g_queue_clear_full(dumps, (GDestroyNotify)free_dump);
}

static gboolean reply_writing(gpointer opaque)
{
    struct guest_dump *d = opaque;

    d->reply_source = 0;
    guest_link_reply(d->link, d->client, json_object_ref(d->status));
    d->client.id = -1;
    return G_SOURCE_REMOVE;
}

/* Removes the oldest dumps that are done. */
static void limit_dumps(GQueue *dumps)
{
    GList *l = dumps->head;

    while (l && dumps->length > MAX_DUMPS) {
        GList *next = l->next;
        struct guest_dump *d = l->data;

        if (d->done) {
            g_queue_delete_link(dumps, l);
            free_dump(d);
        }
        l = next;
    }
}

static void dumped(void *opaque, JsonObject *result, const GError *error)
{
    struct guest_dump *d = opaque;
    GQueue *dumps = d->dumps;
    const char *file = btrail_json_string(d->status, "file");
    bool replied = !d->reply_source;

    g_clear_handle_id(&d->reply_source, g_source_remove);
    d->done = true;
    json_object_set_string_member(d->status, "state",
                                  error ? "failed" : "written");
    if (error) {
        service_log(SERVICE_LOG_WARNING, "guest %s: not dumped into %s: %s",
                    d->link->name, file, error->message);
        json_object_set_string_member(d->status, "why",
                                      error->message);
        guest_link_refuse(d->link, d->client, error->message);
        if (!replied) {
            /* The client knows; there may be a good dump of this name. */
            g_queue_remove(dumps, d);
            free_dump(d);
        }
    } else {
        service_log(SERVICE_LOG_INFO, "guest %s: dumped into %s", d->link->name,
                    file);
        btrail_json_add_all(d->status, result);
        guest_link_reply(d->link, d->client, json_object_ref(d->status));
    }
    limit_dumps(dumps);
}

bool guest_dump_start(GQueue *dumps, struct guest_member *m, gint64 id,
                      const char *file, enum service_session_why why,
                      GError **error)
{
    struct guest_dump *d = g_new0(struct guest_dump, 1);
    g_autofree char *name = NULL;

    d->dumps = dumps;
    d->link = m->link;
    d->client = guest_link_client(m->link, id);
    if (!service_session_dump(m->session, file, why, NULL, &name, dumped,
                              d, error)) {
        g_free(d);
        return false;
    }
    d->status = btrail_json_new("s:session", guest_member_name(m),
                                "s:file", name, "s:folder", m->folder->path,
                                "s:state", "writing", NULL);
    g_queue_push_tail(dumps, d);
    d->reply_source = g_timeout_add_seconds(GUEST_REPLY_S, reply_writing, d);
    return true;
}

void guest_dump_add_status(GQueue *dumps, const char *session,
                           JsonArray *status)
{
    for (GList *l = dumps->head; l; l = l->next) {
        const struct guest_dump *d = l->data;

        if (!session ||
            !strcmp(session, btrail_json_string(d->status, "session"))) {
            json_array_add_object_element(status, json_object_ref(d->status));
        }
    }
}
