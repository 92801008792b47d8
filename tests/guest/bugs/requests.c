/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * requests: one of many is slow.
 *
 * A thread answers requests, and counts them under a lock.  Another one writes
 * a report of what was counted now and then, and keeps the lock until it has:
 * a request that comes meanwhile waits.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../workload.h"

#define KINDS       5000
#define EACH        100                 /* requests of a round */
#define PAUSE_US    100
#define REPORT_US   300000

static struct {
    pthread_mutex_t lock;
    unsigned counts[KINDS];
} log_of = { .lock = PTHREAD_MUTEX_INITIALIZER };

__attribute__((noinline)) static unsigned handle_request(uint64_t *state)
{
    unsigned kind = workload_random(state) % KINDS, count;

    pthread_mutex_lock(&log_of.lock);
    count = ++log_of.counts[kind];
    pthread_mutex_unlock(&log_of.lock);
    return count;
}

__attribute__((noinline)) static size_t format_report(char *text, size_t size)
{
    size_t length = 0;

    for (unsigned i = 0; i < KINDS && length + 32 < size; i++) {
        length += sprintf(text + length, "%u: %u\n", i, log_of.counts[i]);
    }
    return length;
}

static void *write_reports(void *opaque)
{
    static char text[KINDS * 32];

    for (;;) {
        usleep(REPORT_US);
        pthread_mutex_lock(&log_of.lock);
        format_report(text, sizeof(text));
        pthread_mutex_unlock(&log_of.lock);
    }
    return opaque;
}

int main(int argc, char **argv)
{
    uint64_t state = 1;
    struct workload w;
    pthread_t reports;

    workload_begin(&w, "requests", argc, argv);
    if (pthread_create(&reports, NULL, write_reports, NULL)) {
        workload_print("BT: error comm=requests\n");
        exit(1);
    }
    pthread_setname_np(reports, "reports");
    do {
        for (unsigned i = 0; i < EACH; i++) {
            usleep(PAUSE_US);
            workload_add(&w, handle_request(&state));
        }
    } while (workload_next(&w));
    return workload_end(&w);
}
