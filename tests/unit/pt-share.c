/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is said of a trace of Intel PT: shares, sums, and what is no number
 */

#include <glib.h>

#include "cli/pt-share.h"
#include "util/json.h"

static void check(const char *pt, const char *expected, bool adds_up)
{
    g_autofree char *json = pt ? g_strdup_printf("{\"pt\": %s}", pt) :
                            g_strdup("{}");
    JsonNode *node = btrail_json_parse_object(json);
    g_autofree char *text = NULL;

    g_assert_nonnull(node);
    text = pt_share_text(json_node_get_object(node));
    g_assert_cmpstr(text, ==, expected);
    g_assert_cmpint(pt_share_adds_up(json_node_get_object(node)), ==, adds_up);
    json_node_unref(node);
}

static void test_text(void)
{
    check(NULL, NULL, true);
    check("7", NULL, true);
    check("{\"size\": 100, \"read\": 100, \"decoded\": 60, \"skipped\": 20, "
          "\"host\": 20, \"address_spaces\": 5, \"never_decoded\": 1}",
          "75.0% of 80 bytes of the guest decoded, 20 of the host; 5 address "
          "spaces, 1 never decoded", true);
    /* All but one is not all. */
    check("{\"size\": 100000, \"read\": 100000, \"decoded\": 99999, "
          "\"skipped\": 1, \"more_address_spaces\": true}",
          "99.9% of 100000 bytes of the guest decoded, 0 of the host; more "
          "than 0 address spaces, 0 never decoded", true);
    check("{\"size\": 9, \"read\": 4, \"host\": 4, \"ended\": true}",
          "no bytes of the guest, 4 of the host; 0 address spaces, 0 never "
          "decoded; ended early, 5 bytes were not read", true);
}

static void test_sum(void)
{
    check("{}", "no bytes of the guest, 0 of the host; 0 address spaces, 0 "
          "never decoded", true);
    check("{\"size\": 2, \"read\": 2, \"decoded\": 1}",
          "100.0% of 1 bytes of the guest decoded, 0 of the host; 0 address "
          "spaces, 0 never decoded", false);
    check("{\"size\": 1, \"read\": 2, \"decoded\": 2}",
          "100.0% of 2 bytes of the guest decoded, 0 of the host; 0 address "
          "spaces, 0 never decoded", false);
    check("{\"size\": -3, \"read\": \"x\", \"decoded\": -9, \"ended\": true}",
          "no bytes of the guest, 0 of the host; 0 address spaces, 0 never "
          "decoded; ended early, 0 bytes were not read", true);
}

static void check_times(const char *json, const char *expected)
{
    JsonNode *node = btrail_json_parse_object(json);
    g_autofree char *text = NULL;

    g_assert_nonnull(node);
    text = pt_share_times(json_node_get_object(node));
    g_assert_cmpstr(text, ==, expected);
    json_node_unref(node);
}

static void test_times(void)
{
    check_times("{\"pt_clock\": {\"packets\": \"cyc\"}}", NULL);
    check_times("{\"pt\": {}}", "not known: all records have the time of the "
                "begin");
    check_times("{\"pt\": {}, \"pt_clock\": {\"packets\": \"cyc\", \"step\": "
                "1577}}", "by cycles, no closer than 1577 ns");
    check_times("{\"pt\": {}, \"pt_clock\": {\"packets\": \"mtc\", \"step\": "
                "-1}}", "by MTC packets, each 0 ns");
    check_times("{\"pt\": {}, \"pt_clock\": {\"packets\": 7}}", "by TSC "
                "packets only: where a PSB is, and where tracing goes on");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pt-share/text", test_text);
    g_test_add_func("/pt-share/sum", test_sum);
    g_test_add_func("/pt-share/times", test_times);
    return g_test_run();
}
