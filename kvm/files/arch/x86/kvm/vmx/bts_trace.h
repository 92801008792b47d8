/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __KVM_X86_VMX_BTS_TRACE_H
#define __KVM_X86_VMX_BTS_TRACE_H

#include <linux/types.h>

struct kvm_vcpu;
struct vcpu_vmx;

void vmx_bts_trace_hardware_setup(void);
void vmx_bts_trace_free(struct vcpu_vmx *vmx);
void vmx_bts_trace_unload(struct kvm_vcpu *vcpu);
u64 vmx_bts_trace_guest_debugctl(struct kvm_vcpu *vcpu, u64 debugctl);
u64 vmx_bts_trace_host_debugctl(struct kvm_vcpu *vcpu, u64 debugctl);
void vmx_bts_trace_cr3_loaded(struct kvm_vcpu *vcpu);
bool vmx_bts_trace_handle_fault(struct kvm_vcpu *vcpu, u32 intr_info, u64 cr2);
void vmx_bts_trace_handle_ept_violation(struct kvm_vcpu *vcpu, gpa_t gpa,
					unsigned long exit_qualification);
void vmx_bts_trace_handle_pml_full(struct kvm_vcpu *vcpu);
bool vmx_bts_trace_drop_store(struct kvm_vcpu *vcpu, gpa_t gpa);

#endif /* __KVM_X86_VMX_BTS_TRACE_H */
