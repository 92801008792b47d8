/*
 * Branch trace: the last branches of each vCPU, for a debugger
 *
 * A capture of its own, without an agent: slabs are overwritten, and read where
 * they are while the guest is stopped.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "exec/memory.h"
#include "hw/boards.h"
#include "qapi/error.h"
#include "qemu/units.h"
#include "system/runstate.h"
#include "background.h"
#include "blocks.h"
#include "blocks-document.h"
#include "live.h"
#include "stream.h"

#define CAPTURE_NAME    "gdb"

/* More than one slab of records is not useful for less. */
#define MIN_SIZE        (64 * KiB)

/* How far a vCPU was, when the debugger has read its branches */
typedef struct LivePlace {
    uint64_t index;             /* of its next record */
    uint64_t pc;
    uint64_t cr3;
} LivePlace;

typedef struct LiveVcpu {
    bool enabled;
    uint64_t first;             /* index of the first record since then */
    LivePlace taken;            /* the debugger has all up to this one, */
    LivePlace offered;          /* and this is what it has been given since */
} LiveVcpu;

struct BranchTraceLive {
    BranchTraceDevice *device;
    uint64_t records;           /* that are kept of each vCPU */
    LiveVcpu *vcpus;            /* NULL until one was enabled */
};

BranchTraceLive *branch_trace_live_new(BranchTraceDevice *d)
{
    BranchTraceLive *live = g_new0(BranchTraceLive, 1);

    live->device = d;
    return live;
}

static BranchTraceCapture *live_capture(const BranchTraceLive *live)
{
    BranchTraceCapture *capture =
        branch_trace_capture_active(&live->device->captures);

    return capture && branch_trace_capture_is_local(capture) ? capture : NULL;
}

static LiveVcpu *live_vcpu(const BranchTraceLive *live, CPUState *cpu)
{
    return live->vcpus ? &live->vcpus[cpu->cpu_index] : NULL;
}

static bool is_enabled(const BranchTraceLive *live, CPUState *cpu)
{
    return live->vcpus && live_vcpu(live, cpu)->enabled;
}

static void forget_vcpus(BranchTraceLive *live)
{
    g_clear_pointer(&live->vcpus, g_free);
}

static LivePlace live_place(BranchTraceStream *s, CPUState *cpu)
{
    return (LivePlace) {
        .index = branch_trace_stream_index(s),
        .pc = cpu->cc->get_pc(cpu),
        .cr3 = btrail_cr3_root(branch_trace_stream_get_cr3(s)),
    };
}

/* The vCPUs that are enabled, and no others */
static BranchTraceSelection *select_enabled(const BranchTraceLive *live,
                                            Error **errp)
{
    uint16List *vcpus = NULL;
    BranchTraceSelection *selection;
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (is_enabled(live, cpu)) {
            QAPI_LIST_PREPEND(vcpus, cpu->cpu_index);
        }
    }
    selection = branch_trace_selection_new(true, vcpus, false, 0, false, NULL,
                                           errp);
    qapi_free_uint16List(vcpus);
    return selection;
}

/*
 * A part of each slab is for events, and what the slab in progress is to have
 * must have been taken away from the oldest one.  There are at least eight.
 */
static uint64_t buffer_size(uint64_t size)
{
    return size + size / 8 + MIN(size / 4, 512 * KiB);
}

static bool live_start(BranchTraceLive *live, uint64_t size, Error **errp)
{
    BranchTraceDevice *d = branch_trace_device_get_idle(errp);
    BranchTraceCaptureOptions options = {
        .name = CAPTURE_NAME,
        .overflow = BRANCH_TRACE_OVERFLOW_OVERWRITE,
        .local = true,
    };
    BranchTraceSelection *selection;
    BranchTraceCapture *capture;

    if (!d) {
        return false;
    }
    size = MIN(MAX(size, MIN_SIZE), d->max_buffer_size / 3 * 2);
    options.buffer_size = MAX(buffer_size(size), BRANCH_TRACE_MIN_BUFFER_SIZE);
    if (!branch_trace_device_can_capture(d, options.name, options.buffer_size,
                                         errp) ||
        !branch_trace_background_has_room(errp)) {
        return false;
    }
    selection = select_enabled(live, errp);
    if (!selection) {
        return false;
    }
    capture = branch_trace_capture_new(&d->captures, &options, selection,
                                       d->control, errp);
    if (!capture) {
        return false;
    }
    if (!branch_trace_capture_start(capture, errp)) {
        branch_trace_capture_free(capture);
        return false;
    }
    live->records = size / sizeof(struct btrail_record);
    return true;
}

