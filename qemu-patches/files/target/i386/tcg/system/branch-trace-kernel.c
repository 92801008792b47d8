/*
 * x86 branch trace: which kernel of the guest runs
 *
 * The agent describes a kernel by a mark: bytes that all its page tables map at
 * one address.  While page tables in force map other memory there, or none, it
 * is not this kernel that runs: another one was started without a reset (kexec,
 * kdump), or firmware runs.  Nor is it while a nested guest runs: that has other
 * marks, which are at addresses of its own memory.
 *
 * All page tables of a Linux kernel share the table to which their top-level
 * entry for the kernel's image leads, so that one entry is compared each time
 * that CR3 is loaded.  Only if it is another one, the mark is looked for.  In a
 * nested guest it always is: VMRUN reads more than that, and the nested page
 * tables can have changed.
 *
 * What is read belongs to the guest: nothing here can fault, and nothing that
 * the guest could notice changes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/address-spaces.h"
#include "exec/memory.h"
#include "hw/misc/branch-trace.h"
#include "tcg/helper-tcg.h"
#include "tcg/branch-trace.h"

/* With page table isolation, page tables of user mode are in the next page. */
#define USER_HALF   0x1000

/* In @checked: no state of the CPU has it */
#define UNCHECKED   UINT32_MAX

/* How RAM is found: by find_own() or x86_branch_trace_find_ram() */
typedef const void *FindRam(CPUX86State *env, hwaddr addr, unsigned size);

/*
 * The highest index of an address, into the table @table, is at bit @shift.
 * Only what is present counts; so do bits that are reserved, which no address
 * of RAM has.
 */
static bool walk(CPUX86State *env, FindRam *find, hwaddr table, int shift,
                 uint64_t addr, hwaddr *physical)
{
    uint64_t entry, mask;

    RCU_READ_LOCK_GUARD();
    for (;; shift -= 9) {
        const void *ram;

        table &= PG_ADDRESS_MASK & TARGET_PAGE_MASK;
        ram = find(env, table + (addr >> shift & 511) * sizeof(entry),
                   sizeof(entry));
        if (!ram) {
            return false;
        }
        entry = ldq_le_p(ram);
        if (!(entry & PG_PRESENT_MASK)) {
            return false;
        }
        if (shift == TARGET_PAGE_BITS ||
            (shift <= 30 && (entry & PG_PSE_MASK))) {
            break;
        }
        table = entry;
    }
    mask = (UINT64_C(1) << shift) - 1;
    *physical = (entry & PG_ADDRESS_MASK & ~mask) | (addr & mask);
    return true;
}

/*
 * How often the guest's memory was laid out anew, times two; odd: that is being
 * done.  From bit 32 on, how often what was found of the kernel was forgotten.
 */
uint64_t x86_branch_trace_layouts;

static void count_layout(MemoryListener *listener)
{
    qatomic_inc(&x86_branch_trace_layouts);
}

/* It begins before the RAM that is to go loses any reference. */
static MemoryListener layout_listener = {
    .name = "branch-trace",
    .begin = count_layout,
    .commit = count_layout,
};

void x86_branch_trace_watch_layout(void)
{
    static bool watched;

    if (!watched) {
        memory_listener_register(&layout_listener, &address_space_memory);
        watched = true;
    }
}

/*
 * Where RAM is that was read last, from an address on: nearly all that is read
 * is in one region, and to look for that takes longer than to read it.
 */
typedef struct RamWindow {
    AddressSpace *as;           /* NULL: it has not been looked for */
    uint64_t layout;
    hwaddr addr;
    hwaddr size;
    const char *ram;
} RamWindow;

static __thread RamWindow window;

static bool in_window(AddressSpace *as, hwaddr addr, unsigned size)
{
    return window.as == as &&
           window.layout == qatomic_read(&x86_branch_trace_layouts) &&
           addr >= window.addr && addr - window.addr < window.size &&
           window.size - (addr - window.addr) >= size;
}

/* Only RAM: any other read could change what is read. */
static const void *find_own(CPUX86State *env, hwaddr addr, unsigned size)
{
    AddressSpace *as = env_cpu(env)->as;
    uint64_t layout = x86_branch_trace_layout();
    hwaddr len = HWADDR_MAX, offset;
    MemoryRegion *mr;
    const char *ram;

    addr &= x86_get_a20_mask(env);
    if (likely(in_window(as, addr, size))) {
        return window.ram + (addr - window.addr);
    }
    mr = address_space_translate(as, addr, &offset, &len, false,
                                 MEMTXATTRS_UNSPECIFIED);
    if (!memory_region_is_ram(mr) || memory_region_is_ram_device(mr) ||
        len < size) {
        return NULL;
    }
    ram = memory_region_get_ram_ptr(mr) + offset;
    if (layout) {
        window = (RamWindow) { as, layout, addr, len, ram };
    }
    return ram;
}

