// SPDX-License-Identifier: GPL-2.0-only
/*
 * Branch Trace Store (BTS) of a guest
 *
 * Run code whose branches are known by its labels with BTS on: every branch
 * has its record, and there are no others, also across interrupts, SMIs, and
 * saving and restoring the vCPU in mid-trace.
 */
#include "kvm_util.h"
#include "processor.h"
#include "apic.h"
#include "bts_trace.h"

#define SYNC_PORT	0xe
#define PMI_VECTOR	0x40
#define APIC_LVTPC	0x340

extern char sync_jmp1[], sync_to1[], sync_jmp2[], sync_to2[];
extern char smi_jmp1[], smi_to1[], smi_jmp2[], smi_to2[];

/* The host saves and restores the vCPU at the IN. */
static noinline void trace_sync(uint64_t debugctl)
{
	asm volatile("wrmsr\n"
		     "sync_jmp1: jmp sync_to1\n\t"
		     "nop\n"
		     "sync_to1: in $" __stringify(SYNC_PORT) ", %%al\n"
		     "sync_jmp2: jmp sync_to2\n\t"
		     "nop\n"
		     "sync_to2: xor %%eax, %%eax\n\t"
		     "wrmsr\n\t"
		     : "+a" (debugctl)
		     : "c" (MSR_IA32_DEBUGCTLMSR), "d" (0)
		     : "memory", "cc");
}

/* An SMI between two branches; returns DEBUGCTL as it is after RSM */
static noinline uint64_t trace_smi(uint64_t debugctl)
{
	uint32_t after;

	asm volatile("wrmsr\n"
		     "smi_jmp1: jmp smi_to1\n\t"
		     "nop\n"
		     "smi_to1: mov %[icr], %%ecx\n\t"
		     "mov %[smi], %%eax\n\t"
		     "wrmsr\n\t"
		     "nop\n"
		     "smi_jmp2: jmp smi_to2\n\t"
		     "nop\n"
		     "smi_to2: mov %[debugctl], %%ecx\n\t"
		     "rdmsr\n\t"
		     "mov %%eax, %[after]\n\t"
		     "xor %%eax, %%eax\n\t"
		     "xor %%edx, %%edx\n\t"
		     "wrmsr\n\t"
		     : "+a" (debugctl), [after] "=&r" (after)
		     : "c" (MSR_IA32_DEBUGCTLMSR), "d" (0),
		       [icr] "i" (APIC_BASE_MSR + (APIC_ICR >> 4)),
		       [smi] "i" (APIC_DEST_SELF | APIC_INT_ASSERT | APIC_DM_SMI),
		       [debugctl] "i" (MSR_IA32_DEBUGCTLMSR)
		     : "memory", "cc");
	return after;
}

static volatile unsigned int nr_pmis;

static void pmi_handler(struct ex_regs *regs)
{
	wrmsr(MSR_IA32_DEBUGCTLMSR, 0);
	nr_pmis++;
	x2apic_write_reg(APIC_EOI, 0);
}

/* Every branch has its record. */
static void guest_test_branches(void)
{
	bts_setup(NR_BTS_RECORDS, 0);
	trace(BTS_ON);
	assert_branches();

	GUEST_DONE();
}

/* TR and BTS do nothing without each other. */
static void guest_test_single_bits(void)
{
	bts_setup(NR_BTS_RECORDS, 0);
	trace(DEBUGCTLMSR_TR);
	trace(DEBUGCTLMSR_BTS);
	bts_assert_nr_records(0);

	GUEST_DONE();
}

/* The buffer has room for four of the six records. */
static void guest_test_wraparound(void)
{
	int i;

	bts_setup(4, 0);
	trace(BTS_ON);
	bts_assert_nr_records(2);
	for (i = 2; i < 6; i++)
		bts_assert_record(i % 4, branches[i].from, branches[i].to);

	GUEST_DONE();
}

/* All code of the guest is in ring 0. */
static void guest_test_cpl(bool has_ds_cpl)
{
	if (has_ds_cpl) {
		bts_setup(NR_BTS_RECORDS, 0);
		trace(BTS_ON | DEBUGCTLMSR_BTS_OFF_OS);
		bts_assert_nr_records(0);
		trace(BTS_ON | DEBUGCTLMSR_BTS_OFF_USR);
		assert_branches();
	} else {
		GUEST_ASSERT_EQ(wrmsr_safe(MSR_IA32_DEBUGCTLMSR,
					   DEBUGCTLMSR_BTS_OFF_OS), GP_VECTOR);
	}

	GUEST_DONE();
}

/*
 * There is one interrupt, after the third record or later.  Its own record
 * follows those before it.
 */
