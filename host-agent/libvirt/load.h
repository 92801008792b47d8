/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libvirt, loaded when it is needed
 *
 * It brings some fifty libraries, from SSH to LDAP, and loading them takes
 * longer than most commands run that need none of them.  load.c therefore has
 * the functions of libvirt that we call, by their names, and each calls the one
 * that was loaded; a program is not linked with libvirt.
 */

#ifndef BTRAIL_LIBVIRT_LOAD_H
#define BTRAIL_LIBVIRT_LOAD_H

#include <glib.h>
#include <stdbool.h>

/**
 * libvirt_load - load libvirt, unless that was done
 *
 * Comes before every other call of libvirt.  Errors of agent-error.h: SYSTEM.
 */
bool libvirt_load(GError **error);

#endif /* BTRAIL_LIBVIRT_LOAD_H */