static bool read_own(CPUX86State *env, hwaddr addr, void *buf, unsigned size)
{
    const void *ram;

    RCU_READ_LOCK_GUARD();
    ram = find_own(env, addr, size);
    if (!ram) {
        return false;
    }
    memcpy(buf, ram, size);
    return true;
}

/* A nested guest has memory for which the hypervisor has page tables. */
static bool has_nested_memory(const CPUX86State *env)
{
    return (env->hflags & HF_GUEST_MASK) && (env->hflags2 & HF2_NPT_MASK);
}

static bool translate_nested(CPUX86State *env, hwaddr addr, hwaddr *own)
{
    int shift = env->nested_pg_mode & PG_MODE_LA57 ? 48 : 39;

    return (env->nested_pg_mode & PG_MODE_LMA) && !(addr >> (shift + 9)) &&
           walk(env, find_own, env->nested_cr3, shift, addr, own);
}

const void *x86_branch_trace_find_ram(CPUX86State *env, hwaddr addr,
                                      unsigned size)
{
    return has_nested_memory(env) && !translate_nested(env, addr, &addr) ?
           NULL : find_own(env, addr, size);
}

bool x86_branch_trace_read_ram(CPUX86State *env, hwaddr addr, void *buf,
                               unsigned size)
{
    char *p = buf;

    if (!has_nested_memory(env)) {
        return read_own(env, addr, buf, size);
    }
    while (size) {
        unsigned n = MIN(size, -(addr | TARGET_PAGE_MASK));
        hwaddr own;

        if (!translate_nested(env, addr, &own) || !read_own(env, own, p, n)) {
            return false;
        }
        addr += n;
        p += n;
        size -= n;
    }
    return true;
}

/*
 * The guest must not notice: the CPU's own translation would set accessed bits
 * in its page tables, and change which of them are in the TLB.
 */
bool x86_branch_trace_translate(CPUX86State *env, uint64_t cr3, vaddr addr,
                                hwaddr *physical)
{
    int shift = env->cr[4] & CR4_LA57_MASK ? 48 : 39;
    int64_t upper = (int64_t)addr >> (shift + 8);

    return (env->cr[0] & CR0_PG_MASK) && (!upper || upper == -1) &&
           walk(env, x86_branch_trace_find_ram, cr3, shift, addr, physical);
}

static uint64_t root_of(uint64_t cr3)
{
    return cr3 & PG_ADDRESS_MASK & TARGET_PAGE_MASK;
}

/* The top-level entry for the mark, without what the CPU sets in it */
static uint64_t top_entry(CPUX86State *env, const struct btrail_tasks *tasks,
                          uint64_t root)
{
    int shift = env->cr[4] & CR4_LA57_MASK ? 48 : 39;
    uint64_t entry;

    if (!x86_branch_trace_read_ram(env, root + (tasks->mark >> shift & 511) *
                                   sizeof(entry), &entry, sizeof(entry))) {
        return 0;
    }
    entry = le64_to_cpu(entry);
    return entry & PG_PRESENT_MASK ? entry & ~PG_ACCESSED_MASK : 0;
}

static bool has_mark(CPUX86State *env, const struct btrail_tasks *tasks,
                     uint64_t root)
{
    uint8_t bytes[BTRAIL_TASKS_MARK];
    hwaddr physical;

    return x86_branch_trace_translate(env, root, tasks->mark, &physical) &&
           physical == tasks->mark_physical &&
           x86_branch_trace_read_ram(env, physical, bytes, sizeof(bytes)) &&
           !memcmp(bytes, tasks->mark_bytes, sizeof(bytes));
}

static bool maps_kernel(CPUX86State *env, const struct btrail_tasks *tasks,
                        uint64_t root)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint64_t entry;

    if (env->hflags & HF_GUEST_MASK) {
        return has_mark(env, tasks, root);
    }
    entry = top_entry(env, tasks, root);
    if (!entry) {
        return false;
    }
    if (entry != bt->mark_entry) {
        if (!has_mark(env, tasks, root)) {
            return false;
        }
        bt->mark_entry = entry;
    }
    return true;
}

/* Do both map what is executed to the same memory, as entry code is? */
static bool are_halves(CPUX86State *env, uint64_t kernel, uint64_t user)
{
    hwaddr a, b;

    return x86_branch_trace_translate(env, kernel, env->eip, &a) &&
           x86_branch_trace_translate(env, user, env->eip, &b) && a == b;
}

