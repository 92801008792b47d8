/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The last moment of a program that was told to end: see deadline.h
 */

#include <errno.h>
#include <glib.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/deadline.h"

/* A second, less what it takes to get there */
#define LEFT_MS     800

static timer_t timer;
static const char *left;
static gint begun;

/* Nothing here waits for another thread. */
static void on_time(int number)
{
    sigset_t set;

    if (write(STDERR_FILENO, left, strlen(left)) < 0) {
        /* Nobody reads it. */
    }
    signal(SIGTERM, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    kill(getpid(), SIGTERM);
    /* It comes to another thread, perhaps. */
    for (;;) {
        pause();
    }
}

void deadline_prepare(const char *note)
{
    struct sigaction action = { .sa_handler = on_time };
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL,
        .sigev_signo = SIGALRM,
    };
    sigset_t set;

    left = note;
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer)) {
        g_error("timer_create: %s", g_strerror(errno));
    }
}

void deadline_begin(void)
{
    const struct itimerspec when = {
        .it_value = { .tv_nsec = LEFT_MS * 1000000 },
    };

    if (g_atomic_int_compare_and_exchange(&begun, 0, 1)) {
        timer_settime(timer, 0, &when, NULL);
    }
}
