/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places: the module, function, line and bytes of code at an address
 */

#ifndef BTRAIL_PLACES_H
#define BTRAIL_PLACES_H

#include "symbolize/elf-files.h"
#include "symbolize/kernel-names.h"
#include "symbolize/processes.h"
#include "util/closest.h"
#include "util/function-name.h"

#define NAME_UNKNOWN    "[unknown]"
#define NAME_KERNEL     "[kernel.kallsyms]"

/**
 * struct module - a file that has code, or another source of code; files of the
 *                 same path can be several
 * @name: without folders; modules of the kernel are in brackets
 * @path: in the guest
 * @build_id: in digits; NULL if not known
 * @elf:  the file on the host, or NULL
 * @bits: of the mode that its code runs in
 */
struct module {
    const char *name;
    const char *path;
    const char *build_id;
    struct elf_file *elf;
    unsigned bits;
    bool kernel;
    GHashTable *functions;
};

/**
 * struct function
 * @name:  as people read it: demangled, unless they do not want that
 * @brief: the same without parameters; NULL if @name has none
 * @symbol: as it is in the file
 * @start: in the module, see struct place
 * @end:   after it; UINT64_MAX if not known, as of the last symbol of all
 * @known: false if this stands for all code of a module without a name
 * @syscall: name of the system call of Linux that it is, or NULL
 */
struct function {
    const char *name;
    const char *brief;
    const char *symbol;
    const char *syscall;
    struct module *module;
    uint64_t start;
    uint64_t end;
    bool known;
};

/**
 * struct place - what is known of an address
 * @address: in the module: in its ELF file, or of the guest if there is none
 * @offset:  from the function's start
 */
struct place {
    const struct function *function;
    uint64_t address;
    uint64_t offset;
};

struct places;
struct content_mappings;

/**
 * places_new
 * @files:     belongs to the caller, as do all arguments
 * @kernel:    names of the kernel's code
 * @shared:    mappings of all address spaces
 * @names:     can be NULL
 * @processes: for the mappings of processes
 * @contents:  mappings that nothing else shows; can be NULL
 * @mangled:   names of functions are as in their files
 */
struct places *places_new(struct elf_files *files,
                          struct kernel_names *kernel,
                          struct address_space *shared,
                          const struct btrail_names *names,
                          struct processes *processes,
                          struct content_mappings *contents, bool mangled);
void places_free(struct places *p);

/* Finds the place of an address; see symbolizer_place(). */
void places_find(struct places *p, const struct process *process,
                 const struct symbolizer_where *where, uint64_t address,
                 struct place *place);

/* The same of an address in a module */
void places_find_in(struct places *p, const struct symbolizer_where *where,
                    struct module *module, uint64_t address,
                    struct place *place);

/* Does somebody mean a function by a name?  See function_name_is(). */
static inline bool function_is(const struct function *f, const char *name)
{
    return f->name == f->symbol ? function_name_is(f->symbol, name) :
           function_name_is_known(f->symbol, f->name, name);
}

/* Offers a function as what somebody may have meant. */
void function_offer(const struct function *f, struct closest *c);

/* The place of an address in the kernel that has no name */
void places_unknown(struct places *p, uint64_t address, struct place *place);

/**
 * places_files - the files on the host that are mapped in a process
 * @address: of a mapping that counts, too, whatever is known of the others
 * @fn:      is called with each mapping of code whose file was found; @bias is
 *           the difference between its addresses in the guest and in the file
 */
typedef void places_file_fn(void *opaque, const struct mapping *mapping,
                            uint64_t bias);
void places_files(struct places *p, const struct process *process,
                  const struct symbolizer_where *where, uint64_t address,
                  places_file_fn *fn, void *opaque);

/*
 * Adds the addresses (uint64_t) at which functions of a name begin in files
 * that a version of a process has mapped.
 */
void places_starts_in(struct places *p, const struct btrail_process *version,
                      const char *name, GArray *addresses);

/*
 * Calls a function with each file that a version of a process has code of, or
 * NULL for one that is not known.
 */
typedef void places_elf_fn(void *opaque, struct elf_file *elf);
void places_elfs_in(struct places *p, const struct btrail_process *version,
                    places_elf_fn *fn, void *opaque);

/*
 * Reads bytes of code at an address from the file that is mapped there.
 * Returns their number, at most @n.
 */
size_t places_read(struct places *p, const struct process *process,
                   const struct symbolizer_where *where, uint64_t address,
                   void *buf, size_t n);

/* The same of bytes that the process cannot have changed: code and constants of
 * a program */
size_t places_read_constant(struct places *p, const struct process *process,
                            const struct symbolizer_where *where,
                            uint64_t address, void *buf, size_t n);

#endif /* BTRAIL_PLACES_H */
