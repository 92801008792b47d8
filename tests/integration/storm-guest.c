/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The short programs of tests/integration/storm
 *
 * usage: short [stay]
 *
 * Calls functions a certain number of times, and ends.  With an argument it
 * calls none of them, but stays and runs from time to time: it has executed the
 * same file, except for a page that only the short ones execute.
 */

#include <sys/syscall.h>
#include <time.h>

/* How often; tests/integration/storm has the same numbers. */
#define NEAR    3
#define FAR     2

static long call_kernel(long number, long first, long second)
{
    long ret;

    __asm__ volatile ("syscall"
                      : "=a" (ret)
                      : "a" (number), "D" (first), "S" (second)
                      : "rcx", "r11", "memory");
    return ret;
}

/* Others know them by name only: the test, and _start. */
void storm_near(void);
void storm_far(void);
void storm_main(const long *stack);

__attribute__((noinline)) void storm_near(void)
{
    __asm__ volatile ("");
}

/* In a page of its own */
__attribute__((noinline, section(".text.storm_far"), aligned(4096)))
void storm_far(void)
{
    __asm__ volatile ("");
}

__attribute__((noreturn, used)) void storm_main(const long *stack)
{
    const struct timespec while_others_run = { .tv_nsec = 20000000 };

    while (stack[0] > 1) {
        call_kernel(SYS_nanosleep, (long)&while_others_run, 0);
    }
    for (int i = 0; i < NEAR; i++) {
        storm_near();
    }
    for (int i = 0; i < FAR; i++) {
        storm_far();
    }
    for (;;) {
        call_kernel(SYS_exit_group, 0, 0);
    }
}

__asm__ (".globl _start\n"
         "_start:\n"
         "    mov %rsp, %rdi\n"
         "    and $-16, %rsp\n"
         "    call storm_main\n");
