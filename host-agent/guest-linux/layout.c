/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Offsets of members: see layout.h
 */

#include "guest-linux/layout.h"

/* A struct is at most this large, which bounds what is read of one, too. */
#define STRUCT_MAX  (1u << 20)
#define SLOTS_MAX   64

static const struct member {
    const char *type;
    const char *path;
    const char *name;
    size_t at;
    uint32_t size;
    bool needed;
} members[] = {
#define X(name, type, path, size, needed) \
    { type, path, type "." path, offsetof(struct linux_layout, name), size, \
      needed },
    LINUX_LAYOUT(X)
#undef X
};

static uint32_t slots(const struct linux_btf *b, const char *type,
                      const char *member)
{
    uint32_t offset, size;

    if (!linux_btf_member(b, type, member, &offset, &size) ||
        size / 8 > SLOTS_MAX) {
        return 0;
    }
    return size / 8;
}

bool linux_layout_read(struct linux_layout *l, const struct linux_btf *b,
                       const char **what)
{
    uint32_t offset;

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const struct member *m = &members[i];
        uint32_t size;
        uint32_t *to = (uint32_t *)((char *)l + m->at);

        if (linux_btf_member(b, m->type, m->path, to, &size) &&
            (!m->size || size == m->size) && *to < STRUCT_MAX) {
            continue;
        }
        *to = LINUX_NONE;
        if (m->needed) {
            *what = m->name;
            return false;
        }
    }
    l->range_slots = slots(b, "maple_range_64", "slot");
    l->arange_slots = slots(b, "maple_arange_64", "slot");
    l->node_slots_n = slots(b, "xa_node", "slots");
    if (!linux_btf_enumerator(b, "pageflags", "PG_uptodate",
                              &l->page_uptodate)) {
        l->page_uptodate = -1;
    }
    if (!linux_btf_enumerator(b, "maple_type", "maple_leaf_64",
                              &l->maple_leaf) ||
        !linux_btf_enumerator(b, "maple_type", "maple_range_64",
                              &l->maple_range) ||
        !linux_btf_enumerator(b, "maple_type", "maple_arange_64",
                              &l->maple_arange)) {
        l->mm_mt_root = LINUX_NONE;
    }
    if (!linux_btf_enumerator(b, "module_state", "MODULE_STATE_UNFORMED",
                              &l->module_unformed)) {
        l->module_list = LINUX_NONE;
    }
    if (!linux_btf_member(b, "module", "name", &offset,
                          &l->module_name_size) ||
        l->module_name_size > 256) {
        l->module_list = LINUX_NONE;
    }
    if (l->task_start_boot == LINUX_NONE && l->task_start == LINUX_NONE) {
        *what = "task_struct.start_boottime";
        return false;
    }
    if (l->mm_mt_root == LINUX_NONE &&
        (l->mm_mmap == LINUX_NONE || l->vma_next == LINUX_NONE)) {
        *what = "mm_struct.mm_mt";
        return false;
    }
    return true;
}
