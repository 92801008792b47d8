/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions of mode "last" and their dumps, and files that are in their way
 */

#include <glib/gstdio.h>
#include <string.h>

#include "backtrail/trace.h"
#include "fake-device.h"
#include "service/log.h"

/* The name of the only one in the guest's folder that begins so */
static char *find(const char *prefix)
{
    g_autofree char *path = g_build_filename(folder, "traces", "vm", NULL);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    char *found = NULL;
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        if (g_str_has_prefix(name, prefix)) {
            g_assert_null(found);
            found = g_strdup(name);
        }
    }
    return found;
}

static void start_last(struct device *d)
{
    start_service("");
    connect_device(d, "vm", 100);
    start_session(d, "{\"do\":\"start\",\"session\":\"r\",\"file\":\"r\","
                  "\"mode\":\"last\",\"size\":{\"bytes\":4194304},"
                  "\"names\":\"off\"}");
}

static void stop_last(struct device *d)
{
    end_data(d, 0);
    disconnect(d);
    stop_service();
    fake_clear(&d->producer);
}

/* Somebody has made a file of the name that was to be written in the end. */
static void test_not_dumped(void)
{
    g_autofree char *file = g_build_filename(folder, "traces", "vm",
                                             "r.btrail", NULL);
    g_autofree char *ring = NULL, *left = NULL, *path = NULL;
    g_autofree char *content = NULL;
    g_autoptr(JsonNode) node = NULL;
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    JsonObject *result;
    struct device d;

    start_last(&d);
    fake_publish(&d.producer, 0, 0, FAKE_RECORDS, NULL, 0);
    g_assert_true(g_file_set_contents(file, "mine", -1, NULL));
    result = stop_session(&d, "r", FAKE_RECORDS, &node);
    g_assert_cmpstr(btrail_json_string(result, "state"), ==, "failed");
    ring = find("r-kept-");
    g_assert_nonnull(ring);
    g_assert_nonnull(strstr(btrail_json_string(result, "why"), ring));
    left = find(".ring-");
    g_assert_null(left);
    path = g_build_filename(folder, "traces", "vm", ring, "ring.btrail",
                            NULL);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
    g_assert_cmpuint(info.records, ==, FAKE_RECORDS);
    btrail_trace_close(trace);
    g_assert_true(g_file_get_contents(file, &content, NULL, NULL));
    g_assert_cmpstr(content, ==, "mine");
    fake_clear(&d.producer);
    disconnect(&d);
    stop_service();
}

/* What a session is going to write in the end is its own before it is there. */
static void test_files_of_others(void)
{
    struct device d;

    start_last(&d);
    refused(&d, "{\"do\":\"start\",\"session\":\"t\",\"file\":\"r\"}",
            "of session 'r'");
    refused(&d, "{\"do\":\"dump\",\"session\":\"r\",\"file\":\"r.btrail\"}",
            "of session 'r'");
    stop_last(&d);
}

/* While it is dumped only a panic dumps it again, once. */
static void test_dumps(void)
{
    g_autofree char *first = g_build_filename(folder, "traces", "vm",
                                              "1.btrail", NULL);
    g_autofree char *panic = NULL;
    g_autoptr(JsonNode) node = NULL;
    JsonObject *object;
    struct device d;

    start_last(&d);
    command(&d, "{\"do\":\"dump\",\"session\":\"r\",\"file\":\"1\"}");
    say(&d, "{\"type\":\"event\",\"event\":\"panic\"}");
    say(&d, "{\"type\":\"event\",\"event\":\"panic\"}");
    refused(&d, "{\"do\":\"dump\",\"session\":\"r\",\"file\":\"2\"}",
            "is being dumped");
    node = hear(&d);
    object = json_node_get_object(node);
    g_assert_cmpint(btrail_json_int(object, "id", 0), ==, 2);
    g_assert_nonnull(btrail_json_object(object, "return"));
    g_assert_true(g_file_test(first, G_FILE_TEST_EXISTS));
    stop_last(&d);
    /* find() sees to it that it is one. */
    panic = find("r-panic-");
    g_assert_nonnull(panic);
}

/* No dump is made when a limit of the disk is reached. */
static void test_no_room(void)
{
    static const char *const limits[][2] = {
        { "[each-guest]\ndisk=1\n", "of this guest take" },
        { "[all-guests]\ndisk=1\n", "of all guests together take" },
        { "[all-guests]\nkeep-free=100000000G\n", "must stay free" },
    };
    struct device d;
    unsigned i;

    start_last(&d);
    for (i = 0; i < G_N_ELEMENTS(limits); i++) {
        g_autofree char *text = g_strdup_printf(
            "[service]\nsocket=%s/socket\ntraces=%s/traces\nstate=%s/state\n"
            "[all-guests]\nkeep-free=0\n%s", folder, folder, folder,
            limits[i][0]);

        service_reload(service, config_parse(text, "test",
                                             NULL));
        refused(&d, "{\"do\":\"dump\",\"session\":\"r\"}", limits[i][1]);
    }
    stop_last(&d);
}

/* Have the timer for a session's duration act; false if there is none. */
static bool pass_time(void)
{
    unsigned i;

    for (i = 1; i < 10000; i++) {
        GSource *source = g_main_context_find_source_by_id(NULL, i);

        if (source && !g_strcmp0(g_source_get_name(source), "duration")) {
            g_source_set_ready_time(source, 0);
            return true;
        }
    }
    return false;
}

/* Longer than a timer can be, 24.8 days */
static void test_duration(void)
{
    g_autoptr(JsonNode) node = NULL;
    JsonObject *status;
    JsonArray *sessions;
    struct device d;

    start_service("");
    connect_device(&d, "vm", 100);
    start_session(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\","
                  "\"duration\":5000000,\"names\":\"off\"}");
    g_assert_true(pass_time());
    command(&d, "{\"do\":\"status\",\"session\":\"s\"}");
    sessions = json_object_get_array_member(result_of(&d, &node), "sessions");
    status = json_array_get_object_element(sessions, 0);
    g_assert_cmpstr(btrail_json_string(status, "state"), ==, "active");
    g_assert_true(pass_time());
    end_data(&d, 0);
    disconnect(&d);
    stop_service();
    fake_clear(&d.producer);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    service_log_init(true, true);
    g_test_add_data_func("/guest-session/not-dumped", test_not_dumped,
                         in_folder);
    g_test_add_data_func("/guest-session/files-of-others",
                         test_files_of_others, in_folder);
    g_test_add_data_func("/guest-session/dumps", test_dumps, in_folder);
    g_test_add_data_func("/guest-session/no-room", test_no_room, in_folder);
    g_test_add_data_func("/guest-session/duration", test_duration, in_folder);
    return g_test_run();
}
