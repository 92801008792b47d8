/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Symbols of the kernel and its modules over time
 *
 * Each table is what a kernel had at one moment.  What modules have comes and
 * goes; what the kernel itself has stays as long as the kernel does.  The time
 * of each kernel falls into eras: all over one, the same symbols are known.
 *
 * Tables are mostly alike, so what they have in common is kept once.
 */

#ifndef BTRAIL_KERNEL_SYMBOLS_H
#define BTRAIL_KERNEL_SYMBOLS_H

#include "backtrail/names.h"

struct btrail_kernel_symbols;

/**
 * struct btrail_symbol_era - a time of a kernel
 * @number: no other era has it; 0 if no symbols are known
 * @kernel: number of the kernel
 * @own:    number of what the kernel itself has, from 0 on, below
 *          btrail_kernel_symbols_owns(); UINT32_MAX if it is not known
 * @from:   when it begins
 * @last:   the last moment of it
 */
struct btrail_symbol_era {
    uint32_t number;
    uint32_t kernel;
    uint32_t own;
    uint64_t from;
    uint64_t last;
};

struct btrail_kernel_symbols *btrail_kernel_symbols_new(void);
void btrail_kernel_symbols_free(struct btrail_kernel_symbols *ks);

/*
 * Adds what was read at @time, text as in /proc/kallsyms.  Tables are added in
 * the order of time.  Without symbols of the kernel itself, those of the table
 * before continue to hold.  Returns how much memory it takes.
 */
uint64_t btrail_kernel_symbols_add(struct btrail_kernel_symbols *ks,
                                   uint32_t kernel, uint64_t time,
                                   const char *data, size_t size);

/* The kernel's last table that was added still held at a time. */
void btrail_kernel_symbols_held(struct btrail_kernel_symbols *ks,
                                uint32_t kernel, uint64_t time);

/*
 * The kernel had another table at a time, which is not known.  Without this
 * or btrail_kernel_symbols_held(), a table holds up to the next one.
 */
void btrail_kernel_symbols_lost(struct btrail_kernel_symbols *ks,
                                uint32_t kernel, uint64_t time);

/*
 * Must follow the last table.  A record can have been made @tick later than
 * its time says.  From @cut on nothing else is known.
 */
void btrail_kernel_symbols_complete(struct btrail_kernel_symbols *ks,
                                    uint64_t tick, uint64_t cut);

/* Is there any table? */
bool btrail_kernel_symbols_any(const struct btrail_kernel_symbols *ks);

/*
 * The kernel that runs at a time if events do not say which one does; 0 if the
 * tables have no numbers
 */
uint32_t btrail_kernel_symbols_kernel(const struct btrail_kernel_symbols *ks,
                                      uint64_t time);

/* Finds the era of a moment. */
void btrail_kernel_symbols_era(const struct btrail_kernel_symbols *ks,
                               uint32_t kernel, uint64_t time,
                               struct btrail_symbol_era *era);

/* As btrail_names_kernel_symbol(), in an era */
int btrail_kernel_symbols_find(const struct btrail_kernel_symbols *ks,
                               uint32_t era, uint64_t address,
                               struct btrail_symbol *symbol);

/*
 * As btrail_names_symbol(); @era gets the time over which the symbol is there,
 * and may be NULL.
 */
int btrail_kernel_symbols_get(const struct btrail_kernel_symbols *ks, size_t i,
                              struct btrail_symbol *symbol,
                              struct btrail_symbol_era *era);

/* How many different kernels had symbols of their own? */
uint32_t btrail_kernel_symbols_owns(const struct btrail_kernel_symbols *ks);

#endif /* BTRAIL_KERNEL_SYMBOLS_H */
