/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The programs of tests/integration/pt-freeze
 *
 * usage: work              calls, jumps and system calls, for ever
 *        work rewrite      runs code that it writes anew each time; packets say
 *                          which it was
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NUMBERS     200
#define ROUNDS      50

static unsigned numbers[NUMBERS];
static volatile unsigned sum;

static int compare(const void *a, const void *b)
{
    const unsigned *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static __attribute__((noinline)) void freeze_fill(unsigned seed)
{
    for (int i = 0; i < NUMBERS; i++) {
        seed = seed * 1103515245 + 12345;
        numbers[i] = seed >> 8;
    }
}

static __attribute__((noinline)) void freeze_sort(void)
{
    qsort(numbers, NUMBERS, sizeof(numbers[0]), compare);
}

static void pause_a_little(void)
{
    const struct timespec t = { .tv_nsec = 2000000 };

    nanosleep(&t, NULL);
}

static void work(void)
{
    for (unsigned i = 0;; i++) {
        freeze_fill(i);
        freeze_sort();
        sum += numbers[i % NUMBERS] + (unsigned)getppid();
        if (i % ROUNDS == 0) {
            pause_a_little();
        }
    }
}

/*
 * mov $3 + n, %ecx; n nops; dec %ecx; jnz; ret: another number of branches, from
 * another address, each time
 */
static void write_code(uint8_t *code, unsigned n)
{
    uint8_t *p = code;

    *p++ = 0xb9;
    *p++ = 3 + n;
    memset(p, 0, 3);
    p += 3;
    memset(p, 0x90, n);
    p += n;
    *p++ = 0xff;
    *p++ = 0xc9;
    *p++ = 0x75;
    *p++ = 0xfc;
    *p = 0xc3;
}

static void rewrite(void)
{
    uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (code == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    for (unsigned i = 0;; i++) {
        void (*run)(void);

        write_code(code, i % 40);
        memcpy(&run, &code, sizeof(run));
        for (unsigned j = 0; j < 20; j++) {
            run();
        }
        freeze_fill(i);
        if (i % ROUNDS == 0) {
            pause_a_little();
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        rewrite();
    }
    work();
}
