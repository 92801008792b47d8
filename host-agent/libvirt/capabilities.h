/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Capabilities that libvirt reports of a host, and of a QEMU there
 */

#ifndef BTRAIL_CAPABILITIES_H
#define BTRAIL_CAPABILITIES_H

#include "libvirt/document.h"

/**
 * capabilities_confines - does a security model confine a domain?
 * @host:   capabilities of the host
 * @domain: NULL for any
 * @model:  such as "apparmor"
 */
bool capabilities_confines(xmlDoc *host, xmlDoc *domain,
                           const char *model);

/* The label that libvirt gives to domains of type @type by default in this
 * security model; NULL if there is none.  To be freed. */
char *capabilities_label(xmlDoc *host, const char *model,
                         const char *type);

/**
 * capabilities_lacks - devices of a domain that a QEMU lacks
 * @emulator: domain capabilities of that QEMU
 *
 * Returns texts such as "graphics of type 'spice' (it has vnc)", each once;
 * none if nothing is missing, or libvirt does not report it.  To be freed.
 */
GStrv capabilities_lacks(xmlDoc *emulator, xmlDoc *domain);

#endif /* BTRAIL_CAPABILITIES_H */
