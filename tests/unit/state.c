/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of the state: what is written is read again, and bad files are
 * refused
 */

#include <glib/gstdio.h>
#include <sys/stat.h>

#include "util/json.h"
#include "service/state.h"

static JsonObject *command(const char *session)
{
    JsonObject *json = json_object_new();

    json_object_set_string_member(json, "do", "start");
    json_object_set_string_member(json, "session", session);
    json_object_set_string_member(json, "file", "a/b.btrail");
    return json;
}

static void test_round(void)
{
    g_autofree char *folder = g_dir_make_tmp("state-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "sessions.json", NULL);
    g_autoptr(GError) error = NULL;
    GPtrArray *captures = btrail_state_read(path, &error);
    struct btrail_state_capture *c;
    struct btrail_state_session *s;
    struct stat st;

    g_assert_no_error(error);
    g_assert_cmpuint(captures->len, ==, 0);
    c = btrail_state_capture_new("backtraild-1", "vm");
    s = btrail_state_session_new();
    s->command = command("one");
    s->started = G_GINT64_CONSTANT(1763715600123456789);
    s->whole = true;
    s->keeping = true;
    g_ptr_array_add(c->sessions, s);
    s = btrail_state_session_new();
    s->command = command("two");
    s->ring = g_strdup(".ring-1");
    g_ptr_array_add(c->sessions, s);
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
    g_assert_cmpstr(c->name, ==, "backtraild-1");
    g_assert_cmpstr(c->folder, ==, "vm");
    g_assert_cmpuint(c->sessions->len, ==, 2);
    s = g_ptr_array_index(c->sessions, 0);
    g_assert_cmpstr(btrail_json_string(s->command, "session"), ==, "one");
    g_assert_cmpint(s->started, ==, G_GINT64_CONSTANT(1763715600123456789));
    g_assert_true(s->whole);
    g_assert_true(s->keeping);
    g_assert_null(s->ring);
    s = g_ptr_array_index(c->sessions, 1);
    g_assert_cmpstr(s->ring, ==, ".ring-1");
    g_assert_false(s->whole);
    g_assert_false(s->keeping);
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
