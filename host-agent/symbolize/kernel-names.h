/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of the kernel's code, each for its time
 *
 * They come from the file of --map, which holds all the time, and from the
 * sideband of the trace, which says when it holds.  The file of --vmlinux goes
 * with one kernel of the trace, and there may be others.
 */

#ifndef BTRAIL_KERNEL_NAMES_H
#define BTRAIL_KERNEL_NAMES_H

#include "lib/agent/names-private.h"
#include "symbolize/address-space.h"
#include "symbolize/elf-file.h"

struct kernel_names;

/**
 * kernel_names_new
 * @stated: symbols of --map; belongs to the caller, as do all arguments
 * @names:  can be NULL
 */
struct kernel_names *kernel_names_new(struct address_space *stated,
                                      const struct btrail_names *names);
void kernel_names_free(struct kernel_names *k);

/**
 * kernel_names_set_vmlinux - use the ELF file of a kernel
 * @vmlinux: outlives the result
 * @path:    for messages
 *
 * False if it is not one of the kernels whose symbols the trace has.
 */
bool kernel_names_set_vmlinux(struct kernel_names *k, struct elf_file *vmlinux,
                              const char *path, GError **error);

/*
 * The ELF file of the kernel that ran, and the difference of addresses in the
 * guest to its own; NULL if there is none.
 */
struct elf_file *kernel_names_vmlinux(struct kernel_names *k, uint32_t kernel,
                                      uint64_t time, uint64_t *bias);

/* The ELF file, whichever kernel runs; or NULL */
const struct elf_file *kernel_names_file(const struct kernel_names *k);

/*
 * A number that is the same for moments at which the same names are known.  If
 * @last is not NULL, it gets the last one of such moments in a row.
 */
uint32_t kernel_names_era(struct kernel_names *k, uint32_t kernel,
                          uint64_t time, uint64_t *last);

/*
 * Finds the symbol of code at an address of the kernel.  Of several at one
 * address it is the one that the kernel itself prints.
 */
bool kernel_names_find(struct kernel_names *k, uint32_t kernel, uint64_t time,
                       uint64_t address, struct symbol *symbol);

/*
 * Can it be an address of a kernel?  From ADDRESS_SHARED on it is one; those of
 * a kernel of 32 bits are addresses that a process of another one can have.
 */
static inline bool kernel_names_may_have(uint64_t address)
{
    return address >= ADDRESS_SHARED ||
           (address >> 30 && address <= UINT32_MAX);
}

/**
 * struct kernel_start - an address at which a function begins
 * @kernel: number of the kernel that has it, at @from and up to @last
 * @always: ... or any kernel, at any time
 */
struct kernel_start {
    uint64_t address;
    uint64_t from;
    uint64_t last;
    uint32_t kernel;
    bool always;
};

/* Adds an address for a time; @era NULL: for all of it. */
void kernel_start_add(GArray *starts, uint64_t address,
                      const struct btrail_symbol_era *era);

/* Adds all of a function; the second takes only those that the trace has. */
void kernel_starts_traced(const struct btrail_names *names, const char *name,
                          GArray *starts);
void kernel_names_starts(struct kernel_names *k, const char *name,
                         GArray *starts);

/*
 * Finds symbols of the only kernel that the trace has symbols of, in one pass:
 * each of @n names at its place in @symbols, with 0 as start if there is none.
 * False if there are several kernels.
 */
bool kernel_names_all(struct kernel_names *k, const char *const *names,
                      size_t n, struct symbol *symbols);

#endif /* BTRAIL_KERNEL_NAMES_H */
