/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A control connection: replies in any order, and peers that break the rules,
 * send too much or never read
 */

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backtrail/transport.h"
#include "service/control.h"
#include "util/json.h"
#include "service/message.h"

/* The handler's end, and what it has received */
struct peer {
    struct control *control;
    int sock;                   /* the device's */
    GString *seen;
    bool refuse_guest;
    bool free_early;
    bool closed;
};

static bool on_guest(void *opaque, JsonObject *guest, GError **error)
{
    struct peer *p = opaque;
    const char *name = btrail_json_string(guest, "name");

    g_string_append_printf(p->seen, "guest %s;", name ? name : "-");
    return !p->refuse_guest ||
           service_fail(error, SERVICE_ERROR_LIMIT, "no more");
}

static void on_command(void *opaque, gint64 id, JsonObject *command)
{
    struct peer *p = opaque;

    g_string_append_printf(p->seen, "command %d %s;", (int)id,
                           btrail_json_string(command, "do"));
    if (p->free_early) {
        control_free(p->control);
        p->control = NULL;
    }
}

static void on_event(void *opaque, const char *event, JsonObject *data)
{
    struct peer *p = opaque;

    g_string_append_printf(p->seen, "event %s%s;", event, data ? " data" : "");
}

static void on_closed(void *opaque, const GError *why)
{
    struct peer *p = opaque;

    g_assert_false(p->closed);
    p->closed = true;
    g_string_append_printf(p->seen, "closed: %s;", why->message);
}

static const struct control_handler handler = {
    on_guest, on_command, on_event, on_closed
};

static void init(struct peer *p)
{
    int socks[2];

    memset(p, 0, sizeof(*p));
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks),
                    ==, 0);
    p->sock = socks[0];
    p->seen = g_string_new(NULL);
    p->control = control_new(socks[1], &handler, p);
}

static void clear(struct peer *p)
{
    control_free(p->control);
    close(p->sock);
    g_string_free(p->seen, TRUE);
}

static void say(struct peer *p, const char *text)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(text);
    g_autoptr(GBytes) bytes =
        message_format(json_node_get_object(node));
    size_t n;
    const void *data = g_bytes_get_data(bytes, &n);

    g_assert_cmpint(send(p->sock, data, n, MSG_NOSIGNAL), ==, n);
}

static void settle(void)
{
    while (g_main_context_iteration(NULL, FALSE)) {
        continue;
    }
}

static void is_seen(struct peer *p, const char *what)
{
    settle();
    g_assert_cmpstr(p->seen->str, ==, what);
    g_string_truncate(p->seen, 0);
}

/* The next message that the device gets */
static void gets(struct peer *p, const char *text)
{
    struct btrail_msg head;
    g_autofree char *got = NULL;

    settle();
    g_assert_cmpint(recv(p->sock, &head, sizeof(head), MSG_DONTWAIT), ==,
                    sizeof(head));
    g_assert_cmpuint(head.magic, ==, BTRAIL_MSG_MAGIC);
    g_assert_cmpuint(head.type, ==, BTRAIL_MSG_JSON);
    got = g_malloc0(head.value + 1);
    g_assert_cmpint(recv(p->sock, got, head.value, MSG_DONTWAIT), ==,
                    head.value);
    g_assert_cmpstr(got, ==, text);
}

static void test_talk(void)
{
    struct peer p;
    JsonObject *result = json_object_new();

    init(&p);
    say(&p, "{\"type\":\"guest\",\"name\":\"vm\"}");
    say(&p, "{\"type\":\"command\",\"id\":5,\"command\":{\"do\":\"x\"}}");
    say(&p, "{\"type\":\"command\",\"id\":6,\"command\":{\"do\":\"y\"}}");
    say(&p, "{\"type\":\"event\",\"event\":\"reset\"}");
    say(&p, "{\"type\":\"event\",\"event\":\"state\",\"data\":{}}");
    is_seen(&p, "guest vm;command 5 x;command 6 y;event reset;"
            "event state data;");
    json_object_set_int_member(result, "n", 7);
    control_return(p.control, 6, result);
    control_fail(p.control, 5, "not \xff now");
    gets(&p, "{\"type\":\"reply\",\"id\":6,\"return\":{\"n\":7}}");
    gets(&p, "{\"type\":\"reply\",\"id\":5,\"error\":{\"class\":"
         "\"GenericError\",\"desc\":\"not \xef\xbf\xbd now\"}}");
    /* The id is free again. */
    say(&p, "{\"type\":\"command\",\"id\":5,\"command\":{\"do\":\"z\"}}");
    is_seen(&p, "command 5 z;");
    control_return(p.control, 5, NULL);
    gets(&p, "{\"type\":\"reply\",\"id\":5,\"return\":{}}");
    clear(&p);
}

