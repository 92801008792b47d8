/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions that processes compile at run time: see functions.h
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "functions.h"
#include "tsc.h"

#define WATCHED_MAX     64
#define PIECE           (16u << 10)
/* Between two readings of the maps */
#define EACH_NS         UINT64_C(250000000)

/**
 * struct watched - a process that may have a map
 * @proc: its folder of /proc, which is no other process's when it has ended
 * @map:  the file, or -1: it stays readable when the process has ended
 * @at:   up to there it was sent, or left out
 * @begun: some of it was sent
 * @within: at @at is the rest of a line that is too long
 */
struct watched {
    uint32_t pid;
    int proc;
    int map;
    off_t at;
    bool begun;
    bool within;
};

static struct watched watched[WATCHED_MAX];
static unsigned n_watched;
static unsigned next;           /* the process whose turn it is */
static uint64_t begun;          /* when the first one's was */

static void drop(unsigned i)
{
    close(watched[i].proc);
    if (watched[i].map >= 0) {
        close(watched[i].map);
    }
    watched[i] = watched[--n_watched];
}

void functions_watch(uint32_t pid)
{
    struct watched w = { .pid = pid, .map = -1 };
    char path[32];

    for (unsigned i = 0; i < n_watched; i++) {
        if (watched[i].pid == pid) {
            return;
        }
    }
    snprintf(path, sizeof(path), "/proc/%u", pid);
    if (n_watched < WATCHED_MAX) {
        w.proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (w.proc >= 0) {
            watched[n_watched++] = w;
        }
    }
}

void functions_unwatch(uint32_t pid)
{
    for (unsigned i = 0; i < n_watched; i++) {
        if (watched[i].pid == pid) {
            drop(i);
            return;
        }
    }
}

/* The number that a process has for itself, in its own namespace; 0: it ended */
static unsigned own_pid(const struct watched *w)
{
    unsigned pid = 0;
    char line[256];
    int fd = openat(w->proc, "status", O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

    if (!file) {
        return 0;
    }
    while (fgets(line, sizeof(line), file)) {
        const char *last = strrchr(line, '\t');

        /* Before Linux 4.1 there is no NSpid. */
        if (!strncmp(line, "Pid:", 4) || !strncmp(line, "NSpid:", 6)) {
            pid = last ? (unsigned)strtoul(last, NULL, 10) : 0;
        }
    }
    fclose(file);
    return pid;
}

/* A map that anybody else could have written says nothing. */
static bool is_own(const struct watched *w, int fd)
{
    struct stat process, file;

    return !fstat(w->proc, &process) && !fstat(fd, &file) &&
           S_ISREG(file.st_mode) &&
           (!file.st_uid || file.st_uid == process.st_uid);
}

/* Opens the map, if it is there. */
static void open_map(struct watched *w)
{
    unsigned pid = own_pid(w);
    char path[64];

    snprintf(path, sizeof(path), "root/tmp/perf-%u.map", pid);
    w->map = !pid ? -1 : openat(w->proc, path, O_RDONLY | O_CLOEXEC |
                                O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    w->at = 0;
    w->begun = false;
    w->within = false;
    if (w->map >= 0 && !is_own(w, w->map)) {
        close(w->map);
        w->map = -1;
    }
}

/* Another file, or what is left of this one, is read from its beginning. */
static void check_map(struct watched *w)
{
    struct stat st;

    if (w->map >= 0 && (fstat(w->map, &st) || !st.st_nlink ||
                        st.st_size < w->at)) {
        close(w->map);
        w->map = -1;
    }
    if (w->map < 0) {
        open_map(w);
    }
}

/* Sends the next lines; false if there are none, or there is no room. */
static bool send_lines(struct watched *w, struct outbox *out)
{
    struct btrail_guest_functions m = { .time = tsc_now(), .pid = w->pid };
    char text[PIECE];
    ssize_t n = pread(w->map, text, sizeof(text), w->at);
    const char *last = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;

    m.size = last ? (uint32_t)(last - text) + 1 : 0;
    /* No name is that long; and what it ends with is no line. */
    if (!last && n == sizeof(text)) {
        w->at += n;
        w->within = true;
        return true;
    }
    if (last && w->within) {
        const char *first = memchr(text, '\n', (size_t)n);

        w->at += first - text + 1;
        w->within = false;
        return true;
    }
    /* Nothing but names has zeros. */
    if (!last || memchr(text, 0, m.size)) {
        return false;
    }
    m.flags = w->begun ? 0 : BTRAIL_GUEST_FUNCTIONS_BEGIN;
    if (!outbox_put(out, BTRAIL_GUEST_FUNCTIONS, &m, sizeof(m),
                    (struct outbox_text) { text, m.size },
                    (struct outbox_text) { 0 }, OUTBOX_KEEP_LIST)) {
        return false;
    }
    w->at += m.size;
    w->begun = true;
    return true;
}

void functions_again(void)
{
    next = 0;
    begun = tsc_clock_ns();
}

bool functions_step(struct outbox *out, uint64_t until)
{
    uint64_t ns = tsc_clock_ns();

    if (next >= n_watched && ns - begun >= EACH_NS) {
        functions_again();
    }
    while (next < n_watched && tsc_clock_ns() < until) {
        struct watched *w = &watched[next];
        bool ended = !own_pid(w);

        check_map(w);
        while (w->map >= 0 && tsc_clock_ns() < until) {
            if (outbox_room(out) < OUTBOX_KEEP_LIST + 2 * PIECE) {
                /* The agent takes its time; this one is next then. */
                return false;
            }
            if (!send_lines(w, out)) {
                break;
            }
        }
        if (tsc_clock_ns() >= until) {
            return false;
        }
        if (ended) {
            drop(next);
        } else {
            next++;
        }
    }
    return next >= n_watched;
}

void functions_end(void)
{
    while (n_watched) {
        drop(n_watched - 1);
    }
    next = 0;
}
