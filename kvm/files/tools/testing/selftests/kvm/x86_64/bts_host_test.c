// SPDX-License-Identifier: GPL-2.0-only
/*
 * Branch Trace Store (BTS) of a guest and of the host at the same time
 *
 * The thread that runs the vCPU is traced with perf's intel_bts.  The guest has
 * its records and no others, so has the host.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/perf_event.h>

#include "kvm_util.h"
#include "processor.h"
#include "bts_trace.h"

#define NR_ROUNDS	20
#define AUX_SIZE	(1024 * 4096)

static void guest_code(void)
{
	int i;

	for (i = 0; i < NR_ROUNDS; i++) {
		bts_setup(NR_BTS_RECORDS, 0);
		trace(BTS_ON);
		assert_branches();
		GUEST_SYNC(i);
	}
	GUEST_DONE();
}

/* Begin and end of the code that the guest traces; the host never runs it. */
static bool is_guest(uint64_t address)
{
	return address >= (uint64_t)jmp_from && address <= (uint64_t)end_to;
}

static void test_host(bool exclude_kernel)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.disabled = 1,
		.exclude_kernel = exclude_kernel,
	};
	struct perf_event_mmap_page *page;
	unsigned int rounds = 0, type;
	struct bts_record *records;
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;
	struct ucall uc;
	uint64_t nr, i;
	bool done;
	FILE *file;
	int fd;

	file = fopen("/sys/bus/event_source/devices/intel_bts/type", "r");
	__TEST_REQUIRE(file, "perf has no intel_bts");
	TEST_ASSERT(fscanf(file, "%u", &type) == 1, "Cannot read intel_bts/type");
	fclose(file);

	attr.type = type;
	fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
	__TEST_REQUIRE(fd >= 0, "Cannot use intel_bts");
	page = mmap(NULL, 2 * getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED,
		    fd, 0);
	TEST_ASSERT(page != MAP_FAILED, "Cannot map the event");
	page->aux_offset = 2 * getpagesize();
	page->aux_size = AUX_SIZE;
	records = mmap(NULL, AUX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       page->aux_offset);
	TEST_ASSERT(records != MAP_FAILED, "Cannot map the AUX area");

	vm = vm_create_with_one_vcpu(&vcpu, guest_code);
	vcpu_enable_bts(vcpu);

	TEST_ASSERT(!ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), "Cannot enable it");
	do {
		vcpu_run(vcpu);
		TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
		done = false;
		switch (get_ucall(vcpu, &uc)) {
		case UCALL_SYNC:
			rounds++;
			break;
		case UCALL_ABORT:
			REPORT_GUEST_ASSERT(uc);
		case UCALL_DONE:
			done = true;
			break;
		default:
			TEST_FAIL("Unknown ucall %lu", uc.cmd);
		}
	} while (!done);
	TEST_ASSERT(!ioctl(fd, PERF_EVENT_IOC_DISABLE, 0), "Cannot disable it");
	TEST_ASSERT_EQ(rounds, NR_ROUNDS);

	nr = page->aux_head / sizeof(struct bts_record);
	pr_info("%lu records of the host%s\n", nr,
		exclude_kernel ? "" : " and its kernel");
	TEST_ASSERT(nr > NR_ROUNDS && page->aux_head < AUX_SIZE,
		    "The host has %lu records", nr);
	for (i = 0; i < nr; i++)
		TEST_ASSERT(!is_guest(records[i].from) && !is_guest(records[i].to),
			    "Record %lu is the guest's: %lx -> %lx", i,
			    records[i].from, records[i].to);

	kvm_vm_free(vm);
	munmap(records, AUX_SIZE);
	munmap(page, 2 * getpagesize());
	close(fd);
}

int main(void)
{
	bts_require();
	test_host(true);
	test_host(false);
	return 0;
}
