// SPDX-License-Identifier: GPL-2.0-only
/*
 * Branch Trace Store (BTS) of a guest: who may set what
 *
 * The guest can set the bits of BTS in DEBUGCTL that CPUID and MISC_ENABLE let
 * it have, and any canonical address in DS_AREA.  Userspace can set all that
 * KVM supports, in any order.
 */
#include "kvm_util.h"
#include "processor.h"
#include "bts_trace.h"

#define BTS_BITS	GENMASK_ULL(10, 6)
#define FILTER_BITS	(DEBUGCTLMSR_BTS_OFF_OS | DEBUGCTLMSR_BTS_OFF_USR)
#define RESERVED_BIT	BIT_ULL(40)
#define NONCANONICAL	BIT_ULL(62)

static const struct kvm_x86_cpu_feature none;

static void guest_code(uint64_t allowed, bool has_ds)
{
	uint64_t addresses[] = { 0, 0x123456, ~0xfffull };
	uint8_t vector;
	int i;

	for (i = 6; i <= 10; i++) {
		vector = wrmsr_safe(MSR_IA32_DEBUGCTLMSR, BIT_ULL(i));
		__GUEST_ASSERT(vector == (allowed & BIT_ULL(i) ? 0 : GP_VECTOR),
			       "Bit %u, allowed are %lx: vector %u", i, allowed,
			       vector);
		if (vector)
			continue;
		GUEST_ASSERT_EQ(rdmsr(MSR_IA32_DEBUGCTLMSR), BIT_ULL(i));
		wrmsr(MSR_IA32_DEBUGCTLMSR, 0);
	}
	GUEST_ASSERT_EQ(wrmsr_safe(MSR_IA32_DEBUGCTLMSR, RESERVED_BIT),
			GP_VECTOR);

	for (i = 0; has_ds && i < ARRAY_SIZE(addresses); i++) {
		wrmsr(MSR_IA32_DS_AREA, addresses[i]);
		GUEST_ASSERT_EQ(rdmsr(MSR_IA32_DS_AREA), addresses[i]);
	}
	GUEST_ASSERT_EQ(wrmsr_safe(MSR_IA32_DS_AREA, NONCANONICAL), GP_VECTOR);

	GUEST_DONE();
}

/* A guest that lacks a feature can set these bits. */
static void test_guest(struct kvm_x86_cpu_feature lacks, bool unavailable,
		       uint64_t allowed)
{
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;

	vm = vm_create_with_one_vcpu(&vcpu, guest_code);
	if (!unavailable)
		vcpu_enable_bts(vcpu);
	if (lacks.function)
		vcpu_clear_cpuid_feature(vcpu, lacks);
	vcpu_args_set(vcpu, 2, allowed,
		      vcpu_cpuid_has(vcpu, X86_FEATURE_DS));
	bts_run_vcpu(vcpu);
	kvm_vm_free(vm);
}

/* What the guest has does not matter until userspace enables BTS. */
static void test_not_enabled(void)
{
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;
	uint64_t misc;
	int i;

	vm = vm_create_with_one_vcpu(&vcpu, guest_code);
	vcpu_set_bts_cpuid(vcpu);
	misc = vcpu_get_msr(vcpu, MSR_IA32_MISC_ENABLE);
	vcpu_set_msr(vcpu, MSR_IA32_MISC_ENABLE,
		     misc & ~MSR_IA32_MISC_ENABLE_BTS_UNAVAIL);
	for (i = 6; i <= 10; i++)
		TEST_ASSERT(!_vcpu_set_msr(vcpu, MSR_IA32_DEBUGCTLMSR,
					   BIT_ULL(i)),
			    "Userspace can set bit %u", i);
	vcpu_args_set(vcpu, 2, 0, true);
	bts_run_vcpu(vcpu);

	TEST_ASSERT(__vm_enable_cap(vm, KVM_CAP_X86_BTS, 1) == -1 &&
		    errno == EINVAL, "KVM takes an unknown argument");
	kvm_vm_free(vm);
}

/* No BTS without a PMU */
static void test_no_pmu(void)
{
	struct kvm_vm *vm = vm_create_barebones();

	vm_enable_cap(vm, KVM_CAP_PMU_CAPABILITY, KVM_PMU_CAP_DISABLE);
	TEST_ASSERT_EQ(vm_check_cap(vm, KVM_CAP_X86_BTS), 0);
	TEST_ASSERT(__vm_enable_cap(vm, KVM_CAP_X86_BTS, 0) == -1 &&
		    errno == EINVAL, "BTS can be had without a PMU");
	kvm_vm_free(vm);
}

