/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of the state: what is written is read again, a bad file is put
 * aside alone, and what could not be read again is not let in
 */

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "service/state.h"
#include "util/json.h"

#define ID(n)   "000000000000000" #n

static char *folder;

static char *path_of(const char *name)
{
    return g_build_filename(folder, "sessions", name, NULL);
}

static bool exists(const char *name)
{
    g_autofree char *path = path_of(name);

    return g_file_test(path, G_FILE_TEST_EXISTS);
}

static JsonObject *session(const char *id, const char *name, gint64 started)
{
    JsonObject *command = btrail_json_new("s:do", "start", "s:session", name,
                                          "s:file", "a/b.btrail", NULL);

    return btrail_json_new("s:id", id, "o:command", command, "U:started",
                           started, "b:whole", true, "b:keeping", true, NULL);
}

static JsonObject *capture(const char *name)
{
    return btrail_json_new("s:name", name, "s:folder", "vm", "s:process",
                           "", "a:sessions", json_array_new(), NULL);
}

static void add(JsonObject *capture, JsonObject *session)
{
    json_array_add_object_element(btrail_json_array(capture, "sessions"),
                                  session);
}

static struct state_files *open_state(void)
{
    g_autoptr(GError) error = NULL;
    struct state_files *s = state_files_open(folder, &error);

    g_assert_no_error(error);
    return s;
}

/* What the next process reads */
static GPtrArray *read_again(void)
{
    struct state_files *s = open_state();
    GPtrArray *captures = state_files_read(s);

    state_files_close(s);
    return captures;
}

static JsonObject *session_at(GPtrArray *captures, unsigned i, unsigned k)
{
    JsonArray *sessions = btrail_json_array(g_ptr_array_index(captures, i),
                                            "sessions");

    return json_array_get_object_element(sessions, k);
}

static const char *name_at(GPtrArray *captures, unsigned i, unsigned k)
{
    return btrail_json_string(btrail_json_object(session_at(captures, i, k),
                                                 "command"), "session");
}

/* Two captures, with two sessions and with one */
static void write_some(void)
{
    g_autoptr(GPtrArray) captures = state_files_new();
    struct state_files *s = open_state();
    JsonObject *first = capture("backtraild-1");
    JsonObject *second = capture("backtraild-2");
    JsonObject *two = session(ID(2), "two", 7);
    g_autoptr(GError) error = NULL;

    json_object_set_string_member(first, "process", "1-2-x");
    json_object_set_string_member(two, "ring", ".ring-1");
    json_object_set_boolean_member(two, "whole", false);
    add(first, session(ID(1), "one", G_GINT64_CONSTANT(1763715600123456789)));
    add(first, two);
    add(second, session(ID(3), "three", 1));
    g_ptr_array_add(captures, first);
    g_ptr_array_add(captures, second);
    g_assert_true(state_files_write(s, captures, &error));
    g_assert_no_error(error);
    state_files_close(s);
}

