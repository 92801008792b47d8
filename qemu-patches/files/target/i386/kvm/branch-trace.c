/*
 * x86 branch trace: the KVM producer
 *
 * The Branch Trace Store of the CPU stores a record for each branch of the
 * guest into a buffer that is in guest memory, because the CPU stores to
 * guest-linear addresses; and KVM adds markers that say which address space
 * the records belong to, and where there are none.  The thread of the vCPU
 * copies both into its stream whenever the buffer is full enough, or the tick
 * asks for it.
 *
 * The buffers are in a region of memory that only exists while a capture is
 * active, at an address where the guest expects nothing.  One entry of each of
 * the guest's top-level page tables, which KVM sets, leads to two more tables,
 * which are in the region, and from there to a window for each vCPU.  Or the
 * guest maps the windows itself (branch-trace-window.c), and KVM sets nothing.
 *
 * The guest can read and write all of this.  Whatever is there is read once,
 * and decides about nothing but the contents of the trace.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/address-spaces.h"
#include "hw/boards.h"
#include "hw/misc/branch-trace.h"
#include "hw/misc/vmcoreinfo.h"
#include "qapi/error.h"
#include "qemu/guest-random.h"
#include "qemu/host-utils.h"
#include "qemu/lockable.h"
#include "qemu/madvise.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "system/hw_accel.h"
#include "system/kvm.h"
#include "branch-trace-cr3.h"
#include "branch-trace.h"
#include "branch-trace-window.h"
#include "kvm_i386.h"

/* Each vCPU has a large page to itself: the DS area, then the buffer */
#define WINDOW_SIZE         (2 * MiB)
#define WINDOW_USED         (DS_SIZE + BUFFER_SIZE)
#define DS_SIZE             TARGET_PAGE_SIZE
#define BUFFER_SIZE         (128 * KiB)
#define BUFFER_RECORDS      (BUFFER_SIZE / sizeof(struct btrail_record))
#define THRESHOLD_RECORDS   (BUFFER_RECORDS - 256)

/* The tables are in the first window, which is not mapped for the guest. */
#define TABLE_LEVEL4        0
#define TABLE_LEVEL3        1
#define TABLE_LEVEL2        2
#define TABLE_ENTRIES       512

#define TABLE_FLAGS         (PG_NX_MASK | PG_DIRTY_MASK | PG_ACCESSED_MASK | \
                             PG_RW_MASK | PG_PRESENT_MASK)

/*
 * What Linux keeps free "for hypervisors" in its top-level tables, with 4 as
 * with 5 levels
 */
#define LINUX_FREE_ENTRY    256
#define LINUX_FREE_ENTRIES  16

/* More page tables than these are not tidied up. */
#define MAX_ROOTS           (64 * KiB)

/* Code is reported where no branch is taken for at most this many pages. */
#define MAX_RUN             (4 * TARGET_PAGE_SIZE)

/* The last byte of the longest instruction */
#define MAX_INSN_END        14

/* Pages of code that need not be looked at again until the buffer is empty */
#define CHECKED_PAGES       1024

typedef struct CheckedPage {
    uint64_t linear;
    uint64_t root;
    uint64_t round;
} CheckedPage;

typedef struct DSArea {
    uint64_t base;
    uint64_t index;
    uint64_t maximum;
    uint64_t threshold;
} DSArea;

/**
 * KVMBranchTrace - what the producer knows of a vCPU
 * @stream:      NULL if the vCPU is not traced
 * @window:      its memory, and @offset, where that is in the region
 * @next, @end:  records in the buffer that were there when it was last looked
 *               at and are not in the stream yet
 * @then_off:    what is to be reported after them: why there are no more, or 0;
 * @then_broken: and the reasons of discontinuities, as bits
 * @due:         the buffer is to be looked at; set by any thread
 * @unmapped:    KVM may have forgotten where the region is; set by any thread
 * @enabled:     KVM has been told to trace the vCPU, with these:
 * @five_levels: of page tables
 * @install:     KVM may set entries that are 0
 * @linear:      where the guest has the region, or 0
 * @withdrawn:   KVM was told to stop, since the guest has moved the region, even
 *               if it is where it was again
 * @off_reason:  why there are no records, KVM_BTS_TRACE_OFF_*, or 0
 * @cr3:         CR3 that labels the next record
 * @privilege:   which branches are recorded, BTRAIL_PRIVILEGE_*; 0 while the
 *               filter excludes CR3
 * @emptied, @seen_empty: when there was nothing in the buffer, on get_clock():
 *               when it was last emptied, and when the tick looked
 * @host, @tsc:  the time after which the records in the buffer were made
 * @tsc_khz:     the frequency of the guest's TSC
 * @last_to:     where the guest continued after the last record, or 0
 * @checked:     pages of code whose content is known, if @round is theirs
 * @roots:       page tables that the vCPU has had, as keys
 */
