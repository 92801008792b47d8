// SPDX-License-Identifier: GPL-2.0
/*
 * Tracing a guest by BTS, for the host
 *
 * The CPU stores a record of every branch of the guest into a window of
 * guest-linear addresses that userspace provides: a DS area and a buffer in
 * memory of the VM, which the guest's page tables must map.  KVM owns the bits of
 * BTS in DEBUGCTL, and DS_AREA, while the guest sees those that it has written;
 * it labels the records by storing a marker into the buffer whenever the guest
 * has loaded CR3, and returns to userspace when the buffer has filled up to its
 * threshold.
 *
 * Whether the CPU can trace depends on much of the vCPU's state.  It is looked
 * at in one place, before each VM-Enter, so that nothing that changes it has to
 * be hooked; only what is to be found out by a VM-Exit is noted there.
 *
 * What is in the window is guest memory, which other vCPUs can write to at any
 * time: each value is read once and checked against the copy that KVM has, and
 * KVM writes nowhere but into the window.
 */
#include <linux/kvm_host.h>
#include <linux/moduleparam.h>

#include <asm/perf_event.h>

#include "x86.h"
#include "bts.h"
#include "mmu.h"
#include "pmu.h"
#include "smm.h"
#include "vmx.h"
#include "x86_ops.h"

/*
 * Off unless the administrator says otherwise: a guest's kernel can change the
 * DS area, so this is no safer than bts.
 */
static bool __read_mostly enable_bts_trace;
module_param_named(bts_trace, enable_bts_trace, bool, 0444);

/* The CPU traces all of the guest, the buffer is not circular. */
#define DEBUGCTL_BTS_TRACE	(DEBUGCTL_BTS_ACTIVE | DEBUGCTLMSR_BTINT)

/* How much may be verified each time that a guest has another root entry */
#define BTS_TRACE_MAX_SIZE	SZ_2M

/* Where the buffer may begin: after what DS areas have, PEBS's part included */
#define BTS_TRACE_DS_SIZE	0x80

/* The room, in records, that there must be after the threshold */
#define BTS_TRACE_RESERVE	8

/* Faults of stores, although all is mapped, after which KVM gives up */
#define BTS_TRACE_MAX_FAULTS	8

/* No marker has been stored yet. */
#define BTS_TRACE_UNKNOWN	(~0u)

/* Has the layout of a branch record */
struct vmx_bts_marker {
	u64 marker;
	u64 cr3;
	u64 tsc;
};

static_assert(sizeof(struct vmx_bts_marker) == BTS_RECORD_SIZE);

struct vmx_bts_trace {
	struct kvm_bts_trace config;
	/* The DS area as userspace has set it up; only the index changes. */
	struct vmx_bts_ds ds;
	struct gfn_to_hva_cache ds_cache;

	/* The bits of BTS that the guest has in DEBUGCTL while it is traced */
	u64 guest_debugctl;

	/* The last marker: why there are no records, or 0, and their CR3 */
	u32 off_reason;
	u64 cr3;

	/* Found by VM-Exits, for the next VM-Enter */
	u32 lost;		/* why records may be missing, or 0 */
	u32 failure;		/* why tracing has to end, or 0 */
	u32 faults;		/* of stores, since CR3 was loaded */
	bool check_root;

	/* What was found of the page tables at root_cr3 */
	u64 root_cr3;
	u64 root_entry;
	bool root_verified;	/* root_entry leads to the window */
	u32 root_reason;	/* why root_cr3 cannot be traced, or 0 */
};

/*
 * Called in the NMI of a PMI.  The next VM-Enter looks at the index, if it is not
 * a fast one.
 */
static unsigned int vmx_handle_intel_bts_trace_intr(void)
{
	struct kvm_vcpu *vcpu = kvm_get_running_vcpu();

	if (!vcpu || !vmx_bts_trace_is_on(vcpu))
		return vmx_handle_intel_bts_intr() ||
		       (vcpu && to_vmx(vcpu)->bts_trace);

	kvm_make_request(KVM_REQ_EVENT, vcpu);
	return 1;
}

