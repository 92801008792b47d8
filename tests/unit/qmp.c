/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of the QMP client: commands, descriptors, garbage, silence
 */

#include <glib/gstdio.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "scratch.h"
#include "util/json.h"
#include "monitor/qmp.h"

#define GREETING "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 13, " \
                 "\"minor\": 0, \"major\": 10}, \"package\": \"p1\"}, " \
                 "\"capabilities\": []}}\r\n"
#define DONE(id) "{\"return\": {}, \"id\": " #id "}\r\n"

/*
 * A monitor that sends its script in pieces, and keeps what it receives
 */
struct monitor {
    int sock;
    const char *script;
    size_t len;
    size_t piece;
    bool close;
    GThread *thread;
    GString *heard;
};

static gpointer monitor_thread(gpointer opaque)
{
    struct monitor *m = opaque;
    size_t at;
    char bytes[256];
    ssize_t n;

    for (at = 0; at < m->len; at += m->piece) {
        size_t len = MIN(m->piece, m->len - at);

        if (send(m->sock, m->script + at, len, MSG_NOSIGNAL) !=
            (ssize_t)len) {
            break;
        }
    }
    if (m->close) {
        shutdown(m->sock, SHUT_WR);
    }
    while ((n = recv(m->sock, bytes, sizeof(bytes), 0)) > 0) {
        g_string_append_len(m->heard, bytes, n);
    }
    return NULL;
}

/* Returns the client's socket. */
static int monitor_start(struct monitor *m, const char *script, size_t len,
                         size_t piece)
{
    int socks[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
                               socks), ==, 0);
    *m = (struct monitor) {
        .sock = socks[0],
        .script = script,
        .len = len,
        .piece = piece,
        .heard = g_string_new(NULL),
    };
    return socks[1];
}

static void monitor_run(struct monitor *m)
{
    m->thread = g_thread_new("monitor", monitor_thread, m);
}

/* The client must have closed its socket. */
static void monitor_finish(struct monitor *m)
{
    g_thread_join(m->thread);
    close(m->sock);
    g_string_free(m->heard, TRUE);
}

static void test_commands(void)
{
    static const char script[] =
        "{\"event\": \"SHUTDOWN\"}\r\n"
        GREETING
        "{\"event\": \"RESUME\", \"data\": {}}\r\n"
        DONE(1)
        "{\"event\": \"STOP\"}\r\n"
        "{\"return\": {\"old\": true}, \"id\": 1}\r\n"
        "{\"return\": {\"name\": \"guest\"}, \"id\": 2}\r\n"
        "{\"return\": [], \"id\": 3}\r\n"
        "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}, "
        "\"id\": 4}\r\n"
        "{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"no\"}, "
        "\"id\": 5}\r\n"
        "{\"error\": {\"class\": \"DeviceNotFound\", \"desc\": \"no\"}, "
        "\"id\": 6}\r\n";
    static const size_t pieces[] = { 1, 7, sizeof(script) };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(pieces); i++) {
        struct monitor m;
        struct qmp *qmp;
        GError *error = NULL;
        JsonObject *arguments;
        JsonNode *node;
        int sock = monitor_start(&m, script, strlen(script), pieces[i]);

        monitor_run(&m);
        qmp = qmp_new(sock, 10000, -1, &error);
        g_assert_no_error(error);
        g_assert_cmpstr(qmp_version(qmp), ==, "10.0.13 p1");
        /* Who has made the socket */
        g_assert_cmpint(qmp_peer(qmp), ==, getpid());

        arguments = json_object_new();
        json_object_set_string_member(arguments, "x", "y\n\"");
        node = qmp_execute(qmp, "query-name", arguments, -1, 10000,
                           -1, &error);
        g_assert_no_error(error);
        g_assert_cmpstr(btrail_json_string(json_node_get_object(node),
                                           "name"), ==, "guest");
        json_node_unref(node);
        node = qmp_execute(qmp, "query-cpus", NULL, -1, 10000, -1,
                           &error);
        g_assert_true(JSON_NODE_HOLDS_ARRAY(node));
        json_node_unref(node);

        g_assert_null(qmp_execute(qmp, "a", NULL, -1, 10000, -1,
                                  &error));
        g_assert_error(error, AGENT_ERROR,
                       AGENT_ERROR_COMMAND);
        g_assert_nonnull(strstr(error->message, "no"));
        g_clear_error(&error);
        g_assert_null(qmp_execute(qmp, "b", NULL, -1, 10000, -1,
                                  &error));
        g_assert_error(error, AGENT_ERROR,
                       AGENT_ERROR_NO_COMMAND);
        g_clear_error(&error);
        g_assert_null(qmp_execute(qmp, "c", NULL, -1, 10000, -1,
                                  &error));
        g_assert_error(error, AGENT_ERROR,
                       AGENT_ERROR_NO_DEVICE);
        g_clear_error(&error);

        qmp_free(qmp);
        g_thread_join(m.thread);
        g_assert_nonnull(strstr(m.heard->str, "qmp_capabilities"));
        g_assert_nonnull(strstr(m.heard->str, "\"y\\n\\\"\""));
        close(m.sock);
        g_string_free(m.heard, TRUE);
    }
}

