/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What libvirt says of a host, and of a QEMU there
 */

#ifndef BTRAIL_CAPABILITIES_H
#define BTRAIL_CAPABILITIES_H

#include "libvirt/document.h"

/**
 * btrail_capabilities_confines - does a security model hold for a domain?
 * @host:   capabilities of the host
 * @domain: NULL for any
 * @model:  such as "apparmor"
 */
bool btrail_capabilities_confines(xmlDoc *host, xmlDoc *domain,
                                  const char *model);

/* What libvirt labels a domain of type @type with in this security model, if
 * that is not a matter of the domain; NULL if there is none.  To be freed. */
char *btrail_capabilities_label(xmlDoc *host, const char *model,
                                const char *type);

/**
 * btrail_capabilities_lacks - what devices of a domain QEMU cannot provide
 * @emulator: domain capabilities of that QEMU
 *
 * Returns sentences' parts such as "graphics of type 'spice' (it has vnc)",
 * each once; no element if there is nothing, or libvirt does not say.  To be
 * freed.
 */
GStrv btrail_capabilities_lacks(xmlDoc *emulator, xmlDoc *domain);

#endif /* BTRAIL_CAPABILITIES_H */
