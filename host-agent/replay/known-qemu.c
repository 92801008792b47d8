/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The QEMUs that this user has recorded with: see known-qemu.h
 */

#include <glib/gstdio.h>
#include <unistd.h>

#include "replay/known-qemu.h"

static char *folder(void)
{
    return g_build_filename(g_get_user_state_dir(), "backtrail", "qemu",
                            NULL);
}

void known_qemu_add(const char *sha256, const char *path)
{
    g_autofree char *all = folder();
    g_autofree char *link = g_build_filename(all, sha256, NULL);
    g_autofree char *next = g_strdup_printf("%s.%d", link, (int)getpid());

    g_mkdir_with_parents(all, 0700);
    if (!symlink(path, next) && g_rename(next, link)) {
        g_unlink(next);
    }
}

char *known_qemu_find(const char *sha256)
{
    g_autofree char *all = folder();
    g_autofree char *link = g_build_filename(all, sha256, NULL);

    return g_file_read_link(link, NULL);
}
