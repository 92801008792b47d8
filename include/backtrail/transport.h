/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Branch trace transport: how a producer hands records to an agent
 *
 * A producer (the branch-trace device of QEMU, fed by TCG or by KVM) owns one
 * memfd and shares it over a unix stream socket, with two sockets for signals.
 * This file is the whole contract between the two sides; docs/transport.md
 * describes it in prose.
 *
 * Everything is little endian.  All sizes are in bytes unless a name says
 * otherwise, all times in nanoseconds.
 *
 * The memfd:
 *
 *     0                 struct btrail_shm_header
 *     vcpu_offset       vCPU area 0
 *     + vcpu_stride     vCPU area 1
 *     ...
 *
 * A vCPU area:
 *
 *     0                 struct btrail_shm_vcpu
 *     desc_offset       struct btrail_slab_desc[slabs]
 *     slab_offset       slab 0, slab 1, ... (slab_size bytes each)
 *     code_offset       struct btrail_shm_code, and behind it
 *                       struct btrail_code_item[code_items]
 *     code_page_offset  page 0, page 1, ... (one for each item)
 *
 * A slab:
 *
 *     0                 struct btrail_record[records_per_slab]
 *     event_offset      struct btrail_event[events_per_slab]
 *
 * The producer fills slab (head % slabs) and publishes it by incrementing
 * head.  The agent drains slab (tail % slabs) and gives it back by
 * incrementing tail.  Both are 64-bit and never wrap.  head is stored with
 * release semantics after the slab and its descriptor, tail after the last
 * read of the slab; each is loaded with acquire semantics.
 *
 * Neither side trusts the other.  The producer keeps its own copy of all that
 * it has written.  It reads back only tail, agent_sleeps and (through the
 * sockets) messages and signals.  If a tail is outside [head - slabs, head] or
 * moves backwards, the agent counts as lost.  The agent must check every
 * offset, count and index before use, and read each of them once.
 */

#ifndef BACKTRAIL_TRANSPORT_H
#define BACKTRAIL_TRANSPORT_H

#include <stdint.h>

#define BTRAIL_SHM_MAGIC            0x314d485354425f42ULL /* "B_BTSHM1" */
#define BTRAIL_TRANSPORT_VERSION    2

/* Limits that both sides may rely on and must enforce. */
#define BTRAIL_MAX_VCPUS            1024
#define BTRAIL_MIN_SLABS            2
#define BTRAIL_MAX_SLABS            4096
#define BTRAIL_MIN_SLAB_SIZE        (16u << 10)
#define BTRAIL_MAX_SLAB_SIZE        (64u << 20)
#define BTRAIL_MAX_CODE_ITEMS       65536
#define BTRAIL_CODE_PAGE_SIZE       4096
#define BTRAIL_AGENT_SLOTS          8
#define BTRAIL_CAPTURE_NAME_MAX     64 /* with the terminating NUL */

/*
 * CR3, wherever the producer reports one, is the register (SDM vol. 3, "Control
 * Registers") and what says how to read it:
 *
 * - Without paging (CR0.PG = 0) the register means nothing, and counts as 0.
 * - With 32-bit PAE paging (CR0.PG = 1, CR4.PAE = 1, EFER.LMA = 0) BTRAIL_CR3_PAE
 *   is set.
 * - The CR3 of a nested guest has BTRAIL_CR3_NESTED: its page tables are at an
 *   address of that guest's memory, not of the guest's.
 * - While code of 16 or 32 bits runs (CS.L = 0, and CS.D = 0 or 1) it has
 *   BTRAIL_CR3_CODE16 or BTRAIL_CR3_CODE32, also without paging.  In IA-32e mode
 *   (EFER.LMA = 1) only while CPL is not 3: programs of 32 bits and their kernel
 *   of 64 would change it at each system call, and the program's file says it.
 *   With neither, code of a kernel is of 64 bits, or the producer does not know:
 *   that of KVM, and older ones, which never set them.
 *
 * The register itself never has these bits: bit 63 of what is loaded into CR3 is
 * not stored, and bits from MAXPHYADDR to 60 are reserved.
 */
#define BTRAIL_CR3_PAE              (UINT64_C(1) << 63)
#define BTRAIL_CR3_NESTED           (UINT64_C(1) << 60)
#define BTRAIL_CR3_CODE16           (UINT64_C(1) << 59)
#define BTRAIL_CR3_CODE32           (UINT64_C(1) << 58)
#define BTRAIL_CR3_CODE             (BTRAIL_CR3_CODE16 | BTRAIL_CR3_CODE32)

/**
 * btrail_cr3_root - the address space that a CR3 names
 *
 * Those bits of it that are the physical address of its page tables: with
 * 32-bit PAE paging bits 5 to 31, of a table of 32 bytes; with any other bits 12
 * to 51; and BTRAIL_CR3_PAE and BTRAIL_CR3_NESTED.  The others are the PCID and
 * flags: PWT and PCD, LAM_U57 and LAM_U48, and those of BTRAIL_CR3_CODE.
 * Producer, agent and readers of a trace compare these alone.
 */
