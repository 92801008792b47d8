/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions that a process of the service continues for another one: after it
 * was killed, and after it has handed them over
 */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "fake-device.h"
#include "service/guest-command.h"
#include "service/log.h"
#include "service/service-state.h"

#define CAPTURE "backtraild-0"

static struct guest *the_guest(void)
{
    return g_ptr_array_index(service->host.guests, 0);
}

static char *in_guest(const char *name)
{
    return g_build_filename(folder, "traces", "vm", name, NULL);
}

static char *in_state(const char *name)
{
    return g_build_filename(folder, "state", "sessions", name, NULL);
}

/* A trace that was cut off, and a service that knows of its session */
static void leave_session(void)
{
    g_autofree char *path = in_guest("s.btrail");
    g_autofree char *state = in_state("0123456789abcdef.json");
    char process[PROCESS_ID];
    g_autofree char *text = NULL;
    g_autoptr(JsonNode) node = NULL;
    GStatBuf st;
    struct device d;

    start_service("");
    record_session(&d, &node);
    fake_clear(&d.producer);
    disconnect(&d);
    stop_service();
    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpint(truncate(path, st.st_size - 1), ==, 0);
    process_id(process, getpid());
    g_assert_cmpuint(strlen(process), >, 0);
    text = g_strdup_printf(
        "{\"version\":2,\"capture\":\"" CAPTURE "\","
        "\"folder\":\"vm\",\"process\":\"%s\",\"session\":{\"command\":"
        "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s.btrail\","
        "\"names\":\"off\"},\"started\":1,\"whole\":true}}", process);
    g_assert_true(g_file_set_contents(state, text, -1, NULL));
    start_service("");
}

static bool is_whole(const char *path)
{
    struct btrail_trace_status status;
    struct btrail_stream_info info;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_trace_status(trace, &status), ==, 0);
    g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
    g_assert_cmpuint(info.records, ==, FAKE_RECORDS);
    btrail_trace_close(trace);
    return status.complete && status.indexed;
}

/* What there was is there, and completed; there is nothing else. */
static void check_whole(void)
{
    g_autofree char *first = in_guest("s.btrail");
    g_autofree char *second = in_guest("s.1.btrail");
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    wait_exists(second, false);
    while (!is_whole(first)) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
}

/* The device comes again, and is asked for its data. */
static gint64 reattach(struct device *d)
{
    g_autofree char *second = in_guest("s.1.btrail");
    gint64 id;

    leave_session();
    connect_traced(d, "vm", getpid(), CAPTURE);
    id = expect_execute(d, "branch-trace-attach");
    g_assert_true(g_file_test(second, G_FILE_TEST_EXISTS));
    return id;
}

static void test_refused(void)
{
    struct device d;
    gint64 id = reattach(&d);

    reply_error(&d, id, "not today");
    check_whole();
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    disconnect(&d);
    stop_service();
}

static void test_gone(void)
{
    struct device d;

    reattach(&d);
    disconnect(&d);
    check_whole();
    stop_service();
}

/* The service is stopped before the answer has come. */
static void test_ending(void)
{
    bool done = false;
    struct device d;
    gint64 id = reattach(&d);

    service_end(service, set_true, &done);
    connect_data(&d, getpid());
    wait_ready(&d);
    reply_done(&d, id);
    wait_stop(&d);
    end_data(&d, 0);
    wait_true(&done);
    check_whole();
    disconnect(&d);
    service_free(service);
    fake_clear(&d.producer);
}

