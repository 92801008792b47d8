/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service as devices see it: connections, sessions of several guests, what
 * it refuses, and its socket
 */

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "fake-device.h"
#include "service/guest.h"
#include "service/listener.h"
#include "service/log.h"
#include "util/unix-socket.h"

static void test_session(void)
{
    g_autofree char *path = g_strconcat(folder, "/traces/vm/s.btrail", NULL);
    g_autoptr(JsonNode) node = NULL;
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    JsonObject *result;
    struct device d;

    start_service("");
    result = record_session(&d, &node);
    g_assert_cmpstr(btrail_json_string(result, "state"), ==, "ended");
    g_assert_cmpint(btrail_json_int(result, "records", 0), ==, FAKE_RECORDS);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
    g_assert_cmpuint(info.records, ==, FAKE_RECORDS);
    btrail_trace_close(trace);
    fake_clear(&d.producer);
    disconnect(&d);
    stop_service();
}

/* One that comes under ever new names does not fill the disk with folders. */
static void test_many_names(void)
{
    g_autofree char *path = g_strconcat(folder, "/traces", NULL);
    g_autoptr(GDir) dir = NULL;
    struct device d;
    unsigned i, n = 0;

    start_service("");
    for (i = 0; i < 400; i++) {
        g_autofree char *name = g_strdup_printf("vm%u", i);

        connect_device(&d, name, 100);
        disconnect(&d);
        iterate();
    }
    dir = g_dir_open(path, 0, NULL);
    while (g_dir_read_name(dir)) {
        n++;
    }
    g_assert_cmpuint(n, >, 1);
    g_assert_cmpuint(n, <=, 300);
    stop_service();
}

/* QEMU refuses: so does the service, and there is no file. */
static void test_not_started(void)
{
    g_autofree char *path = g_strconcat(folder, "/traces/vm/s.btrail", NULL);
    g_autoptr(JsonNode) node = NULL;
    struct device d;
    gint64 id;

    start_service("");
    connect_device(&d, "vm", 100);
    command(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\",\"names\":\"off\"}");
    id = expect_execute(&d, "branch-trace-start");
    reply_error(&d, id, "not today");
    g_assert_null(result_of(&d, &node));
    g_assert_cmpstr(btrail_json_string(btrail_json_object(
        json_node_get_object(node), "error"), "desc"), ==, "not today");
    wait_exists(path, false);
    /* It says that it has begun, and sends nothing. */
    g_clear_pointer(&node, json_node_unref);
    command(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\",\"names\":\"off\"}");
    id = expect_execute(&d, "branch-trace-start");
    reply_done(&d, id);
    g_assert_null(result_of(&d, &node));
    wait_exists(path, false);
    /* It goes away in the middle. */
    command(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\",\"names\":\"off\"}");
    expect_execute(&d, "branch-trace-start");
    disconnect(&d);
    wait_exists(path, false);
    stop_service();
}