static inline uint64_t btrail_cr3_root(uint64_t cr3)
{
    return cr3 & (BTRAIL_CR3_NESTED |
                  (cr3 & BTRAIL_CR3_PAE ?
                   BTRAIL_CR3_PAE | UINT64_C(0xffffffe0) :
                   UINT64_C(0x000ffffffffff000)));
}

/**
 * btrail_cr3_code_bits - the mode of the code that runs, as a CR3 says it
 *
 * Returns 16 or 32; or 0 if it does not say it: that code is of 64 bits, if it
 * is not of a program of 32 bits, nor of a producer that does not know.
 */
static inline unsigned btrail_cr3_code_bits(uint64_t cr3)
{
    return cr3 & BTRAIL_CR3_CODE16 ? 16 : cr3 & BTRAIL_CR3_CODE32 ? 32 : 0;
}

/**
 * btrail_cr3_is - is a CR3 of the address space that a person names?
 * @cr3:   as it was reported
 * @named: the same, or what the guest's register has, without BTRAIL_CR3_PAE:
 *         the paging mode is that of @cr3 then
 */
static inline int btrail_cr3_is(uint64_t cr3, uint64_t named)
{
    if (cr3 & BTRAIL_CR3_PAE &&
        !((named & ~(BTRAIL_CR3_NESTED | BTRAIL_CR3_CODE)) >> 32)) {
        named |= BTRAIL_CR3_PAE;
    }
    return btrail_cr3_root(named) == btrail_cr3_root(cr3);
}

/**
 * struct btrail_record - one taken branch
 * @from:  linear address of the branch instruction; for an interrupt or a
 *         fault, of the instruction that would have run next
 * @to:    linear address of the first instruction after the branch
 * @flags: BTRAIL_RECORD_*, and from bit BTRAIL_RECORD_ICOUNT_SHIFT on the
 *         record's instruction count, if the capture has them
 *         (BTRAIL_RECORD_HAS_ICOUNT).  All other bits are zero.
 *
 * The 64-bit BTS record (SDM vol. 3, "64 Bit Format of the DS Save Area").
 */
struct btrail_record {
    uint64_t from;
    uint64_t to;
    uint64_t flags;
};

/* The branch went where the CPU had predicted; TCG never sets it. */
#define BTRAIL_RECORD_PREDICTED     (1ull << 4)

/*
 * The instruction count of a record, modulo 2^48: how many instructions the
 * guest has executed, as QEMU's -icount counts them, when the next one is that
 * at @to.  It includes the branch itself.  An interrupt or a fault executes no
 * instruction.
 */
#define BTRAIL_RECORD_ICOUNT_SHIFT  16

/**
 * enum btrail_event_type - what an event reports
 *
 * An event with index i is true from record i on: it comes before record i
 * and after record i - 1.  Events of one index are in the order they happened.
 *
 * @BTRAIL_EVENT_CR3:    data[0] = CR3 from here on, PCID bits included, and
 *                       BTRAIL_CR3_PAE, BTRAIL_CR3_NESTED and one or none of
 *                       BTRAIL_CR3_CODE
 * @BTRAIL_EVENT_TIME:   data[0] = host clock (CLOCK_MONOTONIC),
 *                       data[1] = guest TSC as the guest reads it,
 *                       data[2] = icount (instructions), or
 *                       BTRAIL_NO_ICOUNT.  Record i was made at this time or
 *                       later, and so was each one up to the next TIME event,
 *                       less than tick_ns after it; the records before i were
 *                       made before it.
 * @BTRAIL_EVENT_GAP:    reason = BTRAIL_GAP_*, data[0] = records missing
 *                       before record i, or BTRAIL_LOST_UNKNOWN.  Where the
 *                       number is known, the index i counts the missing
 *                       records too: the record before the gap was number
 *                       i - data[0] - 1.
 * @BTRAIL_EVENT_PAUSE:  reason = BTRAIL_PAUSE_*, data[0] = host clock.  The
 *                       vCPU does not run from here on.
 * @BTRAIL_EVENT_RESUME: reason as in the PAUSE, data[0] = host clock
 * @BTRAIL_EVENT_END:    reason = BTRAIL_END_*, data[0] = host clock.  The
 *                       last event of a stream.
 * @BTRAIL_EVENT_TASK:   the task that the guest's kernel runs from here on, as
 *                       its memory says: reason = BTRAIL_TASK_*,
 *                       data[0] = tid in bits 0 to 31, and pid (the kernel's
 *                       tgid) in bits 32 to 63, data[1] and data[2] = the 16
 *                       bytes of its name, of which those behind the first
 *                       NUL mean nothing.  It may be the task that ran before.
 *                       BTRAIL_TASK_LEFT says why the task of the TASK event
 *                       before it does not run any more.
 * @BTRAIL_EVENT_KERNEL: which kernel runs from here on: reason =
 *                       BTRAIL_KERNEL_*, data[0] = its number, or 0 if it is
 *                       none that was described, data[1] = with
 *                       BTRAIL_KERNEL_NESTED, guest-physical address of the
 *                       nested page tables, or 0 if there are none.  The
 *                       task in force ends here.  It may be the kernel that
 *                       ran before.
 * @BTRAIL_EVENT_WAKE:   the task in force, or an interrupt that it was
 *                       interrupted by, wakes another task: reason =
 *                       BTRAIL_WAKE_*, data[0] = tid and pid of the other one,
 *                       as in TASK.  There are none where the kernel's branches
 *                       are not recorded.
 */
