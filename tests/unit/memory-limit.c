/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much memory a process may still take: as much as was said, about, and
 * never more than it may already
 */

#include <glib.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/memory-limit.h"

#define MIB     (UINT64_C(1) << 20)

static bool takes(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p != MAP_FAILED && !munmap(p, bytes);
}

/* What is checked in a process of its own, and how that ends */
static void in_child(bool (*check)(void))
{
    pid_t child = fork();
    int status;

    if (!child) {
        _exit(check() ? 0 : 1);
    }
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 0);
}

/* Also where it has taken much before */
static bool check_some(void)
{
    void *before = mmap(NULL, 256 * MIB, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rlimit core;
    pid_t child;
    int status;

    memory_limit(64 * MIB);
    if (before == MAP_FAILED || !takes(48 * MIB) || takes(80 * MIB) ||
        getrlimit(RLIMIT_CORE, &core) || core.rlim_cur || core.rlim_max) {
        return false;
    }
    /* Nor may what it starts. */
    child = fork();
    if (!child) {
        _exit(takes(48 * MIB) && !takes(80 * MIB) ? 0 : 1);
    }
    return waitpid(child, &status, 0) == child && status == 0;
}

static bool check_none(void)
{
    memory_limit(0);
    return !takes(16 * MIB);
}

/* The limit that there is, is lower. */
static bool check_lower(void)
{
    struct rlimit limit;

    memory_limit(32 * MIB);
    memory_limit(512 * MIB);
    return takes(16 * MIB) && !takes(64 * MIB) &&
           !getrlimit(RLIMIT_DATA, &limit) && limit.rlim_cur != RLIM_INFINITY;
}

static void test_some(void)
{
    in_child(check_some);
}

static void test_none(void)
{
    in_child(check_none);
}

static void test_lower(void)
{
    in_child(check_lower);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory-limit/some", test_some);
    g_test_add_func("/memory-limit/none", test_none);
    g_test_add_func("/memory-limit/lower", test_lower);
    return g_test_run();
}