typedef struct KVMBranchTrace {
    BranchTraceCursor cursor;
    BranchTraceStream *stream;
    CPUState *cpu;
    uint8_t *window;
    uint64_t offset;
    unsigned next;
    unsigned end;
    uint32_t then_off;
    uint32_t then_broken;
    bool due;
    bool unmapped;
    bool enabled;
    bool five_levels;
    bool install;
    uint64_t linear;
    bool withdrawn;
    uint32_t off_reason;
    uint32_t privilege;
    uint64_t cr3;
    uint64_t emptied;
    uint64_t seen_empty;
    uint64_t host;
    uint64_t tsc;
    uint64_t tsc_khz;
    uint64_t last_to;
    uint64_t round;
    CheckedPage checked[CHECKED_PAGES];
    GHashTable *roots;
} KVMBranchTrace;

/* The region, and what is the same for all vCPUs of a capture */
static struct {
    MemoryRegion region;
    uint8_t *memory;
    uint64_t size;
    hwaddr gpa;
    unsigned root_index;
    VMCoreInfoState *vmcoreinfo;
    KVMBranchTrace *vcpus;
    GHashTable *roots;
    uint64_t hash_key;
    QemuMutex kick_lock;        /* no vCPU that is kicked goes away, */
                                /* nor one for which another thread calls KVM */
} session;

static const BranchTraceKvmProperties *properties;

static KVMBranchTrace *get_vcpu(CPUState *cpu)
{
    return X86_CPU(cpu)->kvm_branch_trace;
}

/* The region */

static uint64_t root_entry(bool five_levels)
{
    unsigned table = five_levels ? TABLE_LEVEL4 : TABLE_LEVEL3;

    return (session.gpa + table * TARGET_PAGE_SIZE) | TABLE_FLAGS;
}

static unsigned root_shift(bool five_levels)
{
    return five_levels ? 48 : 39;
}

/* Where the guest has the region, or 0 */
static uint64_t linear_address(bool five_levels)
{
    unsigned shift = root_shift(five_levels);
    uint64_t windows;

    if (properties->guest_window) {
        windows = kvm_guest_window_linear();
        return windows ? windows - WINDOW_SIZE : 0;
    }
    return sextract64((uint64_t)session.root_index << shift, 0, shift + 9);
}

static void write_tables(void)
{
    uint64_t *level4 = (uint64_t *)session.memory +
                       TABLE_LEVEL4 * TABLE_ENTRIES;
    uint64_t *level3 = (uint64_t *)session.memory +
                       TABLE_LEVEL3 * TABLE_ENTRIES;
    uint64_t *level2 = (uint64_t *)session.memory +
                       TABLE_LEVEL2 * TABLE_ENTRIES;
    uint64_t offset;

    qatomic_set(level4, root_entry(false));
    for (offset = 0; offset < session.size; offset += GiB) {
        uint64_t table = TABLE_LEVEL2 + offset / GiB;

        qatomic_set(level3++, (session.gpa + table * TARGET_PAGE_SIZE) |
                              TABLE_FLAGS);
    }
    for (offset = WINDOW_SIZE; offset < session.size; offset += WINDOW_SIZE) {
        qatomic_set(level2 + offset / WINDOW_SIZE,
                    (session.gpa + offset) | PG_PSE_MASK | TABLE_FLAGS);
    }
}

static unsigned phys_bits(void)
{
    unsigned guest_bits = X86_CPU(first_cpu)->phys_bits;
    uint32_t eax;

    host_cpuid(0x80000008, 0, &eax, NULL, NULL, NULL);
    return guest_bits ? MIN(guest_bits, eax & 0xff) : eax & 0xff;
}

/*
 * A place where neither RAM nor what firmware or an operating system moves
 * there can be: they begin at the bottom and at the top.
 */
static bool find_place(void)
{
    unsigned bits = phys_bits();
    hwaddr step = 1ULL << (bits - 6);
    hwaddr gpa;

    /* What a guest maps itself stays where it is. */
    if (session.gpa && properties->guest_window) {
        return true;
    }
    for (gpa = 48 * step; gpa >= 16 * step; gpa -= step) {
        MemoryRegionSection section =
            memory_region_find(get_system_memory(), gpa, session.size);

        if (!section.mr) {
            session.gpa = gpa;
            return true;
        }
        memory_region_unref(section.mr);
    }
    return false;
}

/* Done once; the memory is not used unless a capture is active. */
static bool make_region(Error **errp)
{
    unsigned vcpus = current_machine->smp.max_cpus;
    unsigned i;

    if (session.vcpus) {
        return true;
    }
    session.size = (1 + vcpus) * WINDOW_SIZE;
    session.memory = qemu_anon_ram_alloc(session.size, NULL, false,
                                         false);
    if (!session.memory) {
        error_setg_errno(errp, errno, "cannot allocate the buffers of a "
                         "branch trace");
        return false;
    }
    memory_region_init_ram_device_ptr(&session.region,
                                      OBJECT(current_machine),
                                      "branch-trace", session.size,
                                      session.memory);
    qemu_mutex_init(&session.kick_lock);
    session.vcpus = g_new0(KVMBranchTrace, vcpus);
    for (i = 0; i < vcpus; i++) {
        session.vcpus[i].offset = (1 + i) * WINDOW_SIZE;
        session.vcpus[i].window = session.memory + (1 + i) * WINDOW_SIZE;
    }
    return true;
}

/* Which entry of the guest's top-level tables may be used? */