void __init vmx_bts_trace_hardware_setup(void)
{
	struct x86_pmu_capability cap;

	/*
	 * As for BTS in a guest (see vmx_bts_hardware_setup()), except for the
	 * guest's PMU.  Without unrestricted guests, KVM itself has to
	 * intercept loads of CR3, and to load another one.
	 */
	if (!IS_ENABLED(CONFIG_X86_64) || !enable_ept ||
	    !enable_unrestricted_guest || !boot_cpu_has(X86_FEATURE_DS) ||
	    !boot_cpu_has(X86_FEATURE_DTES64) ||
	    cpu_feature_enabled(X86_FEATURE_HYBRID_CPU))
		enable_bts_trace = false;

	if (!enable_bts_trace)
		return;

	perf_get_x86_pmu_capability(&cap);
	if (cap.version < 2 || !cap.bts) {
		enable_bts_trace = false;
		return;
	}

	vt_init_ops.handle_intel_bts_intr = vmx_handle_intel_bts_trace_intr;
	kvm_caps.has_bts_trace = true;
}

static bool vmx_bts_trace_in_window(const struct vmx_bts_trace *trace,
				    u64 begin, u64 addr)
{
	return addr - begin < trace->config.size;
}

/* Can the index be there?  Both are in the window. */
static bool vmx_bts_trace_is_record(const struct vmx_bts_ds *ds, u64 addr)
{
	return (u32)(addr - ds->buffer_base) % BTS_RECORD_SIZE == 0;
}

static bool vmx_bts_trace_ds_is_valid(const struct kvm_bts_trace *config,
				      const struct vmx_bts_ds *ds)
{
	u64 end = config->ds_area + config->size;

	return ds->buffer_base >= config->ds_area + BTS_TRACE_DS_SIZE &&
	       ds->absolute_maximum <= end &&
	       ds->buffer_base < ds->interrupt_threshold &&
	       ds->interrupt_threshold < ds->absolute_maximum &&
	       ds->absolute_maximum - ds->interrupt_threshold >=
	       BTS_TRACE_RESERVE * BTS_RECORD_SIZE &&
	       ds->index >= ds->buffer_base &&
	       ds->index <= ds->absolute_maximum &&
	       vmx_bts_trace_is_record(ds, ds->index) &&
	       vmx_bts_trace_is_record(ds, ds->interrupt_threshold) &&
	       vmx_bts_trace_is_record(ds, ds->absolute_maximum);
}

/* Returns why tracing has to end, or 0. */
static u32 vmx_bts_trace_read_ds(struct kvm_vcpu *vcpu,
				 struct vmx_bts_trace *trace,
				 struct vmx_bts_ds *ds)
{
	if (kvm_read_guest_cached(vcpu->kvm, &trace->ds_cache, ds, sizeof(*ds)))
		return KVM_BTS_TRACE_OFF_MEMORY;

	if (ds->buffer_base != trace->ds.buffer_base ||
	    ds->absolute_maximum != trace->ds.absolute_maximum ||
	    ds->interrupt_threshold != trace->ds.interrupt_threshold ||
	    !vmx_bts_trace_ds_is_valid(&trace->config, ds))
		return KVM_BTS_TRACE_OFF_CORRUPT;

	return 0;
}

/* Store a marker as the CPU stores a record. */
static u32 vmx_bts_trace_append(struct kvm_vcpu *vcpu,
				struct vmx_bts_trace *trace,
				struct vmx_bts_ds *ds, u32 type, u32 reason)
{
	gpa_t gpa = trace->config.gpa + (ds->index - trace->config.ds_area);
	struct vmx_bts_marker marker = {
		.marker = KVM_BTS_TRACE_MARKER | reason << 8 | type,
		.cr3 = trace->cr3,
		.tsc = kvm_read_l1_tsc(vcpu, rdtsc()),
	};

	if (WARN_ON_ONCE(ds->index + sizeof(marker) > ds->absolute_maximum))
		return KVM_BTS_TRACE_OFF_CORRUPT;

	ds->index += sizeof(marker);
	if (kvm_write_guest(vcpu->kvm, gpa, &marker, sizeof(marker)) ||
	    kvm_write_guest_offset_cached(vcpu->kvm, &trace->ds_cache,
					  &ds->index,
					  offsetof(struct vmx_bts_ds, index),
					  sizeof(ds->index)))
		return KVM_BTS_TRACE_OFF_MEMORY;

	return 0;
}

/*
 * Say in the buffer what is different from now on: CR3, or that there are no
 * records for this reason (0: there are).
 */
