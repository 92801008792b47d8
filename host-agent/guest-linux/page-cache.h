/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files in the page cache of a guest's Linux
 *
 * What a process has mapped of a file is in its page tables only where it has
 * used it; the kernel keeps more of the file, and for longer.
 */

#ifndef LINUX_PAGE_CACHE_H
#define LINUX_PAGE_CACHE_H

#include "guest-linux/kernel.h"

#define LINUX_NODE_SLOTS    64

/**
 * struct linux_file - a file of the guest
 * @k:       its kernel
 * @mapping: address of its address_space
 * @budget:  how many more pages of it may be read
 * @node:    entries of the node that was read last, if @n is not 0: those of
 *           the @n pages from @first on
 */
struct linux_file {
    struct linux_kernel *k;
    uint64_t mapping;
    uint64_t budget;
    struct {
        uint64_t first;
        uint32_t n;
        uint64_t slots[LINUX_NODE_SLOTS];
    } node;
};

/*
 * Reads all of the range, or returns false: a page of it is not in the cache,
 * not yet read from its disk, or just being replaced, or the budget is used up.
 * The bytes are those that the kernel's structures say are the file's; a
 * hostile kernel can say anything.
 */
bool linux_file_read(struct linux_file *f, uint64_t offset, void *buf,
                     size_t size);

/* The same, but what cannot be read is 0; returns false if there is any. */
bool linux_file_read_present(struct linux_file *f, uint64_t offset, void *buf,
                             size_t size);

#endif /* LINUX_PAGE_CACHE_H */