#define NOTE_NAME           "VMCOREINFO"
#define NOTE_BEGIN          "OSRELEASE="
#define NOTE_NAME_OFFSET    12      /* after three numbers of 32 bits */
#define NOTE_OFFSET         24

/*
 * Has a kernel of Linux said that it runs, by the VMCOREINFO note for crash
 * dumps?  A guest that lies gets what it has asked for.
 */
static bool guest_is_linux(void)
{
    const VMCoreInfoState *v = session.vmcoreinfo;
    const MemTxAttrs attrs = { .memory = true };
    char note[NOTE_OFFSET + sizeof(NOTE_BEGIN) - 1];

    return v && qatomic_read(&v->has_vmcoreinfo) &&
           address_space_read(&address_space_memory,
                              le64_to_cpu(v->vmcoreinfo.paddr), attrs, note,
                              sizeof(note)) == MEMTX_OK &&
           !memcmp(note + NOTE_NAME_OFFSET, NOTE_NAME, sizeof(NOTE_NAME)) &&
           !memcmp(note + NOTE_OFFSET, NOTE_BEGIN, sizeof(NOTE_BEGIN) - 1);
}

static bool may_install(void)
{
    return !properties->guest_window &&
           (properties->root_entry || guest_is_linux());
}

/*
 * Page tables that may have our entry.  A guest can make up any, so it must not
 * be able to choose which fall together.
 */
static guint hash_root(gconstpointer key)
{
    return (*(const uint64_t *)key * session.hash_key) >> 32;
}

static GHashTable *new_roots(void)
{
    return g_hash_table_new_full(hash_root, g_int64_equal, g_free, NULL);
}

static void note_root(KVMBranchTrace *t, uint64_t cr3)
{
    uint64_t root = btrail_cr3_root(cr3);

    if (!properties->guest_window &&
        g_hash_table_size(t->roots) < MAX_ROOTS &&
        !g_hash_table_contains(t->roots, &root)) {
        g_hash_table_add(t->roots, g_memdup2(&root, sizeof(root)));
    }
}

/* RAM of the guest, or NULL.  The caller is in a critical section of RCU. */
static void *guest_ram(hwaddr addr, hwaddr size, bool is_write,
                       MemoryRegion **mr, hwaddr *offset)
{
    hwaddr len = size;

    *mr = address_space_translate(&address_space_memory, addr, offset, &len,
                                  is_write, MEMTXATTRS_UNSPECIFIED);
    if (len < size ||
        !memory_access_is_direct(*mr, is_write, MEMTXATTRS_UNSPECIFIED)) {
        return NULL;
    }
    return qemu_map_ram_ptr((*mr)->ram_block, *offset);
}

/* Removes our entry from page tables that have it. */
static void scrub_root(gpointer key, gpointer value, gpointer opaque)
{
    hwaddr addr = *(uint64_t *)key + session.root_index * sizeof(uint64_t);
    uint64_t *entry, old;
    MemoryRegion *mr;
    hwaddr offset;

    RCU_READ_LOCK_GUARD();
    entry = guest_ram(addr, sizeof(*entry), true, &mr, &offset);
    if (!entry) {
        return;
    }
    old = qatomic_read(entry);
    if (((old ^ root_entry(false)) & ~PG_ACCESSED_MASK &&
         (old ^ root_entry(true)) & ~PG_ACCESSED_MASK) ||
        qatomic_cmpxchg(entry, old, 0) != old) {
        return;
    }
    memory_region_set_dirty(mr, offset, sizeof(uint64_t));
}

static void scrub(GHashTable *roots)
{
    g_hash_table_foreach(roots, scrub_root, NULL);
    g_hash_table_remove_all(roots);
}

/* Code */

/* The physical address of a page, by the page tables as they are now */
static bool translate(KVMBranchTrace *t, uint64_t linear, hwaddr *physical)
{
    uint64_t entry = t->cr3;
    int shift;

    for (shift = t->five_levels ? 48 : 39; ; shift -= 9) {
        hwaddr addr = (entry & PG_ADDRESS_MASK) |
                      extract64(linear, shift, 9) * sizeof(entry);
        MemoryRegion *mr;
        hwaddr offset;
        uint64_t *p = guest_ram(addr, sizeof(entry), false, &mr, &offset);

        entry = p ? qatomic_read(p) : 0;
        if (!(entry & PG_PRESENT_MASK)) {
            return false;
        }
        if (shift == TARGET_PAGE_BITS ||
            (shift <= 30 && (entry & PG_PSE_MASK))) {
            *physical = (entry & PG_ADDRESS_MASK & -(1ULL << shift)) |
                        (linear & ((1ULL << shift) - 1));
            return true;
        }
    }
}

/*
 * Reports a page that was executed, if its content is not known.  It is what
 * the page has now.
 */
