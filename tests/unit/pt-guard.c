/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who lets a guest go on whose stopper is killed: at each step that stops the
 * guest and lets it go on, with a monitor that has a guest of its own
 */

#include <glib.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/record/pt-guard.h"
#include "util/json.h"

#define TIMEOUT_MS  10000

/* A guest, and what its monitor has been told */
struct machine {
    int sock;
    const char *status;
    unsigned conts;
    GThread *thread;
};

static void say(struct machine *m, const char *text)
{
    g_assert_cmpint(send(m->sock, text, strlen(text), MSG_NOSIGNAL), ==,
                    strlen(text));
}

static void stop(struct machine *m)
{
    if (!strcmp(m->status, "running")) {
        m->status = "paused";
        say(m, "{\"event\": \"STOP\"}\r\n");
    }
}

static void cont(struct machine *m)
{
    if (!strcmp(m->status, "paused")) {
        m->status = "running";
        say(m, "{\"event\": \"RESUME\"}\r\n");
    }
}

/* A word that no monitor knows has somebody else do something. */
static void execute(struct machine *m, const char *line)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(line);
    JsonObject *o = node ? json_node_get_object(node) : NULL;
    const char *command = o ? btrail_json_string(o, "execute") : NULL;
    g_autofree char *reply = NULL;

    g_assert_nonnull(command);
    if (!strcmp(command, "stop")) {
        stop(m);
    } else if (!strcmp(command, "cont")) {
        m->conts++;
        cont(m);
    } else if (!strcmp(command, "others-stop")) {
        stop(m);
    } else if (!strcmp(command, "others-take-over")) {
        cont(m);
        stop(m);
    } else if (!strcmp(command, "panic")) {
        m->status = "guest-panicked";
    }
    reply = g_strdup_printf("{\"return\": {\"status\": \"%s\", \"running\": "
                            "%s}, \"id\": %" G_GINT64_FORMAT "}\r\n",
                            m->status, strcmp(m->status, "running") ? "false" :
                            "true", btrail_json_int(o, "id", 0));
    say(m, reply);
}

/* Ends when nobody has the other end any more. */
static gpointer serve(gpointer opaque)
{
    struct machine *m = opaque;
    g_autoptr(GString) in = g_string_new(NULL);
    char bytes[256], *end;
    ssize_t n;

    say(m, "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\r\n");
    while ((n = recv(m->sock, bytes, sizeof(bytes), 0)) > 0) {
        g_string_append_len(in, bytes, n);
        while ((end = strchr(in->str, '\n'))) {
            *end = '\0';
            execute(m, in->str);
            g_string_erase(in, 0, end - in->str + 1);
        }
    }
    return NULL;
}

static bool ask(struct qmp *qmp, const char *command)
{
    g_autoptr(JsonNode) node = qmp_execute(qmp, command, NULL, -1, TIMEOUT_MS,
                                           -1, NULL);

    return node;
}

static void send_only(struct qmp *qmp, const char *text)
{
    send(qmp_socket(qmp), text, strlen(text), MSG_NOSIGNAL);
}

/* Has read a part of an answer, as if there had been no more yet */
static void read_part(struct qmp *qmp)
{
    char bytes[40];

    recv(qmp_socket(qmp), bytes, sizeof(bytes), MSG_WAITALL);
}

enum step {
    OPEN, OTHERS_STOP, OTHERS_TAKE_OVER, PANIC, SAY_STOPS, STOP, STOP_UNREAD,
    STOP_TORN, CONT, SAY_RELEASED, FREE, END,
};

static void take(enum step step, struct qmp *qmp, struct pt_guard **guard)
{
    g_autoptr(GError) error = NULL;

    switch (step) {
    case OPEN:
        *guard = pt_guard_monitor("guest", qmp, &error);
        g_assert_no_error(error);
        break;
    case OTHERS_STOP:
        ask(qmp, "others-stop");
        break;
    case OTHERS_TAKE_OVER:
        send_only(qmp, "{\"execute\": \"others-take-over\"}\n");
        break;
    case PANIC:
        ask(qmp, "panic");
        break;
    case SAY_STOPS:
        pt_guard_stops(*guard);
        break;
    case STOP:
        g_assert_true(ask(qmp, "stop"));
        break;
    case STOP_UNREAD:
        send_only(qmp, "{\"execute\": \"stop\"}\n");
        break;
    case STOP_TORN:
        send_only(qmp, "{\"execute\": \"stop\"}\n");
        read_part(qmp);
        break;
    case CONT:
        g_assert_true(ask(qmp, "cont"));
        break;
    case SAY_RELEASED:
        pt_guard_released(*guard);
        break;
    case FREE:
        g_clear_pointer(guard, pt_guard_free);
        break;
    case END:
        break;
    }
}

/* Who stops the guest: it stands still after its steps, for the kill. */
static void __attribute__((noreturn)) write_steps(int sock,
                                                  const enum step *steps)
{
    struct qmp *qmp = qmp_new(sock, TIMEOUT_MS, -1, NULL);
    struct pt_guard *guard = NULL;

    while (*steps != END) {
        take(*steps++, qmp, &guard);
    }
    raise(SIGSTOP);
    _exit(1);
}

