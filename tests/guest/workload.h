/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the programs of the test guest share
 *
 * Each is called with two numbers: rounds to do and seconds to go on for, 0
 * for no limit of that kind.  A round always does the same work and gives the
 * same sum, so a run that ends by rounds says in its last line whether the
 * guest computed what it should.
 */

#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdint.h>

struct workload {
    const char *name;
    uint64_t rounds;
    uint64_t max_rounds;
    uint64_t end_ns;
    uint64_t sum;
};

/* Reads the arguments and prints "BT: pid=... comm=...". */
void workload_begin(struct workload *w, const char *name, int argc,
                    char **argv);

/* Counts a round; false when it was the last one. */
int workload_next(struct workload *w);

/* Mixes a value into the sum. */
void workload_add(struct workload *w, uint64_t value);

/* Prints "BT: done ..." and returns the exit status. */
int workload_end(struct workload *w);

/* The guest's marker lines go to the console whole, or they would mix. */
void workload_print(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* A generator of numbers that are the same in each run (xorshift64). */
static inline uint64_t workload_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif /* WORKLOAD_H */
