/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the host cannot trace a guest: while that uses BTS itself, outside of
 * 64-bit mode, in SMM, after INIT and after a reset.  The trace says from where to
 * where, nothing else is missing, and the guest has what it asked for.
 *
 * rig: linux=kvm_intel.bts_trace=1
 * rig: linux=kvm_intel.bts=1
 */
#include "kvm-trace.h"

extern const char guest_begin[], g_to[], g_on[], g_bts[], g_bts_to[], g_last[],
    g_last_to[], bts_end[];

/* The guest traces itself: R12 is its DEBUGCTL for the second branch */
asm(
    "   .pushsection .rodata\n"
    "   .code64\n"
    "guest_begin: jmp g_to\n"
    "   nop\n"
    "g_to: movl $0x600, %ecx\n"         /* DS_AREA */
    "   movl    $0x3000, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   rdmsr\n"
    "   movl    %eax, 0x2000\n"
    "   movl    $0x1d9, %ecx\n"         /* DEBUGCTL */
    "   movl    %r12d, %eax\n"
    "g_on: wrmsr\n"
    "g_bts: jmp g_bts_to\n"
    "   nop\n"
    "g_bts_to: rdmsr\n"
    "   movl    %eax, 0x2004\n"
    "   xorl    %eax, %eax\n"
    "   wrmsr\n"
    "g_last: jmp g_last_to\n"
    "   nop\n"
    "g_last_to: outb %al, $0x10\n"
    "bts_end:\n"
    "   .popsection\n");

static void set_r12(struct trace *t, uint64_t value)
{
    struct kvm_regs regs;

    CHECK(ioctl(t->vm.vcpu, KVM_GET_REGS, &regs) == 0);
    regs.r12 = value;
    CHECK(ioctl(t->vm.vcpu, KVM_SET_REGS, &regs) == 0);
}

/* What the guest writes into DEBUGCTL, and if that stores records */
static void guest_bts(uint64_t debugctl, bool stores)
{
    const uint32_t *data;
    struct trace t;
    unsigned at;

    trace_open(&t, guest_begin, bts_end - guest_begin, 0);
    vm_have_bts(&t.vm);
    vm_prefault_range(&t.vm, W_GPA, W_SIZE + 0x3000);
    vm_ds_area(&t.vm, 32, 1000);
    set_r12(&t, debugctl);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);

    data = (void *)(t.vm.memory + VM_DATA);
    CHECK(data[0] == VM_DS);
    CHECK(data[1] == debugctl);
    CHECK(vm_get_msr(&t.vm, MSR_DEBUGCTL) == 0);
    CHECK(vm_get_msr(&t.vm, MSR_DS_AREA) == VM_DS);

    at = trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, AT(guest_begin), AT(g_to));
    if (stores) {
        const uint64_t want[][2] = { { AT(g_bts), AT(g_bts_to) } };

        vm_check_records(&t.vm, want, 1);
        at = trace_expect_marker(&t, at, MARKER_OFF, OFF_GUEST, ROOT(0));
        at = trace_expect_marker(&t, at, MARKER_ON, 0, ROOT(0));
    } else {
        vm_check_records(&t.vm, NULL, 0);
        at = trace_expect(&t, at, AT(g_bts), AT(g_bts_to));
    }
    at = trace_expect(&t, at, AT(g_last), AT(g_last_to));
    CHECK(at == t.count);
    trace_close(&t);
}

/* The guest's bits are its own when tracing starts and ends in mid-trace. */
static void guest_bits_stay(void)
{
    struct trace t;

    trace_open(&t, guest_begin, bts_end - guest_begin, 0);
    vm_have_bts(&t.vm);
    vm_prefault_range(&t.vm, W_GPA, W_SIZE + 0x3000);
    vm_ds_area(&t.vm, 32, 1000);
    CHECK(vm_set_msr(&t.vm, MSR_DEBUGCTL, DEBUGCTL_TR | DEBUGCTL_BTINT) == 1);
    trace_start(&t);
    t.vm.run->immediate_exit = 1;
    CHECK(ioctl(t.vm.vcpu, KVM_RUN, 0) == -1 && errno == EINTR);
    t.vm.run->immediate_exit = 0;
    CHECK(vm_get_msr(&t.vm, MSR_DEBUGCTL) == (DEBUGCTL_TR | DEBUGCTL_BTINT));
    set_r12(&t, DEBUGCTL_TR);
    CHECK(trace_run(&t) == 0x10);
    CHECK(trace_flags(&t) == (TRACE_ENABLE | TRACE_ON));
    CHECK(vm_set_msr(&t.vm, MSR_DEBUGCTL, DEBUGCTL_TR | DEBUGCTL_BTINT) == 1);
    CHECK(vm_get_msr(&t.vm, MSR_DEBUGCTL) == (DEBUGCTL_TR | DEBUGCTL_BTINT));
    trace_stop(&t);
    CHECK(vm_get_msr(&t.vm, MSR_DEBUGCTL) == (DEBUGCTL_TR | DEBUGCTL_BTINT));
    vm_check_records(&t.vm, NULL, 0);
    trace_close(&t);
}

