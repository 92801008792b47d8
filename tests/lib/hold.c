/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A disk that takes long: see hold.py
 *
 * To be preloaded.  What is to be on the disk is not while the file that
 * BACKTRAIL_HOLD names is there.
 */

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *path = getenv("BACKTRAIL_HOLD");

    while (path && !access(path, F_OK)) {
        usleep(10000);
    }
    return real(fd);
}
