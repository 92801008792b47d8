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
#include "smm.h"
#include "vmx.h"
#include "x86_ops.h"

/*
 * Off unless the administrator says otherwise: the CPU writes to addresses that
 * the guest chooses, and what it does where they fault is not architectural.
 */
bool __read_mostly enable_bts;
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
	 *  - the PMU, for the interrupt, and at least its version 2: perf
	 *    switches no MSRs at VM-Enter for version 1.
	 */
	if (!enable_ept || !enable_pmu || kvm_pmu_cap.version < 2 ||
	    !kvm_pmu_cap.bts ||
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

	if (!READ_ONCE(vcpu->kvm->arch.bts_enabled))
		return 0;

	/* Userspace may set MSRs in any order. */
	if (host_initiated)
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
	struct vcpu_vmx *vmx = to_vmx(vcpu);

	if (likely(active == pmu->bts_stores))
		return;

	/*
	 * perf asks for DS_AREA to be switched as long as records are stored;
	 * nobody asks for it not to be switched any more.
	 */
	pmu->bts_stores = active;
	if (!active)
		clear_atomic_switch_msr(vmx, MSR_IA32_DS_AREA);

	/* A PMI may be on its way still when the guest switches BTS off. */
	if (active && !vmx->bts_used) {
		vmx->bts_used = true;
		x86_perf_get_guest_pmi();
	}

	vmx_update_exception_bitmap(vcpu);
}

/* Called when another VMCS, with a DEBUGCTL of its own, is the current one. */
void vmx_bts_switch_vmcs(struct kvm_vcpu *vcpu)
{
	if (vcpu->kvm->arch.bts_enabled)
		vmx_bts_set_debugctl(vcpu, vmx_guest_debugctl_read(vcpu));
}

void vmx_bts_free_vcpu(struct kvm_vcpu *vcpu)
{
	if (to_vmx(vcpu)->bts_used)
		x86_perf_put_guest_pmi();
}

/* Does anything of [gva, gva + size) lie in the page at gpa? */
static bool vmx_bts_in_page(struct kvm_vcpu *vcpu, gva_t gva, unsigned int size,
			    gpa_t gpa)
{
	gva_t last = gva + size - 1;

	return gpa_to_gfn(kvm_mmu_gva_to_gpa_system(vcpu, gva, NULL)) ==
	       gpa_to_gfn(gpa) ||
	       gpa_to_gfn(kvm_mmu_gva_to_gpa_system(vcpu, last, NULL)) ==
	       gpa_to_gfn(gpa);
}

/*
 * An access to the page at gpa cannot be done by the CPU and is to be emulated.
 * If it may be the storing of a branch record, the instruction at RIP has
 * nothing to do with it: emulating that would do it with a wrong address.
 *
 * Records cannot be stored where there is no RAM; so switch BTS off and let the
 * guest continue.  An instruction that accesses the page comes back without
 * BTS.
 */
bool vmx_bts_drop_store(struct kvm_vcpu *vcpu, gpa_t gpa)
{
	u64 ds_area = vcpu_to_pmu(vcpu)->ds_area;
	struct x86_exception e;
	struct vmx_bts_ds ds;

	if (likely(!vcpu_to_pmu(vcpu)->bts_stores))
		return false;

	if (!vmx_bts_in_page(vcpu, ds_area, sizeof(ds), gpa) &&
	    (kvm_read_guest_virt_system(vcpu, ds_area, &ds, sizeof(ds), &e) ||
	     (!vmx_bts_in_page(vcpu, ds.index, BTS_RECORD_SIZE, gpa) &&
	      !vmx_bts_in_page(vcpu, ds.buffer_base, BTS_RECORD_SIZE, gpa))))
		return false;

	vmx_guest_debugctl_write(vcpu, vmx_guest_debugctl_read(vcpu) &
				       ~DEBUGCTL_BTS_ACTIVE);
	return true;
}

#ifdef CONFIG_KVM_SMM
/* Where the state-save area has the bits of BTS */
static u32 *vmx_bts_smram(struct kvm_vcpu *vcpu, union kvm_smram *smram)
{
#ifdef CONFIG_X86_64
	if (guest_cpuid_has(vcpu, X86_FEATURE_LM))
		return &smram->smram64.bts_debugctl;
#endif
	return &smram->smram32.bts_debugctl;
}

/*
 * DS_AREA is a linear address of what ran before, SMM has paging off at first.
 * So behave as if FREEZE_WHILE_SMM_EN was always set.
 */
void vmx_bts_enter_smm(struct kvm_vcpu *vcpu, union kvm_smram *smram)
{
	u64 debugctl = vmx_guest_debugctl_read(vcpu);

	*vmx_bts_smram(vcpu, smram) = debugctl & DEBUGCTL_BTS_MASK;
	vmx_guest_debugctl_write(vcpu, debugctl & ~DEBUGCTL_BTS_MASK);
}

/* SMRAM may have anything by now, e.g. what another KVM has left there. */
void vmx_bts_leave_smm(struct kvm_vcpu *vcpu, const union kvm_smram *smram)
{
	u64 bts = *vmx_bts_smram(vcpu, (union kvm_smram *)smram);

	if (!bts || is_guest_mode(vcpu) ||
	    (bts & ~vmx_bts_supported_debugctl(vcpu, false)))
		return;

	vmx_guest_debugctl_write(vcpu, vmx_guest_debugctl_read(vcpu) | bts);
}
#endif

/*
 * Called in the NMI of a PMI.  The NMI that BTS raised in the guest is taken in
 * the host, as the reason of a VM-Exit or right after another one, by which the
 * guest may have switched BTS off.
 *
 * BTINT does not matter: as the SDM says of circular buffers, without it the
 * threshold may raise interrupts all the same if it lies within the buffer, and
 * no guest must be able to make NMIs whose reason nobody knows.
 */
unsigned int vmx_handle_intel_bts_intr(void)
{
	struct kvm_vcpu *vcpu = kvm_get_running_vcpu();

	if (!vcpu || !to_vmx(vcpu)->bts_used)
		return 0;

	kvm_make_request(KVM_REQ_BTS_PMI, vcpu);
	return 1;
}
