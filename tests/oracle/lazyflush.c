/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Preloaded into QEMU while it logs: keeps it from flushing its log after
 * each line, which takes half of the time.  What is in the buffer is written
 * when it is full and when QEMU exits.
 */

#include <dlfcn.h>
#include <stdio.h>

int fflush(FILE *file)
{
    int (*next)(FILE *);

    if (file && file != stdout && file != stderr) {
        return 0;
    }
    next = (int (*)(FILE *))dlsym(RTLD_NEXT, "fflush");
    return next(file);
}
