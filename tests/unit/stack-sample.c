/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that calls in all the ways there are, and says who called whom
 *
 * usage: stack-sample WHAT
 *
 * Prints "CALLER CALLEE COUNT" for each pair, by its own count.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define FUNCTION    __attribute__((noinline, noipa, used)) static

/* Keeps a call from becoming a jump. */
#define STAY        __asm__ volatile("" ::: "memory")

enum {
    RUN, LEAF, FIB, DEEP, CATCH, HANDLER, ESCAPE, TAIL, END, WORKER,
    SHARED, TAKE_TURNS, POINTERS, AGAIN, BEHIND,
    VICTIM, INJECTED, WORK, SECOND, RETRY,
    NONE, GOEXIT, GOROUTINE, ODD, EVEN, PARK, SCHEDULE, EXECUTE, START, N
};
static const char *const names[] = {
    "run", "leaf", "fib", "deep", "catch", "handler", "escape", "tail", "end",
    "worker", "shared", "take_turns", "pointers", "again", "behind",
    "victim", "injected", "work", "second", "retry",
    "[none]", "goexit1", "goroutine", "odd", "even", "park", "schedule",
    "execute", "start",
};
static unsigned counts[N][N];

FUNCTION void leaf(int caller)
{
    counts[caller][LEAF]++;
    STAY;
}

FUNCTION int fib(int caller, int n)
{
    int sum;

    counts[caller][FIB]++;
    if (n < 2) {
        leaf(FIB);
        return 1;
    }
    sum = fib(FIB, n - 1);
    STAY;
    sum += fib(FIB, n - 2);
    STAY;
    return sum;
}

static jmp_buf back;
static sigjmp_buf sigback;

FUNCTION void deep(int caller, int n)
{
    counts[caller][DEEP]++;
    if (n <= 0) {
        longjmp(back, 1);
    }
    if (n > 100) {
        return;
    }
    deep(DEEP, n - 1);
    STAY;
}

FUNCTION void catch(int caller, int n)
{
    counts[caller][CATCH]++;
    if (!setjmp(back)) {
        deep(CATCH, n);
    }
    leaf(CATCH);
    STAY;
}

FUNCTION void handler(int signal)
{
    leaf(HANDLER);
    STAY;
}

FUNCTION void escape(int signal)
{
    leaf(ESCAPE);
    siglongjmp(sigback, 1);
}

/* What a handler has called for the code that it has interrupted */
FUNCTION void work(void)
{
    counts[INJECTED][WORK]++;
    leaf(WORK);
    STAY;
}

void injected(void);
__asm__(".type injected, @function\n"
        "injected:\n"
        "pushf; push %rax; push %rcx; push %rdx; push %rsi; push %rdi\n"
        "push %r8; push %r9; push %r10; push %r11\n"
        "call work\n"
        "pop %r11; pop %r10; pop %r9; pop %r8\n"
        "pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %rax; popf\n"
        "ret\n"
        ".size injected, . - injected\n");

FUNCTION void inject(int signal, siginfo_t *info, void *context)
{
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

    counts[VICTIM][INJECTED]++;
    regs[REG_RSP] -= 8;
    *(greg_t *)regs[REG_RSP] = regs[REG_RIP];
    regs[REG_RIP] = (greg_t)injected;
}

/* This one comes when the other one has ended. */
FUNCTION void second(int signal)
{
    counts[VICTIM][SECOND]++;
    leaf(SECOND);
    STAY;
}

FUNCTION void wait_for_second(int signal, siginfo_t *info, void *context)
{
    raise(SIGUSR2);
    STAY;
}

/* The code continues in one of its callers. */
static ucontext_t retry_context;

FUNCTION void go_back(int signal, siginfo_t *info, void *context)
{
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    const greg_t *old = retry_context.uc_mcontext.gregs;

    memcpy(regs, old, (REG_RIP + 1) * sizeof(*regs));
}

FUNCTION void victim(int caller)
{
    long n = SYS_kill;

    counts[caller][VICTIM]++;
    __asm__ volatile("syscall" : "+a" (n) : "D" (getpid()), "S" (SIGUSR1)
                     : "rcx", "r11", "memory");
    leaf(VICTIM);
    STAY;
}

