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
#include "symbolize/map-file.h"
#include "symbolize/thread-lives.h"

/* Names of processes that stand for tasks of the kernel */
#define NAME_TASK   "[kernel]"
#define NAME_IDLE   "swapper"

/**
 * struct process - the process that an address space belongs to
 * @cr3:     bits of BTRAIL_CR3_ROOT of the page table of the kernel
 * @pid:     -1 if it is not known
 * @tid:     of its only thread, if there certainly was no other; or -1
 * @comm:    its last name; if it has none, that of the address space
 * @known:   it has a name
 * @bits:    of the mode that its programs run in
 * @changes: how often mappings were added to @space
 * @seen:    as snapshots saw it last, or NULL
 * @who:     the same for all address spaces that a task of the kernel borrows;
 *           otherwise the process itself
 */
struct process {
    uint64_t cr3;
    int64_t pid;
    int64_t tid;
    const char *comm;
    bool known;
    unsigned id;
    unsigned bits;
    unsigned changes;
    struct address_space *space;
    const struct btrail_process *seen;
    const struct process *who;
    struct process *borrowers[2];       /* see processes_borrower() */
};

/**
 * struct symbolizer_where - a place in a stream
 */
struct symbolizer_where {
    unsigned vcpu;
    uint64_t index;
    uint64_t cr3;
};

struct processes;

/* All arguments can be NULL, and must outlive the result. */
struct processes *processes_new(struct map_file *map,
                                const struct btrail_names *names,
                                const struct btrail_owners *owners);
void processes_free(struct processes *p);

/* Finds the process whose page table was in force; see symbolizer_process(). */
const struct process *processes_find(struct processes *p,
                                     const struct symbolizer_where *where,
                                     uint64_t time,
                                     enum btrail_certainty *certainty);

/* The time in the last call of processes_find() */
uint64_t processes_time(const struct processes *p);

/* The process for the idle or another kernel task that borrows a page table */
const struct process *processes_borrower(struct processes *p,
                                         const struct process *owner,
                                         bool idle);

/* Uses what is known of threads, for struct process's @tid. */
void processes_set_threads(struct processes *p,
                           const struct thread_lives *threads);

/* Adds a mapping to a space.  Returns false if the space has it already. */
bool processes_map(struct address_space *space,
                   const struct btrail_mapping *mapping);

#endif /* BTRAIL_PROCESSES_H */