/* A file descriptor goes along with the command. */
static void test_fd(void)
{
    static const char script[] = GREETING DONE(1) DONE(2);
    struct monitor m;
    struct qmp *qmp;
    GError *error = NULL;
    JsonNode *node;
    int sock = monitor_start(&m, script, strlen(script), sizeof(script));
    int efd = eventfd(0, EFD_CLOEXEC), got = -1;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char bytes[512];
    struct iovec iov = { bytes, sizeof(bytes) };
    struct msghdr mh = {
        .msg_iov = &iov, .msg_iovlen = 1,
        .msg_control = &control, .msg_controllen = sizeof(control),
    };
    uint64_t count = 7;

    /* Without a thread: the whole script fits into the socket. */
    g_assert_cmpint(send(m.sock, script, strlen(script), 0), ==,
                    strlen(script));
    qmp = qmp_new(sock, 10000, -1, &error);
    g_assert_no_error(error);
    g_assert_cmpint(recv(m.sock, bytes, sizeof(bytes), 0), >, 0);
    node = qmp_execute(qmp, "getfd", NULL, efd, 10000, -1, &error);
    g_assert_no_error(error);
    json_node_unref(node);
    g_assert_cmpint(recvmsg(m.sock, &mh, MSG_CMSG_CLOEXEC), >, 0);
    g_assert_nonnull(CMSG_FIRSTHDR(&mh));
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&mh)), sizeof(got));
    g_assert_cmpint(write(got, &count, sizeof(count)), ==, sizeof(count));
    g_assert_cmpint(read(efd, &count, sizeof(count)), ==, sizeof(count));
    g_assert_cmpuint(count, ==, 7);

    qmp_free(qmp);
    close(got);
    close(efd);
    close(m.sock);
    g_string_free(m.heard, TRUE);
}

/* Peers that are not monitors: bad greetings and bad answers */
static void test_garbage(void)
{
    static const struct {
        const char *script;
        size_t len;
        int code;
    } cases[] = {
#define CASE(text, code) { text, sizeof(text) - 1, AGENT_ERROR_##code }
        CASE("", CLOSED),
        CASE("220 mail ESMTP\r\n", PROTOCOL),
        CASE("{\"QMP\": {}}", CLOSED),
        CASE("{\"QMP\": 1}\r\n", PROTOCOL),
        CASE("[]\r\n", PROTOCOL),
        CASE("{\"event\": \"x\"}\r\n", CLOSED),
        CASE("{\"event\": \"x\"}\r\n{\"event\": 1}\r\n", PROTOCOL),
        CASE("\n", PROTOCOL),
        CASE("\xff\xfe\n", PROTOCOL),
        CASE("{\"QMP\0\": {}}\n", PROTOCOL),
        CASE(GREETING "nonsense\r\n", PROTOCOL),
        CASE(GREETING "{\"id\": 1}\r\n", PROTOCOL),
        CASE(GREETING "{\"return\": {}, \"id\": \"1\"}\r\n", CLOSED),
        CASE(GREETING "{\"error\": {}, \"id\": 1}\r\n", COMMAND),
        CASE(GREETING "{\"error\": 1, \"id\": 1}\r\n", PROTOCOL),
        CASE("{\"QMP\": {\"version\": {\"qemu\": {\"major\": \"a\", "
             "\"minor\": {}}, \"package\": []}}}\n" DONE(2), CLOSED),
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct monitor m;
        GError *error = NULL;
        int sock = monitor_start(&m, cases[i].script, cases[i].len, 100);
        g_autofree char *shown = g_strescape(cases[i].script, NULL);

        m.close = true;
        g_test_message("%s", shown);
        monitor_run(&m);
        g_assert_null(qmp_new(sock, 10000, -1, &error));
        g_assert_error(error, AGENT_ERROR, cases[i].code);
        g_error_free(error);
        monitor_finish(&m);
    }
}

