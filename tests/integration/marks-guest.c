/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest's program that leaves marks and prints what they are: in C, in C++, and
 * as a kernel has them (PACKED)
 *
 * usage: marks [COUNT SEED PROCESSES [move]] | spans
 *
 * Each of this many processes leaves COUNT marks with values of a sequence that
 * begins with SEED + its number, from 0.  They stay on their vCPUs, or their
 * parent moves them all the time, also in the middle of a mark.  The first one
 * has a handler of a timer's signal that leaves the same marks in between, with
 * values of its own.  Without arguments, there is one process on
 * vCPU 0, with each of some values that are special, and it prints them.
 *
 * With "spans", processes mark where work of theirs begins and ends, and print
 * how long it took by the guest's clock, and how many turns of a loop it had;
 * or one hands numbers to another one.
 */

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef PACKED
#define __KERNEL__
#endif
#include "backtrail-mark.h"

#ifdef __cplusplus
#define LANGUAGE    "c++"
#elif defined(PACKED)
#define LANGUAGE    "packed"
#else
#define LANGUAGE    "c"
#endif

/* Marks of the signal's handler have these bits, and no others have. */
#define SIGNAL      (UINT64_C(0xabcd) << 48)
#define SIGNAL_US   700

#define MAX_PROCESSES   16
#define MOVE_US         50

static volatile uint64_t signals;

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) +
             UINT64_C(1442695040888963407);
    /* Short ones as well as long ones */
    return *state >> (16 + *state % 48);
}

/* Not inlined: all marks are at one place. */
static void __attribute__((noinline)) leave(uint64_t value)
{
    BACKTRAIL_MARK(LANGUAGE " many", value);
}

static void on_signal(int number)
{
    (void)number;
    signals = signals + 1;
    leave(SIGNAL | signals);
}

static void start_timer(int us)
{
    struct itimerval timer;

    memset(&timer, 0, sizeof(timer));
    timer.it_interval.tv_usec = timer.it_value.tv_usec = us;
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void move(pid_t pid, unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(pid, sizeof(set), &set);
}

static int leave_many(unsigned number, uint64_t count, uint64_t seed)
{
    uint64_t state = seed + number;

    move(0, number % 2);
    if (!number) {
        start_timer(SIGNAL_US);
    }
    for (uint64_t i = 0; i < count; i++) {
        leave(next(&state));
    }
    if (!number) {
        start_timer(0);
    }
    printf("BT: many " LANGUAGE " %d %u %" PRIu64 "\n", (int)getpid(), number,
           signals);
    return 0;
}

/* A mark of a name of its own for each kind of use */
static void leave_some(void)
{
    static const uint64_t values[] = {
        0, 1, 2, 3, 0x80, 0xdeadbeef, UINT64_C(1) << 63,
        UINT64_C(0x8000000000000001), UINT64_C(0x5555555555555555),
        UINT64_MAX,
    };
    const char *text = "x";
    int below = -3;

    for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        BACKTRAIL_MARK(LANGUAGE " value", values[i]);
        printf("BT: mark %" PRIu64 " " LANGUAGE " value\n", values[i]);
    }
    BACKTRAIL_MARK(LANGUAGE " pointer", text);
    printf("BT: mark %" PRIu64 " " LANGUAGE " pointer\n",
           (uint64_t)(uintptr_t)text);
    BACKTRAIL_MARK(LANGUAGE " below", below);
    printf("BT: mark %" PRIu64 " " LANGUAGE " below\n",
           (uint64_t)(int64_t)below);
    BACKTRAIL_MARK(LANGUAGE " none");
    printf("BT: mark - " LANGUAGE " none\n");
    if (below)
        BACKTRAIL_MARK("\303\274 #; 'a' [~]");
    printf("BT: mark - \303\274 #; 'a' [~]\n");
    BACKTRAIL_MARK("123456789 123456789 123456789 123456789 123456789 "
                   "123456789 ", UINT64_C(7));
    printf("BT: mark 7 123456789 123456789 123456789 123456789 123456789 "
           "123456789 \n");
}

