/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of client/progress.h: the lines that a user sees
 */

#include <glib.h>

#include "client/progress.h"

static const struct progress some = {
    .records = 123456789,
    .bytes = 4567890,
    .record_bytes = 4000000,
    .lost = 12,
    .paused_ns = 1250000000,
};

static void check_line(uint64_t ns, const struct progress *p, double rate,
                       const char *expected)
{
    g_autofree char *line = progress_line(ns, p, rate);

    g_assert_cmpstr(line, ==, expected);
}

static void test_line(void)
{
    check_line(61234567890, &some, 98765432,
               "  61.2 s    123.5 M records     98.8 M/s   4567.9 kB  "
               "12 lost  1.2 s paused ");
    check_line(0, &some, 0,
               "   0.0 s    123.5 M records          0/s   4567.9 kB  "
               "12 lost  1.2 s paused ");
    check_line(61234567890, &some, PROGRESS_NO_RATE,
               "  61.2 s    123.5 M records   4567.9 kB  12 lost  "
               "1.2 s paused ");
}

/* A slow guest is seen to run, too. */
static void test_units(void)
{
    const struct progress few = { .records = 9999, .bytes = 512 };
    const struct progress many = { .records = 12345678901234, .bytes = 10000 };

    check_line(4100000000, &few, 2438.7,
               "   4.1 s       9999 records       2439/s        512B  "
               "0 lost  0.0 s paused ");
    check_line(0, &many, 1e5,
               "   0.0 s     12.3 T records    100.0 k/s     10.0 kB  "
               "0 lost  0.0 s paused ");
}

static void check_sum(const struct progress *p, const char *why,
                      const char *expected)
{
    g_autofree char *sum = progress_sum("x.btrail", p, why);

    g_assert_cmpstr(sum, ==, expected);
}

static void test_sum(void)
{
    const struct progress nothing = { .bytes = 512 };

    check_sum(&some, "stopped",
              "x.btrail: 123456789 records, 4567890 bytes (0.26 bits a "
              "record, 567890 bytes of names and code), 12 lost, vCPUs paused "
              "for 1.250 s; stopped");
    check_sum(&nothing, NULL,
              "x.btrail: 0 records, 512 bytes (512 bytes of names and code), "
              "0 lost, vCPUs paused for 0.000 s");
}

static void test_written(void)
{
    g_autofree char *text = progress_written("x.btrail", &some);

    g_assert_cmpstr(text, ==, "x.btrail: 123456789 records, 4567890 bytes");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/progress/line", test_line);
    g_test_add_func("/progress/units", test_units);
    g_test_add_func("/progress/sum", test_sum);
    g_test_add_func("/progress/written", test_written);
    return g_test_run();
}
