/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a kernel switches tasks: see switch.h
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/switch.h"
#include "guest-linux/wakes.h"

/*
 * PF_KTHREAD of include/linux/sched.h: the same since Linux 2.6.27.  Programs
 * rely on it, since field 9 of /proc/PID/stat shows it (proc(5)).
 */
#define KERNEL_THREAD   0x00200000

/*
 * TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE and TASK_DEAD of the same file: the
 * first two since ever, the third since Linux 4.14.
 */
#define INTERRUPTIBLE   0x00000001
#define UNINTERRUPTIBLE 0x00000002
#define DEAD            0x00000080

/* Of its banner no more is read */
#define BANNER_MAX      512

/* The pointer to the task that runs, as an offset from the base of GS */
static bool current_task(const struct linux_kernel *k, uint64_t *offset)
{
    /* Linux 6.2 to 6.14 have it in a struct; others by itself. */
    if (k->layout.pcpu_current != LINUX_NONE &&
        kallsyms_find(k->symbols, "pcpu_hot", offset)) {
        *offset += k->layout.pcpu_current;
        return true;
    }
    return kallsyms_find(k->symbols, "current_task", offset);
}

static bool describe(const struct linux_kernel *k, struct btrail_tasks *t)
{
    const struct linux_layout *l = &k->layout;

    t->tid = l->task_pid;
    t->pid = l->task_tgid;
    t->name = l->task_comm;
    t->task_flags = l->task_flags;
    t->kernel = KERNEL_THREAD;
    return kallsyms_find(k->symbols, "__switch_to_asm", &t->switch_to) &&
           kallsyms_find(k->symbols, "__set_task_comm", &t->set_name) &&
           current_task(k, &t->current) &&
           t->switch_to >= BTRAIL_TASKS_MIN_ADDRESS &&
           t->set_name >= BTRAIL_TASKS_MIN_ADDRESS &&
           t->switch_to != t->set_name &&
           t->tid < BTRAIL_TASKS_MAX_OFFSET &&
           t->pid < BTRAIL_TASKS_MAX_OFFSET &&
           t->name < BTRAIL_TASKS_MAX_OFFSET &&
           t->task_flags < BTRAIL_TASKS_MAX_OFFSET;
}

/*
 * Can its table of jumps be read?  A kernel sorts it soon after its begin, in
 * jump_label_init().
 */
static bool has_jumps(struct linux_kernel *k)
{
    uint64_t at, done = 0;

    return !k->booting ||
           (kallsyms_find(k->symbols, "static_key_initialized", &at) &&
            linux_number(k, at, 0, 1, &done) && done);
}

/* What is known of why tasks leave their CPU, and of who wakes them */
static void describe_waits(struct linux_kernel *k, struct btrail_tasks *t)
{
    const struct linux_layout *l = &k->layout;
    uint32_t state = l->task_state != LINUX_NONE ? l->task_state :
                     l->task_state_before;

    if (state && state < BTRAIL_TASKS_MAX_OFFSET &&
        l->task_on_queue < BTRAIL_TASKS_MAX_OFFSET) {
        t->state = state;
        t->on_queue = l->task_on_queue;
        t->delayed = l->task_delayed < BTRAIL_TASKS_MAX_OFFSET ?
                     l->task_delayed : 0;
        t->dead = DEAD;
        t->interruptible = INTERRUPTIBLE;
        t->uninterruptible = UNINTERRUPTIBLE;
    }
    if (k->wakes_sought ? k->wake : has_jumps(k) && linux_wakes_find(k)) {
        t->wake = k->wake;
        t->wake_new = k->wake_new;
        t->waking_new = k->waking_new;
        memcpy(t->waking, k->waking, sizeof(t->waking));
    }
}

/*
 * The kernel is recognised by the end of its banner, or else by the version in
 * its struct new_utsname: they say when it was built.
 */
static bool mark(struct linux_kernel *k, struct btrail_tasks *t)
{
    char banner[BANNER_MAX];

    if (k->banner) {
        size_t n = linux_string(k, k->banner, banner, sizeof(banner)) ?
                   strlen(banner) : 0;

        if (n < BTRAIL_TASKS_MARK) {
            return false;
        }
        t->mark = k->banner + n - BTRAIL_TASKS_MARK;
    } else {
        t->mark = k->utsname + LINUX_UTSNAME_VERSION;
    }
    t->number = k->number;
    return t->mark >= BTRAIL_TASKS_MIN_ADDRESS &&
           page_walk(&k->walk, t->mark, &t->mark_physical) &&
           page_walk_read(&k->walk, t->mark, t->mark_bytes,
                          BTRAIL_TASKS_MARK);
}

bool linux_switch(struct linux_kernel *k, struct btrail_tasks *tasks)
{
    memset(tasks, 0, sizeof(*tasks));
    if (describe(k, tasks) && mark(k, tasks)) {
        describe_waits(k, tasks);
        return true;
    }
    memset(tasks, 0, sizeof(*tasks));
    return false;
}
