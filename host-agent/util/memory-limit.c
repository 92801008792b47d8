/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much memory a process may still take: see memory-limit.h
 */

#include <glib.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/memory-limit.h"

void memory_limit(uint64_t more)
{
    g_autofree char *text = NULL;
    unsigned long long pages;
    struct rlimit limit;
    rlim_t most;

    if (!g_file_get_contents("/proc/self/statm", &text, NULL, NULL) ||
        sscanf(text, "%*u %*u %*u %*u %*u %llu", &pages) != 1 ||
        getrlimit(RLIMIT_DATA, &limit)) {
        return;
    }
    most = pages * sysconf(_SC_PAGESIZE) + more;
    limit.rlim_cur = MIN(limit.rlim_cur, most);
    setrlimit(RLIMIT_DATA, &limit);
    setrlimit(RLIMIT_CORE, &(struct rlimit) { 0, 0 });
}
