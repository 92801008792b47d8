/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest's program that takes a known time between two marks
 *
 * usage: spans [busy|sleep|open MILLISECONDS]...
 *
 * Each time is that of a span from the mark "span, a" to the mark "span, b",
 * but "open" leaves no second mark.  What the guest's clock says is printed
 * after it: how long the span took at most and at least, in microseconds.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backtrail-mark.h"

static int64_t us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static void spend(const char *how, int64_t ms)
{
    int64_t end = us() + ms * 1000;

    if (strcmp(how, "busy")) {
        usleep(ms * 1000);
    }
    while (us() < end) {
        continue;
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        int64_t before = us(), begun, end, after;

        BACKTRAIL_MARK("span, a");
        begun = us();
        spend(argv[i], atoi(argv[i + 1]));
        end = us();
        if (strcmp(argv[i], "open")) {
            BACKTRAIL_MARK("span, b");
        }
        after = us();
        printf("BT: span took %" PRId64 " %" PRId64 "\n", after - before,
               end - begun);
        fflush(stdout);
    }
    return 0;
}