/* The service is restarted in order, and nothing is lost. */
static void test_left(void)
{
    g_autofree char *first = in_guest("s.btrail");
    g_autofree char *capture = NULL;
    g_autoptr(JsonNode) node = NULL, restored = NULL;
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    bool done = false;
    JsonObject *result;
    struct device d;
    gint64 id;

    start_service("");
    connect_device(&d, "vm", getpid());
    start_session(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\","
                  "\"names\":\"off\"}");
    capture = g_strdup(the_guest()->capture.name);
    fake_publish(&d.producer, 0, 0, FAKE_RECORDS, NULL, 0);
    service_detach(service, set_true, &done);
    wait_true(&done);
    service_free(service);
    fake_clear(&d.producer);
    disconnect(&d);
    /* What was drained is there, and nobody has ended it. */
    g_assert_true(is_whole(first));

    start_service("");
    connect_traced(&d, "vm", getpid(), capture);
    id = expect_execute(&d, "branch-trace-attach");
    connect_data(&d, getpid());
    wait_ready(&d);
    reply_done(&d, id);
    fake_publish(&d.producer, 0, FAKE_RECORDS, FAKE_RECORDS, NULL, 0);
    result = stop_session(&d, "s", 2 * FAKE_RECORDS, &node);
    g_assert_cmpstr(btrail_json_string(result, "state"), ==, "ended");
    g_assert_cmpint(btrail_json_int(result, "records", 0), ==,
                    2 * FAKE_RECORDS);
    g_assert_cmpint(btrail_trace_open_parts(&trace, first), ==, 0);
    g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
    g_assert_cmpuint(info.records, ==, 2 * FAKE_RECORDS);
    g_assert_cmpuint(info.end_index, ==, 2 * FAKE_RECORDS);
    btrail_trace_close(trace);
    disconnect(&d);
    stop_service();
    fake_clear(&d.producer);
}

/*
 * A session is stopped and the service restarted at once: the session is not
 * continued.
 */
static void test_stopped(void)
{
    g_autoptr(JsonNode) node = NULL, second = NULL;
    g_autofree char *capture = NULL;
    struct guest_member *m;
    bool done = false;
    struct device d;
    gint64 id;

    start_service("");
    connect_device(&d, "vm", getpid());
    start_session(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\","
                  "\"names\":\"off\"}");
    command(&d, "{\"do\":\"start\",\"session\":\"t\",\"file\":\"t\","
            "\"names\":\"off\"}");
    g_assert_nonnull(result_of(&d, &node));
    capture = g_strdup(the_guest()->capture.name);
    m = guest_member_find(the_guest()->members, "t");
    guest_end_session(the_guest(), m, NULL);
    g_assert_cmpint(m->session->state, ==, SERVICE_SESSION_ENDING);
    service_detach(service, set_true, &done);
    wait_true(&done);
    service_free(service);
    fake_clear(&d.producer);
    disconnect(&d);

    start_service("");
    connect_traced(&d, "vm", getpid(), capture);
    id = expect_execute(&d, "branch-trace-attach");
    connect_data(&d, getpid());
    wait_ready(&d);
    reply_done(&d, id);
    refused(&d, "{\"do\":\"stop\",\"session\":\"t\"}", "no session 't'");
    stop_session(&d, "s", 0, &second);
    disconnect(&d);
    stop_service();
    fake_clear(&d.producer);
}

/* The same before the device has answered: as if nothing had been. */
static void test_left_early(void)
{
    bool done = false;
    struct device d;
    gint64 id = reattach(&d);

    service_detach(service, set_true, &done);
    reply_error(&d, id, "not today");
    wait_true(&done);
    service_free(service);
    disconnect(&d);
    check_whole();
    g_assert_true(state_has(CAPTURE));
}

/* What of the state cannot be read costs no other session. */
static void test_spoilt(void)
{
    static const char *const names[] = {
        "0000000000000000.json", "ffffffffffffffff.json",
    };
    struct device d;
    gint64 id;

    leave_session();
    service_free(service);
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = in_state(names[i]);

        if (i) {
            g_assert_cmpint(mkfifo(path, 0600), ==, 0);
        } else {
            g_assert_true(g_file_set_contents(path, "{[[[", -1, NULL));
        }
    }
    start_service("");
    connect_traced(&d, "vm", getpid(), CAPTURE);
    id = expect_execute(&d, "branch-trace-attach");
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *aside = g_strconcat(names[i], ".unreadable", NULL);
        g_autofree char *path = in_state(names[i]), *now = in_state(aside);

        g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
        g_assert_true(g_file_test(now, G_FILE_TEST_EXISTS));
    }
    reply_error(&d, id, "not today");
    check_whole();
    disconnect(&d);
    stop_service();
}

