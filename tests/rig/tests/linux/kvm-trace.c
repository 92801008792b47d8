/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host traces a guest by BTS: each branch of its kernel and of its user mode
 * is there, over thousands of full buffers, and the guest sees nothing of it
 *
 * rig: linux=kvm_intel.bts_trace=1
 */
#include "kvm-trace.h"

extern const char guest_begin[], g_jmp[], g_after[], g_dec[], g_loop[],
    g_call[], g_back[], g_sub[], g_sysret[], g_user[], g_user_jmp[],
    g_user_to[], g_syscall[], g_kernel[], g_int[], g_iret_to[], g_handler[],
    g_iret[], g_again[], g_out[], g_next[], guest_end[];

/* R15 rounds between two exits */
asm(
    "   .pushsection .rodata\n"
    "   .code64\n"
    "guest_begin: nop\n"
    "g_jmp: jmp g_after\n"
    "   nop\n"
    "g_after: movl $3, %ebx\n"
    "g_dec: decl %ebx\n"
    "g_loop: jnz g_dec\n"
    "g_call: call g_sub\n"
    "g_back: jmp 1f\n"
    "g_sub: ret\n"
    "1: leaq    g_user(%rip), %rcx\n"
    "   movl    $2, %r11d\n"
    "g_sysret: sysretq\n"
    "g_user: nop\n"
    "g_user_jmp: jmp g_user_to\n"
    "   nop\n"
    "g_user_to: nop\n"
    "g_syscall: syscall\n"
    "g_kernel: nop\n"
    "g_int: int3\n"
    "g_iret_to: decl %r15d\n"
    "g_again: jnz guest_begin\n"
    "   movl    $0x1d9, %ecx\n"         /* DEBUGCTL */
    "   rdmsr\n"
    "   movl    %eax, 0x2000\n"
    "   movl    %edx, 0x2004\n"
    "   movl    $1, %eax\n"
    "   cpuid\n"
    "   movl    %ecx, 0x2008\n"
    "   movl    %edx, 0x200c\n"
    "g_out: outb %al, $0x10\n"
    "g_next: jmp guest_begin\n"
    "g_handler: nop\n"
    "g_iret: iretq\n"
    "guest_end:\n"
    "   .popsection\n");

static unsigned expect_round(struct trace *t, unsigned at)
{
    at = trace_expect(t, at, AT(g_jmp), AT(g_after));
    at = trace_expect(t, at, AT(g_loop), AT(g_dec));
    at = trace_expect(t, at, AT(g_loop), AT(g_dec));
    at = trace_expect(t, at, AT(g_call), AT(g_sub));
    at = trace_expect(t, at, AT(g_sub), AT(g_back));
    at = trace_expect(t, at, AT(g_back), AT(g_sub) + 1);
    at = trace_expect(t, at, AT(g_sysret), AT(g_user));
    at = trace_expect(t, at, AT(g_user_jmp), AT(g_user_to));
    at = trace_expect(t, at, AT(g_syscall), AT(g_kernel));
    at = trace_expect(t, at, AT(g_int), AT(g_handler));
    return trace_expect(t, at, AT(g_iret), AT(g_iret_to));
}

#define ROUND_RECORDS   12      /* with the branch to the next round */

/* The guest starts a round and is to do so many. */
static void set_rounds(struct trace *t, unsigned rounds)
{
    struct kvm_regs regs;

    CHECK(ioctl(t->vm.vcpu, KVM_GET_REGS, &regs) == 0);
    regs.r15 = rounds;
    CHECK(ioctl(t->vm.vcpu, KVM_SET_REGS, &regs) == 0);
}

static unsigned expect_rounds(struct trace *t, unsigned at, unsigned rounds)
{
    while (rounds--) {
        at = expect_round(t, at);
        if (rounds) {
            at = trace_expect(t, at, AT(g_again), AT(guest_begin));
        }
    }
    return at;
}

/* The guest's own view, which must be that of a guest that is not traced */
static void check_view(struct trace *t)
{
    const uint32_t *data = (void *)(t->vm.memory + VM_DATA);

    CHECK(data[0] == 0 && data[1] == 0);
    CHECK(!(data[2] & (CPUID_1_ECX_DTES64 | CPUID_1_ECX_DS_CPL)));
    CHECK(!(data[3] & CPUID_1_EDX_DS));
    CHECK(vm_get_msr(&t->vm, MSR_DEBUGCTL) == 0);
}

static void open_guest(struct trace *t)
{
    trace_open(t, guest_begin, guest_end - guest_begin, 0);
    vm_set_idt(&t->vm, 3, AT(g_handler));
    CHECK(vm_set_msr(&t->vm, MSR_LSTAR, AT(g_kernel)) == 1);
}

