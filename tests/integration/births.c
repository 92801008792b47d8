/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first process of the guest that tests/integration/names traces
 *
 * Some processes live as long as it, others are born and die all the time, so
 * that page tables are used again and again.  Each calls a page of its own all
 * the while, at 2^32 + 4096 * pid: so a branch there says which process it is.
 * If there is a port for names, backtrail-guest-names runs, unless the kernel's
 * command line has names=off.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS     3
#define PARENTS     3
#define CALLS       50
#define RET         0xc3
#define PORT        "/dev/vport0p1"
#define NAMES       "/backtrail-guest-names"

static void (*beacon(void))(void)
{
    unsigned char *p = (unsigned char *)(0x100000000ul + 4096ul * getpid());

    if (mmap(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p) {
        printf("BT: error mmap: %s\n", strerror(errno));
        fflush(stdout);
        _exit(1);
    }
    *p = RET;
    return (void (*)(void))p;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void call_some(void (*call)(void))
{
    int i;

    for (i = 0; i < CALLS; i++) {
        call();
    }
}

static void live(double seconds)
{
    void (*call)(void) = beacon();
    double end = now() + seconds;

    do {
        call_some(call);
    } while (now() < end);
}

/* Until it is killed */
static void work(void)
{
    void (*call)(void) = beacon();

    for (;;) {
        call_some(call);
        usleep(1000);
    }
}

static void be_parent(int births, unsigned seed)
{
    while (births--) {
        double life = (rand_r(&seed) % 20) / 1000.0;
        int other = rand_r(&seed) % 4 == 0;

        if (!fork()) {
            live(life);
            if (other) {
                execl("/init", "init", "again", NULL);
            }
            _exit(0);
        }
        wait(NULL);
    }
}

/* Returns whether names are said. */
static int start_names(void)
{
    const char *word = getenv("names");

    if (access(PORT, F_OK) || (word && !strcmp(word, "off"))) {
        return 0;
    }
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sys", "/sys", "sysfs", 0, NULL);
    if (!fork()) {
        execl(NAMES, NAMES, "--path", PORT, NULL);
        printf("BT: error " NAMES ": %s\n", strerror(errno));
        fflush(stdout);
        _exit(1);
    }
    return 1;
}

int main(int argc, char **argv)
{
    char line[64];
    pid_t pids[WORKERS + PARENTS];
    int births, fd, i, names;

    if (argc > 1) {
        live(0.002);
        return 0;
    }
    mkdir("/dev", 0755);
    mount("dev", "/dev", "devtmpfs", 0, NULL);
    fd = open("/dev/console", O_RDWR);
    dup2(fd, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    names = start_names();
    printf("BT: ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin)) {
        printf("BT: error no line\n");
    }
    births = atoi(line);
    for (i = 0; i < WORKERS + PARENTS; i++) {
        pids[i] = fork();
        if (!pids[i]) {
            if (i < WORKERS) {
                work();
            }
            be_parent(births, i);
            _exit(0);
        }
        if (i < WORKERS) {
            printf("BT: worker %d\n", (int)pids[i]);
        }
    }
    printf("BT: go\n");
    fflush(stdout);
    for (i = WORKERS; i < WORKERS + PARENTS; i++) {
        waitpid(pids[i], NULL, 0);
    }
    for (i = 0; i < WORKERS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    printf("BT: end\n");
    fflush(stdout);
    /* The names of the last ones may still have to be said. */
    sleep(names ? 60 : 1);
    reboot(RB_POWER_OFF);
    return 0;
}
