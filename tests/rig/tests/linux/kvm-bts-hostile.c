/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest whose DS area is as bad as can be hurts itself alone: the host's own
 * trace and that of another guest stay exact, the kernel has nothing to say.
 * And what the host does with the memory of a guest does not cost it a record.
 *
 * rig: cpus=2
 * rig: walk=walk_begin walk_end (T T)*2 T N T*2 N
 * rig: linux=kvm_intel.bts=1
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "kvm-bts-loop.h"
#include "kvm-hostile.h"

extern const char h_begin[], h_fault[], h_end[];

/* The hostile guest: 32 bit, with paging; the test sets DS_AREA and DEBUGCTL */
asm(
    "   .pushsection .rodata\n"
    "   .code32\n"
    "h_begin:\n"
    "   movl    $0x7000, %esp\n"
    "   movl    $0x600, %ecx\n"
    "   movl    0x2000, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   movl    $0x1d9, %ecx\n"
    "   movl    0x2004, %eax\n"
    "   wrmsr\n"
    "   movl    $50, %ebx\n"
    "1: decl    %ebx\n"
    "   movl    %ebx, 0x2008\n"
    "   jnz     1b\n"
    "   xorl    %eax, %eax\n"
    "   wrmsr\n"
    "   outb    %al, $0x10\n"
    "   jmp     h_begin\n"
    "h_fault:\n"
    "   movl    $0x1d9, %ecx\n"
    "   xorl    %eax, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   outb    %al, $0x11\n"
    "   jmp     h_begin\n"
    "h_end:\n"
    "   .code64\n"
    "   .popsection\n");

#define H_DS        0x3000
#define H_BUFFER    0x4000
#define H_TABLE     0x9000      /* page table; the directory comes next */
#define H_GDT       0xb000
#define H_IDT       0xb100
#define H_NOWHERE   0x200000    /* linear, too: no memory is there */
#define H_EXTRA     0x100000    /* a second piece of memory */

#define PTE_P       1
#define PTE_W       2
#define PTE_AD      0x60

struct hostile {
    struct vm vm;
    volatile struct ds_area *ds;
    volatile uint32_t *words, *table;
    void *extra;
    int fd;
    struct kvm_sregs sregs;
    atomic_bool stop, gone;
    atomic_uint rounds, faults, shutdowns;
    unsigned errors, others;
};

static void set_region(struct vm *vm, unsigned slot, uint64_t at, void *memory,
                       size_t size, unsigned flags)
{
    struct kvm_userspace_memory_region region = {
        .slot = slot,
        .flags = flags,
        .guest_phys_addr = at,
        .memory_size = size,
        .userspace_addr = (uintptr_t)memory,
    };

    CHECK(ioctl(vm->vm, KVM_SET_USER_MEMORY_REGION, &region) == 0);
}

/* The memory of the guest comes from a file from now on. */
static int use_file(struct vm *vm)
{
    static const char name[] = "/tmp/memory";
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);

    CHECK(fd >= 0);
    CHECK(unlink(name) == 0);
    CHECK(write(fd, vm->memory, 0x10000) == 0x10000);
    CHECK(mmap(vm->memory, 0x10000, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED, fd, 0) == vm->memory);
    return fd;
}

/* Take all pages from the guest's page tables, as swapping or balloons do;
   what was in them stays. */
static void take_pages(struct vm *vm, int fd)
{
    CHECK(mmap(vm->memory, 0x10000, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED, fd, 0) == vm->memory);
}

static void from_start(struct hostile *h)
{
    struct kvm_regs regs = { .rip = VM_CODE, .rflags = 2 };
    struct kvm_vcpu_events events = { 0 };

    CHECK(ioctl(h->vm.vcpu, KVM_SET_SREGS, &h->sregs) == 0);
    CHECK(ioctl(h->vm.vcpu, KVM_SET_REGS, &regs) == 0);
    CHECK(ioctl(h->vm.vcpu, KVM_SET_VCPU_EVENTS, &events) == 0);
    CHECK(vm_set_msr(&h->vm, MSR_DEBUGCTL, 0) == 1);
}

