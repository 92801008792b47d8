// SPDX-License-Identifier: GPL-2.0-only
/*
 * Branch Trace Store (BTS) and nested guests
 *
 * An L1 that traces itself and enters L2 without loading DEBUGCTL does not
 * want L2 to be traced, least of all at L1's DS_AREA.  One that loads it gets
 * every branch of L2.  Either way BTS is off after the VM-Exit, and what L1
 * has done before is not lost.
 *
 * An SMI in L2 switches BTS off there: KVM makes a VM-Exit of it, and does not
 * know after RSM what DS_AREA was meant for.
 */
#include "kvm_util.h"
#include "processor.h"
#include "vmx.h"
#include "bts.h"

#define L2_STACK_SIZE	64
#define SYNC_PORT	0xe

extern char l2_code[], l2_jmp[], l2_to[], l2_dec[], l2_jnz[], l2_last[],
	    l2_end[], l2_after[];
extern char l2_smi[], l2_smi_jmp1[], l2_smi_to1[], l2_smi_jmp2[], l2_smi_to2[];

/* DEBUGCTL and the index as L2 sees them, at its begin and end */
uint64_t l2_debugctl, l2_index_begin, l2_index_end;

/*
 * L2 has the page tables of L1, so it would find L1's DS area.  It has no other
 * branches; and does it all again, should it be resumed.
 */
asm("l2_code:\n\t"
	"mov $" __stringify(0x1d9) ", %ecx\n\t"
	"rdmsr\n\t"
	"mov %eax, l2_debugctl\n\t"
	"mov bts+8, %rax\n\t"
	"mov %rax, l2_index_begin\n"
	"l2_jmp: jmp l2_to\n\t"
	"nop\n"
	"l2_to: mov $3, %ebx\n"
	"l2_dec: dec %ebx\n"
	"l2_jnz: jnz l2_dec\n"
	"l2_last: jmp l2_end\n\t"
	"nop\n"
	"l2_end: mov bts+8, %rax\n\t"
	"mov %rax, l2_index_end\n\t"
	"vmcall\n"
	"l2_after: hlt\n\t");

/* The host makes an SMI at the IN. */
asm("l2_smi:\n"
	"l2_smi_jmp1: jmp l2_smi_to1\n\t"
	"nop\n"
	"l2_smi_to1: in $" __stringify(SYNC_PORT) ", %al\n"
	"l2_smi_jmp2: jmp l2_smi_to2\n\t"
	"nop\n"
	"l2_smi_to2: mov $" __stringify(0x1d9) ", %ecx\n\t"
	"rdmsr\n\t"
	"mov %eax, l2_debugctl\n\t"
	"vmcall\n\t"
	"hlt\n\t");

static void expect_vmcall(void)
{
	GUEST_ASSERT_EQ(vmreadz(VM_EXIT_REASON), EXIT_REASON_VMCALL);
	GUEST_ASSERT_EQ(rdmsr(MSR_IA32_DEBUGCTLMSR), 0);
	vmwrite(GUEST_RIP, (uint64_t)l2_code);
}

/* None of L2's branches is in the buffer. */
static void assert_no_l2(void)
{
	unsigned int i;

	GUEST_ASSERT_EQ(l2_index_begin, l2_index_end);
	GUEST_ASSERT_EQ(l2_index_end, bts.index);
	for (i = 0; i < bts_nr_records(); i++) {
		GUEST_ASSERT(bts.records[i].from < (uint64_t)l2_code ||
			     bts.records[i].from >= (uint64_t)l2_after);
		GUEST_ASSERT(bts.records[i].to < (uint64_t)l2_code ||
			     bts.records[i].to >= (uint64_t)l2_after);
	}
}

