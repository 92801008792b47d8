/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The channel of a domain through which the guest can say names
 */

#ifndef BTRAIL_NAMES_CHANNEL_H
#define BTRAIL_NAMES_CHANNEL_H

#include "libvirt/document.h"

/* The channel with the name of our port, or NULL; so can @devices be. */
xmlNode *names_channel_find(xmlNode *devices);

/*
 * The path that a channel connects to; NULL if it does something else.  To be
 * freed.
 */
char *names_channel_path(xmlNode *channel);

/* Adds one; true if libvirt will add a controller for it. */
bool names_channel_add(xmlNode *devices, const char *path);

/* Removes one, and its controller if that was added and nothing else uses it. */
void names_channel_remove(xmlNode *devices, xmlNode *channel, bool created);

#endif /* BTRAIL_NAMES_CHANNEL_H */
