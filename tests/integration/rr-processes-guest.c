/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that runs programs which have all functions at the same addresses:
 * the first process, /one and /two, each made of this with another NAME.  They
 * take turns.
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLS       20
#define PAUSE_NS    1000000
#define FILES       16384
#define BUSY_MS     100

#define JOIN(a, b)  a ## b
#define IN(name)    JOIN(only_in_, name)
#define TEXT(name)  #name
#define OWN(name)   TEXT(name)

volatile unsigned long total;

__attribute__((noinline)) void IN(NAME)(unsigned x)
{
    for (unsigned i = 0; i < 10; i++) {
        total += x;
    }
}

static void start(char *path)
{
    char *const arguments[] = { path, NULL };

    if (!fork()) {
        execv(path, arguments);
        _exit(1);
    }
}

static long ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/*
 * Has so much to close as it ends that the other one runs meanwhile, when the
 * memory of this one is gone.
 */
static void end_slowly(void)
{
    const struct rlimit files = { FILES, FILES };
    const long until = ms() + BUSY_MS;
    int fds[2];

    setrlimit(RLIMIT_NOFILE, &files);
    while (!pipe(fds)) {
    }
    while (ms() < until) {
    }
}

int main(void)
{
    const struct timespec pause = { .tv_nsec = PAUSE_NS };
    int status;

    if (getpid() == 1) {
        start("/one");
        start("/two");
        while (wait(&status) > 0) {
            printf("BT: status %d\n", status);
        }
        fflush(stdout);
        reboot(RB_POWER_OFF);
        return 1;
    }
    for (unsigned i = 0; i < CALLS; i++) {
        IN(NAME)(i);
        nanosleep(&pause, NULL);
    }
    end_slowly();
    printf("BT: done " OWN(NAME) "\n");
    return 0;
}
