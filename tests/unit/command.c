/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of clients: what is parsed, and every kind that is refused
 */

#include <string.h>

#include "backtrail/transport.h"
#include "service/command.h"
#include "util/json.h"

#define RING    (UINT64_C(64) << 20)

static struct service_command *parse(const char *text, GError **error)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(text);

    g_assert_nonnull(node);
    return command_parse(json_node_get_object(node), error);
}

static struct service_command *good(const char *text)
{
    GError *error = NULL;
    struct service_command *c = parse(text, &error);

    g_assert_no_error(error);
    g_assert_nonnull(c);
    return c;
}

static void test_start(void)
{
    g_autoptr(service_command) c = good(
        "{\"do\":\"start\",\"session\":\"s\",\"file\":\"f\",\"owner\":\"o\","
        "\"vcpus\":[3,0,3],\"processes\":[\"nginx\",123],"
        "\"cr3\":[4096,\"0x2000\",-9223372036834193184],"
        "\"privilege\":\"user\","
        "\"mode\":\"last\",\"size\":{\"seconds\":7},\"overflow\":\"drop\","
        "\"duration\":1.5,\"triggers\":[{\"at\":\"kernel:panic\","
        "\"do\":\"dump\",\"hits\":3},{\"at\":\"a:b:0x10\",\"do\":\"stop\"}],"
        "\"sysroots\":[\"/a\",\"/b\"],\"names\":\"all\"}");
    const struct trigger *t;

    g_assert_cmpint(c->what, ==, COMMAND_START);
    g_assert_cmpstr(c->session, ==, "s");
    g_assert_cmpstr(c->file, ==, "f.btrail");
    g_assert_cmpstr(c->owner, ==, "o");
    g_assert_cmpuint(c->filter.n_vcpus, ==, 2);
    g_assert_cmpuint(c->filter.vcpus[0], ==, 0);
    g_assert_cmpuint(c->filter.vcpus[1], ==, 3);
    g_assert_cmpstr(c->filter.processes[0], ==, "nginx");
    g_assert_cmpstr(c->filter.processes[1], ==, "123");
    g_assert_null(c->filter.processes[2]);
    g_assert_cmpuint(c->filter.n_cr3s, ==, 3);
    g_assert_cmphex(c->filter.cr3s[2], ==, 0x80000000013a10e0);
    g_assert_cmpuint(c->filter.cr3s[0], ==, 4096);
    g_assert_cmpuint(c->filter.cr3s[1], ==, 8192);
    g_assert_cmpuint(c->privilege, ==, BTRAIL_PRIVILEGE_USER);
    g_assert_cmpuint(c->mode, ==, SESSION_LAST);
    g_assert_cmpuint(c->limit.ns, ==, UINT64_C(7000000000));
    g_assert_cmpuint(c->limit.bytes, ==, 0);
    g_assert_cmpuint(c->limit.records, ==, 0);
    g_assert_cmpuint(c->overflow, ==, BTRAIL_OVERFLOW_DROP);
    g_assert_cmpuint(c->duration_ms, ==, 1500);
    g_assert_cmpuint(c->names, ==, NAMES_ALL);
    g_assert_cmpstr(c->sysroots[0], ==, "/a");
    g_assert_cmpstr(c->sysroots[1], ==, "/b");
    g_assert_null(c->sysroots[2]);
    g_assert_cmpuint(c->n_triggers, ==, 2);
    t = c->triggers;
    g_assert_cmpstr(c->at[0], ==, "kernel:panic");
    g_assert_cmpint(t->action, ==, TRIGGER_DUMP);
    g_assert_cmpuint(t->hits, ==, 3);
    g_assert_cmpuint(t->longer_ns, ==, 0);
    t++;
    g_assert_cmpint(t->action, ==, TRIGGER_STOP);
    g_assert_cmpuint(t->hits, ==, 1);
}

