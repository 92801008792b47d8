/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libbacktrail: names in a trace
 *
 * A trace of a Linux guest whose RAM was shared with the agent has snapshots:
 * the processes, threads and mappings of the guest at one moment, as found in
 * its memory.  The conventions are those of trace.h.
 */

#ifndef BACKTRAIL_NAMES_H
#define BACKTRAIL_NAMES_H

#include "trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of a snapshot */
#define BTRAIL_SNAPSHOT_PROCESSES       (1u << 16)
#define BTRAIL_SNAPSHOT_THREADS         (1u << 18)
#define BTRAIL_SNAPSHOT_MAPPINGS        (1u << 20)
#define BTRAIL_SNAPSHOT_STRINGS         (1u << 20)
#define BTRAIL_SNAPSHOT_SIZE            (16u << 20)
/* Bytes of a name or a path: as many as a path of Linux has */
#define BTRAIL_SNAPSHOT_TEXT            4096

/* Flags of a snapshot: it has all processes that own an address space. */
#define BTRAIL_SNAPSHOT_WHOLE           1u

/*
 * Flags of a process: it is of the kernel, and has no address space of its own;
 * some of it could not be read, and the rest is right; it was only seen, and
 * an earlier snapshot has the rest; it is the guest's own word, and was not
 * found in memory.
 */
#define BTRAIL_PROCESS_KERNEL       1u
#define BTRAIL_PROCESS_PARTIAL      2u
#define BTRAIL_PROCESS_SEEN         4u
#define BTRAIL_PROCESS_TOLD         8u

/* Flags of a mapping: as in /proc/PID/maps; the last two are of its file */
#define BTRAIL_MAPPING_READ         1u
#define BTRAIL_MAPPING_WRITE        2u
#define BTRAIL_MAPPING_EXEC         4u
#define BTRAIL_MAPPING_SHARED       8u
#define BTRAIL_MAPPING_FILE         16u
#define BTRAIL_MAPPING_DELETED      32u

/* The longest build-id, in bytes */
#define BTRAIL_BUILD_ID_MAX         32

/**
 * struct btrail_mapping - a range of a process's address space
 * @start:         first address
 * @end:           first address after it
 * @offset:        where in the file it begins, in bytes; 0 without a file
 * @flags:         BTRAIL_MAPPING_*
 * @path:          of the file, or a name such as "[vdso]", "[heap]" or
 *                 "[stack]"; "" without a name.  Never NULL
 * @build_id:      of the file, NULL if it is unknown
 * @build_id_size: bytes
 */
struct btrail_mapping {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint32_t flags;
    uint32_t build_id_size;
    const char *path;
    const uint8_t *build_id;
};

/**
 * struct btrail_thread - a thread of a process
 * @tid:        its number; that of the first one is the process's pid
 * @vcpu:       the guest's CPU that ran it when it was read, or -1
 * @start_time: when it was created, by the guest's clock (nanoseconds since
 *              boot)
 * @comm:       its name; never NULL
 */
struct btrail_thread {
    uint32_t tid;
    int32_t vcpu;
    uint64_t start_time;
    const char *comm;
};

/**
 * struct btrail_process - a process, from its last exec on
 * @pgd:        guest physical address of its page tables, as btrail_cr3_root()
 *              has it.  For a process of the kernel, those that it borrowed, or 0
 * @user_pgd:   the same of its page tables in user mode, if they are others
 *              (KPTI), or 0
 * @mm:         linear address of the kernel's mm_struct; 0 for a process of the
 *              kernel
 * @start_time: when it was created, by the guest's clock (nanoseconds since
 *              boot)
 * @first:      host clock at which it was first seen with these page tables
 * @last:       host clock at which it was last seen with them; it had them all
 *              the time in between
 * @flags:      BTRAIL_PROCESS_*
 * @pid:        what user programs call its pid (the kernel's tgid)
 * @parent:     pid of its parent, or 0
 * @kernel:     number of the kernel that it is of, as in KERNEL events, or 0; of
 *              what a trace has
 * @comm:       its name; never NULL
 * @exe:        path of its program, or ""; never NULL
 * @command_line: arguments, each with a NUL after it, as in /proc/PID/cmdline,
 *              and one more NUL at the end.  Never NULL
 * @command_line_size: bytes
 * @threads:    its threads, in the order of their tids
 * @mappings:   its mappings, in the order of their addresses
 *
 * A process is the same one, with the same address space, if @pid,
 * @start_time, @mm, @pgd and @user_pgd are the same.
 */
struct btrail_process {
    uint64_t pgd;
    uint64_t user_pgd;
    uint64_t mm;
    uint64_t start_time;
    uint64_t first;
    uint64_t last;
    uint32_t flags;
    uint32_t pid;
    uint32_t parent;
    uint32_t kernel;
    uint32_t command_line_size;
    const char *comm;
    const char *exe;
    const char *command_line;
    uint32_t n_threads;
    uint32_t n_mappings;
    struct btrail_thread *threads;
    struct btrail_mapping *mappings;
};