static u32 vmx_bts_trace_mark(struct kvm_vcpu *vcpu,
			      struct vmx_bts_trace *trace,
			      struct vmx_bts_ds *ds, u32 reason)
{
	u32 type, failure = 0;
	u64 cr3;

	if (trace->lost && !trace->off_reason) {
		failure = vmx_bts_trace_append(vcpu, trace, ds,
					       KVM_BTS_TRACE_MARKER_OFF,
					       trace->lost);
		trace->off_reason = trace->lost;
	}
	trace->lost = 0;

	if (reason) {
		if (!failure && reason != trace->off_reason)
			failure = vmx_bts_trace_append(vcpu, trace, ds,
						       KVM_BTS_TRACE_MARKER_OFF,
						       reason);
	} else {
		cr3 = kvm_read_cr3(vcpu);
		type = trace->off_reason ? KVM_BTS_TRACE_MARKER_ON :
					   KVM_BTS_TRACE_MARKER_CR3;
		if (!failure && (trace->off_reason || cr3 != trace->cr3)) {
			trace->cr3 = cr3;
			failure = vmx_bts_trace_append(vcpu, trace, ds, type, 0);
		}
	}
	trace->off_reason = reason;

	return failure;
}

/*
 * Is all of the window mapped where it should be, for the CPU to store to at any
 * privilege level?  Sets the accessed and dirty bits, as the CPU would.
 */
static bool vmx_bts_trace_walk(struct kvm_vcpu *vcpu,
			       const struct kvm_bts_trace *config)
{
	struct kvm_mmu *mmu = vcpu->arch.walk_mmu;
	u64 offset;

	for (offset = 0; offset < config->size; offset += PAGE_SIZE) {
		gpa_t gpa = mmu->gva_to_gpa(vcpu, mmu, config->ds_area + offset,
					    PFERR_WRITE_MASK |
					    PFERR_IMPLICIT_ACCESS, NULL);

		if (gpa != config->gpa + offset)
			return false;
	}

	return true;
}

/*
 * Does CR3 lead to the window?  The tables below the root need not be walked
 * again if the root entry is one that has led there before: whoever changes
 * them makes the CPU fault, or store elsewhere in the guest.
 */
static u32 vmx_bts_trace_verify_root(struct kvm_vcpu *vcpu,
				     struct vmx_bts_trace *trace, u64 cr3)
{
	const struct kvm_bts_trace *config = &trace->config;
	u64 entry, accessed = PT_ACCESSED_MASK;

	if (vmx_bts_trace_root_entry(vcpu, (cr3 & GENMASK_ULL(51, PAGE_SHIFT)) +
				     config->root_index * sizeof(entry),
				     config->root_entry, &entry))
		return KVM_BTS_TRACE_OFF_ADDRESS_SPACE;

	if (config->root_entry && (entry ^ config->root_entry) & ~accessed)
		return KVM_BTS_TRACE_OFF_ADDRESS_SPACE;

	if (!trace->root_verified || (entry ^ trace->root_entry) & ~accessed) {
		trace->root_entry = entry;
		trace->root_verified = vmx_bts_trace_walk(vcpu, config);
	}

	return trace->root_verified ? 0 : KVM_BTS_TRACE_OFF_ADDRESS_SPACE;
}

static u32 vmx_bts_trace_check_root(struct kvm_vcpu *vcpu,
				    struct vmx_bts_trace *trace)
{
	u64 cr3 = kvm_read_cr3(vcpu);

	if (cr3 != trace->root_cr3 || trace->check_root) {
		trace->root_cr3 = cr3;
		trace->check_root = false;
		trace->root_reason = vmx_bts_trace_verify_root(vcpu, trace, cr3);
		if (trace->faults &&
		    (trace->root_reason || trace->faults > BTS_TRACE_MAX_FAULTS))
			trace->root_reason = KVM_BTS_TRACE_OFF_UNMAPPED;
	}

	return trace->root_reason;
}

static bool vmx_bts_trace_mode_fits(struct kvm_vcpu *vcpu,
				    const struct kvm_bts_trace *config)
{
	int shift = kvm_is_cr4_bit_set(vcpu, X86_CR4_LA57) ? 48 : 39;

	/* Without EFER.NX that bit is reserved, and the entry leads nowhere. */
	if ((config->root_entry & PT64_NX_MASK) &&
	    !(vcpu->arch.efer & EFER_NX))
		return false;

	return is_long_mode(vcpu) &&
	       !is_noncanonical_address(config->ds_area, vcpu, 0) &&
	       (config->ds_area >> shift & 0x1ff) == config->root_index;
}

