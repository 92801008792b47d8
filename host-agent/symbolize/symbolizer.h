/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From addresses to names: process, module, function and line
 *
 * The names come from, in this order: the file of --map, the sideband of the
 * trace, ELF files on the host.  What has no name is called "[unknown]", or by
 * its address space.
 *
 * One thread at a time uses a symbolizer.  All that it returns lives as long
 * as the symbolizer; equal things have equal addresses.
 */

#ifndef BTRAIL_SYMBOLIZER_H
#define BTRAIL_SYMBOLIZER_H

#include "symbolize/places.h"

struct symbolizer;

/**
 * struct task - the task that ran
 * @process: the task, if an event names it.  Otherwise it is often the process
 *           whose page table was in force; tasks of the kernel are called
 *           NAME_TASK, and the idle task NAME_IDLE
 * @tid:     of a task that an event names; or -1
 * @nested:  as in struct btrail_task
 * @user:    how sure it is for records of user mode
 * @kernel:  the same for the other records
 * @where:   its first record
 * @era:     see symbolizer_era(); the same for all its records
 *
 * A task of the kernel borrows the page table of the process that ran before
 * it.  Without events, the functions that the kernel calls when it switches
 * show which one ran.
 */
struct task {
    const struct process *process;
    int64_t tid;
    uint16_t nested;
    enum btrail_certainty user;
    enum btrail_certainty kernel;
    struct symbolizer_where where;
    uint32_t era;
};

/* Is it the same task?  Each kernel counts its tasks from 1. */
static inline bool task_is_same(const struct task *a, const struct task *b)
{
    return a->tid == b->tid && a->nested == b->nested &&
           a->where.kernel == b->where.kernel;
}

/**
 * struct symbolizer_options - each can be NULL, or false
 * @map:     path of the file of --map
 * @vmlinux: path of the guest's kernel, an ELF file on the host
 * @files:   folders with ELF files
 * @mangled: names of functions are as in their files
 */
struct symbolizer_options {
    const char *map;
    const char *vmlinux;
    struct elf_files_options files;
    bool mangled;
};

/**
 * symbolizer_new
 * @trace: a trace that outlives the symbolizer, for its sideband; can be NULL
 *
 * Returns NULL with an error if a file of @options cannot be read.
 */
struct symbolizer *symbolizer_new(const struct symbolizer_options *options,
                                  const struct btrail_trace *trace,
                                  GError **error);
void symbolizer_free(struct symbolizer *s);

/*
 * What the trace has more of than its size allows, so that some of it is left
 * out; NULL if nothing is
 */
const char *symbolizer_left_out(const struct symbolizer *s);

/**
 * symbolizer_process - the process whose page table was in force
 * @certainty: gets how sure the result is
 *
 * With page table isolation, the page table that a process has in user mode is
 * the process's as well.
 */
const struct process *symbolizer_process(struct symbolizer *s,
                                         const struct symbolizer_where *where,
                                         enum btrail_certainty *certainty);

/**
 * symbolizer_part - the next part of a batch that one task has made
 * @b:    a batch of records
 * @part: the part before; with a count of 0 for the first part
 *
 * Returns false after the last part.  The first call searches the whole trace
 * for task switches, if the kernel's functions for them are known.
 */
bool symbolizer_part(struct symbolizer *s, unsigned vcpu,
                     const struct btrail_batch *b, struct btrail_batch *part,
                     struct task *task);

/*
 * A number that is the same for places with the same names of the kernel's
 * code: modules come and go, and so do kernels.  Records that leave a kernel
 * have others.
 */
uint32_t symbolizer_era(struct symbolizer *s,
                        const struct symbolizer_where *where);

/*
 * Finds the place of a process's address, as it is known at @where: its time
 * and its kernel count.  @place->function is never NULL.
 */
void symbolizer_place(struct symbolizer *s, const struct process *process,
                      const struct symbolizer_where *where, uint64_t address,
                      struct place *place);

