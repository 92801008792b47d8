// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * inner KERNEL INITRD MIB WORDS: a Linux as a guest of this guest, whose serial
 * port is this terminal, until it reboots
 *
 * The kernel is entered as Documentation/arch/x86/boot.rst has it in "64-bit
 * Boot Protocol".
 */
#include <asm/bootparam.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs.h"

/* Where things are in its memory */
enum {
    GDT = 0x500,
    PARAMS = 0x7000,
    LINE = 0x8000,
    TABLES = 0x9000,            /* one of each level but the lowest */
    CONVENTIONAL_END = 0x9fc00,
    HIGH = 0x100000,
    KERNEL = 0x1000000,
};

/* Of the kernel's segments in the GDT */
enum { BOOT_CS = 0x10, BOOT_DS = 0x18 };

enum { COM1 = 0x3f8, COM1_IRQ = 4, KEYBOARD = 0x64, RESET = 0xfe };

/* Registers of a 16450 */
enum { DATA, IER, IIR, LCR, MCR, LSR, MSR, SCRATCH };
enum { IER_DATA = 1, IER_EMPTY = 2, LCR_DIVISOR = 0x80 };
enum { IIR_NONE = 1, IIR_EMPTY = 2, IIR_DATA = 4 };
enum { LSR_DATA = 1, LSR_EMPTY = 0x60, MSR_PRESENT = 0xb0 };

static int vm;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t taken;
    uint8_t registers[8];
    int data;                   /* -1: none has come */
    bool sent;                  /* and the guest has not been told */
    bool line;
} port = { .lock = PTHREAD_MUTEX_INITIALIZER,
           .taken = PTHREAD_COND_INITIALIZER, .data = -1 };

static uint8_t reason(void)
{
    if (port.registers[IER] & IER_DATA && port.data >= 0) {
        return IIR_DATA;
    }
    return port.registers[IER] & IER_EMPTY && port.sent ? IIR_EMPTY : IIR_NONE;
}

static void update_line(void)
{
    bool line = reason() != IIR_NONE;

    if (line != port.line) {
        port.line = line;
        ioctl(vm, KVM_IRQ_LINE, &(struct kvm_irq_level) {
            .irq = COM1_IRQ, .level = line });
    }
}

static void port_out(unsigned reg, uint8_t value)
{
    bool divisor = port.registers[LCR] & LCR_DIVISOR;

    if (divisor && reg <= IER) {
        return;
    }
    if (reg == DATA) {
        if (write(1, &value, 1) != 1) {
            die("write");
        }
        port.sent = true;
    } else {
        port.registers[reg] = reg == IER ? value & 0xf : value;
        port.sent |= reg == IER;
    }
    update_line();
}

static uint8_t port_in(unsigned reg)
{
    uint8_t value = port.registers[reg];

    if (reg == DATA && !(port.registers[LCR] & LCR_DIVISOR)) {
        value = port.data < 0 ? 0 : port.data;
        port.data = -1;
        pthread_cond_signal(&port.taken);
    } else if (reg == IIR) {
        value = reason();
        port.sent &= value != IIR_EMPTY;
    } else if (reg == LSR) {
        value = LSR_EMPTY | (port.data >= 0 ? LSR_DATA : 0);
    } else if (reg == MSR) {
        value = MSR_PRESENT;
    }
    update_line();
    return value;
}

/* What is typed goes to the guest. */
static void *type(void *arg)
{
    uint8_t c;

    while (read(0, &c, 1) == 1) {
        pthread_mutex_lock(&port.lock);
        while (port.data >= 0) {
            pthread_cond_wait(&port.taken, &port.lock);
        }
        port.data = c;
        update_line();
        pthread_mutex_unlock(&port.lock);
    }
    return arg;
}

static size_t load(char *ram, size_t room, const char *path)
{
    int fd = open(path, O_RDONLY);
    size_t size = 0;
    ssize_t n;

    while (fd >= 0 && (n = read(fd, ram + size, room - size)) > 0) {
        size += n;
    }
    if (!size) {
        die(path);
    }
    close(fd);
    return size;
}

static void add_ram(struct boot_params *p, uint64_t from, uint64_t to)
{
    p->e820_table[p->e820_entries++] = (struct boot_e820_entry) {
        .addr = from, .size = to - from, .type = 1 };
}

/* Returns where the kernel is entered. */
static uint64_t load_linux(char *ram, size_t size, char **argv)
{
    struct boot_params *p = (struct boot_params *)(ram + PARAMS);
    size_t kernel = load(ram + KERNEL, size - KERNEL, argv[1]);
    size_t setup, initrd;
    struct stat st;

    memcpy(&p->hdr, ram + KERNEL + 0x1f1, sizeof(p->hdr));
    setup = ((p->hdr.setup_sects ? p->hdr.setup_sects : 4) + 1) * 512;
    memmove(ram + KERNEL, ram + KERNEL + setup, kernel - setup);
    if (stat(argv[2], &st)) {
        die(argv[2]);
    }
    initrd = (size - st.st_size) & -4096;
    p->hdr.type_of_loader = 0xff;
    p->hdr.ramdisk_image = initrd;
    p->hdr.ramdisk_size = load(ram + initrd, size - initrd, argv[2]);
    p->hdr.cmd_line_ptr = LINE;
    snprintf(ram + LINE, TABLES - LINE, "%s", argv[4]);
    add_ram(p, 0, CONVENTIONAL_END);
    add_ram(p, HIGH, size);
    return KERNEL + 0x200;
}

