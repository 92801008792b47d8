/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a session wants of what is captured
 *
 * A record is wanted if its vCPU is, its address space is, and one of its ends
 * is of the privilege that is wanted.
 */

#ifndef BTRAIL_SESSION_FILTER_H
#define BTRAIL_SESSION_FILTER_H

#include <glib.h>
#include <stdbool.h>

#include "backtrail/trace.h"

/**
 * struct btrail_session_filter - all zero wants everything
 * @vcpus:     that are wanted, @n_vcpus of them; 0 for all
 * @cr3s:      address spaces that are wanted, @n_cr3s of them; only the bits
 *             of BTRAIL_CR3_ROOT count
 * @processes: that are wanted, NULL-terminated or NULL: each the pid of one, in
 *             decimal, or the name (comm) of any number of them.  They are
 *             wanted from when a look has found them, so names have to be
 *             looked for.  Only those with an address space of their own can
 *             be told apart; of threads of the kernel nothing is.
 *             With address spaces and processes, both are wanted.
 * @privilege: BTRAIL_PRIVILEGE_*; 0 for all.  Told by the half of the address
 *             space that an address is in: of the kernel from 2^63 on.  What
 *             is in the other half becomes a pseudo-address, see
 *             BTRAIL_PSEUDO_* in trace.h; code, symbols and all else that has
 *             such an address is left out.
 */
struct btrail_session_filter {
    const uint32_t *vcpus;
    unsigned n_vcpus;
    const uint64_t *cr3s;
    unsigned n_cr3s;
    const char *const *processes;
    uint32_t privilege;
};

#endif /* BTRAIL_SESSION_FILTER_H */
