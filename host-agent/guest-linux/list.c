/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linked lists: see list.h
 */

#include "guest-linux/list.h"

bool linux_list(struct linux_kernel *k, uint64_t head, uint32_t node,
                unsigned most, linux_list_fn *visit, void *opaque)
{
    uint64_t at = head;

    if (node == LINUX_NONE) {
        return false;
    }
    for (unsigned n = 0; n <= most; n++) {
        uint64_t next, prev;

        /*
         * The next node must point back to this one: one that was taken out
         * meanwhile does not.
         */
        if (!page_walk_u64(&k->walk, at, &next) || !linux_pointer(next) ||
            !page_walk_u64(&k->walk, next + 8, &prev) || prev != at) {
            return false;
        }
        if (next == head) {
            return true;
        }
        visit(k, next - node, opaque);
        at = next;
    }
    return false;
}
