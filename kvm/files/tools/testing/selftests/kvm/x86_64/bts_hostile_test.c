// SPDX-License-Identifier: GPL-2.0-only
/*
 * Branch Trace Store (BTS) of a guest: bad DS areas
 *
 * A guest whose DS area or buffer is unmapped, read-only, not canonical,
 * misaligned, or makes no sense may get exceptions and lose its records, but
 * nothing else: another page of its memory stays as it is, and BTS works as
 * soon as the DS area does.  If the exception's own record cannot be stored
 * either, the guest is shut down.  The next guest is none the worse for it.
 */
#include <sys/eventfd.h>

#include "kvm_util.h"
#include "processor.h"
#include "bts_trace.h"

#define UNMAPPED	0x40000000ull
#define NONCANONICAL	BIT_ULL(62)
#define NO_RAM		0x50000000ull
#define NO_RAM_GPA	0xd0000000ull
#define APIC_PAGE	0x50001000ull
#define PAGE_BYTE	0x5a
/* Exceptions until the guest's stack is used up, at least */
#define MIN_TURNS	100

static uint8_t read_only[4096] __aligned(4096);
static uint8_t bystander[4096] __aligned(4096);
static uint8_t counters[4096] __aligned(4096);
static uint8_t straddling[2 * 4096] __aligned(4096);

extern char exception_entry[];
unsigned int nr_exceptions;

/*
 * Not one of the library's handlers, which branch: BTS has to be off before the
 * first one, or exceptions would not end.
 */
asm("exception_entry:\n\t"
	"push	%rax\n\t"
	"push	%rcx\n\t"
	"push	%rdx\n\t"
	"mov	$" __stringify(0x1d9) ", %ecx\n\t"
	"xor	%eax, %eax\n\t"
	"xor	%edx, %edx\n\t"
	"wrmsr\n\t"
	"incl	nr_exceptions\n\t"
	"pop	%rdx\n\t"
	"pop	%rcx\n\t"
	"pop	%rax\n\t"
	"add	$8, %rsp\n\t"		/* error code */
	"iretq\n\t");

static void set_exception_entry(struct kvm_vm *vm, int vector)
{
	struct idt_entry *idt = addr_gva2hva(vm, vm->arch.idt);
	uint64_t entry = (uint64_t)exception_entry;

	idt[vector].offset0 = entry;
	idt[vector].offset1 = entry >> 16;
	idt[vector].offset2 = entry >> 32;
}

static void good(void)
{
}

static void unmapped_area(void)
{
	wrmsr(MSR_IA32_DS_AREA, UNMAPPED);
}

/* A copy of the good one, see guest_code() */
static void read_only_area(void)
{
	wrmsr(MSR_IA32_DS_AREA, (uint64_t)read_only);
}

static void buffer_at(uint64_t base)
{
	bts.base = base;
	bts.index = base;
	bts.maximum = base + 16 * sizeof(struct bts_record);
	bts.threshold = bts.maximum + sizeof(struct bts_record);
}

static void unmapped_buffer(void)
{
	buffer_at(UNMAPPED);
}

static void read_only_buffer(void)
{
	buffer_at((uint64_t)read_only);
}

static void no_ram_area(void)
{
	wrmsr(MSR_IA32_DS_AREA, NO_RAM);
}

static void no_ram_buffer(void)
{
	buffer_at(NO_RAM);
}

static void apic_buffer(void)
{
	buffer_at(APIC_PAGE);
}

static void noncanonical_buffer(void)
{
	buffer_at(NONCANONICAL);
}

static void wrapping_buffer(void)
{
	buffer_at(-8ull);
}

static void misaligned(void)
{
	struct bts_area *area = (void *)straddling + 4096 - 13;

	memcpy(area, &bts, 32);
	area->base += 5;
	area->index = area->base;
	area->maximum = area->base + 77;
	wrmsr(MSR_IA32_DS_AREA, (uint64_t)area);
}

static void index_beyond(void)
{
	bts.index = (uint64_t)(&bts + 1) - sizeof(struct bts_record);
	bts.maximum = bts.base + sizeof(struct bts_record);
}

static void upside_down(void)
{
	bts.maximum = bts.base - 4096;
}

static void zeros(void)
{
	memset(&bts, 0, sizeof(bts));
}

static const struct {
	const char *name;
	void (*setup)(void);
	bool faults;
	bool no_ram;
} areas[] = {
	{ "good", good, false },
	{ "unmapped area", unmapped_area, true },
	{ "read-only area", read_only_area, true },
	{ "unmapped buffer", unmapped_buffer, true },
	{ "read-only buffer", read_only_buffer, true },
	{ "non-canonical buffer", noncanonical_buffer, true },
	{ "wrapping buffer", wrapping_buffer, true },
	{ "area in no RAM", no_ram_area, false, true },
	{ "buffer in no RAM", no_ram_buffer, false, true },
	{ "buffer in the APIC's page", apic_buffer, false, true },
	{ "misaligned", misaligned, false },
	{ "index beyond the end", index_beyond, false },
	{ "upside down", upside_down, false },
	{ "zeros", zeros, false },
	{ "good again", good, false },
};

/*
 * BTS is switched off, and the instruction that comes next is executed, once,
 * with an operand that has the offset in its page that the store has.
 */
