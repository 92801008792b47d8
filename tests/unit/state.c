/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of the state: what is written is read again, and bad files are
 * refused
 */

#include <glib/gstdio.h>
#include <sys/stat.h>

#include "util/json.h"
#include "service/state.h"

static JsonObject *session(const char *name)
{
    JsonObject *command = json_object_new(), *json = json_object_new();

    json_object_set_string_member(command, "do", "start");
    json_object_set_string_member(command, "session", name);
    json_object_set_string_member(command, "file", "a/b.btrail");
    json_object_set_object_member(json, "command", command);
    return json;
}

static void test_round(void)
{
    g_autofree char *folder = g_dir_make_tmp("state-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "sessions.json", NULL);
    g_autoptr(GError) error = NULL;
    GPtrArray *captures = btrail_state_read(path, &error);
    JsonArray *sessions = json_array_new();
    JsonObject *c, *s;
    struct stat st;

    g_assert_no_error(error);
    g_assert_cmpuint(captures->len, ==, 0);
    s = session("one");
    json_object_set_int_member(s, "started",
                               G_GINT64_CONSTANT(1763715600123456789));
    json_object_set_boolean_member(s, "whole", true);
    json_object_set_boolean_member(s, "keeping", true);
    json_array_add_object_element(sessions, s);
    s = session("two");
    json_object_set_string_member(s, "ring", ".ring-1");
    json_object_set_boolean_member(s, "whole", false);
    json_object_set_boolean_member(s, "keeping", false);
    json_array_add_object_element(sessions, s);
    c = json_object_new();
    json_object_set_string_member(c, "name", "backtraild-1");
    json_object_set_string_member(c, "folder", "vm");
    json_object_set_array_member(c, "sessions", sessions);
    g_ptr_array_add(captures, c);
    g_assert_true(btrail_state_write(path, captures, &error));
    g_assert_no_error(error);
    g_ptr_array_unref(captures);
    /* Nobody else's business */
    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpint(st.st_mode & 077, ==, 0);

    captures = btrail_state_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(captures->len, ==, 1);
    c = g_ptr_array_index(captures, 0);
    g_assert_cmpstr(btrail_json_string(c, "name"), ==, "backtraild-1");
    g_assert_cmpstr(btrail_json_string(c, "folder"), ==, "vm");
    sessions = json_object_get_array_member(c, "sessions");
    g_assert_cmpuint(json_array_get_length(sessions), ==, 2);
    s = json_array_get_object_element(sessions, 0);
    g_assert_cmpstr(btrail_json_string(btrail_json_object(s, "command"),
                                       "session"), ==, "one");
    g_assert_cmpint(btrail_json_int(s, "started", 0), ==,
                    G_GINT64_CONSTANT(1763715600123456789));
    g_assert_true(json_object_get_boolean_member(s, "whole"));
    g_assert_true(json_object_get_boolean_member(s, "keeping"));
    g_assert_null(btrail_json_string(s, "ring"));
    s = json_array_get_object_element(sessions, 1);
    g_assert_cmpstr(btrail_json_string(s, "ring"), ==, ".ring-1");
    g_assert_false(json_object_get_boolean_member(s, "whole"));
    g_assert_false(json_object_get_boolean_member(s, "keeping"));
    g_ptr_array_unref(captures);
    g_unlink(path);
    g_assert_cmpint(g_rmdir(folder), ==, 0);
}

static void test_refused(void)
{
#define ONE(session) "{\"version\":1,\"captures\":[{\"name\":\"n\"," \
    "\"folder\":\"f\",\"sessions\":[" session "]}]}"
    static const char *const bad[] = {
        "", "[]", "{}", "{\"version\":2,\"captures\":[]}",
        "{\"version\":1,\"captures\":{}}",
        "{\"version\":1,\"captures\":[1]}",
        "{\"version\":1,\"captures\":[{\"name\":\"n\",\"folder\":\"f\"}]}",
        "{\"version\":1,\"captures\":[{\"name\":\"n\",\"folder\":\"..\","
        "\"sessions\":[]}]}",
        "{\"version\":1,\"captures\":[{\"name\":\"n\",\"folder\":\"a/b\","
        "\"sessions\":[]}]}",
        ONE("1"), ONE("{}"), ONE("{\"command\":{\"do\":\"list\"}}"),
        ONE("{\"command\":{\"do\":\"start\",\"session\":\"s\"}}"),
        ONE("{\"command\":{\"do\":\"start\",\"file\":\"s\"}}"),
        ONE("{\"command\":{\"do\":\"start\",\"session\":\"s\","
            "\"file\":\"../s\"}}"),
        ONE("{\"command\":{\"do\":\"start\",\"session\":\"s\","
            "\"file\":\"s\"},\"ring\":\"../x\"}"),
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;

        g_assert_null(btrail_state_parse(bad[i], &error));
        g_assert_error(error, BTRAIL_SERVICE_ERROR,
                       BTRAIL_SERVICE_ERROR_CONFIG);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/state/round", test_round);
    g_test_add_func("/state/refused", test_refused);
    return g_test_run();
}
