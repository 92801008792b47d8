/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capture of a guest: what it has the device execute, in each of its
 * states, and what becomes of its sessions
 */

#include <string.h>
#include <sys/socket.h>

#include "backtrail/trace.h"
#include "fake-device.h"
#include "service/guest-capture.h"
#include "service/log.h"

#define CAPTURE "backtraild-0"

/**
 * struct scene - a guest without a service
 * @d:      its device
 * @failed: why the last session failed; NULL if none did
 * @done:   sessions that are done
 * @ready:  sessions that were held, and are ready
 */
struct scene {
    struct host host;
    struct guest_link link;
    struct folder *folder;
    struct guest_capture c;
    struct device d;
    char *failed;
    unsigned done, ready;
};

static bool on_guest(void *opaque, JsonObject *guest, GError **error)
{
    return true;
}

static void on_closed(void *opaque, const GError *why)
{
    struct scene *s = opaque;

    g_clear_pointer(&s->link.control, control_free);
}

static const struct control_handler handler = {
    .guest = on_guest,
    .closed = on_closed,
};

static void begin(struct scene *s)
{
    static GSourceFuncs funcs;
    g_autofree char *traces = g_build_filename(folder, "traces", NULL);
    int socks[2];

    *s = (struct scene) {
        .host = {
            .config = config_parse("", "test", NULL),
            .folder = folder_open(traces, NULL),
            .cpu = cpu_pool_new(),
            .changed = g_source_new(&funcs, sizeof(GSource)),
        },
        .link = { .name = (char *)"vm", .process = (char *)"1-1-x" },
    };
    s->folder = folder_guest(s->host.folder, "vm", NULL, 7, NULL);
    g_assert_nonnull(s->folder);
    s->c = (struct guest_capture) {
        .host = &s->host,
        .link = &s->link,
        .members = g_ptr_array_new_with_free_func(
            (GDestroyNotify)guest_member_free),
        .folder = s->folder,
        .cpu = cpu_limit_new(s->host.cpu),
    };
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks),
                    ==, 0);
    s->d.sock = socks[0];
    s->link.control = control_new(socks[1], &handler, s);
    say(&s->d, "{\"type\":\"guest\",\"name\":\"vm\",\"vcpus\":2}");
}

static void wait_none(struct scene *s)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    while (s->c.state != GUEST_CAPTURE_NONE) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
    g_assert_null(s->c.capture);
}

static void end(struct scene *s)
{
    wait_none(s);
    g_assert_cmpuint(s->c.members->len, ==, 0);
    guest_capture_forget(&s->c);
    control_free(s->link.control);
    disconnect(&s->d);
    g_ptr_array_unref(s->c.members);
    cpu_limit_free(s->c.cpu);
    cpu_pool_free(s->host.cpu);
    folder_free(s->folder);
    folder_free(s->host.folder);
    config_free(s->host.config);
    g_source_unref(s->host.changed);
    g_free(s->failed);
}

/* As a guest does */
static void session_event(void *opaque, struct service_session *session,
                          enum service_session_event event)
{
    struct scene *s = opaque;
    struct guest_member *m =
        guest_member_find(s->c.members, session->command->session);

    if (event == SERVICE_SESSION_READY && m->held) {
        m->held = false;
        s->ready++;
    } else if (event == SERVICE_SESSION_DONE) {
        if (session->state == SERVICE_SESSION_FAILED) {
            g_free(s->failed);
            s->failed = g_strdup(session->why);
        }
        if (s->c.starting == m) {
            s->c.starting = NULL;
        }
        s->done++;
        g_ptr_array_remove(s->c.members, m);
        service_session_free(session);
        guest_capture_advance(&s->c);
    }
}

/* A session that waits; @more of its command, @state as of a process before */
static struct guest_member *queue(struct scene *s, const char *name,
                                  const char *more, JsonObject *state)
{
    g_autofree char *text = g_strdup_printf(
        "{\"do\":\"start\",\"session\":\"%s\",\"file\":\"%s\","
        "\"names\":\"off\"%s}", name, name, more);
    g_autoptr(JsonNode) node = btrail_json_parse_object(text);
    struct guest_member *m = guest_member_new(&s->link, s->folder);
    const struct service_session_options options = {
        .host = &s->host,
        .command = command_parse(json_node_get_object(node), NULL),
        .folder = s->folder,
        .guest = "vm",
        .event = session_event,
        .opaque = s,
    };

    m->session = service_session_new(&options, state, NULL, NULL);
    g_assert_nonnull(m->session);
    m->queued = true;
    m->start.id = state ? -1 : 1;
    g_ptr_array_add(s->c.members, m);
    return m;
}

