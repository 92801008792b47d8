/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Signals that end what waits, and what does not wait
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>

#include "cli/cli.h"
#include "util/deadline.h"

/* Milliseconds in which whoever waits for a signal ends by itself */
#define PATIENCE_MS 600
#define STEP_MS     50

/* enum cli_deadline */
static gint deadline = CLI_DEADLINE_ALL;
static gint records;

static void get_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

static bool is_pending(int number)
{
    sigset_t pending;

    sigpending(&pending);
    return sigismember(&pending, number);
}

/* One that nobody has taken yet, and that is to end the program; or 0 */
static int pending_signal(void)
{
    const int signals[] = { SIGTERM, SIGHUP, SIGINT };
    gint which = g_atomic_int_get(&deadline);

    for (unsigned i = 0; i < G_N_ELEMENTS(signals); i++) {
        bool meant = which == CLI_DEADLINE_ALL ||
                     signals[i] != SIGINT;

        if (meant && is_pending(signals[i])) {
            return signals[i];
        }
    }
    return 0;
}

/* Of this thread, which has blocked it like the others */
static void end_by(int number)
{
    sigset_t set;

    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* The program may do something that asks nobody, such as read a trace. */
static gpointer watch(gpointer opaque)
{
    struct pollfd ready = { .fd = GPOINTER_TO_INT(opaque), .events = POLLIN };

    for (;;) {
        gint64 end;
        int number;

        while (poll(&ready, 1, -1) != 1) {
            continue;
        }
        if (g_atomic_int_get(&records)) {
            if (is_pending(SIGTERM)) {
                deadline_begin();
            }
            g_usleep(STEP_MS * 1000);
            continue;
        }
        end = g_get_monotonic_time() + PATIENCE_MS * 1000;
        while ((number = pending_signal()) && g_get_monotonic_time() < end) {
            g_usleep(STEP_MS * 1000);
        }
        if (number) {
            end_by(number);
        }
        /* It is for another one to take. */
        g_usleep(STEP_MS * 1000);
    }
    return NULL;
}

void cli_set_deadline(enum cli_deadline which)
{
    g_atomic_int_set(&deadline, which);
}

void cli_take_interrupt(void)
{
    const struct timespec none = { 0 };
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigtimedwait(&set, NULL, &none);
}

void cli_set_records(const char *note)
{
    deadline_prepare(note);
    g_atomic_int_set(&records, 1);
}

int cli_open_signals(void)
{
    sigset_t set;
    int fd, own;

    get_signals(&set);
    /* Before any thread starts, as threads inherit the mask. */
    sigprocmask(SIG_BLOCK, &set, NULL);
    /* Continue even if nobody reads the progress any more. */
    signal(SIGPIPE, SIG_IGN);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0 || own < 0) {
        cli_error("signalfd: %s", g_strerror(errno));
        return -1;
    }
    g_thread_unref(g_thread_new("signals", watch, GINT_TO_POINTER(own)));
    return fd;
}
