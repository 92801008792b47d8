/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of cli/progress.h: the lines that a user sees
 */
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

static const struct progress some = {
    .records = 123456789,
    .bytes = 4567890,
    .record_bytes = 4000000,
    .lost = 12,
    .paused_ns = 1250000000,
};

static FILE *file;
static char *text;
static size_t size;

static void begin(void)
{
    file = open_memstream(&text, &size);
    g_assert_nonnull(file);
}

static void expect(const char *expected)
{
    fclose(file);
    g_assert_cmpstr(text, ==, expected);
    free(text);
}

static void test_line(void)
{
    begin();
    progress_print(file, 61234567890, &some, 98765432);
    expect("\r  61.2 s    123.5 M records     98.8 M/s   4567.9 kB  "
           "12 lost  1.2 s paused ");
    begin();
    progress_print(file, 0, &some, 0);
    expect("\r   0.0 s    123.5 M records          0/s   4567.9 kB  "
           "12 lost  1.2 s paused ");
    begin();
    progress_print(file, 61234567890, &some, PROGRESS_NO_RATE);
    expect("\r  61.2 s    123.5 M records   4567.9 kB  12 lost  "
           "1.2 s paused ");
}

/* A slow guest is seen to run, too. */
static void test_units(void)
{
    const struct progress few = { .records = 9999, .bytes = 512 };
    const struct progress many = { .records = 12345678901234, .bytes = 10000 };

    begin();
    progress_print(file, 4100000000, &few, 2438.7);
    expect("\r   4.1 s       9999 records       2439/s        512B  "
           "0 lost  0.0 s paused ");
    begin();
    progress_print(file, 0, &many, 1e5);
    expect("\r   0.0 s     12.3 T records    100.0 k/s     10.0 kB  "
           "0 lost  0.0 s paused ");
}

/* The second line covers the first, and nobody waits for it. */
static void test_lines(void)
{
    begin();
    progress_print(file, 0, &some, 0);
    g_assert_cmpuint(size, >, 0);
    progress_print(file, 0, &some, 0);
    fclose(file);
    g_assert_cmpuint(text[size / 2], ==, '\r');
    g_assert_null(strchr(text, '\n'));
    free(text);
}

static void test_sum(void)
{
    const struct progress nothing = { .bytes = 512 };

    begin();
    progress_sum(file, "x.btrail", &some, "stopped");
    expect("x.btrail: 123456789 records, 4567890 bytes (0.26 bits a record, "
           "567890 bytes of names and code), 12 lost, vCPUs paused for 1.250 s; stopped\n");
    begin();
    progress_sum(file, "x.btrail", &nothing, NULL);
    expect("x.btrail: 0 records, 512 bytes (512 bytes of names and "
           "code), 0 lost, "
           "vCPUs paused for 0.000 s\n");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/progress/line", test_line);
    g_test_add_func("/progress/units", test_units);
    g_test_add_func("/progress/lines", test_lines);
    g_test_add_func("/progress/sum", test_sum);
    return g_test_run();
}