/* Data is taken from the process that was asked for it, and once. */
static void test_data_of_others(void)
{
    g_autoptr(JsonNode) node = NULL;
    struct device d;
    struct fake_producer other;
    char byte;
    gint64 id;

    start_service("");
    connect_device(&d, "vm", 100);
    command(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\",\"names\":\"off\"}");
    id = expect_execute(&d, "branch-trace-start");
    fake_init(&other, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    add_connection(other.agent_sock, 101);
    fake_hello(&other);
    while (recv(other.sock, &byte, 1, MSG_DONTWAIT) < 0) {
        iterate();
    }
    fake_clear(&other);
    connect_data(&d, 100);
    wait_ready(&d);
    reply_done(&d, id);
    g_assert_nonnull(result_of(&d, &node));
    fake_init(&other, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    add_connection(other.agent_sock, 100);
    fake_hello(&other);
    while (recv(other.sock, &byte, 1, MSG_DONTWAIT) < 0) {
        iterate();
    }
    fake_clear(&other);
    end_data(&d, 0);
    disconnect(&d);
    stop_service();
    fake_clear(&d.producer);
}

static void test_refused(void)
{
    struct device d;

    start_service("[each-guest]\nsessions=1\n");
    connect_device(&d, "vm", 100);
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    refused(&d, "{\"do\":\"stop\",\"session\":\"x\"}", "no session 'x'");
    refused(&d, "{\"do\":\"stop\"}", "'session' is missing");
    refused(&d, "{\"do\":\"start\",\"vcpus\":[1]}", "no vCPU 1");
    refused(&d, "{\"do\":\"start\",\"file\":\"../../x\"}", "'../../x'");
    start_session(&d, "{\"do\":\"start\",\"session\":\"s\",\"names\":\"off\"}");
    refused(&d, "{\"do\":\"start\"}", "may have 1 sessions");
    refused(&d, "{\"do\":\"start\",\"session\":\"s\"}", "already");
    refused(&d, "{\"do\":\"dump\",\"session\":\"s\"}", "not of mode 'last'");
    end_data(&d, 0);
    disconnect(&d);
    stop_service();
    fake_clear(&d.producer);
}

static void hung_up(int sock)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;
    char byte;

    while (recv(sock, &byte, 1, MSG_DONTWAIT) < 0) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
    close(sock);
}

static void test_garbage(void)
{
    const struct btrail_msg messages[] = {
        { .magic = 1 },
        { .magic = BTRAIL_MSG_MAGIC, .version = 99,
          .type = BTRAIL_MSG_JSON, .value = 2 },
        { .magic = BTRAIL_MSG_MAGIC, .version = BTRAIL_TRANSPORT_VERSION,
          .type = BTRAIL_MSG_READY },
        { .magic = BTRAIL_MSG_MAGIC, .version = BTRAIL_TRANSPORT_VERSION,
          .type = BTRAIL_MSG_HELLO },
        { .magic = BTRAIL_MSG_MAGIC, .version = BTRAIL_TRANSPORT_VERSION,
          .type = BTRAIL_MSG_JSON, .value = UINT64_MAX },
    };
    unsigned i, size;
    struct device d;

    start_service("[guests]\nmost=1\n");
    for (i = 0; i < G_N_ELEMENTS(messages); i++) {
        for (size = 1; size <= sizeof(messages[i]); size += 23) {
            int socks[2];

            g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==,
                            0);
            g_assert_cmpint(send(socks[0], &messages[i], size, 0), ==, size);
            add_connection(socks[1], 5);
            hung_up(socks[0]);
            while (g_main_context_iteration(NULL, FALSE)) {
                continue;
            }
        }
    }
    connect_device(&d, "vm", 100);
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    disconnect(&d);
    stop_service();
}

/* The socket, its permissions, and one service for a state folder */
static void test_socket(void)
{
    g_autofree char *path = g_strconcat(folder, "/socket", NULL);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    g_autofree char *text = g_strdup_printf(
        "[service]\nsocket=%s/other\ntraces=%s/traces\nstate=%s/state\n",
        folder, folder, folder);
    g_autoptr(GError) error = NULL;
    struct device d = { .pid = getpid() };
    struct stat st;

    start_service("[service]\nsocket-mode=0600\n");
    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpint(st.st_mode & 0777, ==, 0600);
    g_assert_null(service_new(config_parse(text, "t", NULL),
                              NULL, &error));
    g_assert_nonnull(strstr(error->message, "another backtraild"));
    strcpy(address.sun_path, path);
    d.sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(connect(d.sock, (struct sockaddr *)&address,
                            sizeof(address)), ==, 0);
    say(&d, "{\"type\":\"guest\",\"vcpus\":1}");
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    disconnect(&d);
    stop_service();
    g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
    /* What a process that was killed has left is in nobody's way. */
    g_assert_true(g_file_set_contents(path, "", 0, NULL));
    start_service("");
    stop_service();
}

/* One service for a socket, too; and no file but its own is removed. */
static void test_socket_of_others(void)
{
    g_autofree char *path = g_strconcat(folder, "/socket", NULL);
    g_autofree char *text = g_strdup_printf(
        "[service]\nsocket=%s\ntraces=%s/traces\nstate=%s/other\n",
        path, folder, folder);
    g_autoptr(GError) error = NULL;
    struct stat before, st;

    start_service("");
    g_assert_cmpint(g_stat(path, &before), ==, 0);
    g_assert_null(service_new(config_parse(text, "t", NULL),
                              NULL, &error));
    g_assert_nonnull(strstr(error->message, "another backtraild listens"));
    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpuint(st.st_ino, ==, before.st_ino);
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_true(g_file_set_contents(path, "mine", -1, NULL));
    stop_service();
    g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS));
}

/*
 * A service that ends because there was nothing to do leaves nobody connected
 * who is not served.
 */
