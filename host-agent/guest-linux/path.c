/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Paths of open files: see path.h
 *
 * A path is built from its end: names of dentries up to the root of the mount,
 * then from the dentry on which that is mounted.
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/path.h"

#define COMPONENT_MAX   255
#define STEPS_MAX       1024

/* Puts "/name" before @at in @path; returns where it begins, or 0. */
static size_t prepend(struct linux_kernel *k, uint64_t dentry, char *path,
                      size_t at)
{
    uint64_t name;
    uint32_t length;

    if (!linux_u64(k, dentry, k->layout.dentry_name, &name) ||
        !linux_u32(k, dentry, k->layout.dentry_length, &length) ||
        !(name >> 63) || !length || length > COMPONENT_MAX ||
        length + 1 >= at) {
        return 0;
    }
    at -= length;
    if (!page_walk_read(&k->walk, name, path + at, length) ||
        memchr(path + at, 0, length)) {
        return 0;
    }
    path[--at] = '/';
    return at;
}

bool linux_path(struct linux_kernel *k, uint64_t file,
                char path[LINUX_PATH_MAX], bool *deleted)
{
    const struct linux_layout *l = &k->layout;
    size_t at = LINUX_PATH_MAX - 1;
    uint64_t dentry, mnt, hashed;
    unsigned step;

    path[at] = 0;
    if (!linux_u64(k, file, l->file_dentry, &dentry) ||
        !linux_u64(k, file, l->file_mnt, &mnt) ||
        !linux_u64(k, dentry, l->dentry_unhashed, &hashed)) {
        return false;
    }
    *deleted = false;
    for (step = 0; step < STEPS_MAX; step++) {
        uint64_t parent, root;

        if (!linux_pointer(dentry) || !linux_pointer(mnt) ||
            !linux_u64(k, mnt, l->vfsmount_root, &root)) {
            return false;
        }
        if (dentry == root) {
            uint64_t mount = mnt - l->mount_mnt;
            uint64_t above;

            if (!linux_u64(k, mount, l->mount_parent, &above) ||
                !linux_pointer(above)) {
                return false;
            }
            if (above == mount) {
                break;
            }
            if (!linux_u64(k, mount, l->mount_point, &dentry)) {
                return false;
            }
            mnt = above + l->mount_mnt;
            continue;
        }
        if (!linux_u64(k, dentry, l->dentry_parent, &parent)) {
            return false;
        }
        at = prepend(k, dentry, path, at);
        if (!at) {
            return false;
        }
        if (step == 0) {
            /* A deleted dentry is no longer in its parent's hash table. */
            *deleted = !hashed;
        }
        if (parent == dentry) {
            /* A memfd or shared memory is in no folder, and has only a name. */
            *deleted = true;
            break;
        }
        dentry = parent;
    }
    if (step == STEPS_MAX) {
        return false;
    }
    if (!path[at]) {
        path[--at] = '/';
    }
    memmove(path, path + at, LINUX_PATH_MAX - at);
    return true;
}
