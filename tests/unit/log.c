/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lines of the log: no text can make a line of its own
 */

#include "service/log.h"

static void test_format(void)
{
    g_autofree char *line = NULL, *plain = NULL;

    service_log_init(false, false);
    line = service_log_format(SERVICE_LOG_WARNING, "a\nb\x1b[1m \xff \xc3\xa4");
    g_assert_cmpstr(line, ==, "<4>a\\nb\\x1b[1m \\xff \xc3\xa4\n");
    service_log_init(true, false);
    plain = service_log_format(SERVICE_LOG_ERROR, "x");
    g_assert_cmpstr(plain, ==, "x\n");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/log/format", test_format);
    return g_test_run();
}