/* Why can the CPU not trace?  0: it can. */
static u32 vmx_bts_trace_off_reason(struct kvm_vcpu *vcpu,
				    struct vmx_bts_trace *trace)
{
	u64 debugctl = vmx_guest_debugctl_read(vcpu);

	if (is_guest_mode(vcpu))
		return KVM_BTS_TRACE_OFF_NESTED;
	if (is_smm(vcpu))
		return KVM_BTS_TRACE_OFF_SMM;
	if (!vmx_bts_trace_mode_fits(vcpu, &trace->config))
		return KVM_BTS_TRACE_OFF_MODE;

	/* There is one DS area, and it is the guest's if the guest needs it. */
	if ((debugctl & DEBUGCTL_BTS_ACTIVE) == DEBUGCTL_BTS_ACTIVE ||
	    vcpu_to_pmu(vcpu)->pebs_enable)
		return KVM_BTS_TRACE_OFF_GUEST;

	return vmx_bts_trace_check_root(vcpu, trace);
}

/* While KVM does not intercept loads of CR3, the VMCS has it, see vmx_cache_reg(). */
static void vmx_bts_trace_intercept_cr3(struct kvm_vcpu *vcpu, bool intercept)
{
	struct vcpu_vmx *vmx = to_vmx(vcpu);

	if (intercept) {
		kvm_read_cr3(vcpu);
		exec_controls_setbit(vmx, CPU_BASED_CR3_LOAD_EXITING);
	} else {
		exec_controls_clearbit(vmx, CPU_BASED_CR3_LOAD_EXITING);
	}
}

/* Give DEBUGCTL and DS_AREA to the host or back to the guest. */
static void vmx_bts_trace_load(struct kvm_vcpu *vcpu, u64 ds_area)
{
	struct kvm_pmu *pmu = vcpu_to_pmu(vcpu);
	u64 debugctl;

	if (pmu->host_ds_area == ds_area)
		return;

	debugctl = vmx_guest_debugctl_read(vcpu);
	if (!ds_area)
		clear_atomic_switch_msr(to_vmx(vcpu), MSR_IA32_DS_AREA);
	pmu->host_ds_area = ds_area;
	pmu->bts_stores = ds_area;
	vmx_guest_debugctl_write(vcpu, debugctl);
	vmx_update_exception_bitmap(vcpu);
}

/*
 * Called before another VMCS becomes the current one, too: that of a nested guest
 * takes over much of its hypervisor's, and must not take over this.
 */
void vmx_bts_trace_unload(struct kvm_vcpu *vcpu)
{
	struct vcpu_vmx *vmx = to_vmx(vcpu);

	if (!vcpu->arch.bts_trace || vmx->loaded_vmcs != &vmx->vmcs01)
		return;

	vmx_bts_trace_load(vcpu, 0);
	vmx_bts_trace_intercept_cr3(vcpu, false);
}

/* What the guest has in DEBUGCTL while the CPU has this */
u64 vmx_bts_trace_guest_debugctl(struct kvm_vcpu *vcpu, u64 debugctl)
{
	return (debugctl & ~DEBUGCTL_BTS_MASK) |
	       to_vmx(vcpu)->bts_trace->guest_debugctl;
}

/* What the CPU is to have in DEBUGCTL when the guest writes this */
u64 vmx_bts_trace_host_debugctl(struct kvm_vcpu *vcpu, u64 debugctl)
{
	to_vmx(vcpu)->bts_trace->guest_debugctl = debugctl & DEBUGCTL_BTS_MASK;

	return (debugctl & ~DEBUGCTL_BTS_MASK) | DEBUGCTL_BTS_TRACE;
}

static int vmx_bts_trace_exit(struct kvm_vcpu *vcpu, u32 reason, u32 off_reason)
{
	vcpu->run->exit_reason = KVM_EXIT_X86_BTS_TRACE;
	vcpu->run->bts_trace.reason = reason;
	vcpu->run->bts_trace.off_reason = off_reason;

	return 1;
}