static void check_page(KVMBranchTrace *t, uint64_t linear)
{
    uint64_t root = linear >> 63 ? 0 : btrail_cr3_root(t->cr3);
    CheckedPage *c = &t->checked[(linear >> TARGET_PAGE_BITS) % CHECKED_PAGES];
    hwaddr physical, offset;
    MemoryRegion *mr;
    ram_addr_t ram;
    void *bytes;

    if (c->linear == linear && c->root == root && c->round == t->round) {
        return;
    }
    *c = (CheckedPage) { linear, root, t->round };

    RCU_READ_LOCK_GUARD();
    if (!translate(t, linear, &physical)) {
        return;
    }
    bytes = guest_ram(physical, TARGET_PAGE_SIZE, false, &mr, &offset);
    if (!bytes) {
        return;
    }
    ram = memory_region_get_ram_addr(mr) + offset;
    branch_trace_stream_code_translated(t->stream, ram, bytes, 0,
                                        TARGET_PAGE_SIZE);
    if (!branch_trace_stream_code_known(t->stream, linear, ram)) {
        branch_trace_stream_code_executed(t->stream, linear, physical, ram,
                                          bytes);
    }
}

/* Reports what was executed up to the branch at @from. */
static void check_code(KVMBranchTrace *t, uint64_t from)
{
    uint64_t end = from <= UINT64_MAX - MAX_INSN_END ? from + MAX_INSN_END
                                                     : from;
    uint64_t linear = t->last_to;

    if (linear > from || from - linear >= MAX_RUN) {
        linear = from;
    }
    linear &= TARGET_PAGE_MASK;
    check_page(t, linear);
    while (end - linear >= TARGET_PAGE_SIZE) {
        linear += TARGET_PAGE_SIZE;
        check_page(t, linear);
    }
}

/* From the buffer to the stream */

static DSArea *ds_area(KVMBranchTrace *t)
{
    return (DSArea *)t->window;
}

static uint64_t buffer_address(KVMBranchTrace *t)
{
    return t->linear + t->offset + DS_SIZE;
}

static uint32_t privilege_of(uint64_t linear)
{
    return linear >> 63 ? BTRAIL_PRIVILEGE_KERNEL : BTRAIL_PRIVILEGE_USER;
}

static void update_filter(KVMBranchTrace *t)
{
    const BranchTraceFilter *filter = branch_trace_stream_filter(t->stream);

    t->privilege = branch_trace_filter_has_cr3(filter, t->cr3)
                   ? filter->privilege : 0;
}

static void set_cr3(KVMBranchTrace *t, uint64_t cr3)
{
    note_root(t, cr3);
    if (cr3 != t->cr3) {
        t->cr3 = cr3;
        branch_trace_stream_cr3(t->stream, cr3);
        update_filter(t);
    }
}

static uint16_t gap_reason(uint32_t off_reason)
{
    static const uint16_t reasons[] = {
        [KVM_BTS_TRACE_OFF_MODE] = BTRAIL_GAP_MODE,
        [KVM_BTS_TRACE_OFF_SMM] = BTRAIL_GAP_SMM,
        [KVM_BTS_TRACE_OFF_NESTED] = BTRAIL_GAP_NESTED,
        [KVM_BTS_TRACE_OFF_GUEST] = BTRAIL_GAP_GUEST_BTS,
        [KVM_BTS_TRACE_OFF_ADDRESS_SPACE] = BTRAIL_GAP_ADDRESS_SPACE,
        [KVM_BTS_TRACE_OFF_UNMAPPED] = BTRAIL_GAP_UNMAPPED,
        [KVM_BTS_TRACE_OFF_EPT_FAULT] = BTRAIL_GAP_EPT_FAULT,
        [KVM_BTS_TRACE_OFF_OVERFLOW] = BTRAIL_GAP_BUFFER_FULL,
        [KVM_BTS_TRACE_OFF_MEMORY] = BTRAIL_GAP_UNMAPPED,
    };
    uint16_t reason = off_reason < ARRAY_SIZE(reasons) ? reasons[off_reason]
                                                       : 0;

    return reason ?: BTRAIL_GAP_SPOILT;
}

/* There are no records from here on, or some may be missing. */
static void off(KVMBranchTrace *t, uint32_t off_reason)
{
    t->last_to = 0;
    if (off_reason != t->off_reason) {
        t->off_reason = off_reason;
        branch_trace_stream_gap(t->stream, gap_reason(off_reason));
    }
}

static void add_marker(KVMBranchTrace *t, const struct btrail_record *r)
{
    switch (KVM_BTS_TRACE_MARKER_TYPE(r->from)) {
    case KVM_BTS_TRACE_MARKER_ON:
        t->off_reason = 0;
        /* fall through */
    case KVM_BTS_TRACE_MARKER_CR3:
        set_cr3(t, r->to);
        break;
    case KVM_BTS_TRACE_MARKER_OFF:
        off(t, KVM_BTS_TRACE_MARKER_REASON(r->from));
        if (t->off_reason == KVM_BTS_TRACE_OFF_EPT_FAULT) {
            /* The host has taken a page away; others may have gone, too. */
            qatomic_set(&t->unmapped, true);
        }
        break;
    default:
        branch_trace_stream_gap(t->stream, BTRAIL_GAP_SPOILT);
        break;
    }
}

static bool is_marker(const struct btrail_record *r)
{
    return (qatomic_read(&r->from) & KVM_BTS_TRACE_MARKER_MASK) ==
           KVM_BTS_TRACE_MARKER;
}