enum btrail_event_type {
    BTRAIL_EVENT_CR3 = 1,
    BTRAIL_EVENT_TIME = 2,
    BTRAIL_EVENT_GAP = 3,
    BTRAIL_EVENT_PAUSE = 4,
    BTRAIL_EVENT_RESUME = 5,
    BTRAIL_EVENT_END = 6,
    BTRAIL_EVENT_TASK = 7,
    BTRAIL_EVENT_KERNEL = 8,
    BTRAIL_EVENT_WAKE = 9,
};

/* Flags of a TASK event */
#define BTRAIL_TASK_KERNEL      1u  /* it is a thread of the kernel */
#define BTRAIL_TASK_UNKNOWN     2u  /* it could not be read: data is 0 */
/*
 * Why the task before does not run any more; 0: that is not known.  What is
 * blocked runs again only when it was woken, and what is runnable waits for a
 * vCPU.
 */
#define BTRAIL_TASK_LEFT            12u
#define BTRAIL_TASK_LEFT_RUNNABLE   4u
#define BTRAIL_TASK_LEFT_BLOCKED    8u
#define BTRAIL_TASK_LEFT_DEAD       12u
/*
 * With BLOCKED: signals wake it, or do not.  Neither of them: it was stopped, or
 * somebody woke it already before it had left.
 */
#define BTRAIL_TASK_LEFT_INTERRUPTIBLE      16u
#define BTRAIL_TASK_LEFT_UNINTERRUPTIBLE    32u
#define BTRAIL_TASK_LEFT_ALL                60u

/* Flags of a WAKE event */
#define BTRAIL_WAKE_KERNEL      1u  /* the other one is a thread of the kernel */
#define BTRAIL_WAKE_UNKNOWN     2u  /* it could not be read: data is 0 */
#define BTRAIL_WAKE_NEW         4u  /* it has not run yet */

/* Flags of a KERNEL event */
#define BTRAIL_KERNEL_NESTED    1u  /* a nested guest runs, from after VMRUN up
                                       to #VMEXIT */
#define BTRAIL_KERNEL_UNKNOWN   2u  /* nobody looks which kernel runs, as before
                                       the first event: its number is 0 */

#define BTRAIL_NO_ICOUNT            UINT64_MAX
#define BTRAIL_LOST_UNKNOWN         UINT64_MAX

/* Why records are missing, or why two records do not follow each other. */
enum btrail_gap_reason {
    BTRAIL_GAP_OVERFLOW = 1,    /* policy drop: no slab was free */
    BTRAIL_GAP_OVERWRITTEN = 2, /* policy overwrite: older than the buffer */
    BTRAIL_GAP_AGENT_LOST = 3,  /* no agent, or it stopped draining */
    BTRAIL_GAP_RESET = 4,       /* vCPU reset, INIT or SIPI; nothing lost */
    BTRAIL_GAP_RESTORED = 5,    /* state loaded from a snapshot; nothing lost */
    BTRAIL_GAP_DEBUGGER = 6,    /* a debugger moved the PC; nothing lost */
    BTRAIL_GAP_CORRUPT = 7,     /* found by a reader or the agent, not sent */
    BTRAIL_GAP_PRODUCER_LOST = 8, /* the producer died; made by the agent */
    /* With BTRAIL_PRODUCER_KVM; how many are missing is never known. */
    BTRAIL_GAP_GUEST_BTS = 9,   /* the guest uses BTS or PEBS itself */
    BTRAIL_GAP_NESTED = 10,     /* a nested guest runs */
    BTRAIL_GAP_SMM = 11,        /* system management mode */
    BTRAIL_GAP_MODE = 12,       /* no 64-bit operating system runs */
    BTRAIL_GAP_ADDRESS_SPACE = 13, /* of page tables that do not have the
                                   buffer, and that must not be changed */
    BTRAIL_GAP_UNMAPPED = 14,   /* the guest has unmapped the buffer, or QEMU
                                   has no memory there */
    BTRAIL_GAP_EPT_FAULT = 15,  /* the host had to get a page of the buffer */
    BTRAIL_GAP_BUFFER_FULL = 16, /* the CPU's buffer, which should not be */
    BTRAIL_GAP_SPOILT = 17,     /* the guest has written to the buffer */
    /*
     * With BTRAIL_PRODUCER_PT; how many are missing is never known.  data[1] has
     * the bytes of the PT stream that say nothing because of it.
     */
    BTRAIL_GAP_PT_OVERFLOW = 18, /* the CPU could not write all packets: OVF */
    BTRAIL_GAP_PT_RING = 19,    /* nobody has read the ring in time */
    BTRAIL_GAP_CODE_UNREADABLE = 20, /* code that was executed is not known */
    BTRAIL_GAP_CODE_CHANGED = 21, /* it has changed, and it is not known how it
                                   was */
    BTRAIL_GAP_PT_LOST = 22,    /* packets and code contradict each other */
    BTRAIL_GAP_NOT_TRACED = 23, /* a filter, or tracing was off */
};

