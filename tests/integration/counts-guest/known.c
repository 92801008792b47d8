/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * known: functions that are called a known number of times, in processes and
 * threads of all kinds
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "counted.h"

static volatile uint64_t sink;
static volatile unsigned opaque;    /* 0, but no compiler knows */

static void fail(const char *what)
{
    printf("BT: error known: %s\n", what);
    fflush(stdout);
    _exit(1);
}

/* Calls and indirect calls */

static FUNCTION void leaf(unsigned i)
{
    sink += i;
}

static FUNCTION void other_leaf(unsigned i)
{
    sink ^= i;
}

static FUNCTION void middle(unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        CALL(leaf, i);
    }
    sink++;
}

static FUNCTION void pointers(unsigned n)
{
    static void (*const volatile table[])(unsigned) = { leaf, other_leaf };
    unsigned i;

    for (i = 0; i < n; i++) {
        if (i % 3) {
            count(__func__, "other_leaf");
        } else {
            count(__func__, "leaf");
        }
        table[i % 3 != 0](i);
    }
    sink++;
}

/* Recursion */

static FUNCTION unsigned recursive(unsigned n)
{
    if (n < 2) {
        return 1;
    }
    return CALL(recursive, n - 1) + CALL(recursive, n - 2);
}

/* Tail calls: the callee returns to the caller's caller. */

static FUNCTION void tail_end(unsigned i)
{
    sink += i * 3;
}

static FUNCTION __attribute__((optimize("O2"))) void tail(unsigned i)
{
    /* From a tail call nobody returns here: it has the same caller. */
    sink++;
    count("call_tails", "tail_end");
    tail_end(i + opaque);
}

static FUNCTION void call_tails(unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        CALL(tail, i);
    }
    sink++;
}

/* Jumps out of functions */

static jmp_buf out;

static FUNCTION void jumper(unsigned i)
{
    sink += i;
    if (!opaque) {
        longjmp(out, 1);
    }
}

static FUNCTION void deep(unsigned i)
{
    CALL(jumper, i);
    sink++;
}

static FUNCTION void jump_out(unsigned n)
{
    volatile unsigned i;

    for (i = 0; i < n; i++) {
        if (!setjmp(out)) {
            CALL(deep, i);
        }
    }
    sink++;
}

/* Signals */

static FUNCTION void handler(int number)
{
    CALL(leaf, number);
    sink++;
}

static FUNCTION void signals(unsigned n)
{
    unsigned i;

    signal(SIGUSR1, handler);
    for (i = 0; i < n; i++) {
        raise(SIGUSR1);
    }
    sink++;
}

/* Signals whose handler has a stack of its own */

static FUNCTION void handler_elsewhere(int number)
{
    CALL(other_leaf, number);
    sink++;
}

static FUNCTION void signal_stack(unsigned n)
{
    static char stack[65536];
    const stack_t use = { .ss_sp = stack, .ss_size = sizeof(stack) };
    const struct sigaction action = {
        .sa_handler = handler_elsewhere, .sa_flags = SA_ONSTACK,
    };
    unsigned i;

    if (sigaltstack(&use, NULL) || sigaction(SIGUSR2, &action, NULL)) {
        fail("sigaltstack");
    }
    for (i = 0; i < n; i++) {
        raise(SIGUSR2);
    }
    sink++;
}

/* Coroutines that take turns */

static ucontext_t resumed[3];

static FUNCTION void coroutine_work(unsigned i)
{
    sink += i;
}

static FUNCTION void take_turn(unsigned me, unsigned next)
{
    if (swapcontext(&resumed[me], &resumed[next])) {
        fail("swapcontext");
    }
    sink++;
}

static void coroutine(unsigned me, unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        CALL(coroutine_work, i);
        CALL(take_turn, me, !me);
    }
}

static FUNCTION void coroutines(unsigned n)
{
    static char stacks[2][65536];
    unsigned i;

    for (i = 0; i < 2; i++) {
        getcontext(&resumed[i]);
        resumed[i].uc_stack.ss_sp = stacks[i];
        resumed[i].uc_stack.ss_size = sizeof(stacks[i]);
        resumed[i].uc_link = &resumed[2];
        makecontext(&resumed[i], (void (*)(void))coroutine, 2, i, n);
    }
    /* The first one that ends comes back here. */
    CALL(take_turn, 2, 0);
    sink++;
}

/* What a handler has called for what it has interrupted, as Go's does */

static FUNCTION __attribute__((used)) void injected_work(void)
{
    sink += 3;
}

