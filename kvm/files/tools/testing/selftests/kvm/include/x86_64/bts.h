/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Branch Trace Store (BTS) of guests: what its tests share
 */
#ifndef SELFTEST_KVM_BTS_H
#define SELFTEST_KVM_BTS_H

#include "kvm_util.h"
#include "processor.h"
#include "test_util.h"

#define X86_FEATURE_DTES64	KVM_X86_CPU_FEATURE(0x1, 0, ECX, 2)
#define X86_FEATURE_DS_CPL	KVM_X86_CPU_FEATURE(0x1, 0, ECX, 4)
#define X86_FEATURE_DS		KVM_X86_CPU_FEATURE(0x1, 0, EDX, 21)

#define BTS_ON			(DEBUGCTLMSR_TR | DEBUGCTLMSR_BTS)

struct bts_record {
	uint64_t from;
	uint64_t to;
	uint64_t flags;
};

#define NR_BTS_RECORDS		64

/* The first fields are those of the CPU; all is in one page. */
struct bts_area {
	uint64_t base;
	uint64_t index;
	uint64_t maximum;
	uint64_t threshold;
	uint64_t pebs[12];
	struct bts_record records[NR_BTS_RECORDS];
} __aligned(4096);

static struct bts_area bts;

/* Room for @nr records, the threshold at @threshold (0: none) */
static inline void bts_setup(unsigned int nr, unsigned int threshold)
{
	memset(&bts, 0, sizeof(bts));
	bts.base = (uint64_t)bts.records;
	bts.index = bts.base;
	bts.maximum = (uint64_t)(bts.records + nr);
	bts.threshold = (uint64_t)(bts.records + (threshold ?: NR_BTS_RECORDS + 1));
	wrmsr(MSR_IA32_DS_AREA, (uint64_t)&bts);
}

static inline unsigned int bts_nr_records(void)
{
	return (READ_ONCE(bts.index) - bts.base) / sizeof(struct bts_record);
}

static inline void bts_assert_record(unsigned int i, void *from, void *to)
{
	__GUEST_ASSERT(bts.records[i].from == (uint64_t)from &&
		       bts.records[i].to == (uint64_t)to,
		       "Record %u is %lx -> %lx, not %lx -> %lx", i,
		       bts.records[i].from, bts.records[i].to,
		       (uint64_t)from, (uint64_t)to);
}

static inline void bts_assert_nr_records(unsigned int nr)
{
	__GUEST_ASSERT(bts_nr_records() == nr, "%u records, not %u",
		       bts_nr_records(), nr);
}

static inline void bts_require(void)
{
	TEST_REQUIRE(kvm_check_cap(KVM_CAP_X86_BTS));
}

static inline bool bts_has_filters(void)
{
	return kvm_check_cap(KVM_CAP_X86_BTS) & DEBUGCTLMSR_BTS_OFF_OS;
}

/* KVM_GET_SUPPORTED_CPUID does not have what BTS needs. */
static inline void vcpu_set_bts_cpuid(struct kvm_vcpu *vcpu)
{
	vcpu_set_cpuid_feature(vcpu, X86_FEATURE_DS);
	vcpu_set_cpuid_feature(vcpu, X86_FEATURE_DTES64);
	if (bts_has_filters())
		vcpu_set_cpuid_feature(vcpu, X86_FEATURE_DS_CPL);
}

static inline void vcpu_enable_bts(struct kvm_vcpu *vcpu)
{
	uint64_t misc_enable = vcpu_get_msr(vcpu, MSR_IA32_MISC_ENABLE);

	vm_enable_cap(vcpu->vm, KVM_CAP_X86_BTS, 0);
	vcpu_set_bts_cpuid(vcpu);

	TEST_ASSERT(misc_enable & MSR_IA32_MISC_ENABLE_BTS_UNAVAIL,
		    "BTS is there before userspace wants it");
	vcpu_set_msr(vcpu, MSR_IA32_MISC_ENABLE,
		     misc_enable & ~MSR_IA32_MISC_ENABLE_BTS_UNAVAIL);
}

/* Run until the guest is done. */
static inline void bts_run_vcpu(struct kvm_vcpu *vcpu)
{
	struct ucall uc;

	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);

	switch (get_ucall(vcpu, &uc)) {
	case UCALL_ABORT:
		REPORT_GUEST_ASSERT(uc);
	case UCALL_DONE:
		return;
	default:
		TEST_FAIL("Unknown ucall %lu", uc.cmd);
	}
}

#define SMRAM_GPA	0x1000000
#define SMRAM_MEMSLOT	((1 << 16) | 1)
#define SMRAM_PAGES	16

/* The handler of SMIs has a branch. */
static inline void vcpu_set_smi_handler(struct kvm_vcpu *vcpu)
{
	/* jmp to the next instruction; rsm */
	static const uint8_t handler[] = { 0xeb, 0x00, 0x0f, 0xaa };

	vm_userspace_mem_region_add(vcpu->vm, VM_MEM_SRC_ANONYMOUS, SMRAM_GPA,
				    SMRAM_MEMSLOT, SMRAM_PAGES, 0);
	TEST_ASSERT_EQ(vm_phy_pages_alloc(vcpu->vm, SMRAM_PAGES, SMRAM_GPA,
					  SMRAM_MEMSLOT), SMRAM_GPA);
	memcpy(addr_gpa2hva(vcpu->vm, SMRAM_GPA) + 0x8000, handler,
	       sizeof(handler));
	vcpu_set_msr(vcpu, MSR_IA32_SMBASE, SMRAM_GPA);
}

#endif /* SELFTEST_KVM_BTS_H */
