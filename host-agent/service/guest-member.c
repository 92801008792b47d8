/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session as a member of its guest: see guest-member.h
 */

#include <string.h>

#include "service/guest-member.h"
#include "service/log.h"
#include "util/json.h"

struct guest_member *guest_member_new(struct guest_link *link,
                                      const struct folder *folder)
{
    struct guest_member *m = g_new0(struct guest_member, 1);

    m->link = link;
    m->folder = folder;
    m->start.id = -1;
    m->stops = g_array_new(FALSE, FALSE, sizeof(struct guest_client));
    return m;
}

void guest_member_free(struct guest_member *m)
{
    g_clear_handle_id(&m->reply_source, g_source_remove);
    g_array_unref(m->stops);
    g_free(m);
}

struct guest_member *guest_member_find(GPtrArray *members, const char *name)
{
    for (unsigned i = 0; i < members->len; i++) {
        struct guest_member *m = guest_member_at(members, i);

        if (!strcmp(guest_member_name(m), name)) {
            return m;
        }
    }
    return NULL;
}

void guest_member_announce(struct guest_member *m)
{
    const struct service_command *c = m->session->command;

    guest_link_reply(m->link, m->start,
                     btrail_json_new("s:session", c->session, "s:file", c->file,
                                     "s:folder", m->folder->path, NULL));
    m->start.id = -1;
    m->announced = true;
    service_log(SERVICE_LOG_INFO, "guest %s: session %s%s%s begins: %s",
                m->link->name, c->session, c->owner ? " of " : "",
                c->owner ? c->owner : "", c->file);
}

static void reply_to_stops(struct guest_member *m, JsonObject *status)
{
    for (unsigned i = 0; i < m->stops->len; i++) {
        guest_link_reply(m->link,
                         g_array_index(m->stops, struct guest_client, i),
                         json_object_ref(status));
    }
    g_array_set_size(m->stops, 0);
}

static gboolean reply_late(gpointer opaque)
{
    struct guest_member *m = opaque;
    g_autoptr(JsonObject) status = service_session_status(m->session);

    m->reply_source = 0;
    reply_to_stops(m, status);
    return G_SOURCE_REMOVE;
}

void guest_member_add_stop(struct guest_member *m, gint64 id)
{
    struct guest_client client = guest_link_client(m->link, id);

    g_array_append_val(m->stops, client);
    if (!m->reply_source) {
        m->reply_source = g_timeout_add_seconds(GUEST_REPLY_S, reply_late, m);
    }
}

void guest_member_done(struct guest_member *m, JsonObject *status,
                       const char *why)
{
    guest_link_refuse(m->link, m->start, why);
    reply_to_stops(m, status);
}
