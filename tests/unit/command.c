/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of clients: what is parsed, and every kind that is refused
 */

#include <string.h>

#include "backtrail/transport.h"
#include "service/command.h"
#include "util/json.h"

static struct btrail_command *parse(const char *text, GError **error)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(text);

    g_assert_nonnull(node);
    return btrail_command_parse(json_node_get_object(node), error);
}

static struct btrail_command *good(const char *text)
{
    GError *error = NULL;
    struct btrail_command *c = parse(text, &error);

    g_assert_no_error(error);
    g_assert_nonnull(c);
    return c;
}

static void test_start(void)
{
    g_autoptr(btrail_command) c = good(
        "{\"do\":\"start\",\"session\":\"s\",\"file\":\"f\",\"owner\":\"o\","
        "\"vcpus\":[3,0,3],\"processes\":[\"nginx\",123],"
        "\"cr3\":[4096,\"0x2000\"],\"privilege\":\"user\","
        "\"mode\":\"last\",\"size\":{\"seconds\":7},\"overflow\":\"drop\","
        "\"duration\":1.5,\"triggers\":[{\"at\":\"kernel:panic\","
        "\"do\":\"dump\",\"hits\":3},{\"at\":\"a:b:0x10\",\"do\":\"stop\"}],"
        "\"names\":\"all\"}");
    const struct btrail_command_trigger *t;

    g_assert_cmpint(c->what, ==, BTRAIL_COMMAND_START);
    g_assert_cmpstr(c->session, ==, "s");
    g_assert_cmpstr(c->file, ==, "f.btrail");
    g_assert_cmpstr(c->owner, ==, "o");
    g_assert_cmpuint(c->vcpus->len, ==, 2);
    g_assert_cmpuint(g_array_index(c->vcpus, unsigned, 0), ==, 0);
    g_assert_cmpuint(g_array_index(c->vcpus, unsigned, 1), ==, 3);
    g_assert_cmpuint(c->processes->len, ==, 2);
    g_assert_cmpstr(g_array_index(c->processes, struct btrail_command_process,
                                  0).comm, ==, "nginx");
    g_assert_cmpint(g_array_index(c->processes, struct btrail_command_process,
                                  1).pid, ==, 123);
    g_assert_cmpuint(g_array_index(c->cr3, uint64_t, 0), ==, 4096);
    g_assert_cmpuint(g_array_index(c->cr3, uint64_t, 1), ==, 8192);
    g_assert_cmpuint(c->privilege, ==, BTRAIL_PRIVILEGE_USER);
    g_assert_true(c->last);
    g_assert_cmpint(c->size_of, ==, BTRAIL_COMMAND_SECONDS);
    g_assert_cmpuint(c->size, ==, 7);
    g_assert_cmpuint(c->overflow, ==, BTRAIL_OVERFLOW_DROP);
    g_assert_cmpuint(c->duration_ms, ==, 1500);
    g_assert_cmpuint(c->names, ==, BTRAIL_COMMAND_NAMES_ALL);
    g_assert_cmpuint(c->triggers->len, ==, 2);
    t = &g_array_index(c->triggers, struct btrail_command_trigger, 0);
    g_assert_cmpstr(t->at, ==, "kernel:panic");
    g_assert_cmpint(t->act, ==, BTRAIL_COMMAND_ACT_DUMP);
    g_assert_cmpuint(t->hits, ==, 3);
    t++;
    g_assert_cmpint(t->act, ==, BTRAIL_COMMAND_ACT_STOP);
    g_assert_cmpuint(t->hits, ==, 1);
}

static void test_defaults(void)
{
    g_autoptr(btrail_command) c = good("{\"do\":\"start\"}");

    g_assert_null(c->session);
    g_assert_null(c->file);
    g_assert_null(c->vcpus);
    g_assert_null(c->cr3);
    g_assert_null(c->processes);
    g_assert_null(c->triggers);
    g_assert_cmpuint(c->privilege, ==,
                     BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL);
    g_assert_cmpuint(c->overflow, ==, BTRAIL_OVERFLOW_PAUSE);
    g_assert_false(c->last);
    g_assert_cmpuint(c->names, ==, BTRAIL_COMMAND_NAMES_AUTO);
    g_assert_cmpuint(c->duration_ms, ==, 0);
    g_assert_cmpuint(c->split, ==, 0);
}

