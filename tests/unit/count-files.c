/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many files there are: see count-files.h
 */

#include <glib.h>

#include "count-files.h"

unsigned count_files(const char *folder)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    unsigned n = 0;

    g_assert_nonnull(dir);
    while (g_dir_read_name(dir)) {
        n++;
    }
    g_dir_close(dir);
    return n;
}
