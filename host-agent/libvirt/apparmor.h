/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What rules of AppArmor allow, as far as their files tell
 */

#ifndef BTRAIL_APPARMOR_H
#define BTRAIL_APPARMOR_H

#include <glib.h>

/* Where they are on every host */
#define BTRAIL_APPARMOR_FOLDER "/etc/apparmor.d"
/* Of each domain that libvirt confines */
#define BTRAIL_APPARMOR_DOMAIN "abstractions/libvirt-qemu"

/**
 * enum btrail_apparmor - may it?
 * @BTRAIL_APPARMOR_NONE:    there is no such file, or nobody obeys it
 * @BTRAIL_APPARMOR_UNKNOWN: not all files can be read, and those that can do
 *                           not allow it
 */
enum btrail_apparmor {
    BTRAIL_APPARMOR_YES,
    BTRAIL_APPARMOR_NO,
    BTRAIL_APPARMOR_NONE,
    BTRAIL_APPARMOR_UNKNOWN,
};

/**
 * btrail_apparmor_allows - do rules let a program have access to a file?
 * @folder: of all rules
 * @name:   in it, a file with a profile, or a part of one (with a slash in its
 *          name).  What it includes is read, too.
 * @path:   absolute, and without symbolic links: AppArmor does not see them
 * @wanted: letters such as "rw"; "x" is execution in any way
 *
 * It knows rules for files with one line each.  One with a variable in its path
 * is taken for one about other files, as is one for owners.
 */
enum btrail_apparmor btrail_apparmor_allows(const char *folder,
                                            const char *name,
                                            const char *path,
                                            const char *wanted);

#endif /* BTRAIL_APPARMOR_H */
