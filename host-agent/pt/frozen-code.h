/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code for a PT stream from the memory of the guest, which stands still
 *
 * It is what the guest's page tables lead to now.  Where the guest has changed
 * code or tables since the stream was made, it is not what was executed: the
 * decoder sees that as packets and code that contradict each other, mostly.
 * That is worst for the page tables of a process that has ended, which can be
 * those of another one by now.
 */

#ifndef BTRAIL_FROZEN_CODE_H
#define BTRAIL_FROZEN_CODE_H

#include "guest-linux/guest-memory.h"
#include "pt/linked-blocks.h"

/* For @levels of struct frozen_code_options: linear addresses are physical. */
#define FROZEN_CODE_UNPAGED 1
/* Linux has the tables of the kernel in a page before those of its user mode,
 * if it isolates them. */
#define FROZEN_CODE_USER_ROOT   UINT64_C(0x1000)

/**
 * struct frozen_code_options
 *
 * @levels:  FROZEN_CODE_UNPAGED, or of page tables: 2 or, with PAE, 3 for
 *           addresses of 32 bits; 4 or 5 for those of 64.  page_walk_levels()
 *           has them from a vCPU's control registers; nothing else says them
 *           for certain
 * @roots:   page tables that are in use for certain, as vCPUs' CR3s are now.
 *           Addresses from 2^63 on are looked up there first, as those of all
 *           address spaces are the same; copied
 * @n_roots: how many
 * @pages:   how many pages, each of which is kept, are read at most; 0: as
 *           many as usual
 * @places:  at how many places they may be, those where nothing is included;
 *           0: as many as usual
 * @walks:   how many pages are looked up at most; 0: as many as usual
 */
struct frozen_code_options {
    unsigned levels;
    const uint64_t *roots;
    size_t n_roots;
    size_t pages;
    size_t places;
    uint64_t walks;
};

/**
 * struct frozen_code_count
 * @pages:      that were read, as the guest's memory has them
 * @places:     address spaces and addresses where there is one
 * @unreadable: where there is none
 * @refused:    how often a page was not looked up, or not read, for a limit
 */
struct frozen_code_count {
    uint64_t pages;
    uint64_t places;
    uint64_t unreadable;
    uint64_t refused;
};

struct frozen_code;

/* @memory must outlive it, and the guest must stand still all the time. */
struct frozen_code *frozen_code_new(const struct guest_memory *memory,
                                    const struct frozen_code_options *options);
void frozen_code_free(struct frozen_code *f);

/* The frozen_code is the first argument.  What it says does not depend on the
 * moment, and its bytes are valid as long as the frozen_code is. */
pt_code_fn frozen_code_read;

/*
 * Is this the root of user mode in one process with the kernel's root before
 * it?  Then both have the same user addresses.  Without isolation any root can
 * have that bit, and what is in the page before it is something else.
 */
bool frozen_code_has_kernel_root(const struct guest_memory *memory,
                                 unsigned levels, uint64_t root);

/*
 * Takes a page that was read: @bytes has GUEST_PAGE_SIZE of them.  @cr3 is the
 * first with which it was asked for; @address that of its first byte, which
 * from 2^63 on is that of all address spaces.
 */
typedef void frozen_code_page_fn(void *opaque, uint64_t cr3, uint64_t address,
                                 const uint8_t *bytes);

/* All places with a page, in the order in which they were asked for first */
void frozen_code_each(const struct frozen_code *f, frozen_code_page_fn *fn,
                      void *opaque);

const struct frozen_code_count *
frozen_code_counted(const struct frozen_code *f);

#endif /* BTRAIL_FROZEN_CODE_H */