static void add(KVMBranchTrace *t, const struct btrail_record *shared)
{
    const struct btrail_record r = {
        .from = qatomic_read(&shared->from),
        .to = qatomic_read(&shared->to),
        .flags = qatomic_read(&shared->flags) & BTRAIL_RECORD_PREDICTED,
    };

    if (is_marker(&r)) {
        add_marker(t, &r);
        return;
    }
    if (t->privilege & (privilege_of(r.from) | privilege_of(r.to))) {
        if (t->privilege & privilege_of(r.from)) {
            check_code(t, r.from);
        }
        branch_trace_stream_record(t->stream, r.from, r.to, r.flags);
    }
    t->last_to = r.to;
}

/*
 * The records that are added next were made after @since.  The TSC of that
 * moment is not known, but that of a moment later is.
 */
static void set_time(KVMBranchTrace *t, uint64_t since)
{
    struct {
        struct kvm_msrs head;
        struct kvm_msr_entry tsc;
    } msrs = {
        .head.nmsrs = 1,
        .tsc.index = MSR_IA32_TSC,
    };
    unsigned tries = BRANCH_TRACE_CLOCKS_TRIES;
    int64_t before, now;

    t->host = since;
    do {
        before = get_clock();
        if (kvm_vcpu_ioctl(t->cpu, KVM_GET_MSRS, &msrs) != 1) {
            return;
        }
        now = get_clock();
    } while (now - before > BRANCH_TRACE_CLOCKS_NS && --tries);
    t->tsc = msrs.tsc.data - muldiv64(now - since, t->tsc_khz,
                                      NANOSECONDS_PER_SECOND / 1000);
}

/* How many records are in the buffer? */
static unsigned read_index(KVMBranchTrace *t)
{
    uint64_t bytes = qatomic_read(&ds_area(t)->index) - buffer_address(t);

    if (bytes > BUFFER_RECORDS * sizeof(struct btrail_record) ||
        bytes % sizeof(struct btrail_record)) {
        branch_trace_stream_gap(t->stream, BTRAIL_GAP_SPOILT);
        return 0;
    }
    return bytes / sizeof(struct btrail_record);
}

static void emptied(KVMBranchTrace *t)
{
    qatomic_set(&ds_area(t)->index, buffer_address(t));
    t->emptied = get_clock();
    t->round++;
    if (t->then_off) {
        off(t, t->then_off);
        t->then_off = 0;
    }
    /* While the vCPU waits there can be several, such as in a restore. */
    for (; t->then_broken; t->then_broken &= t->then_broken - 1) {
        t->last_to = 0;
        branch_trace_stream_discontinuity(t->stream, ctz32(t->then_broken));
    }
}

/*
 * Moves what is in the buffer to the stream.  If the vCPU has to wait, the rest
 * follows when it need not wait any more, unless @all is wanted.
 */
static void collect(KVMBranchTrace *t, bool all)
{
    const struct btrail_record *records = (void *)(t->window + DS_SIZE);

    if (t->next < t->end) {
        /* The vCPU has waited since. */
        set_time(t, get_clock());
    } else if (t->enabled) {
        t->next = 0;
        t->end = read_index(t);
        if (t->end) {
            set_time(t, MAX(t->emptied, qatomic_read(&t->seen_empty)));
        }
    }
    while (t->next < t->end && (all || !qatomic_read(&t->cpu->held))) {
        add(t, &records[t->next++]);
    }
    if (t->next == t->end) {
        emptied(t);
    } else {
        qatomic_set(&t->due, true);
    }
}

/* Telling KVM */

/*
 * A store to a page that KVM has not mapped yet is a VM exit, and the record may
 * be lost.  That is a gap, and there would be one for each page.
 */
static void pre_fault(KVMBranchTrace *t, uint64_t offset, uint64_t size)
{
    struct kvm_pre_fault_memory fault = {
        .gpa = session.gpa + offset,
        .size = size,
    };
    int ret;

    /* Whoever kicks the vCPU has it end early. */
    do {
        ret = kvm_vcpu_ioctl(t->cpu, KVM_PRE_FAULT_MEMORY, &fault);
    } while (ret ? ret == -EINTR : fault.size);
}

static void pre_fault_all(KVMBranchTrace *t)
{
    unsigned tables = TABLE_LEVEL2 + DIV_ROUND_UP(session.size, GiB);

    /*
     * Whoever changes the memory has the BQL until that is done.  KVM would
     * wait for the end of a pre-fault, and the pre-fault for KVM.
     */
    BQL_LOCK_GUARD();
    pre_fault(t, 0, tables * TARGET_PAGE_SIZE);
    pre_fault(t, t->offset, WINDOW_USED);
}

/*
 * KVM forgets all that it has mapped when any memory of the guest goes, and it
 * is about to do that.  So each vCPU has to stop before it does, and to
 * continue after it has.
 */
static void memory_changes(MemoryListener *listener)
{
    unsigned i;

    for (i = 0; i < current_machine->smp.max_cpus; i++) {
        KVMBranchTrace *t = &session.vcpus[i];

        qatomic_xchg(&t->unmapped, true);
        if (qatomic_read(&t->enabled)) {
            qemu_cpu_kick(t->cpu);
        }
    }
}

static MemoryListener memory_listener = {
    .name = "branch-trace",
    .priority = MEMORY_LISTENER_PRIORITY_MIN,
    .commit = memory_changes,
};

