/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Machine types, which each release of QEMU adds to
 *
 * A domain keeps the type that was the newest when it was defined, such as
 * pc-q35-11.1.  An older QEMU does not have it, and no guest starts with it.
 */

#ifndef BTRAIL_MACHINE_TYPE_H
#define BTRAIL_MACHINE_TYPE_H

#include <libvirt/libvirt.h>

#include "libvirt/document.h"

/* The name of the newest machine of the same kind, such as "q35", or NULL if it
 * is not known */
const char *machine_type_kind(const char *machine);

/**
 * machine_type_lacks - does a QEMU lack the machine type of a domain?
 * @emulator: where libvirt's host has it
 *
 * Returns what to do about it, as a sentence that names @name, the domain; NULL
 * if it has the type, or libvirt does not say.  To be freed.
 */
char *machine_type_lacks(virConnectPtr connection, const char *emulator,
                         xmlDoc *domain, const char *name);

#endif /* BTRAIL_MACHINE_TYPE_H */
