/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of client/session-facts.h: each kind of member, and members of another
 * kind, which a service can have that is not ours
 */

#include "client/session-facts.h"
#include "util/json.h"

static void add(void *opaque, const char *title, const char *text)
{
    g_string_append_printf(opaque, "%-15s %s\n", title, text);
}

static void check(const char *json, const char *expected)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(json);
    g_autoptr(GString) lines = g_string_new(NULL);

    g_assert_nonnull(node);
    session_facts(json_node_get_object(node), add, lines);
    g_assert_cmpstr(lines->str, ==, expected);
}

static void test_all(void)
{
    check("{\"session\": \"s\", \"owner\": \"u@h\", \"state\": \"active\","
          "\"mode\": \"last\", \"file\": \"f.btrail\", \"folder\": \"/t\","
          "\"privilege\": \"all\", \"overflow\": \"pause\","
          "\"vcpus\": [0, 2], \"cr3\": [4096, -9223372036854771712],"
          "\"processes\": [\"nginx\", 7], \"size\": {\"seconds\": 30},"
          "\"duration\": 1.5, \"split\": 1073741824,"
          "\"triggers\": [{\"at\": \"a:b\", \"do\": \"dump\", \"hits\": 1,"
          "\"places\": 2}, {\"at\": \"c:d\", \"do\": \"stop\", \"hits\": 2}],"
          "\"not-found\": [\"c:d\"], \"records\": 12, \"filtered\": 3,"
          "\"bytes\": 1536, \"lost\": 0, \"paused-ns\": 1500000000,"
          "\"limited-ns\": 0, \"cpu-ns\": 20000000,"
          "\"started\": \"2024-02-29T23:59:59Z\", \"ended\": null}",
          "Session:        s\n"
          "Owner:          u@h\n"
          "State:          active\n"
          "Mode:           last\n"
          "File:           f.btrail\n"
          "Folder:         /t\n"
          "Branches:       all\n"
          "vCPUs:          0,2\n"
          "CR3:            0x1000,0x8000000000001000\n"
          "Processes:      nginx,7\n"
          "Overflow:       pause\n"
          "Keeps:          30 s\n"
          "Split:          1.000 GiB\n"
          "Duration:       1.5 s\n"
          "Trigger:        a:b,do=dump,hits=1: 2 places\n"
          "Trigger:        c:d,do=stop,hits=2\n"
          "Not found:      c:d\n"
          "Started:        2024-02-29T23:59:59Z\n"
          "Recorded:       12\n"
          "Left out:       3\n"
          "Lost:           0\n"
          "Waited:         1.500 s\n"
          "Limited:        0.000 s\n"
          "CPU time:       0.020 s\n"
          "Size:           1.500 KiB\n");
}

static void test_size(void)
{
    check("{\"size\": {\"bytes\": 67108864}}", "Keeps:          64.000 MiB\n");
    check("{\"size\": {\"records\": 5}}", "Keeps:          5 branches\n");
    check("{\"size\": {\"pages\": 5}}", "");
}

static void test_hostile(void)
{
    check("{\"session\": 1, \"vcpus\": \"x\", \"size\": [], \"duration\": {},"
          "\"triggers\": [1, {}], \"records\": \"many\", \"cr3\": [[], null]}",
          "CR3:            ,\n"
          "Duration:       0 s\n"
          "Trigger:        ,do=-,hits=0\n"
          "Recorded:       0\n");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session-facts/all", test_all);
    g_test_add_func("/session-facts/size", test_size);
    g_test_add_func("/session-facts/hostile", test_hostile);
    return g_test_run();
}