enum btrail_pause_reason {
    BTRAIL_PAUSE_OVERFLOW = 1,  /* policy pause: waits for a free slab */
    BTRAIL_PAUSE_VM_STOP = 2,   /* the whole guest is stopped */
};

enum btrail_end_reason {
    BTRAIL_END_STOPPED = 1,     /* asked for, by QMP or by the agent */
    BTRAIL_END_SHUTDOWN = 2,    /* the guest or QEMU is going away */
    BTRAIL_END_MIGRATED = 3,    /* the guest runs elsewhere now */
    BTRAIL_END_UNPLUGGED = 4,   /* this vCPU was unplugged */
    BTRAIL_END_PRODUCER_LOST = 5, /* the producer died; made by the agent */
};

/* Of the clock of events */
#define BTRAIL_CLOCK_NS     16

/**
 * struct btrail_event
 * @index:  index of the record before which it happened
 * @type:   enum btrail_event_type
 * @reason: depends on the type, else 0
 * @clock:  of TASK: CLOCK_MONOTONIC of the host at the switch, which is after the
 *          TIME event in force, in units of BTRAIL_CLOCK_NS; its lower 32 bits,
 *          or 1 if these are 0.  0: the task ran already, or since the capture
 *          began it has run on this vCPU last.  Traces do not keep it.  Else 0
 * @data:   depends on the type, else 0
 */
struct btrail_event {
    uint64_t index;
    uint16_t type;
    uint16_t reason;
    uint32_t clock;
    uint64_t data[3];
};

/**
 * struct btrail_slab_desc - what a published slab holds
 * @first_index: index of its first record, were it to have one
 * @cr3:         CR3 in force before its first event and record
 * @records:     records in it
 * @events:      events in it, in order of index.  If there is at least one
 *               record, one of those at its index is a TIME event.
 *
 * Records of one slab are contiguous, except where a GAP event inside it says
 * otherwise: a GAP of n known records at index i means that the record before
 * it has index i - n - 1.
 */
struct btrail_slab_desc {
    uint64_t first_index;
    uint64_t cr3;
    uint32_t records;
    uint32_t events;
    uint64_t reserved[5];
};

enum btrail_vcpu_state {
    BTRAIL_VCPU_ABSENT = 0,     /* not traced, or no such vCPU */
    BTRAIL_VCPU_RUNNING = 1,
    BTRAIL_VCPU_WAITING = 2,    /* policy pause: waits for a free slab */
    BTRAIL_VCPU_LOSING = 3,     /* no slab is free, records are dropped */
    BTRAIL_VCPU_ENDED = 4,      /* its END event has been published */
};

/**
 * struct btrail_shm_vcpu - control block of a stream
 * @head:    slabs published, by the producer
 * @records: index of the next record, as of the last publication
 * @lost:    records lost so far
 * @paused_ns: how long the vCPU has waited for a slab so far
 * @state:   enum btrail_vcpu_state
 * @flushed: CLOCK_MONOTONIC of the host: all that the vCPU did before is in the
 *           slabs that are published by now.  Stored with release semantics
 *           after @head when a BTRAIL_MSG_FLUSH is done, which a vCPU without a
 *           free slab has not; 0: none is.  Only of a producer that has
 *           BTRAIL_ACCEPTS_FLUSH
 * @tail:    slabs drained, by the agent.  Each agent that attaches to a
 *           capture has a tail of its own, which HELLO names, so that an agent
 *           that was replaced can do no harm.  It starts where that of the
 *           last agent was.
 *
 * With policy overwrite the producer drops the oldest slab by itself when all
 * are full, so the agent must not drain before the capture has ended
 * (BTRAIL_MSG_END).  The first slab to read is then max(tail, head - slabs).
 *
 * An agent whose first slab of a stream does not begin at index 0, because
 * older ones were overwritten or went to another agent, notes that in its file
 * with a GAP event of that many records, BTRAIL_GAP_OVERWRITTEN or
 * BTRAIL_GAP_AGENT_LOST.
 */
struct btrail_shm_vcpu {
    uint64_t head;
    uint64_t records;
    uint64_t lost;
    uint64_t paused_ns;
    uint32_t state;
    uint32_t reserved0;
    uint64_t flushed;
    uint64_t reserved1[2];
    /* A cache line of its own: the only thing here that the agent writes. */
    uint64_t tail[BTRAIL_AGENT_SLOTS];
};

/*
 * Code: what bytes were executed
 *
 * Beside its slabs each vCPU has a ring of items that report which pages it
 * executes.  Item number i is in place i % code_items; it is published and
 * given back like a slab, by head and tail.  Items do not lie in slabs, so
 * they are not lost with them, and an agent drains them while the capture runs
 * even with policy overwrite.
 *
 * Items of a vCPU are in the order of their index.  With policy pause a vCPU
 * that finds its ring full is held, as if no slab were free; with any other
 * it loses items, and reports that with BTRAIL_CODE_LOST.
 */

