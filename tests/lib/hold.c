/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A disk that takes long: see hold.py
 *
 * To be preloaded.  What is to be on the disk is not, and no folder is removed,
 * while the file that BACKTRAIL_HOLD names is there.
 */

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void hold(void)
{
    const char *path = getenv("BACKTRAIL_HOLD");

    while (path && !access(path, F_OK)) {
        usleep(10000);
    }
}

int fdatasync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");

    hold();
    return real(fd);
}

int rmdir(const char *path)
{
    int (*real)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT,
                                                             "rmdir");

    hold();
    return real(path);
}
