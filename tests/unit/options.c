/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of the values of options: numbers, sizes, times, ranges, vCPUs
 */

#include "cli/cli.h"

static void test_u64(void)
{
    uint64_t v;

    g_assert_true(cli_parse_u64("-x", "0", &v) && v == 0);
    g_assert_true(cli_parse_u64("-x", "0x1F", &v) && v == 31);
    g_assert_true(cli_parse_u64("-x", "010", &v) && v == 10);
    g_assert_true(cli_parse_u64("-x", "18446744073709551615", &v) &&
                  v == UINT64_MAX);
    g_assert_false(cli_parse_u64("-x", "18446744073709551616", &v));
    g_assert_false(cli_parse_u64("-x", "", &v));
    g_assert_false(cli_parse_u64("-x", "-1", &v));
    g_assert_false(cli_parse_u64("-x", " 1", &v));
    g_assert_false(cli_parse_u64("-x", "1 ", &v));
    g_assert_false(cli_parse_u64("-x", "1x", &v));
}

static void test_size(void)
{
    uint64_t v;

    g_assert_true(cli_parse_size("-x", "4096", &v) && v == 4096);
    g_assert_true(cli_parse_size("-x", "2M", &v) && v == 2 << 20);
    g_assert_true(cli_parse_size("-x", "512k", &v) && v == 512 << 10);
    g_assert_true(cli_parse_size("-x", "1G", &v) && v == 1 << 30);
    g_assert_false(cli_parse_size("-x", "M", &v));
    g_assert_false(cli_parse_size("-x", "1MB", &v));
    g_assert_false(cli_parse_size("-x", "99999999999T", &v));
}

static void test_duration(void)
{
    uint64_t v;

    g_assert_true(cli_parse_duration("-x", "3", &v) && v == 3000000000);
    g_assert_true(cli_parse_duration("-x", "2.5s", &v) && v == 2500000000);
    g_assert_true(cli_parse_duration("-x", "500ms", &v) && v == 500000000);
    g_assert_true(cli_parse_duration("-x", "0.000000001", &v) && v == 1);
    g_assert_true(cli_parse_duration("-x", "2min", &v) && v == 120000000000);
    g_assert_true(cli_parse_duration("-x", "1h", &v) && v == 3600000000000);
    g_assert_false(cli_parse_duration("-x", "1.", &v));
    g_assert_false(cli_parse_duration("-x", ".5", &v));
    g_assert_false(cli_parse_duration("-x", "1 s", &v));
    g_assert_false(cli_parse_duration("-x", "-1", &v));
    g_assert_false(cli_parse_duration("-x", "99999999999999", &v));
    g_assert_false(cli_parse_duration("-x", "18446744072h", &v));
}

static void test_vcpus(void)
{
    bool v[BTRAIL_MAX_VCPUS];

    g_assert_true(cli_parse_vcpus("-x", "0,2-4,1023", v));
    g_assert_true(v[0] && !v[1] && v[2] && v[3] && v[4] && !v[5] && v[1023]);
    g_assert_true(cli_parse_vcpus("-x", "1", v));
    g_assert_true(!v[0] && v[1] && !v[1023]);
    g_assert_false(cli_parse_vcpus("-x", "", v));
    g_assert_false(cli_parse_vcpus("-x", ",", v));
    g_assert_false(cli_parse_vcpus("-x", "1,", v));
    g_assert_false(cli_parse_vcpus("-x", "1-", v));
    g_assert_false(cli_parse_vcpus("-x", "3-2", v));
    g_assert_false(cli_parse_vcpus("-x", "1024", v));
    g_assert_false(cli_parse_vcpus("-x", "0-18446744073709551615", v));
    g_assert_false(cli_parse_vcpus("-x", "all", v));
}

static void test_range(void)
{
    struct range r;

    g_assert_true(cli_parse_range("-x", "3..7", &r));
    g_assert_true(r.begin == 3 && r.end == 7);
    g_assert_true(cli_parse_range("-x", "..7", &r));
    g_assert_true(r.begin == 0 && r.end == 7);
    g_assert_true(cli_parse_range("-x", "3..", &r));
    g_assert_true(r.begin == 3 && r.end == UINT64_MAX);
    g_assert_true(cli_parse_range("-x", "..", &r));
    g_assert_true(cli_parse_range("-x", "5..5", &r));
    g_assert_false(cli_parse_range("-x", "7..3", &r));
    g_assert_false(cli_parse_range("-x", "7", &r));
    g_assert_false(cli_parse_range("-x", "1.2", &r));
    g_assert_false(cli_parse_range("-x", "1..2x", &r));
    g_assert_false(cli_parse_range("-x", "a..b", &r));

    g_assert_true(cli_parse_time_range("-x", "1.5..2", &r));
    g_assert_true(r.begin == 1500000000 && r.end == 2000000000);
    g_assert_true(cli_parse_time_range("-x", "1..2.000000001", &r));
    g_assert_true(r.begin == 1000000000 && r.end == 2000000001);
    g_assert_true(cli_parse_time_range("-x", "..0.25", &r));
    g_assert_true(r.begin == 0 && r.end == 250000000);
    g_assert_false(cli_parse_time_range("-x", "2..1", &r));
}

static void test_cr3s(void)
{
    char *good[] = { (char *)"0x1234000", (char *)"4096", NULL };
    char *bad[] = { (char *)"0x1234000", (char *)"page", NULL };
    GArray *cr3s;

    g_assert_true(cli_parse_cr3s(NULL, &cr3s));
    g_assert_null(cr3s);
    g_assert_true(cli_cr3_matches(cr3s, 0x5000));
    g_assert_true(cli_parse_cr3s(good, &cr3s));
    g_assert_cmpuint(cr3s->len, ==, 2);
    /* PCID and flags make no difference. */
    g_assert_true(cli_cr3_matches(cr3s, 0x6000000001234fff));
    /* The guest has no BTRAIL_CR3_PAE in its CR3. */
    g_assert_true(cli_cr3_matches(cr3s, BTRAIL_CR3_PAE | 0x1234018));
    g_assert_false(cli_cr3_matches(cr3s, BTRAIL_CR3_PAE | 0x1234020));
    g_assert_true(cli_cr3_matches(cr3s, 0x1000));
    g_assert_false(cli_cr3_matches(cr3s, 0x2000));
    g_array_unref(cr3s);
    g_assert_false(cli_parse_cr3s(bad, &cr3s));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/options/u64", test_u64);
    g_test_add_func("/options/size", test_size);
    g_test_add_func("/options/duration", test_duration);
    g_test_add_func("/options/vcpus", test_vcpus);
    g_test_add_func("/options/range", test_range);
    g_test_add_func("/options/cr3s", test_cr3s);
    return g_test_run();
}
