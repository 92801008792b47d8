/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The QEMUs that this user has recorded with
 *
 * A recording says which QEMU it needs, but it can come from anybody: the path
 * that it names is not run.  What is run is the program with that hash that the
 * user has already recorded with.
 *
 * They are links in the user's folder of state, backtrail/qemu/SHA256.
 */

#ifndef BTRAIL_KNOWN_QEMU_H
#define BTRAIL_KNOWN_QEMU_H

/*
 * Remember a program at an absolute path.  If that cannot be done, it has to be
 * named for each replay.
 */
void known_qemu_add(const char *sha256, const char *path);

/* The path of one, to be freed; NULL if there is none.  It may have changed. */
char *known_qemu_find(const char *sha256);

#endif /* BTRAIL_KNOWN_QEMU_H */
