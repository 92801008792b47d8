// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tracing a guest by the Branch Trace Store (BTS), for the host
 *
 * The guest executes code whose branches are known, several times, and between
 * them it runs a nested guest, which must not be traced: the window is not in
 * its address space.
 */
#include "kvm_util.h"
#include "processor.h"
#include "vmx.h"
#include "bts_trace.h"

#define WINDOW_GVA	0xffff800000000000ul
#define WINDOW_GPA	0x40000000ul
#define WINDOW_SLOT	1
#define WINDOW_PAGES	16
#define WINDOW_SIZE	(WINDOW_PAGES * 4096ul)

#define NR_RECORDS	2000
#define THRESHOLD	100

#define L2_STACK_SIZE	64

#define MARKER(type, reason)	(KVM_BTS_TRACE_MARKER | (reason) << 8 | (type))
#define ON	MARKER(KVM_BTS_TRACE_MARKER_ON, 0)
#define NESTED	MARKER(KVM_BTS_TRACE_MARKER_OFF, KVM_BTS_TRACE_OFF_NESTED)

extern char l2_code[], l2_jnz[], l2_after[];

/* With branches, and a load of CR3 that its hypervisor does not intercept */
asm("l2_code: mov $100, %ebx\n"
	"1: dec %ebx\n"
	"l2_jnz: jnz 1b\n\t"
	"mov %cr3, %rax\n\t"
	"mov %rax, %cr3\n\t"
	"vmcall\n"
	"l2_after: hlt\n\t");

#define MAX_RECORDS	100000

/* Not static, for the guest's memory would have them, too */
static struct bts_record *records;
static unsigned int nr_records, nr_full;

static void run_l2(bool launch)
{
	GUEST_ASSERT(!vmwrite(GUEST_RIP, (uint64_t)l2_code));
	GUEST_ASSERT(!(launch ? vmlaunch() : vmresume()));
	GUEST_ASSERT_EQ(vmreadz(VM_EXIT_REASON), EXIT_REASON_VMCALL);
}

static void guest_code(struct vmx_pages *vmx_pages)
{
	uint64_t l2_stack[L2_STACK_SIZE];

	trace(0);

	if (vmx_pages) {
		GUEST_ASSERT(prepare_for_vmx_operation(vmx_pages));
		GUEST_ASSERT(load_vmcs(vmx_pages));
		prepare_vmcs(vmx_pages, l2_code, &l2_stack[L2_STACK_SIZE]);
		run_l2(true);
		trace(0);
		run_l2(false);
		trace(0);

		/* L2 never gets to run. */
		GUEST_ASSERT(!vmwrite(GUEST_IA32_DEBUGCTL, BIT(20)));
		GUEST_ASSERT(!vmwrite(VM_ENTRY_CONTROLS,
				      vmreadz(VM_ENTRY_CONTROLS) |
				      VM_ENTRY_LOAD_DEBUG_CONTROLS));
		GUEST_ASSERT(!vmresume());
		GUEST_ASSERT_EQ(vmreadz(VM_EXIT_REASON),
				EXIT_REASON_INVALID_STATE |
				EXIT_REASON_FAILED_VMENTRY);
		trace(0);
	}

	GUEST_ASSERT_EQ(rdmsr(MSR_IA32_DEBUGCTLMSR), 0);
	GUEST_DONE();
}

static void drain(struct bts_area *ds)
{
	unsigned int n = (ds->index - ds->base) / sizeof(struct bts_record);

	TEST_ASSERT(nr_records + n <= MAX_RECORDS, "Too many records");
	memcpy(records + nr_records, (void *)ds + 4096,
	       n * sizeof(struct bts_record));
	nr_records += n;
	ds->index = ds->base;
}

static void run_traced(struct kvm_vcpu *vcpu, struct bts_area *ds)
{
	struct kvm_run *run = vcpu->run;
	struct ucall uc;

	for (;;) {
		vcpu_run(vcpu);
		if (run->exit_reason == KVM_EXIT_X86_BTS_TRACE) {
			TEST_ASSERT_EQ(run->bts_trace.reason,
				       KVM_BTS_TRACE_EXIT_FULL);
			TEST_ASSERT(ds->index >= ds->threshold,
				    "The buffer is not full");
			nr_full++;
			drain(ds);
			continue;
		}

		TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
		switch (get_ucall(vcpu, &uc)) {
		case UCALL_ABORT:
			REPORT_GUEST_ASSERT(uc);
		case UCALL_DONE:
			drain(ds);
			return;
		default:
			TEST_FAIL("Unknown ucall %lu", uc.cmd);
		}
	}
}