FUNCTION void retry(void)
{
    volatile int n = 0;

    getcontext(&retry_context);
    leaf(RETRY);
    if (n++ < 3) {
        victim(RETRY);
    }
    STAY;
}

FUNCTION void on_signal(void (*call)(int, siginfo_t *, void *))
{
    struct sigaction action = {
        .sa_sigaction = call, .sa_flags = SA_SIGINFO,
    };

    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, NULL);
}

/* The call of one is the end of the other. */
FUNCTION void end(int caller)
{
    counts[caller][END]++;
    leaf(END);
    STAY;
}

FUNCTION void tail(int caller)
{
    counts[caller][TAIL]++;
    leaf(TAIL);
    end(caller);
}

/* Calls through pointers: of others, of itself, and at the end of a function */
FUNCTION void again(int caller, int n);
static void (*volatile call_leaf)(int) = leaf;
static void (*volatile call_again)(int, int) = again;

FUNCTION void again(int caller, int n)
{
    counts[caller][AGAIN]++;
    if (n) {
        call_again(AGAIN, n - 1);
        STAY;
    }
    call_leaf(AGAIN);
    STAY;
}

FUNCTION void behind(int caller)
{
    counts[caller][BEHIND]++;
    leaf(BEHIND);
    call_leaf(caller);
}

static void (*volatile call_behind)(int) = behind;

FUNCTION void pointers(void)
{
    int i;

    for (i = 0; i < 6; i++) {
        call_leaf(POINTERS);
        call_again(POINTERS, i);
        behind(POINTERS);
        call_behind(POINTERS);
        STAY;
    }
}

/* Stacks that take turns */
#define WORKERS 3
static ucontext_t main_context, contexts[WORKERS];
static char stacks[WORKERS][65536];

FUNCTION void shared(int caller, int me)
{
    counts[caller][SHARED]++;
    leaf(SHARED);
    swapcontext(&contexts[me], &main_context);
    leaf(SHARED);
    STAY;
}

FUNCTION void worker(int me)
{
    int i;

    for (i = 0; i < 4; i++) {
        leaf(WORKER);
        /* From two places, so that stacks differ */
        if (me & 1) {
            shared(WORKER, me);
        } else {
            shared(WORKER, me);
            STAY;
            leaf(WORKER);
        }
    }
    for (;;) {
        swapcontext(&contexts[me], &main_context);
    }
}

FUNCTION void take_turns(void)
{
    int i, k;

    for (i = 0; i < WORKERS; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i];
        contexts[i].uc_stack.ss_size = sizeof(stacks[i]);
        makecontext(&contexts[i], (void (*)(void))worker, 1, i);
    }
    for (k = 0; k < 5; k++) {
        for (i = 0; i < WORKERS; i++) {
            swapcontext(&main_context, &contexts[i]);
            leaf(TAKE_TURNS);
        }
    }
}

/*
 * Stacks as Go's runtime has them: what parks calls a scheduler on another
 * stack, and that jumps to what continues, or to the start of a function.
 */
struct goroutine {
    char *sp;
    void *pc;
    int done;
};
static struct goroutine goroutines[WORKERS + 1];
static struct goroutine *current = &goroutines[WORKERS];
static char goroutine_stacks[WORKERS][65536] __attribute__((aligned(16)));
char scheduler_stack[65536] __attribute__((aligned(16)));

void mcall(struct goroutine *me, void (*call)(void));
void gogo(struct goroutine *next);
void goexit(void);
__asm__(".type mcall, @function\n"
        "mcall:\n"
        "pop %rax; mov %rax, 8(%rdi); mov %rsp, (%rdi)\n"
        "lea scheduler_stack+65536(%rip), %rsp\n"
        "call *%rsi\n"
        "ud2\n"
        ".size mcall, . - mcall\n"
        ".type gogo, @function\n"
        "gogo:\n"
        "mov (%rdi), %rsp; mov 8(%rdi), %rdi; jmp *%rdi\n"
        ".size gogo, . - gogo\n"
        ".type goexit, @function\n"
        "goexit:\n"
        "nop\n"
        "call goexit1\n"
        ".size goexit, . - goexit\n");

FUNCTION void execute(struct goroutine *next)
{
    counts[SCHEDULE][EXECUTE]++;
    current = next;
    gogo(next);
    STAY;
}