static int set_config(KVMBranchTrace *t, const struct kvm_bts_trace *config)
{
    struct kvm_device_attr attr = {
        .group = KVM_VCPU_BTS_TRACE,
        .attr = KVM_VCPU_BTS_TRACE_CONFIG,
        .addr = (uintptr_t)config,
    };

    return kvm_vcpu_ioctl(t->cpu, KVM_SET_DEVICE_ATTR, &attr);
}

/* What is in the buffer has been collected. */
static void disable(KVMBranchTrace *t)
{
    const struct kvm_bts_trace config = { 0 };

    if (t->enabled) {
        set_config(t, &config);
        qatomic_set(&t->enabled, false);
    }
}

static void enable(KVMBranchTrace *t)
{
    uint64_t linear = t->linear + t->offset;
    struct kvm_bts_trace config = {
        .flags = KVM_BTS_TRACE_ENABLE,
        .root_index = extract64(linear, root_shift(t->five_levels), 9),
        .root_entry = t->install ? root_entry(t->five_levels) : 0,
        .ds_area = linear,
        .gpa = session.gpa + t->offset,
        .size = WINDOW_USED,
    };
    uint64_t base = buffer_address(t);
    DSArea *ds = ds_area(t);

    write_tables();
    qatomic_set(&ds->base, base);
    qatomic_set(&ds->index, base);
    qatomic_set(&ds->maximum,
                base + BUFFER_RECORDS * sizeof(struct btrail_record));
    qatomic_set(&ds->threshold,
                base + THRESHOLD_RECORDS * sizeof(struct btrail_record));
    qatomic_set(&t->enabled, !set_config(t, &config));
    if (t->enabled) {
        pre_fault_all(t);
    } else {
        off(t, KVM_BTS_TRACE_OFF_MEMORY);
    }
}

static bool has_five_levels(KVMBranchTrace *t)
{
    struct kvm_sregs sregs;

    return !kvm_vcpu_ioctl(t->cpu, KVM_GET_SREGS, &sregs) &&
           (sregs.cr4 & CR4_LA57_MASK);
}

/*
 * Has KVM do what the capture needs and the guest permits.  What is in the
 * buffer has been collected.
 */
static void update(KVMBranchTrace *t)
{
    bool wanted = branch_trace_stream_filter(t->stream)->privilege;
    bool five_levels = t->five_levels;
    bool install = may_install();
    uint64_t linear;

    if (wanted &&
        (!t->enabled || t->off_reason == KVM_BTS_TRACE_OFF_MODE)) {
        five_levels = has_five_levels(t);
    }
    linear = linear_address(five_levels);
    if (wanted == t->enabled && install == t->install &&
        five_levels == t->five_levels && linear == t->linear &&
        !t->withdrawn) {
        return;
    }
    disable(t);
    t->install = install;
    t->five_levels = five_levels;
    t->linear = linear;
    t->withdrawn = false;
    if (wanted && linear) {
        enable(t);
    } else if (wanted) {
        off(t, KVM_BTS_TRACE_OFF_ADDRESS_SPACE);
    }
}

void kvm_branch_trace_do_pre_run(KVMBranchTrace *t)
{
    if (!t->stream) {
        return;
    }
    if (qatomic_xchg(&t->due, false)) {
        collect(t, false);
        if (t->next == t->end) {
            update(t);
        }
    }
    if (qatomic_xchg(&t->unmapped, false)) {
        pre_fault_all(t);
    }
}

void kvm_branch_trace_exit(X86CPU *cpu, const struct kvm_run *run)
{
    const struct kvm_run_bts_trace *exit = (const void *)run->padding;
    KVMBranchTrace *t = cpu->kvm_branch_trace;

    if (!t || !t->stream) {
        return;
    }
    if (exit->reason == KVM_BTS_TRACE_EXIT_OFF) {
        /* The next tick makes it continue, so that the guest does, too. */
        t->then_off = exit->off_reason;
        collect(t, false);
        qatomic_set(&t->enabled, false);
    } else {
        qatomic_set(&t->due, true);
    }
}

static void discontinuity(KVMBranchTrace *t, uint16_t reason)
{
    t->then_broken |= BIT(reason);
    collect(t, false);
}

void kvm_branch_trace_reset(X86CPU *cpu)
{
    KVMBranchTrace *t = cpu->kvm_branch_trace;

    if (t && t->stream) {
        discontinuity(t, BTRAIL_GAP_RESET);
        qatomic_set(&t->due, true);
    }
}

void kvm_branch_trace_destroy(X86CPU *cpu)
{
    KVMBranchTrace *t = cpu->kvm_branch_trace;

    if (t && t->stream) {
        collect(t, true);
        /* The tick does not kick it any more: its thread is about to end. */
        QEMU_LOCK_GUARD(&session.kick_lock);
        disable(t);
        qatomic_set(&t->due, true);
    }
}

/* A window that the guest maps itself */

static bool window_place(hwaddr *gpa, uint64_t *size)
{
    if (!make_region(NULL) || !find_place()) {
        return false;
    }
    *gpa = session.gpa + WINDOW_SIZE;
    *size = session.size - WINDOW_SIZE;
    return true;
}

/*
 * Has KVM stop.  No vCPU executes meanwhile, and before it does, each looks
 * where the window is now.
 */
