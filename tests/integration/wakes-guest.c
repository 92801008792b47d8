/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks that wait in all ways that there are, for the test wakes: usage
 * wakes-guest N [TURNS]
 *
 * Each round, they wait for a pipe, a futex, a timer, a child, a signal, and for
 * their turn while another one has the CPU.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest-program.h"

static unsigned each = 40;              /* turns of a round */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned turn;

static void *take_turns(void *odd)
{
    for (unsigned i = 0; i < each; i++) {
        pthread_mutex_lock(&lock);
        while (turn % 2 != (odd != NULL)) {
            pthread_cond_wait(&changed, &lock);
        }
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void by_futex(void)
{
    pthread_t t[2];

    turn = 0;
    CHECK(!pthread_create(&t[0], NULL, take_turns, NULL));
    CHECK(!pthread_create(&t[1], NULL, take_turns, t));
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
}

static void by_pipe(void)
{
    int there[2], back[2];
    char c = 0;
    pid_t pid;

    CHECK(!pipe(there) && !pipe(back));
    pid = fork();
    if (!pid) {
        for (unsigned i = 0; i < each; i++) {
            CHECK(read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1);
        }
        _exit(0);
    }
    for (unsigned i = 0; i < each; i++) {
        CHECK(write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1);
    }
    CHECK(waitpid(pid, NULL, 0) == pid);
    close(there[0]);
    close(there[1]);
    close(back[0]);
    close(back[1]);
}

static void by_timer(void)
{
    const struct timespec time = { .tv_nsec = 300000 };

    for (unsigned i = 0; i < each / 8; i++) {
        nanosleep(&time, NULL);
    }
}

static void by_signal(void)
{
    sigset_t set;
    pid_t pid;
    int which;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid = fork();
    if (!pid) {
        for (unsigned i = 0; i < each / 8; i++) {
            CHECK(!kill(getppid(), SIGUSR1));
            sched_yield();
        }
        _exit(0);
    }
    CHECK(!sigwait(&set, &which));
    CHECK(waitpid(pid, NULL, 0) == pid);
}

/* More than there are CPUs, which are taken away from them */
static void by_turns(void)
{
    pid_t pids[4];

    for (unsigned i = 0; i < 4; i++) {
        pids[i] = fork();
        if (!pids[i]) {
            for (volatile unsigned n = 0; n < 1000000; n++) {
            }
            _exit(0);
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        CHECK(waitpid(pids[i], NULL, 0) == pids[i]);
    }
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        each = atoi(argv[2]);
    }
    for (int n = argc > 1 ? atoi(argv[1]) : 1; n > 0; n--) {
        by_futex();
        by_pipe();
        by_timer();
        by_signal();
        by_turns();
    }
    return 0;
}