/* Not in the order in which they have parked */
FUNCTION void schedule(void)
{
    static unsigned n;
    struct goroutine *next;

    leaf(SCHEDULE);
    do {
        n = n * 1103515245 + 12345;
        next = &goroutines[(n >> 16) % (WORKERS + 1)];
    } while (next->done || (next == &goroutines[WORKERS] && n >> 29));
    execute(next);
    STAY;
}

FUNCTION void goexit1(void)
{
    leaf(GOEXIT);
    current->done = 1;
    mcall(current, schedule);
    STAY;
}

FUNCTION void park(int caller)
{
    counts[caller][PARK]++;
    __asm__ volatile("sub $128, %%rsp; push %%rbp; push %%rbp\n"
                     "call mcall\n"
                     "pop %%rbp; pop %%rbp; add $128, %%rsp"
                     : : "D" (current), "S" (schedule)
                     : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11",
                       "r12", "r13", "r14", "r15", "memory", "cc");
    leaf(PARK);
    STAY;
}

FUNCTION void odd(int caller, int n)
{
    counts[caller][ODD]++;
    if (n) {
        odd(ODD, n - 1);
        STAY;
    }
    park(ODD);
    leaf(ODD);
    STAY;
}

FUNCTION void even(int caller)
{
    counts[caller][EVEN]++;
    park(EVEN);
    leaf(EVEN);
    STAY;
}

FUNCTION void goroutine(void)
{
    int me = current - goroutines;

    counts[NONE][GOROUTINE]++;
    for (int i = 0; i < 4; i++) {
        /* From two places, so that stacks differ */
        if (me & 1) {
            odd(GOROUTINE, i);
        } else if (me) {
            even(GOROUTINE);
        } else {
            even(GOROUTINE);
            STAY;
            leaf(GOROUTINE);
        }
        leaf(GOROUTINE);
    }
    STAY;
}

FUNCTION void start(int caller)
{
    counts[caller][START]++;
    for (int i = 0; i < WORKERS; i++) {
        char *sp = goroutine_stacks[i] + sizeof(goroutine_stacks[i]) - 8;

        *(void **)sp = (char *)goexit + 1;
        goroutines[i] = (struct goroutine) { sp, goroutine, 0 };
    }
    for (int i = 0; i < WORKERS; i++) {
        while (!goroutines[i].done) {
            park(START);
        }
    }
    leaf(START);
    STAY;
}

FUNCTION void run(const char *what)
{
    int i;

    if (!strcmp(what, "recursion")) {
        fib(RUN, 9);
    } else if (!strcmp(what, "longjmp")) {
        for (i = 0; i < 5; i++) {
            catch(RUN, i);
            leaf(RUN);
        }
    } else if (!strcmp(what, "signals")) {
        signal(SIGUSR1, handler);
        for (i = 0; i < 4; i++) {
            raise(SIGUSR1);
            leaf(RUN);
        }
        signal(SIGUSR1, escape);
        for (i = 0; i < 4; i++) {
            if (!sigsetjmp(sigback, 1)) {
                raise(SIGUSR1);
            }
            leaf(RUN);
        }
    } else if (!strcmp(what, "injected")) {
        on_signal(inject);
        for (i = 0; i < 4; i++) {
            victim(RUN);
            leaf(RUN);
        }
    } else if (!strcmp(what, "second")) {
        signal(SIGUSR2, second);
        on_signal(wait_for_second);
        for (i = 0; i < 4; i++) {
            victim(RUN);
            leaf(RUN);
        }
    } else if (!strcmp(what, "retry")) {
        on_signal(go_back);
        retry();
        leaf(RUN);
    } else if (!strcmp(what, "tail")) {
        for (i = 0; i < 4; i++) {
            tail(RUN);
            STAY;
        }
    } else if (!strcmp(what, "pointers")) {
        pointers();
    } else if (!strcmp(what, "stacks")) {
        take_turns();
    } else if (!strcmp(what, "goroutines")) {
        start(RUN);
        start(RUN);
    }
    STAY;
}

int main(int argc, char **argv)
{
    int i, k;

    run(argc > 1 ? argv[1] : "");
    for (i = 0; i < N; i++) {
        for (k = 0; k < N; k++) {
            if (counts[i][k]) {
                printf("%s %s %u\n", names[i], names[k], counts[i][k]);
            }
        }
    }
    return fflush(stdout);
}
