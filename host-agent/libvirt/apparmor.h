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
#define APPARMOR_FOLDER "/etc/apparmor.d"
/* The rules for each domain that libvirt confines */
#define APPARMOR_DOMAIN "abstractions/libvirt-qemu"

/**
 * enum apparmor - is access allowed?
 * @APPARMOR_NONE:    there is no such file, or it is not enforced
 * @APPARMOR_UNKNOWN: not all files can be read, and the others do not
 *                           allow it
 */
enum apparmor {
    APPARMOR_YES,
    APPARMOR_NO,
    APPARMOR_NONE,
    APPARMOR_UNKNOWN,
};

/**
 * apparmor_allows - do the rules give a program access to a file?
 * @folder: of all rules
 * @name:   a file in it with a profile, or with a part of one (if the name has
 *          a slash); files that it includes are read, too
 * @path:   absolute and without symbolic links, which AppArmor does not see
 * @wanted: letters such as "rw"; "x" is execution in any way
 *
 * Only rules of one line are read.  Rules for owners, and those whose path has
 * a variable, are ignored.
 */
enum apparmor apparmor_allows(const char *folder,
                              const char *name,
                              const char *path,
                              const char *wanted);

#endif /* BTRAIL_APPARMOR_H */
