/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What programs of the guest share that tests trace */

#ifndef GUEST_PROGRAM_H
#define GUEST_PROGRAM_H

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                        \
    do {                                                        \
        if (!(condition)) {                                     \
            printf("BT: error %s\n", #condition);               \
            _exit(1);                                           \
        }                                                       \
    } while (0)

/* The guest's clock, in microseconds */
static inline long now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

#endif /* GUEST_PROGRAM_H */
