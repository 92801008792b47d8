/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What has to survive this process: see state.h
 */

#include <glib/gstdio.h>
#include <string.h>

#include "service/command.h"
#include "service/service-error.h"
#include "util/json.h"
#include "service/state.h"

#define VERSION 1

GPtrArray *btrail_state_new(void)
{
    return g_ptr_array_new_with_free_func((GDestroyNotify)json_object_unref);
}

static bool refuse_state(GError **error, const char *what)
{
    return btrail_service_fail(error, BTRAIL_SERVICE_ERROR_CONFIG,
                               "the state of sessions makes no sense: %s",
                               what);
}

/* A name in a folder, not a path */
static bool is_plain(const char *name)
{
    return name && *name && !strchr(name, '/') && strcmp(name, ".") &&
           strcmp(name, "..");
}

static bool check_session(JsonNode *node, GError **error)
{
    JsonObject *json = JSON_NODE_HOLDS_OBJECT(node) ?
                       json_node_get_object(node) : NULL;
    JsonObject *command = json ? btrail_json_object(json, "command") : NULL;
    const char *ring = json ? btrail_json_string(json, "ring") : NULL;
    g_autoptr(GError) e = NULL;
    g_autoptr(btrail_command) parsed = NULL;

    if (!command) {
        return refuse_state(error, "a session without 'command'");
    }
    parsed = btrail_command_parse(command, &e);
    if (!parsed) {
        return refuse_state(error, e->message);
    }
    if (parsed->what != BTRAIL_COMMAND_START || !parsed->session ||
        !parsed->file || (ring && !is_plain(ring))) {
        return refuse_state(error, "a session without names");
    }
    return true;
}

static bool check_capture(JsonNode *node, GError **error)
{
    JsonObject *json = JSON_NODE_HOLDS_OBJECT(node) ?
                       json_node_get_object(node) : NULL;
    const char *name = json ? btrail_json_string(json, "name") : NULL;
    const char *folder = json ? btrail_json_string(json, "folder") : NULL;
    JsonArray *sessions = json ? btrail_json_array(json, "sessions") : NULL;

    if (!name || !is_plain(folder) || !sessions) {
        return refuse_state(error, "a capture without names or sessions");
    }
    for (unsigned i = 0; i < json_array_get_length(sessions); i++) {
        if (!check_session(json_array_get_element(sessions, i), error)) {
            return false;
        }
    }
    return true;
}

GPtrArray *btrail_state_parse(const char *text, GError **error)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(text);
    JsonObject *json = node ? json_node_get_object(node) : NULL;
    JsonArray *array = json ? btrail_json_array(json, "captures") : NULL;
    g_autoptr(GPtrArray) captures = btrail_state_new();

    if (!array || btrail_json_int(json, "version", 0) != VERSION) {
        refuse_state(error, "no captures, or another version");
        return NULL;
    }
    for (unsigned i = 0; i < json_array_get_length(array); i++) {
        JsonNode *capture = json_array_get_element(array, i);

        if (!check_capture(capture, error)) {
            return NULL;
        }
        g_ptr_array_add(captures, json_node_dup_object(capture));
    }
    return g_steal_pointer(&captures);
}

GPtrArray *btrail_state_read(const char *path, GError **error)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) e = NULL;
    GPtrArray *captures;

    if (!g_file_get_contents(path, &text, NULL, &e)) {
        if (g_error_matches(e, G_FILE_ERROR, G_FILE_ERROR_NOENT)) {
            return btrail_state_new();
        }
        g_propagate_error(error, g_steal_pointer(&e));
        return NULL;
    }
    captures = btrail_state_parse(text, error);
    if (!captures) {
        g_prefix_error(error, "%s: ", path);
    }
    return captures;
}

bool btrail_state_write(const char *path, GPtrArray *captures,
                        GError **error)
{
    JsonArray *array = json_array_new();
    g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);
    g_autofree char *text = NULL;
    g_autofree char *next = g_strconcat(path, ".new", NULL);

    for (unsigned i = 0; i < captures->len; i++) {
        json_array_add_object_element(
            array, json_object_ref(g_ptr_array_index(captures, i)));
    }
    json_node_take_object(node, btrail_json_new("u:version", VERSION,
                                                "a:captures", array, NULL));
    text = json_to_string(node, TRUE);
    /*
     * Whoever reads it finds the old one or the new one.  Nobody waits until
     * it is on the disk, which can take a minute where guests are being traced:
     * what crashes the host ends the guests that it is about.
     */
    if (!g_file_set_contents_full(next, text, -1, G_FILE_SET_CONTENTS_NONE,
                                  0600, error)) {
        return false;
    }
    if (g_rename(next, path) < 0) {
        return btrail_service_fail_errno(error, "%s", path);
    }
    return true;
}
