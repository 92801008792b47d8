/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first process of the guest that tests/integration/plugged traces
 *
 * It does what lines on the console say:
 *   online MODE  with the next memory that is plugged in
 *   start N      this many workers, which say where their memory is, and live
 *                until the guest ends
 */

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE        4096ul
#define PRESENT     (UINT64_C(1) << 63)
#define FRAME       ((UINT64_C(1) << 55) - 1)

static char data[2 * PAGE] = "data";

static void fail(const char *what)
{
    printf("BT: error %s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(1);
}

/* Reads a small file; NULL if that fails. */
static char *get(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY);
    size_t n = 0;
    ssize_t got;

    if (fd < 0) {
        return NULL;
    }
    while (n < size - 1 && (got = read(fd, buf + n, size - 1 - n)) > 0) {
        n += (size_t)got;
    }
    close(fd);
    buf[n] = 0;
    return buf;
}

static int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    int ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* The physical address of a page of this process */
static uint64_t frame(const void *p)
{
    int fd = open("/proc/self/pagemap", O_RDONLY);
    uint64_t entry;

    if (fd < 0 || pread(fd, &entry, sizeof(entry), (uintptr_t)p / PAGE *
                        sizeof(entry)) != sizeof(entry) ||
        !(entry & PRESENT)) {
        fail("pagemap");
    }
    close(fd);
    return (entry & FRAME) * PAGE;
}

static void online(const char *mode)
{
    char buf[64], path[128];
    glob_t found;

    for (;;) {
        if (!glob("/sys/devices/system/memory/memory*", 0, NULL, &found)) {
            for (size_t i = 0; i < found.gl_pathc; i++) {
                snprintf(path, sizeof(path), "%s/state", found.gl_pathv[i]);
                if (!get(path, buf, sizeof(buf)) || strcmp(buf, "offline\n")) {
                    continue;
                }
                if (!put(path, mode)) {
                    fail(path);
                }
                snprintf(path, sizeof(path), "%s/valid_zones",
                         found.gl_pathv[i]);
                printf("BT: online %s", get(path, buf, sizeof(buf)));
                globfree(&found);
                return;
            }
            globfree(&found);
        }
        usleep(50000);
    }
}

/* Says all at once, since others do the same. */
static void tell(void)
{
    static char text[32768], maps[16384];
    char *line, *rest = maps;
    size_t n;

    /* What is written has a page of its own. */
    data[PAGE] = 1;
    n = (size_t)snprintf(text, sizeof(text),
                         "BT: frames %d %llx %llx %llx\n", getpid(),
                         (unsigned long long)frame((void *)(uintptr_t)tell),
                         (unsigned long long)frame(&data[PAGE]),
                         (unsigned long long)frame(&rest));
    get("/proc/self/maps", maps, sizeof(maps));
    while ((line = strsep(&rest, "\n")) && *line) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "BT: map %d %s\n",
                              getpid(), line);
    }
    n += (size_t)snprintf(text + n, sizeof(text) - n, "BT: worker %d\n",
                          getpid());
    if (write(1, text, n) != (ssize_t)n) {
        fail("write");
    }
}

static void work(void)
{
    char name[16];

    snprintf(name, sizeof(name), "w-%d", getpid());
    prctl(PR_SET_NAME, name, 0, 0, 0);
    tell();
    for (;;) {
        usleep(20000);
    }
}

int main(int argc, char **argv)
{
    char line[64];
    int fd;

    if (argc > 1) {
        work();
    }
    mkdir("/dev", 0755);
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mount("dev", "/dev", "devtmpfs", 0, NULL);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sys", "/sys", "sysfs", 0, NULL);
    fd = open("/dev/console", O_RDWR);
    dup2(fd, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    printf("BT: ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "online ", 7)) {
            online(line + 7);
        } else if (!strncmp(line, "start ", 6)) {
            for (int n = atoi(line + 6); n; n--) {
                if (!fork()) {
                    execl("/worker", "worker", "", NULL);
                    fail("/worker");
                }
            }
        }
        fflush(stdout);
    }
    return 0;
}