static void test_round(void)
{
    g_autoptr(GPtrArray) captures = read_again();
    g_autofree char *sessions = path_of(NULL), *one = path_of(ID(1) ".json");
    JsonObject *s;
    struct stat st;

    g_assert_cmpuint(captures->len, ==, 0);
    g_ptr_array_unref(captures);
    write_some();
    captures = read_again();
    g_assert_cmpuint(captures->len, ==, 2);
    /* In the order in which they have begun */
    g_assert_cmpstr(name_at(captures, 0, 0), ==, "three");
    g_assert_cmpstr(name_at(captures, 1, 0), ==, "two");
    g_assert_cmpstr(name_at(captures, 1, 1), ==, "one");
    g_assert_cmpstr(btrail_json_string(g_ptr_array_index(captures, 1),
                                       "name"), ==, "backtraild-1");
    g_assert_cmpstr(btrail_json_string(g_ptr_array_index(captures, 1),
                                       "folder"), ==, "vm");
    g_assert_cmpstr(btrail_json_string(g_ptr_array_index(captures, 1),
                                       "process"), ==, "1-2-x");
    g_assert_cmpstr(btrail_json_string(g_ptr_array_index(captures, 0),
                                       "process"), ==, "");
    s = session_at(captures, 1, 1);
    g_assert_cmpstr(btrail_json_string(s, "id"), ==, ID(1));
    g_assert_cmpint(btrail_json_int(s, "started", 0), ==,
                    G_GINT64_CONSTANT(1763715600123456789));
    g_assert_true(json_object_get_boolean_member(s, "whole"));
    g_assert_null(btrail_json_string(s, "ring"));
    s = session_at(captures, 1, 0);
    g_assert_cmpstr(btrail_json_string(s, "ring"), ==, ".ring-1");
    g_assert_false(json_object_get_boolean_member(s, "whole"));
    /* Nobody else's business */
    g_assert_cmpint(g_stat(sessions, &st), ==, 0);
    g_assert_cmpint(st.st_mode & 077, ==, 0);
    g_assert_cmpint(g_stat(one, &st), ==, 0);
    g_assert_cmpint(st.st_mode & 077, ==, 0);
}

/* A file is written when its own session changes, and goes with it. */
static void test_changes(void)
{
    g_autoptr(GPtrArray) captures = NULL;
    g_autofree char *one = path_of(ID(1) ".json");
    g_autofree char *two = path_of(ID(2) ".json");
    struct state_files *s;
    struct stat before[2], after[2];

    write_some();
    s = open_state();
    captures = state_files_read(s);
    g_assert_cmpint(g_stat(one, &before[0]), ==, 0);
    g_assert_cmpint(g_stat(two, &before[1]), ==, 0);
    json_object_set_boolean_member(session_at(captures, 1, 0), "whole", true);
    g_ptr_array_remove_index(captures, 0);
    g_assert_true(state_files_write(s, captures, NULL));
    g_assert_cmpint(g_stat(one, &after[0]), ==, 0);
    g_assert_cmpint(g_stat(two, &after[1]), ==, 0);
    g_assert_cmpuint(before[0].st_ino, ==, after[0].st_ino);
    g_assert_cmpuint(before[1].st_ino, !=, after[1].st_ino);
    g_assert_false(exists(ID(3) ".json"));
    g_clear_pointer(&captures, g_ptr_array_unref);
    captures = read_again();
    g_assert_cmpuint(captures->len, ==, 1);
    g_assert_true(json_object_get_boolean_member(session_at(captures, 0, 0),
                                                 "whole"));
    state_files_close(s);
}

static void make_text(const char *path)
{
    g_assert_true(g_file_set_contents(path, "{\"version\":2}", -1, NULL));
}

static void make_empty(const char *path)
{
    g_assert_true(g_file_set_contents(path, "", 0, NULL));
}

static void make_nul(const char *path)
{
    g_assert_true(g_file_set_contents(path, "{}\0{}", 5, NULL));
}

static void make_large(const char *path)
{
    make_empty(path);
    g_assert_cmpint(truncate(path, G_GINT64_CONSTANT(1) << 40), ==, 0);
}

static void make_fifo(const char *path)
{
    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
}

static void make_folder(const char *path)
{
    g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
}

static void make_link(const char *path)
{
    g_assert_cmpint(symlink("/dev/zero", path), ==, 0);
}

