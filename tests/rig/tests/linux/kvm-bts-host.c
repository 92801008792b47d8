/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BTS of the host and of guests at the same time, and of several guests: each
 * has its own records, all of them, and no others
 *
 * rig: cpus=2
 * rig: walk=walk_begin walk_end (T T)*2 T N T*2 N
 * rig: linux=kvm_intel.bts=1
 */
#include <pthread.h>
#include <sched.h>

#include "kvm-bts-loop.h"
#include "kvm-walk.h"

#define DEBUGCTL_FREEZE     (1 << 14)

/* A set of CPUs, by their bits, for this thread and those that it makes */
static void use_cpus(unsigned bits)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned cpu = 0; cpu < 2; cpu++) {
        if (bits >> cpu & 1) {
            CPU_SET(cpu, &set);
        }
    }
    CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* The host with its kernel: what of it is in user mode is the same, and all of
   it is one way through code, from where a branch went to the next one; except
   for VM entries: a VM exit clears DEBUGCTL, and a little later KVM gives the
   host its own back, always at the same place. */
static void kernel(struct guest *g)
{
    struct aux aux = aux_open(true, true, 512 * 4096, 0);
    size_t count, users = 0, gaps = 0, last = 0;
    struct record *list;

    traced(aux.fd, g->vm.vcpu);
    check(g, 3);
    list = aux_records(&aux, &count);
    for (size_t n = 0; n < count; n++) {
        if (list[n].from < 0x10000 || list[n].to < 0x10000) {
            fail("record %zu is the guest's: %llx -> %llx", n,
                 (unsigned long long)list[n].from,
                 (unsigned long long)list[n].to);
        }
        if (n && list[n].from - list[n - 1].to > 4096) {
            if (gaps && (list[n - 1].to != list[last - 1].to ||
                         list[n].from != list[last].from)) {
                fail("record %zu, %llx -> %llx, cannot follow ... -> %llx", n,
                     (unsigned long long)list[n].from,
                     (unsigned long long)list[n].to,
                     (unsigned long long)list[n - 1].to);
            }
            last = n;
            gaps++;
        }
    }
    printf("%zu records of KVM and this program, %zu VM entries\n", count,
           gaps);
    fflush(stdout);
    CHECK(count > 1000);
    CHECK(gaps >= 3 && gaps < 10);
    for (size_t n = 0; n < count; n++) {
        if (!(list[n].to >> 63)) {
            list[users++] = list[n];
        }
    }
    aux_is_walk(list, users);
    free(list);
    aux_close(&aux);
}

/* The host's IA32_DEBUGCTL, on its first CPU */
static uint64_t host_debugctl(void)
{
    int fd = open("/dev/cpu/0/msr", O_RDONLY);
    uint64_t value;

    CHECK(fd >= 0);
    CHECK(pread(fd, &value, sizeof(value), MSR_DEBUGCTL) == sizeof(value));
    close(fd);
    return value;
}

static void set_freeze(const char *on)
{
    int fd = open("/sys/bus/event_source/devices/cpu/freeze_on_smi", O_WRONLY);

    CHECK(fd >= 0);
    CHECK(write(fd, on, 1) == 1);
    close(fd);
    CHECK(!(host_debugctl() & DEBUGCTL_FREEZE) == (*on == '0'));
}

/* The host has FREEZE_WHILE_SMM set: it keeps it, the guest never sees it, and
   neither loses a record. */
static void freeze(struct guest *g)
{
    set_freeze("1");
    guest_in_walk(g);
    CHECK(host_debugctl() & DEBUGCTL_FREEZE);
    CHECK(vm_get_msr(&g->vm, MSR_DEBUGCTL) == DEBUGCTL_ON);
    set_freeze("0");
    guest_in_walk(g);
    CHECK(!(host_debugctl() & DEBUGCTL_FREEZE));
    CHECK(vm_get_msr(&g->vm, MSR_DEBUGCTL) == DEBUGCTL_ON);
}

/* A second CPU of a guest, with a DS area of its own there, which runs the same
   loop */
static struct guest sibling(const struct guest *first, uint16_t at)
{
    struct kvm_regs regs = { .rip = AT(g_start), .rsp = 0x7000, .rflags = 2 };
    struct guest g = *first;
    struct kvm_sregs sregs;

    g.vm.vcpu = ioctl(g.vm.vm, KVM_CREATE_VCPU, 1);
    CHECK(g.vm.vcpu >= 0);
    g.vm.run = mmap(NULL, ioctl(g.vm.kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
                    PROT_READ | PROT_WRITE, MAP_SHARED, g.vm.vcpu, 0);
    CHECK(g.vm.run != MAP_FAILED);
    vm_have_bts(&g.vm);
    CHECK(ioctl(g.vm.vcpu, KVM_GET_SREGS, &sregs) == 0);
    sregs.cs.base = sregs.cs.selector = 0;
    CHECK(ioctl(g.vm.vcpu, KVM_SET_SREGS, &sregs) == 0);
    CHECK(ioctl(g.vm.vcpu, KVM_SET_REGS, &regs) == 0);
    g.ds = (void *)(g.vm.memory + at);
    g.ds->base = g.ds->index = at + 0x400;
    g.ds->maximum = g.ds->base + 40 * sizeof(struct record);
    g.ds->threshold = -1ull >> 1;
    g.buffer = (void *)(g.vm.memory + at + 0x400);
    CHECK(vm_set_msr(&g.vm, MSR_DS_AREA, at) == 1);
    CHECK(vm_set_msr(&g.vm, MSR_DEBUGCTL, DEBUGCTL_ON) == 1);
    CHECK(vm_run(&g.vm) == 0x10);
    CHECK(g.ds->index == g.ds->base + (g.loops - 1) * sizeof(struct record));
    g.ds->index = g.ds->base;
    return g;
}

static void *runs(void *opaque)
{
    struct guest *g = opaque;

    for (unsigned i = 0; i < g->runs; i++) {
        if (g->bounce) {
            use_cpus(1 << i % 2);
        }
        CHECK(vm_run(&g->vm) == 0x10);
        check(g, 1);
    }
    return NULL;
}

/* Two guests, each in a thread of its own, while this one does WORK */
static void two(struct guest g[2], void (*work)(struct guest *g),
                struct guest *own)
{
    pthread_t threads[2];

    for (unsigned i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, runs, &g[i]) == 0);
    }
    for (unsigned i = 0; work && i < 5; i++) {
        work(own);
    }
    for (unsigned i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

int main(void)
{
    struct guest own, other[2];

    bts_or_skip();
    own = guest(5, 0x3000);
    use_cpus(1);
    guest_in_walk(&own);
    kernel(&own);
    freeze(&own);

    /* Each run on another CPU than the last one */
    own.runs = 500;
    own.bounce = true;
    runs(&own);

    /* Side by side, each CPU with a guest, then sharing one, then moving */
    other[0] = guest(3, 0x3000);
    other[1] = guest(11, 0x5000);
    for (unsigned i = 0; i < 3; i++) {
        other[0].runs = other[1].runs = i == 2 ? 300 : 1000;
        other[0].bounce = other[1].bounce = i == 2;
        use_cpus(i == 0 ? 3 : 1);
        two(other, guest_in_walk, &own);
    }

    /* The two CPUs of one guest, side by side and moving */
    other[1] = sibling(&other[0], 0x5000);
    use_cpus(3);
    for (unsigned i = 0; i < 2; i++) {
        other[0].runs = other[1].runs = i ? 300 : 1000;
        other[0].bounce = other[1].bounce = i;
        two(other, guest_in_walk, &own);
    }
    kmsg_is_calm();
    return 0;
}
