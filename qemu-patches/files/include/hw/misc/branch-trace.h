/*
 * Branch trace: the device's interface to its producers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A producer makes records of the branches that vCPUs take.  The device
 * decides what to trace, owns the shared memory and communicates with the
 * agent.  Between them is one BranchTraceStream per vCPU.
 */

#ifndef HW_MISC_BRANCH_TRACE_H
#define HW_MISC_BRANCH_TRACE_H

#include "hw/core/cpu.h"
#include "hw/misc/branch-trace-cursor.h"
#include "qom/object.h"
#include "hw/misc/branch-trace-transport.h"

#define TYPE_BRANCH_TRACE "branch-trace"
OBJECT_DECLARE_SIMPLE_TYPE(BranchTraceDevice, BRANCH_TRACE)

#define BRANCH_TRACE_MAX_CR3    64

typedef struct BranchTraceStream BranchTraceStream;

/**
 * BranchTraceFilter - what a capture records of a vCPU
 * @privilege: BTRAIL_PRIVILEGE_*; 0 for no records at all
 * @cr3:       address spaces, as btrail_cr3_is() names them, if @cr3_count is
 *             not 0; sorted
 */
typedef struct BranchTraceFilter {
    uint32_t privilege;
    unsigned cr3_count;
    uint64_t cr3[BRANCH_TRACE_MAX_CR3];
} BranchTraceFilter;

/* Does the capture record this address space? */
bool branch_trace_filter_has_cr3(const BranchTraceFilter *filter, uint64_t cr3);

/**
 * BranchTraceTask - a task of the guest's kernel
 * @tid, @pid: of the thread, and of its process
 * @kernel:    it is a thread of the kernel
 * @name:      with NULs after it
 */
typedef struct BranchTraceTask {
    uint32_t tid;
    uint32_t pid;
    bool kernel;
    char name[BTRAIL_TASKS_NAME] QEMU_ALIGNED(8);
} BranchTraceTask;

/**
 * BranchTraceKernels - the kernels that the agent has described
 * @n:  how many
 * @of: the first is the guest's own, or all 0; the others are those of its
 *      nested guests
 */
typedef struct BranchTraceKernels {
    unsigned n;
    struct btrail_tasks of[BTRAIL_TASKS_MAX];
} BranchTraceKernels;

/**
 * BranchTraceKvmProperties - properties of the device that are for KVM
 * @root_entry:   'kvm-root-entry': which entry of the guest's top-level page
 *                tables KVM may use, or 0 if the user has not said that
 * @guest_window: 'kvm-guest-window': the guest maps the buffers itself, and KVM
 *                writes nothing into its page tables
 */
typedef struct BranchTraceKvmProperties {
    uint32_t root_entry;
    bool guest_window;
} BranchTraceKvmProperties;

/**
 * BranchTraceProducerOps - what an accelerator implements to make records
 *
 * All are called with the BQL held, except where it says otherwise.  Those that
 * can be NULL say so.
 *
 * @type:    enum btrail_producer
 * @realize: the device is there, and the guest has not run yet.  False, with
 *           @errp, if the guest cannot have the device as its properties say,
 *           which do not change any more.  NULL: there is nothing to do.
 * @supported: can the branches of this guest be traced?  If not, sets @errp to
 *           the reason.  NULL: always.
 * @start:   a capture is about to start, and nothing is traced yet.  Prepares
 *           for the first @attach.  False, with @errp, if that fails.  NULL:
 *           there is nothing to do.
 * @stop:    the capture for which @start succeeded has ended: no vCPU is
 *           attached any more.  NULL as @start.
 * @cursor:  the cursor that the producer uses for @cpu
 * @attach:  start to make records of @cpu into @stream, or, with NULL, stop.
 *           Runs on the thread of @cpu, between two instructions.
 * @filter:  branch_trace_stream_filter() has changed, from the next
 *           instruction on.  Runs on the thread of @cpu, between two
 *           instructions.
 * @sync:    adds to the stream what @cpu has done and the producer has not
 *           reported yet.  The stream may have the vCPU wait meanwhile: then
 *           the rest follows when it waits no more.  Runs on the thread of
 *           @cpu, or while that does not run; not only while @cpu is attached.
 *           NULL: there is never anything.
 * @tick:    the time of the next record of @cpu is to be noted.  Called from
 *           the thread of the tick, without BQL, after it has set the limit of
 *           the cursor.  NULL: the producer looks at the limit by itself.
 * @stopped: the guest has been stopped, and @sync was called for each vCPU.
 *           The producer takes what it has put into the guest's memory out of
 *           it, until the guest runs again.  NULL: there is nothing.
 * @tasks:   branch_trace_stream_tasks() has changed: from NULL, or to it.  When
 *           it is no longer NULL, it was NULL for all vCPUs before.  Runs as
 *           @filter.  NULL if the producer cannot notice tasks.
 * @cr3:     CR3 of @cpu, as it is reported (BTRAIL_CR3_CODE).  Runs on the
 *           thread of @cpu.
 * @clocks:  the host's clock (get_clock()), the guest's TSC and icount
 *           (BTRAIL_NO_ICOUNT if there is none) at this record.  Runs on the
 *           thread of @cpu, with or without BQL.
 * @discontinuity: the flow of @cpu is about to be broken, see
 *           enum btrail_gap_reason.  The vCPU does not run.
 * @settle:  the guest is stopped, and the stream is about to be read.  Adds what
 *           @cpu would add before its next instruction: that it was moved, or
 *           has another CR3.  NULL: that is added at once.
 * @code_stale: any thread, with or without BQL, and perhaps with locks held:
 *           the jump cache of @cpu is stale.  @cpu does what @code_forget does
 *           before it executes anything that it could not execute until now.
 * @code_forget: @cpu drops its jump cache, so that the producer calls
 *           branch_trace_stream_code_known() for each page that @cpu executes
 *           from now on.
 *           Runs on the thread of @cpu, with or without BQL.  NULL, like
 *           @code_stale, if the producer does not report code.
 * @tsc_hz:  frequency of the guest's TSC, or 0 if it is not known
 * @record_has: what the flags of each record have, BTRAIL_RECORD_HAS_*
 */
