/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * swap: two processes that need more memory than the guest has
 *
 * The kernel clears accessed bits of page tables to find what to swap out, and
 * lets the TLB be.  Whether a CPU sets such a bit again then depends on what
 * its TLB has.
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

#define SIZE        (88u << 20)
#define PAGE        4096
#define ACCESSES    20000   /* of a round */
#define OFTEN       4       /* one page of this many is used often */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static int work(uint64_t *memory, uint64_t seed, int argc, char **argv)
{
    struct workload w;

    workload_begin(&w, "swap", argc, argv);
    do {
        for (int i = 0; i < ACCESSES; i++) {
            uint64_t page = next_random(&seed) % (SIZE / PAGE);
            uint64_t *word;

            if (next_random(&seed) % 8) {
                page /= OFTEN;
            }
            word = memory + page * (PAGE / sizeof(*memory));
            if (next_random(&seed) % 2) {
                *word += seed;
            } else {
                workload_add(&w, *word);
            }
        }
    } while (workload_next(&w));
    return workload_end(&w);
}

int main(int argc, char **argv)
{
    uint64_t *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status, failed = memory == MAP_FAILED;
    pid_t child = failed ? -1 : fork();

    if (child < 0) {
        perror("swap");
        return 1;
    }
    failed = work(memory, 1 + !child, argc, argv);
    if (child) {
        failed |= wait(&status) < 0 || status;
    }
    return failed;
}
