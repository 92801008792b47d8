/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The options of a drain session, from a command "start"
 */

#include "util/json.h"
#include "service/start-options.h"

#define RING    (UINT64_C(64) << 20)

static struct btrail_command *parse(const char *text)
{
    JsonNode *node = btrail_json_parse_object(text);
    g_autoptr(GError) error = NULL;
    struct btrail_command *c =
        btrail_command_parse(json_node_get_object(node), &error);

    g_assert_no_error(error);
    json_node_unref(node);
    return c;
}

/* Who says nothing wants everything. */
static void test_nothing(void)
{
    struct btrail_command *c = parse("{\"do\":\"start\"}");
    struct btrail_start_options w;

    btrail_start_options_init(&w, c, RING);
    g_assert_cmpint(w.options.mode, !=, BTRAIL_SESSION_LAST);
    g_assert_false(w.options.drop);
    g_assert_cmpuint(w.options.filter.n_vcpus, ==, 0);
    g_assert_cmpuint(w.options.filter.n_cr3s, ==, 0);
    g_assert_null(w.options.filter.processes);
    g_assert_cmpuint(w.options.filter.privilege, ==, 0);
    g_assert_cmpuint(w.options.n_triggers, ==, 0);
    btrail_start_options_clear(&w);
    btrail_command_free(c);
}

static void test_all(void)
{
    struct btrail_command *c = parse(
        "{\"do\":\"start\",\"vcpus\":[2,1],\"cr3\":[\"0x1000\"],"
        "\"processes\":[\"nginx\",12],\"privilege\":\"kernel\","
        "\"overflow\":\"drop\",\"triggers\":["
        "{\"at\":\"kernel:panic\",\"do\":\"stop\"},"
        "{\"at\":\"nginx:0x400\",\"do\":\"start\",\"hits\":3}]}");
    const struct btrail_session_options *o;
    struct btrail_start_options w;

    btrail_start_options_init(&w, c, RING);
    o = &w.options;
    g_assert_true(o->drop);
    g_assert_cmpuint(o->filter.n_vcpus, ==, 2);
    g_assert_cmpuint(o->filter.vcpus[0] + o->filter.vcpus[1], ==, 3);
    g_assert_cmpuint(o->filter.n_cr3s, ==, 1);
    g_assert_cmphex(o->filter.cr3s[0], ==, 0x1000);
    g_assert_cmpstr(o->filter.processes[0], ==, "nginx");
    g_assert_cmpstr(o->filter.processes[1], ==, "12");
    g_assert_null(o->filter.processes[2]);
    g_assert_cmpuint(o->filter.privilege, ==, BTRAIL_PRIVILEGE_KERNEL);
    g_assert_cmpuint(o->n_triggers, ==, 2);
    g_assert_null(o->triggers[0].process);
    g_assert_cmpstr(o->triggers[0].symbol, ==, "panic");
    g_assert_cmpint(o->triggers[0].action, ==, BTRAIL_TRIGGER_STOP);
    g_assert_cmpuint(o->triggers[0].hits, ==, 1);
    g_assert_cmpstr(o->triggers[1].process, ==, "nginx");
    g_assert_null(o->triggers[1].symbol);
    g_assert_cmphex(o->triggers[1].address, ==, 0x400);
    g_assert_cmpint(o->triggers[1].action, ==, BTRAIL_TRIGGER_START);
    g_assert_cmpuint(o->triggers[1].hits, ==, 3);
    btrail_start_options_clear(&w);
    btrail_command_free(c);
}

/* Whatever is asked for, a ring has no more bytes than it may. */
static void test_limit(void)
{
    static const struct {
        const char *size;
        struct btrail_session_limit limit;
    } tests[] = {
        { "{\"bytes\":5000000}", { .bytes = 5000000 } },
        { "{\"records\":1000000}", { .bytes = RING, .records = 1000000 } },
        { "{\"seconds\":30}", { .bytes = RING, .ns = 30000000000 } },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(tests); i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"do\":\"start\",\"mode\":\"last\",\"size\":%s}", tests[i].size);
        struct btrail_command *c = parse(text);
        struct btrail_start_options w;

        btrail_start_options_init(&w, c, RING);
        g_assert_cmpint(w.options.mode, ==, BTRAIL_SESSION_LAST);
        g_assert_cmpuint(w.options.limit.bytes, ==, tests[i].limit.bytes);
        g_assert_cmpuint(w.options.limit.records, ==, tests[i].limit.records);
        g_assert_cmpuint(w.options.limit.ns, ==, tests[i].limit.ns);
        btrail_start_options_clear(&w);
        btrail_command_free(c);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/start-options/nothing", test_nothing);
    g_test_add_func("/start-options/all", test_all);
    g_test_add_func("/start-options/limit", test_limit);
    return g_test_run();
}
