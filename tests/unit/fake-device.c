/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A service and its devices, for tests: see fake-device.h
 */

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake-device.h"
#include "service/message.h"
#include "scratch.h"

char *folder;
struct service *service;
uid_t device_user = 7;

void start_service(const char *more)
{
    g_autofree char *text = g_strdup_printf(
        "[service]\nsocket=%s/socket\ntraces=%s/traces\nstate=%s/state\n"
        "[all-guests]\nkeep-free=0\n%s", folder, folder, folder, more);
    GError *error = NULL;
    struct config *config = config_parse(text, "test", &error);

    g_assert_no_error(error);
    service = service_new(config, NULL, &error);
    g_assert_no_error(error);
}

void set_true(void *opaque)
{
    *(bool *)opaque = true;
}

void iterate(void)
{
    if (!g_main_context_iteration(NULL, FALSE)) {
        g_usleep(1000);
    }
}

void wait_true(const bool *flag)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    while (!*flag) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
}

void stop_service(void)
{
    bool done = false;

    service_end(service, set_true, &done);
    wait_true(&done);
    service_free(service);
    service = NULL;
}

void say(struct device *d, const char *format, ...)
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
    bytes = message_format(json_node_get_object(node));
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

JsonNode *hear(struct device *d)
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

void add_connection(int sock, int pid)
{
    struct peer_process peer = { .pid = pid, .uid = device_user };

    if (pid == getpid()) {
        process_id(peer.process, pid);
    } else {
        g_snprintf(peer.process, sizeof(peer.process), "%d-1-fake", pid);
    }
    connections_add(&service->connections, sock, &peer);
}

void open_device(struct device *d, int pid)
{
    int socks[2];

    memset(d, 0, sizeof(*d));
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks),
                    ==, 0);
    d->sock = socks[0];
    d->pid = pid;
    add_connection(socks[1], pid);
}

void connect_device(struct device *d, const char *name, int pid)
{
    open_device(d, pid);
    say(d, "{\"type\":\"guest\",\"name\":\"%s\",\"vcpus\":1}", name);
}

void connect_traced(struct device *d, const char *name, int pid,
                    const char *capture)
{
    open_device(d, pid);
    say(d, "{\"type\":\"guest\",\"name\":\"%s\",\"vcpus\":1,\"capture\":"
        "{\"state\":\"agent-lost\",\"capture\":\"%s\"}}", name, capture);
}

void command(struct device *d, const char *text)
{
    say(d, "{\"type\":\"command\",\"id\":%d,\"command\":%s}",
        (int)++d->last_id, text);
}

JsonObject *result_of(struct device *d, JsonNode **node)
{
    JsonObject *object;

    *node = hear(d);
    object = json_node_get_object(*node);
    g_assert_cmpstr(btrail_json_string(object, "type"), ==, "reply");
    g_assert_cmpint(btrail_json_int(object, "id", 0), ==, d->last_id);
    return btrail_json_object(object, "return");
}

void refused(struct device *d, const char *text, const char *why)
{
    g_autoptr(JsonNode) node = NULL;
    JsonObject *error;

    command(d, text);
    g_assert_null(result_of(d, &node));
    error = btrail_json_object(json_node_get_object(node), "error");
    g_assert_nonnull(strstr(btrail_json_string(error, "desc"), why));
}

gint64 expect_execute(struct device *d, const char *name)
{
    g_autoptr(JsonNode) node = hear(d);
    JsonObject *object = json_node_get_object(node);

    g_assert_cmpstr(btrail_json_string(object, "type"), ==, "execute");
    g_assert_cmpstr(btrail_json_string(object, "execute"), ==, name);
    return btrail_json_int(object, "id", 0);
}

void connect_data(struct device *d, int pid)
{
    fake_init(&d->producer, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    add_connection(d->producer.agent_sock, pid);
    fake_hello(&d->producer);
}

static void wait_message(struct device *d, uint16_t type)
{
    struct btrail_msg msg;
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    /* What comes after another message may take turns of the main loop. */
    do {
        while (recv(d->producer.sock, &msg, sizeof(msg),
                    MSG_PEEK | MSG_DONTWAIT) != sizeof(msg)) {
            g_assert_cmpint(g_get_monotonic_time(), <, deadline);
            iterate();
        }
    } while (!fake_hear(&d->producer, type));
}

void wait_ready(struct device *d)
{
    wait_message(d, BTRAIL_MSG_READY);
}

void wait_stop(struct device *d)
{
    wait_message(d, BTRAIL_MSG_STOP);
}

void reply_done(struct device *d, gint64 id)
{
    say(d, "{\"type\":\"reply\",\"id\":%d,\"return\":{}}", (int)id);
}

void reply_error(struct device *d, gint64 id, const char *why)
{
    say(d, "{\"type\":\"reply\",\"id\":%d,\"error\":{\"class\":"
        "\"GenericError\",\"desc\":\"%s\"}}", (int)id, why);
}

void start_session(struct device *d, const char *text)
{
    g_autoptr(JsonNode) node = NULL;
    gint64 id;

    command(d, text);
    id = expect_execute(d, "branch-trace-start");
    connect_data(d, d->pid);
    wait_ready(d);
    reply_done(d, id);
    g_assert_nonnull(result_of(d, &node));
}

void end_data(struct device *d, uint64_t index)
{
    fake_publish_end(&d->producer, 0, index);
    fake_end(&d->producer, BTRAIL_END_STOPPED);
}

JsonObject *stop_session(struct device *d, const char *name, uint64_t index,
                         JsonNode **node)
{
    g_autofree char *text =
        g_strdup_printf("{\"do\":\"stop\",\"session\":\"%s\"}", name);
    JsonObject *result;

    command(d, text);
    wait_stop(d);
    end_data(d, index);
    result = result_of(d, node);
    g_assert_nonnull(result);
    return result;
}

JsonObject *record_session(struct device *d, JsonNode **node)
{
    connect_device(d, "vm", 100);
    start_session(d, "{\"do\":\"start\",\"session\":\"s\",\"file\":\"s\","
                  "\"names\":\"off\"}");
    fake_publish(&d->producer, 0, 0, FAKE_RECORDS, NULL, 0);
    return stop_session(d, "s", FAKE_RECORDS, node);
}

bool state_has(const char *capture)
{
    g_autofree char *path = g_build_filename(folder, "state", "sessions",
                                             NULL);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name;
    bool has = false;

    g_assert_nonnull(dir);
    while (!has && (name = g_dir_read_name(dir))) {
        g_autofree char *file = g_build_filename(path, name, NULL);
        g_autofree char *text = NULL;

        g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
        has = strstr(text, capture);
    }
    return has;
}

void disconnect(struct device *d)
{
    close(d->sock);
}

void wait_exists(const char *path, bool exists)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    while (g_file_test(path, G_FILE_TEST_EXISTS) != exists) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
}

void in_folder(gconstpointer test)
{
    folder = scratch_new();
    ((void (*)(void))test)();
    scratch_remove(folder);
    folder = NULL;
}
