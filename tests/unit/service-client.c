/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of client/service-client.h: which session is meant, and what was not
 * found.  The service is the test's own.
 */

#include "client/service-client.h"
#include "util/agent-error.h"
#include "util/json.h"

/* The texts of answers, one for each question; NULL fails. */
static const char *const *answers;
static unsigned asked;

/* No time goes by. */
void g_usleep(gulong us)
{
}

static JsonObject *ask(void *opaque, JsonObject *command, GError **error)
{
    const char *text = answers[asked++];
    g_autoptr(JsonNode) node = text ? btrail_json_parse_object(text) : NULL;

    g_assert_cmpstr(btrail_json_string(command, "do"), ==, "status");
    json_object_unref(command);
    if (!node) {
        agent_fail(error, AGENT_ERROR_COMMAND, "no answer");
    }
    return node ? json_node_dup_object(node) : NULL;
}

static const struct service_client client = { .ask = ask };

static void expect(const char *const *texts)
{
    answers = texts;
    asked = 0;
}

/* Sessions of mine and of others; returns what is chosen. */
static char *choose(unsigned mine, unsigned others, GError **error)
{
    g_autofree char *owner = service_client_owner();
    g_autoptr(GString) text = g_string_new("{\"sessions\": [");

    for (unsigned i = 0; i < mine + others; i++) {
        g_string_append_printf(text, "%s{\"session\": \"%c\", \"owner\": "
                               "\"%s\"}", i ? "," : "", 'a' + i,
                               i < mine ? owner : "other@host");
    }
    g_string_append(text, "]}");
    expect((const char *const[]) { text->str });
    return service_client_choose(&client, NULL, error);
}

static void check_refused(unsigned mine, unsigned others, const char *why)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(choose(mine, others, &error));
    g_assert_error(error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED);
    g_assert_cmpstr(error->message, ==, why);
}

static void test_choose(void)
{
    g_autofree char *owner = service_client_owner();
    g_autofree char *mine = choose(1, 2, NULL);
    g_autofree char *given = service_client_choose(&client, "x", NULL);
    g_autoptr(GError) error = NULL;

    g_assert_nonnull(g_strrstr(owner, "@"));
    g_assert_cmpstr(mine, ==, "a");
    g_assert_cmpstr(given, ==, "x");
    g_assert_cmpuint(asked, ==, 1);
    check_refused(0, 0, "it has no session");
    check_refused(0, 1, "name one with --session, as you have none: a");
    check_refused(2, 1, "name one with --session, as you have several: "
                  "a, b, c");
    expect((const char *const[]) { NULL });
    g_assert_null(service_client_choose(&client, NULL, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
}

static void test_arguments(void)
{
    g_autoptr(JsonObject) plain = service_client_arguments(
        btrail_json_new("s:do", "list", NULL), NULL);
    g_autoptr(JsonObject) told = service_client_arguments(
        btrail_json_new("s:do", "list", NULL), "/run/agent");
    g_autofree char *text = btrail_json_text(told, FALSE);

    g_assert_false(json_object_has_member(plain, "agent"));
    g_assert_cmpstr(text, ==, "{\"command\":{\"do\":\"list\"},"
                    "\"timeout\":30000,\"agent\":{\"type\":\"unix\","
                    "\"path\":\"/run/agent\"}}");
}

#define FOUND   "{\"sessions\": [{\"session\": \"s\", \"file\": \"f\"}]}"
#define MISSING "{\"sessions\": [{\"session\": \"s\", \"file\": \"f\", "    \
                "\"not-found\": [\"x\"]}]}"

static JsonObject *await(const char *const *texts)
{
    g_autoptr(JsonObject) answer = btrail_json_new("s:session", "s",
                                                   "s:file", "f", NULL);

    expect(texts);
    return service_client_await_found(&client, answer);
}

static void test_await_found(void)
{
    g_autoptr(JsonObject) missing = NULL;

    g_assert_null(await((const char *const[]) { MISSING, FOUND }));
    g_assert_cmpuint(asked, ==, 2);
    g_assert_null(await((const char *const[]) { MISSING, NULL }));
    missing = await((const char *const[]) {
        MISSING, MISSING, MISSING, MISSING, MISSING });
    g_assert_cmpuint(asked, ==, 5);
    g_assert_nonnull(missing);
    g_assert_true(json_object_has_member(missing, "not-found"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/service-client/choose", test_choose);
    g_test_add_func("/service-client/arguments", test_arguments);
    g_test_add_func("/service-client/await-found", test_await_found);
    return g_test_run();
}
