/*
 * x86 branch trace: a window that the guest maps itself
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_KVM_BRANCH_TRACE_WINDOW_H
#define I386_KVM_BRANCH_TRACE_WINDOW_H

#include "exec/hwaddr.h"

/**
 * KVMGuestWindowOps - what the producer does for it, with the BQL held
 *
 * @place: where the window is and how large it is; always the same.  False if
 *         it cannot be anywhere.
 * @moved: kvm_guest_window_linear() has changed.  If a vCPU has said so, it
 *         does not continue before no vCPU uses what it was before.
 */
typedef struct KVMGuestWindowOps {
    bool (*place)(hwaddr *gpa, uint64_t *size);
    void (*moved)(void);
} KVMGuestWindowOps;

/* Offer the window to the guest; once, before it runs. */
bool kvm_guest_window_offer(const KVMGuestWindowOps *ops, Error **errp);

/*
 * Where the guest says that it has mapped the window, or 0.  QEMU can tell KVM
 * that it is there, and nothing else is certain.  Any thread may ask.
 */
uint64_t kvm_guest_window_linear(void);

#endif /* I386_KVM_BRANCH_TRACE_WINDOW_H */
