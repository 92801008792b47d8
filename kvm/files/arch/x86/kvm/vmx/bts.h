/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __KVM_X86_VMX_BTS_H
#define __KVM_X86_VMX_BTS_H

#include <asm/msr-index.h>

struct kvm_vcpu;
union kvm_smram;

extern bool __read_mostly enable_bts;

/* What starts the storing of branch records: both have to be set. */
#define DEBUGCTL_BTS_ACTIVE	(DEBUGCTLMSR_TR | DEBUGCTLMSR_BTS)

#define DEBUGCTL_BTS_MASK	(DEBUGCTL_BTS_ACTIVE | DEBUGCTLMSR_BTINT | \
				 DEBUGCTLMSR_BTS_OFF_OS | \
				 DEBUGCTLMSR_BTS_OFF_USR)

/* What is BTS's of the DS area */
struct vmx_bts_ds {
	u64 buffer_base;
	u64 index;
	u64 absolute_maximum;
	u64 interrupt_threshold;
};

#define BTS_RECORD_SIZE		24

void vmx_bts_hardware_setup(void);
u64 vmx_bts_supported_debugctl(struct kvm_vcpu *vcpu, bool host_initiated);
void vmx_bts_set_debugctl(struct kvm_vcpu *vcpu, u64 debugctl);
void vmx_bts_switch_vmcs(struct kvm_vcpu *vcpu);
void vmx_bts_free_vcpu(struct kvm_vcpu *vcpu);
bool vmx_bts_drop_store(struct kvm_vcpu *vcpu, gpa_t gpa);
void vmx_bts_enter_smm(struct kvm_vcpu *vcpu, union kvm_smram *smram);
void vmx_bts_leave_smm(struct kvm_vcpu *vcpu, const union kvm_smram *smram);
unsigned int vmx_handle_intel_bts_intr(void);

#endif /* __KVM_X86_VMX_BTS_H */