extern const char m_begin[], m_far[], m_leave[], m_compat[], m_jmp[], m_to[],
    m_off_jmp[], m_off_to[], m_on_jmp[], m_on_to[], m_back[], m_64[], m_last[],
    m_last_to[], m_end[];

/* To compatibility mode, and with paging off; and back */
asm(
    "   .pushsection .rodata\n"
    "   .code64\n"
    "m_begin: jmp 1f\n"
    "1: nop\n"
    "m_leave: ljmp *m_far(%rip)\n"
    "m_far: .long 0x1000 + m_compat - m_begin\n"
    "   .word   0x18\n"
    "   .code32\n"
    "m_compat: nop\n"
    "m_jmp: jmp m_to\n"
    "   nop\n"
    "m_to: movl %cr0, %eax\n"
    "   btrl    $31, %eax\n"
    "   movl    %eax, %cr0\n"
    "m_off_jmp: jmp m_off_to\n"
    "   nop\n"
    "m_off_to: btsl $31, %eax\n"
    "   movl    %eax, %cr0\n"
    "m_on_jmp: jmp m_on_to\n"
    "   nop\n"
    "m_on_to: nop\n"
    "m_back: ljmp $8, $(0x1000 + m_64 - m_begin)\n"
    "   .code64\n"
    "m_64: nop\n"
    "m_last: jmp m_last_to\n"
    "   nop\n"
    "m_last_to: outb %al, $0x10\n"
    "m_end:\n"
    "   .popsection\n");

#define M(label)    (VM_CODE + (uintptr_t)(label) - (uintptr_t)m_begin)

static void other_modes(void)
{
    struct trace t;
    unsigned at;

    trace_open(&t, m_begin, m_end - m_begin, 0);
    *vm_entry(&t.vm, VM_GDT, 3) = 0xcf9b000000ffff;
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    at = trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, M(m_begin), M(m_leave) - 1);
    at = trace_expect(&t, at, M(m_leave), M(m_compat));
    at = trace_expect(&t, at, M(m_jmp), M(m_to));
    at = trace_expect_marker(&t, at, MARKER_OFF, OFF_MODE, ROOT(0));
    at = trace_expect_marker(&t, at, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, M(m_on_jmp), M(m_on_to));
    at = trace_expect(&t, at, M(m_back), M(m_64));
    at = trace_expect(&t, at, M(m_last), M(m_last_to));
    CHECK(at == t.count);
    trace_close(&t);
}

extern const char s_begin[], s_jmp[], s_to[], s_again[], s_end[];

/* A branch between exits */
asm(
    "   .pushsection .rodata\n"
    "   .code64\n"
    "s_begin: nop\n"
    "s_jmp: jmp s_to\n"
    "   nop\n"
    "s_to: outb %al, $0x10\n"
    "s_again: jmp s_begin\n"
    "s_end:\n"
    "   .popsection\n");

#define S(label)    (VM_CODE + (uintptr_t)(label) - (uintptr_t)s_begin)

