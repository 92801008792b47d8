/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr record DOMAIN: from a domain of libvirt to QEMU's arguments
 */

#ifndef BTRAIL_CLI_RR_RECORD_H
#define BTRAIL_CLI_RR_RECORD_H

#include "libvirt/domain.h"
#include "libvirt/replayable.h"
#include "replay/running-guest.h"

/**
 * struct rr_domain - a domain to record
 * @guest:      connection and domain
 * @replayable: what becomes of it
 * @arguments:  of QEMU, for recorder_run(); ends with NULL
 * @emulator:   the QEMU that runs it; NULL if it is shut off
 */
struct rr_domain {
    struct domain guest;
    struct replayable replayable;
    char **arguments;
    char *emulator;
};

/**
 * rr_domain_open - make QEMU's arguments of a domain
 * @uri:   of libvirt, or NULL
 * @added: further arguments of QEMU; ends with NULL
 *
 * Its definition is read and not changed.  False after error messages, one for
 * each part that cannot be recorded.
 */
bool rr_domain_open(struct rr_domain *d, const char *uri, const char *name,
                    char *const *added);
void rr_domain_close(struct rr_domain *d);

/* The guest of one that runs; NULL and an error if it cannot be recorded. */
struct running_guest *rr_domain_guest(struct rr_domain *d, int cancel_fd,
                                      GError **error);

/* Is it still shut off?  Its images have been copied then as they were. */
bool rr_domain_is_off(const struct rr_domain *d, GError **error);

#endif /* BTRAIL_CLI_RR_RECORD_H */
