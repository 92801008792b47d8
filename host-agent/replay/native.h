/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libvirt's command line for a domain, as machine.h takes one
 */

#ifndef BTRAIL_NATIVE_H
#define BTRAIL_NATIVE_H

#include "util/agent-error.h"

/**
 * native_arguments - QEMU's arguments from what libvirt writes
 * @text:  of virConnectDomainXMLToNative(): quoted for a shell, with the
 *         environment and the program in front
 * @added: further arguments, which come last; ends with NULL
 *
 * Block nodes become drives, serial ports become -serial, JSON becomes plain
 * options; what libvirt has for itself (its monitor, its sandbox) is left out.
 * Whatever this does not know stays, for machine_new() to refuse.
 *
 * Free it with g_strfreev().  Errors: COMMAND, PROTOCOL (this is no command
 * line of libvirt).
 */
char **native_arguments(const char *text, char *const *added, GError **error);

#endif /* BTRAIL_NATIVE_H */