/* Do the known branches begin at i? */
static bool is_trace(unsigned int i)
{
	unsigned int n;

	for (n = 0; n < ARRAY_SIZE(branches); n++)
		if (i + n >= nr_records ||
		    records[i + n].from != (uint64_t)branches[n].from ||
		    records[i + n].to != (uint64_t)branches[n].to)
			return false;

	return true;
}

static bool in_l2(uint64_t addr)
{
	return addr > (uint64_t)l2_code && addr < (uint64_t)l2_after;
}

static void check(bool nested)
{
	unsigned int i, traces = 0, l2 = 0;
	bool on = false;

	for (i = 0; i < nr_records; i++) {
		const struct bts_record *r = &records[i];

		if (r->from == NESTED) {
			TEST_ASSERT(on, "OFF twice at %u", i);
			on = false;
			l2++;
		} else if (r->from == ON) {
			TEST_ASSERT(!on, "ON twice at %u", i);
			on = true;
		} else {
			TEST_ASSERT(on, "A record at %u, where there is none", i);
			TEST_ASSERT(r->from >> 16 != KVM_BTS_TRACE_MARKER >> 16,
				    "Marker %lx at %u", r->from, i);
			TEST_ASSERT(!in_l2(r->from) && !in_l2(r->to),
				    "Record %u is of L2", i);
		}
		traces += is_trace(i);
	}

	TEST_ASSERT_EQ(l2, nested ? 2 : 0);
	TEST_ASSERT_EQ(traces, nested ? 4 : 1);
	TEST_ASSERT_EQ(on, true);
	TEST_ASSERT(nr_full >= nr_records / (THRESHOLD + 10),
		    "%u records, but %u full buffers", nr_records, nr_full);
}

static void pre_fault(struct kvm_vcpu *vcpu, uint64_t gpa, uint64_t size)
{
	struct kvm_pre_fault_memory range = { .gpa = gpa, .size = size };

	vcpu_ioctl(vcpu, KVM_PRE_FAULT_MEMORY, &range);
}

int main(void)
{
	struct kvm_bts_trace config = {
		.flags = KVM_BTS_TRACE_ENABLE,
		.root_index = 256,
		.ds_area = WINDOW_GVA,
		.gpa = WINDOW_GPA,
		.size = WINDOW_SIZE,
	};
	bool nested = kvm_cpu_has(X86_FEATURE_VMX);
	vm_vaddr_t vmx_pages_gva = 0;
	struct kvm_vcpu *vcpu;
	struct bts_area *ds;
	struct kvm_vm *vm;

	TEST_REQUIRE(kvm_check_cap(KVM_CAP_X86_BTS_TRACE));

	vm = vm_create_with_one_vcpu(&vcpu, guest_code);
	if (nested)
		vcpu_alloc_vmx(vm, &vmx_pages_gva);
	vcpu_args_set(vcpu, 1, vmx_pages_gva);

	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, WINDOW_GPA,
				    WINDOW_SLOT, WINDOW_PAGES, 0);
	virt_map(vm, WINDOW_GVA, WINDOW_GPA, WINDOW_PAGES);

	records = calloc(MAX_RECORDS, sizeof(*records));
	TEST_ASSERT(records, "Out of memory");

	ds = addr_gpa2hva(vm, WINDOW_GPA);
	memset(ds, 0, WINDOW_SIZE);
	ds->base = WINDOW_GVA + 4096;
	ds->index = ds->base;
	ds->maximum = ds->base + NR_RECORDS * sizeof(struct bts_record);
	ds->threshold = ds->base + THRESHOLD * sizeof(struct bts_record);

	/* A store that waits for a page, be it a page table, would be a gap. */
	pre_fault(vcpu, 0, memslot2region(vm, 0)->region.memory_size);
	pre_fault(vcpu, WINDOW_GPA, WINDOW_SIZE);

	vcpu_device_attr_set(vcpu, KVM_VCPU_BTS_TRACE, KVM_VCPU_BTS_TRACE_CONFIG,
			     &config);
	run_traced(vcpu, ds);
	check(nested);

	vcpu_device_attr_get(vcpu, KVM_VCPU_BTS_TRACE, KVM_VCPU_BTS_TRACE_CONFIG,
			     &config);
	TEST_ASSERT_EQ(config.flags, KVM_BTS_TRACE_ENABLE | KVM_BTS_TRACE_ON);

	free(records);
	kvm_vm_free(vm);
	return 0;
}