/**
 * struct btrail_snapshot - what was found in the guest at one moment
 * @begin:     host clock at which the scan began
 * @end:       host clock at which it ended
 * @flags:     BTRAIL_SNAPSHOT_*
 * @n:         number of processes
 * @processes: the processes
 */
struct btrail_snapshot {
    uint64_t begin;
    uint64_t end;
    uint32_t flags;
    uint32_t n;
    struct btrail_process *processes;
};

/**
 * btrail_snapshot_decode - decode a snapshot from its bytes in a trace
 * @snapshot: gets it; free with btrail_snapshot_free(), which also frees all
 *            that it points to
 * @data: payload of a SIDEBAND chunk of kind PROCESSES
 * @size: bytes
 *
 * Errors: ARGUMENT, CORRUPT.
 */
BTRAIL_API int btrail_snapshot_decode(struct btrail_snapshot **snapshot,
                                      const void *data, size_t size);

/**
 * btrail_snapshot_encode - encode a snapshot for a trace
 * @snapshot: what to encode
 * @data: gets the bytes; free with free()
 * @size: gets their number, at most BTRAIL_SNAPSHOT_SIZE
 *
 * Errors: ARGUMENT (it is too large, or invalid: addresses out of order, a path
 * that is NULL or too long).
 */
BTRAIL_API int btrail_snapshot_encode(const struct btrail_snapshot *snapshot,
                                      void **data, size_t *size);

/**
 * btrail_snapshot_free - free a snapshot
 * @snapshot: from btrail_snapshot_decode(), or NULL
 */
BTRAIL_API void btrail_snapshot_free(struct btrail_snapshot *snapshot);

/*
 * The process that ran, and the mapping or symbol at an address
 */

struct btrail_names;

/**
 * enum btrail_certainty - how sure an answer is
 *
 * @BTRAIL_UNKNOWN: nothing is known; show "?"
 * @BTRAIL_LIKELY:  what is known points only to this, and does not prove it
 * @BTRAIL_SURE:    it is proved
 */
enum btrail_certainty {
    BTRAIL_UNKNOWN = 0,
    BTRAIL_LIKELY = 1,
    BTRAIL_SURE = 2,
};

/**
 * struct btrail_symbol - a symbol of the kernel or a module
 * @address: where it begins
 * @end:     where the next one begins, or its own end if that is known
 * @name:    its name
 * @module:  the module that has it, NULL for the kernel itself
 * @type:    as in /proc/kallsyms
 */
struct btrail_symbol {
    uint64_t address;
    uint64_t end;
    const char *name;
    const char *module;
    char type;
};

/**
 * struct btrail_syscall - a system call of Linux
 * @bits:    32 or 64: of the programs that call it by this number
 * @number:  as in <asm/unistd_32.h> and <asm/unistd_64.h>
 * @numbers: how many numbers of this width its function has: many, if it stands
 *           for all that are not in use
 */
struct btrail_syscall {
    uint32_t bits;
    uint32_t number;
    uint32_t numbers;
};

/**
 * btrail_names_open - read the names that a trace has
 * @names: gets the handle; free with btrail_names_close()
 * @trace: is no longer needed when this returns
 *
 * A trace without names is not an error: everything is unknown then.  Damaged
 * pieces are left out, and so are pieces from the time on at which there are
 * more than a trace of this size should have.
 *
 * Errors: ARGUMENT, IO, MEMORY.
 */
BTRAIL_API int btrail_names_open(struct btrail_names **names,
                                 const struct btrail_trace *trace);

/**
 * btrail_names_close - free the names and all that they have returned
 * @names: from btrail_names_open(), or NULL
 */
BTRAIL_API void btrail_names_close(struct btrail_names *names);

/**
 * btrail_names_process - find the process of an address space
 * @names:   the names
 * @time:    CLOCK_MONOTONIC of the host, of the TIME event in force; the record
 *           may have been made up to a tick later
 * @cr3:     CR3 in force; PCID and flags do not matter
 * @process: gets the process as it was found at the time nearest to this one,
 *           NULL if it is unknown
 *
 * Page tables are used again after their process has ended.  So a process is
 * sure only between two moments at which it was seen with them, and one that
 * was never seen is unknown.  After the last snapshot, or before the first one,
 * a process is likely; of several that share an address space, the oldest is.
 * What only the guest itself has said is likely at best.
 *
 * After a kernel has ended, and before the next one was found, all processes are
 * unknown (BTRAIL_SIDEBAND_ENDED).
 *
 * What the kernel does with a CR3 may be for another process or for none: its
 * threads borrow the address space of the process that ran before.  With the
 * kernel's own page tables the process is the one with pid 0.
 */
BTRAIL_API enum btrail_certainty
btrail_names_process(const struct btrail_names *names, uint64_t time,
                     uint64_t cr3, const struct btrail_process **process);

/* The owners of the spans of a trace */
struct btrail_owners;

