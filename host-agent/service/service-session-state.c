/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of a session, for clients and for the next process: see
 * service-session.h
 */

#include "backtrail/words.h"
#include "service/service-session.h"
#include "util/json.h"

/* For clients, it ends until its trace is complete. */
static const char *const state_names[] = {
    [SERVICE_SESSION_STARTING] = "starting",
    [SERVICE_SESSION_ACTIVE] = "active",
    [SERVICE_SESSION_ENDING] = "ending",
    [SERVICE_SESSION_OVER] = "ending",
    [SERVICE_SESSION_FINISHING] = "ending",
    [SERVICE_SESSION_ENDED] = "ended",
    [SERVICE_SESSION_FAILED] = "failed",
};

/*
 * The processes and symbols that the guest has not had since the session began.
 * Of another process's session, it is not known what that has found.
 */
static JsonArray *list_not_found(const struct service_session *s)
{
    const struct service_command *c = s->command;
    JsonArray *list = json_array_new();

    for (unsigned i = 0; c->filter.processes && c->filter.processes[i]; i++) {
        if (!session_has_found(s->session, i)) {
            json_array_add_string_element(list, c->filter.processes[i]);
        }
    }
    for (unsigned i = 0; i < c->n_triggers; i++) {
        if (trigger_is_wanted(&c->triggers[i]) && !s->found[i] &&
            !session_places(s->session, i)) {
            json_array_add_string_element(list, c->at[i]);
        }
        if (c->until[i] && !session_ends(s->session, i)) {
            json_array_add_string_element(list, c->until[i]);
        }
    }
    if (s->resumed || !json_array_get_length(list)) {
        g_clear_pointer(&list, json_array_unref);
    }
    return list;
}

void service_session_update(struct service_session *s)
{
    if (s->session && s->state < SERVICE_SESSION_FINISHING) {
        g_clear_pointer(&s->not_found, json_array_unref);
        s->not_found = list_not_found(s);
        session_progress(s->session, &s->progress);
        s->keeping = session_keeping(s->session);
        s->off = session_triggers_off(s->session);
        if (s->progress.begun) {
            s->whole = session_whole(s->session);
        }
    }
}

uint64_t service_session_bytes(struct service_session *s)
{
    service_session_update(s);
    return s->past.bytes + s->progress.bytes;
}

void service_session_waited(struct service_session *s,
                                 const struct capture_progress *p)
{
    if (!s->waited_known) {
        s->paused_base = p->paused_ns;
        s->limited_base = p->limited_ns;
        s->waited_known = true;
    }
    if (s->state < SERVICE_SESSION_ENDED) {
        s->paused_ns = p->paused_ns - MIN(p->paused_ns, s->paused_base);
        s->limited_ns = p->limited_ns - MIN(p->limited_ns, s->limited_base);
    }
}

/* Copies what the client has requested, as it came. */
static void copy_members(JsonObject *to, JsonObject *from)
{
    static const char *const members[] = {
        "owner", "vcpus", "cr3", "processes", "size", "duration", "split",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(members); i++) {
        if (json_object_has_member(from, members[i])) {
            json_object_set_member(to, members[i],
                                   json_object_dup_member(from, members[i]));
        }
    }
}

/* Adds how many calls or spans a trigger has not measured. */
static void put_unmeasured(JsonObject *trigger,
                           const struct service_session *s, unsigned i)
{
    uint64_t n = session_calls_left_out(s->session, i);

    if (n) {
        json_object_set_int_member(trigger, "unmeasured", MIN(n, G_MAXINT64));
    }
}

/* Adds the triggers, and at how many places each acts. */
static void put_triggers(JsonObject *json,
                         const struct service_session *s)
{
    JsonArray *array = json_array_new();

    for (unsigned i = 0; i < s->command->n_triggers; i++) {
        const struct trigger *t = &s->command->triggers[i];
        JsonObject *trigger = btrail_json_new(
            "s:at", s->command->at[i],
            "s:do", trigger_action_name(t->action),
            "U:hits", t->hits, NULL);

        btrail_json_add(trigger, "S:until", s->command->until[i], NULL);
        if (t->longer_ns) {
            btrail_json_add(trigger, "d:longer", t->longer_ns / 1e9, NULL);
        }
        if (t->once) {
            json_object_set_boolean_member(trigger, "once", true);
            json_object_set_boolean_member(trigger, "off", s->off >> i & 1);
        }
        if (s->session && s->state < SERVICE_SESSION_FINISHING) {
            json_object_set_int_member(trigger, "places",
                                       session_places(s->session, i));
            if (session_places_capped(s->session, i)) {
                json_object_set_boolean_member(trigger, "capped", true);
            }
            put_unmeasured(trigger, s, i);
        }
        json_array_add_object_element(array, trigger);
    }
    json_object_set_array_member(json, "triggers", array);
}

JsonObject *service_session_status(struct service_session *s)
{
    const struct service_command *c = s->command;
    JsonObject *json = btrail_json_new(
        "s:session", c->session,
        "s:state", state_names[s->state],
        "s:mode", session_mode_name(c->mode),
        "s:file", c->file,
        "s:folder", s->options.folder->path,
        "s:privilege", btrail_privilege_name(c->privilege),
        "s:overflow", btrail_overflow_name(c->overflow), NULL);

    service_session_update(s);
    copy_members(json, c->json);
    if (c->n_triggers) {
        put_triggers(json, s);
    }
    if (s->not_found) {
        json_object_set_array_member(json, "not-found",
                                     json_array_ref(s->not_found));
    }
    btrail_json_add(json,
                    "U:records", s->past.records + s->progress.records,
                    "U:filtered", s->progress.filtered,
                    "U:bytes", s->past.bytes + s->progress.bytes,
                    "U:record-bytes",
                    s->past.record_bytes + s->progress.record_bytes,
                    "U:lost", s->past.lost + s->progress.lost,
                    "U:paused-ns", s->paused_ns,
                    "U:limited-ns", s->limited_ns,
                    "U:cpu-ns", s->progress.cpu_ns, NULL);
    btrail_json_set_time(json, "started", s->started / 1000000);
    if (s->ended) {
        btrail_json_set_time(json, "ended", s->ended / 1000000);
    }
    btrail_json_add(json, "S:why", s->why, NULL);
    return json;
}

JsonObject *service_session_save(struct service_session *s)
{
    JsonArray *dumps;

    if (s->fate == SERVICE_SESSION_DETACHED ||
        s->state >= SERVICE_SESSION_ENDED) {
        return NULL;
    }
    service_session_update(s);
    dumps = json_array_new();
    for (unsigned i = 0; i < s->dumping->len; i++) {
        json_array_add_string_element(dumps, g_ptr_array_index(s->dumping, i));
    }
    /*
     * A resumed session must survive before it is in a capture again, too.  One
     * that has never been in any has files, and nobody waits for it; nor does
     * anybody continue a session that was to end.
     */
    return btrail_json_new("s:id", s->id,
                           "o:command", state_files_command(s->command),
                           "U:started", s->started * 1000, "S:ring", s->ring,
                           "b:whole", s->whole, "b:keeping", s->keeping,
                           "U:off", s->off,
                           "a:dumps", dumps,
                           "b:over",
                           s->state == SERVICE_SESSION_STARTING ?
                           !s->resumed :
                           s->state != SERVICE_SESSION_ACTIVE, NULL);
}