static void on_answer(void *opaque, JsonNode *result, const GError *error)
{
    struct peer *p = opaque;

    g_assert_true(!result == !!error);
    g_string_append_printf(p->seen, "%s;", error ? error->message : "done");
}

static void test_execute(void)
{
    struct peer p;
    JsonObject *arguments = json_object_new();

    init(&p);
    say(&p, "{\"type\":\"guest\"}");
    is_seen(&p, "guest -;");
    json_object_set_string_member(arguments, "capture", "s");
    control_execute(p.control, "branch-trace-stop", arguments,
                    on_answer, &p);
    control_execute(p.control, "query-branch-trace", NULL, on_answer,
                    &p);
    control_execute(p.control, "query-branch-trace", NULL, on_answer,
                    &p);
    gets(&p, "{\"type\":\"execute\",\"id\":1,\"execute\":"
         "\"branch-trace-stop\",\"arguments\":{\"capture\":\"s\"}}");
    gets(&p, "{\"type\":\"execute\",\"id\":2,\"execute\":"
         "\"query-branch-trace\"}");
    say(&p, "{\"type\":\"reply\",\"id\":2,\"return\":{}}");
    say(&p, "{\"type\":\"reply\",\"id\":1,\"error\":{\"desc\":\"why\"}}");
    is_seen(&p, "done;why;");
    /* What is not answered is answered. */
    close(p.sock);
    is_seen(&p, "QEMU has closed the connection;"
            "closed: QEMU has closed the connection;");
    p.sock = -1;
    clear(&p);
}

static void breach(const char *first, const char *second, const char *seen)
{
    struct peer p;

    init(&p);
    p.refuse_guest = second && !*second;
    say(&p, first);
    if (second && *second) {
        say(&p, second);
    }
    is_seen(&p, seen);
    g_assert_true(p.closed);
    g_assert_cmpint(recv(p.sock, &p, 1, MSG_DONTWAIT), <=, 0);
    clear(&p);
}

#define BROKE "closed: the device broke the protocol: "
#define GUEST "{\"type\":\"guest\"}"

static void test_breaches(void)
{
    breach("{\"type\":\"event\",\"event\":\"x\"}", NULL,
           BROKE "it does not say 'guest' first;");
    breach("{}", NULL, BROKE "it does not say 'guest' first;");
    breach(GUEST, "", "guest -;closed: no more;");
    breach(GUEST, GUEST, "guest -;" BROKE "'guest' a second time;");
    breach(GUEST, "{\"type\":\"x\"}",
           "guest -;" BROKE "a message of unknown 'type';");
    breach(GUEST, "{\"type\":\"command\",\"id\":1}",
           "guest -;" BROKE "a command without 'id' or 'command';");
    breach(GUEST, "{\"type\":\"command\",\"id\":-1,\"command\":{}}",
           "guest -;" BROKE "a command without 'id' or 'command';");
    breach(GUEST, "{\"type\":\"command\",\"id\":\"1\",\"command\":{}}",
           "guest -;" BROKE "a command without 'id' or 'command';");
    breach(GUEST, "{\"type\":\"event\"}",
           "guest -;" BROKE "an event without a name;");
    breach(GUEST, "{\"type\":\"reply\",\"id\":1,\"return\":{}}",
           "guest -;" BROKE "a reply to an unknown command;");
}