/**
 * enum btrail_code_type - what an item reports
 *
 * @BTRAIL_CODE_BYTES: the page of this item holds content @number, which no
 *                     item has had before.  Items of any vCPU can refer to it,
 *                     and those of other vCPUs may come first.
 * @BTRAIL_CODE_PAGE:  from record @index on the page at @linear, executed with
 *                     @cr3, has content @number.  Addresses from 2^63 on are
 *                     reported once for all CR3s.  The bytes that are executed
 *                     are right; others of the page can have changed.
 * @BTRAIL_CODE_LOST:  items are missing.  From record @linear on, up to @index,
 *                     nothing is known of the code of this vCPU.  The items
 *                     after this one report all pages again.
 */
enum btrail_code_type {
    BTRAIL_CODE_BYTES = 1,
    BTRAIL_CODE_PAGE = 2,
    BTRAIL_CODE_LOST = 3,
};

/**
 * struct btrail_code_item
 * @number:   of a content, from 1 on; the same in all streams of a capture
 * @index:    index of the record before which it happened
 * @cr3:      in force there
 * @linear:   address of the page
 * @physical: guest physical address of the page
 * @type:     enum btrail_code_type
 */
struct btrail_code_item {
    uint64_t number;
    uint64_t index;
    uint64_t cr3;
    uint64_t linear;
    uint64_t physical;
    uint32_t type;
    uint32_t reserved0;
    uint64_t reserved1[2];
};

#define BTRAIL_CODE_NONE_LOST       UINT64_MAX

/**
 * struct btrail_shm_code - control block of a ring of code
 * @head:      items published, by the producer
 * @lost_from: items are missing from this record on, and no BTRAIL_CODE_LOST
 *             has reported it yet; BTRAIL_CODE_NONE_LOST if none are missing
 * @tail:      items drained, by the agent; see struct btrail_shm_vcpu
 */
struct btrail_shm_code {
    uint64_t head;
    uint64_t lost_from;
    uint64_t reserved[6];
    /* A cache line of its own: the only thing here that the agent writes. */
    uint64_t tail[BTRAIL_AGENT_SLOTS];
};

enum btrail_producer {
    BTRAIL_PRODUCER_TCG = 1,
    BTRAIL_PRODUCER_KVM = 2,
    BTRAIL_PRODUCER_PT = 3,     /* Intel PT: no device sends it */
};

enum btrail_overflow_policy {
    BTRAIL_OVERFLOW_PAUSE = 0,
    BTRAIL_OVERFLOW_DROP = 1,
    BTRAIL_OVERFLOW_OVERWRITE = 2,
};

/* struct btrail_shm_header.privilege: which records the capture selects */
#define BTRAIL_PRIVILEGE_USER       1u
#define BTRAIL_PRIVILEGE_KERNEL     2u

/*
 * struct btrail_shm_header.accepts: BTRAIL_MSG_TASKS with this struct
 * btrail_tasks.  Bit 0 means another one, with which tasks without an address
 * space were taken for threads of the kernel.
 */
#define BTRAIL_ACCEPTS_TASKS        2u
/* And BTRAIL_READY_HOLD */
#define BTRAIL_ACCEPTS_HOLD         4u
/* BTRAIL_MSG_MEMORY, by which an agent requests it again */
#define BTRAIL_ACCEPTS_MEMORY       8u
/* And BTRAIL_READY_KERNELS, and the whole struct btrail_tasks */
#define BTRAIL_ACCEPTS_KERNELS      16u
/* And several of these in one message */
#define BTRAIL_ACCEPTS_NESTED       32u
/* And all of each, not BTRAIL_TASKS_SIZE_WITHOUT_WAKES bytes */
#define BTRAIL_ACCEPTS_WAKES        64u
/* It answers BTRAIL_MSG_FLUSH, by struct btrail_shm_vcpu.flushed */
#define BTRAIL_ACCEPTS_FLUSH        128u

/* struct btrail_shm_header.record_has: what flags of each record have */
#define BTRAIL_RECORD_HAS_ICOUNT    1u