static bool is_in_force(CPUX86State *env, const struct btrail_tasks *tasks)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint64_t root = root_of(env->cr[3]);

    if (!(env->hflags & HF_LMA_MASK) || (env->hflags & HF_SMM_MASK)) {
        return false;
    }
    if (bt->kernel == tasks && root == (bt->kernel_root | USER_HALF)) {
        /* The kernel has left for user mode. */
        return true;
    }
    if ((root & USER_HALF) && !maps_kernel(env, tasks, root) &&
        are_halves(env, root ^ USER_HALF, root)) {
        root ^= USER_HALF;
    }
    bt->kernel_root = root;
    return maps_kernel(env, tasks, root);
}

/* What decides beside CR3 */
static uint32_t state_of(const CPUX86State *env)
{
    return (env->hflags & (HF_LMA_MASK | HF_GUEST_MASK | HF_SMM_MASK)) |
           !!(env->cr[4] & CR4_LA57_MASK);
}

/* Without nested paging, CR3 leads to tables that the hypervisor has made. */
static const struct btrail_tasks *
nested_kernel(CPUX86State *env, const BranchTraceKernels *kernels)
{
    for (unsigned i = 1; kernels && (env->hflags2 & HF2_NPT_MASK) &&
         i < kernels->n; i++) {
        if (is_in_force(env, &kernels->of[i])) {
            return &kernels->of[i];
        }
    }
    return NULL;
}

static void update_nested_kernel(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    const struct btrail_tasks *was = bt->kernel;
    bool entered = !bt->kernel_nested;

    if (entered) {
        bt->kernel_waits |= was && !bt->task_unread;
        bt->kernel = NULL;
        bt->kernel_nested = true;
    }
    bt->kernel = nested_kernel(env, branch_trace_stream_tasks(bt->stream));
    branch_trace_stream_kernel(bt->stream, BTRAIL_KERNEL_NESTED,
                               bt->kernel ? bt->kernel->number : 0,
                               env->hflags2 & HF2_NPT_MASK ?
                               env->nested_cr3 : 0);
    if (entered || bt->kernel != was) {
        bt->task = 0;
        bt->task_unread = bt->kernel && bt->tasks &&
                          !x86_branch_trace_return_to_nested_task(env);
    }
}

static void update_kernel(CPUX86State *env, uint32_t state)
{
    X86BranchTrace *bt = &env->branch_trace;
    const BranchTraceKernels *kernels = branch_trace_stream_tasks(bt->stream);
    const struct btrail_tasks *tasks =
        kernels && kernels->of[0].switch_to ? &kernels->of[0] : NULL;
    bool was;

    bt->kernel_cr3 = env->cr[3];
    bt->kernel_state = state;
    if (state & HF_GUEST_MASK) {
        update_nested_kernel(env);
        return;
    }
    if (bt->kernel_nested) {
        bt->kernel_nested = false;
        bt->kernel = NULL;
        bt->task_unread = false;
    }
    was = bt->kernel;
    if (!tasks || !tasks->number) {
        bt->kernel = tasks;
        if (branch_trace_stream_knows_kernel(bt->stream)) {
            branch_trace_stream_kernel(bt->stream, tasks || !bt->described ?
                                       BTRAIL_KERNEL_UNKNOWN : 0, 0, 0);
        }
    } else {
        bt->described = true;
        bt->kernel = is_in_force(env, tasks) ? tasks : NULL;
        branch_trace_stream_kernel(bt->stream, 0,
                                   bt->kernel ? tasks->number : 0, 0);
    }
    if (!bt->kernel) {
        bt->kernel_waits = (state & HF_SMM_MASK) &&
                           (bt->kernel_waits || (was && !bt->task_unread));
        bt->task_unread = false;
    } else if (!was && bt->kernel_waits) {
        /* What it did when a nested guest or an SMI interrupted it */
        branch_trace_stream_return_to_task(bt->stream);
        bt->kernel_waits = false;
    } else if (!was) {
        bt->task_unread = bt->tasks;
    }
}

void x86_branch_trace_update_kernel(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint32_t state = state_of(env);

    if (unlikely(bt->kernel_cr3 != env->cr[3] || bt->kernel_state != state)) {
        update_kernel(env, state);
    }
}

void x86_branch_trace_check_kernel(CPUX86State *env)
{
    if (unlikely(!env->branch_trace.kernel)) {
        update_kernel(env, state_of(env));
    }
}

void x86_branch_trace_forget_kernel(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;

    qatomic_add(&x86_branch_trace_layouts, UINT64_C(1) << 32);
    bt->kernel_state = UNCHECKED;
    bt->kernel = NULL;
    bt->kernel_nested = false;
    bt->kernel_waits = false;
    bt->kernel_root = 0;
    bt->mark_entry = 0;
    bt->task = 0;
    bt->nested.kernel = NULL;
}
