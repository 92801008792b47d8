/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory in which a scanner looks for a kernel: the guest's RAM, or that of
 * a guest of the guest, which it reads through nested page tables
 */

#ifndef SCAN_MEMORY_H
#define SCAN_MEMORY_H

#include <glib.h>

#include "guest-linux/kernel.h"
#include "guest-linux/nested-memory.h"

/**
 * struct scan_memory
 * @view:   that the kernel has
 * @unread: bytes of RAM that cannot be read, at most
 * @ram, @nested: the guest's; NULL if there is no nested one
 * @head:   of the files of @ram
 * @lock:   of the next two
 * @next:   RAM to be read in place of @ram; NULL if that has not changed
 * @next_head: of its files
 */
struct scan_memory {
    const struct guest_memory *view;
    uint64_t unread;
    struct guest_memory *ram;
    struct nested_memory *nested;
    struct btrail_memory head;
    GMutex lock;
    struct guest_memory *next;
    struct btrail_memory next_head;
};

/* @nested_root: of nested page tables, or 0.  @files may be freed then. */
void scan_memory_init(struct scan_memory *m,
                      const struct guest_memory_files *files,
                      uint64_t nested_root);
void scan_memory_clear(struct scan_memory *m);

/* From the next scan_memory_take() on, RAM is where @files say; any thread */
void scan_memory_change(struct scan_memory *m,
                        const struct guest_memory_files *files);

/*
 * Returns whether other RAM is read from here on than before.  @view and what
 * was made of it remain valid.  *@more: more cannot be read than before
 */
bool scan_memory_take(struct scan_memory *m, bool *more);

/*
 * Searches for a kernel, as linux_kernel_find().  @own_levels: of the page
 * tables of a nested guest's hypervisor, 0 if that is unknown
 */
struct linux_kernel *scan_memory_find(struct scan_memory *m, uint64_t cr3,
                                      unsigned own_levels, char **why);

/* Where the image of a nested guest's kernel is in the guest's RAM, or 0 */
uint64_t scan_memory_place(const struct scan_memory *m, struct linux_kernel *k);

#endif /* SCAN_MEMORY_H */
