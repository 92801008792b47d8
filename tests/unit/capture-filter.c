/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The filter of a capture: the union of what several commands request
 */

#include "util/json.h"
#include "service/capture-filter.h"

/* The arguments that commands add up to, as text */
static void sums_up(const char *want, const char *first, ...)
{
    struct service_command *commands[8];
    g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);
    g_autofree char *text = NULL;
    g_autoptr(JsonObject) w = NULL;
    const char *t;
    unsigned n = 0, i;
    va_list args;

    va_start(args, first);
    for (t = first; t; t = va_arg(args, const char *)) {
        g_autofree char *json = g_strdup_printf("{\"do\":\"start\"%s%s}",
                                                *t ? "," : "", t);
        g_autoptr(JsonNode) parsed = btrail_json_parse_object(json);

        commands[n] = command_parse(json_node_get_object(parsed), NULL);
        g_assert_nonnull(commands[n]);
        n++;
    }
    va_end(args);
    w = capture_filter(commands, n);
    json_node_set_object(node, w);
    text = json_to_string(node, FALSE);
    g_assert_cmpstr(text, ==, want);
    for (i = 0; i < n; i++) {
        g_autoptr(JsonObject) one = capture_filter(&commands[i], 1);

        /* More of the same changes nothing. */
        g_assert_true(n > 1 || json_object_equal(one, w));
        command_free(commands[i]);
    }
}

#define ALL "\"privilege\":\"all\",\"overflow\":\"pause\"}"

static void test_sum(void)
{
    sums_up("{" ALL, "", NULL);
    sums_up("{" ALL, "", "", NULL);
    sums_up("{\"vcpus\":[0,2],\"privilege\":\"user\",\"overflow\":\"drop\"}",
            "\"vcpus\":[2,0],\"privilege\":\"user\",\"overflow\":\"drop\"",
            NULL);
    sums_up("{\"vcpus\":[0,1,2]," ALL, "\"vcpus\":[2,1]",
            "\"vcpus\":[1,0]", NULL);
    sums_up("{" ALL, "\"vcpus\":[2,1]", "", NULL);
    sums_up("{" ALL, "\"privilege\":\"user\"", "\"privilege\":\"kernel\"",
            NULL);
    sums_up("{\"privilege\":\"kernel\",\"overflow\":\"pause\"}",
            "\"privilege\":\"kernel\",\"overflow\":\"drop\"",
            "\"privilege\":\"kernel\"", NULL);
    /* Flags do not count; a PCID can be that of a table of PAE. */
    sums_up("{\"cr3\":[4096,8192]," ALL, "\"cr3\":[8192]",
            "\"cr3\":[4097,8193]", NULL);
    sums_up("{\"cr3\":[4096,4128]," ALL, "\"cr3\":[4128]",
            "\"cr3\":[\"0x1000\"]", NULL);
    sums_up("{" ALL, "\"cr3\":[8192]", "", NULL);
    sums_up("{" ALL, "\"cr3\":[8192]", "\"processes\":[1]", NULL);
}

static struct service_command roots(unsigned from, unsigned n)
{
    uint64_t *cr3s = g_new(uint64_t, n);
    unsigned i;

    for (i = 0; i < n; i++) {
        cr3s[i] = (uint64_t)(from + i + 1) << 12;
    }
    return (struct service_command) {
        .filter = { .cr3s = cr3s, .n_cr3s = n },
    };
}

/* A device takes 64; with more it is to record all. */
static void test_many(void)
{
    struct service_command a = roots(0, 40);
    struct service_command b = roots(20, 44);
    struct service_command c = roots(64, 1);
    struct service_command *all[] = { &a, &b, &c };
    g_autoptr(JsonObject) two = NULL, three = NULL;

    a.privilege = b.privilege = c.privilege = BTRAIL_PRIVILEGE_USER;
    two = capture_filter(all, 2);
    three = capture_filter(all, 3);
    g_assert_cmpuint(json_array_get_length(
        json_object_get_array_member(two, "cr3")), ==, 64);
    g_assert_false(json_object_has_member(three, "cr3"));
    g_assert_false(json_object_equal(two, three));
    g_assert_false(json_object_equal(three, two));
    session_filter_clear(&a.filter);
    session_filter_clear(&b.filter);
    session_filter_clear(&c.filter);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/capture-filter/sum", test_sum);
    g_test_add_func("/capture-filter/many", test_many);
    return g_test_run();
}
