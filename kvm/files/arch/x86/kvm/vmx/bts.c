// SPDX-License-Identifier: GPL-2.0
/*
 * Branch Trace Store of a guest
 *
 * While a guest has BTS on, the CPU writes a record of every branch it takes
 * straight into the guest's memory, at guest-linear addresses that it finds at
 * the guest's DS_AREA.  KVM's part is to load DS_AREA together with the guest
 * (DEBUGCTL is in the VMCS) and to see that interrupts arrive.
 */
#include <linux/kvm_host.h>
#include <linux/moduleparam.h>

#include <asm/perf_event.h>

#include "x86.h"
#include "cpuid.h"
#include "bts.h"
#include "pmu.h"
#include "vmx.h"
#include "x86_ops.h"

bool __read_mostly enable_bts = true;
module_param_named(bts, enable_bts, bool, 0444);

/* Must be called after perf's capabilities are known. */
void __init vmx_bts_hardware_setup(void)
{
	/*
	 * BTS in a guest needs
	 *  - the 64-bit format: KVM never looks at another one;
	 *  - EPT: with shadow paging the CPU would store through page tables
	 *    that are not the guest's, and a fault would be taken for one of
	 *    the instruction that happens to be next;
	 *  - the PMU, for the interrupt.
	 */
	if (!enable_ept || !enable_pmu || !kvm_pmu_cap.bts ||
	    !boot_cpu_has(X86_FEATURE_DS) ||
	    !boot_cpu_has(X86_FEATURE_DTES64))
		enable_bts = false;

	if (!enable_bts)
		return;

	vt_init_ops.handle_intel_bts_intr = vmx_handle_intel_bts_intr;
	kvm_caps.supported_bts_debugctl = DEBUGCTL_BTS_ACTIVE |
					  DEBUGCTLMSR_BTINT;
	if (boot_cpu_has(X86_FEATURE_DSCPL))
		kvm_caps.supported_bts_debugctl |= DEBUGCTLMSR_BTS_OFF_OS |
						   DEBUGCTLMSR_BTS_OFF_USR;
}

/* The bits of BTS that may be set in DEBUGCTL. */
u64 vmx_bts_supported_debugctl(struct kvm_vcpu *vcpu, bool host_initiated)
{
	u64 debugctl = kvm_caps.supported_bts_debugctl;

	/* Userspace may set MSRs in any order. */
	if (!debugctl || host_initiated)
		return debugctl;

	if (!guest_cpuid_has(vcpu, X86_FEATURE_DS) ||
	    !guest_cpuid_has(vcpu, X86_FEATURE_DTES64) ||
	    (vcpu->arch.ia32_misc_enable_msr & MSR_IA32_MISC_ENABLE_BTS_UNAVAIL))
		return 0;

	if (!guest_cpuid_has(vcpu, X86_FEATURE_DSCPL))
		debugctl &= ~(DEBUGCTLMSR_BTS_OFF_OS | DEBUGCTLMSR_BTS_OFF_USR);
	return debugctl;
}

/* Called whenever the guest's DEBUGCTL in the VMCS changes. */
void vmx_bts_set_debugctl(struct kvm_vcpu *vcpu, u64 debugctl)
{
	bool active = (debugctl & DEBUGCTL_BTS_ACTIVE) == DEBUGCTL_BTS_ACTIVE;
	struct kvm_pmu *pmu = vcpu_to_pmu(vcpu);

	if (likely(active == pmu->bts_active))
		return;

	/*
	 * perf asks for DS_AREA to be switched as long as records are stored;
	 * nobody asks for it not to be switched any more.
	 */
	pmu->bts_active = active;
	if (active) {
		x86_perf_get_guest_pmi();
	} else {
		clear_atomic_switch_msr(to_vmx(vcpu), MSR_IA32_DS_AREA);
		x86_perf_put_guest_pmi();
	}
}

void vmx_bts_free_vcpu(struct kvm_vcpu *vcpu)
{
	if (vcpu_to_pmu(vcpu)->bts_active)
		x86_perf_put_guest_pmi();
}

/*
 * DS_AREA is a linear address of what ran before, SMM has paging off at first.
 * So behave as if FREEZE_WHILE_SMM_EN was always set.
 */
void vmx_bts_enter_smm(struct kvm_vcpu *vcpu)
{
	u64 debugctl = vmx_guest_debugctl_read();

	to_vmx(vcpu)->smm_bts_debugctl = debugctl & DEBUGCTL_BTS_MASK;
	vmx_guest_debugctl_write(vcpu, debugctl & ~DEBUGCTL_BTS_MASK);
}

void vmx_bts_leave_smm(struct kvm_vcpu *vcpu)
{
	u64 bts = to_vmx(vcpu)->smm_bts_debugctl;

	if (!bts)
		return;

	to_vmx(vcpu)->smm_bts_debugctl = 0;
	vmx_guest_debugctl_write(vcpu, vmx_guest_debugctl_read() | bts);
}

/*
 * Called in the NMI of a PMI.  The NMI that BTS raised in the guest is taken
 * in the host, as the reason of a VM-Exit or right behind another one.  Once
 * is enough until the guest has run again: it cannot have raised a second one.
 *
 * BTINT does not matter: as the SDM says of circular buffers, without it the
 * threshold may raise interrupts all the same if it lies within the buffer, and
 * no guest must be able to make NMIs that nobody knows the reason of.
 */
unsigned int vmx_handle_intel_bts_intr(void)
{
	struct kvm_vcpu *vcpu = kvm_get_running_vcpu();

	if (!vcpu || !vcpu_to_pmu(vcpu)->bts_active ||
	    kvm_test_request(KVM_REQ_BTS_PMI, vcpu))
		return 0;

	kvm_make_request(KVM_REQ_BTS_PMI, vcpu);
	return 1;
}