static bool live_change(const BranchTraceLive *live,
                        BranchTraceCapture *capture, Error **errp)
{
    BranchTraceSelection *selection;

    if (!branch_trace_device_get_idle(errp)) {
        return false;
    }
    selection = select_enabled(live, errp);
    return selection &&
           branch_trace_capture_change(capture, selection,
                                       BRANCH_TRACE_OVERFLOW_OVERWRITE, errp);
}

static bool is_stopped(Error **errp)
{
    if (runstate_is_running()) {
        error_setg(errp, "the guest runs");
        return false;
    }
    return true;
}

bool branch_trace_live_enable(BranchTraceLive *live, CPUState *cpu,
                              uint64_t size, Error **errp)
{
    BranchTraceCapture *capture = live_capture(live);
    BranchTraceStream *s;
    LiveVcpu *vcpu;

    if (!is_stopped(errp)) {
        return false;
    }
    if (!capture) {
        /* Somebody else may have stopped the last one. */
        forget_vcpus(live);
        live->vcpus = g_new0(LiveVcpu, current_machine->smp.max_cpus);
    }
    vcpu = live_vcpu(live, cpu);
    if (vcpu->enabled) {
        error_setg(errp, "this vCPU is traced already");
        return false;
    }
    vcpu->enabled = true;
    if (!(capture ? live_change(live, capture, errp)
                  : live_start(live, size, errp))) {
        vcpu->enabled = false;
        return false;
    }
    s = branch_trace_streams_find(live->device->captures.streams, cpu);
    if (!s || !branch_trace_stream_cpu(s)) {
        error_setg(errp, "this vCPU, or the capture, has ended meanwhile");
        vcpu->enabled = false;
        return false;
    }
    vcpu->taken = live_place(s, cpu);
    vcpu->first = vcpu->taken.index;
    return true;
}

static bool any_enabled(const BranchTraceLive *live)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (is_enabled(live, cpu)) {
            return true;
        }
    }
    return false;
}

void branch_trace_live_end(BranchTraceLive *live)
{
    BranchTraceCaptures *captures = &live->device->captures;
    BranchTraceCapture *capture = live_capture(live);

    if (capture) {
        branch_trace_capture_end(capture, BRANCH_TRACE_REASON_COMMAND,
                                 BTRAIL_END_STOPPED);
    }
    forget_vcpus(live);
    if (captures->latest && branch_trace_capture_is_local(captures->latest)) {
        branch_trace_capture_forget(captures);
    }
}

bool branch_trace_live_disable(BranchTraceLive *live, CPUState *cpu,
                               Error **errp)
{
    BranchTraceCapture *capture = live_capture(live);

    if (!is_enabled(live, cpu)) {
        error_setg(errp, "this vCPU is not traced");
        return false;
    }
    live_vcpu(live, cpu)->enabled = false;
    if (!capture || !any_enabled(live)) {
        branch_trace_live_end(live);
        return true;
    }
    return live_change(live, capture, errp);
}

bool branch_trace_live_check(BranchTraceLive *live, CPUState *cpu,
                             Error **errp)
{
    if (!is_enabled(live, cpu)) {
        error_setg(errp, "this vCPU is not traced");
        return false;
    }
    if (!live_capture(live)) {
        error_setg(errp, "the capture was stopped, or the guest has ended");
        return false;
    }
    return true;
}

uint64_t branch_trace_live_size(const BranchTraceLive *live)
{
    return live->records * sizeof(struct btrail_record);
}

/* Reading */

typedef struct LiveReading {
    BranchTraceStream *stream;
    CPUState *cpu;
    GHashTable *pages;          /* and whether there is code */
    GArray *blocks;
} LiveReading;