/**
 * struct btrail_shm_header
 * @magic:            BTRAIL_SHM_MAGIC
 * @version:          BTRAIL_TRANSPORT_VERSION
 * @header_size:      sizeof(struct btrail_shm_header)
 * @total_size:       of the memfd
 * @vcpu_offset, @vcpu_stride, @vcpus: the vCPU areas
 * @desc_offset, @slab_offset: inside a vCPU area
 * @slabs, @slab_size: slabs per vCPU and size of one
 * @records_per_slab, @event_offset, @events_per_slab: inside a slab
 * @record_size:      sizeof(struct btrail_record)
 * @event_size:       sizeof(struct btrail_event)
 * @producer:         enum btrail_producer
 * @policy:           enum btrail_overflow_policy
 * @privilege:        BTRAIL_PRIVILEGE_*
 * @accepts:          BTRAIL_ACCEPTS_*, messages that a producer may accept; an
 *                    agent ignores bits that it does not know
 * @tick_ns:          see BTRAIL_EVENT_TIME
 * @tsc_hz:           frequency of the guest TSC, 0 if not known
 * @start_monotonic:  CLOCK_MONOTONIC at the start of the capture
 * @start_realtime:   CLOCK_REALTIME at the same moment
 * @capture:          the capture's name, NUL-terminated
 * @code_offset, @code_page_offset: inside a vCPU area
 * @code_items:       items in each ring of code; 0 if code is not reported:
 *                    then there are no rings
 * @record_has:       BTRAIL_RECORD_HAS_*; an agent keeps bits of flags that it
 *                    does not know
 * @agent_sleeps:     written by the agent: 1 before it waits on the ready
 *                    descriptor (after which it reads every head once more),
 *                    0 when it is awake.  The producer signals only an agent
 *                    that sleeps.
 */
struct btrail_shm_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_size;
    uint64_t total_size;
    uint64_t vcpu_offset;
    uint64_t vcpu_stride;
    uint64_t desc_offset;
    uint64_t slab_offset;
    uint32_t vcpus;
    uint32_t slabs;
    uint32_t slab_size;
    uint32_t records_per_slab;
    uint32_t event_offset;
    uint32_t events_per_slab;
    uint32_t record_size;
    uint32_t event_size;
    uint32_t producer;
    uint32_t policy;
    uint32_t privilege;
    uint32_t accepts;
    uint64_t tick_ns;
    uint64_t tsc_hz;
    uint64_t start_monotonic;
    uint64_t start_realtime;
    char capture[BTRAIL_CAPTURE_NAME_MAX];
    uint64_t code_offset;
    uint64_t code_page_offset;
    uint32_t code_items;
    uint32_t record_has;
    uint64_t reserved1[4];
    /* A cache line of its own. */
    uint32_t agent_sleeps;
    uint32_t reserved2[15];
};

/*
 * The socket: a stream of messages, each a struct btrail_msg of fixed size.
 * A peer that sends anything else is disconnected.
 *
 * The device connects, and its first message says what the connection is for:
 * HELLO opens a data connection, JSON the control connection (see below).
 *
 * Data connection: with HELLO, the device sends three file descriptors
 * (SCM_RIGHTS):
 *   1. the memfd (sealed against shrinking and growing),
 *   2. ready: the agent waits until it can read from it,
 *   3. free: the agent writes 8 bytes to it after it has advanced a tail, of
 *      slabs or of code, whose vCPU is BTRAIL_VCPU_WAITING or
 *      BTRAIL_VCPU_LOSING.
 * The last two are stream sockets.  The bytes in them are signals without
 * content, and the agent reads all that there are.  (Eventfds would share their
 * file status flags: an agent could make the producer block.)
 * The agent answers READY, or closes.  Nothing is traced before READY.
 */
enum btrail_msg_type {
    BTRAIL_MSG_HELLO = 1,   /* device: value = size of the memfd,
                               reason = which tail is the agent's */
    BTRAIL_MSG_READY = 2,   /* agent: value = BTRAIL_READY_*; see HOLD */
    BTRAIL_MSG_FLUSH = 3,   /* agent: publish the slabs in progress; each
                               vCPU says when it has, in its control block */
    BTRAIL_MSG_STOP = 4,    /* agent: end the capture; value is 0 */
    BTRAIL_MSG_END = 5,     /* device: no more slabs will be published;
                               reason = enum btrail_end_reason */
    BTRAIL_MSG_MEMORY = 6,  /* device, once, to an agent whose READY has
                               BTRAIL_READY_MEMORY: reason = enum
                               btrail_memory_reason, value = size of the
                               table.
                               Agent, when it has received that, to a producer
                               that accepts it: send another one, once, when
                               it would say something else; value is 0 */
    BTRAIL_MSG_JSON = 7,    /* both, on a control connection, which has no
                               other: value = bytes that follow, from 1 to
                               BTRAIL_JSON_MAX */
    BTRAIL_MSG_RESEND_CODE = 8,  /* agent: report all code again, for a consumer
                               that has not seen it; see struct
                               btrail_code_item */
    BTRAIL_MSG_TASKS = 9,   /* agent, to a producer that accepts it: how TASK
                               events are made from here on; value = size of
                               the struct btrail_tasks that follow, at most
                               BTRAIL_TASKS_MAX of them */
};

/*
 * The control connection, for an agent that serves sessions of several
 * consumers: it has the device record what all of them need together.
 *
 * A stream of JSON messages, each followed by one JSON object in UTF-8 without
 * a NUL, whose member "type" names its type.  The device sends "guest" first,
 * and once, then commands and events; the agent sends QMP commands to execute.
 * Each side numbers its commands with an "id", and the other answers with a
 * "reply" of the same "id".  docs/transport.md lists all messages.
 *
 * There is one such connection for each guest at a time.  It carries no file
 * descriptors.
 */