static void test_idle_connected(void)
{
    g_autofree char *path = g_strconcat(folder, "/socket", NULL);
    const struct config *config;
    struct device d = { .pid = getpid() };
    bool idle = false;
    int probe;

    start_service("");
    config = service->host.config;
    /* Whoever has found it in time finds it again. */
    service->idle_s = 1000;
    probe = unix_try(path, SOCK_STREAM);
    g_assert_cmpint(probe, >=, 0);
    close(probe);
    d.sock = unix_try(path, SOCK_STREAM);
    g_assert_cmpint(d.sock, >=, 0);
    g_assert_false(listener_refuse(service->listener, config));
    g_assert_cmpuint(service->idle_s, ==, 0);
    say(&d, "{\"type\":\"guest\",\"vcpus\":1}");
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    disconnect(&d);
    d.sock = unix_try(path, SOCK_STREAM);
    g_assert_cmpint(d.sock, >=, 0);
    say(&d, "{\"type\":\"guest\",\"vcpus\":1}");
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    disconnect(&d);
    /* Nobody, and nobody gets in then. */
    service_watch_idle(service, 1, set_true, &idle);
    wait_true(&idle);
    g_assert_cmpint(unix_try(path, SOCK_STREAM), ==, -1);
    g_assert_true(listener_refuse(service->listener, config));
    stop_service();
}

/* The domain was changed, and started again. */
static void test_more_vcpus(void)
{
    static const char text[] = "{\"do\":\"start\",\"session\":\"s\","
                               "\"vcpus\":[1],\"names\":\"off\"}";
    gint64 deadline;
    struct device d;

    start_service("");
    connect_device(&d, "vm", 100);
    refused(&d, text, "no vCPU 1");
    disconnect(&d);
    deadline = g_get_monotonic_time() + DEADLINE;
    while (service->connections.control->len) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
    open_device(&d, 101);
    say(&d, "{\"type\":\"guest\",\"name\":\"vm\",\"vcpus\":2}");
    command(&d, text);
    reply_error(&d, expect_execute(&d, "branch-trace-start"), "not today");
    disconnect(&d);
    stop_service();
}

/* A capture of ours that nothing is known of ends; of others does not. */
static void test_orphan(void)
{
    struct device d;
    gint64 id;

    start_service("");
    connect_traced(&d, "vm", 100, "backtraild-0");
    id = expect_execute(&d, "branch-trace-stop");
    reply_done(&d, id);
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    disconnect(&d);

    connect_traced(&d, "vm", 100, "mine");
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    disconnect(&d);
    stop_service();
}

static void iterate_all(void)
{
    while (g_main_context_iteration(NULL, FALSE)) {
        continue;
    }
}