static void guest_test_interrupt(void)
{
	int i;

	x2apic_enable();
	bts_setup(NR_BTS_RECORDS, 3);
	x2apic_write_reg(APIC_LVTPC, PMI_VECTOR);
	asm volatile("sti" ::: "memory");
	trace(BTS_ON | DEBUGCTLMSR_BTINT);
	asm volatile("cli" ::: "memory");
	GUEST_ASSERT_EQ(nr_pmis, 1);
	GUEST_ASSERT(bts_nr_records() > 3);
	for (i = 0; i < 3; i++)
		bts_assert_record(i, branches[i].from, branches[i].to);
	GUEST_ASSERT_EQ(x2apic_read_reg(APIC_LVTPC),
			PMI_VECTOR | APIC_LVT_MASKED);

	GUEST_DONE();
}

/* The vCPU is saved and restored between the two branches. */
static void guest_test_save_restore(void)
{
	bts_setup(NR_BTS_RECORDS, 0);
	trace_sync(BTS_ON);
	bts_assert_nr_records(2);
	bts_assert_record(0, sync_jmp1, sync_to1);
	bts_assert_record(1, sync_jmp2, sync_to2);

	GUEST_DONE();
}

/* SMM is not traced, and BTS is on again after it. */
static void guest_test_smi(void)
{
	x2apic_enable();
	bts_setup(NR_BTS_RECORDS, 0);
	GUEST_ASSERT_EQ(trace_smi(BTS_ON), BTS_ON);
	bts_assert_nr_records(2);
	bts_assert_record(0, smi_jmp1, smi_to1);
	bts_assert_record(1, smi_jmp2, smi_to2);

	GUEST_DONE();
}

static struct kvm_vm *bts_vm_create_with_one_vcpu(struct kvm_vcpu **vcpu,
						  void *guest_code)
{
	struct kvm_vm *vm = vm_create_with_one_vcpu(vcpu, guest_code);

	vcpu_enable_bts(*vcpu);
	return vm;
}

/* For what the guest tests alone */
static void test_guest(void *guest_code)
{
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;

	vm = bts_vm_create_with_one_vcpu(&vcpu, guest_code);
	bts_run_vcpu(vcpu);
	kvm_vm_free(vm);
}

static void test_cpl(void)
{
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;

	vm = bts_vm_create_with_one_vcpu(&vcpu, guest_test_cpl);
	vcpu_args_set(vcpu, 1, bts_has_filters());
	bts_run_vcpu(vcpu);
	kvm_vm_free(vm);
}

static void test_interrupt(void)
{
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;

	vm = bts_vm_create_with_one_vcpu(&vcpu, guest_test_interrupt);
	vm_install_exception_handler(vm, PMI_VECTOR, pmi_handler);
	bts_run_vcpu(vcpu);
	kvm_vm_free(vm);
}

/* Save the vCPU, which is at an IN, and restore it in another VM. */
static struct kvm_vcpu *move_vcpu(struct kvm_vm *vm, struct kvm_vcpu *vcpu)
{
	struct kvm_x86_state *state;

	/* Complete the IN first. */
	vcpu_run_complete_io(vcpu);
	state = vcpu_save_state(vcpu);
	kvm_vm_release(vm);
	vcpu = vm_recreate_with_one_vcpu(vm);
	vm_enable_cap(vm, KVM_CAP_X86_BTS, 0);
	vcpu_set_bts_cpuid(vcpu);
	vcpu_load_state(vcpu, state);
	kvm_x86_state_cleanup(state);
	return vcpu;
}

static void test_save_restore(void)
{
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;

	vm = bts_vm_create_with_one_vcpu(&vcpu, guest_test_save_restore);
	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	TEST_ASSERT_EQ(vcpu->run->io.port, SYNC_PORT);
	TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_IA32_DEBUGCTLMSR), BTS_ON);

	bts_run_vcpu(move_vcpu(vm, vcpu));
	kvm_vm_free(vm);
}

static void test_smi(void)
{
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;

	if (!kvm_has_cap(KVM_CAP_X86_SMM))
		return;

	vm = bts_vm_create_with_one_vcpu(&vcpu, guest_test_smi);
	vcpu_set_smi_handler(vcpu);
	bts_run_vcpu(vcpu);
	kvm_vm_free(vm);
}

/* The same, but the vCPU is saved and restored in SMM. */
static void test_smi_save_restore(void)
{
	/* in $SYNC_PORT, %al; rsm */
	static const uint8_t handler[] = { 0xe4, SYNC_PORT, 0x0f, 0xaa };
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;

	if (!kvm_has_cap(KVM_CAP_X86_SMM))
		return;

	vm = bts_vm_create_with_one_vcpu(&vcpu, guest_test_smi);
	vcpu_set_smi_handler(vcpu);
	memcpy(addr_gpa2hva(vm, SMRAM_GPA) + 0x8000, handler, sizeof(handler));
	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	TEST_ASSERT_EQ(vcpu->run->io.port, SYNC_PORT);
	TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_IA32_DEBUGCTLMSR), 0);
	bts_run_vcpu(move_vcpu(vm, vcpu));
	kvm_vm_free(vm);
}

int main(void)
{
	bts_require();

	test_guest(guest_test_branches);
	test_guest(guest_test_single_bits);
	test_guest(guest_test_wraparound);
	test_cpl();
	test_interrupt();
	test_save_restore();
	test_smi();
	test_smi_save_restore();

	return 0;
}
