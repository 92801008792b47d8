/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory in which a scanner looks for a kernel: see scan-memory.h
 */

#include "guest-linux/scan-memory.h"

/* Opens them.  In @head, what cannot be opened is not shared. */
static struct guest_memory *open_memory(const struct guest_memory_files *files,
                                        struct btrail_memory *head)
{
    struct guest_memory *m = guest_memory_open(files);

    *head = files->head;
    for (uint32_t i = 0; i < head->ranges; i++) {
        head->unshared += files->ranges[i].size;
    }
    head->unshared -= guest_memory_size(m);
    return m;
}

void scan_memory_init(struct scan_memory *m,
                      const struct guest_memory_files *files,
                      uint64_t nested_root)
{
    *m = (struct scan_memory) { 0 };
    g_mutex_init(&m->lock);
    m->ram = open_memory(files, &m->head);
    m->view = m->ram;
    if (nested_root) {
        m->nested = nested_memory_new(m->ram, nested_root,
                                      NESTED_MEMORY_PAGES);
        m->view = nested_memory_view(m->nested);
    } else {
        m->unread = m->head.unshared;
    }
}

void scan_memory_clear(struct scan_memory *m)
{
    nested_memory_free(m->nested);
    guest_memory_free(m->ram);
    guest_memory_free(m->next);
    g_mutex_clear(&m->lock);
}

void scan_memory_change(struct scan_memory *m,
                        const struct guest_memory_files *files)
{
    struct btrail_memory head;
    struct guest_memory *next = open_memory(files, &head);

    g_mutex_lock(&m->lock);
    guest_memory_free(m->next);
    m->next = next;
    m->next_head = head;
    g_mutex_unlock(&m->lock);
}

bool scan_memory_take(struct scan_memory *m, bool *more)
{
    struct guest_memory *next;

    g_mutex_lock(&m->lock);
    next = g_steal_pointer(&m->next);
    if (next) {
        m->head = m->next_head;
    }
    g_mutex_unlock(&m->lock);
    *more = false;
    if (!next) {
        return false;
    }
    /* In its place: the kernel that was found has pointers to it. */
    guest_memory_replace(m->ram, next);
    /* Of a nested guest's, the guest's own scanner says it. */
    if (!m->nested && m->head.unshared > m->unread) {
        m->unread = m->head.unshared;
        *more = true;
    }
    return true;
}

/* The guest has reported the address of its own note, not of another's. */
static struct linux_kernel *find_by(struct scan_memory *m, uint64_t cr3,
                                    char **why)
{
    return linux_kernel_find(m->view, m->nested ? 0 : m->head.note,
                             m->head.note_size, cr3, why);
}

/*
 * Nested page tables have as many levels as the hypervisor's own, which may be
 * unknown.
 */
static struct linux_kernel *find_nested(struct scan_memory *m, uint64_t cr3,
                                        unsigned own, char **why)
{
    struct linux_kernel *k;

    nested_memory_set_levels(m->nested, own == 5 ? 5 : 4);
    k = find_by(m, cr3, why);
    if (!k && !own) {
        g_free(*why);
        nested_memory_set_levels(m->nested, 5);
        k = find_by(m, cr3, why);
    }
    return k;
}

struct linux_kernel *scan_memory_find(struct scan_memory *m, uint64_t cr3,
                                      unsigned own_levels, char **why)
{
    return m->nested ? find_nested(m, cr3, own_levels, why) :
           find_by(m, cr3, why);
}

uint64_t scan_memory_place(const struct scan_memory *m, struct linux_kernel *k)
{
    uint64_t physical;

    return m->nested && page_walk(&k->walk, k->stext, &physical) ?
           nested_memory_place(m->nested, physical) : 0;
}
