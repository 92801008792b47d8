/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The smallest virtual machine: one vCPU in real mode, one page of code
 */
#ifndef KVM_H
#define KVM_H

#include <linux/kvm.h>
#include "aux.h"

#define VM_CODE 0x1000

struct vm {
    int kvm, vm, vcpu;
    struct kvm_run *run;
    uint8_t *memory;
};

static inline struct vm vm_open(const void *code, size_t size)
{
    struct vm vm;
    struct kvm_userspace_memory_region region = { .memory_size = 0x10000 };
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

#endif