#define BTRAIL_JSON_MAX             (1u << 20)

/* Bytes ',', '[' and '{' in a message to the device, wherever they are */
#define BTRAIL_JSON_MAX_VALUES      16384

/* In READY, the agent requests to read the guest's RAM. */
#define BTRAIL_READY_MEMORY         1u
/*
 * If the producer accepts it: tracing starts with a second READY, whose value
 * is 0.  Between the two, the agent may send TASKS once, so that the first
 * records have a task already.
 */
#define BTRAIL_READY_HOLD           2u
/*
 * If the producer accepts it: the agent knows KERNEL events.  The producer
 * sends none to another.
 */
#define BTRAIL_READY_KERNELS        4u

#define BTRAIL_TASKS_MARK           64

/**
 * struct btrail_tasks - how a producer finds the task that a vCPU runs
 * @switch_to: linear address of the function that switches the stack to that of
 *             another task: __switch_to_asm() of Linux, with the task that runs
 *             in RDI and the next one in RSI
 * @set_name:  of the function that sets a task's name: __set_task_comm(), with
 *             the task in RDI and the name in RSI
 * @current:   what to add to the kernel's GS base, modulo 2^64, for the address
 *             of the pointer to the task that runs
 * @tid, @pid, @name, @task_flags: offsets in a task, below
 *             BTRAIL_TASKS_MAX_OFFSET; of the numbers (32 bits each), the name
 *             (16 bytes), and the kernel's own flags (32 bits)
 * @flags:     0
 * @kernel:    bits in the flags of a task: if one of them is set, it is a
 *             thread of the kernel
 *
 * @mark:    linear address of BTRAIL_TASKS_MARK bytes by which the kernel is
 *           recognised: they do not change, and all its page tables map them at
 *           this address (except those that user mode has with page table
 *           isolation)
 * @mark_physical: their guest-physical address
 * @mark_bytes: what they are
 * @number:  of the kernel, from 1 on, which KERNEL events name while page tables
 *           that map the mark are in force
 * @reserved: 0
 *
 * @wake:    of the function that wakes a task unless it is awake:
 *           try_to_wake_up(), with the task in RDI.  0: there are no WAKE events,
 *           and @waking, @wake_new and @waking_new are 0, too
 * @waking:  of the instructions in it that are executed when the task was not
 *           awake: from 1 to BTRAIL_TASKS_WAKING, the others are 0
 * @wake_new, @waking_new: the same of the function that has a new task run,
 *           wake_up_new_task(), which always does
 * @state, @on_queue, @delayed: offsets in a task: of its state (32 bits), of
 *           whether a vCPU's queue has it (8 bits), and of whether one has it
 *           although it is blocked (8 bits), which not all kernels have: then
 *           it is 0.  @state 0: BTRAIL_TASK_LEFT is not known, and the others
 *           are 0, too
 * @dead, @interruptible, @uninterruptible: bits in the state of a task
 *
 * All 0: no kernel is known from here on, as at the beginning.  Else @switch_to,
 * @set_name and @mark are addresses from BTRAIL_TASKS_MIN_ADDRESS on, the first
 * two of which differ.
 *
 * A message can describe several kernels, if the producer has
 * BTRAIL_ACCEPTS_NESTED: the first struct is the guest's own kernel, or all 0,
 * and the others, which have a @number, are those of its nested guests, while
 * these run.  Their @mark_physical is an address of the nested guest's memory,
 * and @mark is looked for through the nested page tables in force.
 *
 * To a producer that does not have BTRAIL_ACCEPTS_KERNELS the agent sends the
 * first BTRAIL_TASKS_SIZE_WITHOUT_KERNEL bytes.  A producer takes such a
 * message for a kernel that always runs, of which it sends no KERNEL events.
 * One that does not have BTRAIL_ACCEPTS_WAKES is sent the first
 * BTRAIL_TASKS_SIZE_WITHOUT_WAKES bytes of each, and a producer that has it
 * takes these, too.
 */
#define BTRAIL_TASKS_WAKING         4

struct btrail_tasks {
    uint64_t switch_to;
    uint64_t set_name;
    uint64_t current;
    uint32_t tid;
    uint32_t pid;
    uint32_t name;
    uint32_t task_flags;
    uint32_t flags;
    uint32_t kernel;
    uint64_t mark;
    uint64_t mark_physical;
    uint8_t mark_bytes[BTRAIL_TASKS_MARK];
    uint32_t number;
    uint32_t reserved;
    uint64_t wake;
    uint64_t waking[BTRAIL_TASKS_WAKING];
    uint64_t wake_new;
    uint64_t waking_new;
    uint32_t state;
    uint32_t on_queue;
    uint32_t delayed;
    uint32_t dead;
    uint32_t interruptible;
    uint32_t uninterruptible;
};

#define BTRAIL_TASKS_SIZE_WITHOUT_KERNEL    48
#define BTRAIL_TASKS_SIZE_WITHOUT_WAKES     136
#define BTRAIL_TASKS_MAX            5
#define BTRAIL_TASKS_MAX_NUMBER     65535
#define BTRAIL_TASKS_MAX_OFFSET     (64u << 10)
#define BTRAIL_TASKS_MIN_ADDRESS    UINT64_C(0xff00000000000000)
#define BTRAIL_TASKS_NAME           16