/* What the device is to execute next, and with which arguments */
static gint64 executes(struct scene *s, const char *what, const char *with)
{
    g_autoptr(JsonNode) node = hear(&s->d);
    g_autofree char *text = btrail_json_text(json_node_get_object(node),
                                             FALSE);
    JsonObject *object = json_node_get_object(node);

    g_assert_cmpstr(btrail_json_string(object, "execute"), ==, what);
    g_assert_nonnull(strstr(text, with));
    return btrail_json_int(object, "id", 0);
}

/* The device is to execute nothing, and has heard all. */
static void executes_nothing(struct scene *s)
{
    char byte;

    while (g_main_context_iteration(NULL, FALSE)) {
        continue;
    }
    g_assert_cmpint(recv(s->d.sock, &byte, 1, MSG_DONTWAIT), <, 0);
}

static void connect_to(struct scene *s)
{
    g_assert_true(guest_capture_awaits_data(&s->c));
    fake_init(&s->d.producer, 2, 4, BTRAIL_OVERFLOW_PAUSE);
    guest_capture_data(&s->c, s->d.producer.agent_sock);
    fake_hello(&s->d.producer);
    wait_ready(&s->d);
    g_assert_false(guest_capture_awaits_data(&s->c));
}

/* What a device does in the end, without being asked or with */
static void end_all(struct scene *s)
{
    fake_publish_end(&s->d.producer, 1, 0);
    end_data(&s->d, 0);
}

static void wait_done(struct scene *s, unsigned done)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    while (s->done < done) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
}

static void wait_held(struct scene *s, unsigned ready)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;

    while (s->ready < ready) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
}

/* A session "s", of vCPU 0, in a capture that runs */
static struct guest_member *start(struct scene *s)
{
    struct guest_member *m;
    gint64 id;

    begin(s);
    m = queue(s, "s", ",\"vcpus\":[0]", NULL);
    guest_capture_advance(&s->c);
    g_assert_cmpint(s->c.state, ==, GUEST_CAPTURE_STARTING);
    id = executes(s, "branch-trace-start", "\"vcpus\":[0]");
    connect_to(s);
    g_assert_cmpint(s->c.state, ==, GUEST_CAPTURE_RUNNING);
    reply_done(&s->d, id);
    wait_held(s, 1);
    return m;
}

/* Draining begins before the answer comes, which its session waits for. */
static void test_start(void)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;
    g_autoptr(JsonObject) saved = NULL;
    struct guest_member *m;
    struct scene s;
    gint64 id;

    begin(&s);
    g_assert_null(guest_capture_save(&s.c));
    m = queue(&s, "s", "", NULL);
    guest_capture_advance(&s.c);
    guest_capture_advance(&s.c);
    id = executes(&s, "branch-trace-start", s.c.name);
    connect_to(&s);
    while (!m->session->ready) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
    g_assert_cmpuint(s.ready, ==, 0);
    reply_done(&s.d, id);
    wait_held(&s, 1);
    saved = guest_capture_save(&s.c);
    g_assert_cmpstr(btrail_json_string(saved, "name"), ==, s.c.name);
    g_assert_cmpstr(btrail_json_string(saved, "folder"), ==, "vm");
    g_assert_cmpstr(btrail_json_string(saved, "process"), ==, "1-1-x");
    g_assert_cmpuint(json_array_get_length(btrail_json_array(saved,
                                                             "sessions")),
                     ==, 1);
    guest_capture_stop(&s.c);
    g_assert_cmpint(s.c.state, ==, GUEST_CAPTURE_ENDING);
    guest_capture_stop(&s.c);
    wait_stop(&s.d);
    end_all(&s);
    wait_done(&s, 1);
    g_assert_null(s.failed);
    executes_nothing(&s);
    fake_clear(&s.d.producer);
    end(&s);
}

/* The device refuses, connects elsewhere, or goes away. */
static void test_not_started(void)
{
    struct scene s;

    begin(&s);
    queue(&s, "a", "", NULL);
    guest_capture_advance(&s.c);
    reply_error(&s.d, executes(&s, "branch-trace-start", ""), "not today");
    wait_done(&s, 1);
    g_assert_cmpstr(s.failed, ==, "not today");
    g_assert_cmpint(s.c.state, ==, GUEST_CAPTURE_NONE);

    queue(&s, "b", "", NULL);
    guest_capture_advance(&s.c);
    reply_done(&s.d, executes(&s, "branch-trace-start", ""));
    wait_done(&s, 2);
    g_assert_cmpstr(s.failed, ==, "QEMU has connected to another agent");

    queue(&s, "c", "", NULL);
    guest_capture_advance(&s.c);
    executes(&s, "branch-trace-start", "");
    shutdown(s.d.sock, SHUT_RDWR);
    wait_done(&s, 3);
    g_assert_cmpstr(s.failed, ==, "QEMU has closed the connection");
    end(&s);
}

