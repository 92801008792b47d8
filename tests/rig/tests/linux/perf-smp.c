/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two programs on two CPUs, each traced by the kernel's own BTS driver
 *
 * rig: kernel=original
 * rig: cpus=2
 * rig: walk=walk_begin walk_end (T N T)*1999 T N N
 */
#include "aux.h"
#include <sched.h>
#include <sys/wait.h>

static void traced(long fd)
{
    asm volatile(
        AUX_ENABLE
        "walk_begin:\n"
        "   movl    $2000, %%ebx\n"
        "1: xorl    %%eax, %%eax\n"
        "   jz      2f\n"
        "   ud2\n"
        "2: jnz     2b\n"
        "   call    leaf\n"
        "   decl    %%ebx\n"
        "   jnz     1b\n"
        "walk_end:\n"
        AUX_DISABLE
        "   jmp     4f\n"
        "leaf:\n"
        "   ret\n"
        "4:\n"
        :
        : AUX_OPERANDS(fd)
        : AUX_CLOBBERS);
}

static void run(int cpu, volatile int *ready)
{
    cpu_set_t set;
    struct record *list;
    struct aux aux;
    size_t count;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
    aux = aux_open(false, true, 64 * 4096, 0);
    __sync_fetch_and_add(ready, 1);
    while (*ready < 2) {
        asm volatile("pause");
    }
    traced(aux.fd);
    CHECK(sched_getcpu() == cpu);
    list = aux_records(&aux, &count);
    aux_is_walk(list, count);
}

int main(void)
{
    volatile int *ready = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    pid_t child;

    CHECK(ready != MAP_FAILED);
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) == 2);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        run(1, ready);
        return 0;
    }
    run(0, ready);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    return 0;
}