typedef struct BranchTraceProducerOps {
    uint32_t type;
    bool (*realize)(const BranchTraceKvmProperties *kvm, Error **errp);
    bool (*supported)(Error **errp);
    bool (*start)(Error **errp);
    void (*stop)(void);
    BranchTraceCursor *(*cursor)(CPUState *cpu);
    void (*attach)(CPUState *cpu, BranchTraceStream *stream);
    void (*filter)(CPUState *cpu);
    void (*sync)(CPUState *cpu);
    void (*tick)(CPUState *cpu);
    void (*stopped)(void);
    void (*tasks)(CPUState *cpu);
    uint64_t (*cr3)(CPUState *cpu);
    void (*clocks)(CPUState *cpu, uint64_t *host, uint64_t *tsc,
                   uint64_t *icount);
    void (*discontinuity)(CPUState *cpu, uint16_t reason);
    void (*settle)(CPUState *cpu);
    void (*code_stale)(CPUState *cpu);
    void (*code_forget)(CPUState *cpu);
    uint64_t (*tsc_hz)(CPUState *cpu);
    uint32_t (*record_has)(void);
} BranchTraceProducerOps;

/*
 * The clocks of a TIME event are of one moment, so a producer reads them again
 * if the host has let others run in between; but not for ever.
 */
#define BRANCH_TRACE_CLOCKS_NS    20000
#define BRANCH_TRACE_CLOCKS_TRIES 4

/* Called once by the accelerator that can trace. */
void branch_trace_set_producer(const BranchTraceProducerOps *ops);
const BranchTraceProducerOps *branch_trace_producer(void);

/*
 * The stream: all functions below run on the thread of the vCPU, or with the
 * BQL held while it does not run.
 */

/* @cursor->next has reached @cursor->limit. */
void branch_trace_stream_limit(BranchTraceStream *s);

/* Add one record; the slow way, for those made outside of translated code. */
void branch_trace_stream_record(BranchTraceStream *s, uint64_t from,
                                uint64_t to, uint64_t flags);

/* CR3 is @cr3 from the next record on, as it is reported. */
void branch_trace_stream_cr3(BranchTraceStream *s, uint64_t cr3);

/* How tasks are found, or NULL if they are not to be noticed */
const BranchTraceKernels *branch_trace_stream_tasks(BranchTraceStream *s);

/* A task is about to be reported: fetch what that needs into the CPU's cache. */
void branch_trace_stream_fetch(const BranchTraceStream *s);

/*
 * The vCPU runs @task from the next record on; NULL: it is not known which.
 * @left: why the one before does not run any more (BTRAIL_TASK_LEFT), or 0
 */
void branch_trace_stream_task(BranchTraceStream *s,
                              const BranchTraceTask *task, uint16_t left);

/*
 * What the vCPU does wakes @task, whose name is not needed; NULL: it is not known
 * which one.  @flags: BTRAIL_WAKE_NEW, or 0
 */
void branch_trace_stream_wake(BranchTraceStream *s,
                              const BranchTraceTask *task, uint16_t flags);

/*
 * The vCPU waits for an interrupt from here on; and it is about to execute
 * something, which can be because it does not wait any more.
 */
void branch_trace_stream_halt(BranchTraceStream *s);
void branch_trace_stream_halted(BranchTraceStream *s);

/*
 * From the next record on, kernel @number runs, or none that is described if
 * that is 0.  @flags and @nested_root are as in a KERNEL event.  The task that
 * runs is not known then.
 */
void branch_trace_stream_kernel(BranchTraceStream *s, uint16_t flags,
                                uint32_t number, uint64_t nested_root);

/* Has the stream said which kernel runs? */
bool branch_trace_stream_knows_kernel(BranchTraceStream *s);

/* It is the task again that ran before a nested guest or an SMI. */
void branch_trace_stream_return_to_task(BranchTraceStream *s);

/* It is not known whether records are missing here, and how many. */
void branch_trace_stream_gap(BranchTraceStream *s, uint16_t reason);

/* The next record does not follow from the last one. */
void branch_trace_stream_discontinuity(BranchTraceStream *s, uint16_t reason);

/*
 * The page at the RAM address @ram is about to be executed at @linear; both are
 * addresses of its first byte.  Does the agent know its content?
 */
bool branch_trace_stream_code_known(BranchTraceStream *s, uint64_t linear,
                                    uint64_t ram);

/* The agent does not: reports the page.  @bytes is its content. */
void branch_trace_stream_code_executed(BranchTraceStream *s, uint64_t linear,
                                       uint64_t physical, uint64_t ram,
                                       const void *bytes);

/*
 * Code on a page was translated, @size bytes from @offset on, which no vCPU can
 * execute yet.  Have these bytes changed since the page was reported?  If so,
 * @code_stale has been called for the other vCPUs, and the producer must do
 * what @code_forget does for this one before the code can be executed.
 */
bool branch_trace_stream_code_translated(BranchTraceStream *s, uint64_t ram,
                                         const void *bytes, unsigned offset,
                                         unsigned size);

const BranchTraceFilter *branch_trace_stream_filter(BranchTraceStream *s);

#endif /* HW_MISC_BRANCH_TRACE_H */
