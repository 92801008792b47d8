/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <glib/gstdio.h>
#include <string.h>

#include "backtrail/trace.h"
#include "fake-device.h"
#include "log.h"

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

    start_service("");
    connect_device(&d, "vm", 100);
    start_session(&d, "{\"do\":\"start\",\"session\":\"r\",\"file\":\"r\","
                  "\"mode\":\"last\",\"size\":{\"bytes\":4194304},"
                  "\"names\":\"off\"}");
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

    start_service("");
    connect_device(&d, "vm", 100);
    start_session(&d, "{\"do\":\"start\",\"session\":\"r\",\"file\":\"r\","
                  "\"mode\":\"last\",\"size\":{\"bytes\":4194304},"
                  "\"names\":\"off\"}");
    refused(&d, "{\"do\":\"start\",\"session\":\"t\",\"file\":\"r\"}",
            "of session 'r'");
    refused(&d, "{\"do\":\"dump\",\"session\":\"r\",\"file\":\"r.btrail\"}",
            "of session 'r'");
    end_data(&d, 0);
    disconnect(&d);
    stop_service();
    fake_clear(&d.producer);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    btrail_log_init(true, true);
    g_test_add_data_func("/guest-session/not-dumped", test_not_dumped,
                         in_folder);
    g_test_add_data_func("/guest-session/files-of-others",
                         test_files_of_others, in_folder);
    return g_test_run();
}