static void restored_guest_code(void)
{
	/* It has been traced since its first instruction. */
	asm volatile("jmp 1f\n\t"
		     "nop\n\t"
		     "1:");
	GUEST_ASSERT_EQ(rdmsr(MSR_IA32_DEBUGCTLMSR), BTS_ON);
	GUEST_ASSERT(bts_nr_records() > 0);
	wrmsr(MSR_IA32_DEBUGCTLMSR, 0);

	bts_setup(NR_BTS_RECORDS, 0);
	trace(BTS_ON);
	assert_branches();
	GUEST_DONE();
}

/* Userspace sets what a guest had that was traced, in this order. */
static void test_userspace(const int order[3])
{
	struct {
		uint32_t index;
		uint64_t data;
	} msrs[] = {
		{ MSR_IA32_MISC_ENABLE },
		{ MSR_IA32_DEBUGCTLMSR, BTS_ON },
		{ MSR_IA32_DS_AREA, (uint64_t)&bts },
	};
	struct bts_area *area;
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;
	int i;

	vm = vm_create_with_one_vcpu(&vcpu, restored_guest_code);
	vm_enable_cap(vm, KVM_CAP_X86_BTS, 0);
	vcpu_set_bts_cpuid(vcpu);
	msrs[0].data = vcpu_get_msr(vcpu, MSR_IA32_MISC_ENABLE) &
		       ~MSR_IA32_MISC_ENABLE_BTS_UNAVAIL;
	area = addr_gva2hva(vm, (vm_vaddr_t)&bts);
	area->base = (uint64_t)bts.records;
	area->index = area->base;
	area->maximum = (uint64_t)(bts.records + NR_BTS_RECORDS);
	area->threshold = area->maximum + sizeof(struct bts_record);

	for (i = 0; i < 3; i++)
		vcpu_set_msr(vcpu, msrs[order[i]].index, msrs[order[i]].data);
	for (i = 0; i < 3; i++)
		TEST_ASSERT_EQ(vcpu_get_msr(vcpu, msrs[i].index), msrs[i].data);

	TEST_ASSERT(!_vcpu_set_msr(vcpu, MSR_IA32_DEBUGCTLMSR,
				   BTS_ON | RESERVED_BIT),
		    "Userspace can set a reserved bit of DEBUGCTL");
	TEST_ASSERT(!_vcpu_set_msr(vcpu, MSR_IA32_DS_AREA, NONCANONICAL),
		    "Userspace can set a DS_AREA that is not canonical");
	TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_IA32_DEBUGCTLMSR), BTS_ON);
	TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_IA32_DS_AREA), (uint64_t)&bts);

	bts_run_vcpu(vcpu);
	kvm_vm_free(vm);
}

int main(void)
{
	static const int orders[][3] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
		{ 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
	};
	uint64_t supported;
	int i;

	bts_require();
	supported = kvm_check_cap(KVM_CAP_X86_BTS);
	TEST_ASSERT_EQ(supported & ~BTS_BITS, 0);
	TEST_ASSERT_EQ(supported & ~FILTER_BITS, BTS_ON | DEBUGCTLMSR_BTINT);
	TEST_ASSERT_EQ(supported & FILTER_BITS,
		       bts_has_filters() ? FILTER_BITS : 0);
	TEST_ASSERT(!kvm_cpu_has(X86_FEATURE_DS_CPL),
		    "Userspace that does not know of BTS gives it to guests");
	TEST_ASSERT(kvm_msr_is_in_save_restore_list(MSR_IA32_DEBUGCTLMSR) &&
		    kvm_msr_is_in_save_restore_list(MSR_IA32_DS_AREA),
		    "The MSRs of BTS would not be migrated");

	test_not_enabled();
	test_no_pmu();
	test_guest(none, false, supported);
	test_guest(none, true, 0);
	test_guest(X86_FEATURE_DS, false, 0);
	test_guest(X86_FEATURE_DTES64, false, 0);
	test_guest(X86_FEATURE_DS_CPL, false, supported & ~FILTER_BITS);

	for (i = 0; i < ARRAY_SIZE(orders); i++)
		test_userspace(orders[i]);
	return 0;
}
