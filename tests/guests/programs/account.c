// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * account NUMBER [tasks]: the guest's own account of itself, in pages of its
 * memory; with tasks, all but the kernel's symbols, which are many
 *
 * Each page begins with "BT: page", NUMBER and the page's number.  What follows
 * are texts with a line "NAME SIZE" before each one.  When all are there, the
 * serial port says so, and the pages stay until a line comes from there.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "programs.h"

#define PAGE 4096
#define HEAD 16
#define MAX_SIZE (256u << 20)

static unsigned char *pages;
static uint32_t number;
static uint32_t n_pages;
static uint64_t size;

static void put(const void *data, size_t n)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < n; i++) {
        size_t in_page = size % (PAGE - HEAD);

        if (in_page == 0) {
            unsigned char *page = pages + (size_t)n_pages * PAGE;

            if ((n_pages + 1) * (uint64_t)PAGE > MAX_SIZE) {
                die("too long an account");
            }
            memcpy(page, "BT: page", 8);
            memcpy(page + 8, &number, 4);
            memcpy(page + 12, &n_pages, 4);
            n_pages++;
        }
        pages[(size_t)(n_pages - 1) * PAGE + HEAD + in_page] = at[i];
        size++;
    }
}

/* Adds to a text, whose size comes before it. */
struct text {
    char *data;
    size_t size, room;
};

static void add(struct text *t, const void *data, size_t n)
{
    if (t->size + n > t->room) {
        t->room = 2 * (t->size + n);
        t->data = realloc(t->data, t->room);
        if (!t->data) {
            die("realloc");
        }
    }
    memcpy(t->data + t->size, data, n);
    t->size += n;
}

static void add_line(struct text *t, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    add(t, line, vsnprintf(line, sizeof(line), format, args));
    va_end(args);
}

static void add_file(struct text *t, const char *path)
{
    static char buffer[65536];
    int fd = open(path, O_RDONLY);
    ssize_t n;

    if (fd < 0) {
        return;
    }
    while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
        add(t, buffer, n);
    }
    close(fd);
}

static void say(const char *name, struct text *t)
{
    char head[64];

    put(head, snprintf(head, sizeof(head), "%s %zu\n", name, t->size));
    put(t->data, t->size);
    free(t->data);
    memset(t, 0, sizeof(*t));
}

/* A line "PID TID COMM" for each thread */
static void add_threads(struct text *t)
{
    char path[600];
    DIR *proc = opendir("/proc");
    struct dirent *p, *q;

    while (proc && (p = readdir(proc))) {
        DIR *tasks;

        snprintf(path, sizeof(path), "/proc/%s/task", p->d_name);
        tasks = atoi(p->d_name) ? opendir(path) : NULL;
        while (tasks && (q = readdir(tasks))) {
            if (atoi(q->d_name)) {
                add_line(t, "%s %s ", p->d_name, q->d_name);
                snprintf(path, sizeof(path), "/proc/%s/task/%s/comm", p->d_name,
                         q->d_name);
                add_file(t, path);
            }
        }
        if (tasks) {
            closedir(tasks);
        }
    }
    if (proc) {
        closedir(proc);
    }
}

int account_main(int argc, char **argv)
{
    static const char *const files[][2] = {
        { "kallsyms", "/proc/kallsyms" },
        { "modules", "/proc/modules" },
        { "mounts", "/proc/self/mountinfo" },
        { "boot", "/tmp/boot-trace" },
        { "trace", "/sys/kernel/tracing/instances/tasks/trace" },
    };
    struct text t = { 0 };

    number = argc > 1 ? atoi(argv[1]) : 0;
    pages = mmap(NULL, MAX_SIZE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
        die("mmap");
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        if (i != 0 || argc == 2) {
            add_file(&t, files[i][1]);
        }
        say(files[i][0], &t);
    }
    add_threads(&t);
    say("threads", &t);
    printf("BT: account %u %llu\n", number, (unsigned long long)size);
    fflush(stdout);
    getchar();
    return 0;
}
