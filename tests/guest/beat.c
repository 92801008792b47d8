/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * beat: says ten times a second that the guest is alive
 */

#include <time.h>

#include "workload.h"

int main(int argc, char **argv)
{
    static const struct timespec tenth = { .tv_nsec = 100000000 };
    struct workload w;

    workload_begin(&w, "beat", argc, argv);
    do {
        workload_print("BT: beat %llu\n", (unsigned long long)w.rounds);
        nanosleep(&tenth, NULL);
        workload_add(&w, w.rounds);
    } while (workload_next(&w));
    return workload_end(&w);
}
