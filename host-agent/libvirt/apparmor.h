/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What AppArmor's rules allow, according to their files
 *
 * libapparmor's aa_query_*() ask the kernel about profiles that are loaded.
 * libvirt loads the profile of a domain when it starts it, and doctor must
 * know before, without being root.
 */

#ifndef BTRAIL_APPARMOR_H
#define BTRAIL_APPARMOR_H

#include <glib.h>

/* The folder of all rules, on every host */
#define BTRAIL_APPARMOR_FOLDER "/etc/apparmor.d"
/* The rules for each domain that libvirt confines */
#define BTRAIL_APPARMOR_DOMAIN "abstractions/libvirt-qemu"

/**
 * enum btrail_apparmor - is access allowed?
 * @BTRAIL_APPARMOR_NONE:    there is no such file, or it is not enforced
 * @BTRAIL_APPARMOR_UNKNOWN: not all files can be read, and the others do not
 *                           allow it
 */
enum btrail_apparmor {
    BTRAIL_APPARMOR_YES,
    BTRAIL_APPARMOR_NO,
    BTRAIL_APPARMOR_NONE,
    BTRAIL_APPARMOR_UNKNOWN,
};

/**
 * btrail_apparmor_allows - do the rules give a program access to a file?
 * @folder: of all rules
 * @name:   a file in it with a profile, or with a part of one (if the name has
 *          a slash); files that it includes are read, too
 * @path:   absolute and without symbolic links, which AppArmor does not see
 * @wanted: letters such as "rw"; "x" is execution in any way
 *
 * Only rules of one line are read.  Rules for owners, and those whose path has
 * a variable, are ignored.
 */
enum btrail_apparmor btrail_apparmor_allows(const char *folder,
                                            const char *name,
                                            const char *path,
                                            const char *wanted);

#endif /* BTRAIL_APPARMOR_H */
