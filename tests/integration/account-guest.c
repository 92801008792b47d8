/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The init of a guest that makes processes and threads of all kinds, most of
 * which live only for moments.  Each one calls a function and the kernel a number
 * of times, and writes down how often, and what the kernel calls the caller.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEDGER          "/ledger"
#define MAX_ENTRIES     (1 << 17)
/* Threads of a process that has many */
#define MANY            64
#define STACK_SIZE      65536

/* What one thread did */
struct entry {
    int32_t pid;
    int32_t tid;
    uint32_t kind;
    uint32_t calls;
};

/* It is in a file, so that a program that exec() begins finds it. */
static struct ledger {
    uint32_t used;
    struct entry entries[MAX_ENTRIES];
} *ledger;

enum kind {
    FORKED, CHILD_OF_FORKED, EXECED, VFORKED, CLONED, THREAD, THREAD_OF_MANY,
    LEADER, EXECED_BY_THREAD,
};

static const char *const kinds[] = {
    [FORKED] = "forked", [CHILD_OF_FORKED] = "grandchild",
    [EXECED] = "execed", [VFORKED] = "vforked", [CLONED] = "cloned",
    [THREAD] = "thread", [THREAD_OF_MANY] = "one-of-many",
    [LEADER] = "leader", [EXECED_BY_THREAD] = "thread-execed",
};

static volatile unsigned sink;

void work(unsigned i);

/* Its calls are records that go from a thread's own code to one address. */
void __attribute__((noinline, noclone)) work(unsigned i)
{
    sink += i;
}

static void fail(const char *what)
{
    dprintf(STDOUT_FILENO, "BT: error %s: %m\n", what);
    for (;;) {
        pause();
    }
}

static void name_as(enum kind kind)
{
    if (prctl(PR_SET_NAME, kinds[kind])) {
        fail("prctl");
    }
}

/* The caller does its work, with its kind for a name. */
static void __attribute__((noinline, noclone)) do_work(enum kind kind, unsigned calls)
{
    uint32_t n = __atomic_fetch_add(&ledger->used, 1, __ATOMIC_SEQ_CST);
    unsigned i;

    if (n >= MAX_ENTRIES) {
        fail("the ledger is full");
    }
    name_as(kind);
    ledger->entries[n] = (struct entry) {
        .pid = getpid(), .tid = syscall(SYS_gettid), .kind = kind,
        .calls = calls,
    };
    for (i = 0; i < calls; i++) {
        work(i);
        syscall(SYS_getppid);
    }
}

static void open_ledger(void)
{
    int fd = open(LEDGER, O_RDWR | O_CREAT, 0600);

    if (fd < 0 || ftruncate(fd, sizeof(*ledger))) {
        fail(LEDGER);
    }
    ledger = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED,
                  fd, 0);
    if (ledger == MAP_FAILED) {
        fail("mmap");
    }
    close(fd);
}

static void wait_for(pid_t pid)
{
    int status;

    if (pid < 0 || waitpid(pid, &status, __WALL) != pid || status) {
        fail("a child");
    }
}

static void exec_self(enum kind kind, unsigned calls)
{
    char k[12], n[12];

    snprintf(k, sizeof(k), "%d", kind);
    snprintf(n, sizeof(n), "%u", calls);
    execl("/init", "init", k, n, NULL);
    _exit(1);
}

/* A process, whose child lives on when it has ended */
static pid_t forked(unsigned calls)
{
    pid_t pid = fork();

    if (!pid) {
        do_work(FORKED, calls);
        pid = fork();
        if (!pid) {
            do_work(CHILD_OF_FORKED, calls + 1);
        }
        _exit(pid < 0);
    }
    return pid;
}

static pid_t execed(unsigned calls)
{
    pid_t pid = fork();

    if (!pid) {
        exec_self(EXECED, calls);
    }
    return pid;
}

static pid_t vforked(unsigned calls)
{
    pid_t pid = vfork();

    if (!pid) {
        exec_self(VFORKED, calls);
    }
    return pid;
}