/* What the guest writes over, and needs again for the next try */
static void restore(struct hostile *h)
{
    uint64_t *gdt = (void *)(h->vm.memory + H_GDT);
    uint64_t *idt = (void *)(h->vm.memory + H_IDT);
    uint64_t handler = VM_CODE + (h_fault - h_begin);

    memcpy(h->vm.memory + VM_CODE, h_begin, h_end - h_begin);
    gdt[1] = 0xcf9b000000ffffull;
    gdt[2] = 0xcf93000000ffffull;
    for (unsigned i = 0; i < 32; i++) {
        idt[i] = 0x8e0000080000ull | handler;
    }
    for (unsigned i = 0; i < 1024; i++) {
        h->table[i] = i * 4096 | PTE_P | PTE_W | PTE_AD;
    }
    h->table[1024] = H_TABLE | PTE_P | PTE_W | PTE_AD;
}

static void open_hostile(struct hostile *h)
{
    struct kvm_segment flat = {
        .limit = 0xffffffff, .selector = 0x10, .type = 3, .present = 1,
        .db = 1, .s = 1, .g = 1
    };

    memset(h, 0, sizeof(*h));
    h->vm = vm_open(h_begin, h_end - h_begin);
    vm_have_bts(&h->vm);
    h->fd = use_file(&h->vm);
    h->ds = (void *)(h->vm.memory + H_DS);
    h->words = (void *)(h->vm.memory + 0x2000);
    h->table = (void *)(h->vm.memory + H_TABLE);
    h->extra = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(h->extra != MAP_FAILED);
    set_region(&h->vm, 1, H_EXTRA, h->extra, 4096, KVM_MEM_READONLY);
    restore(h);
    h->words[0] = H_DS;
    h->words[1] = DEBUGCTL_ON;
    h->ds->base = h->ds->index = H_BUFFER;
    h->ds->maximum = H_BUFFER + 20 * sizeof(struct record);
    h->ds->threshold = H_BUFFER + 1000 * sizeof(struct record);

    CHECK(ioctl(h->vm.vcpu, KVM_GET_SREGS, &h->sregs) == 0);
    h->sregs.ds = h->sregs.es = h->sregs.fs = h->sregs.gs = flat;
    h->sregs.ss = h->sregs.cs = flat;
    h->sregs.cs.selector = 8;
    h->sregs.cs.type = 11;
    h->sregs.gdt.base = H_GDT;
    h->sregs.gdt.limit = 23;
    h->sregs.idt.base = H_IDT;
    h->sregs.idt.limit = 255;
    h->sregs.cr3 = H_TABLE + 4096;
    h->sregs.cr0 = 0x80010031;          /* PG, WP, NE, ET, PE */
    from_start(h);
}

static void *run_hostile(void *opaque)
{
    struct hostile *h = opaque;

    while (!h->stop) {
        int result = ioctl(h->vm.vcpu, KVM_RUN, 0);

        h->rounds++;
        if (result != 0 && errno == EINTR) {
            continue;
        } else if (result != 0) {
            /* e.g. EFAULT: no page there; it must not be the end of us. */
            h->errors++;
        } else if (h->vm.run->exit_reason == KVM_EXIT_IO) {
            h->faults += h->vm.run->io.port == 0x11;
            continue;
        } else if (h->vm.run->exit_reason == KVM_EXIT_SHUTDOWN) {
            h->shutdowns++;
        } else if (h->vm.run->exit_reason == KVM_EXIT_INTERNAL_ERROR) {
            h->errors++;
        } else {
            h->others++;
            CHECK(h->vm.run->exit_reason == KVM_EXIT_MMIO);
            continue;
        }
        restore(h);
        from_start(h);
    }
    h->gone = true;
    return NULL;
}

/* Ways to be hostile; called before the guest starts, and again while it
   runs */
static void plain(struct hostile *h, unsigned n)
{
    (void)h;
    (void)n;
}

static void area_unmapped(struct hostile *h, unsigned n)
{
    (void)n;
    h->table[H_DS / 4096] = 0;
}

static void buffer_unmapped(struct hostile *h, unsigned n)
{
    (void)n;
    h->table[H_BUFFER / 4096] = 0;
}

static void area_read_only(struct hostile *h, unsigned n)
{
    (void)n;
    h->table[H_DS / 4096] &= ~PTE_W;
}

static void buffer_read_only(struct hostile *h, unsigned n)
{
    (void)n;
    h->table[H_BUFFER / 4096] &= ~PTE_W;
}

static void area_nowhere(struct hostile *h, unsigned n)
{
    (void)n;
    h->words[0] = H_NOWHERE;
}

static void buffer_nowhere(struct hostile *h, unsigned n)
{
    (void)n;
    h->ds->base = h->ds->index = H_NOWHERE;
    h->ds->maximum = h->ds->threshold = H_NOWHERE + 480;
}

