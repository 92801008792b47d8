/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arguments of a QEMU that runs, for a copy of its guest that is recorded
 *
 * The copy must not reach what the guest has of this host: its networks are cut
 * off, so that two do not answer for one, and its ports lead nowhere, except
 * the first serial one, which is the terminal.
 */

#ifndef BTRAIL_RUNNING_ARGUMENTS_H
#define BTRAIL_RUNNING_ARGUMENTS_H

#include <glib.h>

/**
 * running_arguments_new - make arguments for machine_new()
 * @arguments: of QEMU, without the program; ends with NULL
 * @folder:    that QEMU was started in
 *
 * Free them with g_strfreev().  Errors: COMMAND, what of it cannot be recorded.
 */
char **running_arguments_new(char *const *arguments, const char *folder,
                             GError **error);

#endif /* BTRAIL_RUNNING_ARGUMENTS_H */
