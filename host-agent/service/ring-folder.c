/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The folder of a flight recorder's ring: see ring-folder.h
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "lib/agent/chunk.h"
#include "service/ring-folder.h"
#include "util/close.h"

#define PREFIX  ".ring-"
#define TRIES   10

static int open_ring(const struct folder *folder, const char *name)
{
    return openat(folder->fd, name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/*
 * A process that removes rings can find this one before it is locked.  Where
 * folders cannot be locked nobody removes them.
 */
static bool hold(int fd)
{
    struct stat st;

    return (!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) &&
           !fstat(fd, &st) && st.st_nlink;
}

int part_ring_folder_make(const struct folder *folder, char **name,
                     GError **error)
{
    for (unsigned i = 0; i < TRIES; i++) {
        g_autofree char *ring = g_strdup_printf(PREFIX "%08x%08x",
                                                g_random_int(),
                                                g_random_int());
        int fd;

        if (mkdirat(folder->fd, ring, 0700) < 0) {
            service_fail_errno(error, "%s", ring);
            return -1;
        }
        fd = open_ring(folder, ring);
        if (fd >= 0 && hold(fd)) {
            *name = g_steal_pointer(&ring);
            return fd;
        }
        if (fd < 0 && errno != ENOENT) {
            service_fail_errno(error, "%s", ring);
            unlinkat(folder->fd, ring, AT_REMOVEDIR);
            return -1;
        }
        btrail_close(fd);
    }
    service_fail(error, SERVICE_ERROR_SYSTEM,
                 "another process removes each ring that is made");
    return -1;
}

/* Does a file have records, or may it? */
static bool has_records(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    bool found = false;

    if (fd < 0 || btrail_trace_open_fd(&trace, fd)) {
        return true;
    }
    for (unsigned i = 0; !found && !btrail_trace_stream(trace, i, &info); i++) {
        found = info.records;
    }
    btrail_trace_close(trace);
    return found;
}

/*
 * Are there only files that have no record?  Or remove them.  A service that
 * was killed has left them cut off, or the next service has completed them.
 */
static bool is_clear(int fd, bool remove)
{
    DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *e;
    bool clear = dir;

    while (clear && (e = readdir(dir))) {
        struct stat st;

        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) {
            continue;
        }
        clear = !fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
                S_ISREG(st.st_mode) &&
                (st.st_size <= BTRAIL_FILE_HEADER_SIZE ||
                 !has_records(fd, e->d_name)) &&
                (!remove || !unlinkat(fd, e->d_name, 0));
    }
    if (dir) {
        closedir(dir);
    }
    return clear;
}

void part_ring_folder_remove_left(const struct folder *folder)
{
    DIR *dir = fdopendir(openat(folder->fd, ".",
                                O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        int fd = g_str_has_prefix(e->d_name, PREFIX) ?
                 open_ring(folder, e->d_name) : -1;

        if (fd < 0) {
            continue;
        }
        if (!flock(fd, LOCK_EX | LOCK_NB) && is_clear(fd, false) &&
            is_clear(fd, true)) {
            unlinkat(folder->fd, e->d_name, AT_REMOVEDIR);
        }
        close(fd);
    }
    if (dir) {
        closedir(dir);
    }
}
