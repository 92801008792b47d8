// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * nested ADDRESS ROUNDS: a guest of this guest, in long mode, whose code is
 * mapped at ADDRESS and counts down before it halts, this many times
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "programs.h"

#define RAM_SIZE (1 << 20)
#define TABLES 0x10000          /* four of them */
#define CODE 0x20000
#define LOOPS 20000

enum { PRESENT = 1, WRITABLE = 2 };

static void map_code(char *ram, uint64_t address)
{
    for (int level = 0; level < 4; level++) {
        uint64_t *table = (uint64_t *)(ram + TABLES + level * 4096);
        uint64_t next = level == 3 ? CODE : TABLES + (level + 1) * 4096;

        table[address >> (39 - 9 * level) & 511] = next | PRESENT | WRITABLE;
    }
}

static void start_in_long_mode(int cpu, uint64_t address)
{
    struct kvm_segment code = { .limit = 0xffffffff, .selector = 8, .type = 11,
                                .present = 1, .s = 1, .l = 1, .g = 1 };
    struct kvm_segment data = { .limit = 0xffffffff, .selector = 16, .type = 3,
                                .present = 1, .db = 1, .s = 1, .g = 1 };
    struct kvm_regs registers = { .rip = address, .rflags = 2 };
    struct kvm_sregs s;

    if (ioctl(cpu, KVM_GET_SREGS, &s)) {
        die("KVM_GET_SREGS");
    }
    s.cr3 = TABLES;
    s.cr4 = 0x20;               /* PAE */
    s.cr0 = 0x80000011;         /* PG, ET, PE */
    s.efer = 0x500;             /* LMA, LME */
    s.cs = code;
    s.ds = s.es = s.fs = s.gs = s.ss = data;
    if (ioctl(cpu, KVM_SET_SREGS, &s) || ioctl(cpu, KVM_SET_REGS, &registers)) {
        die("KVM_SET_REGS");
    }
}

void copy_cpuid(int kvm, int cpu)
{
    struct kvm_cpuid2 *id = calloc(1, sizeof(*id) +
                                   256 * sizeof(struct kvm_cpuid_entry2));

    id->nent = 256;
    if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, id) ||
        ioctl(cpu, KVM_SET_CPUID2, id)) {
        die("CPUID");
    }
    free(id);
}

int nested_main(int argc, char **argv)
{
    /* mov $LOOPS, %ecx; 1: dec %ecx; jnz 1b; hlt; jmp to the start */
    uint8_t code[] = { 0xb9, 0, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xf4, 0xeb,
                       0xf4 };
    uint32_t loops = LOOPS;
    uint64_t address = argc > 1 ? strtoull(argv[1], NULL, 16) : 0x400000;
    unsigned rounds = argc > 2 ? atoi(argv[2]) : 100;
    int kvm = open("/dev/kvm", O_RDWR), vm, cpu;
    struct kvm_run *run;
    char *ram;

    vm = ioctl(kvm, KVM_CREATE_VM, 0);
    if (vm < 0) {
        die("KVM_CREATE_VM");
    }
    ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ram == MAP_FAILED || ioctl(vm, KVM_SET_USER_MEMORY_REGION,
                                   &(struct kvm_userspace_memory_region) {
                                       .memory_size = RAM_SIZE,
                                       .userspace_addr = (uintptr_t)ram })) {
        die("memory");
    }
    map_code(ram, address);
    memcpy(code + 1, &loops, sizeof(loops));
    memcpy(ram + CODE + (address & 4095), code, sizeof(code));
    cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
    if (cpu < 0) {
        die("KVM_CREATE_VCPU");
    }
    copy_cpuid(kvm, cpu);
    start_in_long_mode(cpu, address);
    run = mmap(NULL, ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
               PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
    for (unsigned i = 0; i < rounds; i++) {
        if (ioctl(cpu, KVM_RUN, 0)) {
            die("KVM_RUN");
        }
        if (run->exit_reason != KVM_EXIT_HLT) {
            printf("BT: error exit %u\n", run->exit_reason);
            return 1;
        }
    }
    printf("BT: nested pid=%d branches=%u\n", getpid(), rounds * LOOPS);
    return 0;
}
