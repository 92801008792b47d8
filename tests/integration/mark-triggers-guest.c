/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest's program that leaves marks, and prints each of them after it is left
 *
 * usage: steps COUNT SEED [wait]
 *
 * The marks are "begin"; COUNT times "step, one" with a value; and "end".  With
 * a third argument it waits for a line before.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backtrail-mark.h"

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) +
             UINT64_C(1442695040888963407);
    /* Short ones as well as long ones */
    return *state >> (1 + *state % 62);
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
    uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 3) {
        printf("BT: waits\n");
        while (getchar() != '\n') {
            continue;
        }
    }
    BACKTRAIL_MARK("begin");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t value = next(&state);

        BACKTRAIL_MARK("step, one", value);
        printf("BT: step %" PRIu64 "\n", value);
    }
    BACKTRAIL_MARK("end");
    return 0;
}
