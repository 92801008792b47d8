/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Words for values that are shown: each value has one, they can be translated
 * back, and QMP uses the same ones
 *
 * usage: test-words branch-trace.json
 */

#include <glib.h>
#include <limits.h>
#include <string.h>

#include "backtrail/words.h"

static char *schema;

static const char *gap_name(unsigned reason)
{
    return btrail_reason_name(BTRAIL_EVENT_GAP, reason);
}

static const char *pause_name(unsigned reason)
{
    return btrail_reason_name(BTRAIL_EVENT_PAUSE, reason);
}

static const char *resume_name(unsigned reason)
{
    return btrail_reason_name(BTRAIL_EVENT_RESUME, reason);
}

static const char *end_name(unsigned reason)
{
    return btrail_reason_name(BTRAIL_EVENT_END, reason);
}

static const struct {
    const char *(*name)(unsigned);
    unsigned first, last;
    unsigned other;             /* one more, 0 if there is none */
} enums[] = {
    { btrail_event_name, BTRAIL_EVENT_CR3, BTRAIL_EVENT_WAKE },
    { gap_name, BTRAIL_GAP_OVERFLOW, BTRAIL_GAP_NOT_TRACED,
      BTRAIL_GAP_ELSEWHERE },
    { pause_name, BTRAIL_PAUSE_OVERFLOW, BTRAIL_PAUSE_VM_STOP },
    { resume_name, BTRAIL_PAUSE_OVERFLOW, BTRAIL_PAUSE_VM_STOP },
    { end_name, BTRAIL_END_STOPPED, BTRAIL_END_PRODUCER_LOST,
      BTRAIL_END_CUT },
    { btrail_sideband_name, BTRAIL_SIDEBAND_CODE, BTRAIL_SIDEBAND_ENDED },
    { btrail_certainty_name, BTRAIL_UNKNOWN, BTRAIL_SURE },
    { btrail_producer_name, BTRAIL_PRODUCER_TCG, BTRAIL_PRODUCER_PT },
    { btrail_overflow_name, BTRAIL_OVERFLOW_PAUSE, BTRAIL_OVERFLOW_OVERWRITE },
    { btrail_privilege_name, BTRAIL_PRIVILEGE_USER,
      BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL },
};

/* All values have words that differ, and nothing else has one. */
static void test_each(void)
{
    unsigned i, value;

    for (i = 0; i < G_N_ELEMENTS(enums); i++) {
        g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);

        for (value = 0; value < 1000; value++) {
            const char *word = enums[i].name(value);
            bool known = (value >= enums[i].first &&
                          value <= enums[i].last) ||
                         (value && value == enums[i].other);

            g_assert_true(!word == !known);
            g_assert_true(!word || g_hash_table_add(seen, (char *)word));
        }
        g_assert_null(enums[i].name(UINT_MAX));
    }
    g_assert_null(btrail_reason_name(BTRAIL_EVENT_CR3, 1));
    g_assert_null(btrail_reason_name(BTRAIL_EVENT_TIME, 1));
    g_assert_cmpstr(gap_name(BTRAIL_GAP_AGENT_LOST), ==, "agent-lost");
    g_assert_cmpstr(end_name(BTRAIL_END_CUT), ==, "cut");
}

static void test_back(void)
{
    unsigned i;

    for (i = BTRAIL_OVERFLOW_PAUSE; i <= BTRAIL_OVERFLOW_OVERWRITE; i++) {
        g_assert_cmpint(btrail_overflow_value(btrail_overflow_name(i)), ==, i);
    }
    for (i = BTRAIL_PRIVILEGE_USER; i <= 3; i++) {
        g_assert_cmpint(btrail_privilege_value(btrail_privilege_name(i)), ==,
                        i);
    }
    g_assert_cmpint(btrail_overflow_value("Pause"), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_overflow_value(""), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_overflow_value(NULL), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_privilege_value("none"), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_privilege_value(NULL), ==, -BTRAIL_ERR_ARGUMENT);
}

/* The words of an enum of QMP are those of the library, in the same order. */
static void check_schema(const char *name, const char *(*word)(unsigned),
                         unsigned first, unsigned last)
{
    g_autoptr(GString) want = g_string_new(NULL);
    unsigned value;

    g_string_printf(want, "{ 'enum': '%s',\n  'data': [ ", name);
    for (value = first; value <= last; value++) {
        g_string_append_printf(want, "%s'%s'", value == first ? "" : ", ",
                               word(value));
    }
    g_string_append(want, " ] }");
    g_assert_nonnull(strstr(schema, want->str));
}

static void test_schema(void)
{
    check_schema("BranchTracePrivilege", btrail_privilege_name,
                 BTRAIL_PRIVILEGE_USER,
                 BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL);
    check_schema("BranchTraceOverflow", btrail_overflow_name,
                 BTRAIL_OVERFLOW_PAUSE, BTRAIL_OVERFLOW_OVERWRITE);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    g_assert_true(g_file_get_contents(argv[1], &schema, NULL, NULL));
    g_test_add_func("/words/each", test_each);
    g_test_add_func("/words/back", test_back);
    g_test_add_func("/words/schema", test_schema);
    ret = g_test_run();
    g_free(schema);
    return ret;
}