/* Cuts off a file that has the trace's first part, as a part of it. */
static void add_cut_part(const char *name)
{
    g_autofree char *first = in_guest("s.btrail"), *part = in_guest(name);
    g_autofree char *text = NULL;
    gsize size;

    g_assert_true(g_file_get_contents(first, &text, &size, NULL));
    g_assert_true(g_file_set_contents(part, text, size, NULL));
}

/* Two processes were killed before they had completed anything. */
static void test_killed_again(void)
{
    g_autofree char *first = in_guest("s.btrail");
    g_autofree char *second = in_guest("s.1.btrail");
    g_autofree char *third = in_guest("s.2.btrail");
    struct device d;
    gint64 id;

    leave_session();
    add_cut_part("s.1.btrail");
    connect_traced(&d, "vm", getpid(), CAPTURE);
    id = expect_execute(&d, "branch-trace-attach");
    g_assert_true(g_file_test(third, G_FILE_TEST_EXISTS));
    reply_error(&d, id, "not today");
    disconnect(&d);
    /* Its end says that all traces are complete. */
    stop_service();
    g_assert_true(is_whole(first));
    g_assert_true(is_whole(second));
    g_assert_false(state_has(CAPTURE));
}

/* It is killed while it completes what nobody continues. */
static void test_given_up(void)
{
    g_autofree char *first = in_guest("s.btrail");
    int fd;

    leave_session();
    fd = open(first, O_RDWR | O_CLOEXEC);
    g_assert_cmpint(flock(fd, LOCK_EX | LOCK_NB), ==, 0);
    /* The process runs, and can still connect. */
    g_assert_true(service_state_timed_out(service->host.state));
    g_assert_cmpuint(service->host.state->left->len, ==, 1);
    json_object_set_string_member(
        g_ptr_array_index(service->host.state->left, 0), "process", "1-1-x");
    g_assert_false(service_state_timed_out(service->host.state));
    stop_service();
    g_assert_false(is_whole(first));
    g_assert_true(state_has("\"over\":true"));
    close(fd);
    start_service("");
    g_assert_cmpuint(service->host.state->left->len, ==, 0);
    stop_service();
    g_assert_true(is_whole(first));
    g_assert_false(state_has(CAPTURE));
}

/* The device has come again; what was left is being looked at. */
static void begin_look(struct device *d)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    leave_session();
    connect_traced(d, "vm", getpid(), CAPTURE);
    while (!service->host.guests->len) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
    g_assert_cmpstr(the_guest()->capture.name, ==, CAPTURE);
}

/* The service is stopped before that is over: it begins nothing. */
static void test_ending_early(void)
{
    bool done = false;
    struct device d;

    begin_look(&d);
    service_end(service, set_true, &done);
    reply_done(&d, expect_execute(&d, "branch-trace-stop"));
    wait_true(&done);
    check_whole();
    g_assert_false(state_has(CAPTURE));
    disconnect(&d);
    service_free(service);
}

/* It takes longer than guests are waited for, and another one comes. */
static void test_slow(void)
{
    g_autoptr(JsonNode) node = NULL;
    struct device d;
    gint64 id;

    begin_look(&d);
    g_assert_true(service_state_timed_out(service->host.state));
    service_state_forget(service->host.state,
                         the_guest()->link.process, NULL);
    g_assert_cmpuint(service->host.state->left->len, ==, 1);
    id = expect_execute(&d, "branch-trace-attach");
    connect_data(&d, getpid());
    wait_ready(&d);
    reply_done(&d, id);
    stop_session(&d, "s", 0, &node);
    g_assert_cmpuint(service->host.state->left->len, ==, 0);
    g_assert_false(service_state_timed_out(service->host.state));
    disconnect(&d);
    stop_service();
    fake_clear(&d.producer);
}

