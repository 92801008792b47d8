/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes: which one had a page table at some moment
 *
 * The file of --map comes first, then what snapshots found in the guest.  A
 * page table of which nothing is known makes a process that is named after it.
 */

#ifndef BTRAIL_PROCESSES_H
#define BTRAIL_PROCESSES_H

#include "backtrail/names.h"
#include "lib/agent/batch.h"
#include "symbolize/map-file.h"
#include "symbolize/thread-lives.h"

/* Names of tasks of the kernel that no event names */
#define NAME_TASK   "[kernel]"
#define NAME_IDLE   "swapper"

/**
 * struct process - the process that an address space belongs to, or a task
 *                  that ran in it
 * @cr3:     btrail_cr3_root() of the page table of the kernel
 * @pid:     -1 if it is not known
 * @tid:     of the task; of a process's only thread, if there certainly was no
 *           other; or -1
 * @comm:    its name, the last one of a process; without one, that of the
 *           address space
 * @known:   it has a name
 * @kernel:  it is a task of the kernel, which borrows the page table
 * @nested:  of a task, as in struct btrail_task
 * @owner:   the process that the address space belongs to.  It has the mappings
 *           and all that follows here, its tasks do not
 * @bits:    of the mode that its programs run in
 * @changes: how often mappings were added to @space, or could not be
 * @foreign: it runs while no kernel runs that is known: no kernel's symbols are
 *           its own
 * @late:    mappings of @seen are not in @space: they change too often
 * @seen:    as snapshots saw it last, or NULL
 * @who:     the same for a task in all address spaces that it runs in; a
 *           process itself
 */
struct process {
    uint64_t cr3;
    int64_t pid;
    int64_t tid;
    const char *comm;
    bool known;
    bool kernel;
    uint16_t nested;
    const struct process *who;
    const struct process *owner;
    unsigned id;
    unsigned bits;
    unsigned changes;
    bool foreign;
    bool late;
    struct address_space *space;
    const struct btrail_process *seen;
};

/**
 * struct symbolizer_where - a place in a stream
 * @time:   of the TIME event in force: host clock
 * @kernel: number of the kernel that ran; 0: the only one, or it is not said
 *          which; or SYMBOLIZER_NO_KERNEL
 * @leaves: the record goes to another kernel; see struct btrail_batch
 */
struct symbolizer_where {
    unsigned vcpu;
    uint64_t index;
    uint64_t cr3;
    uint64_t time;
    uint32_t kernel;
    bool leaves;
};

/* It is known that no kernel ran of which the trace knows anything. */
#define SYMBOLIZER_NO_KERNEL    UINT32_MAX

/* The number for struct symbolizer_where */
static inline uint32_t symbolizer_kernel(const struct btrail_kernel *kernel)
{
    return kernel->known && !kernel->number ? SYMBOLIZER_NO_KERNEL :
           kernel->number;
}

/* Where record @i of a batch is */
static inline struct symbolizer_where
symbolizer_at(unsigned vcpu, const struct btrail_batch *b, size_t i)
{
    return (struct symbolizer_where) {
        .vcpu = vcpu, .index = b->index + i, .cr3 = b->cr3,
        .time = b->time.host,
        .kernel = symbolizer_kernel(&b->kernel),
        .leaves = btrail_batch_leaves(b, i),
    };
}

struct processes;

/* All arguments can be NULL, and must outlive the result. */
struct processes *processes_new(struct map_file *map,
                                const struct btrail_names *names,
                                const struct btrail_owners *owners);
void processes_free(struct processes *p);

/* Finds the process whose page table was in force; see symbolizer_process(). */
const struct process *processes_find(struct processes *p,
                                     const struct symbolizer_where *where,
                                     enum btrail_certainty *certainty);

/* The idle task, or another task of the kernel, that borrows a page table */
const struct process *processes_borrower(struct processes *p,
                                         const struct process *owner,
                                         bool idle);

/*
 * A task that an event names.  The snapshots know its mappings if they have
 * found its process with this page table, at whatever time, or with another one
 * before, which it no longer has.
 */
const struct process *processes_task(struct processes *p,
                                     const struct symbolizer_where *where,
                                     const struct btrail_task *task);

/* Uses what is known of threads, for struct process's @tid. */
void processes_set_threads(struct processes *p,
                           const struct thread_lives *threads);

/* 32 or 64: the mode that the programs of a version of a process run in */
unsigned processes_bits(const struct btrail_process *seen);

/* A build-id in digits, in @buf; NULL if it is not known */
#define PROCESSES_BUILD_ID  (2 * BTRAIL_BUILD_ID_MAX + 1)
const char *processes_build_id(const struct btrail_mapping *mapping,
                               char buf[PROCESSES_BUILD_ID]);

/*
 * Where process @pid has code of no file, it is of the file with this path and
 * build-id, in digits, in which each function is at its address.  Before all
 * searches.
 */
void processes_set_compiled(struct processes *p, uint32_t pid,
                            const char *path, const char *build_id);

/*
 * A mapping of a version of a process for an address space.  Its strings live
 * as long as the processes and the names.
 */
struct mapping processes_mapping(struct processes *p,
                                 const struct btrail_process *seen,
                                 const struct btrail_mapping *mapping);

#endif /* BTRAIL_PROCESSES_H */
