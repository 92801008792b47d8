/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NMIs that are no PMIs, as a crash button or a watchdog makes, arrive while a
 * guest has BTS on: they are the host's, which knows no reason for them and
 * says so
 *
 * rig: cpus=2
 * rig: linux=kvm_intel.bts=1
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "kvm-bts.h"

#define NMIS        5

/* Local APIC, interrupt command */
#define APIC        0xfee00000
#define APIC_ICR    0x300
#define APIC_ICR2   0x310
#define ICR_NMI     0x4400

extern const char guest_begin[], g_loop[], guest_end[];

asm(
    "   .pushsection .rodata\n"
    "   .code16\n"
    "guest_begin:\n"
    GUEST_SET_DS_AREA GUEST_SET_BTS
    "g_loop: jmp g_loop\n"
    "guest_end:\n"
    "   .code64\n"
    "   .popsection\n");

static void use_cpu(unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static void kick(int number)
{
    (void)number;
}

/* The guest loops on CPU 0 until it is kicked. */
static void *run_guest(void *opaque)
{
    struct vm *vm = opaque;

    use_cpu(0);
    CHECK(ioctl(vm->vcpu, KVM_RUN, 0) == -1 && errno == EINTR);
    return NULL;
}

/* How many NMIs for an unknown reason the kernel has reported since it was last
   asked */
static unsigned unknown_nmis(int kmsg)
{
    char line[8192];
    unsigned count = 0;
    ssize_t n;

    while ((n = read(kmsg, line, sizeof(line) - 1)) > 0) {
        line[n] = '\0';
        count += strstr(line, "NMI received for unknown reason") != NULL;
    }
    CHECK(n < 0 && errno == EAGAIN);
    return count;
}

int main(void)
{
    int kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
    int mem = open("/dev/mem", O_RDWR | O_SYNC);
    volatile struct ds_area *ds;
    volatile uint32_t *apic;
    pthread_t thread;
    unsigned long before;
    struct vm vm;

    bts_or_skip();
    CHECK(kmsg >= 0);
    CHECK(mem >= 0);
    apic = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mem, APIC);
    CHECK(apic != MAP_FAILED);
    signal(SIGUSR1, kick);

    use_cpu(1);
    vm = vm_open(guest_begin, guest_end - guest_begin);
    vm_have_bts(&vm);
    ds = vm_ds_area(&vm, 32, 1000);
    before = aux_nmis();
    CHECK(unknown_nmis(kmsg) == 0);
    CHECK(pthread_create(&thread, NULL, run_guest, &vm) == 0);
    while (ds->index == ds->base) {
        usleep(100);
    }
    for (unsigned i = 0; i < NMIS; i++) {
        apic[APIC_ICR2 / 4] = 0 << 24;
        apic[APIC_ICR / 4] = ICR_NMI;
        usleep(5000);
    }
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    CHECK(pthread_join(thread, NULL) == 0);

    CHECK(vm_get_msr(&vm, MSR_DEBUGCTL) == DEBUGCTL_ON);
    CHECK(aux_nmis() - before == NMIS);
    CHECK(unknown_nmis(kmsg) == NMIS);
    return 0;
}
