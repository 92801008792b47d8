/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arguments of a replay, which can come from anybody
 */

#ifndef BTRAIL_REPLAY_ARGUMENTS_H
#define BTRAIL_REPLAY_ARGUMENTS_H

#include "replay/recording.h"

/*
 * Are these arguments of QEMU such as machine_new() makes?  Those give the
 * guest nothing of this host but the recording's files.  An argument that they
 * must not have is an error, PROTOCOL.
 */
bool replay_arguments_check(char *const *arguments, GError **error);

/* Do they have the device that traces? */
bool replay_arguments_trace(char *const *arguments);

/**
 * replay_arguments_new - the arguments to replay a recording with
 * @serial: where the first serial port leads, as with -serial, or NULL
 *
 * Checks arguments and images.  Free them with g_strfreev().
 */
char **replay_arguments_new(const struct recording *r, const char *serial,
                            GError **error);

/*
 * How many ports they have whose writes are in the log: serial ones, or others.
 * They were checked.
 */
unsigned replay_arguments_ports(char *const *arguments, bool serial);

/*
 * Has each of these ports lead to a socket that QEMU inherits, those of serial
 * ports first; replaces *@arguments.
 */
void replay_arguments_connect(char ***arguments, const int *sockets);

#endif /* BTRAIL_REPLAY_ARGUMENTS_H */