static void test_others(void)
{
    static const struct {
        const char *text;
        enum btrail_command_do what;
    } all[] = {
        { "{\"do\":\"stop\",\"session\":\"s\"}", BTRAIL_COMMAND_STOP },
        { "{\"do\":\"dump\",\"session\":\"s\",\"file\":\"a/b\"}",
          BTRAIL_COMMAND_DUMP },
        { "{\"do\":\"status\",\"session\":\"s\"}", BTRAIL_COMMAND_STATUS },
        { "{\"do\":\"status\"}", BTRAIL_COMMAND_STATUS },
        { "{\"do\":\"list\"}", BTRAIL_COMMAND_LIST },
        { "{\"do\":\"list\",\"guest\":\"g\",\"uuid\":\"u\"}",
          BTRAIL_COMMAND_LIST },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(all); i++) {
        g_autoptr(btrail_command) c = good(all[i].text);

        g_assert_cmpint(c->what, ==, all[i].what);
    }
}

/* Each says what is wrong, in words that name it. */
static void test_refused(void)
{
    static const char *const bad[][2] = {
        { "{}", "'do' must be 'start', 'stop'" },
        { "{\"do\":1}", "'do'" },
        { "{\"do\":\"begin\"}", "'do'" },
        { "{\"do\":\"stop\",\"file\":\"x\"}", "'file'" },
        { "{\"do\":\"list\",\"session\":\"x\"}", "'session'" },
        { "{\"do\":\"list\",\"guest\":1}", "'guest'" },
        { "{\"do\":\"stop\",\"guest\":\"g\"}", "'guest'" },
        { "{\"do\":\"status\",\"verbose\":true}", "'verbose'" },
        { "{\"do\":\"start\",\"vpcus\":[1]}", "'vpcus'" },
        { "{\"do\":\"start\",\"session\":\"\"}", "'session'" },
        { "{\"do\":\"start\",\"session\":5}", "'session'" },
        { "{\"do\":\"start\",\"session\":\"a\\nb\"}", "'session'" },
        { "{\"do\":\"start\",\"file\":\"../x\"}", "'../x'" },
        { "{\"do\":\"start\",\"file\":\"/x\"}", "'/x'" },
        { "{\"do\":\"start\",\"file\":[]}", "'file'" },
        { "{\"do\":\"start\",\"vcpus\":[]}", "'vcpus'" },
        { "{\"do\":\"start\",\"vcpus\":3}", "'vcpus'" },
        { "{\"do\":\"start\",\"vcpus\":[-1]}", "'vcpus'" },
        { "{\"do\":\"start\",\"vcpus\":[1024]}", "'vcpus'" },
        { "{\"do\":\"start\",\"vcpus\":[4294967296]}", "'vcpus'" },
        { "{\"do\":\"start\",\"vcpus\":[1.5]}", "'vcpus'" },
        { "{\"do\":\"start\",\"vcpus\":[[]]}", "'vcpus'" },
        { "{\"do\":\"start\",\"cr3\":[\"x\"]}", "'cr3'" },
        { "{\"do\":\"start\",\"cr3\":[-4096]}", "'cr3'" },
        { "{\"do\":\"start\",\"cr3\":[{}]}", "'cr3'" },
        { "{\"do\":\"start\",\"processes\":[0]}", "'processes'" },
        { "{\"do\":\"start\",\"processes\":[\"\"]}", "'processes'" },
        { "{\"do\":\"start\",\"processes\":[null]}", "'processes'" },
        { "{\"do\":\"start\",\"privilege\":\"root\"}",
          "'user', 'kernel' or 'all'" },
        { "{\"do\":\"start\",\"mode\":\"ring\"}", "'mode'" },
        { "{\"do\":\"start\",\"mode\":\"last\"}", "'size'" },
        { "{\"do\":\"start\",\"size\":{\"bytes\":5000000}}", "'size'" },
        { "{\"do\":\"start\",\"mode\":\"last\",\"size\":5}", "'size'" },
        { "{\"do\":\"start\",\"mode\":\"last\",\"size\":{}}", "'size'" },
        { "{\"do\":\"start\",\"mode\":\"last\",\"size\":{\"bytes\":1}}",
          "'bytes'" },
        { "{\"do\":\"start\",\"mode\":\"last\",\"size\":{\"bytes\":5000000,"
          "\"records\":1}}", "'size'" },
        { "{\"do\":\"start\",\"mode\":\"last\",\"size\":{\"miles\":1}}",
          "'size'" },
        { "{\"do\":\"start\",\"mode\":\"last\",\"split\":5000000,"
          "\"size\":{\"records\":1}}", "'split'" },
        { "{\"do\":\"start\",\"overflow\":\"lose\"}", "'overflow'" },
        { "{\"do\":\"start\",\"overflow\":\"overwrite\"}", "'last'" },
        { "{\"do\":\"start\",\"duration\":0}", "'duration'" },
        { "{\"do\":\"start\",\"duration\":-1}", "'duration'" },
        { "{\"do\":\"start\",\"duration\":1e300}", "'duration'" },
        { "{\"do\":\"start\",\"duration\":\"1\"}", "'duration'" },
        { "{\"do\":\"start\",\"split\":10}", "'split'" },
        { "{\"do\":\"start\",\"names\":\"on\"}", "'names'" },
        { "{\"do\":\"start\",\"triggers\":[1]}", "'triggers'" },
        { "{\"do\":\"start\",\"names\":\"off\",\"triggers\":["
          "{\"at\":\"a:b\",\"do\":\"stop\"}]}", "'off'" },
        { "{\"do\":\"start\",\"names\":\"off\",\"processes\":[1]}",
          "'off'" },
        { "{\"do\":\"start\",\"triggers\":[{\"do\":\"stop\"}]}", "'at'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"a:b\"}]}", "'do'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"ab\",\"do\":\"stop\"}]}",
          "'at'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"a:\",\"do\":\"stop\"}]}",
          "'at'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\":b\",\"do\":\"stop\"}]}",
          "'at'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"a:b\",\"do\":\"stop\","
          "\"hits\":0}]}", "'hits'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"a:b\",\"do\":\"stop\","
          "\"after\":1}]}", "'after'" },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;

        g_test_message("%s", bad[i][0]);
        g_assert_null(parse(bad[i][0], &error));
        g_assert_nonnull(error);
        g_test_message("%s", error->message);
        g_assert_nonnull(strstr(error->message, bad[i][1]));
    }
}

