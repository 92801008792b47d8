/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of a guest's clients: what they may name, and what of other guests
 * and sessions they find
 */

#include <string.h>

#include "fake-device.h"
#include "service/guest-command.h"
#include "service/guest-member.h"

#define START   "{\"do\":\"start\",\"session\":\"%s\",\"file\":\"%s\"," \
                "\"names\":\"off\"}"

static void start(struct device *d, const char *session, const char *file)
{
    g_autofree char *text = g_strdup_printf(START, session, file);

    start_session(d, text);
}

static void start_refused(struct device *d, const char *session,
                          const char *file, const char *why)
{
    g_autofree char *text = g_strdup_printf(START, session, file);

    refused(d, text, why);
}

static gint compare(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The states of the traces that a list has, as "FILE STATE, ..." in order */
static void lists(struct device *d, const char *guest, const char *want)
{
    g_autofree char *text = guest ?
        g_strdup_printf("{\"do\":\"list\",\"guest\":\"%s\"}", guest) :
        g_strdup("{\"do\":\"list\"}");
    g_autoptr(JsonNode) node = NULL;
    g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *got = NULL;
    JsonArray *traces;

    command(d, text);
    traces = btrail_json_array(result_of(d, &node), "traces");
    for (unsigned i = 0; i < json_array_get_length(traces); i++) {
        JsonObject *o = json_array_get_object_element(traces, i);

        g_ptr_array_add(found, g_strdup_printf("%s %s", btrail_json_string(
            o, "file"), btrail_json_string(o, "state")));
    }
    g_ptr_array_sort(found, compare);
    g_ptr_array_add(found, NULL);
    got = g_strjoinv(", ", (char **)found->pdata);
    g_assert_cmpstr(got, ==, want);
}

static void end_session(struct device *d, const char *name)
{
    g_autoptr(JsonNode) node = NULL;

    stop_session(d, name, 0, &node);
}

/* A trace is being written, whoever of the same user asks. */
static void test_list(void)
{
    struct device one, two;

    start_service("");
    connect_device(&one, "one", 100);
    connect_device(&two, "two", 200);
    lists(&one, NULL, "");
    start(&one, "s", "a");
    lists(&one, NULL, "a.btrail writing");
    lists(&two, NULL, "");
    lists(&two, "one", "a.btrail writing");
    /* The same name in another folder */
    start(&two, "t", "a");
    lists(&one, "two", "a.btrail writing");
    end_session(&one, "s");
    lists(&one, NULL, "a.btrail whole");
    lists(&two, "one", "a.btrail whole");
    lists(&two, NULL, "a.btrail writing");
    end_session(&two, "t");
    lists(&one, "two", "a.btrail whole");
    disconnect(&one);
    disconnect(&two);
    stop_service();
}

/* Two guests have one folder if they say one name. */
static void test_shared_folder(void)
{
    g_autoptr(JsonNode) node = NULL;
    struct device one, two;

    start_service("");
    connect_device(&one, "vm", 100);
    start(&one, "s", "a");
    connect_device(&two, "vm", 200);
    start_refused(&two, "s", "a", "'a.btrail' is being written");
    start_refused(&two, "s", "a.2", "'a.2.btrail' is being written");
    start(&two, "s", "b");
    start_refused(&one, "t", "b", "dump of session 's'");
    lists(&one, NULL, "a.btrail writing, b.btrail writing");
    lists(&two, NULL, "a.btrail writing, b.btrail writing");
    end_session(&two, "s");
    lists(&one, NULL, "a.btrail writing, b.btrail whole");
    /* The only session there is */
    command(&one, "{\"do\":\"stop\"}");
    wait_stop(&one);
    end_data(&one, 0);
    g_assert_cmpstr(btrail_json_string(result_of(&one, &node), "file"), ==,
                    "a.btrail");
    disconnect(&one);
    disconnect(&two);
    stop_service();
}

static void note_dumped(void *opaque, JsonObject *result, const GError *error)
{
    g_assert_no_error(error);
    *(bool *)opaque = true;
}

/* What a trigger, or a panic, has a session write is no other one's, either. */
static void test_dumped(void)
{
    static const enum service_session_why whys[] = {
        SERVICE_SESSION_TRIGGER, SERVICE_SESSION_PANIC,
    };
    g_autoptr(JsonNode) node = NULL;
    struct device d;
    struct guest *g;
    struct service_session *s;

    start_service("");
    connect_device(&d, "vm", 100);
    start_session(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\","
                  "\"names\":\"off\",\"mode\":\"last\","
                  "\"size\":{\"bytes\":4194304}}");
    fake_publish(&d.producer, 0, 0, FAKE_RECORDS, NULL, 0);
    g = g_ptr_array_index(service->host.guests, 0);
    s = guest_member_at(g->members, 0)->session;
    for (unsigned i = 0; i < G_N_ELEMENTS(whys); i++) {
        g_autoptr(JsonObject) start = btrail_json_new(
            "s:do", "start", "s:session", "t", "s:names", "off", NULL);
        g_autoptr(JsonNode) reply = NULL;
        g_autoptr(GError) failed = NULL;
        g_autofree char *name = NULL;
        JsonObject *error;
        bool done = false;

        g_assert_true(service_session_dump(s, NULL, whys[i], NULL, &name,
                                           note_dumped, &done, &failed));
        /* By now it can be written; that it is, the main loop would say. */
        json_object_set_string_member(start, "file", name);
        guest_command(g, ++d.last_id, start);
        g_assert_null(result_of(&d, &reply));
        error = btrail_json_object(json_node_get_object(reply), "error");
        g_assert_nonnull(strstr(btrail_json_string(error, "desc"),
                                "dump of session 's'"));
        wait_true(&done);
    }
    stop_session(&d, "s", FAKE_RECORDS, &node);
    disconnect(&d);
    stop_service();
}

/* Without a name, the first that is free */
static void test_names(void)
{
    static const char unnamed[] = "{\"do\":\"start\",\"names\":\"off\"}";
    static const char *const want[] = { "trace-1", "trace-3", "trace-4" };
    struct device d;

    start_service("");
    connect_device(&d, "vm", 100);
    refused(&d, "{\"do\":\"stop\"}", "not exactly one");
    refused(&d, "{\"do\":\"status\",\"session\":\"x\"}", "no session 'x'");
    start(&d, "trace-2", "x");
    start_refused(&d, "trace-2", "y", "there is a session 'trace-2' already");
    refused(&d, "{\"do\":\"dump\"}", "not of mode 'last'");
    refused(&d, "{\"do\":\"dump\",\"session\":\"x\"}", "no session 'x'");
    refused(&d, "{\"do\":\"start\",\"vcpus\":[1]}",
            "no vCPU 1; the last one it can have is 0");
    for (unsigned i = 0; i < G_N_ELEMENTS(want); i++) {
        g_autoptr(JsonNode) node = NULL;
        JsonObject *o;

        command(&d, unnamed);
        o = result_of(&d, &node);
        g_assert_cmpstr(btrail_json_string(o, "session"), ==, want[i]);
    }
    refused(&d, "{\"do\":\"stop\"}", "not exactly one");
    for (unsigned i = 0; i < G_N_ELEMENTS(want); i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"do\":\"stop\",\"session\":\"%s\"}", want[i]);
        g_autoptr(JsonNode) node = NULL, again = NULL, status = NULL;
        JsonArray *sessions;

        command(&d, text);
        g_assert_nonnull(result_of(&d, &node));
        /* It stays known. */
        command(&d, text);
        g_assert_nonnull(result_of(&d, &again));
        command(&d, "{\"do\":\"status\"}");
        sessions = btrail_json_array(result_of(&d, &status), "sessions");
        g_assert_cmpuint(json_array_get_length(sessions), ==, 4);
    }
    disconnect(&d);
    stop_service();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/guest-command/list", test_list, in_folder);
    g_test_add_data_func("/guest-command/shared-folder", test_shared_folder,
                         in_folder);
    g_test_add_data_func("/guest-command/dumped", test_dumped, in_folder);
    g_test_add_data_func("/guest-command/names", test_names, in_folder);
    return g_test_run();
}
