/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes as /proc has them: see proc.h
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backtrail/names.h"

#include "elf-note.h"
#include "functions.h"
#include "proc.h"
#include "tsc.h"

/* Of the system and of a process; the kernel's limit of both is higher. */
#define PIDS_MAX        (1u << 16)
#define THREADS_MAX     4096
#define MAPPINGS_MAX    4096

/* Files of which the build-id is known */
#define IDS             512

/* PF_KTHREAD of the kernel, which /proc shows since 2.6 */
#define TASK_KERNEL     0x00200000u

struct known_id {
    uint64_t inode;
    uint32_t device;
    uint32_t size;
    uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX];
};

struct stat_line {
    char comm[BTRAIL_GUEST_COMM_MAX];
    uint32_t comm_size;
    uint32_t parent;
    uint32_t flags;
    uint64_t start_time;
};

static struct known_id ids[IDS];

/* Reads a file of /proc as it is now; returns bytes, or -1. */
static ssize_t read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got = fd < 0 ? -1 : 1;

    while (got > 0 && n < size) {
        got = read(fd, text + n, size - n);
        n += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    return got < 0 ? -1 : (ssize_t)n;
}

static uint64_t tick_ns(void)
{
    return 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* The name can have blanks and parentheses: it ends with the last one. */
static bool read_stat(const char *path, struct stat_line *s)
{
    char text[2048];
    ssize_t n = read_file(path, text, sizeof(text) - 1);
    unsigned long long start;
    char *begin, *end;
    size_t size;

    if (n <= 0) {
        return false;
    }
    text[n] = 0;
    begin = strchr(text, '(');
    end = strrchr(text, ')');
    if (!begin || !end || end < begin ||
        sscanf(end + 1, " %*c %u %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u "
               "%*d %*d %*d %*d %*d %*d %llu", &s->parent, &s->flags,
               &start) != 3) {
        return false;
    }
    size = (size_t)(end - begin - 1);
    s->comm_size = (uint32_t)(size < sizeof(s->comm) ? size : sizeof(s->comm));
    memcpy(s->comm, begin + 1, s->comm_size);
    s->start_time = start * tick_ns();
    return true;
}

unsigned proc_build_id(uint32_t pid, const char *path, uint32_t device,
                       uint64_t inode, uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX])
{
    struct known_id *known = &ids[(inode ^ device * 31u) % IDS];
    char full[BTRAIL_GUEST_PATH_MAX + 64];

    if (!inode || *path != '/') {
        return 0;
    }
    if (known->inode != inode || known->device != device) {
        /* The process can have another root. */
        if (snprintf(full, sizeof(full), "/proc/%u/root%s", pid, path) >=
            (int)sizeof(full)) {
            return 0;
        }
        known->size = elf_note_build_id(full, inode, known->id);
        known->inode = inode;
        known->device = device;
    }
    memcpy(id, known->id, known->size);
    return known->size;
}

bool proc_cut_deleted(char *path)
{
    static const char end[] = " (deleted)";
    size_t n = strlen(path), cut = sizeof(end) - 1;

    if (n > cut && *path == '/' && !strcmp(path + n - cut, end)) {
        path[n - cut] = 0;
        return true;
    }
    return false;
}

bool proc_is_anonymous(const char *path)
{
    return !*path || !strncmp(path, "[anon", 5) || !strcmp(path, "[heap]") ||
           !strncmp(path, "/memfd:", 7) || !strcmp(path, "/dev/zero");
}

/* In /proc, a newline is \012. */
static void unescape(char *text)
{
    char *to = text;

    for (; *text; to++) {
        if (!strncmp(text, "\\012", 4)) {
            *to = '\n';
            text += 4;
        } else {
            *to = *text++;
        }
    }
    *to = 0;
}

static bool put_mapping(struct outbox *out, uint32_t pid, uint64_t time,
                        char *line)
{
    struct btrail_guest_mapping m = { .time = time, .pid = pid };
    uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX];
    unsigned long long start, end, offset, inode;
    unsigned major, minor;
    char access[5];
    char *path;
    int at = 0;

    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, access,
               &offset, &major, &minor, &inode, &at) < 7 || !at ||
        strlen(access) != 4 || access[2] != 'x' || start >= end ||
        start >> 63) {
        return true;
    }
    path = line + at;
    m.start = start;
    m.end = end;
    m.offset = offset;
    m.flags = BTRAIL_MAPPING_EXEC |
              (access[0] == 'r' ? BTRAIL_MAPPING_READ : 0) |
              (access[1] == 'w' ? BTRAIL_MAPPING_WRITE : 0) |
              (access[3] == 's' ? BTRAIL_MAPPING_SHARED : 0) |
              (inode ? BTRAIL_MAPPING_FILE : 0) |
              (inode && proc_cut_deleted(path) ? BTRAIL_MAPPING_DELETED : 0);
    unescape(path);
    m.path_size = (uint32_t)strlen(path);
    if (m.path_size >= BTRAIL_GUEST_PATH_MAX) {
        m.path_size = 0;
    }
    if (proc_is_anonymous(path)) {
        functions_watch(pid);
    }
    if (!(m.flags & BTRAIL_MAPPING_DELETED)) {
        m.build_id_size = proc_build_id(pid, path, major << 20 | minor, inode,
                                        id);
    }
    return outbox_put(out, BTRAIL_GUEST_MAPPING, &m, sizeof(m),
                      (struct outbox_text) { path, m.path_size },
                      (struct outbox_text) { id, m.build_id_size },
                      OUTBOX_KEEP_EVENTS);
}

