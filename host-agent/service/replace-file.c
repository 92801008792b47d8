/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Small files that have their whole text at once: see replace-file.h
 */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service/replace-file.h"
#include "util/close.h"

bool replace_file(int folder, const char *name, const char *next,
                  unsigned mode, const char *text, GError **error)
{
    size_t size = strlen(text);
    bool ok;
    int fd;

    unlinkat(folder, next, 0);
    fd = openat(folder, next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    ok = fd >= 0 && write(fd, text, size) == (ssize_t)size &&
         !renameat(folder, next, folder, name);
    if (!ok) {
        service_fail_errno(error, "%s", name);
    }
    btrail_close(fd);
    return ok;
}