/* Buffers of so many records, the threshold at so many */
static void full_buffers(unsigned records, unsigned threshold, unsigned rounds)
{
    struct trace t;
    unsigned at;

    open_guest(&t);
    trace_set_buffer(&t, records, threshold);
    trace_start(&t);
    CHECK(trace_flags(&t) == TRACE_ENABLE);
    set_rounds(&t, rounds);
    CHECK(trace_run(&t) == 0x10);
    CHECK(trace_flags(&t) == (TRACE_ENABLE | TRACE_ON));
    at = trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0));
    CHECK(expect_rounds(&t, at, rounds) == t.count);
    printf("buffers of %u: %u records, %u full buffers\n", threshold, t.count,
           t.full);
    fflush(stdout);
    CHECK(t.full >= t.count / (threshold + 2));
    check_view(&t);
    trace_close(&t);
}

/* Off and on again between two exits: each is exact. */
static void switched(void)
{
    struct trace t;
    unsigned at;

    open_guest(&t);
    set_rounds(&t, 2);
    CHECK(trace_run(&t) == 0x10);
    CHECK(t.count == 0);
    check_view(&t);
    for (unsigned i = 0; i < 3; i++) {
        trace_forget(&t);
        trace_start(&t);
        set_rounds(&t, 2);
        CHECK(trace_run(&t) == 0x10);
        at = trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0));
        at = trace_expect(&t, at, AT(g_next), AT(guest_begin));
        CHECK(expect_rounds(&t, at, 2) == t.count);
        check_view(&t);

        trace_stop(&t);
        CHECK(trace_flags(&t) == 0);
        trace_forget(&t);
        set_rounds(&t, 2);
        CHECK(trace_run(&t) == 0x10);
        CHECK(t.count == 0);
        check_view(&t);
    }
    trace_close(&t);
}

/* What userspace may not ask for */
static void refused(void)
{
    static const struct bts_trace bad[] = {
        { .flags = 3 },
        { .flags = 0x80000000 },
        { .flags = -1u & ~TRACE_ENABLE },
        { .root_index = 512 },
        { .ds_area = W_LINEAR + 8 },
        { .ds_area = 0x400000 },
        { .ds_area = 0x8000000000000000 },
        { .ds_area = W_LINEAR + (1ull << 39) - 0x1000 },
        { .gpa = W_GPA + 8 },
        { .gpa = 0x800000 },
        { .gpa = -0x1000ull },
        { .size = 0x1008 },
        { .size = W_SIZE + 0x4000 },
        { .size = 0x201000 },
        { .reserved = { [7] = 1 } },
    };
    static const struct ds_area areas[] = {
        { .base = -0x1000ull },
        { .base = 8 },
        { .index = -8ull },
        { .index = 2001 * 24 },
        { .maximum = 8 },
        { .maximum = W_SIZE },
        { .threshold = 8 },
        { .threshold = -1000 * 24ull },
        { .threshold = 993 * 24 },
        { .threshold = 1ull << 63 },
    };
    struct trace t;
    struct bts_trace good;

    open_guest(&t);
    good = t.config;
    CHECK(trace_attr(&t, KVM_HAS_DEVICE_ATTR, NULL) == 0);
    CHECK(trace_attr(&t, KVM_SET_DEVICE_ATTR, NULL) == -1 && errno == EFAULT);
    CHECK(trace_attr(&t, KVM_GET_DEVICE_ATTR, NULL) == -1 && errno == EFAULT);
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct bts_trace config = good;

        config.flags = bad[i].flags ? bad[i].flags : good.flags;
        config.root_index += bad[i].root_index;
        config.ds_area = bad[i].ds_area ? bad[i].ds_area : good.ds_area;
        config.gpa = bad[i].gpa ? bad[i].gpa : good.gpa;
        config.size = bad[i].size ? bad[i].size : good.size;
        memcpy(config.reserved, bad[i].reserved, sizeof(config.reserved));
        if (trace_attr(&t, KVM_SET_DEVICE_ATTR, &config) != -1 ||
            errno != EINVAL) {
            fail("bad configuration %u is taken", i);
        }
    }
    for (unsigned i = 0; i < sizeof(areas) / sizeof(areas[0]); i++) {
        trace_set_buffer(&t, 2000, 1000);
        t.ds->base += areas[i].base;
        t.ds->index += areas[i].index;
        t.ds->maximum += areas[i].maximum;
        t.ds->threshold += areas[i].threshold;
        if (trace_attr(&t, KVM_SET_DEVICE_ATTR, &good) != -1 ||
            errno != EINVAL) {
            fail("bad DS area %u is taken", i);
        }
    }
    CHECK(trace_flags(&t) == 0);
    trace_close(&t);
}

int main(void)
{
    trace_or_skip();
    refused();
    switched();
    full_buffers(2000, 1000, 1000);
    full_buffers(100, 20, 1000);
    full_buffers(20, 1, 20);
    full_buffers(100, 92, 1000);
    kmsg_is_calm();
    return 0;
}
