/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spans whose waits are known, for the test why: usage why-guest CASE [N]
 *
 * Each case has a span between the marks "CASE begins" and "CASE ends", of
 * which the kernel's tracer is told, too.  What the span waits for, and which
 * function computes meanwhile, is said beside each case.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "backtrail-mark.h"

#define CHECK(condition)                                        \
    do {                                                        \
        if (!(condition)) {                                     \
            printf("BT: error %s: %m\n", #condition);           \
            _exit(1);                                           \
        }                                                       \
    } while (0)

#define PAGE    4096
#define LONG    2000000                 /* turns of a loop: some 20 ms */
#define SHORT   (LONG / 8)
#define STORM   3000                    /* packets */

/* The tracer is told afterwards when a span was, by the clock that it has. */
#define BEGIN(name)                                             \
    do {                                                        \
        BACKTRAIL_MARK(name " begins");                         \
        begun = __rdtsc();                                      \
    } while (0)
#define END(name)                                               \
    do {                                                        \
        unsigned long long end = __rdtsc();                     \
                                                                \
        BACKTRAIL_MARK(name " ends");                           \
        tell(name, begun, end);                                 \
    } while (0)

/* A function whose name says why it computes */
#define COMPUTES(name)                                          \
    __attribute__((noipa)) static void name(unsigned turns)     \
    {                                                           \
        for (volatile unsigned i = 0; i < turns; i++) {         \
        }                                                       \
    }

COMPUTES(computes_with_the_lock)
COMPUTES(low_computes)
COMPUTES(mid_computes)
COMPUTES(reads_slowly)
COMPUTES(takes_the_vcpu)
COMPUTES(is_taken_away)
COMPUTES(is_interrupted)
COMPUTES(serves)
COMPUTES(holds_up_requests)
COMPUTES(talks)

struct channel {
    int ends[2];
};

static struct shared {
    pthread_mutex_t first, second;
    volatile bool done;
    volatile unsigned sent;             /* of a storm */
} *shared;

static int tracer = -1;
static unsigned long long begun;

static void tell(const char *name, unsigned long long begin,
                 unsigned long long end)
{
    if (tracer >= 0) {
        CHECK(dprintf(tracer, "%s %llu %llu\n", name, begin, end) > 0);
    }
}

static void make_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(lock, &attr);
}

static struct channel channel(void)
{
    struct channel c;

    CHECK(!pipe(c.ends));
    return c;
}

static void put(struct channel c)
{
    char byte = 0;

    CHECK(write(c.ends[1], &byte, 1) == 1);
}

static void get(struct channel c)
{
    char byte;

    CHECK(read(c.ends[0], &byte, 1) == 1);
}

/* Whether this is the child, which has a name of its own */
static bool in_child(const char *name)
{
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (!pid) {
        prctl(PR_SET_NAME, name);
    }
    return !pid;
}

static void wait_for_children(void)
{
    int status;

    while (wait(&status) > 0) {
        CHECK(!status);
    }
}

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK(!sched_setaffinity(0, sizeof(set), &set));
}

static void have_priority(int priority)
{
    const struct sched_param param = { .sched_priority = priority };

    CHECK(!sched_setscheduler(0, SCHED_FIFO, &param));
}

static void sleep_ms(unsigned ms)
{
    const struct timespec time = { .tv_nsec = ms * 1000000L };

    nanosleep(&time, NULL);
}

/*
 * The span waits for a lock of "between", which waits for another one, with
 * which "computer" computes.
 */
static void locks(void)
{
    struct channel has_first = channel(), has_second = channel();
    struct channel go = channel();

    if (in_child("computer")) {
        pthread_mutex_lock(&shared->first);
        put(has_first);
        get(go);
        computes_with_the_lock(LONG);
        pthread_mutex_unlock(&shared->first);
        _exit(0);
    }
    if (in_child("between")) {
        get(has_first);
        pthread_mutex_lock(&shared->second);
        put(has_second);
        pthread_mutex_lock(&shared->first);
        pthread_mutex_unlock(&shared->first);
        pthread_mutex_unlock(&shared->second);
        _exit(0);
    }
    get(has_second);
    /* By then the other one waits. */
    sleep_ms(20);
    BEGIN("locks");
    put(go);
    pthread_mutex_lock(&shared->second);
    END("locks");
    pthread_mutex_unlock(&shared->second);
}

/*
 * "high" waits for a lock of "low", which could compute, but "mid" does on the
 * one CPU of the three.
 */
static void inversion(void)
{
    struct channel to_high = channel(), to_mid = channel();

    pin(0);
    if (in_child("high")) {
        have_priority(3);
        get(to_high);
        BEGIN("inversion");
        pthread_mutex_lock(&shared->first);
        END("inversion");
        pthread_mutex_unlock(&shared->first);
        _exit(0);
    }
    if (in_child("mid")) {
        have_priority(2);
        get(to_mid);
        mid_computes(LONG);
        _exit(0);
    }
    /* By then both wait. */
    sleep_ms(50);
    if (in_child("low")) {
        have_priority(1);
        pthread_mutex_lock(&shared->first);
        put(to_high);
        low_computes(SHORT);
        put(to_mid);
        low_computes(SHORT);
        pthread_mutex_unlock(&shared->first);
        _exit(0);
    }
}

/* The span waits for pages that are on the disk. */
__attribute__((noipa)) static unsigned touches_the_disk(const char *p,
                                                        unsigned pages)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < pages; i++) {
        sum += p[i << 20];
    }
    return sum;
}

