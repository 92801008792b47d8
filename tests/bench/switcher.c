/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * switcher: two processes that give up the CPU to each other, as often as
 * they are told to; with a second argument, each waits for the other one
 */

#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each way there and back is two switches, as yields of both are. */
static int wait_for_each_other(long n)
{
    int there[2], back[2];
    char c = 0;
    pid_t child;

    if (pipe(there) || pipe(back)) {
        return 1;
    }
    child = fork();
    if (child < 0) {
        return 1;
    }
    for (long i = 0; i < n; i++) {
        if (child ? write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1 :
            read(there[0], &c, 1) != 1 || write(back[1], &c, 1) != 1) {
            return 1;
        }
    }
    if (!child) {
        _exit(0);
    }
    return waitpid(child, NULL, 0) != child;
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 0;
    pid_t child;

    if (argc > 2) {
        return wait_for_each_other(n);
    }
    child = fork();
    if (child < 0) {
        return 1;
    }
    for (long i = 0; i < n; i++) {
        sched_yield();
    }
    if (!child) {
        _exit(0);
    }
    return waitpid(child, NULL, 0) != child;
}