static void make_other(const char *path)
{
    g_autofree char *one = path_of(ID(1) ".json"), *text = NULL;

    g_assert_true(g_file_get_contents(one, &text, NULL, NULL));
    *strstr(text, "\"start\"") = ' ';
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void (*const makers[])(const char *path) = {
    make_text, make_empty, make_nul, make_large, make_fifo, make_folder,
    make_link, make_other,
};

/* Whatever is in place of a file, the others are read, and it is kept. */
static void test_spoilt(void)
{
    g_autofree char *two = path_of(ID(2) ".json");

    for (unsigned i = 0; i < G_N_ELEMENTS(makers); i++) {
        g_autoptr(GPtrArray) captures = NULL;
        g_autofree char *aside = i ? g_strdup_printf(
            ID(2) ".json.unreadable.%u", i) :
            g_strdup(ID(2) ".json.unreadable");

        write_some();
        g_assert_cmpint(g_unlink(two), ==, 0);
        makers[i](two);
        captures = read_again();
        g_assert_cmpuint(captures->len, ==, 2);
        g_assert_cmpstr(name_at(captures, 0, 0), ==, "three");
        g_assert_cmpuint(json_array_get_length(btrail_json_array(
            g_ptr_array_index(captures, 1), "sessions")), ==, 1);
        g_assert_cmpstr(name_at(captures, 1, 0), ==, "one");
        g_assert_false(exists(ID(2) ".json"));
        g_assert_true(exists(aside));
    }
}

/* The folder is none: there is nothing to read, and sessions can begin. */
static void test_no_folder(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(makers) - 1; i++) {
        g_autofree char *sessions = path_of(NULL);
        g_autoptr(GPtrArray) captures = NULL;

        if (makers[i] == make_folder) {
            continue;
        }
        makers[i](sessions);
        write_some();
        captures = read_again();
        g_assert_cmpuint(captures->len, ==, 2);
        scratch_remove(g_steal_pointer(&sessions));
    }
}

static void test_refused(void)
{
#define COMMAND "{\"command\":{\"do\":\"start\",\"session\":\"s\"," \
    "\"file\":\"s\"}}"
#define ONE(session) "{\"version\":2,\"capture\":\"n\",\"folder\":\"f\"," \
    "\"process\":\"\",\"session\":" session "}"
    static const char good[] =
        ONE("{\"command\":{\"do\":\"start\",\"session\":\"s\","
            "\"file\":\"s\"},\"ring\":\"x\"}");
    static const char *const bad[] = {
        "", "[]", "{}", "{\"version\":2}", "{\"version\":2,\"session\":{}}",
        "{\"version\":3,\"capture\":\"n\",\"folder\":\"f\","
        "\"process\":\"\",\"session\":" COMMAND "}",
        "{\"version\":2,\"capture\":\"n\",\"folder\":\"..\","
        "\"process\":\"\",\"session\":" COMMAND "}",
        "{\"version\":2,\"capture\":\"n\",\"folder\":\"a/b\","
        "\"process\":\"\",\"session\":" COMMAND "}",
        "{\"version\":2,\"capture\":1,\"folder\":\"f\","
        "\"process\":\"\",\"session\":" COMMAND "}",
        "{\"version\":2,\"capture\":\"n\",\"folder\":\"f\","
        "\"session\":" COMMAND "}",
        "{\"version\":2,\"capture\":\"n\",\"folder\":\"f\","
        "\"process\":1,\"session\":" COMMAND "}",
        ONE("1"), ONE("{}"), ONE("{\"command\":{\"do\":\"list\"}}"),
        ONE("{\"command\":{\"do\":\"start\",\"session\":\"s\"}}"),
        ONE("{\"command\":{\"do\":\"start\",\"file\":\"s\"}}"),
        ONE("{\"command\":{\"do\":\"start\",\"session\":\"s\","
            "\"file\":\"../s\"}}"),
        ONE("{\"command\":{\"do\":\"start\",\"session\":\"s\","
            "\"file\":\"s\"},\"ring\":\"../x\"}"),
        ONE("{\"command\":{\"do\":\"start\",\"session\":\"s\","
            "\"file\":\"s\"},\"ring\":{}}"),
        ONE("{\"command\":{\"do\":\"start\",\"session\":\"s\","
            "\"file\":\"s\"},\"whole\":[]}"),
        ONE("{\"command\":{\"do\":\"start\",\"session\":\"s\","
            "\"file\":\"s\"},\"started\":\"x\"}"),
    };
    g_autoptr(JsonObject) parsed = state_files_parse(good, ID(1), NULL);

    g_assert_nonnull(parsed);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;

        g_assert_null(state_files_parse(bad[i], ID(1), &error));
        g_assert_error(error, SERVICE_ERROR,
                       SERVICE_ERROR_CONFIG);
    }
}

