/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Removing folders: see remove-folder.h
 */

#include <errno.h>
#include <glib.h>
#include <unistd.h>

#include "replay/remove-folder.h"

void remove_folder(const char *folder)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);

        if (unlink(path) && errno == EISDIR) {
            remove_folder(path);
        }
    }
    if (dir) {
        g_dir_close(dir);
    }
    rmdir(folder);
}