static void test_no_ram(void)
{
	uint64_t *operands[] = { (void *)counters, (void *)counters + 8,
				 (void *)counters + 16 };
	int i;

	for (i = 0; i < 3; i++) {
		*operands[i] = 0;
		asm volatile("wrmsr\n\t"
			     "jmp 1f\n\t"
			     "nop\n\t"
			     "1: incq (%%rbx)\n\t"
			     "incq (%%rbx)\n\t"
			     :: "a" (BTS_ON), "b" (operands[i]),
				"c" (MSR_IA32_DEBUGCTLMSR), "d" (0)
			     : "memory", "cc");
		GUEST_ASSERT_EQ(rdmsr(MSR_IA32_DEBUGCTLMSR), 0);
		GUEST_ASSERT_EQ(*operands[i], 2);
	}
	GUEST_ASSERT_EQ(nr_exceptions, 0);
}

static void guest_code(unsigned int n)
{
	unsigned int i;

	memset(bystander, PAGE_BYTE, sizeof(bystander));
	bts_setup(NR_BTS_RECORDS, 0);
	memcpy(read_only, &bts, sizeof(read_only));
	asm volatile("mov %0, %%cr0" :: "r" (get_cr0() | X86_CR0_WP));

	nr_exceptions = 0;
	bts_setup(NR_BTS_RECORDS, 0);
	areas[n].setup();
	if (areas[n].no_ram)
		test_no_ram();
	trace(BTS_ON);
	wrmsr(MSR_IA32_DEBUGCTLMSR, 0);
	GUEST_PRINTF("%s: %u exceptions", areas[n].name, nr_exceptions);
	GUEST_ASSERT(!areas[n].faults || nr_exceptions);

	/* The same with an interrupt for each record, which LVTPC masks */
	bts_setup(NR_BTS_RECORDS, 0);
	areas[n].setup();
	bts.threshold = 0;
	trace(BTS_ON | DEBUGCTLMSR_BTINT);
	wrmsr(MSR_IA32_DEBUGCTLMSR, 0);

	bts_setup(NR_BTS_RECORDS, 0);
	trace(BTS_ON);
	assert_branches();
	for (i = 0; i < sizeof(bystander); i++)
		GUEST_ASSERT_EQ(bystander[i], PAGE_BYTE);
	bts_setup(NR_BTS_RECORDS, 0);
	GUEST_ASSERT(!memcmp(read_only, &bts, sizeof(read_only)));

	GUEST_DONE();
}

/* How many VM-Exits the vCPU has had */
static uint64_t vcpu_exits(struct kvm_vcpu *vcpu)
{
	struct kvm_stats_header header;
	struct kvm_stats_desc *all, *desc;
	uint64_t exits = 0;
	int fd, i;

	fd = vcpu_get_stats_fd(vcpu);
	read_stats_header(fd, &header);
	all = read_stats_descriptors(fd, &header);
	for (i = 0; i < header.num_desc; i++) {
		desc = get_stats_descriptor(all, i, &header);
		if (!strcmp(desc->name, "exits"))
			read_stat_data(fd, &header, desc, &exits, 1);
	}
	free(all);
	close(fd);
	return exits;
}

static void test_area(unsigned int n)
{
	/* A write to there is of a queue that is notified. */
	struct kvm_ioeventfd notify = {
		.addr = NO_RAM_GPA,
		.fd = eventfd(0, 0),
	};
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;
	struct ucall uc;
	uint64_t cmd;

	vm = vm_create_with_one_vcpu(&vcpu, guest_code);
	vcpu_args_set(vcpu, 1, n);
	vcpu_enable_bts(vcpu);
	virt_pg_map(vm, NO_RAM, NO_RAM_GPA);
	virt_pg_map(vm, APIC_PAGE, 0xfee00000);
	vm_ioctl(vm, KVM_IOEVENTFD, &notify);
	set_exception_entry(vm, PF_VECTOR);
	set_exception_entry(vm, GP_VECTOR);
	*vm_get_page_table_entry(vm, (uint64_t)read_only) &= ~PTE_WRITABLE_MASK;

	for (;;) {
		vcpu_run(vcpu);
		if (vcpu->run->exit_reason == KVM_EXIT_SHUTDOWN) {
			pr_info("%s: shutdown\n", areas[n].name);
			TEST_ASSERT(areas[n].faults, "It need not fault");
			TEST_ASSERT(vcpu_exits(vcpu) > MIN_TURNS,
				    "Faults of BTS are not intercepted: %lu exits",
				    vcpu_exits(vcpu));
			break;
		}
		TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
		cmd = get_ucall(vcpu, &uc);
		if (cmd == UCALL_DONE)
			break;
		switch (cmd) {
		case UCALL_PRINTF:
			pr_info("%s\n", uc.buffer);
			break;
		case UCALL_ABORT:
			REPORT_GUEST_ASSERT(uc);
		default:
			TEST_FAIL("Unknown ucall %lu", cmd);
		}
	}
	kvm_vm_free(vm);
	close(notify.fd);
}

int main(void)
{
	unsigned int n;

	bts_require();
	for (n = 0; n < ARRAY_SIZE(areas); n++)
		test_area(n);
	return 0;
}