/**
 * btrail_owners_open - find the processes that own the spans of a trace
 * @owners: gets the handle; free with btrail_owners_close() before the names
 * @trace:  the trace
 * @names:  its names
 *
 * Page tables in force do not change their process until others are loaded.  So
 * a process that a snapshot found with them during a span had them for the
 * whole span, and for spans of other vCPUs that overlap with it.  This names
 * records from before the process was first seen, and from after it was last
 * seen.
 *
 * Reads the events of the whole trace.  Leaves out spans beyond the first 2^22.
 *
 * Errors: ARGUMENT, IO, MEMORY.
 */
BTRAIL_API int btrail_owners_open(struct btrail_owners **owners,
                                  const struct btrail_trace *trace,
                                  const struct btrail_names *names);

/**
 * btrail_owners_close - free the owners
 * @owners: from btrail_owners_open(), or NULL
 */
BTRAIL_API void btrail_owners_close(struct btrail_owners *owners);

/**
 * btrail_owners_process - find the process that made a record
 * @owners:  the owners
 * @vcpu:    the vCPU
 * @index:   of the record
 * @time:    CLOCK_MONOTONIC of the host: that of the TIME event in force
 * @cr3:     CR3 in force
 * @process: gets the process, as btrail_names_process() returns it
 *
 * The answer is sure if the span's owner is known; otherwise it is that of
 * btrail_names_process().
 */
BTRAIL_API enum btrail_certainty
btrail_owners_process(const struct btrail_owners *owners, unsigned vcpu,
                      uint64_t index, uint64_t time, uint64_t cr3,
                      const struct btrail_process **process);

/**
 * btrail_names_last - get a process as it was when it was last seen
 * @process: from btrail_names_process() or btrail_owners_process()
 *
 * The name of a process changes while it lives; this has the last name.
 * Returns NULL for NULL.
 */
BTRAIL_API const struct btrail_process *
btrail_names_last(const struct btrail_process *process);

/**
 * btrail_names_before - get a process as it was before its last change
 * @process: as from btrail_names_last()
 *
 * Returns NULL for the first version, and for NULL.  Begin with
 * btrail_names_last() to get all versions that snapshots have found.
 */
BTRAIL_API const struct btrail_process *
btrail_names_before(const struct btrail_process *process);

/**
 * btrail_names_mapping - find the mapping at an address of a process
 * @names:   the names
 * @process: from btrail_names_process()
 * @time:    CLOCK_MONOTONIC of the host
 * @address: linear address
 * @mapping: gets the mapping, NULL if none is known
 *
 * The mapping is sure if it existed before and after @time.  It is likely if it
 * existed before or after, and no other mapping with code did.  Otherwise it is
 * unknown.
 */
BTRAIL_API enum btrail_certainty
btrail_names_mapping(const struct btrail_names *names,
                     const struct btrail_process *process, uint64_t time,
                     uint64_t address,
                     const struct btrail_mapping **mapping);

/**
 * btrail_names_kernel_symbol - find the symbol of an address of the kernel
 * @names:   the names
 * @time:    CLOCK_MONOTONIC of the host, as for btrail_names_process()
 * @address: linear address
 * @symbol:  gets the last one that begins at or before @address; of several at
 *           the same address, the one that the kernel itself prints: the first
 *           of its table
 *
 * Symbols of the kernel itself hold as long as it runs.  Those of modules and
 * of other code that comes and goes hold from the time at which they were read
 * up to the last one at which they were found unchanged.  Between that and the
 * next time that they were read only those are known that did not change.  What
 * is after the end of a symbol has none.
 *
 * Errors: ARGUMENT, END (there is none, or it is not known).
 */
BTRAIL_API int btrail_names_kernel_symbol(const struct btrail_names *names,
                                          uint64_t time, uint64_t address,
                                          struct btrail_symbol *symbol);

/**
 * btrail_names_syscall - find the system call that a function of the kernel is
 * @names:   the names
 * @kernel:  number of the kernel that ran; 0: the only one, or it is not said
 *           which
 * @time:    CLOCK_MONOTONIC of the host
 * @address: linear address at which the function begins
 * @syscall: gets the system call; of several, that of 64 bits with the lowest
 *           number
 *
 * Errors: ARGUMENT, END (it is none, or the kernel's tables are not known).
 */
BTRAIL_API int btrail_names_syscall(const struct btrail_names *names,
                                    uint32_t kernel, uint64_t time,
                                    uint64_t address,
                                    struct btrail_syscall *syscall);

/**
 * btrail_names_symbol - get all symbols of the kernel, one by one
 * @names:  the names
 * @i:      from 0 on, until there are no more
 * @symbol: gets the symbol
 *
 * Symbols come once for each time over which they held.  Those of the kernel
 * itself come together, and so do those of a module, in the order of addresses;
 * those of one address in the order of the table.
 *
 * Errors: ARGUMENT, END (there are no more).
 */
BTRAIL_API int btrail_names_symbol(const struct btrail_names *names, size_t i,
                                   struct btrail_symbol *symbol);

#ifdef __cplusplus
}
#endif

#endif /* BACKTRAIL_NAMES_H */