static void l1_guest_code(struct vmx_pages *vmx_pages, bool has_smm)
{
	uint64_t l2_stack[L2_STACK_SIZE];
	uint64_t entry;

	GUEST_ASSERT(prepare_for_vmx_operation(vmx_pages));
	GUEST_ASSERT(load_vmcs(vmx_pages));
	prepare_vmcs(vmx_pages, l2_code, &l2_stack[L2_STACK_SIZE]);
	entry = vmreadz(VM_ENTRY_CONTROLS);
	/* L2 may read MSRs. */
	GUEST_ASSERT(!vmwrite(CPU_BASED_VM_EXEC_CONTROL,
			      vmreadz(CPU_BASED_VM_EXEC_CONTROL) |
			      CPU_BASED_USE_MSR_BITMAPS));

	/* DEBUGCTL is not loaded: L2 runs without BTS. */
	GUEST_ASSERT(!vmwrite(VM_ENTRY_CONTROLS,
			      entry & ~VM_ENTRY_LOAD_DEBUG_CONTROLS));
	bts_setup(NR_BTS_RECORDS, 0);
	wrmsr(MSR_IA32_DEBUGCTLMSR, BTS_ON);
	GUEST_ASSERT(!vmlaunch());
	expect_vmcall();
	GUEST_ASSERT_EQ(l2_debugctl, 0);
	assert_no_l2();

	/* And again with VMRESUME */
	bts_setup(NR_BTS_RECORDS, 0);
	wrmsr(MSR_IA32_DEBUGCTLMSR, BTS_ON);
	GUEST_ASSERT(!vmresume());
	expect_vmcall();
	GUEST_ASSERT_EQ(l2_debugctl, 0);
	assert_no_l2();

	/* It is loaded, with BTS off */
	GUEST_ASSERT(!vmwrite(VM_ENTRY_CONTROLS,
			      entry | VM_ENTRY_LOAD_DEBUG_CONTROLS));
	GUEST_ASSERT(!vmwrite(GUEST_IA32_DEBUGCTL, 0));
	bts_setup(NR_BTS_RECORDS, 0);
	wrmsr(MSR_IA32_DEBUGCTLMSR, BTS_ON);
	GUEST_ASSERT(!vmresume());
	expect_vmcall();
	GUEST_ASSERT_EQ(l2_debugctl, 0);
	assert_no_l2();

	/* ... and on, while it is off in L1: L2's branches and no others. */
	GUEST_ASSERT(!vmwrite(GUEST_IA32_DEBUGCTL, BTS_ON));
	bts_setup(NR_BTS_RECORDS, 0);
	GUEST_ASSERT(!vmresume());
	expect_vmcall();
	GUEST_ASSERT_EQ(l2_debugctl, BTS_ON);
	bts_assert_nr_records(4);
	bts_assert_record(0, l2_jmp, l2_to);
	bts_assert_record(1, l2_jnz, l2_dec);
	bts_assert_record(2, l2_jnz, l2_dec);
	bts_assert_record(3, l2_last, l2_end);

	/* The same, with an SMI: what was before it is there, nothing else. */
	if (has_smm) {
		bts_setup(NR_BTS_RECORDS, 0);
		GUEST_ASSERT(!vmwrite(GUEST_IA32_DEBUGCTL, BTS_ON));
		GUEST_ASSERT(!vmwrite(GUEST_RIP, (uint64_t)l2_smi));
		GUEST_ASSERT(!vmresume());
		expect_vmcall();
		GUEST_ASSERT_EQ(l2_debugctl, 0);
		bts_assert_nr_records(1);
		bts_assert_record(0, l2_smi_jmp1, l2_smi_to1);
	}

	/* Bits that KVM does not have are an invalid guest state. */
	GUEST_ASSERT(!vmwrite(GUEST_IA32_DEBUGCTL, BTS_ON | BIT(20)));
	GUEST_ASSERT(!vmresume());
	GUEST_ASSERT_EQ(vmreadz(VM_EXIT_REASON),
			EXIT_REASON_INVALID_STATE | EXIT_REASON_FAILED_VMENTRY);
	GUEST_ASSERT_EQ(rdmsr(MSR_IA32_DEBUGCTLMSR), 0);

	GUEST_DONE();
}

int main(void)
{
	bool has_smm = kvm_has_cap(KVM_CAP_X86_SMM), synced = false;
	struct kvm_vcpu_events events;
	vm_vaddr_t vmx_pages_gva;
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;
	struct ucall uc;

	TEST_REQUIRE(kvm_cpu_has(X86_FEATURE_VMX));
	bts_require();

	vm = vm_create_with_one_vcpu(&vcpu, l1_guest_code);
	vcpu_alloc_vmx(vm, &vmx_pages_gva);
	vcpu_args_set(vcpu, 2, vmx_pages_gva, has_smm);
	vcpu_enable_bts(vcpu);
	if (has_smm)
		vcpu_set_smi_handler(vcpu);

	for (;;) {
		vcpu_run(vcpu);
		TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);

		if (vcpu->run->io.port == SYNC_PORT) {
			TEST_ASSERT(!synced, "The guest is there again");
			synced = true;
			vcpu_events_get(vcpu, &events);
			events.smi.pending = 1;
			events.flags |= KVM_VCPUEVENT_VALID_SMM;
			vcpu_events_set(vcpu, &events);
			continue;
		}

		switch (get_ucall(vcpu, &uc)) {
		case UCALL_ABORT:
			REPORT_GUEST_ASSERT(uc);
		case UCALL_DONE:
			TEST_ASSERT_EQ(synced, has_smm);
			kvm_vm_free(vm);
			return 0;
		default:
			TEST_FAIL("Unknown ucall %lu", uc.cmd);
		}
	}
}