static void add_memory(struct trace *t, uint32_t slot, uint64_t gpa,
                       const void *code, size_t at, size_t size)
{
    struct kvm_userspace_memory_region region = {
        .slot = slot, .guest_phys_addr = gpa, .memory_size = 0x10000,
    };
    uint8_t *memory = mmap(NULL, region.memory_size, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    memcpy(memory + at, code, size);
    region.userspace_addr = (uintptr_t)memory;
    CHECK(ioctl(t->vm.vm, KVM_SET_USER_MEMORY_REGION, &region) == 0);
}

#define SMBASE      0x2000000
#define MSR_SMBASE  0x9e

/* The handler has a branch, too: jmp, rsm. */
static void smm(void)
{
    static const uint8_t handler[] = { 0xeb, 0x00, 0x0f, 0xaa };
    struct kvm_vcpu_events events = { 0 };
    struct trace t;
    unsigned at;

    trace_open(&t, s_begin, s_end - s_begin, 0);
    add_memory(&t, 1 << 16 | 2, SMBASE, handler, 0x8000, sizeof(handler));
    CHECK(vm_set_msr(&t.vm, MSR_SMBASE, SMBASE) == 1);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(ioctl(t.vm.vcpu, KVM_GET_VCPU_EVENTS, &events) == 0);
        events.flags = KVM_VCPUEVENT_VALID_SMM;
        events.smi.pending = 1;
        CHECK(ioctl(t.vm.vcpu, KVM_SET_VCPU_EVENTS, &events) == 0);
        CHECK(trace_run(&t) == 0x10);
    }
    at = trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, S(s_jmp), S(s_to));
    for (unsigned i = 0; i < 3; i++) {
        at = trace_expect_marker(&t, at, MARKER_OFF, OFF_SMM, ROOT(0));
        at = trace_expect_marker(&t, at, MARKER_ON, 0, ROOT(0));
        at = trace_expect(&t, at, S(s_again), S(s_begin));
        at = trace_expect(&t, at, S(s_jmp), S(s_to));
    }
    CHECK(at == t.count);
    CHECK(vm_get_msr(&t.vm, MSR_DEBUGCTL) == 0);
    trace_close(&t);
}

/* An INIT is pending in the local APIC. */
static void init(void)
{
    static const uint8_t reset[] = { 0xe6, 0x12, 0xeb, 0xfc };
    struct kvm_vcpu_events events;
    struct trace t;
    unsigned at;

    trace_open_with(&t, s_begin, s_end - s_begin, 0, true);
    add_memory(&t, 2, 0xffff0000, reset, 0xfff0, sizeof(reset));
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    CHECK(ioctl(t.vm.vcpu, KVM_GET_VCPU_EVENTS, &events) == 0);
    events.flags = KVM_VCPUEVENT_VALID_SMM;
    events.smi.latched_init = 1;
    CHECK(ioctl(t.vm.vcpu, KVM_SET_VCPU_EVENTS, &events) == 0);
    CHECK(trace_run(&t) == 0x12);
    CHECK(trace_run(&t) == 0x12);
    at = trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, S(s_jmp), S(s_to));
    /* That the OUT is complete may be noticed before the INIT. */
    at = trace_expect_marker(&t, at, MARKER_OFF, OFF_MODE, ROOT(0));
    CHECK(at == t.count);
    CHECK(trace_flags(&t) == TRACE_ENABLE);
    trace_close(&t);
}

/* Userspace resets the vCPU, and puts it back. */
static void reset(void)
{
    struct kvm_sregs sregs, reset;
    struct kvm_regs regs;
    struct trace t;
    unsigned at;

    trace_open(&t, s_begin, s_end - s_begin, 0);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    CHECK(ioctl(t.vm.vcpu, KVM_GET_SREGS, &sregs) == 0);
    CHECK(ioctl(t.vm.vcpu, KVM_GET_REGS, &regs) == 0);
    reset = sregs;
    reset.cr0 = 0x10;
    reset.cr3 = reset.cr4 = reset.efer = 0;
    reset.cs.l = 0;
    reset.cs.db = 1;
    CHECK(ioctl(t.vm.vcpu, KVM_SET_SREGS, &reset) == 0);
    CHECK(trace_run(&t) == 0x10);
    sregs.cr3 = ROOT(1);
    CHECK(ioctl(t.vm.vcpu, KVM_SET_SREGS, &sregs) == 0);
    CHECK(ioctl(t.vm.vcpu, KVM_SET_REGS, &regs) == 0);
    CHECK(trace_run(&t) == 0x10);
    at = trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, S(s_jmp), S(s_to));
    at = trace_expect_marker(&t, at, MARKER_OFF, OFF_MODE, ROOT(0));
    at = trace_expect_marker(&t, at, MARKER_ON, 0, ROOT(1));
    at = trace_expect(&t, at, S(s_again), S(s_begin));
    at = trace_expect(&t, at, S(s_jmp), S(s_to));
    CHECK(at == t.count);
    trace_close(&t);
}

int main(void)
{
    trace_or_skip();
    guest_bts(DEBUGCTL_ON, true);
    guest_bts(DEBUGCTL_ON | DEBUGCTL_BTINT, true);
    guest_bts(DEBUGCTL_TR, false);
    guest_bts(DEBUGCTL_BTS | DEBUGCTL_BTINT, false);
    guest_bits_stay();
    other_modes();
    smm();
    init();
    reset();
    kmsg_is_calm();
    return 0;
}
