/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linux's maple trees (lib/maple_tree.c)
 */

#ifndef LINUX_MAPLE_H
#define LINUX_MAPLE_H

#include "guest-linux/kernel.h"

typedef bool linux_maple_visitor(struct linux_kernel *k, uint64_t entry,
                                 void *opaque);

/*
 * Calls @visit for each entry of a tree, in order, until it returns false.
 * Returns false if it did, or if the tree is damaged or was changed meanwhile.
 */
bool linux_maple_each(struct linux_kernel *k, uint64_t root,
                      linux_maple_visitor *visit, void *opaque);

#endif /* LINUX_MAPLE_H */