void injected(void);
__asm__(".pushsection .text; .type injected, @function\n"
        "injected:\n"
        "pushf; push %rax; push %rcx; push %rdx; push %rsi; push %rdi\n"
        "push %r8; push %r9; push %r10; push %r11\n"
        "call injected_work\n"
        "pop %r11; pop %r10; pop %r9; pop %r8\n"
        "pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %rax; popf\n"
        "ret\n"
        ".size injected, . - injected; .popsection\n");

static void inject(int number, siginfo_t *info, void *context)
{
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

    (void)number;
    (void)info;
    count("interrupted", "injected");
    count("injected", "injected_work");
    regs[REG_RSP] -= 8;
    *(greg_t *)regs[REG_RSP] = regs[REG_RIP];
    regs[REG_RIP] = (greg_t)injected;
}

static FUNCTION void interrupted(void)
{
    long n = SYS_tkill;

    __asm__ volatile("syscall" : "+a" (n) : "D" (syscall(SYS_gettid)),
                     "S" (SIGUSR1) : "rcx", "r11", "memory");
    CALL(leaf, 1);
    sink++;
}

static FUNCTION void injections(unsigned n)
{
    const struct sigaction action = {
        .sa_sigaction = inject, .sa_flags = SA_SIGINFO,
    };

    sigaction(SIGUSR1, &action, NULL);
    while (n--) {
        CALL(interrupted);
    }
    sink++;
}

/*
 * Stacks as Go has them: who waits calls a scheduler, on another stack, which
 * jumps to who goes on, or to the function with which one begins.
 */

enum { GOROUTINES = 20, MAIN = GOROUTINES, GO_STACK = 32768 };

struct goroutine {
    void *sp;
    void *pc;
    unsigned done;
};

static struct goroutine goroutines[GOROUTINES + 1];
static struct goroutine *current;
__attribute__((used)) static char go_stacks[GOROUTINES + 1][GO_STACK]
    __attribute__((aligned(16)));

void mcall(struct goroutine *me, void (*function)(void));
void gogo(struct goroutine *next);
void goexit(void);
__asm__(".pushsection .text; .type mcall, @function\n"
        "mcall:\n"
        "pop 8(%rdi); mov %rsp, (%rdi); lea go_stacks+32768(%rip), %rsp\n"
        "call *%rsi; ud2\n"
        ".size mcall, . - mcall; .type gogo, @function\n"
        "gogo:\n"
        "mov (%rdi), %rsp; mov 8(%rdi), %rdi; jmp *%rdi\n"
        ".size gogo, . - gogo; .type goexit, @function\n"
        "goexit:\n"
        "nop; call goexit1\n"
        ".size goexit, . - goexit; .popsection\n");

static FUNCTION void schedule(void)
{
    static unsigned n;

    do {
        n = n * 1103515245 + 12345;
        current = &goroutines[(n >> 16) % (GOROUTINES + 1)];
    } while (current->done);
    gogo(current);
    sink++;
}

static FUNCTION __attribute__((used)) void goexit1(void)
{
    current->done = 1;
    mcall(current, schedule);
    sink++;
}

static FUNCTION void wait_turn(void)
{
    __asm__ volatile("sub $128, %%rsp; push %%rbp; push %%rbp; call mcall\n"
                     "pop %%rbp; pop %%rbp; add $128, %%rsp"
                     : : "D" (current), "S" (schedule)
                     : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11",
                       "r12", "r13", "r14", "r15", "memory", "cc");
    sink++;
}

static FUNCTION void goroutine_wait(void)
{
    CALL(wait_turn);
    sink++;
}

static FUNCTION void goroutine_work(unsigned n)
{
    sink += n;
    CALL(goroutine_wait);
}

static FUNCTION void goroutine(void)
{
    unsigned me = current - goroutines;

    for (unsigned i = 0; i < 10; i++) {
        /* From two places, so that some of them differ */
        if (me & 1) {
            CALL(goroutine_work, i);
        } else {
            CALL(goroutine_work, me);
            sink++;
        }
    }
}

static FUNCTION void scheduled(void)
{
    current = &goroutines[MAIN];
    for (unsigned i = 0; i < GOROUTINES; i++) {
        char *sp = go_stacks[i + 1] + GO_STACK - 8;

        *(void **)sp = (char *)goexit + 1;
        goroutines[i] = (struct goroutine) { sp, goroutine, 0 };
    }
    for (unsigned i = 0; i < GOROUTINES; i++) {
        while (!goroutines[i].done) {
            CALL(wait_turn);
        }
    }
    sink++;
}

/* Threads */

static FUNCTION void thread_work(unsigned i)
{
    sink += i;
}