static void buffer_in_rom(struct hostile *h, unsigned n)
{
    (void)n;
    h->ds->base = h->ds->index = H_EXTRA;
    h->ds->maximum = h->ds->threshold = H_EXTRA + 480;
}

static void area_in_rom(struct hostile *h, unsigned n)
{
    (void)n;
    memcpy(h->extra, (void *)h->ds, sizeof(*h->ds));
    h->words[0] = H_EXTRA;
}

static void misaligned(struct hostile *h, unsigned n)
{
    struct ds_area ds = {
        H_BUFFER + 4091, H_BUFFER + 4091, H_BUFFER + 4091 + 101,
        H_BUFFER + 8000
    };

    h->words[0] = H_DS + 4096 - 13 - n % 32;
    memcpy(h->vm.memory + h->words[0], &ds, sizeof(ds));
}

static void index_beyond(struct hostile *h, unsigned n)
{
    h->ds->index = n % 2 ? ~0ull - n : h->ds->maximum + n * 4096;
}

static void upside_down(struct hostile *h, unsigned n)
{
    h->ds->maximum = h->ds->base - n % 100;
}

static void zeros(struct hostile *h, unsigned n)
{
    (void)n;
    memset((void *)h->ds, 0, sizeof(*h->ds));
}

static void at_the_end(struct hostile *h, unsigned n)
{
    h->ds->base = h->ds->index = ~0ull - 40 + n % 80;
    h->ds->maximum = h->ds->threshold = ~0ull;
}

/* The buffer lies where it should not: on the DS area, the code, the
   descriptors, the page tables. */
static void over(struct hostile *h, unsigned n)
{
    static const uint32_t at[] = { H_DS, VM_CODE, H_GDT, H_TABLE, 0x6f00 };

    h->ds->base = h->ds->index = at[n % 5];
    h->ds->maximum = h->ds->threshold = at[n % 5] + 2400;
}

/* An interrupt for each record */
static void storm(struct hostile *h, unsigned n)
{
    (void)n;
    h->words[1] = DEBUGCTL_ON | DEBUGCTL_BTINT;
    h->ds->threshold = 0;
}

static void storm_unreadable(struct hostile *h, unsigned n)
{
    storm(h, n);
    h->table[H_DS / 4096] = n % 2 ? 0 : H_DS | PTE_P | PTE_W | PTE_AD;
}

/* Another CPU writes into the DS area. */
static void changing(struct hostile *h, unsigned n)
{
    volatile uint64_t *field = (volatile uint64_t *)h->ds;

    (void)n;
    for (unsigned i = 0; i < 100; i++) {
        field[dice() % 4] = dice() % 3 ? H_BUFFER + dice() % 8192 : dice();
    }
}

static void memory_taken(struct hostile *h, unsigned n)
{
    take_pages(&h->vm, h->fd);
    if (n % 4 == 1) {
        /* with what is in it */
        CHECK(fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        H_BUFFER, 4096) == 0);
    }
}

static void memory_slots(struct hostile *h, unsigned n)
{
    buffer_in_rom(h, n);
    set_region(&h->vm, 1, H_EXTRA, h->extra, 0, 0);
    set_region(&h->vm, 1, H_EXTRA, h->extra, 4096,
               n % 2 ? KVM_MEM_READONLY : KVM_MEM_LOG_DIRTY_PAGES);
}

static const struct {
    const char *name;
    void (*act)(struct hostile *h, unsigned n);
    bool faults;    /* The guest must get an exception, or be shut down. */
} ways[] = {
#define WAY(name) { #name, name, false }
#define FAULTS(name) { #name, name, true }
    WAY(plain), FAULTS(area_unmapped), FAULTS(buffer_unmapped),
    FAULTS(area_read_only), FAULTS(buffer_read_only), WAY(area_nowhere),
    WAY(buffer_nowhere), WAY(area_in_rom), WAY(buffer_in_rom), WAY(misaligned),
    WAY(index_beyond), WAY(upside_down), WAY(zeros), WAY(at_the_end),
    WAY(over), WAY(storm), WAY(storm_unreadable), WAY(changing),
    WAY(memory_taken), WAY(memory_slots),
};

/* A guest that means well keeps each of its records (but see below), while its host does with
   its memory what hosts do. */
static atomic_bool enough;
static int disturbed_fd;
static unsigned kept, lost;

