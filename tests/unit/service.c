/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "fake-producer.h"
#include "json.h"
#include "log.h"
#include "message.h"
#include "service.h"

#define DEADLINE    (30 * G_TIME_SPAN_SECOND)

static char *folder;
static struct btrail_service *service;

/* A device that says what a test has it say */
struct device {
    int sock;
    int pid;
    gint64 last_id;
    struct fake_producer producer;
};

static void start_service(const char *more)
{
    g_autofree char *text = g_strdup_printf(
        "[service]\nsocket=%s/socket\ntraces=%s/traces\nstate=%s/state\n"
        "[all-guests]\nkeep-free=0\n%s", folder, folder, folder, more);
    GError *error = NULL;
    struct btrail_config *config = btrail_config_parse(text, "test", &error);

    g_assert_no_error(error);
    service = btrail_service_new(config, NULL, &error);
    g_assert_no_error(error);
}

static void set_true(void *opaque)
{
    *(bool *)opaque = true;
}

static void iterate(void)
{
    if (!g_main_context_iteration(NULL, FALSE)) {
        g_usleep(1000);
    }
}

static void wait_true(const bool *flag)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    while (!*flag) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
}

static void stop_service(void)
{
    bool done = false;

    btrail_service_end(service, set_true, &done);
    wait_true(&done);
    btrail_service_free(service);
    service = NULL;
}

static void say(struct device *d, const char *format, ...)
{
    g_autofree char *text = NULL;
    g_autoptr(JsonNode) node = NULL;
    g_autoptr(GBytes) bytes = NULL;
    const void *data;
    va_list args;
    size_t n;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    node = btrail_json_parse_object(text);
    g_assert_nonnull(node);
    bytes = btrail_message_format(json_node_get_object(node));
    data = g_bytes_get_data(bytes, &n);
    g_assert_cmpint(send(d->sock, data, n, MSG_NOSIGNAL), ==, n);
}

static void receive(struct device *d, void *bytes, size_t n)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;
    size_t got = 0;

    while (got < n) {
        ssize_t k = recv(d->sock, (char *)bytes + got, n - got, MSG_DONTWAIT);

        g_assert_cmpint(k, !=, 0);
        got += MAX(k, 0);
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
}

/* The next message from the service */
static JsonNode *hear(struct device *d)
{
    struct btrail_msg head;
    g_autofree char *text = NULL;
    JsonNode *node;

    receive(d, &head, sizeof(head));
    text = g_malloc0(head.value + 1);
    receive(d, text, head.value);
    g_test_message("%s", text);
    node = btrail_json_parse_object(text);
    g_assert_nonnull(node);
    return node;
}

static void connect_device(struct device *d, const char *name, int pid)
{
    int socks[2];

    memset(d, 0, sizeof(*d));
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks),
                    ==, 0);
    d->sock = socks[0];
    d->pid = pid;
    btrail_service_accept(service, socks[1], pid, 7);
    say(d, "{\"type\":\"guest\",\"name\":\"%s\",\"vcpus\":1}", name);
}

static void command(struct device *d, const char *text)
{
    say(d, "{\"type\":\"command\",\"id\":%d,\"command\":%s}",
        (int)++d->last_id, text);
}

/* What the command came to: its result, or why it was refused */
static JsonObject *result_of(struct device *d, JsonNode **node)
{
    JsonObject *object;

    *node = hear(d);
    object = json_node_get_object(*node);
    g_assert_cmpstr(btrail_json_string(object, "type"), ==, "reply");
    g_assert_cmpint(btrail_json_int(object, "id", 0), ==, d->last_id);
    return btrail_json_object(object, "return");
}

static void refused(struct device *d, const char *text, const char *why)
{
    g_autoptr(JsonNode) node = NULL;
    JsonObject *error;

    command(d, text);
    g_assert_null(result_of(d, &node));
    error = btrail_json_object(json_node_get_object(node), "error");
    g_assert_nonnull(strstr(btrail_json_string(error, "desc"), why));
}

/* The service has something executed: answer with @reply, or an error. */
static gint64 expect_execute(struct device *d, const char *name)
{
    g_autoptr(JsonNode) node = hear(d);
    JsonObject *object = json_node_get_object(node);

    g_assert_cmpstr(btrail_json_string(object, "type"), ==, "execute");
    g_assert_cmpstr(btrail_json_string(object, "execute"), ==, name);
    return btrail_json_int(object, "id", 0);
}

/* Make the connection for data, as a device does. */
static void connect_data(struct device *d, int pid)
{
    fake_init(&d->producer, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    btrail_service_accept(service, d->producer.agent_sock, pid, 7);
    fake_hello(&d->producer);
}

/* Wait until the agent has asked for data. */
static void wait_ready(struct device *d)
{
    struct btrail_msg msg;
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    while (recv(d->producer.sock, &msg, sizeof(msg),
                MSG_PEEK | MSG_DONTWAIT) != sizeof(msg)) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
    fake_expect(&d->producer, BTRAIL_MSG_READY);
}

static void start_session(struct device *d, const char *text)
{
    g_autoptr(JsonNode) node = NULL;
    gint64 id;

    command(d, text);
    id = expect_execute(d, "branch-trace-start");
    connect_data(d, d->pid);
    wait_ready(d);
    say(d, "{\"type\":\"reply\",\"id\":%d,\"return\":{}}", (int)id);
    g_assert_nonnull(result_of(d, &node));
}

static void end_data(struct device *d, uint64_t index)
{
    fake_publish_end(&d->producer, 0, index);
    fake_end(&d->producer, BTRAIL_END_STOPPED);
}

static void disconnect(struct device *d)
{
    close(d->sock);
}

static void wait_exists(const char *path, bool exists)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    while (g_file_test(path, G_FILE_TEST_EXISTS) != exists) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
}

