/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A Linux kernel in a guest's memory, and access to its data
 */

#ifndef LINUX_KERNEL_H
#define LINUX_KERNEL_H

#include "backtrail/transport.h"
#include "guest-linux/kallsyms.h"
#include "guest-linux/layout.h"
#include "guest-linux/page-walk.h"

#define LINUX_WINDOW_MAX    4096

/* Members of struct new_utsname, each of as many bytes */
#define LINUX_UTSNAME_SIZE      65
#define LINUX_UTSNAME_RELEASE   (2 * LINUX_UTSNAME_SIZE)
#define LINUX_UTSNAME_VERSION   (3 * LINUX_UTSNAME_SIZE)

/**
 * struct linux_kernel - a kernel that was found
 * @memory:  the guest's RAM
 * @walk:    the kernel's address space
 * @root:    physical address of its page tables (init_mm's)
 * @release: such as "6.12.48-amd64"
 * @symbols: its own symbols
 * @tasks:   are its tasks known?  Otherwise only its symbols are
 * @layout:  its structs
 * @missing: texts: what is not as this program knows it, and what is lost
 * @booting: it has not written its VMCOREINFO yet: see linux_kernel_complete()
 * @cr3_flags: what the CR3 of its page tables has beside their address:
 *           BTRAIL_CR3_NESTED if it is that of a nested guest
 * @vmemmap: where its array of struct page is, of @page_size bytes each; 0 if
 *           that is not known
 *
 * @number:  by which the trace knows it, from 1 on; the caller's
 *
 * Addresses of its symbols, 0 if it does not have one: @init_task,
 * @stext (_stext), @banner (linux_banner), @init_mm, @utsname (by VMCOREINFO),
 * @modules (its list), @special_ops (special_mapping_vmops); the lists of code
 * that it has made: @bpf, @ftrace, @kprobes, @optprobes.
 *
 * @wakes_sought: it was looked where it wakes tasks; @wake, @waking, @wake_new,
 *           @waking_new: where that is, as in struct btrail_tasks, or 0
 *
 * @kthreadd: the task that is the parent of all threads of the kernel, 0 until
 *           it has been found
 * @window: bytes that were read at once, see linux_window()
 */
struct linux_kernel {
    const struct guest_memory *memory;
    struct page_walk walk;
    uint64_t root;
    char release[65];
    struct kallsyms *symbols;
    bool tasks;
    struct linux_layout layout;
    GPtrArray *missing;
    bool booting;
    uint64_t cr3_flags;
    uint64_t vmemmap;
    uint32_t page_size;
    uint16_t number;
    uint64_t stext;
    uint64_t banner;
    uint64_t init_task;
    uint64_t init_mm;
    uint64_t utsname;
    uint64_t modules;
    uint64_t special_ops;
    uint64_t bpf;
    uint64_t ftrace;
    uint64_t kprobes;
    uint64_t optprobes;
    bool wakes_sought;
    uint64_t wake;
    uint64_t waking[BTRAIL_TASKS_WAKING];
    uint64_t wake_new;
    uint64_t waking_new;
    uint64_t kthreadd;
    struct {
        uint64_t at;
        uint32_t size;
        uint8_t bytes[LINUX_WINDOW_MAX];
    } window;
};

/**
 * linux_kernel_find() - find the kernel in a guest's memory
 * @memory:  the guest's RAM, which must outlive it
 * @note:    physical address of the VMCOREINFO note that the guest has
 *           reported, 0 to search for it
 * @size:    bytes of the note
 * @cr3:     page tables with which the guest runs now: other kernels in its
 *           memory, such as one that has crashed, are none; or 0 for any kernel
 * @why:     gets what is wrong if there is none, to be freed
 *
 * Returns: NULL, or the kernel, to be freed with linux_kernel_free().
 */
struct linux_kernel *linux_kernel_find(const struct guest_memory *memory,
                                       uint64_t note, uint64_t size,
                                       uint64_t cr3, char **why);

/*
 * Finds the kernel that runs with @cr3 by its image, which these page tables
 * map, from its first function in C on (start_kernel).  Only its init_task is
 * certain then: addresses at random, and more tasks, come later.  Returns NULL
 * if there is none, or it cannot be completed.
 */
struct linux_kernel *
linux_kernel_find_booting(const struct guest_memory *memory, uint64_t cr3);

/*
 * Reads what a kernel that is @booting did not have when it was found, if it
 * has written its VMCOREINFO by now; returns whether it has.  @missing can have
 * more then.
 */
bool linux_kernel_complete(struct linux_kernel *k);

void linux_kernel_free(struct linux_kernel *k);

/* Is it still there?  Its memory says its release, as it did. */
bool linux_kernel_remains(struct linux_kernel *k);

/*
 * Does the kernel run when this CR3 is in force?  So it does if its image is
 * mapped as its own page tables map it.
 */
bool linux_kernel_runs(const struct linux_kernel *k, uint64_t cr3);

/* Begins a snapshot: forgets translations and renews the budget. */
void linux_kernel_begin(struct linux_kernel *k);

/* Members of structs at these addresses of the kernel */
bool linux_u32(struct linux_kernel *k, uint64_t base, uint32_t offset,
               uint32_t *v);
bool linux_u64(struct linux_kernel *k, uint64_t base, uint32_t offset,
               uint64_t *v);

/* The same of a member that has a size of 1, 2, 4 or 8 bytes, by the kernel */
bool linux_number(struct linux_kernel *k, uint64_t base, uint32_t offset,
                  unsigned size, uint64_t *v);

/*
 * Reads @size bytes at once, from which linux_u32() and linux_u64() take their
 * values until the next call; 0 ends that.  Otherwise they read memory at the
 * time of their call.
 */
void linux_window(struct linux_kernel *k, uint64_t address, uint32_t size);

/* Is it an address of the kernel's half, aligned as pointers are? */
bool linux_pointer(uint64_t address);

/* Reads a string of up to @size - 1 bytes; false if it cannot be read */
bool linux_string(struct linux_kernel *k, uint64_t address, char *buf,
                  size_t size);

#endif /* LINUX_KERNEL_H */
