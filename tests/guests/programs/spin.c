// SPDX-License-Identifier: GPL-2.0-or-later
/* spin MILLISECONDS: computes, and asks for the time in between */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "programs.h"

__attribute__((noipa)) unsigned spin_step(unsigned x)
{
    for (int i = 0; i < 2000; i++) {
        x = x * 1103515245 + 12345;
        if (x & 0x10000) {
            x ^= 7;
        }
    }
    return x;
}

void spin(unsigned ms)
{
    static volatile unsigned sum;
    struct timespec begin, now;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        sum = spin_step(sum);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 +
             (now.tv_nsec - begin.tv_nsec) / 1000000 < (long)ms);
}

int spin_main(int argc, char **argv)
{
    spin(argc > 1 ? atoi(argv[1]) : 1000);
    return 0;
}
