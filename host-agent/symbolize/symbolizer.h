/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From addresses to names: who ran, in which module, function and line
 *
 * What is asked for comes from, in this order: the file of --map, the sideband
 * of the trace, ELF files on the host.  What nobody knows has a name, too:
 * "[unknown]", or that of the address space.
 *
 * A symbolizer is used by one thread at a time.  All that it returns lives as
 * long as itself; equal things are at equal addresses.
 */

#ifndef BTRAIL_SYMBOLIZER_H
#define BTRAIL_SYMBOLIZER_H

#include <glib.h>

#include "backtrail/names.h"
#include "symbolize/address-space.h"
#include "symbolize/elf-files.h"

#define NAME_UNKNOWN    "[unknown]"
#define NAME_KERNEL     "[kernel.kallsyms]"

/**
 * struct module - a file that code is of, or what else there is
 * @name: without folders; of the kernel's modules in brackets
 * @path: in the guest
 * @elf:  the file on the host, or NULL
 * @bits: of the mode that its code runs in
 */
struct module {
    const char *name;
    const char *path;
    struct elf_file *elf;
    unsigned bits;
    bool kernel;
    unsigned id;
    GHashTable *functions;
};

/**
 * struct function
 * @start: in the module, see struct place
 * @known: false if this is all of a module that has no name
 */
struct function {
    const char *name;
    struct module *module;
    uint64_t start;
    bool known;
    unsigned id;
};

/**
 * struct place - what is known of an address
 * @address:  in the module: in its ELF file, or of where that is unknown
 * @offset:   from the function's start
 */
struct place {
    const struct function *function;
    uint64_t address;
    uint64_t offset;
};

/**
 * struct process - who has an address space
 * @cr3:  in the bits of BTRAIL_CR3_ROOT, of the page tables of the kernel
 * @pid:  -1 if it is not known
 * @tid:  of its only thread, if it is sure that there was no other; or -1
 * @comm: its name, as it was when it was seen last; or, if it has none, that
 *        of the address space
 * @known: it has a name
 * @who:  the same for all address spaces that a task of the kernel borrows;
 *        otherwise the process itself
 */
struct process {
    uint64_t cr3;
    int64_t pid;
    int64_t tid;
    const char *comm;
    bool known;
    unsigned id;
    unsigned bits;              /* of the mode its programs run in */
    struct address_space *space;
    const struct btrail_process *seen;  /* as it was seen last */
    const struct process *who;
    struct process *borrowers[2];       /* if they were asked for */
};

struct symbolizer;

/**
 * struct symbolizer_options - all of it can be NULL
 * @map:     file of --map
 * @vmlinux: the guest's kernel as an ELF file on the host
 * @files:   where ELF files are
 */
struct symbolizer_options {
    const char *map;
    const char *vmlinux;
    struct elf_files_options files;
};

/**
 * symbolizer_new
 * @trace: with its sideband; must outlive the symbolizer; NULL for none
 *
 * NULL and an error if a file that was named cannot be read.
 */
struct symbolizer *symbolizer_new(const struct symbolizer_options *options,
                                  const struct btrail_trace *trace,
                                  GError **error);
void symbolizer_free(struct symbolizer *s);

/* Are there any names? */
bool symbolizer_has_names(const struct symbolizer *s);

/**
 * struct symbolizer_where - a place in a stream
 */
struct symbolizer_where {
    unsigned vcpu;
    uint64_t index;
    uint64_t cr3;
};

/*
 * Whose page tables were in force there, at a moment of the host's clock?
 * Those that a process has in user mode beside those of the kernel are the
 * process's, too.
 */
const struct process *symbolizer_process(struct symbolizer *s,
                                         const struct symbolizer_where *where,
                                         uint64_t time,
                                         enum btrail_certainty *certainty);

/**
 * struct task - who ran
 * @process: who: often, but not always, whose page tables were in force; tasks
 *           of the kernel are called NAME_TASK, and the idle task NAME_IDLE
 * @user, @kernel: how sure that is of records of user mode, of the others
 */
struct task {
    const struct process *process;
    enum btrail_certainty user;
    enum btrail_certainty kernel;
};

#define NAME_TASK   "[kernel]"
#define NAME_IDLE   "swapper"

/**
 * symbolizer_part - the next part of a batch that one task has made
 * @b:    a batch of records
 * @part: at first with a count of 0; the part before
 *
 * Returns false if there is no more.  The first call goes through the whole
 * trace for switches of tasks, if it can be found out where they are.
 */
bool symbolizer_part(struct symbolizer *s, unsigned vcpu,
                     const struct btrail_batch *b, struct btrail_batch *part,
                     struct task *task);

/* What is at an address of a process?  @place->function is never NULL. */
void symbolizer_place(struct symbolizer *s, const struct process *process,
                      uint64_t address, struct place *place);

/* Its line; false if it is not known */
bool symbolizer_line(struct symbolizer *s, const struct place *place,
                     const char **file, unsigned *line);

/**
 * symbolizer_code - the bytes of instructions
 * @where: of the record that comes next
 * @exact: gets if they are what was executed; otherwise they are those of the
 *         file, which a kernel changes when it boots and later
 *
 * As they were captured; else, as they are in the file.  Returns how many
 * there are, at most @n.
 */
size_t symbolizer_code(struct symbolizer *s, const struct process *process,
                       const struct symbolizer_where *where,
                       uint64_t address, void *buf, size_t n,
                       bool *exact);

/* 16, 32 or 64, of the mode that code at an address runs in */
unsigned symbolizer_bits(struct symbolizer *s, const struct process *process,
                         uint64_t address);

#endif /* BTRAIL_SYMBOLIZER_H */