/* A client is faster, and takes the name: there are no two of that name. */
static void test_same_name(void)
{
    g_autoptr(JsonNode) start = btrail_json_parse_object(
        "{\"do\":\"start\",\"session\":\"s\",\"file\":\"t\",\"names\":\"off\"}");
    struct device d;
    gint64 id;

    begin_look(&d);
    guest_command(the_guest(), 1, json_node_get_object(start));
    g_assert_cmpuint(the_guest()->members->len, ==, 1);
    reply_done(&d, expect_execute(&d, "branch-trace-stop"));
    id = expect_execute(&d, "branch-trace-start");
    g_assert_cmpuint(the_guest()->members->len, ==, 1);
    reply_error(&d, id, "not today");
    check_whole();
    disconnect(&d);
    stop_service();
}

/*
 * The liar: other processes of the same user, which say the guest's name, and
 * know the name of its capture
 */

#define LIAR    101

static void lie(struct device *d, const char *capture)
{
    static unsigned lies;

    if (capture) {
        connect_traced(d, "vm", LIAR + lies++, capture);
    } else {
        connect_device(d, "vm", LIAR + lies++);
    }
    if (capture) {
        /* It has a capture that is not its own: it may stop it itself. */
        reply_done(d, expect_execute(d, "branch-trace-stop"));
    }
    refused(d, "{\"do\":\"stop\",\"session\":\"s\"}", "no session 's'");
    /* The guest's session will have this file, or has it. */
    refused(d, "{\"do\":\"start\",\"file\":\"s.1\"}", "of session 's'");
}