static void test_session(void)
{
    g_autofree char *path = g_strconcat(folder, "/traces/vm/s.btrail", NULL);
    g_autoptr(JsonNode) node = NULL;
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    JsonObject *result;
    struct device d;

    start_service("");
    connect_device(&d, "vm", 100);
    start_session(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\","
                  "\"names\":\"off\"}");
    fake_publish(&d.producer, 0, 0, FAKE_RECORDS, NULL, 0);
    command(&d, "{\"do\":\"stop\",\"session\":\"s\"}");
    while (recv(d.producer.sock, &info, 1, MSG_PEEK | MSG_DONTWAIT) != 1) {
        iterate();
    }
    fake_expect(&d.producer, BTRAIL_MSG_STOP);
    end_data(&d, FAKE_RECORDS);
    result = result_of(&d, &node);
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
    say(&d, "{\"type\":\"reply\",\"id\":%d,\"error\":{\"class\":"
        "\"GenericError\",\"desc\":\"not today\"}}", (int)id);
    g_assert_null(result_of(&d, &node));
    g_assert_cmpstr(btrail_json_string(btrail_json_object(
        json_node_get_object(node), "error"), "desc"), ==, "not today");
    wait_exists(path, false);
    /* It says that it has begun, and sends nothing. */
    g_clear_pointer(&node, json_node_unref);
    command(&d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\",\"names\":\"off\"}");
    id = expect_execute(&d, "branch-trace-start");
    say(&d, "{\"type\":\"reply\",\"id\":%d,\"return\":{}}", (int)id);
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
    btrail_service_accept(service, other.agent_sock, 101, 7);
    fake_hello(&other);
    while (recv(other.sock, &byte, 1, MSG_DONTWAIT) < 0) {
        iterate();
    }
    fake_clear(&other);
    connect_data(&d, 100);
    wait_ready(&d);
    say(&d, "{\"type\":\"reply\",\"id\":%d,\"return\":{}}", (int)id);
    g_assert_nonnull(result_of(&d, &node));
    fake_init(&other, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    btrail_service_accept(service, other.agent_sock, 100, 7);
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
            btrail_service_accept(service, socks[1], 5, 7);
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
    g_assert_null(btrail_service_new(btrail_config_parse(text, "t", NULL),
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

/* A capture of ours that nothing is known of ends; of others does not. */
static void test_orphan(void)
{
    struct device d;
    int socks[2];
    gint64 id;

    start_service("");
    memset(&d, 0, sizeof(d));
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks),
                    ==, 0);
    d.sock = socks[0];
    btrail_service_accept(service, socks[1], 100, 7);
    say(&d, "{\"type\":\"guest\",\"name\":\"vm\",\"vcpus\":1,\"capture\":"
        "{\"state\":\"agent-lost\",\"session\":\"backtraild-0\"}}");
    id = expect_execute(&d, "branch-trace-stop");
    say(&d, "{\"type\":\"reply\",\"id\":%d,\"return\":{}}", (int)id);
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    disconnect(&d);

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks),
                    ==, 0);
    memset(&d, 0, sizeof(d));
    d.sock = socks[0];
    btrail_service_accept(service, socks[1], 100, 7);
    say(&d, "{\"type\":\"guest\",\"name\":\"vm\",\"vcpus\":1,\"capture\":"
        "{\"state\":\"active\",\"session\":\"mine\"}}");
    refused(&d, "{\"do\":\"dance\"}", "'do'");
    disconnect(&d);
    stop_service();
}

static void in_folder(gconstpointer test)
{
    g_autofree char *remove = NULL;

    folder = g_dir_make_tmp("service-XXXXXX", NULL);
    ((void (*)(void))test)();
    remove = g_strdup_printf("rm -r '%s'", folder);
    g_assert_cmpint(system(remove), ==, 0);
    g_clear_pointer(&folder, g_free);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    btrail_log_init(true, true);
    g_test_add_data_func("/service/session", test_session, in_folder);
    g_test_add_data_func("/service/not-started", test_not_started, in_folder);
    g_test_add_data_func("/service/data-of-others", test_data_of_others,
                         in_folder);
    g_test_add_data_func("/service/refused", test_refused, in_folder);
    g_test_add_data_func("/service/garbage", test_garbage, in_folder);
    g_test_add_data_func("/service/socket", test_socket, in_folder);
    g_test_add_data_func("/service/orphan", test_orphan, in_folder);
    return g_test_run();
}