static void test_defaults(void)
{
    g_autoptr(service_command) c = good("{\"do\":\"start\"}");

    g_assert_null(c->session);
    g_assert_null(c->file);
    g_assert_cmpuint(c->filter.n_vcpus, ==, 0);
    g_assert_cmpuint(c->filter.n_cr3s, ==, 0);
    g_assert_null(c->filter.processes);
    g_assert_cmpuint(c->n_triggers, ==, 0);
    g_assert_null(c->sysroots);
    g_assert_cmpuint(c->privilege, ==,
                     BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL);
    g_assert_cmpuint(c->overflow, ==, BTRAIL_OVERFLOW_PAUSE);
    g_assert_cmpuint(c->mode, ==, SESSION_CONTINUOUS);
    g_assert_cmpuint(c->names, ==, NAMES_AUTO);
    g_assert_cmpuint(c->duration_ms, ==, 0);
    g_assert_cmpuint(c->split, ==, 0);
}

static void test_others(void)
{
    static const struct {
        const char *text;
        enum command_do what;
    } all[] = {
        { "{\"do\":\"stop\",\"session\":\"s\"}", COMMAND_STOP },
        { "{\"do\":\"dump\",\"session\":\"s\",\"file\":\"a/b\"}",
          COMMAND_DUMP },
        { "{\"do\":\"status\",\"session\":\"s\"}", COMMAND_STATUS },
        { "{\"do\":\"status\"}", COMMAND_STATUS },
        { "{\"do\":\"list\"}", COMMAND_LIST },
        { "{\"do\":\"list\",\"guest\":\"g\",\"uuid\":\"u\"}",
          COMMAND_LIST },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(all); i++) {
        g_autoptr(service_command) c = good(all[i].text);

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
        { "{\"do\":\"start\",\"cr3\":[9223372036875358432]}", "'cr3'" },
        { "{\"do\":\"start\",\"cr3\":[18446744073709555712]}", "'cr3'" },
        { "{\"do\":\"start\",\"vcpus\":[18446744073709551616]}",
          "'vcpus'" },
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
        { "{\"do\":\"start\",\"sysroots\":[\"/a\"]}", "'triggers'" },
        { "{\"do\":\"start\",\"sysroots\":[\"a\"]}", "'sysroots'" },
        { "{\"do\":\"start\",\"sysroots\":[\"/a\",1]}", "'sysroots'" },
        { "{\"do\":\"start\",\"sysroots\":\"/a\"}", "'sysroots'" },
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
        /* It has no process, and no function that is whole. */
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"ns::f\","
          "\"do\":\"stop\"}]}", "'at'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"a:f(int\","
          "\"do\":\"stop\"}]}", "'at'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\":b\",\"do\":\"stop\"}]}",
          "'at'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"a:b\",\"do\":\"stop\","
          "\"hits\":0}]}", "'hits'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"a:b\",\"do\":\"stop\","
          "\"after\":1}]}", "'after'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"a:b\",\"do\":\"stop\","
          "\"longer\":0}]}", "'longer'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"mark:a\","
          "\"do\":\"stop\",\"longer\":1}]}", "'longer'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"mark:a\","
          "\"do\":\"stop\",\"once\":1}]}", "'once'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"mark:a\","
          "\"do\":\"stop\",\"until\":\"mark:b\"}]}", "needs 'longer'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"mark:a=1\","
          "\"do\":\"stop\",\"until\":\"mark:b\",\"longer\":1}]}",
          "no condition" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"mark:a\","
          "\"do\":\"stop\",\"until\":\"mark:b<1\",\"longer\":1}]}",
          "no condition" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"mark:a\","
          "\"do\":\"stop\",\"until\":\"p:mark:b\",\"longer\":1}]}",
          "'until'" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"p:b\","
          "\"do\":\"stop\",\"until\":\"mark:b\",\"longer\":1}]}",
          "for marks" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"mark:a\","
          "\"do\":\"stop\",\"longer\":1,\"until\":\"mark:123456789012345"
          "6789012345678901234567890123456789012345678901\"}]}", "60 bytes" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\":mark:a\","
          "\"do\":\"stop\"}]}", "PROCESS:mark:NAME" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"kernel:mark:a\","
          "\"do\":\"stop\"}]}", "PROCESS:mark:NAME" },
        { "{\"do\":\"start\",\"triggers\":[{\"at\":\"mark:12345678901234567890"
          "12345678901234567890123456789012345678901\","
          "\"do\":\"stop\"}]}", "60 bytes" },
        { "{\"do\":\"start\",\"names\":\"off\",\"triggers\":["
          "{\"at\":\"a:mark:b\",\"do\":\"stop\"}]}", "'off'" },
        { "{\"do\":\"start\",\"vcpus\":[0],\"triggers\":[{\"at\":\"a:b\","
          "\"do\":\"stop\",\"longer\":1}]}", "'vcpus'" },
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
        { "nginx:ns::f", "nginx", "ns::f", true },
        { "nginx:::f", "nginx", "::f", true },
        { "kworker/0:1:ns::f(int, char)", "kworker/0:1", "ns::f(int, char)",
          true },
        { "kernel:alloc::fmt::format", NULL, "alloc::fmt::format", false },
        { "nginx:kernel:core::fmt::write", "nginx", "core::fmt::write",
          false },
        { "nginx:<A as kernel::B>::c", "nginx", "<A as kernel::B>::c", true },
        { "nginx:f[abi:cxx11](int)", "nginx", "f[abi:cxx11](int)", true },
        { "nginx:A::operator>", "nginx", "A::operator>", true },
        { "nginx:ns::mark::f", "nginx", "ns::mark::f", true },
        { "nginx:mark::f", "nginx", "mark::f", true },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(places); i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"do\":\"start\",\"triggers\":[{\"at\":\"%s\","
            "\"do\":\"stop\"}]}", places[i].at);
        g_autoptr(service_command) c = parse(text, NULL);
        const struct trigger *t = c->triggers;

        g_assert_cmpstr(c->at[0], ==, places[i].at);
        g_assert_cmpstr(t->process, ==, places[i].process);
        g_assert_cmpstr(t->symbol, ==, places[i].symbol);
        g_assert_cmpint(t->user, ==, places[i].user);
        if (!t->symbol) {
            g_assert_cmpuint(t->address, ==, places[i].address);
        }
    }
}

