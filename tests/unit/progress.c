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
    expect("\r  61.2 s      123.5 M records    98.8 M/s       4.6 MB  "
           "12 lost  1.2 s paused ");
    begin();
    progress_print(file, 0, &some, 0);
    expect("\r   0.0 s      123.5 M records     0.0 M/s       4.6 MB  "
           "12 lost  1.2 s paused ");
    begin();
    progress_print(file, 61234567890, &some, PROGRESS_NO_RATE);
    expect("\r  61.2 s      123.5 M records       4.6 MB  12 lost  "
           "1.2 s paused ");
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
    expect("x.btrail: 123456789 records, 4567890 bytes (0.30 bits a record), "
           "12 lost, vCPUs paused for 1.250 s; stopped\n");
    begin();
    progress_sum(file, "x.btrail", &nothing, NULL);
    expect("x.btrail: 0 records, 512 bytes (0.00 bits a record), 0 lost, "
           "vCPUs paused for 0.000 s\n");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/progress/line", test_line);
    g_test_add_func("/progress/lines", test_lines);
    g_test_add_func("/progress/sum", test_sum);
    return g_test_run();
}