static int cloned_main(void *calls)
{
    do_work(CLONED, (uintptr_t)calls);
    _exit(0);
}

/* A process that has its parent's memory, and continues without exec() */
static pid_t cloned(unsigned calls)
{
    static char stack[STACK_SIZE] __attribute__((aligned(16)));

    return clone(cloned_main, stack + sizeof(stack),
                 CLONE_VM | CLONE_FILES | SIGCHLD, (void *)(uintptr_t)calls);
}

static void *thread(void *calls)
{
    do_work(THREAD, (uintptr_t)calls);
    return NULL;
}

static void *thread_of_many(void *calls)
{
    do_work(THREAD_OF_MANY, (uintptr_t)calls);
    return NULL;
}

static void *execing_thread(void *calls)
{
    exec_self(EXECED_BY_THREAD, (uintptr_t)calls);
    return NULL;
}

/* Threads are started, and the leader works beside them. */
static pid_t threaded(unsigned calls, unsigned n, void *(*main)(void *))
{
    pthread_t threads[MANY];
    pid_t pid = fork();
    unsigned i;

    if (pid) {
        return pid;
    }
    for (i = 0; i < n; i++) {
        if (pthread_create(&threads[i], NULL, main,
                           (void *)(uintptr_t)(calls + i))) {
            fail("pthread_create");
        }
    }
    if (main == execing_thread) {
        for (;;) {
            pause();
        }
    }
    do_work(LEADER, calls);
    for (i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    _exit(0);
}

static pid_t begin(unsigned i)
{
    unsigned calls = 20 + i % 50;

    if (i % 100 == 99) {
        return threaded(calls, MANY, thread_of_many);
    }
    switch (i % 6) {
    case 0:
        return forked(calls);
    case 1:
        return execed(calls);
    case 2:
        return vforked(calls);
    case 3:
        return cloned(calls);
    case 4:
        return threaded(calls, 2, thread);
    default:
        return threaded(calls, 1, execing_thread);
    }
}

/* A storm that several processes make at once */
static void storm(unsigned processes, unsigned parallel)
{
    unsigned p, i;
    int status;

    for (p = 0; p < parallel; p++) {
        pid_t pid = fork();

        if (pid < 0) {
            fail("fork");
        }
        if (!pid) {
            for (i = p; i < processes; i += parallel) {
                wait_for(begin(i));
            }
            _exit(0);
        }
    }
    /* Also the children of those that have ended, which are init's now */
    while (wait(&status) > 0) {
        if (status) {
            fail("a process");
        }
    }
}

static void print_ledger(void)
{
    FILE *f = fdopen(dup(STDOUT_FILENO), "w");
    uint32_t i;

    for (i = 0; f && i < ledger->used; i++) {
        const struct entry *e = &ledger->entries[i];

        fprintf(f, "BT: did %d %d %s %u\n", e->pid, e->tid, kinds[e->kind],
                e->calls);
    }
    if (!f || fclose(f)) {
        fail("print");
    }
}

int main(int argc, char **argv)
{
    unsigned processes, parallel;
    int console;

    if (argc == 3) {
        open_ledger();
        do_work(atoi(argv[1]), atoi(argv[2]));
        return 0;
    }
    mkdir("/dev", 0755);
    mount("dev", "/dev", "devtmpfs", 0, NULL);
    console = open("/dev/console", O_RDWR);
    dup2(console, 0);
    dup2(console, 1);
    dup2(console, 2);
    open_ledger();
    dprintf(STDOUT_FILENO, "BT: ready\n");
    if (scanf("%u %u", &processes, &parallel) != 2 || !parallel) {
        fail("what it reads");
    }
    storm(processes, parallel);
    dprintf(STDOUT_FILENO, "BT: end\n");
    getchar();
    if (getchar() == EOF) {
        fail("the console");
    }
    print_ledger();
    dprintf(STDOUT_FILENO, "BT: printed\n");
    for (;;) {
        pause();
    }
}
