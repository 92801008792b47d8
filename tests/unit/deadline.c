/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The last moment of a program that was told to end, in processes of their own
 */

#include <glib.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/deadline.h"

#define NOTE    "it is not whole\n"

static GMutex lock;

static gpointer wait_for_ever(gpointer opaque)
{
    g_mutex_lock(&lock);
    return NULL;
}

/* Nothing of it is there to end it. */
static void hang(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    deadline_prepare(NOTE);
    g_mutex_lock(&lock);
    g_thread_new("waits", wait_for_ever, NULL);
    deadline_begin();
    g_usleep(300 * 1000);
    /* Being told to end again gives it no more time. */
    deadline_begin();
    wait_for_ever(NULL);
}

static void end(void)
{
    deadline_prepare(NOTE);
    deadline_begin();
    _exit(3);
}

static void on_signal(int number)
{
    deadline_begin();
}

static void loop(void)
{
    deadline_prepare(NOTE);
    signal(SIGTERM, on_signal);
    raise(SIGTERM);
    for (;;) {
        continue;
    }
}

/* Its status, of waitpid(); it is not there for longer than a second. */
static int run(void (*child)(void), char *said, size_t size)
{
    gint64 begin;
    int fds[2], status;
    ssize_t n;
    pid_t pid;

    g_assert_cmpint(pipe(fds), ==, 0);
    pid = fork();
    if (!pid) {
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        child();
    }
    close(fds[1]);
    begin = g_get_monotonic_time();
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    /* A busy machine is slow. */
    g_assert_cmpint(g_get_monotonic_time() - begin, <, 5 * G_USEC_PER_SEC);
    n = read(fds[0], said, size - 1);
    g_assert_cmpint(n, >=, 0);
    said[n] = '\0';
    close(fds[0]);
    return status;
}

static void test_hangs(void)
{
    void (*const children[])(void) = { hang, loop };
    char said[100];

    for (unsigned i = 0; i < G_N_ELEMENTS(children); i++) {
        int status = run(children[i], said, sizeof(said));

        g_assert_true(WIFSIGNALED(status));
        g_assert_cmpint(WTERMSIG(status), ==, SIGTERM);
        g_assert_cmpstr(said, ==, NOTE);
    }
}

static void test_ends(void)
{
    char said[100];
    int status = run(end, said, sizeof(said));

    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 3);
    g_assert_cmpstr(said, ==, "");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/deadline/hangs", test_hangs);
    g_test_add_func("/deadline/ends", test_ends);
    return g_test_run();
}
