/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A storm of short tasks of all kinds, for the test tasks: usage tasks-guest N
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest-program.h"

static char *const again[] = { "/storm", "0", NULL };

static void wait_for(pid_t pid)
{
    int status;

    CHECK(pid > 0);
    CHECK(waitpid(pid, &status, __WALL) == pid && !status);
}

/* A child that has no program of its own, and no longer life than this */
static void only_fork(void)
{
    pid_t pid = fork();

    if (!pid) {
        _exit(0);
    }
    wait_for(pid);
}

static void vfork_exec(void)
{
    pid_t pid = vfork();

    if (!pid) {
        execv(again[0], again);
        _exit(1);
    }
    wait_for(pid);
}

static void *name_itself(void *name)
{
    prctl(PR_SET_NAME, name);
    sched_yield();
    return NULL;
}

static void threads(unsigned round)
{
    pthread_t t[3];
    char names[3][32];

    for (unsigned i = 0; i < 3; i++) {
        /* The last one is cut off. */
        snprintf(names[i], sizeof(names[i]), "t%u-%u%s", round, i,
                 i == 2 ? "-a-very-long-name" : "");
        CHECK(!pthread_create(&t[i], NULL, name_itself, names[i]));
    }
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
    }
}

static pthread_barrier_t all_there;

static void *name_itself_with_all(void *name)
{
    pthread_barrier_wait(&all_there);
    return name_itself(name);
}

/*
 * The kernel copies the name to the stack of the thread, whose addresses had
 * other memory in another round.
 */
static void many_stacks(unsigned round)
{
    enum { N = 40 };
    pthread_t t[N];
    char names[N][32];

    pthread_barrier_init(&all_there, NULL, N);
    for (unsigned i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "s%u-%u", round, i);
        CHECK(!pthread_create(&t[i], NULL, name_itself_with_all, names[i]));
    }
    for (unsigned i = 0; i < N; i++) {
        pthread_join(t[i], NULL);
    }
    pthread_barrier_destroy(&all_there);
}

static void *exec_again(void *unused)
{
    execv(again[0], again);
    _exit(1);
}

/* Linux gives such a thread the number of its process. */
static void exec_in_thread(void)
{
    pid_t pid = fork();

    if (!pid) {
        pthread_t t;

        CHECK(!pthread_create(&t, NULL, exec_again, NULL));
        pause();
    }
    wait_for(pid);
}

static int shares_memory(void *unused)
{
    return 0;
}

static void clone_vm(void)
{
    static char stack[65536] __attribute__((aligned(16)));

    wait_for(clone(shares_memory, stack + sizeof(stack), CLONE_VM | SIGCHLD,
                   NULL));
}

/*
 * The first task of a namespace of PIDs waits at its end, when it has no memory
 * any more, for the others.
 */
static void exit_and_wait(void)
{
    int runs[2];
    pid_t pid;
    char c = 0;

    CHECK(!pipe(runs));
    pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
    if (!pid) {
        pid = fork();
        if (!pid) {
            CHECK(write(runs[1], &c, 1) == 1);
            pause();
        }
        _exit(pid < 0 || read(runs[0], &c, 1) != 1);
    }
    wait_for(pid);
    close(runs[0]);
    close(runs[1]);
}

int main(int argc, char **argv)
{
    unsigned rounds = argc == 2 ? atoi(argv[1]) : 0;

    for (unsigned i = 0; i < rounds; i++) {
        only_fork();
        vfork_exec();
        threads(i);
        for (unsigned k = 0; k < 4; k++) {
            many_stacks(i * 4 + k);
        }
        exec_in_thread();
        clone_vm();
        exit_and_wait();
    }
    return 0;
}
