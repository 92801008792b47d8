/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that count what they do: see counted.h
 */

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "counted.h"

#define MAX 64

static struct count counts[MAX];
static unsigned threads = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void count(const char *caller, const char *callee)
{
    struct count *c = counts;

    pthread_mutex_lock(&lock);
    while (c->callee && (strcmp(c->caller, caller) ||
                         strcmp(c->callee, callee))) {
        c++;
    }
    c->caller = caller;
    c->callee = callee;
    c->calls++;
    pthread_mutex_unlock(&lock);
}

void count_thread(void)
{
    pthread_mutex_lock(&lock);
    threads++;
    pthread_mutex_unlock(&lock);
}

void live(void)
{
    volatile unsigned i;

    for (i = 0; i < 500000; i++) {
        /* nothing */
    }
}

void count_begin(void)
{
    memset(counts, 0, sizeof(counts));
    threads = 1;
    live();
}

void count_print(const char *comm)
{
    char line[8192];
    int n = snprintf(line, sizeof(line), "BT: counts {\"comm\": \"%s\", "
                     "\"pid\": %d, \"threads\": %u, \"calls\": [", comm,
                     (int)getpid(), threads);
    const struct count *c;

    for (c = counts; c->callee; c++) {
        n += snprintf(line + n, sizeof(line) - n, "%s[\"%s\", \"%s\", %llu]",
                      c == counts ? "" : ", ", c->caller, c->callee,
                      (unsigned long long)c->calls);
    }
    n += snprintf(line + n, sizeof(line) - n, "]}\n");
    /* At once, so that lines of several processes do not mix */
    if (write(STDOUT_FILENO, line, n) != n) {
        _exit(1);
    }
}
