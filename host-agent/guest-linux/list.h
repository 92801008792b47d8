/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's linked lists (struct list_head), which it may change meanwhile
 */

#ifndef LINUX_LIST_H
#define LINUX_LIST_H

#include "guest-linux/kernel.h"

/* Gets the address of a struct that is in a list. */
typedef void linux_list_fn(struct linux_kernel *k, uint64_t item,
                           void *opaque);

/*
 * Visits the structs of the list at @head, whose nodes are @node bytes after
 * their beginning.  Returns false if the list could not be read to its end, or
 * has more than @most of them; some may have been visited.
 */
bool linux_list(struct linux_kernel *k, uint64_t head, uint32_t node,
                unsigned most, linux_list_fn *visit, void *opaque);

#endif /* LINUX_LIST_H */
