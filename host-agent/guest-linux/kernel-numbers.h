/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers of the kernels of a capture, which its scanners share
 *
 * A kernel that comes back, as after a guest was restored, keeps its number.
 * Each number belongs to one scanner at a time, which has found its kernel
 * last.  Any thread
 */

#ifndef LINUX_KERNEL_NUMBERS_H
#define LINUX_KERNEL_NUMBERS_H

#include "guest-linux/kernel.h"

#define KERNEL_NUMBERS_MAX  256

struct kernel_numbers;

/* Each user has a reference. */
struct kernel_numbers *kernel_numbers_new(void);
struct kernel_numbers *kernel_numbers_ref(struct kernel_numbers *n);
void kernel_numbers_unref(struct kernel_numbers *n);

/* How many references there are */
unsigned kernel_numbers_users(const struct kernel_numbers *n);

/**
 * kernel_numbers_take - the number of a kernel, the caller's from now on
 * @place: where its image is in the guest's RAM, if it is that of a nested
 *         guest, or 0.  Two of these can be the same kernel
 * @owner: the caller's identity, as an address
 * @held:  an atomic time, which the next owner takes; outlives the ownership
 * @before: gets that of the owner before, if that is another one, or 0
 *
 * Returns 0 if there are too many.
 */
uint16_t kernel_numbers_take(struct kernel_numbers *n,
                             const struct linux_kernel *k, uint64_t place,
                             const void *owner, uint64_t *held,
                             uint64_t *before);

/* Does it still belong to this owner? */
bool kernel_numbers_is_of(struct kernel_numbers *n, uint16_t number,
                          const void *owner);

/* The owner has nothing any more. */
void kernel_numbers_leave(struct kernel_numbers *n, const void *owner);

/* The releases of all, that of number 1 first; NULL if there are none */
char **kernel_numbers_list(struct kernel_numbers *n);

#endif /* LINUX_KERNEL_NUMBERS_H */
