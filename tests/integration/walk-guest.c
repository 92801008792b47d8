/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The init of a guest whose calls are known, for the test walk
 */

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

/* Of a process that ends, whose program is this one at other addresses */
__attribute__((noinline)) static void give_up(void)
{
    leaf(1000);
}

static void run_child(void)
{
    pid_t child = fork();

    if (child == 0) {
        execl("/child", "child", "gives up", NULL);
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
    printf("BT: %s sum=%d\n", greeting, sum);
    fflush(stdout);
    run_child();
    sleep(1);
    reboot(RB_POWER_OFF);
    return 0;
}