/* It ends before the answer: what waits begins after that, and not before. */
static void test_answered_late(void)
{
    struct scene s;
    gint64 id;

    begin(&s);
    queue(&s, "a", "", NULL);
    guest_capture_advance(&s.c);
    id = executes(&s, "branch-trace-start", "");
    connect_to(&s);
    queue(&s, "b", "", NULL);
    end_all(&s);
    wait_done(&s, 1);
    wait_none(&s);
    executes_nothing(&s);
    fake_clear(&s.d.producer);
    reply_done(&s.d, id);
    reply_error(&s.d, executes(&s, "branch-trace-start", ""), "not today");
    wait_done(&s, 2);
    end(&s);
}

/* Another session needs more than there is, or not. */
static void test_change(void)
{
    struct guest_member *first;
    struct scene s;
    gint64 id;

    first = start(&s);
    queue(&s, "same", ",\"vcpus\":[0]", NULL);
    guest_capture_advance(&s.c);
    wait_held(&s, 2);
    executes_nothing(&s);
    queue(&s, "more", ",\"vcpus\":[1]", NULL);
    guest_capture_advance(&s.c);
    id = executes(&s, "branch-trace-change", "\"vcpus\":[0,1]");
    g_assert_cmpuint(s.ready, ==, 2);
    reply_done(&s.d, id);
    wait_held(&s, 3);
    queue(&s, "all", "", NULL);
    guest_capture_advance(&s.c);
    reply_error(&s.d, executes(&s, "branch-trace-change", ""), "not today");
    wait_done(&s, 1);
    g_assert_cmpstr(s.failed, ==, "not today");
    g_assert_cmpint(s.c.state, ==, GUEST_CAPTURE_RUNNING);
    executes_nothing(&s);
    service_session_end(first->session, s.c.capture, NULL);
    guest_capture_stop(&s.c);
    wait_stop(&s.d);
    end_all(&s);
    wait_done(&s, 4);
    fake_clear(&s.d.producer);
    end(&s);
}

/* The last session ends: nobody needs the capture any more. */
static void test_last(void)
{
    struct guest_member *m;
    struct scene s;

    m = start(&s);
    service_session_end(m->session, s.c.capture, NULL);
    wait_stop(&s.d);
    g_assert_cmpint(s.c.state, ==, GUEST_CAPTURE_ENDING);
    end_all(&s);
    wait_done(&s, 1);
    g_assert_null(s.failed);
    fake_clear(&s.d.producer);
    end(&s);
}

/*
 * QEMU gives up on the service while it executes a command.  What it still has
 * is stopped, and another capture begins once it has answered both.
 */
static void test_given_up(void)
{
    g_autofree char *name = NULL;
    struct scene s;
    gint64 change, stop;

    start(&s);
    name = g_strdup(s.c.name);
    queue(&s, "more", "", NULL);
    guest_capture_advance(&s.c);
    change = executes(&s, "branch-trace-change", name);
    guest_capture_lost(&s.c, "backtraild-1", "another one");
    guest_capture_lost(&s.c, name, "timeout");
    fake_close(&s.d.producer);
    stop = executes(&s, "branch-trace-stop", name);
    wait_done(&s, 1);
    wait_none(&s);
    reply_done(&s.d, change);
    executes_nothing(&s);
    reply_done(&s.d, stop);
    reply_error(&s.d, executes(&s, "branch-trace-start", ""), "not today");
    wait_done(&s, 2);
    g_assert_cmpstr(s.failed, ==, "not today");
    executes_nothing(&s);
    fake_clear(&s.d.producer);
    end(&s);
}

static JsonObject *state_before(void)
{
    return btrail_json_new("s:id", "0123456789abcdef", "U:started", 1, NULL);
}

