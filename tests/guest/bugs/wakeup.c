/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wakeup: a wake-up is lost.
 *
 * One thread makes jobs, and waits until another one has done them.  That one
 * tests without the lock whether there is a job, and goes to sleep some time
 * later: it sleeps for ever if the job comes between.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "../workload.h"

#define JOBS    1000

static struct {
    pthread_mutex_t lock;
    pthread_cond_t made;
    pthread_cond_t done;
    int ready;
    int finished;
} jobs = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
    PTHREAD_COND_INITIALIZER, 0, 0,
};

static void wait_for_job(void)
{
    if (!jobs.ready) {
        /* There may be one soon. */
        usleep(200);
        pthread_mutex_lock(&jobs.lock);
        pthread_cond_wait(&jobs.made, &jobs.lock);
        pthread_mutex_unlock(&jobs.lock);
    }
}

static void *work(void *opaque)
{
    for (int i = 0; i < JOBS; i++) {
        wait_for_job();
        pthread_mutex_lock(&jobs.lock);
        jobs.ready = 0;
        jobs.finished++;
        pthread_cond_signal(&jobs.done);
        pthread_mutex_unlock(&jobs.lock);
    }
    return opaque;
}

static void make_job(void)
{
    pthread_mutex_lock(&jobs.lock);
    jobs.ready = 1;
    pthread_cond_signal(&jobs.made);
    pthread_mutex_unlock(&jobs.lock);
}

static void *make(void *opaque)
{
    uint64_t state = 1;

    for (int i = 0; i < JOBS; i++) {
        usleep(workload_random(&state) % 5000);
        make_job();
        pthread_mutex_lock(&jobs.lock);
        while (jobs.finished <= i) {
            pthread_cond_wait(&jobs.done, &jobs.lock);
        }
        pthread_mutex_unlock(&jobs.lock);
    }
    return opaque;
}

static int report(int finished)
{
    workload_print("BT: stuck after job %d\n", finished);
    return 0;
}

int main(int argc, char **argv)
{
    struct timespec end;
    struct workload w;
    pthread_t maker, worker;

    workload_begin(&w, "wakeup", argc, argv);
    if (pthread_create(&maker, NULL, make, NULL) ||
        pthread_create(&worker, NULL, work, NULL)) {
        return 1;
    }
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    if (pthread_timedjoin_np(maker, NULL, &end)) {
        return report(jobs.finished);
    }
    return 1;
}