static void vmx_bts_trace_disable(struct kvm_vcpu *vcpu)
{
	vmx_bts_trace_unload(vcpu);
	vcpu->arch.bts_trace = false;
}

/*
 * Called before each VM-Enter while tracing is enabled, when nothing can change
 * any more what the vCPU is about to do.  Returns 1 if it has to return to
 * userspace instead.
 */
int vmx_prepare_bts_trace(struct kvm_vcpu *vcpu)
{
	struct vmx_bts_trace *trace = to_vmx(vcpu)->bts_trace;
	struct vmx_bts_ds ds;
	u32 failure, reason;
	bool intercept;

	failure = trace->failure ?: vmx_bts_trace_read_ds(vcpu, trace, &ds);
	if (failure)
		goto failed;

	if (ds.index == ds.absolute_maximum)
		trace->lost = KVM_BTS_TRACE_OFF_OVERFLOW;
	if (ds.index >= ds.interrupt_threshold)
		return vmx_bts_trace_exit(vcpu, KVM_BTS_TRACE_EXIT_FULL, 0);

	reason = vmx_bts_trace_off_reason(vcpu, trace);
	failure = vmx_bts_trace_mark(vcpu, trace, &ds, reason);
	if (failure)
		goto failed;

	if (!is_guest_mode(vcpu)) {
		/* Another CR3 may lead to the window. */
		intercept = !reason ||
			    reason == KVM_BTS_TRACE_OFF_ADDRESS_SPACE ||
			    reason == KVM_BTS_TRACE_OFF_UNMAPPED;
		vmx_bts_trace_intercept_cr3(vcpu, intercept);
		vmx_bts_trace_load(vcpu, reason ? 0 : trace->config.ds_area);
	}

	/* The CPU need not see that markers have reached the threshold. */
	if (ds.index >= ds.interrupt_threshold)
		return vmx_bts_trace_exit(vcpu, KVM_BTS_TRACE_EXIT_FULL, 0);

	return 0;

failed:
	vmx_bts_trace_disable(vcpu);
	return vmx_bts_trace_exit(vcpu, KVM_BTS_TRACE_EXIT_OFF, failure);
}

/* The guest has loaded CR3, if only with the same value to flush the TLB. */
void vmx_bts_trace_cr3_loaded(struct kvm_vcpu *vcpu)
{
	struct vmx_bts_trace *trace = to_vmx(vcpu)->bts_trace;

	trace->check_root = true;
	trace->faults = 0;
}

/*
 * An exception has caused a VM-Exit.  If it may be one of a store, the guest
 * must not see it: have it tried again.  By then, either the store succeeds, or
 * the CPU does not trace any more and the exception, if it is the guest's after
 * all, comes back.
 */
bool vmx_bts_trace_handle_fault(struct kvm_vcpu *vcpu, u32 intr_info, u64 cr2)
{
	struct vmx_bts_trace *trace = to_vmx(vcpu)->bts_trace;
	struct vmx_bts_ds ds;

	if (is_page_fault(intr_info) &&
	    vmx_bts_trace_in_window(trace, trace->config.ds_area, cr2)) {
		trace->lost = KVM_BTS_TRACE_OFF_UNMAPPED;
		trace->root_verified = false;
		trace->check_root = true;
		trace->faults++;
		return true;
	}

	trace->failure = vmx_bts_trace_read_ds(vcpu, trace, &ds);
	return trace->failure;
}

/*
 * The CPU has to access guest-physical memory that is not mapped yet, and if
 * that was a store, it may have lost the record.
 */
void vmx_bts_trace_handle_ept_violation(struct kvm_vcpu *vcpu, gpa_t gpa,
					unsigned long exit_qualification)
{
	struct vmx_bts_trace *trace = to_vmx(vcpu)->bts_trace;

	if (vmx_bts_trace_in_window(trace, trace->config.gpa, gpa) ||
	    ((exit_qualification & EPT_VIOLATION_GVA_IS_VALID) &&
	     vmx_bts_trace_in_window(trace, trace->config.ds_area,
				     vmcs_readl(GUEST_LINEAR_ADDRESS))))
		trace->lost = KVM_BTS_TRACE_OFF_EPT_FAULT;
}

/* Likewise, and nothing tells of which access this was. */
void vmx_bts_trace_handle_pml_full(struct kvm_vcpu *vcpu)
{
	to_vmx(vcpu)->bts_trace->lost = KVM_BTS_TRACE_OFF_EPT_FAULT;
}

