/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who is at the other end of a socket: this process, another one, and one that
 * is gone
 */

#include <glib.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/peer-process.h"

/* A child that waits, with a name that is hard to read */
static pid_t start_child(void)
{
    int pipes[2];
    pid_t pid;
    char byte;

    g_assert_cmpint(pipe(pipes), ==, 0);
    pid = fork();
    if (!pid) {
        prctl(PR_SET_NAME, ") Z 1 (x) X");
        g_assert_cmpint(write(pipes[1], "x", 1), ==, 1);
        pause();
        _exit(0);
    }
    g_assert_cmpint(pid, >, 0);
    g_assert_cmpint(read(pipes[0], &byte, 1), ==, 1);
    close(pipes[0]);
    close(pipes[1]);
    return pid;
}

static void test_id(void)
{
    char mine[PROCESS_ID], again[PROCESS_ID];
    char other[PROCESS_ID], none[PROCESS_ID];
    g_autofree char *begin = g_strdup_printf("%d-", getpid());
    pid_t pid = start_child();

    process_id(mine, getpid());
    process_id(again, getpid());
    g_assert_true(g_str_has_prefix(mine, begin));
    /* The number, the time, and the UUID of the boot */
    g_assert_cmpuint(strlen(mine), >, strlen(begin) + 1 + 36);
    g_assert_cmpstr(mine, ==, again);
    process_id(other, pid);
    g_assert_cmpstr(other, !=, "");
    g_assert_cmpstr(other, !=, mine);
    g_assert_false(process_is_gone(mine));
    g_assert_false(process_is_gone(other));

    /* Its parent has not waited for it: its number is taken, it is gone. */
    g_assert_cmpint(kill(pid, SIGKILL), ==, 0);
    g_assert_cmpint(waitid(P_PID, pid, &(siginfo_t) { 0 },
                           WEXITED | WNOWAIT), ==, 0);
    process_id(none, pid);
    g_assert_cmpstr(none, ==, "");
    g_assert_true(process_is_gone(other));
    g_assert_cmpint(waitpid(pid, NULL, 0), ==, pid);
    process_id(none, pid);
    g_assert_cmpstr(none, ==, "");
    g_assert_true(process_is_gone(other));
    process_id(none, 0);
    g_assert_cmpstr(none, ==, "");
    process_id(none, -1);
    g_assert_cmpstr(none, ==, "");
}

/* One that has begun at another time, or in another boot */
static void test_others(void)
{
    char mine[PROCESS_ID];
    char *p;

    process_id(mine, getpid());
    p = strchr(mine, '-') + 1;
    *p = *p == '9' ? '8' : '9';
    g_assert_true(process_is_gone(mine));
    process_id(mine, getpid());
    p = mine + strlen(mine) - 1;
    *p = *p == '0' ? '1' : '0';
    g_assert_true(process_is_gone(mine));
    g_assert_true(process_is_gone("garbage"));
}

/* For lack of descriptors, nothing is known: nobody is taken to be gone. */
static void test_unknown(void)
{
    char mine[PROCESS_ID], unknown[PROCESS_ID];
    struct rlimit limit, none;

    process_id(mine, getpid());
    g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    none = (struct rlimit) { .rlim_cur = 0, .rlim_max = limit.rlim_max };
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
    process_id(unknown, getpid());
    g_assert_cmpstr(unknown, ==, "");
    g_assert_false(process_is_gone(mine));
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    g_assert_false(process_is_gone(mine));
}

static void test_peer(void)
{
    struct peer_process a, b;
    char mine[PROCESS_ID];
    int socks[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==, 0);
    g_assert_true(peer_process_get(&a, socks[0]));
    g_assert_cmpint(a.pid, ==, getpid());
    g_assert_cmpuint(a.uid, ==, getuid());
    process_id(mine, getpid());
    g_assert_cmpstr(a.process, ==, mine);
    b = a;
    g_assert_true(peer_process_is_same(&a, &b));
    b.pid++;
    g_assert_false(peer_process_is_same(&a, &b));
    b = a;
    b.process[0] = '\0';
    g_assert_false(peer_process_is_same(&a, &b));
    close(socks[1]);
    close(socks[0]);
    g_assert_false(peer_process_get(&a, -1));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/process/id", test_id);
    g_test_add_func("/process/others", test_others);
    g_test_add_func("/process/unknown", test_unknown);
    g_test_add_func("/process/peer", test_peer);
    return g_test_run();
}
