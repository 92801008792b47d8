/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folders that belong to this user: see own-folder.h
 */

#include <sys/stat.h>
#include <unistd.h>

#include "util/own-folder.h"

bool own_folder(const char *path, GError **error)
{
    g_autofree char *parent = g_path_get_dirname(path);
    struct stat st, above;

    if (lstat(path, &st) || stat(parent, &above)) {
        return agent_error_errno(error, path);
    }
    if (!S_ISDIR(st.st_mode)) {
        return agent_fail(error, AGENT_ERROR_SYSTEM,
                          "%s is not a folder", path);
    }
    if (st.st_uid != geteuid()) {
        return agent_fail(error, AGENT_ERROR_SYSTEM,
                          "%s belongs to another user", path);
    }
    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        return agent_fail(error, AGENT_ERROR_SYSTEM,
                          "others may write to %s", path);
    }
    if (above.st_mode & S_IWOTH && !(above.st_mode & S_ISVTX)) {
        return agent_fail(error, AGENT_ERROR_SYSTEM,
                          "others may replace %s", path);
    }
    return true;
}

bool own_folder_make(const char *path, const char *whose, GError **error)
{
    if (g_mkdir_with_parents(path, 0700) < 0) {
        return agent_error_errno(error, path);
    }
    if (!own_folder(path, error)) {
        g_prefix_error(error, "the folder of %s cannot be trusted: remove it, "
                       "or set XDG_RUNTIME_DIR to a folder that only you may "
                       "write to: ", whose);
        return false;
    }
    return true;
}
