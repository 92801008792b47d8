/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * faulter: page faults of all kinds, signals raised by faults and by a timer,
 * and jumps out of their handlers
 */

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

#define PAGES 64
#define PAGE  4096

static sigjmp_buf out;
static volatile sig_atomic_t ticks, caught;

static void fail(void)
{
    workload_print("BT: error comm=faulter\n");
    exit(1);
}

static void on_fault(int sig)
{
    caught = sig;
    siglongjmp(out, 1);
}

static void on_tick(int sig)
{
    (void)sig;
    ticks++;
}

static void handle(int sig, void (*handler)(int))
{
    struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };

    if (sigaction(sig, &sa, NULL) < 0) {
        fail();
    }
}

/* Does what raises a signal and checks that it was that one. */
#define EXPECT(sig, statement) do { \
        caught = 0; \
        if (sigsetjmp(out, 1) == 0) { \
            statement; \
        } \
        if (caught != (sig)) { \
            fail(); \
        } \
    } while (0)

int main(int argc, char **argv)
{
    struct itimerval timer = { { 0, 2000 }, { 0, 2000 } };
    struct workload w;
    uint8_t *map;
    int i, status;
    pid_t child;

    workload_begin(&w, "faulter", argc, argv);
    handle(SIGSEGV, on_fault);
    handle(SIGFPE, on_fault);
    handle(SIGILL, on_fault);
    handle(SIGTRAP, on_fault);
    handle(SIGALRM, on_tick);
    setitimer(ITIMER_REAL, &timer, NULL);
    do {
        map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED) {
            fail();
        }
        /* Pages that are not there yet, then copies on write. */
        for (i = 0; i < PAGES; i++) {
            map[i * PAGE] = i;
        }
        child = fork();
        if (child < 0) {
            fail();
        }
        if (child == 0) {
            for (i = 0; i < PAGES; i++) {
                map[i * PAGE]++;
            }
            _exit(map[(PAGES - 1) * PAGE] == PAGES ? 0 : 1);
        }
        for (i = 0; i < PAGES; i++) {
            workload_add(&w, map[i * PAGE]);
        }
        while (waitpid(child, &status, 0) != child) {
        }
        if (status != 0) {
            fail();
        }
        if (mprotect(map, PAGE, PROT_READ) < 0) {
            fail();
        }
        EXPECT(SIGSEGV, *(volatile uint8_t *)map = 1);
        EXPECT(SIGSEGV, ((void (*)(void))(map + PAGE))());
        EXPECT(SIGFPE, __asm__ volatile("xor %%ecx, %%ecx; mov $1, %%eax; cltd;"
                                        " idivl %%ecx"
                                        ::: "eax", "ecx", "edx", "cc"));
        EXPECT(SIGILL, __asm__ volatile("ud2"));
        EXPECT(SIGTRAP, __asm__ volatile("int3"));
        munmap(map, PAGES * PAGE);
    } while (workload_next(&w));
    memset(&timer, 0, sizeof(timer));
    setitimer(ITIMER_REAL, &timer, NULL);
    return workload_end(&w);
}
