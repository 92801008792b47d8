/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the programs of the test guest share: arguments, limits, marker lines
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

void workload_print(const char *format, ...)
{
    char line[256];
    va_list ap;
    int len;

    va_start(ap, format);
    len = vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    if (len < 0 || write(STDOUT_FILENO, line, len) != len) {
        _exit(1);
    }
}

void workload_begin(struct workload *w, const char *name, int argc,
                    char **argv)
{
    uint64_t seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;

    w->name = name;
    w->rounds = 0;
    w->max_rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    w->end_ns = seconds ? now_ns() + seconds * 1000000000ull : 0;
    w->sum = 0;
    workload_print("BT: pid=%d comm=%s\n", getpid(), name);
}

int workload_next(struct workload *w)
{
    w->rounds++;
    if (w->max_rounds && w->rounds >= w->max_rounds) {
        return 0;
    }
    return !w->end_ns || now_ns() < w->end_ns;
}

void workload_add(struct workload *w, uint64_t value)
{
    w->sum = w->sum * 6364136223846793005ull + value + 1;
}

int workload_end(struct workload *w)
{
    workload_print("BT: done comm=%s rounds=%llu sum=%016llx\n", w->name,
                   (unsigned long long)w->rounds, (unsigned long long)w->sum);
    return 0;
}
