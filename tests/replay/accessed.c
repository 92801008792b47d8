/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * accessed: which of its pages the kernel finds accessed
 *
 * The kernel clears accessed bits without a flush of the TLB.  Whether the
 * CPU sets one again then depends on what its TLB has.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workload.h"

#define PAGES       2000
#define PAGE        4096
#define STEPS       100     /* of a round */

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void clear_accessed(void)
{
    static int fd = -1;

    if (fd < 0) {
        fd = open("/proc/self/clear_refs", O_WRONLY);
    }
    if (write(fd, "1", 1) != 1) {
        die("clear_refs");
    }
}

/* In kB */
static unsigned long count_accessed(void)
{
    static const char name[] = "Referenced:";
    char text[4096];
    char *at;
    int fd = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    close(fd);
    text[got < 0 ? 0 : got] = '\0';
    at = strstr(text, name);
    if (!at) {
        die("smaps_rollup");
    }
    return strtoul(at + strlen(name), NULL, 10);
}

static void access_some(volatile char *memory, unsigned pages)
{
    for (unsigned i = 0; i < pages; i++) {
        (void)memory[next_random() % pages * PAGE];
    }
}

int main(int argc, char **argv)
{
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    struct workload w;

    if (memory == MAP_FAILED) {
        die("mmap");
    }
    workload_begin(&w, "accessed", argc, argv);
    do {
        for (int i = 0; i < STEPS; i++) {
            unsigned pages = 1 + next_random() % PAGES;

            access_some(memory, pages);
            clear_accessed();
            access_some(memory, pages);
            workload_add(&w, count_accessed());
        }
    } while (workload_next(&w));
    return workload_end(&w);
}
