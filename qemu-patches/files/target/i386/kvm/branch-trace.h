/*
 * x86 branch trace: the hooks of KVM for its producer
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_KVM_BRANCH_TRACE_H
#define I386_KVM_BRANCH_TRACE_H

#include "cpu.h"
#include "bts-trace-abi.h"

/* Register the producer. */
void kvm_branch_trace_init(void);

void kvm_branch_trace_do_pre_run(struct KVMBranchTrace *t);

/* KVM_EXIT_X86_BTS_TRACE, on the thread of @cpu */
void kvm_branch_trace_exit(X86CPU *cpu, const struct kvm_run *run);

/* The vCPU is reset. */
void kvm_branch_trace_reset(X86CPU *cpu);

/* KVM is about to lose the vCPU. */
void kvm_branch_trace_destroy(X86CPU *cpu);

/* The guest is about to run, if the vCPU is not to leave KVM_RUN at once. */
static inline void kvm_branch_trace_pre_run(X86CPU *cpu)
{
    if (unlikely(cpu->kvm_branch_trace)) {
        kvm_branch_trace_do_pre_run(cpu->kvm_branch_trace);
    }
}

#endif /* I386_KVM_BRANCH_TRACE_H */