static bool read_slab(void *opaque, unsigned n, BranchTraceSlab *slab)
{
    LiveReading *r = opaque;

    return branch_trace_stream_slab(r->stream, n, slab);
}

/* Registers of devices are not read, because that may change them. */
static bool is_memory(CPUState *cpu, vaddr page)
{
    MemTxAttrs attrs = MEMTXATTRS_UNSPECIFIED;
    hwaddr phys = cpu_get_phys_page_attrs_debug(cpu, page, &attrs);
    hwaddr at, length = BRANCH_TRACE_CODE_PAGE;
    MemoryRegion *mr;

    if (phys == -1) {
        return false;
    }
    RCU_READ_LOCK_GUARD();
    mr = address_space_translate(
        cpu_get_address_space(cpu, cpu_asidx_from_attrs(cpu, attrs)), phys,
        &at, &length, false, attrs);
    return memory_access_is_direct(mr, false, attrs);
}

static bool read_page(void *opaque, uint64_t page)
{
    LiveReading *r = opaque;
    gpointer known;

    if (!g_hash_table_lookup_extended(r->pages, &page, NULL, &known)) {
        known = GINT_TO_POINTER(is_memory(r->cpu, page));
        g_hash_table_insert(r->pages, g_memdup2(&page, sizeof(page)), known);
    }
    return GPOINTER_TO_INT(known);
}

static void read_block(void *opaque, uint64_t begin, uint64_t end)
{
    LiveReading *r = opaque;
    BranchTraceBlock block = { begin, end };

    g_array_append_val(r->blocks, block);
}

static bool read_blocks(const BranchTraceLive *live, BranchTraceStream *s,
                        CPUState *cpu, BranchTraceLiveType type,
                        GArray *blocks)
{
    const LiveVcpu *vcpu = live_vcpu(live, cpu);
    g_autoptr(GHashTable) pages = g_hash_table_new_full(
        g_int64_hash, g_int64_equal, g_free, NULL);
    LiveReading r = { s, cpu, pages, blocks };
    BranchTraceBlocksSource source = {
        .pc = vcpu->offered.pc,
        .cr3 = branch_trace_stream_get_cr3(s),
        .first = vcpu->first,
        .most = live->records,
        .slab = read_slab,
        .readable = read_page,
        .block = read_block,
        .opaque = &r,
    };

    if (type == BRANCH_TRACE_LIVE_DELTA) {
        return branch_trace_blocks_since(&source, vcpu->taken.index);
    }
    branch_trace_blocks_all(&source);
    return true;
}

static bool has_moved(const LiveVcpu *vcpu)
{
    return vcpu->offered.index != vcpu->taken.index ||
           vcpu->offered.pc != vcpu->taken.pc ||
           vcpu->offered.cr3 != vcpu->taken.cr3;
}

GArray *branch_trace_live_blocks(BranchTraceLive *live, CPUState *cpu,
                                 BranchTraceLiveType type, Error **errp)
{
    BranchTraceStream *s;
    LiveVcpu *vcpu;
    GArray *blocks;

    if (!branch_trace_live_check(live, cpu, errp) || !is_stopped(errp)) {
        return NULL;
    }
    s = branch_trace_streams_find(live->device->captures.streams, cpu);
    if (!s || !branch_trace_stream_cpu(s)) {
        error_setg(errp, "this vCPU was unplugged meanwhile");
        return NULL;
    }
    branch_trace_stream_flush(s);
    if (branch_trace_producer()->settle) {
        branch_trace_producer()->settle(cpu);
    }
    vcpu = live_vcpu(live, cpu);
    vcpu->offered = live_place(s, cpu);

    blocks = g_array_new(false, false, sizeof(BranchTraceBlock));
    if ((type != BRANCH_TRACE_LIVE_NEW || has_moved(vcpu)) &&
        !read_blocks(live, s, cpu, type, blocks)) {
        g_array_unref(blocks);
        error_setg(errp, "what was executed since the last time does not "
                   "continue what was there then");
        return NULL;
    }
    return blocks;
}

void branch_trace_live_taken(BranchTraceLive *live, CPUState *cpu)
{
    if (is_enabled(live, cpu)) {
        live_vcpu(live, cpu)->taken = live_vcpu(live, cpu)->offered;
    }
}
