/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * switcher: two processes that give up the CPU to each other, as often as
 * they are told to
 */

#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 0;
    pid_t child = fork();

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