#define SPANS       40
#define WORKERS     3
#define TURNS       200000
#define HANDED      30

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* As many taken branches, and one that is not */
static void turn(uint64_t turns)
{
    __asm__ volatile ("1: dec %0\n jnz 1b" : "+r" (turns) : : "cc");
}

/* Each value is of one process alone.  Every fourth span has another one in it,
 * every fifth does not end, and in some the process waits. */
static void work(unsigned number)
{
    uint64_t took[SPANS], turns[SPANS], inner[SPANS] = { 0 };

    move(0, number % 2);
    for (unsigned i = 0; i < SPANS; i++) {
        uint64_t value = number * 1000 + i, begin = now();

        turns[i] = TURNS * (1 + i % 7);
        BACKTRAIL_MARK(LANGUAGE " begin", value);
        turn(turns[i]);
        if (i % 4 == 3) {
            uint64_t within = now();

            BACKTRAIL_MARK(LANGUAGE " begin", value + 500);
            turn(TURNS);
            BACKTRAIL_MARK(LANGUAGE " end", value + 500);
            inner[i] = now() - within;
            turns[i] += TURNS;
        }
        if (i % 3 == 2) {
            usleep(7000);
        }
        if (i % 5 != 4) {
            BACKTRAIL_MARK(LANGUAGE " end", value);
        }
        took[i] = now() - begin;
    }
    for (unsigned i = 0; i < SPANS; i++) {
        printf("BT: span %d %u %" PRIu64 " %" PRIu64 " %d\n", (int)getpid(),
               number * 1000 + i, took[i], turns[i], i % 5 != 4);
        if (inner[i]) {
            printf("BT: span %d %u %" PRIu64 " %u 1\n", (int)getpid(),
                   number * 1000 + i + 500, inner[i], TURNS);
        }
    }
}

static bool send(int fd, uint64_t n)
{
    return write(fd, &n, sizeof(n)) == sizeof(n);
}

/* This process hands numbers to a child, but the last one. */
static void hand_over(void)
{
    int ends[2];
    pid_t child;

    if (pipe(ends) || (child = fork()) < 0) {
        exit(1);
    }
    if (!child) {
        uint64_t n;

        close(ends[1]);
        move(0, 1);
        while (read(ends[0], &n, sizeof(n)) == sizeof(n)) {
            BACKTRAIL_MARK(LANGUAGE " taken", n);
        }
        exit(0);
    }
    move(0, 0);
    for (uint64_t n = 0; n <= HANDED; n++) {
        BACKTRAIL_MARK(LANGUAGE " handed", n * n);
        if (n < HANDED && !send(ends[1], n * n)) {
            exit(1);
        }
        if (n % 3) {
            usleep(2000);
        }
    }
    close(ends[1]);
    waitpid(child, NULL, 0);
    printf("BT: handed %d %d %d\n", (int)getpid(), (int)child, HANDED);
}

static int leave_spans(void)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        if (!fork()) {
            work(i);
            return 0;
        }
    }
    while (wait(NULL) >= 0) {
    }
    hand_over();
    return 0;
}

int main(int argc, char **argv)
{
    pid_t pids[MAX_PROCESSES];
    unsigned n;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && !strcmp(argv[1], "spans")) {
        return leave_spans();
    }
    if (argc < 4) {
        move(0, 0);
        leave_some();
        return 0;
    }
    n = strtoul(argv[3], NULL, 0);
    for (unsigned i = 0; i < n && i < MAX_PROCESSES; i++) {
        pids[i] = fork();
        if (!pids[i]) {
            return leave_many(i, strtoull(argv[1], NULL, 0),
                              strtoull(argv[2], NULL, 0));
        }
    }
    /* Processes that have ended do not mind. */
    for (unsigned i = 0; waitpid(-1, NULL, argc > 4 ? WNOHANG : 0) >= 0; i++) {
        if (argc > 4) {
            move(pids[i % n], rand() % 2);
            usleep(MOVE_US);
        }
    }
    return 0;
}
