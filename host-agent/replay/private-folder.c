/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folders that go with the process that they are for: see private-folder.h
 */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "replay/private-folder.h"
#include "replay/remove-folder.h"
#include "util/own-folder.h"

#define PREFIX      "backtrail-rr-"
#define LOCK        "lock"
/* It gets its name once it is locked, so that nobody sees one unlocked. */
#define NEW_LOCK    "lock.new"

static void remove_if_left(const char *folder)
{
    g_autofree char *path = g_build_filename(folder, LOCK, NULL);
    int fd = own_folder(folder, NULL) ?
             open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;

    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB)) {
        remove_folder(folder);
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void remove_left(const char *top)
{
    GDir *dir = g_dir_open(top, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        if (g_str_has_prefix(name, PREFIX)) {
            g_autofree char *path = g_build_filename(top, name, NULL);

            remove_if_left(path);
        }
    }
    if (dir) {
        g_dir_close(dir);
    }
}

static int make_lock(const char *folder, GError **error)
{
    g_autofree char *path = g_build_filename(folder, NEW_LOCK, NULL);
    g_autofree char *name = g_build_filename(folder, LOCK, NULL);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) || g_rename(path, name)) {
        agent_error_errno(error, path);
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

char *private_folder_new(const char *top, int *lock, GError **error)
{
    g_autofree char *folder = g_build_filename(top, PREFIX "XXXXXX", NULL);

    remove_left(top);
    if (!g_mkdtemp(folder)) {
        agent_error_errno(error, folder);
        return NULL;
    }
    *lock = make_lock(folder, error);
    if (*lock < 0) {
        remove_folder(folder);
        return NULL;
    }
    return g_steal_pointer(&folder);
}

void private_folder_remove(const char *folder, int lock)
{
    remove_folder(folder);
    close(lock);
}
