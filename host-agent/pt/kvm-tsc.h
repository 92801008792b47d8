/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What KVM makes of the host's TSC for a guest
 *
 * What the guest reads, and TSC packets have while it runs, is
 * host * ratio / 2^fraction + offset (SDM vol. 3, "TSC Scaling").
 */

#ifndef BTRAIL_KVM_TSC_H
#define BTRAIL_KVM_TSC_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * struct kvm_tsc - of a vCPU
 * @offset:   modulo 2^64
 * @ratio:    in 2^-@fraction
 * @fraction: below 64
 */
struct kvm_tsc {
    uint64_t offset;
    uint64_t ratio;
    unsigned fraction;
};

/**
 * kvm_tsc_read - ask KVM
 * @root:   folder with the host's /proc and /sys; "" for those themselves
 * @thread: of the vCPU
 *
 * It is in KVM's debugfs, which root alone may read.  Older kernels do not say
 * there which vCPU has this thread; then those of its process must be the same.
 *
 * Returns false if it is not known; @error says what to do.
 */
bool kvm_tsc_read(const char *root, pid_t thread, struct kvm_tsc *tsc,
                  GError **error);

bool kvm_tsc_equal(const struct kvm_tsc *a, const struct kvm_tsc *b);

/* The guest's TSC when the host's is @host */
uint64_t kvm_tsc_at(const struct kvm_tsc *tsc, uint64_t host);

/* How many times a second it counts when the host's does @host times; 0 if
 * that is none that can be */
uint64_t kvm_tsc_hz(const struct kvm_tsc *tsc, uint64_t host);

#endif /* BTRAIL_KVM_TSC_H */