static void *thread(void *opaque_n)
{
    unsigned n = (uintptr_t)opaque_n, i;
    char name[16];

    count_thread();
    snprintf(name, sizeof(name), "worker-%u", n);
    prctl(PR_SET_NAME, name);
    for (i = 0; i < n; i++) {
        CALL(thread_work, i);
    }
    return NULL;
}

static FUNCTION void threads(void)
{
    pthread_t t[3];
    unsigned i;

    for (i = 0; i < 3; i++) {
        if (pthread_create(&t[i], NULL, thread,
                           (void *)(uintptr_t)(1000 * (i + 1)))) {
            fail("pthread_create");
        }
    }
    for (i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
    }
}

/* Processes */

static FUNCTION void child_work(unsigned i)
{
    sink += i;
}

static FUNCTION void wait_for(pid_t pid)
{
    int status;

    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
        fail("a child");
    }
}

/* A child that is called so from the start */
static pid_t fork_as(const char *name)
{
    pid_t pid;

    prctl(PR_SET_NAME, name);
    pid = fork();
    if (pid) {
        prctl(PR_SET_NAME, "known");
    }
    return pid;
}

static FUNCTION void children(unsigned n)
{
    unsigned i, k;

    for (i = 0; i < n; i++) {
        pid_t pid = fork_as("child");

        if (!pid) {
            count_begin();
            for (k = 0; k < 100 * (i + 1); k++) {
                CALL(child_work, k);
            }
            count_print("child");
            _exit(0);
        }
        wait_for(pid);
    }
}

static FUNCTION void program(void)
{
    pid_t pid = fork();

    if (!pid) {
        execl("/bin/execed", "execed", "one", "two words", NULL);
        _exit(1);
    }
    wait_for(pid);
}

/* A pid and mount namespace of its own, as containers have */
static FUNCTION void container(void)
{
    pid_t pid = fork();
    unsigned k;

    if (!pid) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS)) {
            _exit(1);
        }
        pid = fork_as("contained");
        if (!pid) {
            count_begin();
            for (k = 0; k < 777; k++) {
                CALL(child_work, k);
            }
            if (getpid() != 1) {
                _exit(1);
            }
            count_print("contained");
            _exit(0);
        }
        /* What it is called outside */
        printf("BT: contained %d\n", (int)pid);
        fflush(stdout);
        wait_for(pid);
        _exit(0);
    }
    wait_for(pid);
}

/* A library that is loaded late */

static FUNCTION void plugin(unsigned n)
{
    void *library = dlopen("/lib/plugin.so", RTLD_NOW);
    unsigned (*work)(unsigned);
    unsigned i;

    if (!library) {
        fail(dlerror());
    }
    work = dlsym(library, "plugin_work");
    if (!work) {
        fail("plugin_work");
    }
    for (i = 0; i < n; i++) {
        count(__func__, "plugin_work");
        sink += work(i);
    }
    live();
    dlclose(library);
}

/*
 * Code that is made and changed while the program runs: a loop that calls
 * jit_callee() this many times.
 */

static FUNCTION void jit_callee(void)
{
    sink++;
}

static FUNCTION void jit(void)
{
    /* push rbx; mov ebx, n; l: mov rax, callee; call rax; dec ebx; jnz l;
     * pop rbx; ret */
    static const uint8_t code[] = {
        0x53, 0xbb, 0, 0, 0, 0, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0,
        0xff, 0xd0, 0xff, 0xcb, 0x75, 0xf0, 0x5b, 0xc3,
    };
    void (*callee)(void) = jit_callee;
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t n, i;

    if (page == MAP_FAILED) {
        fail("mmap");
    }
    memcpy(page, code, sizeof(code));
    memcpy(page + 8, &callee, sizeof(callee));
    for (n = 1; n <= 30; n++) {
        memcpy(page + 2, &n, sizeof(n));
        for (i = 0; i < n; i++) {
            count("[unknown]", "jit_callee");
        }
        ((void (*)(void))page)();
    }
    munmap(page, 4096);
}

static FUNCTION void work(void)
{
    CALL(middle, 500);
    CALL(middle, 700);
    CALL(pointers, 900);
    CALL(recursive, 12);
    CALL(call_tails, 300);
    CALL(jump_out, 200);
    CALL(signals, 50);
    CALL(signal_stack, 40);
    CALL(coroutines, 100);
    CALL(injections, 50);
    CALL(scheduled);
    CALL(threads);
    CALL(children, 3);
    CALL(program);
    CALL(container);
    CALL(plugin, 400);
    CALL(jit);
}

int main(void)
{
    count_begin();
    CALL(work);
    count_print("known");
    return 0;
}
