/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does a kernel still run?  See kernel-watch.h
 */

#include <glib.h>
#include <stdlib.h>

#include "guest-linux/kernel-watch.h"
#include "util/hash.h"
#include "util/search.h"

void kernel_watch_begin(struct kernel_watch *w, uint64_t now)
{
    w->alive = now;
    w->looks = 0;
    w->from = w->last = 0;
    w->stranger = 0;
}

void kernel_watch_report(struct kernel_watch *w, uint64_t cr3, uint64_t time)
{
    uint64_t root = btrail_cr3_root(cr3);
    unsigned i = (btrail_hash(root) >> 32) % KERNEL_WATCH_SLOTS;

    if (__atomic_load_n(&w->ran[i].root, __ATOMIC_RELAXED) != root) {
        __atomic_store_n(&w->ran[i].time, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&w->ran[i].root, root, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&w->ran[i].time, time, __ATOMIC_RELEASE);
}

/* Page tables, and when they ran */
struct ran {
    uint64_t root;
    uint64_t time;
};

/*
 * Takes what is in a slot.  With this time, this root was there: time does not
 * go back, so whatever came in between had the same.
 */
static bool take(struct kernel_watch *w, unsigned i, struct ran *ran)
{
    ran->time = __atomic_load_n(&w->ran[i].time, __ATOMIC_ACQUIRE);
    ran->root = __atomic_load_n(&w->ran[i].root, __ATOMIC_ACQUIRE);
    return ran->time &&
           __atomic_compare_exchange_n(&w->ran[i].time,
                                       &(uint64_t){ ran->time }, 0, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static int latest_first(const void *p, const void *q)
{
    const struct ran *a = p, *b = q;

    return BTRAIL_COMPARE(b->time, a->time);
}

/* Can page tables be read?  If not, nobody knows what they map. */
static bool is_readable(const struct guest_memory *memory, uint64_t root)
{
    uint64_t entry;

    return guest_memory_read(memory, root & ~BTRAIL_CR3_PAE, &entry,
                             sizeof(entry));
}

/* Only page tables of others have run; @stranger is the last one. */
static void doubt(struct kernel_watch *w, const struct ran *stranger)
{
    w->from = w->looks ? MIN(w->from, stranger->time) : stranger->time;
    w->last = w->looks ? MAX(w->last, stranger->time) : stranger->time;
    w->looks++;
}

bool kernel_watch_look(struct kernel_watch *w, struct linux_kernel *k,
                       const struct guest_memory *memory)
{
    struct ran all[KERNEL_WATCH_SLOTS];
    const struct ran *last = NULL;
    uint64_t stranger = 0;
    unsigned n = 0;
    bool remains;

    for (unsigned i = 0; i < KERNEL_WATCH_SLOTS; i++) {
        n += take(w, i, &all[n]);
    }
    w->reported |= n;
    qsort(all, n, sizeof(*all), latest_first);
    remains = n && k && linux_kernel_remains(k);
    for (unsigned i = 0; i < n; i++) {
        const struct ran *r = &all[i];

        /* CR3 is 0 while paging is off. */
        if (remains && r->root && linux_kernel_runs(k, r->root)) {
            w->alive = MAX(w->alive, r->time);
            w->looks = 0;
            return true;
        }
        if (!r->root || is_readable(memory, r->root)) {
            last = last ?: r;
            stranger = stranger ?: r->root;
        }
    }
    w->stranger = stranger ?: w->stranger;
    if (last) {
        doubt(w, last);
    }
    return n;
}