static const struct row {
    const char *name;
    enum step steps[8];
    const char *status;         /* in the end */
    unsigned conts;             /* that were asked for */
} rows[] = {
    { "opened", { OPEN, END }, "running", 0 },
    { "about-to", { OPEN, SAY_STOPS, END }, "running", 0 },
    { "asked", { OPEN, SAY_STOPS, STOP_UNREAD, END }, "running", 1 },
    { "torn", { OPEN, SAY_STOPS, STOP_TORN, END }, "running", 1 },
    { "stopped", { OPEN, SAY_STOPS, STOP, END }, "running", 1 },
    { "went-on", { OPEN, SAY_STOPS, STOP, CONT, END }, "running", 1 },
    { "released", { OPEN, SAY_STOPS, STOP, CONT, SAY_RELEASED, END },
      "running", 1 },
    { "freed", { OPEN, SAY_STOPS, STOP, FREE, END }, "running", 1 },
    { "others-first", { OPEN, OTHERS_STOP, END }, "paused", 0 },
    { "others-meanwhile", { OPEN, SAY_STOPS, STOP, OTHERS_TAKE_OVER, END },
      "paused", 0 },
    { "others-before-read", { OPEN, SAY_STOPS, STOP_UNREAD, OTHERS_TAKE_OVER,
                              END }, "paused", 0 },
    { "others-after", { OPEN, SAY_STOPS, STOP, CONT, SAY_RELEASED, OTHERS_STOP,
                        END }, "paused", 1 },
    { "panic", { OPEN, SAY_STOPS, STOP, PANIC, END }, "guest-panicked", 0 },
    { "again", { OPEN, SAY_STOPS, STOP, CONT, SAY_RELEASED, SAY_STOPS, STOP,
                 END }, "running", 2 },
};

static void test_killed(const void *opaque)
{
    const struct row *row = opaque;
    struct machine m = { .status = "running" };
    int pair[2], status;
    pid_t writer;

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair),
                    ==, 0);
    writer = fork();
    if (!writer) {
        close(pair[0]);
        write_steps(pair[1], row->steps);
    }
    close(pair[1]);
    m.sock = pair[0];
    m.thread = g_thread_new("monitor", serve, &m);
    g_assert_cmpint(waitpid(writer, &status, WUNTRACED), ==, writer);
    g_assert_true(WIFSTOPPED(status));
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    g_thread_join(m.thread);
    close(m.sock);
    g_assert_cmpstr(m.status, ==, row->status);
    g_assert_cmpuint(m.conts, ==, row->conts);
}

/* A monitor that says nothing any more is not waited for without end. */
static void test_silent(void)
{
    gint64 begin = g_get_monotonic_time();
    int pair[2];
    char byte;
    pid_t writer;

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair),
                    ==, 0);
    writer = fork();
    if (!writer) {
        struct qmp *qmp = qmp_adopt(pair[1]);

        close(pair[0]);
        pt_guard_stops(pt_guard_monitor("guest", qmp, NULL));
        raise(SIGKILL);
    }
    close(pair[1]);
    waitpid(writer, NULL, 0);
    while (recv(pair[0], &byte, 1, 0) > 0) {
        continue;
    }
    g_assert_cmpint(g_get_monotonic_time() - begin, <, 40 * G_USEC_PER_SEC);
    close(pair[0]);
}

/* Signals of a terminal, or of who ends a group of processes */
static void test_group(void)
{
    static const struct row row = {
        "group", { OPEN, SAY_STOPS, STOP, END }, "running", 1,
    };
    struct machine m = { .status = "running" };
    int pair[2];
    pid_t writer;

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair),
                    ==, 0);
    writer = fork();
    if (!writer) {
        close(pair[0]);
        setpgid(0, 0);
        write_steps(pair[1], row.steps);
    }
    close(pair[1]);
    m.sock = pair[0];
    m.thread = g_thread_new("monitor", serve, &m);
    waitpid(writer, NULL, WUNTRACED);
    kill(-writer, SIGKILL);
    waitpid(writer, NULL, 0);
    g_thread_join(m.thread);
    close(m.sock);
    g_assert_cmpstr(m.status, ==, row.status);
    g_assert_cmpuint(m.conts, ==, row.conts);
}

/* libvirt's driver for tests has a host in each process. */
static void test_domain(void)
{
    g_autoptr(GError) error = NULL;
    struct pt_guard *guard;

    guard = pt_guard_domain("test:///default", "other", &error);
    g_assert_null(guard);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    if (strstr(error->message, "libvirt-qemu.so")) {
        g_test_skip(error->message);
        return;
    }
    g_assert_nonnull(strstr(error->message, "has no domain 'other'"));
    g_clear_error(&error);
    guard = pt_guard_domain("test:///default", "test", &error);
    g_assert_no_error(error);
    g_assert_nonnull(guard);
    pt_guard_stops(guard);
    pt_guard_released(guard);
    pt_guard_free(guard);
    pt_guard_free(NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *path = g_strconcat("/pt-guard/killed/", rows[i].name,
                                            NULL);

        g_test_add_data_func(path, &rows[i], test_killed);
    }
    g_test_add_func("/pt-guard/silent", test_silent);
    g_test_add_func("/pt-guard/group", test_group);
    g_test_add_func("/pt-guard/domain", test_domain);
    return g_test_run();
}