static void put_mappings(struct outbox *out, uint32_t pid, uint64_t time)
{
    char path[32], *line = NULL;
    size_t size = 0;
    unsigned n = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%u/maps", pid);
    file = fopen(path, "re");
    while (file && getline(&line, &size, file) > 0) {
        if (n++ == MAPPINGS_MAX || !put_mapping(out, pid, time, line)) {
            outbox_lost(out, BTRAIL_GUEST_LOST_LIST, 1);
            break;
        }
    }
    free(line);
    if (file) {
        fclose(file);
    }
}

static void put_threads(struct outbox *out, uint32_t pid, uint64_t time)
{
    char path[64];
    const struct dirent *entry;
    unsigned n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        unsigned long tid = strtoul(entry->d_name, NULL, 10);
        struct btrail_guest_thread t = {
            .time = time, .pid = pid, .tid = (uint32_t)tid,
        };
        struct stat_line s;

        snprintf(path, sizeof(path), "/proc/%u/task/%lu/stat", pid, tid);
        if (!tid || !read_stat(path, &s)) {
            continue;
        }
        t.start_time = s.start_time;
        t.comm_size = s.comm_size;
        if (n++ == THREADS_MAX ||
            !outbox_put(out, BTRAIL_GUEST_THREAD, &t, sizeof(t),
                        (struct outbox_text) { s.comm, s.comm_size },
                        (struct outbox_text) { 0 }, OUTBOX_KEEP_EVENTS)) {
            outbox_lost(out, BTRAIL_GUEST_LOST_LIST, 1);
            break;
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* The TSC when a process had certainly been created: /proc counts ticks. */
static uint64_t begin_of(const struct tsc_clock *clock, uint64_t start_time)
{
    struct timespec t;
    uint64_t boot, age;

    clock_gettime(CLOCK_BOOTTIME, &t);
    boot = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    start_time += tick_ns();
    age = boot > start_time ? boot - start_time : 0;
    return tsc_clock_before(clock, tsc_clock_ns() - age);
}

bool proc_describe(struct outbox *out, const struct tsc_clock *clock,
                   uint32_t pid, size_t keep)
{
    struct btrail_guest_process p = { .time = tsc_now(), .pid = pid };
    /* The path and the arguments, which are one text of the message */
    char path[32], text[BTRAIL_GUEST_PATH_MAX + BTRAIL_GUEST_COMMAND_MAX];
    struct stat_line s;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    if (!read_stat(path, &s)) {
        return true;
    }
    p.parent = s.parent;
    p.start_time = s.start_time;
    p.begin = begin_of(clock, s.start_time);
    p.comm_size = s.comm_size;
    p.flags = s.flags & TASK_KERNEL ? BTRAIL_GUEST_PROCESS_KERNEL : 0;
    snprintf(path, sizeof(path), "/proc/%u/exe", pid);
    n = readlink(path, text, BTRAIL_GUEST_PATH_MAX - 1);
    p.exe_size = n > 0 ? (uint32_t)n : 0;
    if (p.exe_size) {
        text[p.exe_size] = 0;
        proc_cut_deleted(text);
        p.exe_size = (uint32_t)strlen(text);
    }
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    n = read_file(path, text + p.exe_size, BTRAIL_GUEST_COMMAND_MAX);
    p.command_size = n > 0 ? (uint32_t)n : 0;
    if (!outbox_put(out, BTRAIL_GUEST_PROCESS, &p, sizeof(p),
                    (struct outbox_text) { s.comm, s.comm_size },
                    (struct outbox_text) { text, p.exe_size + p.command_size },
                    keep)) {
        return false;
    }
    put_threads(out, pid, p.time);
    if (!(p.flags & BTRAIL_GUEST_PROCESS_KERNEL)) {
        put_mappings(out, pid, p.time);
    }
    return true;
}

void proc_list_begin(struct proc_list *list)
{
    const struct dirent *entry;
    DIR *dir = opendir("/proc");

    proc_list_end(list);
    list->time = tsc_now();
    list->pids = malloc(PIDS_MAX * sizeof(*list->pids));
    while (dir && list->pids && list->n < PIDS_MAX && (entry = readdir(dir))) {
        unsigned long pid = strtoul(entry->d_name, NULL, 10);

        if (pid) {
            list->pids[list->n++] = (uint32_t)pid;
        }
    }
    if (dir) {
        closedir(dir);
    }
    list->active = list->pids;
}

static bool put_listing(const struct proc_list *list, struct outbox *out,
                        uint32_t end)
{
    struct btrail_guest_listing l = {
        .time = end ? tsc_now() : list->time, .end = end,
    };

    return outbox_put(out, BTRAIL_GUEST_LISTING, &l, sizeof(l),
                      (struct outbox_text) { 0 }, (struct outbox_text) { 0 },
                      OUTBOX_KEEP_EVENTS);
}

void proc_list_step(struct proc_list *list, struct outbox *out,
                    const struct tsc_clock *clock, uint64_t until)
{
    if (!list->active) {
        return;
    }
    if (!list->begun && !put_listing(list, out, 0)) {
        return;
    }
    list->begun = true;
    while (list->next < list->n) {
        if (tsc_clock_ns() >= until ||
            !proc_describe(out, clock, list->pids[list->next],
                           OUTBOX_KEEP_LIST)) {
            return;
        }
        list->next++;
    }
    if (put_listing(list, out, 1)) {
        proc_list_end(list);
    }
}

void proc_list_end(struct proc_list *list)
{
    free(list->pids);
    memset(list, 0, sizeof(*list));
}
