/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Maple trees: see maple.h
 *
 * A pointer to a node has the node's type in its bits 3 to 6; nodes are
 * aligned to 256 bytes.  An entry with bits 1:0 = 10 is the tree's own: as the
 * root it is a node if it is above 4096.
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/maple.h"

#define NODE_MASK       UINT64_C(255)
#define TYPE_SHIFT      3
#define TYPE_MASK       15
#define NODE_SIZE       256
#define DEPTH_MAX       16
#define NODES_MAX       (1u << 16)

struct maple_walk {
    struct linux_kernel *k;
    linux_maple_visitor *visit;
    void *opaque;
    unsigned nodes;
};

static bool internal(uint64_t entry)
{
    return (entry & 3) == 2;
}

static uint64_t get64(const uint8_t *node, uint32_t offset)
{
    uint64_t v;

    memcpy(&v, node + offset, sizeof(v));
    return GUINT64_FROM_LE(v);
}

static bool visit_node(struct maple_walk *w, uint64_t encoded, uint64_t min,
                       uint64_t max,
                       unsigned depth)
{
    const struct linux_layout *l = &w->k->layout;
    int type = encoded >> TYPE_SHIFT & TYPE_MASK;
    uint64_t address = encoded & ~NODE_MASK;
    bool wide = type == l->maple_arange;
    uint32_t pivot = wide ? l->arange_pivot : l->range_pivot;
    uint32_t slot = wide ? l->arange_slot : l->range_slot;
    uint32_t parent = wide ? l->arange_parent : l->range_parent;
    uint32_t slots = wide ? l->arange_slots : l->range_slots;
    uint8_t bytes[NODE_SIZE];
    uint64_t first = min;

    if ((type != l->maple_leaf && type != l->maple_range && !wide) ||
        depth == DEPTH_MAX || ++w->nodes > NODES_MAX || !slots ||
        pivot > NODE_SIZE || slot > NODE_SIZE || parent > NODE_SIZE - 8 ||
        pivot + 8 * (slots - 1) > NODE_SIZE || slot + 8 * slots > NODE_SIZE ||
        !linux_pointer(address) ||
        !page_walk_read(&w->k->walk, address, bytes, sizeof(bytes))) {
        return false;
    }
    /* A node that was removed from the tree is its own parent. */
    if ((get64(bytes, parent) & ~NODE_MASK) == address) {
        return false;
    }
    for (uint32_t i = 0; i < slots; i++) {
        uint64_t last = i < slots - 1 ? get64(bytes, pivot + 8 * i) : max;
        uint64_t entry = get64(bytes, slot + 8 * i);

        if (!last && i) {
            last = max;
        }
        if (last < first || last > max) {
            return false;
        }
        if (type != l->maple_leaf) {
            if (!entry || !visit_node(w, entry, first, last, depth + 1)) {
                return false;
            }
        } else if (entry && !internal(entry) &&
                   !w->visit(w->k, entry, w->opaque)) {
            return false;
        }
        if (last == max) {
            return true;
        }
        first = last + 1;
    }
    return true;
}

bool linux_maple_each(struct linux_kernel *k, uint64_t root,
                      linux_maple_visitor *visit, void *opaque)
{
    struct maple_walk w = { k, visit, opaque, 0 };

    if (!root) {
        return true;
    }
    if (!internal(root)) {
        return visit(k, root, opaque);      /* the only entry, at 0 */
    }
    return root > 4096 && visit_node(&w, root, 0, UINT64_MAX, 0);
}
