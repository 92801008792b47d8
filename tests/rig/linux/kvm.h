/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The smallest virtual machine: one vCPU in real mode, one page of code
 */
#ifndef KVM_H
#define KVM_H

#include <linux/kvm.h>
#include "aux.h"

#define VM_CODE 0x1000
#define VM_SIZE 0x10000

struct vm {
    int kvm, vm, vcpu;
    struct kvm_run *run;
    uint8_t *memory;
};

/* What KVM has counted, of all guests */
static inline unsigned long kvm_count(const char *name)
{
    char path[64];
    unsigned long n;
    FILE *file;

    snprintf(path, sizeof(path), "/sys/kernel/debug/kvm/%s", name);
    file = fopen(path, "r");
    CHECK(file != NULL);
    CHECK(fscanf(file, "%lu", &n) == 1);
    fclose(file);
    return n;
}

/* With a local APIC, HLT does not end KVM_RUN. */
static inline struct vm vm_open_with(const void *code, size_t size,
                                     bool irqchip)
{
    struct vm vm;
    struct kvm_userspace_memory_region region = { .memory_size = VM_SIZE };
    struct kvm_sregs sregs;
    struct kvm_regs regs = { .rip = VM_CODE, .rsp = 0x8000, .rflags = 2 };
    int run_size;

    vm.kvm = open("/dev/kvm", O_RDWR);
    CHECK(vm.kvm >= 0);
    vm.vm = ioctl(vm.kvm, KVM_CREATE_VM, 0);
    CHECK(vm.vm >= 0);
    CHECK(ioctl(vm.vm, KVM_SET_TSS_ADDR, 0xfffbd000) == 0);
    vm.memory = mmap(NULL, region.memory_size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(vm.memory != MAP_FAILED);
    region.userspace_addr = (uintptr_t)vm.memory;
    CHECK(ioctl(vm.vm, KVM_SET_USER_MEMORY_REGION, &region) == 0);
    memcpy(vm.memory + VM_CODE, code, size);
    if (irqchip) {
        CHECK(ioctl(vm.vm, KVM_CREATE_IRQCHIP) == 0);
    }
    vm.vcpu = ioctl(vm.vm, KVM_CREATE_VCPU, 0);
    CHECK(vm.vcpu >= 0);
    run_size = ioctl(vm.kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    vm.run = mmap(NULL, run_size, PROT_READ | PROT_WRITE, MAP_SHARED, vm.vcpu,
                  0);
    CHECK(vm.run != MAP_FAILED);
    CHECK(ioctl(vm.vcpu, KVM_GET_SREGS, &sregs) == 0);
    sregs.cs.base = sregs.cs.selector = 0;
    CHECK(ioctl(vm.vcpu, KVM_SET_SREGS, &sregs) == 0);
    CHECK(ioctl(vm.vcpu, KVM_SET_REGS, &regs) == 0);
    return vm;
}

static inline struct vm vm_open(const void *code, size_t size)
{
    return vm_open_with(code, size, false);
}

static inline int vm_set_msr(struct vm *vm, uint32_t index, uint64_t data)
{
    struct {
        struct kvm_msrs header;
        struct kvm_msr_entry entry;
    } msrs = { { .nmsrs = 1 }, { .index = index, .data = data } };

    return ioctl(vm->vcpu, KVM_SET_MSRS, &msrs);
}

static inline uint64_t vm_get_msr(struct vm *vm, uint32_t index)
{
    struct {
        struct kvm_msrs header;
        struct kvm_msr_entry entry;
    } msrs = { { .nmsrs = 1 }, { .index = index } };

    CHECK(ioctl(vm->vcpu, KVM_GET_MSRS, &msrs) == 1);
    return msrs.entry.data;
}

/* Run until the guest writes to a port; returns which. */
static inline unsigned vm_run(struct vm *vm)
{
    CHECK(ioctl(vm->vcpu, KVM_RUN, 0) == 0);
    if (vm->run->exit_reason != KVM_EXIT_IO) {
        fail("the guest exits for reason %u", vm->run->exit_reason);
    }
    return vm->run->io.port;
}

#endif
