/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of vcpu-count.c
 */

#include <glib.h>

#include "replay/vcpu-count.h"

static void test_count(void)
{
    static const struct {
        const char *smp;
        unsigned count;
    } cases[] = {
        { "1", 1 },
        { "2", 2 },
        { "32", 32 },
        { "cpus=3", 3 },
        { "4,sockets=1,dies=1,cores=2,threads=2", 4 },
        { "4,maxcpus=4", 4 },
        { "maxcpus=4", 4 },
        { "sockets=2,cores=3", 6 },
        { "33", 0 },
        { "0", 0 },
        { "-1", 0 },
        { "x", 0 },
        { "2x", 0 },
        { "4294967297", 0 },
        { "18446744073709551617", 0 },
        { "2,maxcpus=4", 0 },
        { "4,maxcpus=2", 0 },
        { "2,cpus=3", 0 },
        { "2,cores", 0 },
        { "sockets=32,cores=2", 0 },
        { "sockets=32,cores=32,threads=32,dies=32,modules=32,clusters=32", 0 },
        { "2,file=/x", 0 },
        { "2,cores=/x", 0 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_test_message("%s", cases[i].smp);
        g_assert_cmpuint(vcpu_count_parse(cases[i].smp), ==, cases[i].count);
    }
}

static void test_arguments(void)
{
    static const char *const lines[] = {
        "-m 128", "-m 128 -smp 3 -nodefaults", "-smp 2 -smp 4,cores=2",
        "-nodefaults -smp", "-smp 99",
    };
    static const unsigned counts[] = { 1, 3, 4, 1, 1 };

    for (unsigned i = 0; i < G_N_ELEMENTS(lines); i++) {
        g_auto(GStrv) words = g_strsplit(lines[i], " ", -1);

        g_assert_cmpuint(vcpu_count(words), ==, counts[i]);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vcpu-count/option", test_count);
    g_test_add_func("/vcpu-count/arguments", test_arguments);
    return g_test_run();
}
