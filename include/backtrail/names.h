/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libbacktrail: names in a trace
 *
 * A trace of a Linux guest whose RAM was shared with the agent has snapshots: what
 * processes, threads and mappings there were at a moment, as found in the
 * guest's memory.  The conventions are those of trace.h.
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

/* Flags of a snapshot: it has all processes with an address space of their own. */
#define BTRAIL_SNAPSHOT_WHOLE           1u

/*
 * Flags of a process: of the kernel (it has no address space of its own);
 * some of it could not be read (what is there is right); it was only seen, and
 * for what is not there an earlier snapshot has to be asked.
 */
#define BTRAIL_PROCESS_KERNEL       1u
#define BTRAIL_PROCESS_PARTIAL      2u
#define BTRAIL_PROCESS_SEEN         4u

/* Flags of a mapping: as in /proc/PID/maps, and those of the last two kinds */
#define BTRAIL_MAPPING_READ         1u
#define BTRAIL_MAPPING_WRITE        2u
#define BTRAIL_MAPPING_EXEC         4u
#define BTRAIL_MAPPING_SHARED       8u
#define BTRAIL_MAPPING_FILE         16u
#define BTRAIL_MAPPING_DELETED      32u

/* Build-ids are no longer than this. */
#define BTRAIL_BUILD_ID_MAX         32

/**
 * struct btrail_mapping - a range of a process's address space
 * @start:         first address
 * @end:           first address behind it
 * @offset:        where in the file it begins, in bytes; 0 if there is no file
 * @flags:         BTRAIL_MAPPING_*
 * @path:          of the file, or a name such as "[vdso]", "[heap]" or
 *                 "[stack]"; "" if it has none.  Never NULL
 * @build_id:      of the file, NULL if it is not known
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
 * @vcpu:       the guest's CPU that ran it when it was looked at, or -1
 * @start_time: when it was made, by the guest's clock (nanoseconds since boot)
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
 * @pgd:        guest physical address of its page tables: CR3 in the bits of
 *              BTRAIL_CR3_ROOT.  Of a process of the kernel, those that it has
 *              borrowed, or 0
 * @user_pgd:   of those it has in user mode, if they are others (KPTI), or 0
 * @mm:         linear address of what the kernel knows the address space by;
 *              0 for a process of the kernel
 * @start_time: when it was made, by the guest's clock (nanoseconds since boot)
 * @first:      host clock at which it was first seen so
 * @last:       host clock at which it was last seen so: it was there in
 *              between, too, with these page tables
 * @flags:      BTRAIL_PROCESS_*
 * @pid:        what user programs call its pid (the kernel's tgid)
 * @parent:     pid of its parent, or 0
 * @comm:       its name; never NULL
 * @exe:        path of its program, or ""; never NULL
 * @command_line: arguments, each with a NUL behind it, as in /proc/PID/cmdline;
 *              there is one more NUL behind.  Never NULL
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
 * struct btrail_snapshot - what was found at a moment
 * @begin:     host clock at which looking began
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
 * btrail_snapshot_decode - make a snapshot of its bytes in a trace
 * @snapshot: gets it; free with btrail_snapshot_free()
 * @data: payload of a SIDEBAND chunk of kind PROCESSES
 * @size: bytes
 *
 * All that is in the snapshot belongs to it.
 *
 * Errors: ARGUMENT, CORRUPT.
 */
BTRAIL_API int btrail_snapshot_decode(struct btrail_snapshot **snapshot, const void *data,
                                  size_t size);

/**
 * btrail_snapshot_encode - make the bytes of a snapshot
 * @snapshot: what to encode
 * @data: gets the bytes; free with free()
 * @size: gets their number, at most BTRAIL_SNAPSHOT_SIZE
 *
 * Errors: ARGUMENT (it is larger than a snapshot can be, or has what cannot be in
 * one: addresses out of order, a path that is NULL).
 */
BTRAIL_API int btrail_snapshot_encode(const struct btrail_snapshot *snapshot, void **data,
                                  size_t *size);

/**
 * btrail_snapshot_free - free a snapshot
 * @snapshot: from btrail_snapshot_decode(), or NULL
 */
BTRAIL_API void btrail_snapshot_free(struct btrail_snapshot *snapshot);

/*
 * Who ran, and what is where
 */

struct btrail_names;

/**
 * enum btrail_certainty - how sure an answer is
 *
 * @BTRAIL_UNKNOWN: nothing is known; show "?"
 * @BTRAIL_LIKELY:  what is known points to this alone, and does not prove it
 * @BTRAIL_SURE:    it was so
 */
enum btrail_certainty {
    BTRAIL_UNKNOWN = 0,
    BTRAIL_LIKELY = 1,
    BTRAIL_SURE = 2,
};

