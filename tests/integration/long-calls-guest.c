/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program of the guest that tests/integration/long-calls traces
 *
 * usage: PROGRAM FIFO
 *
 * Calls a function for each line of FIFO, "busy MS" or "sleep MS", which takes
 * so long, and says how many microseconds: seen from outside, and from inside.
 */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "guest-program.h"

__attribute__((noinline)) long slow(int busy, long us);

/* Returns how long it has taken. */
long slow(int busy, long us)
{
    long begin = now_us();

    while (busy && now_us() - begin < us) {
    }
    if (!busy) {
        const struct timespec t = { us / 1000000, us % 1000000 * 1000 };

        nanosleep(&t, NULL);
    }
    return now_us() - begin;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/') + 1;
    FILE *fifo;
    char word[16];
    long ms, n = 0;

    printf("BT: %s waits\n", name);
    fflush(stdout);
    /* For writing, too: it never ends. */
    fifo = fopen(argv[1], "r+");
    while (fifo && fscanf(fifo, "%15s %ld", word, &ms) == 2) {
        long begin = now_us();
        long inside = slow(*word == 'b', ms * 1000);

        printf("BT: %s call %ld took %ld %ld\n", name, ++n,
               now_us() - begin, inside);
        fflush(stdout);
    }
    return 1;
}
