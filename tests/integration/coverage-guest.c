/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs whose lines are counted: see coverage
 *
 * Linked without -pie, all of them are at the same addresses.  With -DSECOND it
 * is another program, whose code lies elsewhere.  With -DINIT it runs both in
 * turn, each in the page tables that the one before has left.
 */

#include <stdio.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coverage-guest.h"

#ifdef INIT
int main(void)
{
    static const char *const programs[] = {
        "/first", "/second", "/first", "/second", "/first", "/second",
    };

    for (unsigned i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
        if (!vfork()) {
            execl(programs[i], programs[i], NULL);
            _exit(127);
        }
        wait(NULL);
    }
    reboot(RB_POWER_OFF);
}
#else

static volatile int sink;

#ifdef SECOND
static void only_second(int x)
{
    while (x--) {
        sink += x & 3;
        sink ^= x;
    }
}
#endif

static int helper(int x)
{
    return x * 3;
}

int never_called(int x)
{
    return x - 1;
}

static int branches(int x)
{
    if (x & 1) {
        sink += 1;
    } else {
        sink += 2;
    }
    for (int i = 0; i < 3; i++) {
        sink += i;
    }
    /* For the labels of a switch gcov has counts, but there is no code. */
    if (x % 4 == 0) {
        return clamp(x);
    } else if (x % 4 == 1) {
        return helper(x);
    }
    return -1;
}

int main(int argc, char **argv)
{
    (void)argv;
    /* The agent sees it meanwhile. */
    usleep(300000);
    for (int i = 0; i < 100; i++) {
        sink += branches(i);
        sink += other(i);
    }
#ifdef SECOND
    only_second(50);
#endif
    if (argc > 100) {
        sink += never_called(argc);
    }
    printf("%d\n", sink);
    return 0;
}
#endif
