/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest of tests/integration/annotate, as its /init: functions whose
 * instructions are executed a known number of times, or are interrupted, and
 * code that changes
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES       60
#define CALLS       200

/* Where code is that changes */
#define CODE        0x20000000
#define CODE_SIZE   0x20

typedef int function(int x);

/* A loop, and a branch that is taken for some */
__attribute__((noinline)) int looped(int n)
{
    unsigned sum = 0;

    for (int i = 0; i < n; i++) {
        if (i % 3 == 1) {
            sum += 5;
        } else {
            sum = sum << 1 ^ i;
        }
        __asm__ volatile("" : "+r"(sum));
    }
    return sum;
}

/* Each page is not there when it is first written. */
__attribute__((noinline)) int faulting(volatile char *pages, int n)
{
    for (int i = 0; i < n; i++) {
        pages[i * 4096] = i;
    }
    return pages[0];
}

/* It calls through a pointer, which can be interrupted, too. */
__attribute__((noinline)) int indirect(function *f, int n)
{
    int sum = 0;

    for (int i = 0; i < n; i++) {
        sum += f(i & 7);
    }
    return sum;
}

/* mov $value, %eax; then nops; ret */
__attribute__((noinline)) void write_code(int value, int nops)
{
    uint8_t *code = (uint8_t *)CODE;

    memset(code, 0xcc, CODE_SIZE);
    code[0] = 0xb8;
    memcpy(code + 1, &value, sizeof(value));
    memset(code + 5, 0x90, nops);
    code[5 + nops] = 0xc3;
}

/* So often is each version called. */
__attribute__((noinline)) int changing(void)
{
    static const int calls[] = { 7, 300, 21 };
    int wrong = 0;

    for (int i = 0; i < 3; i++) {
        write_code(1000 + i, 2 * i);
        for (int k = 0; k < calls[i]; k++) {
            wrong += ((function *)CODE)(k) != 1000 + i;
        }
    }
    return wrong;
}

int main(void)
{
    char *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *code = mmap((void *)CODE, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    int sum = 0;

    if (pages == MAP_FAILED || code == MAP_FAILED) {
        printf("BT: error\n");
        return 1;
    }
    for (int i = 0; i < CALLS; i++) {
        sum += looped(i);
        syscall(SYS_getppid);
    }
    sum += faulting(pages, PAGES) + indirect(looped, 3000);
    printf("BT: sum %d, wrong %d\n", sum, changing());
    reboot(RB_AUTOBOOT);
    return 1;
}