/**
 * struct btrail_symbol - a symbol of the kernel or a module
 * @address: where it begins
 * @end:     where the next one begins, or what is known to be the end
 * @name:    its name
 * @module:  the module that has it, NULL if it is the kernel itself
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
 * btrail_names_open - read the names that a trace has
 * @names: gets the handle; free with btrail_names_close()
 * @trace: is not needed any more once this returns
 *
 * A trace without any has none, and that is no error: everything is unknown
 * then.  What is damaged is left out.
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
 * btrail_names_process - whose address space was it?
 * @names:   the names
 * @time:    CLOCK_MONOTONIC of the host: that of the TIME event in force, so
 *           that it may have been up to a tick later
 * @cr3:     CR3 in force; PCID and flags do not matter
 * @process: gets the process as it was found at the time nearest to this one,
 *           NULL if it is not known
 *
 * Page tables are used again once their process has ended.  So a process is
 * sure only between two moments at which it was seen with them, and one that
 * was never seen is unknown.  Likely is one after the last snapshot that there is,
 * or before the first; and, of several that share an address space, the oldest.
 *
 * What the kernel does with a CR3 may be for another process or for none: its
 * threads borrow the address space of whatever ran before.  With the kernel's
 * own page tables the process is the one with pid 0.
 */
BTRAIL_API enum btrail_certainty
btrail_names_process(const struct btrail_names *names, uint64_t time,
                     uint64_t cr3, const struct btrail_process **process);

/* Who owned which spans of a trace */
struct btrail_owners;

/**
 * btrail_owners_open - find out whose spans those of a trace are
 * @owners: gets the handle; free with btrail_owners_close() before the names
 * @trace:  the trace
 * @names:  its names
 *
 * Page tables in force are nobody else's until others are loaded.  So who was
 * seen to have them while a span lasted has had them for all of it, and for
 * spans of other vCPUs that overlap with it; what was made before a process
 * was first seen, and after it was last seen, becomes known.
 *
 * Goes through the events of the whole trace.  What is known of more than
 * 2^22 spans is left out.
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
 * btrail_owners_process - whose record was it?
 * @owners:  the owners
 * @vcpu:    the vCPU
 * @index:   of the record
 * @time:    CLOCK_MONOTONIC of the host: that of the TIME event in force
 * @cr3:     CR3 in force
 * @process: gets the process, as btrail_names_process() returns it
 *
 * It is sure if the span's owner is known; otherwise it is what
 * btrail_names_process() says.
 */
BTRAIL_API enum btrail_certainty
btrail_owners_process(const struct btrail_owners *owners, unsigned vcpu,
                      uint64_t index, uint64_t time, uint64_t cr3,
                      const struct btrail_process **process);

/**
 * btrail_names_last - a process as it was when it was seen last
 * @process: from btrail_names_process() or btrail_owners_process()
 *
 * What it is called changes while it lives; this is what it was called in the
 * end.  Returns NULL for NULL.
 */
BTRAIL_API const struct btrail_process *
btrail_names_last(const struct btrail_process *process);

/**
 * btrail_names_before - a process as it was when snapshots found it otherwise
 * @process: as from btrail_names_last()
 *
 * Returns what it was like before; NULL for the first, and for NULL.  So all
 * that was ever seen of a process comes up, with btrail_names_last() first.
 */
BTRAIL_API const struct btrail_process *
btrail_names_before(const struct btrail_process *process);

/**
 * btrail_names_mapping - what is mapped at an address of a process?
 * @names:   the names
 * @process: from btrail_names_process()
 * @time:    CLOCK_MONOTONIC of the host
 * @address: linear address
 * @mapping: gets the mapping, NULL if none is known
 *
 * It is sure if it was there before and after, likely if it was there before
 * or after and nothing else was that has code, and unknown otherwise.
 */
BTRAIL_API enum btrail_certainty
btrail_names_mapping(const struct btrail_names *names,
                     const struct btrail_process *process, uint64_t time,
                     uint64_t address,
                     const struct btrail_mapping **mapping);

/**
 * btrail_names_kernel_symbol - what symbol is an address of the kernel in?
 * @names:   the names
 * @time:    CLOCK_MONOTONIC of the host
 * @address: linear address
 * @symbol:  gets the last one that begins there or before; of several with one
 *           address the first
 *
 * Errors: ARGUMENT, END (there is none).
 */
BTRAIL_API int btrail_names_kernel_symbol(const struct btrail_names *names,
                                          uint64_t time, uint64_t address,
                                          struct btrail_symbol *symbol);

/**
 * btrail_names_symbol - all symbols of the kernel, one by one
 * @names:  the names
 * @i:      from 0 on, until there are no more
 * @symbol: gets it
 *
 * They come as often as they were read, the oldest first, each time in the
 * order of addresses, and those of one address in that of the table.
 *
 * Errors: ARGUMENT, END (there are no more).
 */
BTRAIL_API int btrail_names_symbol(const struct btrail_names *names, size_t i,
                                   struct btrail_symbol *symbol);

#ifdef __cplusplus
}
#endif

#endif /* BACKTRAIL_NAMES_H */