static void withdraw(CPUState *cpu, run_on_cpu_data data)
{
    const struct kvm_bts_trace config = { 0 };
    unsigned i;

    QEMU_LOCK_GUARD(&session.kick_lock);
    for (i = 0; i < current_machine->smp.max_cpus; i++) {
        if (qatomic_read(&session.vcpus[i].enabled)) {
            set_config(&session.vcpus[i], &config);
            session.vcpus[i].withdrawn = true;
        }
    }
}

static void window_moved(void)
{
    unsigned i;

    for (i = 0; session.vcpus && i < current_machine->smp.max_cpus; i++) {
        qatomic_xchg(&session.vcpus[i].due, true);
    }
    /* Without a capture no vCPU is traced; if none has said it, none runs. */
    if (session.roots && current_cpu) {
        async_safe_run_on_cpu(current_cpu, withdraw, RUN_ON_CPU_NULL);
    }
}

static const KVMGuestWindowOps guest_window = {
    .place = window_place,
    .moved = window_moved,
};

/* The device's interface */

static bool producer_realize(const BranchTraceKvmProperties *kvm,
                             Error **errp)
{
    properties = kvm;
    return !properties->guest_window ||
           kvm_guest_window_offer(&guest_window, errp);
}

static bool parameter_is(const char *name, char value)
{
    g_autofree char *path =
        g_strdup_printf("/sys/module/kvm_intel/parameters/%s", name);
    g_autofree char *contents = NULL;

    return g_file_get_contents(path, &contents, NULL, NULL) &&
           *contents == value;
}

/* Why does KVM not have it? */
static void explain(Error **errp)
{
    if (access("/sys/module/kvm_intel", F_OK)) {
        error_setg(errp, "KVM traces branches only on a CPU of Intel with "
                   "VT-x: use '-accel tcg'");
    } else if (access("/sys/module/kvm_intel/parameters/bts_trace", F_OK)) {
        error_setg(errp, "the KVM of this host's kernel cannot trace "
                   "branches: use one that can, or '-accel tcg'");
    } else if (parameter_is("ept", 'N') ||
               parameter_is("unrestricted_guest", 'N')) {
        error_setg(errp, "KVM traces branches only with EPT and unrestricted "
                   "guests: see the parameters of the module kvm_intel");
    } else {
        error_setg(errp, "KVM does not trace branches on this host: either it "
                   "is not permitted to, which the parameter bts_trace=1 of "
                   "the module kvm_intel changes, or this CPU has no Branch "
                   "Trace Store that KVM can use");
    }
}

static bool producer_supported(Error **errp)
{
    CPUX86State *env = cpu_env(first_cpu);

    if (kvm_vm_check_extension(kvm_state, KVM_CAP_X86_BTS_TRACE) <= 0) {
        explain(errp);
        return false;
    }
    if (!(env->features[FEAT_8000_0001_EDX] & CPUID_EXT2_LM)) {
        error_setg(errp, "KVM traces branches only of 64-bit guests, and this "
                   "guest's CPU is not one: use '-accel tcg'");
        return false;
    }
    if (!properties->guest_window && !properties->root_entry &&
        !vmcoreinfo_find()) {
        error_setg(errp, "KVM needs an entry of the guest's top-level page "
                   "tables, and QEMU knows of Linux alone which one is free: "
                   "start QEMU with '-device vmcoreinfo', so that Linux says "
                   "that it runs, or say which entry is free by '-device "
                   "branch-trace,kvm-root-entry=N'");
        return false;
    }
    return true;
}

static bool producer_start(Error **errp)
{
    if (!make_region(errp)) {
        return false;
    }
    if (!find_place()) {
        error_setg(errp, "there is no room among the guest's physical "
                   "addresses for the buffers of a branch trace");
        return false;
    }
    session.root_index = properties->root_entry
                         ?: LINUX_FREE_ENTRY +
                            g_random_int_range(0, LINUX_FREE_ENTRIES);
    session.vmcoreinfo = vmcoreinfo_find();
    qemu_guest_getrandom_nofail(&session.hash_key, sizeof(session.hash_key));
    session.hash_key |= 1;
    session.roots = new_roots();
    memset(session.memory, 0, WINDOW_SIZE);
    write_tables();
    memory_region_add_subregion_overlap(get_system_memory(), session.gpa,
                                        &session.region, -1);
    memory_listener_register(&memory_listener, &address_space_memory);
    return true;
}

static void producer_stop(void)
{
    memory_listener_unregister(&memory_listener);
    scrub(session.roots);
    g_hash_table_destroy(session.roots);
    session.roots = NULL;
    memory_region_del_subregion(get_system_memory(), &session.region);
    qemu_madvise(session.memory, session.size, QEMU_MADV_DONTNEED);
}

static BranchTraceCursor *producer_cursor(CPUState *cpu)
{
    KVMBranchTrace *t = &session.vcpus[cpu->cpu_index];

    qatomic_set(&X86_CPU(cpu)->kvm_branch_trace, t);
    return &t->cursor;
}

