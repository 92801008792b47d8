/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program of the guest that tests/integration/user-triggers traces
 *
 * usage: PROGRAM FIFO
 *
 * Says where its functions are, and then calls each as often as the lines of
 * FIFO want, and says how often that was.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile unsigned long calls[2];

/* Others may call it, so its name is in memory. */
__attribute__((noinline)) void counted(void);

void counted(void)
{
    calls[0]++;
}

/* Its name is in the file, as long as that is not stripped. */
__attribute__((noinline, visibility("hidden"))) void inner(void);

void inner(void)
{
    calls[1]++;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/') + 1;
    unsigned long i, n;
    FILE *fifo;

    printf("BT: %s counted=%#lx inner=%#lx\n", name, (unsigned long)counted,
           (unsigned long)inner);
    fflush(stdout);
    /* For writing, too: it never ends. */
    fifo = fopen(argv[1], "r+");
    while (fifo && fscanf(fifo, "%lu", &n) == 1) {
        for (i = 0; i < n; i++) {
            counted();
            inner();
        }
        printf("BT: %s called %lu %lu\n", name, calls[0], calls[1]);
        fflush(stdout);
    }
    return 1;
}
