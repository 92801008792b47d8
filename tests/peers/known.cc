/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program whose calls are known, for other programs to show
 *
 * known.py says how often each function is called, and how many branches leaf()
 * takes.  As init, it runs itself as /known.
 */

#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;

namespace known {

/* Of n iterations, n + 2 branches: into the loop, in it, and the return */
void leaf(int n)
{
    for (int i = 0; i < n; i++) {
        sink += i;
    }
}

void often()
{
    leaf(3);
}

template <typename A, typename B> struct Box {
    void operator()(const char *text, int n) const
    {
        sink += text[0];
        leaf(n);
    }
};

namespace {

void hidden(int n)
{
    leaf(n);
}

}

void deep(int n)
{
    if (n == 0) {
        leaf(5);
    } else {
        deep(n - 1);
    }
}

void never()
{
    sink--;
}

void once(int argc)
{
    Box<int, long> box;

    for (int i = 0; i < 100; i++) {
        often();
    }
    for (int i = 0; i < 20; i++) {
        box("text", 10);
    }
    for (int i = 0; i < 30; i++) {
        hidden(50);
    }
    deep(40);
    if (argc > 100) {
        never();
    }
}

}

int main(int argc, char **)
{
    if (getpid() == 1) {
        /* The agent finds the kernel meanwhile, to have tasks named. */
        sleep(3);
        if (fork() == 0) {
            execl("/known", "known", nullptr);
            _exit(1);
        }
        wait(nullptr);
        sleep(1);
        reboot(RB_POWER_OFF);
    }
    /* The agent sees what it has mapped. */
    sleep(1);
    known::once(argc);
    return 0;
}