/**
 * btrail_tasks_size - how much of each struct btrail_tasks a message has
 * @accepts: what the producer accepts that it is sent to, BTRAIL_ACCEPTS_*
 */
static inline uint32_t btrail_tasks_size(uint32_t accepts)
{
    return accepts & BTRAIL_ACCEPTS_WAKES ? sizeof(struct btrail_tasks) :
           accepts & BTRAIL_ACCEPTS_KERNELS ? BTRAIL_TASKS_SIZE_WITHOUT_WAKES :
           BTRAIL_TASKS_SIZE_WITHOUT_KERNEL;
}

/**
 * btrail_tasks_size_in - the same, to a producer that accepts all
 * @size: of all that the message has
 *
 * Returns 0 if it cannot have that size.
 */
static inline uint32_t btrail_tasks_size_in(uint64_t size)
{
    const uint32_t whole = sizeof(struct btrail_tasks);
    const uint32_t part = BTRAIL_TASKS_SIZE_WITHOUT_WAKES;

    if (size && size % whole == 0 && size / whole <= BTRAIL_TASKS_MAX) {
        return whole;
    }
    if (size && size % part == 0 && size / part <= BTRAIL_TASKS_MAX) {
        return part;
    }
    return size == BTRAIL_TASKS_SIZE_WITHOUT_KERNEL ? size : 0;
}

/*
 * Memory: where the guest's RAM is
 *
 * A MEMORY message of reason BTRAIL_MEMORY_SHARED carries the file descriptor
 * of a memfd that holds the table (struct btrail_memory and its ranges), and
 * then those of the files that hold the ranges, all open for reading only.
 * Messages of other reasons carry none.  A table replaces the one before it,
 * as when RAM was plugged or unplugged.
 */
#define BTRAIL_MEMORY_MAX_RANGES    64
/* With the table, as many as QEMU sends in one message */
#define BTRAIL_MEMORY_MAX_FILES     15

enum btrail_memory_reason {
    BTRAIL_MEMORY_SHARED = 0,
    BTRAIL_MEMORY_PRIVATE = 1,  /* no RAM is in a file that others can read */
    BTRAIL_MEMORY_FAILED = 2,   /* a system call failed */
};

/**
 * struct btrail_memory - head of the table
 * @ranges:    how many follow, in the order of their addresses
 * @files:     file descriptors that came after that of the table
 * @note:      guest physical address of the VMCOREINFO note, an ELF note, and
 * @note_size: its size, as the guest has written it to the vmcoreinfo device; 0
 *             if it has not
 * @unshared:  bytes of the guest's RAM that are in none of the ranges, because
 *             they are private to QEMU, or there are too many ranges or files
 */
struct btrail_memory {
    uint32_t ranges;
    uint32_t files;
    uint64_t note;
    uint64_t note_size;
    uint64_t unshared;
};

/**
 * struct btrail_memory_range - guest physical memory that is in a file
 * @address: guest physical address
 * @size:    bytes
 * @offset:  in the file
 * @file:    which one, from 0
 */
struct btrail_memory_range {
    uint64_t address;
    uint64_t size;
    uint64_t offset;
    uint32_t file;
    uint32_t reserved;
};

#define BTRAIL_MSG_MAGIC            0x4d525442u /* "BTRM" */

struct btrail_msg {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t reason;
    uint32_t reserved;
    uint64_t value;
};

#ifdef __cplusplus
#define BTRAIL_STATIC_ASSERT static_assert
#else
#define BTRAIL_STATIC_ASSERT _Static_assert
#endif

BTRAIL_STATIC_ASSERT(sizeof(struct btrail_record) == 24, "record layout");
BTRAIL_STATIC_ASSERT(sizeof(struct btrail_event) == 40, "event layout");
BTRAIL_STATIC_ASSERT(sizeof(struct btrail_slab_desc) == 64, "slab desc layout");
BTRAIL_STATIC_ASSERT(sizeof(struct btrail_shm_vcpu) == 128, "vcpu layout");
BTRAIL_STATIC_ASSERT(sizeof(struct btrail_code_item) == 64, "item layout");
BTRAIL_STATIC_ASSERT(sizeof(struct btrail_shm_code) == 128, "code layout");
BTRAIL_STATIC_ASSERT(sizeof(struct btrail_shm_header) == 320, "header layout");
BTRAIL_STATIC_ASSERT(sizeof(struct btrail_msg) == 24, "message layout");
BTRAIL_STATIC_ASSERT(sizeof(struct btrail_tasks) == 216, "tasks layout");
BTRAIL_STATIC_ASSERT(sizeof(struct btrail_memory) == 32, "memory layout");
BTRAIL_STATIC_ASSERT(sizeof(struct btrail_memory_range) == 32,
                     "memory range layout");

#endif /* BACKTRAIL_TRANSPORT_H */
