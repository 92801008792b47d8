/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The branch-trace device of a domain, which libvirt does not know: it is on
 * QEMU's command line
 */

#ifndef BTRAIL_DOMAIN_DEVICE_H
#define BTRAIL_DOMAIN_DEVICE_H

#include "libvirt/document.h"

/* Is @value a branch-trace device, as the short or the JSON form have it? */
bool domain_device_is(const char *value);

/*
 * The value of the argument of -device that is @want, or, if that is NULL, any
 * branch-trace device.  *@option is the element of -device itself.
 */
xmlNode *domain_device_find(xmlNode *root, const char *want, xmlNode **option);

/*
 * Does it say itself which entry of page tables KVM may use, or that the guest
 * maps what KVM needs?
 */
bool domain_device_has_root_entry(const char *device);

/* A device in the short form; @agent: its agent, or NULL.  To be freed. */
char *domain_device_argument(const char *agent);

/* The property agent of one in the short form, or NULL.  To be freed. */
char *domain_device_agent(const char *device);

/* Adds one; true if its element commandline is added as well. */
bool domain_device_add(xmlNode *root, const char *value);

#endif /* BTRAIL_DOMAIN_DEVICE_H */