static void add_texts(GString *text, const char *member, const char *format,
                      unsigned n, char of, unsigned length)
{
    g_autofree char *fill = g_strnfill(length, of);

    g_string_append_printf(text, ",\"%s\":[", member);
    for (unsigned i = 0; i < n; i++) {
        g_string_append(text, i ? "," : "");
        g_string_append_printf(text, format, fill);
    }
    g_string_append_c(text, ']');
}

/* The most that a client may request is read again by the next process. */
static void test_most(void)
{
    g_autoptr(GPtrArray) captures = state_files_new(), again = NULL;
    struct state_files *s = open_state();
    JsonObject *all = capture("backtraild-1");
    g_autofree char *file = g_strnfill(200, 'x');

    for (unsigned i = 0; i < 8; i++) {
        GString *text = g_string_new(NULL);
        g_autofree char *id = g_strdup_printf("%016x", i);
        g_autoptr(JsonNode) node = NULL;
        g_autoptr(service_command) c = NULL;

        g_string_append_printf(text, "{\"do\":\"start\",\"session\":\"s%u\","
                               "\"file\":\"%s\"", i, file);
        add_texts(text, "processes", "\"%s\"", COMMAND_MAX_PROCESSES,
                  '[', COMMAND_MAX_TEXT);
        add_texts(text, "triggers", "{\"at\":\"%s:p\",\"do\":\"stop\"}",
                  COMMAND_MAX_TRIGGERS, '{',
                  COMMAND_MAX_TEXT - 2);
        g_string_append_c(text, '}');
        node = btrail_json_parse_object(text->str);
        c = command_parse(json_node_get_object(node), NULL);
        g_assert_nonnull(c);
        g_assert_true(state_files_admit(c, NULL));
        add(all, btrail_json_new("s:id", id, "o:command",
                                 state_files_command(c), NULL));
        g_string_free(text, TRUE);
    }
    g_ptr_array_add(captures, all);
    g_assert_true(state_files_write(s, captures, NULL));
    state_files_close(s);
    again = read_again();
    g_assert_cmpuint(again->len, ==, 1);
    g_assert_cmpuint(json_array_get_length(btrail_json_array(
        g_ptr_array_index(again, 0), "sessions")), ==, 8);
}

/* What the next process could not read is not let in. */
static void test_too_much(void)
{
    GString *text = g_string_new("{\"do\":\"start\",\"session\":\"s\","
                                 "\"file\":\"f\"");
    g_autoptr(JsonNode) node = NULL;
    g_autoptr(service_command) c = NULL;
    g_autoptr(GError) error = NULL;

    add_texts(text, "cr3", "\"0x%s1\"", 64, '0', 16400);
    g_string_append_c(text, '}');
    node = btrail_json_parse_object(text->str);
    c = command_parse(json_node_get_object(node), NULL);
    g_assert_nonnull(c);
    g_assert_false(state_files_admit(c, &error));
    g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_COMMAND);
    g_string_free(text, TRUE);
}

static void in_folder(gconstpointer test)
{
    folder = scratch_new();
    ((void (*)(void))test)();
    scratch_remove(folder);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/state/round", test_round, in_folder);
    g_test_add_data_func("/state/changes", test_changes, in_folder);
    g_test_add_data_func("/state/spoilt", test_spoilt, in_folder);
    g_test_add_data_func("/state/no-folder", test_no_folder, in_folder);
    g_test_add_data_func("/state/refused", test_refused, in_folder);
    g_test_add_data_func("/state/most", test_most, in_folder);
    g_test_add_data_func("/state/too-much", test_too_much, in_folder);
    return g_test_run();
}
