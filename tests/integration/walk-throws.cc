/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program whose calls end by exceptions, for the test walk
 */

#include <stdexcept>
#include <unistd.h>

static volatile int sum;

__attribute__((noinline)) static void leaf(int x)
{
    sum = sum + x;
}

__attribute__((noinline)) static void thrower(int n)
{
    if (n == 0) {
        throw std::runtime_error("deep");
    }
    thrower(n - 1);
    leaf(n);
}

__attribute__((noinline)) static void catcher(int n)
{
    try {
        thrower(n);
    } catch (const std::exception &e) {
        leaf(100);
    }
    leaf(n);
}

__attribute__((noinline)) static void throws(void)
{
    catcher(2);
    catcher(3);
    leaf(4);
}

int main()
{
    throws();
    /* Who looks at the guest's memory now and then has to see it. */
    sleep(1);
    return 0;
}