/* Maps the first GiB to itself. */
static void make_tables(char *ram)
{
    uint64_t *table = (uint64_t *)(ram + TABLES);

    table[0] = (TABLES + 4096) | 3;
    table[512] = (TABLES + 8192) | 3;
    for (unsigned i = 0; i < 512; i++) {
        table[1024 + i] = (uint64_t)i << 21 | 0x83;
    }
}

/*
 * KVM leaves it to us to report a hypervisor, and its timer.  And the number of
 * the CPU is that of the one that was asked.
 */
static void correct_cpuid(int cpu)
{
    struct kvm_cpuid2 *id = calloc(1, sizeof(*id) +
                                   256 * sizeof(struct kvm_cpuid_entry2));

    id->nent = 256;
    if (ioctl(cpu, KVM_GET_CPUID2, id)) {
        die("KVM_GET_CPUID2");
    }
    for (unsigned i = 0; i < id->nent; i++) {
        struct kvm_cpuid_entry2 *e = &id->entries[i];

        if (e->function == 1) {
            e->ecx |= 1u << 31 | 1u << 24;
            e->ebx &= 0x00ffffff;
        } else if (e->function == 0xb || e->function == 0x1f) {
            e->edx = 0;
        } else if (e->function == 0x8000001e) {
            e->eax = 0;
        }
    }
    if (ioctl(cpu, KVM_SET_CPUID2, id)) {
        die("KVM_SET_CPUID2");
    }
    free(id);
}

static void enter(int cpu, char *ram, uint64_t address)
{
    struct kvm_segment code = { .limit = 0xffffffff, .selector = BOOT_CS,
                                .type = 11, .present = 1, .s = 1, .l = 1,
                                .g = 1 };
    struct kvm_segment data = { .limit = 0xffffffff, .selector = BOOT_DS,
                                .type = 3, .present = 1, .db = 1, .s = 1,
                                .g = 1 };
    struct kvm_regs registers = { .rip = address, .rsi = PARAMS,
                                  .rflags = 2 };
    struct kvm_sregs s;

    ((uint64_t *)(ram + GDT))[2] = 0x00af9b000000ffff;
    ((uint64_t *)(ram + GDT))[3] = 0x00cf93000000ffff;
    if (ioctl(cpu, KVM_GET_SREGS, &s)) {
        die("KVM_GET_SREGS");
    }
    s.gdt = (struct kvm_dtable) { .base = GDT, .limit = 31 };
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

/* Returns false if the guest reboots. */
static bool do_io(struct kvm_run *run)
{
    uint8_t *data = (uint8_t *)run + run->io.data_offset;
    unsigned reg = run->io.port - COM1;
    bool out = run->io.direction == KVM_EXIT_IO_OUT;

    if (run->io.port == KEYBOARD && out && *data == RESET) {
        return false;
    }
    pthread_mutex_lock(&port.lock);
    for (unsigned i = 0; i < run->io.count * run->io.size; i++) {
        if (!out) {
            data[i] = reg < 8 ? port_in(reg) :
                      run->io.port == 0x71 ? 0 : 0xff;
        } else if (reg < 8) {
            port_out(reg, data[i]);
        }
    }
    pthread_mutex_unlock(&port.lock);
    return true;
}

int inner_main(int argc, char **argv)
{
    struct kvm_pit_config pit = { .flags = KVM_PIT_SPEAKER_DUMMY };
    size_t size = argc == 5 ? strtoul(argv[3], NULL, 0) << 20 : 0;
    int kvm = open("/dev/kvm", O_RDWR), cpu;
    struct kvm_run *run;
    pthread_t typist;
    char *ram;

    if (!size) {
        return 2;
    }
    vm = ioctl(kvm, KVM_CREATE_VM, 0);
    if (vm < 0 || ioctl(vm, KVM_CREATE_IRQCHIP, 0) ||
        ioctl(vm, KVM_CREATE_PIT2, &pit)) {
        die("KVM_CREATE_VM");
    }
    ram = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
               -1, 0);
    if (ram == MAP_FAILED || ioctl(vm, KVM_SET_USER_MEMORY_REGION,
                                   &(struct kvm_userspace_memory_region) {
                                       .memory_size = size,
                                       .userspace_addr = (uintptr_t)ram })) {
        die("memory");
    }
    cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
    if (cpu < 0) {
        die("KVM_CREATE_VCPU");
    }
    copy_cpuid(kvm, cpu);
    correct_cpuid(cpu);
    make_tables(ram);
    enter(cpu, ram, load_linux(ram, size, argv));
    run = mmap(NULL, ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
               PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
    if (pthread_create(&typist, NULL, type, NULL)) {
        die("pthread_create");
    }
    for (;;) {
        if (ioctl(cpu, KVM_RUN, 0)) {
            die("KVM_RUN");
        }
        switch (run->exit_reason) {
        case KVM_EXIT_IO:
            if (!do_io(run)) {
                return 0;
            }
            break;
        case KVM_EXIT_MMIO:
            memset(run->mmio.data, 0xff, sizeof(run->mmio.data));
            break;
        case KVM_EXIT_SHUTDOWN:
            return 0;
        default:
            printf("BT: error exit %u\n", run->exit_reason);
            return 1;
        }
    }
}
