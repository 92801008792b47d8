// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * counted [SECONDS]: what it does, it counts: calls of a function of its own,
 * system calls, calls into the module tun, in two threads with names; before
 * that it waits, so that a busy host has seen it
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/if_tun.h>

#include "programs.h"

#define CALLS 3000
#define SYSTEM_CALLS 2000
#define IOCTLS 500

__attribute__((noipa)) unsigned counted_step(unsigned x)
{
    for (int i = 0; i < 20; i++) {
        x = x * 1103515245 + 12345;
        if (x & 0x10000) {
            x ^= 7;
        }
    }
    return x;
}

static void *compute(void *arg)
{
    unsigned x = 1;

    pthread_setname_np(pthread_self(), "computes");
    for (int i = 0; i < CALLS; i++) {
        x = counted_step(x);
    }
    *(volatile unsigned *)arg = x;
    return NULL;
}

static void *ask(void *arg)
{
    pthread_setname_np(pthread_self(), "asks");
    for (int i = 0; i < SYSTEM_CALLS; i++) {
        /* Not getpid(): others call that, too. */
        if (syscall(SYS_getpriority, PRIO_PROCESS, 0) < 0) {
            die("getpriority");
        }
    }
    return arg;
}

int counted_main(int argc, char **argv)
{
    static void *(*const bodies[])(void *) = { compute, ask };
    pthread_t threads[2];
    unsigned sum, features, ioctls = 0;
    int tun = open("/dev/net/tun", O_RDWR);

    if (argc > 1) {
        sleep(strtoul(argv[1], NULL, 10));
    }
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, bodies[i], &sum)) {
            die("pthread_create");
        }
    }
    for (; tun >= 0 && ioctls < IOCTLS; ioctls++) {
        if (ioctl(tun, TUNGETFEATURES, &features)) {
            die("TUNGETFEATURES");
        }
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("BT: counted pid=%d calls=%d getpriority=%d ioctls=%u\n", getpid(),
           CALLS, SYSTEM_CALLS, ioctls);
    return 0;
}
