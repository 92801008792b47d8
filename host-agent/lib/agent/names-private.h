/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the library and the symbolizer need of names beside the API
 */

#ifndef BTRAIL_NAMES_PRIVATE_H
#define BTRAIL_NAMES_PRIVATE_H

#include "lib/internal/kernel-symbols.h"
#include "lib/internal/lives.h"

/* As btrail_lives_root(), btrail_lives_find(); @told: by the guest's word */
uint64_t btrail_names_root(const struct btrail_names *names, bool told,
                           uint64_t cr3);
struct btrail_life *btrail_names_life(const struct btrail_names *names,
                                      bool told, uint64_t root, uint64_t from,
                                      uint64_t to);

/* A process as btrail_lives_of_pid() finds it; NULL if none is known */
const struct btrail_process *
btrail_names_of_pid(const struct btrail_names *names, uint64_t time,
                    uint64_t cr3, uint32_t pid);

/* The same as btrail_lives_last_of_pid() */
const struct btrail_process *
btrail_names_last_of_pid(const struct btrail_names *names, uint64_t time,
                         uint32_t kernel, uint32_t pid, bool *gone);

/* As btrail_lives_version() */
const struct btrail_process *
btrail_names_version(const struct btrail_names *names, unsigned i);

/*
 * From this time on names are left out, because there are more of them than the
 * size of the trace allows; UINT64_MAX if none are.
 */
uint64_t btrail_names_cut(const struct btrail_names *names);

/*
 * How much later than its TIME event a record can have been made, unless the
 * tick was late; see btrail_owners_until().
 */
uint64_t btrail_names_tick(const struct btrail_names *names);

/* The time before which a record was made; @time is its TIME event's. */
uint64_t btrail_owners_until(const struct btrail_owners *owners, unsigned vcpu,
                             uint64_t index, uint64_t time);

/* As btrail_names_process(), for a record that was made before @until */
enum btrail_certainty
btrail_names_process_until(const struct btrail_names *names, uint64_t time,
                           uint64_t until, uint64_t cr3,
                           const struct btrail_process **process);

/* Does the trace have all branches of the vCPUs that it traces? */
bool btrail_names_unfiltered(const struct btrail_names *names);

/* Does it trace all vCPUs? */
bool btrail_names_all_vcpus(const struct btrail_names *names);

/* As btrail_kernel_symbols_era(), btrail_kernel_symbols_owns() */
void btrail_names_era(const struct btrail_names *names, uint32_t kernel,
                      uint64_t time, struct btrail_symbol_era *era);
uint32_t btrail_names_owns(const struct btrail_names *names);

/* As btrail_kernel_symbols_kernel() */
uint32_t btrail_names_kernel(const struct btrail_names *names, uint64_t time);

/* As btrail_names_kernel_symbol(), by the number of an era */
int btrail_names_era_symbol(const struct btrail_names *names, uint32_t era,
                            uint64_t address, struct btrail_symbol *symbol);

/* As btrail_names_symbol(), and from when to when the symbol is there */
int btrail_names_symbol_era(const struct btrail_names *names, size_t i,
                            struct btrail_symbol *symbol,
                            struct btrail_symbol_era *era);

#endif /* BTRAIL_NAMES_PRIVATE_H */