/* The same of an address in a module, which is mapped there */
void symbolizer_place_in(struct symbolizer *s,
                         const struct symbolizer_where *where,
                         struct module *module, uint64_t address,
                         struct place *place);

/* The same of what the record at @where goes to, which can be another kernel */
void symbolizer_target(struct symbolizer *s, const struct process *process,
                       const struct symbolizer_where *where, uint64_t to,
                       struct place *place);

/*
 * The same for all records from @where up to a time: what it is called differs
 * between them if it has no name.
 */
void symbolizer_place_until(struct symbolizer *s,
                            const struct process *process,
                            const struct symbolizer_where *where,
                            uint64_t until, uint64_t address,
                            struct place *place);

/* What the sideband of the trace says; NULL if there is none */
const struct btrail_names *symbolizer_names(const struct symbolizer *s);

/* Do the names of processes come from the file of --map, too? */
bool symbolizer_has_map(const struct symbolizer *s);

/*
 * Add the addresses at which functions of a name begin: of the kernel, as
 * struct kernel_start; and of programs, see places_starts_in().
 */
void symbolizer_starts(struct symbolizer *s, const char *name,
                       GArray *starts);
void symbolizer_starts_in(struct symbolizer *s,
                          const struct btrail_process *version,
                          const char *name, GArray *addresses);

/* The files of a version of a process; see places_elfs_in(). */
void symbolizer_elfs_in(struct symbolizer *s,
                        const struct btrail_process *version,
                        places_elf_fn *fn, void *opaque);

/* The files on the host that are mapped in a process; see places_files(). */
void symbolizer_files(struct symbolizer *s, const struct process *process,
                      const struct symbolizer_where *where, uint64_t address,
                      places_file_fn *fn, void *opaque);

/* Finds the source line of a place; false if it is not known. */
bool symbolizer_line(struct symbolizer *s, const struct place *place,
                     const char **file, unsigned *line);

/**
 * symbolizer_code - read the bytes of instructions
 * @where: place of the record that follows them
 * @exact: gets true if these bytes were executed; false if they are from the
 *         file of a kernel, which changes its code when it boots and later
 *
 * The bytes are those that were captured, or else those of the file.  Returns
 * their number, at most @n.
 */
size_t symbolizer_code(struct symbolizer *s, const struct process *process,
                       const struct symbolizer_where *where,
                       uint64_t address, void *buf, size_t n,
                       bool *exact);

/*
 * Reads bytes that the process cannot have changed: code and constants of the
 * files that it has mapped.  Returns their number.
 */
size_t symbolizer_constant(struct symbolizer *s, const struct process *process,
                           const struct symbolizer_where *where,
                           uint64_t address, void *buf, size_t n);

/* The code that was captured; NULL if it cannot be read */
struct btrail_code *symbolizer_captured(const struct symbolizer *s);

/* Was the byte at an address captured, so that it is from no file? */
bool symbolizer_code_captured(const struct symbolizer *s,
                              const struct symbolizer_where *where,
                              uint64_t address);

/*
 * The first record of the vCPU after @where from which on symbolizer_code()
 * can return other bytes that were captured; UINT64_MAX if there is none
 */
uint64_t symbolizer_code_until(const struct symbolizer *s,
                               const struct symbolizer_where *where,
                               uint64_t address, size_t n);

/*
 * A number of the bytes that were captured of the page of an address: other
 * bytes have another one.  0 if there are none.
 */
uint64_t symbolizer_code_content(const struct symbolizer *s,
                                 const struct symbolizer_where *where,
                                 uint64_t address);

/* The records of the vCPU around @where among which no captured page changes */
struct btrail_code_stretch
symbolizer_code_stretch(const struct symbolizer *s,
                        const struct symbolizer_where *where);

/* 16, 32 or 64: the mode that code at an address runs in */
unsigned symbolizer_bits(struct symbolizer *s, const struct process *process,
                         const struct symbolizer_where *where,
                         uint64_t address);

#endif /* BTRAIL_SYMBOLIZER_H */
