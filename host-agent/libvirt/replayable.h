/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The XML of a domain as it can be recorded and replayed
 *
 * A copy of the XML is changed; the domain itself stays as it is.  A part that
 * a guest can do without is left out or replaced, which is a change.  A part
 * whose loss would make another machine of it is a refusal.
 */

#ifndef BTRAIL_REPLAYABLE_H
#define BTRAIL_REPLAYABLE_H

#include "libvirt/document.h"

/**
 * struct replayable - what becomes of a domain
 * @changes:   of char *: "PART: what it is in the recording"
 * @refusals:  of char *: "PART: why it cannot be recorded; what to use instead"
 * @arguments: of char *: of QEMU, for what the XML then lacks.  These are the
 *             networks, for which libvirt would make interfaces of the host,
 *             and what is to happen when the guest reboots.
 */
struct replayable {
    GPtrArray *changes;
    GPtrArray *refusals;
    GPtrArray *arguments;
};

/**
 * replayable_make - change a domain's XML so that it can be recorded
 * @doc:     as libvirt stores it, with the addresses of all devices
 * @running: it is that of a guest that runs, whose machine stays as it is: what
 *           would be left out or replaced of it is a refusal
 *
 * False and an error only if this is not the XML of a domain.
 */
bool replayable_make(xmlDoc *doc, bool running,
                     struct replayable *r, GError **error);
void replayable_clear(struct replayable *r);

#endif /* BTRAIL_REPLAYABLE_H */
