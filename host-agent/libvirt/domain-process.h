/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process of a domain's QEMU
 *
 * libvirt's API does not say which it is.  libvirt starts QEMU with the UUID of
 * the domain, and the monitor says which threads run its vCPUs.
 */

#ifndef BTRAIL_DOMAIN_PROCESS_H
#define BTRAIL_DOMAIN_PROCESS_H

#include <sys/types.h>

#include "util/agent-error.h"

/**
 * domain_process_find - the process of a domain on this host
 * @uuid:    of the domain, as libvirt writes it
 * @threads: those of its vCPUs as QEMU calls them, which are called otherwise
 *           here if QEMU is in a container; @n of them, one at least
 *
 * Any user's process can have such arguments.  So two that have such threads,
 * too, are an error; and of one it is for the caller to see that it has the
 * guest's memory, as stock_memory_open() does.
 *
 * Returns 0 and @error if there is none, or not one alone.
 */
pid_t domain_process_find(const char *uuid, const pid_t *threads, unsigned n,
                          GError **error);

#endif /* BTRAIL_DOMAIN_PROCESS_H */