static void *disturb(void *opaque)
{
    struct guest *g = opaque;

    for (unsigned n = 0; !enough; n++) {
        switch (n % 3) {
        case 0:
            take_pages(&g->vm, disturbed_fd);
            break;
        case 1:
            set_region(&g->vm, 0, 0, g->vm.memory, 0x10000,
                       KVM_MEM_LOG_DIRTY_PAGES);
            break;
        default:
            set_region(&g->vm, 0, 0, g->vm.memory, 0x10000, 0);
        }
        usleep(50);
    }
    return NULL;
}

/* The guest has run once.  The strict model loses the records that wait for a
   page that the host has taken: those that are there must be the guest's. */
static void check_disturbed(struct guest *g)
{
    unsigned n = (g->ds->index - g->ds->base) / sizeof(struct record);

    if (!BTS_STRICT) {
        check(g, 1);
        return;
    }
    CHECK(n <= g->loops);
    kept += n;
    lost += g->loops - n;
    for (unsigned i = 0; i < n; i++) {
        const struct record *r = &g->buffer[i];

        CHECK((i == 0 && r->from == AT(g_again) && r->to == AT(g_start)) ||
              (r->from == AT(g_loop) && r->to == AT(g_dec)));
    }
    g->ds->index = g->ds->base;
}

static void disturbed(void)
{
    struct guest g = guest(30, 0x3000);
    uint64_t bitmap = 0;
    struct kvm_dirty_log log = { .dirty_bitmap = &bitmap };
    pthread_t thread;

    disturbed_fd = use_file(&g.vm);
    CHECK(pthread_create(&thread, NULL, disturb, &g) == 0);
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(vm_run(&g.vm) == 0x10);
        check_disturbed(&g);
    }
    enough = true;
    CHECK(pthread_join(thread, NULL) == 0);

    /* Where the guest reads a page that was taken, KVM maps it to be written,
       and counts it as dirty if that is logged already. */
    set_region(&g.vm, 0, 0, g.vm.memory, 0x10000, 0);
    CHECK(vm_run(&g.vm) == 0x10);
    check_disturbed(&g);

    /* What the CPU stores is dirty memory like any other. */
    set_region(&g.vm, 0, 0, g.vm.memory, 0x10000, KVM_MEM_LOG_DIRTY_PAGES);
    CHECK(vm_run(&g.vm) == 0x10);
    check_disturbed(&g);
    CHECK(ioctl(g.vm.vm, KVM_GET_DIRTY_LOG, &log) == 0);
    CHECK(bitmap == 1 << 3);
    CHECK(ioctl(g.vm.vm, KVM_GET_DIRTY_LOG, &log) == 0);
    CHECK(bitmap == 0);
    printf("disturbed: %u records kept, %u lost\n", kept, lost);
    fflush(stdout);
    CHECK(BTS_STRICT ? lost > 0 && kept > lost : lost == 0);
}

static void fight(unsigned way, struct guest *good)
{
    static struct hostile h;
    unsigned messages = kmsg_is_calm();
    pthread_t thread;

    open_hostile(&h);
    ways[way].act(&h, 0);
    CHECK(pthread_create(&thread, NULL, run_hostile, &h) == 0);
    for (unsigned i = 1; i <= 20 || (i <= 2000 && ways[way].faults &&
                                     !(h.faults || h.shutdowns)); i++) {
        CHECK(vm_run(&good->vm) == 0x10);
        check(good, 1);
        ways[way].act(&h, i);
        if (i % 10 == 0) {
            guest_in_walk(good);
            pthread_kill(thread, SIGUSR1);
        }
    }
    h.stop = true;
    while (!h.gone) {
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%s: %u exits, %u faults, %u shutdowns, %u errors, %u MMIO\n",
           ways[way].name, h.rounds, h.faults, h.shutdowns, h.errors,
           h.others);
    fflush(stdout);
    CHECK(kmsg_is_calm() < messages + 10);
    CHECK(h.rounds > 0);
    CHECK(!ways[way].faults || h.faults || h.shutdowns);
    CHECK(way || !(h.faults || h.shutdowns || h.errors || h.others));
    munmap(h.vm.memory, 0x10000);
    munmap(h.extra, 4096);
    close(h.fd);
    close(h.vm.vcpu);
    close(h.vm.vm);
    close(h.vm.kvm);
}

int main(void)
{
    struct guest good;

    bts_or_skip();
    signal(SIGUSR1, nothing);
    good = guest(5, 0x3000);
    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        fight(i, &good);
    }
    disturbed();
    return 0;
}
