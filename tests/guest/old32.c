/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * old32: a 32-bit program: compatibility mode, int $0x80 and whatever entry
 * the kernel offers 32-bit programs (sysenter or syscall)
 */

#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "workload.h"

#define CALLS 500

static uint32_t vdso_entry;

static long by_interrupt(long number)
{
    long ret;

    __asm__ volatile("int $0x80" : "=a"(ret) : "a"(number) : "memory");
    return ret;
}

static long by_entry(long number)
{
    long ret;

    __asm__ volatile("call *%2"
                     : "=a"(ret)
                     : "a"(number), "m"(vdso_entry)
                     : "memory");
    return ret;
}

static uint32_t fibonacci(uint32_t n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

int main(int argc, char **argv)
{
    struct workload w;
    long pid;
    int i;

    workload_begin(&w, "old32", argc, argv);
    pid = by_interrupt(SYS_getpid);
    vdso_entry = getauxval(AT_SYSINFO);
    do {
        for (i = 0; i < CALLS; i++) {
            if (by_interrupt(SYS_getpid) != pid ||
                (vdso_entry && by_entry(SYS_getpid) != pid)) {
                workload_print("BT: error comm=old32\n");
                return 1;
            }
        }
        workload_add(&w, fibonacci(18 + w.rounds % 5));
    } while (workload_next(&w));
    return workload_end(&w);
}