static void attach(KVMBranchTrace *t, CPUState *cpu, BranchTraceStream *stream)
{
    t->stream = stream;
    t->cpu = cpu;
    t->next = t->end = 0;
    t->then_off = 0;
    t->then_broken = 0;
    t->cr3 = -1;
    t->off_reason = 0;
    t->tsc_khz = MAX(kvm_vcpu_ioctl(cpu, KVM_GET_TSC_KHZ), 0);
    t->emptied = get_clock();
    t->last_to = 0;
    t->round++;
    t->enabled = false;
    t->install = false;
    t->five_levels = false;
    t->linear = 0;
    t->withdrawn = false;
    t->roots = new_roots();
    update_filter(t);
    memset(t->window, 0, WINDOW_USED);
    update(t);
}

static void keep_root(gpointer key, gpointer value, gpointer opaque)
{
    g_hash_table_add(session.roots, g_memdup2(key, sizeof(uint64_t)));
}

static void detach(KVMBranchTrace *t)
{
    collect(t, true);
    disable(t);
    t->stream = NULL;
    g_hash_table_foreach(t->roots, keep_root, NULL);
    g_hash_table_destroy(t->roots);
    t->roots = NULL;
}

static void producer_attach(CPUState *cpu, BranchTraceStream *stream)
{
    KVMBranchTrace *t = get_vcpu(cpu);

    if (stream) {
        attach(t, cpu, stream);
    } else if (t->stream) {
        detach(t);
    }
}

static void producer_filter(CPUState *cpu)
{
    KVMBranchTrace *t = get_vcpu(cpu);

    update_filter(t);
    if (t->next == t->end) {
        update(t);
    }
}

static void producer_sync(CPUState *cpu)
{
    KVMBranchTrace *t = get_vcpu(cpu);

    if (t->stream) {
        collect(t, false);
    }
}

/* Is the vCPU traced, and has it not made a record yet? */
static bool is_idle(KVMBranchTrace *t)
{
    DSArea *ds = ds_area(t);

    return qatomic_read(&t->enabled) && !qatomic_read(&t->off_reason) &&
           qatomic_read(&ds->index) == qatomic_read(&ds->base);
}

/* A vCPU that sleeps, in KVM, continues to sleep. */
static void producer_tick(CPUState *cpu)
{
    KVMBranchTrace *t = get_vcpu(cpu);
    uint64_t now = get_clock();

    if (is_idle(t)) {
        qatomic_set(&t->seen_empty, now);
        return;
    }
    QEMU_LOCK_GUARD(&session.kick_lock);
    if (!qatomic_xchg(&t->due, true)) {
        qemu_cpu_kick(cpu);
    }
}

/*
 * Snapshots and migrations take the guest's memory while the guest is stopped,
 * and where they restore it nothing of this is there.
 */
static void producer_stopped(void)
{
    unsigned i, n;

    for (i = 0; i < current_machine->smp.max_cpus; i++) {
        KVMBranchTrace *t = &session.vcpus[i];
        const struct btrail_record *records = (void *)(t->window + DS_SIZE);

        if (t->stream) {
            disable(t);
            for (n = t->next; n < t->end; n++) {
                if (is_marker(&records[n])) {
                    note_root(t, qatomic_read(&records[n].to));
                }
            }
            scrub(t->roots);
            /* When it continues, it is traced again. */
            qatomic_set(&t->due, true);
        }
    }
    scrub(session.roots);
}

static uint64_t producer_cr3(CPUState *cpu)
{
    cpu_synchronize_state(cpu);
    return x86_branch_trace_cr3(cpu_env(cpu));
}

static void producer_clocks(CPUState *cpu, uint64_t *host, uint64_t *tsc,
                            uint64_t *icount)
{
    KVMBranchTrace *t = get_vcpu(cpu);

    *host = t->host;
    *tsc = t->tsc;
    *icount = BTRAIL_NO_ICOUNT;
}

static void producer_discontinuity(CPUState *cpu, uint16_t reason)
{
    discontinuity(get_vcpu(cpu), reason);
}

/* Each page is compared with what is known of it before the next records. */
static void producer_code_stale(CPUState *cpu)
{
}

static void producer_code_forget(CPUState *cpu)
{
    get_vcpu(cpu)->round++;
}

static uint64_t producer_tsc_hz(CPUState *cpu)
{
    /* To ask KVM would be to wait until the vCPU leaves KVM_RUN. */
    return X86_CPU(cpu)->env.tsc_khz * 1000ULL;
}

static uint32_t producer_record_has(void)
{
    return 0;
}

static const BranchTraceProducerOps kvm_producer = {
    .type = BTRAIL_PRODUCER_KVM,
    .realize = producer_realize,
    .supported = producer_supported,
    .start = producer_start,
    .stop = producer_stop,
    .cursor = producer_cursor,
    .attach = producer_attach,
    .filter = producer_filter,
    .sync = producer_sync,
    .tick = producer_tick,
    .stopped = producer_stopped,
    .cr3 = producer_cr3,
    .clocks = producer_clocks,
    .discontinuity = producer_discontinuity,
    .code_stale = producer_code_stale,
    .code_forget = producer_code_forget,
    .tsc_hz = producer_tsc_hz,
    .record_has = producer_record_has,
};

void kvm_branch_trace_init(void)
{
    branch_trace_set_producer(&kvm_producer);
}
