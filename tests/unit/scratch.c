/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A folder for the files of a test: see scratch.h
 */

#include <glib.h>

#include "scratch.h"

char *scratch_new(void)
{
    char *folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);

    g_assert_nonnull(folder);
    return folder;
}

void scratch_remove(char *folder)
{
    char *argv[] = { (char *)"rm", (char *)"-rf", folder, NULL };

    g_assert_true(g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH, NULL,
                               NULL, NULL, NULL, NULL, NULL));
    g_free(folder);
}
