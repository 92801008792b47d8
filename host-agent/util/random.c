/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random numbers: see random.h
 */

#include <errno.h>
#include <glib.h>
#include <sys/random.h>

#include "util/random.h"

void random_bytes(void *bytes, size_t size)
{
    /* A signal cannot interrupt a call for so few. */
    g_assert(size <= 256);
    if (getrandom(bytes, size, 0) != (ssize_t)size) {
        g_error("cannot get random numbers: %s", g_strerror(errno));
    }
}