/* It offers records, as whoever is asked for some does. */
static void offer_data(void)
{
    struct fake_producer p;
    char byte;

    fake_init(&p, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    add_connection(p.agent_sock, LIAR);
    fake_hello(&p);
    while (recv(p.sock, &byte, 1, MSG_DONTWAIT) < 0) {
        iterate();
    }
    fake_clear(&p);
}

static void test_liar(void)
{
    static const char *const captures[] = { NULL, CAPTURE, "backtraild-1" };
    enum { LIES = G_N_ELEMENTS(captures) };
    g_autofree char *first = in_guest("s.btrail");
    g_autoptr(JsonNode) node = NULL;
    struct device d, liars[4 * LIES];
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    JsonObject *result;
    unsigned n = 0;
    gint64 id;

    /* Before the guest comes back */
    leave_session();
    for (unsigned i = 0; i < LIES; i++) {
        lie(&liars[n++], captures[i]);
        offer_data();
        g_assert_cmpuint(service->host.state->left->len, ==, 1);
    }
    /* When it has: while its trace is inspected, or after that */
    connect_traced(&d, "vm", getpid(), CAPTURE);
    for (unsigned i = 0; i < LIES; i++) {
        lie(&liars[n++], captures[i]);
        offer_data();
    }
    id = expect_execute(&d, "branch-trace-attach");
    /* While it is awaited */
    for (unsigned i = 0; i < LIES; i++) {
        lie(&liars[n++], captures[i]);
        offer_data();
    }
    connect_data(&d, getpid());
    wait_ready(&d);
    reply_done(&d, id);
    /* And when it records again */
    for (unsigned i = 0; i < LIES; i++) {
        lie(&liars[n++], captures[i]);
        offer_data();
    }
    fake_publish(&d.producer, 0, FAKE_RECORDS, FAKE_RECORDS, NULL, 0);
    result = stop_session(&d, "s", 2 * FAKE_RECORDS, &node);
    g_assert_cmpstr(btrail_json_string(result, "state"), ==, "ended");
    g_assert_cmpint(btrail_json_int(result, "records", 0), ==,
                    2 * FAKE_RECORDS);
    for (unsigned i = 0; i < n; i++) {
        disconnect(&liars[i]);
    }
    disconnect(&d);
    stop_service();
    fake_clear(&d.producer);
    g_assert_cmpint(btrail_trace_open_parts(&trace, first), ==, 0);
    g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
    g_assert_cmpuint(info.records, ==, 2 * FAKE_RECORDS);
    g_assert_cmpuint(info.end_index, ==, 2 * FAKE_RECORDS);
    btrail_trace_close(trace);
}

/* The connection of the guest is lost; its capture continues. */
static void test_liar_between(void)
{
    g_autofree char *capture = NULL;
    g_autoptr(JsonNode) node = NULL;
    struct device d, again, liar;
    struct fake_producer producer;
    JsonObject *result;

    start_service("");
    connect_device(&d, "vm", getpid());
    start_session(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\","
                  "\"names\":\"off\"}");
    capture = g_strdup(the_guest()->capture.name);
    producer = d.producer;
    disconnect(&d);
    while (the_guest()->link.control) {
        iterate();
    }
    lie(&liar, capture);
    connect_traced(&again, "vm", getpid(), capture);
    again.producer = producer;
    fake_publish(&again.producer, 0, 0, FAKE_RECORDS, NULL, 0);
    result = stop_session(&again, "s", FAKE_RECORDS, &node);
    g_assert_cmpint(btrail_json_int(result, "records", 0), ==, FAKE_RECORDS);
    disconnect(&liar);
    disconnect(&again);
    stop_service();
    fake_clear(&again.producer);
}

/* The guest's process has another capture, or none: it says so itself. */
static void test_other_capture(void)
{
    struct device d;

    leave_session();
    connect_device(&d, "vm", getpid());
    check_whole();
    g_assert_cmpuint(service->host.state->left->len, ==, 0);
    disconnect(&d);
    stop_service();
    g_assert_false(state_has(CAPTURE));
}

/* The guest's process is gone, by the kernel's word: whoever comes next. */
static void test_process_gone(void)
{
    g_autofree char *state = in_state("0123456789abcdef.json");
    g_autofree char *text = NULL;
    char process[PROCESS_ID];
    struct device d;

    leave_session();
    service_free(service);
    /* Another one has its number. */
    g_assert_true(g_file_get_contents(state, &text, NULL, NULL));
    process_id(process, getpid());
    *strchr(strstr(text, process), '-') = '9';
    g_assert_true(g_file_set_contents(state, text, -1, NULL));
    start_service("");
    connect_device(&d, "vm", LIAR);
    check_whole();
    g_assert_cmpuint(service->host.state->left->len, ==, 0);
    disconnect(&d);
    stop_service();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    service_log_init(true, true);
    g_test_add_data_func("/guest-restore/refused", test_refused, in_folder);
    g_test_add_data_func("/guest-restore/gone", test_gone, in_folder);
    g_test_add_data_func("/guest-restore/ending", test_ending, in_folder);
    g_test_add_data_func("/guest-restore/left", test_left, in_folder);
    g_test_add_data_func("/guest-restore/stopped", test_stopped, in_folder);
    g_test_add_data_func("/guest-restore/left-early", test_left_early,
                         in_folder);
    g_test_add_data_func("/guest-restore/ending-early", test_ending_early,
                         in_folder);
    g_test_add_data_func("/guest-restore/spoilt", test_spoilt, in_folder);
    g_test_add_data_func("/guest-restore/killed-again", test_killed_again,
                         in_folder);
    g_test_add_data_func("/guest-restore/given-up", test_given_up, in_folder);
    g_test_add_data_func("/guest-restore/liar", test_liar, in_folder);
    g_test_add_data_func("/guest-restore/liar/between", test_liar_between,
                         in_folder);
    g_test_add_data_func("/guest-restore/other-capture", test_other_capture,
                         in_folder);
    g_test_add_data_func("/guest-restore/process-gone", test_process_gone,
                         in_folder);
    g_test_add_data_func("/guest-restore/same-name", test_same_name,
                         in_folder);
    g_test_add_data_func("/guest-restore/slow", test_slow, in_folder);
    return g_test_run();
}