static void test_same_id(void)
{
    struct peer p;

    init(&p);
    say(&p, GUEST);
    say(&p, "{\"type\":\"command\",\"id\":1,\"command\":{\"do\":\"x\"}}");
    say(&p, "{\"type\":\"command\",\"id\":1,\"command\":{\"do\":\"y\"}}");
    is_seen(&p, "guest -;command 1 x;" BROKE
            "a command with the 'id' of another one;");
    /* Too late, and no harm */
    control_return(p.control, 1, NULL);
    settle();
    clear(&p);
}

static void test_no_result(void)
{
    struct peer p;

    init(&p);
    say(&p, GUEST);
    is_seen(&p, "guest -;");
    control_execute(p.control, "query-branch-trace", NULL, on_answer,
                    &p);
    say(&p, "{\"type\":\"reply\",\"id\":1}");
    is_seen(&p, "the device broke the protocol: a reply without a result;"
            BROKE "a reply without a result;");
    clear(&p);
}

static void test_many(void)
{
    struct peer p;
    unsigned i;

    init(&p);
    say(&p, GUEST);
    for (i = 0; i <= CONTROL_MAX_COMMANDS; i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"type\":\"command\",\"id\":%u,\"command\":{\"do\":\"x\"}}", i);

        g_assert_false(p.closed);
        say(&p, text);
        settle();
    }
    g_assert_true(p.closed);
    clear(&p);
}

/* A device that does not read gets what fits, and is then hung up on. */
static void test_deaf(void)
{
    struct peer p;
    g_autofree char *text = g_strnfill(1000000, 'x');
    unsigned i;

    init(&p);
    say(&p, GUEST);
    settle();
    for (i = 0; i < 100 && !p.closed; i++) {
        g_autofree char *command = g_strdup_printf(
            "{\"type\":\"command\",\"id\":%u,\"command\":{\"do\":\"x\"}}", i);
        JsonObject *result = json_object_new();

        say(&p, command);
        settle();
        json_object_set_string_member(result, "text", text);
        control_return(p.control, i, result);
        settle();
    }
    g_assert_true(p.closed);
    g_assert_cmpuint(i, >, 7);
    g_assert_cmpuint(i, <, 20);
    clear(&p);
}

/* An answer that does not fit is an error. */
static void test_long(void)
{
    struct peer p;
    JsonObject *result = json_object_new();
    g_autofree char *text = g_strnfill(BTRAIL_JSON_MAX, 'x');

    init(&p);
    say(&p, GUEST);
    say(&p, "{\"type\":\"command\",\"id\":1,\"command\":{\"do\":\"x\"}}");
    settle();
    json_object_set_string_member(result, "text", text);
    control_return(p.control, 1, result);
    gets(&p, "{\"type\":\"reply\",\"id\":1,\"error\":{\"class\":"
         "\"GenericError\",\"desc\":\"the answer is too long; ask for less\"}}");
    clear(&p);
}

static void test_free(void)
{
    struct peer p;

    init(&p);
    p.free_early = true;
    say(&p, GUEST);
    say(&p, "{\"type\":\"command\",\"id\":1,\"command\":{\"do\":\"x\"}}");
    say(&p, "{\"type\":\"command\",\"id\":2,\"command\":{\"do\":\"y\"}}");
    is_seen(&p, "guest -;command 1 x;");
    g_assert_false(p.closed);
    clear(&p);
    /* Before that it broke the protocol is reported */
    init(&p);
    say(&p, "{}");
    g_main_context_iteration(NULL, FALSE);
    clear(&p);
    settle();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/control/talk", test_talk);
    g_test_add_func("/control/execute", test_execute);
    g_test_add_func("/control/breaches", test_breaches);
    g_test_add_func("/control/same-id", test_same_id);
    g_test_add_func("/control/no-result", test_no_result);
    g_test_add_func("/control/many", test_many);
    g_test_add_func("/control/deaf", test_deaf);
    g_test_add_func("/control/long", test_long);
    g_test_add_func("/control/free", test_free);
    return g_test_run();
}