static void test_endless(void)
{
    size_t len = 17 << 20;
    g_autofree char *script = g_malloc(len);
    struct monitor m;
    GError *error = NULL;
    int sock;

    memset(script, '[', len);
    sock = monitor_start(&m, script, len, 1 << 16);
    monitor_run(&m);
    g_assert_null(qmp_new(sock, 30000, -1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_error_free(error);
    monitor_finish(&m);
}

/* Another client has the monitor, or the call is cancelled. */
static void test_silence(void)
{
    struct monitor m;
    GError *error = NULL;
    int sock = monitor_start(&m, "", 0, 1);
    int cancel = eventfd(1, EFD_CLOEXEC);

    monitor_run(&m);
    g_assert_null(qmp_new(sock, 100, -1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_TIMEOUT);
    g_clear_error(&error);
    monitor_finish(&m);

    sock = monitor_start(&m, GREETING, strlen(GREETING), 1);
    monitor_run(&m);
    g_assert_null(qmp_new(sock, 30000, cancel, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CANCELLED);
    g_clear_error(&error);
    monitor_finish(&m);
    close(cancel);
}

static void test_no_socket(void)
{
    g_autofree char *name = g_strnfill(200, 'x');
    GError *error = NULL;

    g_assert_null(qmp_connect("/nonexistent/qmp", 100, -1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    g_assert_nonnull(strstr(error->message, "/nonexistent/qmp"));
    g_clear_error(&error);
    g_assert_null(qmp_connect(name, 100, -1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    g_clear_error(&error);
    /* As QEMU's own option has it */
    g_assert_null(qmp_connect("unix:/nonexistent/qmp,server=on", 100, -1,
                              &error));
    g_assert_nonnull(strstr(error->message, "/nonexistent/qmp: "));
    g_clear_error(&error);
    g_assert_null(qmp_connect("tcp:127.0.0.1:4444", 100, -1, &error));
    g_assert_nonnull(strstr(error->message, "-qmp unix:PATH,"));
    g_clear_error(&error);
}

/* Listens at a path a moment later. */
static gpointer listen_later(gpointer opaque)
{
    static const char hello[] = GREETING DONE(1);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;

    g_strlcpy(address.sun_path, opaque, sizeof(address.sun_path));
    g_usleep(50000);
    g_assert_cmpint(bind(sock, (struct sockaddr *)&address, sizeof(address)),
                    ==, 0);
    /* It refuses meanwhile. */
    g_usleep(50000);
    g_assert_cmpint(listen(sock, 1), ==, 0);
    peer = accept(sock, NULL, NULL);
    g_assert_cmpint(send(peer, hello, strlen(hello), 0), ==, strlen(hello));
    close(sock);
    return GINT_TO_POINTER(peer);
}

static void test_await(void)
{
    char *folder = scratch_new();
    g_autofree char *path = g_build_filename(folder, "qmp", NULL);
    g_autofree char *option = g_strdup_printf("unix:%s,server=on", path);
    GThread *thread = g_thread_new("qemu", listen_later, path);
    GError *error = NULL;
    struct qmp *qmp = qmp_await(option, 10000, -1, &error);
    int cancel = eventfd(1, EFD_CLOEXEC);

    g_assert_no_error(error);
    g_assert_cmpstr(qmp_version(qmp), ==, "10.0.13 p1");
    qmp_free(qmp);
    close(GPOINTER_TO_INT(g_thread_join(thread)));
    g_unlink(path);
    g_assert_null(qmp_await(path, 10000, cancel, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CANCELLED);
    g_clear_error(&error);
    /* Waiting would not help. */
    g_assert_null(qmp_await("/dev/null/qmp", 10000, -1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    g_clear_error(&error);
    close(cancel);
    scratch_remove(folder);
}

static void count_event(void *opaque, const char *name)
{
    *(unsigned *)opaque += !g_strcmp0(name, "RESUME");
}

/* What another process has left: a part of a line, and answers of its own */
static void test_adopt(void)
{
    static const char script[] =
        "\": {}, \"id\": 7}\r\n"
        "{\"return\": {\"old\": true}, \"id\": 8}\r\n"
        "{\"event\": \"RESUME\"}\r\n"
        "{\"return\": {}, \"id\": 1099511627777}\r\n"
        "{\"event\": \"RESUME\"}\r\n"
        "nonsense\r\n";
    static const size_t pieces[] = { 1, 7, sizeof(script) };

    for (unsigned i = 0; i < G_N_ELEMENTS(pieces); i++) {
        g_autoptr(GError) error = NULL;
        unsigned resumed = 0;
        struct monitor m;
        int sock = monitor_start(&m, script, strlen(script), pieces[i]);
        struct qmp *qmp = qmp_adopt(sock);
        JsonNode *node;

        g_assert_cmpint(qmp_socket(qmp), ==, sock);
        qmp_on_event(qmp, count_event, &resumed);
        monitor_run(&m);
        node = qmp_execute(qmp, "query-status", NULL, -1, 10000, -1, &error);
        g_assert_no_error(error);
        g_assert_false(json_object_has_member(json_node_get_object(node),
                                              "old"));
        json_node_unref(node);
        g_assert_cmpuint(resumed, ==, 1);
        /* Only the first line can be a part of one. */
        g_assert_null(qmp_execute(qmp, "cont", NULL, -1, 10000, -1, &error));
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
        g_assert_cmpuint(resumed, ==, 2);
        qmp_free(qmp);
        monitor_finish(&m);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/qmp/commands", test_commands);
    g_test_add_func("/qmp/fd", test_fd);
    g_test_add_func("/qmp/garbage", test_garbage);
    g_test_add_func("/qmp/endless", test_endless);
    g_test_add_func("/qmp/silence", test_silence);
    g_test_add_func("/qmp/await", test_await);
    g_test_add_func("/qmp/no-socket", test_no_socket);
    g_test_add_func("/qmp/adopt", test_adopt);
    return g_test_run();
}