/* It was another process's: nothing begins before that is inspected. */
static void expect(struct scene *s)
{
    g_autoptr(JsonObject) state = state_before();

    begin(s);
    guest_capture_expect(&s->c, CAPTURE);
    g_assert_cmpint(s->c.state, ==, GUEST_CAPTURE_INSPECTING);
    queue(s, "s", ",\"vcpus\":[0]", state);
    queue(s, "new", ",\"vcpus\":[0]", NULL);
    guest_capture_advance(&s->c);
    executes_nothing(s);
    g_assert_false(guest_capture_awaits_data(&s->c));
    guest_capture_attach(&s->c);
    g_assert_cmpint(s->c.state, ==, GUEST_CAPTURE_ATTACHING);
}

static void test_attach(void)
{
    struct scene s;
    gint64 id;

    expect(&s);
    id = executes(&s, "branch-trace-attach", "");
    connect_to(&s);
    /* What comes from the first record on is for the session before. */
    g_assert_false(guest_member_at(s.c.members, 0)->queued);
    g_assert_true(guest_member_at(s.c.members, 1)->queued);
    reply_done(&s.d, id);
    wait_held(&s, 2);
    g_assert_false(guest_member_at(s.c.members, 1)->queued);
    guest_capture_stop(&s.c);
    wait_stop(&s.d);
    end_all(&s);
    wait_done(&s, 2);
    fake_clear(&s.d.producer);
    end(&s);
}

static void test_not_attached(void)
{
    struct scene s;

    expect(&s);
    reply_error(&s.d, executes(&s, "branch-trace-attach", ""), "not today");
    wait_done(&s, 1);
    g_assert_cmpstr(s.failed, ==, "not today");
    /* The other one has a capture of its own. */
    reply_error(&s.d, executes(&s, "branch-trace-start", ""), "nor now");
    wait_done(&s, 2);
    end(&s);
}

/* It is left to the next process, without an end. */
static void test_detach(void)
{
    struct guest_member *m;
    struct scene s;

    m = start(&s);
    guest_capture_detach(&s.c);
    g_assert_cmpint(s.c.state, ==, GUEST_CAPTURE_DETACHING);
    g_assert_true(service_session_detach(m->session));
    g_assert_null(guest_capture_save(&s.c));
    wait_done(&s, 1);
    g_assert_null(s.failed);
    fake_clear(&s.d.producer);
    end(&s);
}

/* The same before there are any data: none are taken any more. */
static void test_detach_early(void)
{
    struct scene s;
    gint64 id;

    expect(&s);
    id = executes(&s, "branch-trace-attach", "");
    guest_capture_detach(&s.c);
    g_assert_false(guest_capture_awaits_data(&s.c));
    guest_capture_end_members(&s.c, "the service restarts", true);
    reply_done(&s.d, id);
    wait_done(&s, 2);
    executes_nothing(&s);
    end(&s);
}

/* Somebody stops the capture by a command of QEMU's: it has its end. */
static void test_stopped(void)
{
    struct scene s;

    start(&s);
    end_all(&s);
    wait_done(&s, 1);
    g_assert_null(s.failed);
    executes_nothing(&s);
    fake_clear(&s.d.producer);
    end(&s);
}

/* Names are asked for while a capture that wants some runs. */
static void test_names(void)
{
    struct scene s;

    start(&s);
    g_assert_false(guest_capture_asks(&s.c));
    s.c.names = true;
    g_assert_true(guest_capture_asks(&s.c));
    guest_capture_stop(&s.c);
    g_assert_false(guest_capture_asks(&s.c));
    wait_stop(&s.d);
    end_all(&s);
    wait_done(&s, 1);
    g_assert_false(guest_capture_asks(&s.c));
    fake_clear(&s.d.producer);
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    service_log_init(true, true);
    g_test_add_data_func("/guest-capture/start", test_start, in_folder);
    g_test_add_data_func("/guest-capture/not-started", test_not_started,
                         in_folder);
    g_test_add_data_func("/guest-capture/answered-late", test_answered_late,
                         in_folder);
    g_test_add_data_func("/guest-capture/change", test_change, in_folder);
    g_test_add_data_func("/guest-capture/last", test_last, in_folder);
    g_test_add_data_func("/guest-capture/given-up", test_given_up, in_folder);
    g_test_add_data_func("/guest-capture/attach", test_attach, in_folder);
    g_test_add_data_func("/guest-capture/not-attached", test_not_attached,
                         in_folder);
    g_test_add_data_func("/guest-capture/detach", test_detach, in_folder);
    g_test_add_data_func("/guest-capture/detach/early", test_detach_early,
                         in_folder);
    g_test_add_data_func("/guest-capture/stopped", test_stopped, in_folder);
    g_test_add_data_func("/guest-capture/names", test_names, in_folder);
    return g_test_run();
}
