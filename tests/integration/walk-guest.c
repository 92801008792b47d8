/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The init of a guest whose calls are known, for the test walk
 */

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define CODE    ((unsigned char *)0x20000000)

static const char greeting[] = "known to all";
static volatile int sum;

__attribute__((noinline)) static void leaf(int x)
{
    sum += x;
}

__attribute__((noinline)) static void twice(int x)
{
    leaf(x);
    leaf(x + 1);
}

__attribute__((noinline)) static int down(int n)
{
    if (n == 0) {
        leaf(100);
        return 0;
    }
    return down(n - 1) + 1;
}

/* Long enough that no window has all of it */
__attribute__((noinline)) static void spin(int n)
{
    for (int i = 0; i < n; i++) {
        leaf(i);
    }
}

__attribute__((noinline)) static long ask(void)
{
    return syscall(SYS_getppid);
}

/* mov $value, %eax; ret */
__attribute__((noinline)) static int made(int value)
{
    unsigned char bytes[] = { 0xb8, 0, 0, 0, 0, 0xc3 };

    memcpy(bytes + 1, &value, sizeof(value));
    memcpy(CODE, bytes, sizeof(bytes));
    return ((int (*)(void))CODE)();
}

__attribute__((noinline)) static void known(void)
{
    twice(1);
    down(3);
    spin(20000);
    ask();
    sum += made(7);
    sum += made(300);
    twice(2);
}

/* Calls that end by a jump to one of their callers */
static jmp_buf env;

__attribute__((noinline)) static void fall(int n)
{
    if (n == 0) {
        longjmp(env, 1);
    }
    if (n < 100) {
        fall(n - 1);
    }
    leaf(n);
}

__attribute__((noinline)) static void jumper(void)
{
    if (!setjmp(env)) {
        fall(3);
    }
    leaf(50);
}

/* Two stacks, of which the other one continues in between */
static ucontext_t mine, theirs;
static char stack[65536];

__attribute__((noinline)) static void give(int n)
{
    leaf(n);
    swapcontext(&theirs, &mine);
    leaf(n + 60);
}

static void body(void)
{
    give(1);
    give(2);
}

__attribute__((noinline)) static void take(int n)
{
    leaf(n);
    swapcontext(&mine, &theirs);
    leaf(n + 70);
}

__attribute__((noinline)) static void turns(void)
{
    getcontext(&theirs);
    theirs.uc_stack.ss_sp = stack;
    theirs.uc_stack.ss_size = sizeof(stack);
    theirs.uc_link = &mine;
    makecontext(&theirs, body, 0);
    take(1);
    take(2);
    take(3);
}

/* Handlers: one returns, and one does not */
static sigjmp_buf sigenv;

static void handle(int number)
{
    leaf(number);
}

static void escape(int number)
{
    siglongjmp(sigenv, number);
}

__attribute__((noinline)) static void signalled(void)
{
    signal(SIGUSR1, handle);
    raise(SIGUSR1);
    leaf(80);
}

__attribute__((noinline)) static void escaped(void)
{
    signal(SIGUSR2, escape);
    if (!sigsetjmp(sigenv, 1)) {
        raise(SIGUSR2);
    }
    leaf(90);
}

__attribute__((noinline)) static void odd(void)
{
    jumper();
    turns();
    signalled();
    escaped();
    twice(3);
}

/* So many that not each is found by a snapshot before it ends */
#define CHILDREN    24

/* Of a process that ends, whose program is this one at other addresses */
__attribute__((noinline)) static void give_up(void)
{
    leaf(1000);
}

static void run(const char *program)
{
    pid_t child = fork();

    if (child == 0) {
        execl(program, "child", "gives up", NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[0], "child")) {
        give_up();
        return 0;
    }

    mount("dev", "/dev", "devtmpfs", 0, NULL);
    mmap(CODE, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    /* The agent has to find the kernel first, to have tasks named. */
    sleep(3);
    known();
    odd();
    printf("BT: %s sum=%d\n", greeting, sum);
    fflush(stdout);
    for (int i = 0; i < CHILDREN; i++) {
        run("/child");
    }
    run("/throws-O0");
    run("/throws-O2");
    sleep(1);
    reboot(RB_POWER_OFF);
    return 0;
}