/* Marks, of anybody and of a process; their names can have colons. */
static void test_marks(void)
{
    static const struct {
        const char *at, *process, *name;
        enum mark_condition condition;
        uint64_t value;
    } marks[] = {
        { "mark:slow request", NULL, "slow request" },
        { "mark:request>=5", NULL, "request", MARK_AT_LEAST, 5 },
        { "mark:", NULL, "" },
        { "mark:!=3", NULL, "", MARK_NOT_EQUAL, 3 },
        { "mark:a:mark:b", NULL, "a:mark:b" },
        { "nginx:mark:a=1", "nginx", "a", MARK_EQUAL, 1 },
        { "kworker/0:1:mark:a", "kworker/0:1", "a" },
        { "mark :mark:a:mark:b<0x10", "mark ", "a:mark:b", MARK_BELOW, 16 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(marks); i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"do\":\"start\",\"triggers\":[{\"at\":\"%s\","
            "\"do\":\"stop\"}]}", marks[i].at);
        g_autoptr(service_command) c = good(text);
        const struct trigger *t = c->triggers;

        g_assert_cmpstr(t->process, ==, marks[i].process);
        g_assert_cmpstr(t->mark.name, ==, marks[i].name);
        g_assert_cmpint(t->mark.condition, ==, marks[i].condition);
        if (t->mark.condition) {
            g_assert_cmpuint(t->mark.value, ==, marks[i].value);
        }
        g_assert_null(t->symbol);
        g_assert_true(trigger_is_wanted(t));
    }
}

/* A session that requests nothing in particular records everything. */
static void test_options_nothing(void)
{
    g_autoptr(service_command) c = good("{\"do\":\"start\"}");
    struct session_settings o = command_options(c, RING);

    g_assert_cmpint(o.mode, !=, SESSION_LAST);
    g_assert_false(o.drop);
    g_assert_cmpuint(o.filter.n_vcpus, ==, 0);
    g_assert_cmpuint(o.filter.n_cr3s, ==, 0);
    g_assert_null(o.filter.processes);
    g_assert_cmpuint(o.filter.privilege, ==, 0);
    g_assert_cmpuint(o.n_triggers, ==, 0);
}