/* Has the service hung up?  It sends nothing before. */
static bool is_hung_up(const struct device *d)
{
    char byte;

    return recv(d->sock, &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* One process connects very often and is silent; others are served. */
static void test_silent(void)
{
    struct device silent[1000], d;
    unsigned open = 0;

    start_service("");
    for (unsigned i = 0; i < G_N_ELEMENTS(silent); i++) {
        open_device(&silent[i], 5);
    }
    /* So is one that takes a while to speak. */
    open_device(&d, 100);
    for (unsigned i = 0; i < 500; i++) {
        disconnect(&silent[i]);
        open_device(&silent[i], 5);
    }
    say(&d, "{\"type\":\"guest\",\"name\":\"vm\",\"vcpus\":1}");
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    for (unsigned i = 0; i < G_N_ELEMENTS(silent); i++) {
        open += !is_hung_up(&silent[i]);
        disconnect(&silent[i]);
    }
    g_assert_cmpuint(open, >, 0);
    g_assert_cmpuint(open, <=, 256);
    disconnect(&d);
    stop_service();
}

/* One process says that it is many guests. */
static void test_process(void)
{
    static const char start[] = "{\"do\":\"start\",\"names\":\"off\"}";
    struct device many[256], d;
    unsigned open = 0;

    start_service("[each-guest]\nsessions=1\n");
    for (unsigned i = 0; i < G_N_ELEMENTS(many); i++) {
        g_autofree char *name = g_strdup_printf("vm%u", i);

        connect_device(&many[i], name, 5);
        iterate_all();
        open += !is_hung_up(&many[i]);
    }
    g_assert_cmpuint(open, ==, 4);
    connect_device(&d, "vm", 100);
    start_session(&d, start);
    /* It has the sessions of one guest. */
    start_session(&many[0], start);
    refused(&many[1], start, "this guest may have 1 sessions");
    for (unsigned i = 0; i < G_N_ELEMENTS(many); i++) {
        disconnect(&many[i]);
    }
    end_data(&d, 0);
    end_data(&many[0], 0);
    disconnect(&d);
    stop_service();
    fake_clear(&d.producer);
    fake_clear(&many[0].producer);
}

/* Many processes of one user: those that are idle give way, the oldest first */
static void test_user_idle(void)
{
    struct device many[40], d;

    start_service("[guests]\nmost=8\n");
    for (unsigned i = 0; i < G_N_ELEMENTS(many); i++) {
        g_autofree char *name = g_strdup_printf("vm%u", i);

        connect_device(&many[i], name, 1000 + i);
        refused(&many[i], "{\"do\":\"dance\"}", "'do'");
        g_assert_true(i < 6 || is_hung_up(&many[i - 6]));
    }
    g_assert_cmpuint(service->connections.control->len, ==, 6);
    device_user = 8;
    connect_device(&d, "other", 100);
    device_user = 7;
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    g_assert_cmpuint(service->connections.control->len, ==, 7);
    for (unsigned i = 0; i < G_N_ELEMENTS(many); i++) {
        disconnect(&many[i]);
    }
    disconnect(&d);
    stop_service();
}

/* Those that are traced stay, and are no more than the share of their user. */
static void test_user_traced(void)
{
    static const char start[] = "{\"do\":\"start\",\"names\":\"off\"}";
    struct device traced[6], idle[3], d, last;

    start_service("[guests]\nmost=8\n");
    for (unsigned i = 0; i < G_N_ELEMENTS(traced); i++) {
        g_autofree char *name = g_strdup_printf("vm%u", i);

        connect_device(&traced[i], name, 1000 + i);
        start_session(&traced[i], start);
    }
    connect_device(&d, "more", 2000);
    iterate_all();
    g_assert_true(is_hung_up(&d));
    disconnect(&d);
    /* Two are left for others, of whom one has more than another one. */
    device_user = 8;
    connect_device(&idle[0], "a", 3000);
    refused(&idle[0], "{\"do\":\"dance\"}", "'do'");
    connect_device(&idle[1], "b", 3001);
    refused(&idle[1], "{\"do\":\"dance\"}", "'do'");
    device_user = 9;
    connect_device(&last, "c", 4000);
    refused(&last, "{\"do\":\"dance\"}", "'do'");
    g_assert_true(is_hung_up(&idle[0]));
    g_assert_false(is_hung_up(&idle[1]));
    device_user = 7;
    for (unsigned i = 0; i < G_N_ELEMENTS(traced); i++) {
        g_assert_cmpuint(((struct guest *)g_ptr_array_index(
            service->host.guests, i))->members->len, ==, 1);
        end_data(&traced[i], 0);
        disconnect(&traced[i]);
    }
    disconnect(&idle[0]);
    disconnect(&idle[1]);
    disconnect(&last);
    stop_service();
    for (unsigned i = 0; i < G_N_ELEMENTS(traced); i++) {
        fake_clear(&traced[i].producer);
    }
}

static void wait_ms(unsigned ms)
{
    gint64 end = g_get_monotonic_time() + ms * 1000;

    while (g_get_monotonic_time() < end) {
        iterate();
        g_usleep(1000);
    }
}

/* A session is something to do, a guest that is connected is not. */
static void test_idle(void)
{
    g_autoptr(JsonNode) node = NULL;
    bool idle = false;
    struct device d;
    gint64 id;

    start_service("");
    connect_device(&d, "vm", 100);
    command(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\","
            "\"names\":\"off\"}");
    id = expect_execute(&d, "branch-trace-start");
    service_watch_idle(service, 1, set_true, &idle);
    wait_ms(2500);
    g_assert_false(idle);
    reply_error(&d, id, "not today");
    g_assert_null(result_of(&d, &node));
    wait_ms(2500);
    g_assert_true(idle);
    disconnect(&d);
    stop_service();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    service_log_init(true, true);
    g_test_add_data_func("/service/many-names", test_many_names,
                         in_folder);
    g_test_add_data_func("/service/session", test_session, in_folder);
    g_test_add_data_func("/service/not-started", test_not_started, in_folder);
    g_test_add_data_func("/service/data-of-others", test_data_of_others,
                         in_folder);
    g_test_add_data_func("/service/refused", test_refused, in_folder);
    g_test_add_data_func("/service/garbage", test_garbage, in_folder);
    g_test_add_data_func("/service/socket", test_socket, in_folder);
    g_test_add_data_func("/service/idle-connected",
                         test_idle_connected, in_folder);
    g_test_add_data_func("/service/socket-of-others", test_socket_of_others,
                         in_folder);
    g_test_add_data_func("/service/more-vcpus", test_more_vcpus, in_folder);
    g_test_add_data_func("/service/silent", test_silent, in_folder);
    g_test_add_data_func("/service/process", test_process, in_folder);
    g_test_add_data_func("/service/user/idle", test_user_idle, in_folder);
    g_test_add_data_func("/service/user/traced", test_user_traced, in_folder);
    g_test_add_data_func("/service/idle", test_idle, in_folder);
    g_test_add_data_func("/service/orphan", test_orphan, in_folder);
    return g_test_run();
}
