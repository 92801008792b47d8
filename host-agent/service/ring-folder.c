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

#include "lib/internal/chunk.h"
#include "service/ring-folder.h"

#define PREFIX  ".ring-"
#define TRIES   10

static int open_ring(const struct btrail_folder *folder, const char *name)
{
    return openat(folder->fd, name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/*
 * Another process that removes rings can find this one before it is locked.
 * Where folders cannot be locked nobody removes them.
 */
static bool hold(int fd)
{
    struct stat st;

    return (!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) &&
           !fstat(fd, &st) && st.st_nlink;
}

int btrail_ring_folder_make(const struct btrail_folder *folder, char **name,
                     GError **error)
{
    for (unsigned i = 0; i < TRIES; i++) {
        g_autofree char *ring = g_strdup_printf(PREFIX "%08x%08x",
                                                g_random_int(),
                                                g_random_int());
        int fd;

        if (mkdirat(folder->fd, ring, 0700) < 0) {
            btrail_service_fail_errno(error, "%s", ring);
            return -1;
        }
        fd = open_ring(folder, ring);
        if (fd >= 0 && hold(fd)) {
            *name = g_steal_pointer(&ring);
            return fd;
        }
        if (fd < 0 && errno != ENOENT) {
            btrail_service_fail_errno(error, "%s", ring);
            unlinkat(folder->fd, ring, AT_REMOVEDIR);
            return -1;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    btrail_service_fail(error, BTRAIL_SERVICE_ERROR_SYSTEM,
                        "another process removes each ring that is made");
    return -1;
}

/* Are there only files that have no chunk?  Or remove them. */
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
                st.st_size <= BTRAIL_FILE_HEADER_SIZE &&
                (!remove || !unlinkat(fd, e->d_name, 0));
    }
    if (dir) {
        closedir(dir);
    }
    return clear;
}

void btrail_ring_folder_remove_left(const struct btrail_folder *folder)
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
