/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Can the KVM of this host trace its guests?
 */

#ifndef BTRAIL_KVM_HOST_H
#define BTRAIL_KVM_HOST_H

#include <glib.h>

/**
 * kvm_host_fault - why KVM cannot trace the guests of this host
 * @root: folder with the host's /proc and /sys; "" for those themselves
 *
 * Returns the reason and what to do, or NULL if KVM can.  To be freed.  QEMU
 * has the same reasons (target/i386/kvm/branch-trace.c), but only once the
 * guest runs.
 */
char *kvm_host_fault(const char *root);

#endif /* BTRAIL_KVM_HOST_H */