static void fault(void)
{
    int disk = open("/dev/vda", O_RDONLY);
    const unsigned size = 16 << 20, some = 2;
    char *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, disk, 0);

    CHECK(disk >= 0 && p != MAP_FAILED);
    CHECK(!madvise(p, size, MADV_RANDOM));
    CHECK(!posix_fadvise(disk, 0, 0, POSIX_FADV_DONTNEED));
    /* The disk is slow after some. */
    touches_the_disk(p, some);
    BEGIN("fault");
    touches_the_disk(p + (some << 20), 4);
    END("fault");
}

/* The span writes to a pipe that is full, since "reader" is slow. */
static void full(void)
{
    static char page[PAGE];
    struct channel c = channel();

    CHECK(fcntl(c.ends[1], F_SETPIPE_SZ, PAGE) == PAGE);
    if (in_child("reader")) {
        close(c.ends[1]);
        do {
            reads_slowly(SHORT);
        } while (read(c.ends[0], page, PAGE) > 0);
        _exit(0);
    }
    CHECK(write(c.ends[1], page, PAGE) == PAGE);
    BEGIN("full");
    for (unsigned i = 0; i < 6; i++) {
        CHECK(write(c.ends[1], page, PAGE) == PAGE);
    }
    END("full");
    close(c.ends[1]);
}

/* The span waits for timers. */
static void timers(void)
{
    const struct itimerspec after = { .it_value.tv_nsec = 15000000 };
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    uint64_t times;

    BEGIN("timers");
    sleep_ms(10);
    CHECK(!timerfd_settime(fd, 0, &after, NULL));
    CHECK(read(fd, &times, sizeof(times)) == sizeof(times));
    END("timers");
}

/* The span computes, and "taker", which a timer wakes, takes the CPU from it. */
static void taken(void)
{
    pin(sysconf(_SC_NPROCESSORS_ONLN) - 1);
    shared->done = false;
    if (in_child("taker")) {
        have_priority(1);
        for (unsigned i = 0; i < 3; i++) {
            sleep_ms(10);
            takes_the_vcpu(LONG / 2);
        }
        shared->done = true;
        _exit(0);
    }
    BEGIN("taken");
    while (!shared->done) {
        is_taken_away(SHORT / 8);
    }
    END("taken");
}

/*
 * The span computes, and its CPU has to receive what "flood" sends on another
 * one.
 */
static void storm(void)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons(9999),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int s = socket(AF_INET, SOCK_DGRAM, 0);

    CHECK(s >= 0 && !bind(s, (const struct sockaddr *)&to, sizeof(to)));
    shared->done = false;
    if (in_child("flood")) {
        pin(1);
        while (!shared->done) {
            CHECK(sendto(s, &to, sizeof(to), 0, (const struct sockaddr *)&to,
                         sizeof(to)) > 0);
            shared->sent++;
        }
        _exit(0);
    }
    pin(0);
    sleep_ms(20);
    BEGIN("storm");
    for (unsigned end = shared->sent + STORM; shared->sent < end; ) {
        is_interrupted(SHORT / 8);
    }
    END("storm");
    shared->done = true;
}

/* The span waits for a module of the kernel, which computes in its init. */
static void module(const char *name)
{
    BEGIN("module");
    if (in_child("module")) {
        execl("/bin/modprobe", "modprobe", name, NULL);
        _exit(1);
    }
    wait_for_children();
    END("module");
}

/* Of all requests, one waits for a lock, with which "blocker" computes. */
__attribute__((noipa)) static void handle_request(void)
{
    pthread_mutex_lock(&shared->first);
    serves(500);
    pthread_mutex_unlock(&shared->first);
}

static void requests(unsigned n)
{
    struct channel go = channel(), has_lock = channel();

    if (in_child("blocker")) {
        get(go);
        pthread_mutex_lock(&shared->first);
        put(has_lock);
        holds_up_requests(LONG);
        pthread_mutex_unlock(&shared->first);
        _exit(0);
    }
    for (unsigned i = 0; i < n; i++) {
        if (i == n * 2 / 3) {
            put(go);
            get(has_lock);
        }
        BEGIN("request");
        handle_request();
        END("request");
    }
}

/*
 * Each span goes around a ring of processes on all CPUs, which sleep now and
 * then.
 */
static void ring(unsigned n)
{
    enum { PROCESSES = 3 };
    static const char *const names[PROCESSES] = { "ring1", "ring2", "ring3" };
    int cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct channel c[PROCESSES + 1];

    for (unsigned i = 0; i <= PROCESSES; i++) {
        c[i] = channel();
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        if (in_child(names[i])) {
            pin((i + 1) % cpus);
            for (unsigned turn = 0; turn < n; turn++) {
                get(c[i]);
                talks(100);
                if (turn % 64 == i) {
                    sleep_ms(1);
                }
                put(c[i + 1]);
            }
            _exit(0);
        }
    }
    pin(0);
    for (unsigned turn = 0; turn < n; turn++) {
        BEGIN("ring");
        put(c[0]);
        get(c[PROCESSES]);
        END("ring");
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        { "locks", locks }, { "inversion", inversion }, { "fault", fault },
        { "full", full }, { "timers", timers }, { "taken", taken },
        { "storm", storm },
    };
    const char *what = argc > 1 ? argv[1] : "";
    const char *with = argc > 2 ? argv[2] : "";

    setbuf(stdout, NULL);
    tracer = open("/sys/kernel/tracing/trace_marker", O_WRONLY);
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    make_lock(&shared->first);
    make_lock(&shared->second);
    if (!strcmp(what, "module")) {
        module(with);
    } else if (!strcmp(what, "requests")) {
        requests(atoi(with));
    } else if (!strcmp(what, "ring")) {
        ring(atoi(with));
    } else {
        unsigned i = 0;

        while (i < 7 && strcmp(what, cases[i].name)) {
            i++;
        }
        CHECK(i < 7);
        cases[i].run();
    }
    wait_for_children();
    return 0;
}