static void test_options_all(void)
{
    g_autoptr(service_command) c = good(
        "{\"do\":\"start\",\"vcpus\":[2,1],\"cr3\":[\"0x1000\"],"
        "\"processes\":[\"nginx\",12],\"privilege\":\"kernel\","
        "\"overflow\":\"drop\",\"triggers\":["
        "{\"at\":\"kernel:panic\",\"do\":\"stop\"},"
        "{\"at\":\"nginx:0x400\",\"do\":\"start\",\"hits\":3}]}");
    struct session_settings o = command_options(c, RING);

    g_assert_true(o.drop);
    g_assert_cmpuint(o.filter.n_vcpus, ==, 2);
    g_assert_cmpuint(o.filter.vcpus[0] + o.filter.vcpus[1], ==, 3);
    g_assert_cmpuint(o.filter.n_cr3s, ==, 1);
    g_assert_cmphex(o.filter.cr3s[0], ==, 0x1000);
    g_assert_cmpstr(o.filter.processes[0], ==, "nginx");
    g_assert_cmpstr(o.filter.processes[1], ==, "12");
    g_assert_null(o.filter.processes[2]);
    g_assert_cmpuint(o.filter.privilege, ==, BTRAIL_PRIVILEGE_KERNEL);
    g_assert_cmpuint(o.n_triggers, ==, 2);
    g_assert_null(o.triggers[0].process);
    g_assert_cmpstr(o.triggers[0].symbol, ==, "panic");
    g_assert_cmpint(o.triggers[0].action, ==, TRIGGER_STOP);
    g_assert_cmpuint(o.triggers[0].hits, ==, 1);
    g_assert_cmpstr(o.triggers[1].process, ==, "nginx");
    g_assert_null(o.triggers[1].symbol);
    g_assert_cmphex(o.triggers[1].address, ==, 0x400);
    g_assert_cmpint(o.triggers[1].action, ==, TRIGGER_START);
    g_assert_cmpuint(o.triggers[1].hits, ==, 3);
}

/* Whatever is requested, a ring has at most the bytes that it may have. */
static void test_options_limit(void)
{
    static const struct {
        const char *size;
        struct session_limit limit;
    } tests[] = {
        { "{\"bytes\":5000000}", { .bytes = 5000000 } },
        { "{\"records\":1000000}", { .bytes = RING, .records = 1000000 } },
        { "{\"seconds\":30}", { .bytes = RING, .ns = 30000000000 } },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(tests); i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"do\":\"start\",\"mode\":\"last\",\"size\":%s}", tests[i].size);
        g_autoptr(service_command) c = good(text);
        struct session_settings o = command_options(c, RING);

        g_assert_cmpint(o.mode, ==, SESSION_LAST);
        g_assert_cmpuint(o.limit.bytes, ==, tests[i].limit.bytes);
        g_assert_cmpuint(o.limit.records, ==, tests[i].limit.records);
        g_assert_cmpuint(o.limit.ns, ==, tests[i].limit.ns);
    }
}

static void test_longer(void)
{
    g_autoptr(service_command) c = good(
        "{\"do\":\"start\",\"triggers\":[{\"at\":\"kernel:x\","
        "\"do\":\"stop\",\"longer\":0.25}]}");

    g_assert_cmpuint(c->triggers->longer_ns, ==, 250000000);
}

static void test_until(void)
{
    g_autoptr(service_command) c = good(
        "{\"do\":\"start\",\"triggers\":[{\"at\":\"p:mark:a\","
        "\"do\":\"stop\",\"longer\":1,\"until\":\"mark:b, c\","
        "\"once\":true},"
        "{\"at\":\"mark:a\",\"do\":\"stop\"}]}");

    g_assert_cmpstr(c->triggers[0].process, ==, "p");
    g_assert_cmpstr(c->triggers[0].mark.name, ==, "a");
    g_assert_cmpstr(c->triggers[0].until.name, ==, "b, c");
    g_assert_cmpstr(c->until[0], ==, "mark:b, c");
    g_assert_true(c->triggers[0].once);
    g_assert_null(c->until[1]);
    g_assert_null(c->triggers[1].until.name);
    g_assert_false(c->triggers[1].once);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/command/places", test_places);
    g_test_add_func("/command/marks", test_marks);
    g_test_add_func("/command/start", test_start);
    g_test_add_func("/command/longer", test_longer);
    g_test_add_func("/command/until", test_until);
    g_test_add_func("/command/defaults", test_defaults);
    g_test_add_func("/command/others", test_others);
    g_test_add_func("/command/refused", test_refused);
    g_test_add_func("/command/options/nothing", test_options_nothing);
    g_test_add_func("/command/options/all", test_options_all);
    g_test_add_func("/command/options/limit", test_options_limit);
    return g_test_run();
}