/* What a place is of depends on what it is said to be in. */
static void test_places(void)
{
    static const struct {
        const char *at, *process, *symbol;
        bool user;
        uint64_t address;
    } places[] = {
        { "kernel:panic", NULL, "panic", false },
        { "kernel:0x10", NULL, NULL, false, 16 },
        { "nginx:main", "nginx", "main", true },
        { "100:main", "100", "main", true },
        { "nginx:16", "nginx", NULL, false, 16 },
        { "nginx:kernel:ksys_write", "nginx", "ksys_write", false },
        { "kworker/0:1:main", "kworker/0:1", "main", true },
        { "kernels:main", "kernels", "main", true },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(places); i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"do\":\"start\",\"triggers\":[{\"at\":\"%s\","
            "\"do\":\"stop\"}]}", places[i].at);
        g_autoptr(btrail_command) c = parse(text, NULL);
        const struct btrail_command_trigger *t =
            &g_array_index(c->triggers, struct btrail_command_trigger, 0);

        g_assert_cmpstr(t->at, ==, places[i].at);
        g_assert_cmpstr(t->process, ==, places[i].process);
        g_assert_cmpstr(t->symbol, ==, places[i].symbol);
        g_assert_cmpint(t->user, ==, places[i].user);
        if (!t->symbol) {
            g_assert_cmpuint(t->address, ==, places[i].address);
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/command/places", test_places);
    g_test_add_func("/command/start", test_start);
    g_test_add_func("/command/defaults", test_defaults);
    g_test_add_func("/command/others", test_others);
    g_test_add_func("/command/refused", test_refused);
    return g_test_run();
}
