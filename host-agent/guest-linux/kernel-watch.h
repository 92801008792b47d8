/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does a kernel still run?  For producers that do not say which one does
 *
 * The drain reports the page tables with which vCPUs make records.  The scanner
 * looks at these now and then: if some of them map the kernel, it ran.  If none
 * have done so for a while, it has ended: it has started another one, or the
 * guest was reset.  A guest that makes no records keeps its kernel, and so does
 * one that runs firmware for a short time.
 */

#ifndef LINUX_KERNEL_WATCH_H
#define LINUX_KERNEL_WATCH_H

#include "guest-linux/kernel.h"

/*
 * How many page tables are kept between two looks; if there are more, some
 * are
 */
#define KERNEL_WATCH_SLOTS      64
/*
 * A kernel that was not found in this many looks, and for this long, has
 * ended.
 */
#define KERNEL_WATCH_LOOKS      3
#define KERNEL_WATCH_NS         UINT64_C(300000000)

/**
 * struct kernel_watch
 * @ran:      reported since the last look; atomic each.  @time is 0 in an empty
 *            one, and while @root changes
 * @reported: something was ever reported
 * @alive:    the last time at which the kernel was seen to run; else when the
 *            watch began
 * @looks:    since then, how many have found only page tables of others
 * @from:     when page tables of the first of these looks ran, and
 * @last:     of the last one
 * @stranger: that one, or one before it that is not 0; 0 if there is none
 */
struct kernel_watch {
    struct {
        uint64_t root;
        uint64_t time;
    } ran[KERNEL_WATCH_SLOTS];
    bool reported;
    uint64_t alive;
    unsigned looks;
    uint64_t from;
    uint64_t last;
    uint64_t stranger;
};

/* Begins to watch at a time.  What was reported before counts, too. */
void kernel_watch_begin(struct kernel_watch *w, uint64_t now);

/*
 * A vCPU has made records with this CR3, at @time (not 0) or later.  Cheap; for
 * one thread, while another one looks
 */
void kernel_watch_report(struct kernel_watch *w, uint64_t cr3, uint64_t time);

/*
 * Takes what was reported.  Another kernel can be where one was that has gone,
 * so the kernel's memory must say its release as well.  @k is the kernel that
 * is watched; NULL if there is none, so that all is of others.  Returns whether
 * there was anything.
 */
bool kernel_watch_look(struct kernel_watch *w, struct linux_kernel *k,
                       const struct guest_memory *memory);

/* Has the last look found only page tables of others? */
static inline bool kernel_watch_doubts(const struct kernel_watch *w)
{
    return w->looks;
}

/* Has the kernel ended? */
static inline bool kernel_watch_ended(const struct kernel_watch *w)
{
    return w->looks >= KERNEL_WATCH_LOOKS &&
           w->last - w->from >= KERNEL_WATCH_NS;
}

#endif /* LINUX_KERNEL_WATCH_H */
