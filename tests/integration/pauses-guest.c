/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program of the guest that tests/integration/pauses traces
 *
 * For each line of its input, "busy TURNS" or "sleep MS", calls a function that
 * does so, between two marks with the number of the line, and says how many
 * microseconds that took by the guest's clock.
 */

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "backtrail-mark.h"
#include "guest-program.h"

__attribute__((noinline)) void work(int busy, long n);

void work(int busy, long n)
{
    const struct timespec t = { n / 1000, n % 1000 * 1000000 };
    volatile long turns = busy ? n : 0;

    while (turns) {
        turns = turns - 1;
    }
    if (!busy) {
        nanosleep(&t, NULL);
    }
}

int main(void)
{
    char word[16];
    long n, i = 0;

    printf("BT: waits\n");
    fflush(stdout);
    while (scanf("%15s %ld", word, &n) == 2) {
        long begin;

        i++;
        begin = now_us();
        BACKTRAIL_MARK("begin", i);
        work(*word == 'b', n);
        BACKTRAIL_MARK("end", i);
        begin = now_us() - begin;
        printf("BT: %ld took %ld\n", i, begin);
        fflush(stdout);
    }
    return 1;
}