/*
 * An access to the page at gpa cannot be done by the CPU.  See
 * vmx_bts_drop_store(): if it may be a store, there must be no emulation.
 */
bool vmx_bts_trace_drop_store(struct kvm_vcpu *vcpu, gpa_t gpa)
{
	struct vmx_bts_trace *trace = to_vmx(vcpu)->bts_trace;
	struct vmx_bts_ds ds;

	if (vmx_bts_trace_in_window(trace, trace->config.gpa, gpa))
		trace->failure = KVM_BTS_TRACE_OFF_MEMORY;
	else
		trace->failure = vmx_bts_trace_read_ds(vcpu, trace, &ds);

	return trace->failure;
}

static bool vmx_bts_trace_config_is_valid(const struct kvm_bts_trace *config)
{
	u64 bits = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(config->reserved); i++)
		bits |= config->reserved[i];
	if (bits)
		return false;

	if (!(config->flags & KVM_BTS_TRACE_ENABLE))
		return !(config->flags | config->root_index |
			 config->root_entry | config->ds_area | config->gpa |
			 config->size);

	return config->flags == KVM_BTS_TRACE_ENABLE &&
	       config->root_index < 512 &&
	       config->size && config->size <= BTS_TRACE_MAX_SIZE &&
	       PAGE_ALIGNED(config->ds_area | config->gpa | config->size) &&
	       (s64)config->ds_area < 0 &&
	       __is_canonical_address(config->ds_area, 57) &&
	       (config->ds_area & GENMASK_ULL(38, 0)) + config->size <=
	       BIT_ULL(39) &&
	       config->gpa + config->size > config->gpa;
}

static struct vmx_bts_trace *vmx_bts_trace_alloc(struct vcpu_vmx *vmx)
{
	if (!vmx->bts_trace) {
		vmx->bts_trace = kzalloc(sizeof(*vmx->bts_trace),
					 GFP_KERNEL_ACCOUNT);
		/* There may be PMIs as long as there is the vCPU. */
		if (vmx->bts_trace)
			x86_perf_get_guest_pmi();
	}

	return vmx->bts_trace;
}

void vmx_bts_trace_free(struct vcpu_vmx *vmx)
{
	if (vmx->bts_trace)
		x86_perf_put_guest_pmi();
	kfree(vmx->bts_trace);
}

/* Userspace enables, changes or disables tracing. */
int vmx_set_bts_trace(struct kvm_vcpu *vcpu, const struct kvm_bts_trace *config)
{
	struct gfn_to_hva_cache window;
	struct vmx_bts_trace *trace;

	if (!vmx_bts_trace_config_is_valid(config))
		return -EINVAL;

	if (!(config->flags & KVM_BTS_TRACE_ENABLE)) {
		vmx_bts_trace_disable(vcpu);
		return 0;
	}

	/* All of it has to be RAM that can be written to. */
	if (kvm_gfn_to_hva_cache_init(vcpu->kvm, &window, config->gpa,
				      config->size))
		return -EINVAL;

	trace = vmx_bts_trace_alloc(to_vmx(vcpu));
	if (!trace)
		return -ENOMEM;

	vmx_bts_trace_disable(vcpu);
	memset(trace, 0, sizeof(*trace));
	trace->config = *config;
	trace->off_reason = BTS_TRACE_UNKNOWN;
	trace->check_root = true;

	if (kvm_gfn_to_hva_cache_init(vcpu->kvm, &trace->ds_cache, config->gpa,
				      sizeof(trace->ds)) ||
	    kvm_read_guest_cached(vcpu->kvm, &trace->ds_cache, &trace->ds,
				  sizeof(trace->ds)))
		return -EFAULT;

	if (!vmx_bts_trace_ds_is_valid(config, &trace->ds))
		return -EINVAL;

	vcpu->arch.bts_trace = true;
	return 0;
}

void vmx_get_bts_trace(struct kvm_vcpu *vcpu, struct kvm_bts_trace *config)
{
	if (!vcpu->arch.bts_trace)
		return;

	*config = to_vmx(vcpu)->bts_trace->config;
	if (vmx_bts_trace_is_on(vcpu))
		config->flags |= KVM_BTS_TRACE_ON;
}
