/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that writes and reads the MSRs that the test names
 */
#ifndef KVM_WRMSR_H
#define KVM_WRMSR_H

#include "kvm-bts.h"

extern const char guest_begin[], g_rdmsr[], g_gp[], guest_end[];

/* Words of the guest: is it a read, ECX, EAX, EDX */
#define VM_WORDS    0x2000

asm(
    "   .pushsection .rodata\n"
    "   .code16\n"
    "guest_begin:\n"
    "   movl    0x2004, %ecx\n"
    "   cmpl    $0, 0x2000\n"
    "   jne     g_rdmsr\n"
    "   movl    0x2008, %eax\n"
    "   movl    0x200c, %edx\n"
    "   wrmsr\n"
    "1: outb    %al, $0x10\n"
    "   jmp     guest_begin\n"
    "g_rdmsr: rdmsr\n"
    "   movl    %eax, 0x2008\n"
    "   movl    %edx, 0x200c\n"
    "   jmp     1b\n"
    "g_gp: movw $0x8000, %sp\n"
    "   outb    %al, $0x11\n"
    "   jmp     guest_begin\n"
    "guest_end:\n"
    "   .code64\n"
    "   .popsection\n");

static inline struct vm wrmsr_guest(void)
{
    struct vm vm = vm_open(guest_begin, guest_end - guest_begin);
    uint16_t gp = AT(g_gp);

    memcpy(vm.memory + 13 * 4, &gp, sizeof(gp));
    vm_ds_area(&vm, 32, 1000);
    return vm;
}

static inline bool guest_msr(struct vm *vm, bool read, uint32_t index,
                             uint64_t *data)
{
    volatile uint32_t *words = (void *)(vm->memory + VM_WORDS);
    unsigned port;

    words[0] = read;
    words[1] = index;
    words[2] = *data;
    words[3] = *data >> 32;
    port = vm_run(vm);
    CHECK(port == 0x10 || port == 0x11);
    *data = words[2] | (uint64_t)words[3] << 32;
    return port == 0x10;
}

/* false: the guest gets #GP */
static inline bool guest_wrmsr(struct vm *vm, uint32_t index, uint64_t data)
{
    return guest_msr(vm, false, index, &data);
}

static inline bool guest_rdmsr(struct vm *vm, uint32_t index, uint64_t *data)
{
    return guest_msr(vm, true, index, data);
}

/* CPUID.01H with these bits taken away */
static inline void take_cpuid(struct vm *vm, uint32_t ecx, uint32_t edx)
{
    struct kvm_cpuid2 *cpuid = vm_bts_cpuid(vm);
    struct kvm_cpuid_entry2 *entry = cpuid_1(cpuid);

    entry->ecx &= ~ecx;
    entry->edx &= ~edx;
    CHECK(ioctl(vm->vcpu, KVM_SET_CPUID2, cpuid) == 0);
    free(cpuid);
}

static inline bool in_msr_list(struct vm *vm, uint32_t index)
{
    struct {
        struct kvm_msr_list header;
        uint32_t indices[1000];
    } list = { .header.nmsrs = 1000 };
    bool found = false;

    CHECK(ioctl(vm->kvm, KVM_GET_MSR_INDEX_LIST, &list) == 0);
    CHECK(list.header.nmsrs > 10);
    for (unsigned i = 0; i < list.header.nmsrs; i++) {
        found |= list.header.indices[i] == index;
    }
    return found;
}

#endif
