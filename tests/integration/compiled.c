/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first process of a guest in which programs compile functions at run time
 *
 * Each writes down what it compiles, as a compiler does (perf-PID.map), calls it
 * as often as it says in the end, and compiles something else into the same
 * memory.  One of them ends at once when it has compiled its last function, one
 * has a map that somebody else has written.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUNCTIONS   40
#define SIZE        64
#define PORT        "/dev/vport0p1"
#define NAMES       "/backtrail-guest-names"

static void fail(const char *what)
{
    printf("BT: error %s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(1);
}

/* A function that a branch leaves and a branch comes back to, so often */
static void put(unsigned char *at, unsigned n)
{
    static const unsigned char code[] = {
        0xb8, 0, 0, 0, 0,       /* mov $n, %eax */
        0xff, 0xc8,             /* 1: dec %eax */
        0x75, 0xfc,             /* jnz 1b */
        0xc3,                   /* ret */
    };

    memset(at, 0xcc, SIZE);
    memcpy(at, code, sizeof(code));
    memcpy(at + 1, &n, sizeof(n));
}

static void compile(const char *name, int foreign)
{
    unsigned char *code = mmap(NULL, FUNCTIONS * SIZE, PROT_READ | PROT_WRITE |
                               PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char path[64];
    FILE *map;

    if (code == MAP_FAILED) {
        fail("mmap");
    }
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
    map = fopen(path, "w");
    if (!map) {
        fail(path);
    }
    setlinebuf(map);
    if (foreign && chown(path, 1000, 1000)) {
        fail("chown");
    }
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        unsigned char *at = code + i * SIZE;

        put(at, 1000 + i);
        fprintf(map, "%lx %x %s_%u%s\n", (unsigned long)at, SIZE, name, i,
                i ? "" : " file.js:1:2");
        printf("BT: map %d %lx %x %s_%u\n", (int)getpid(), (unsigned long)at,
               SIZE, name, i);
        for (unsigned n = 0; n < 3 * i + 1; n++) {
            ((void (*)(void))at)();
        }
        printf("BT: called %d %s_%u %u\n", (int)getpid(), name, i, 3 * i + 1);
        usleep(20000);
    }
    fflush(stdout);
    fclose(map);
    /*
     * Whose the last branches of a vCPU are is known when it runs again before
     * the process ends.
     */
    sleep(3);
}

static void start_names(void)
{
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sys", "/sys", "sysfs", 0, NULL);
    if (!fork()) {
        execl(NAMES, NAMES, "--path", PORT, NULL);
        fail(NAMES);
    }
}

int main(void)
{
    static const char *const names[] = { "one", "two", "foreign" };
    pid_t pids[3];
    char line[8];
    int fd;

    mkdir("/dev", 0755);
    mkdir("/tmp", 01777);
    mount("dev", "/dev", "devtmpfs", 0, NULL);
    fd = open("/dev/console", O_RDWR);
    dup2(fd, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    start_names();
    printf("BT: ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin)) {
        fail("line");
    }
    for (unsigned i = 0; i < 3; i++) {
        pids[i] = fork();
        if (!pids[i]) {
            compile(names[i], i == 2);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < 3; i++) {
        waitpid(pids[i], NULL, 0);
    }
    printf("BT: end\n");
    fflush(stdout);
    sleep(60);
    reboot(RB_POWER_OFF);
    return 0;
}
