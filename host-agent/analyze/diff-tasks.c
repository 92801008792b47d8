/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks of two traces: see diff-tasks.h
 */

#include <string.h>

#include "analyze/diff-tasks.h"
#include "lib/agent/merged.h"
#include "symbolize/stack-thread.h"
#include "util/hash.h"

/* More names than programs have in a row */
#define MAX_NAMES   16

/*
 * Two numbers: of a thread, and 0; or of the vCPU, and what an unnamed task is
 * known by.  Several tasks of the kernel can be meant by the latter, but at one
 * time only one on each vCPU.
 */
struct task_key {
    uint64_t thread;
    uint64_t who;
};

static struct task_key key_of(unsigned vcpu, const struct task *task)
{
    const struct process *p = task->process;
    int64_t tid = task->tid >= 0 ? task->tid : p->kernel ? -1 : p->tid;
    struct task_key key = {
        stack_thread_number(vcpu, tid, task->nested, p->comm), 0,
    };

    if (tid <= 0 && task->tid < 0) {
        key = (struct task_key) {
            p->kernel ? vcpu : 0, (uintptr_t)(p->who ? p->who : p),
        };
    }
    return key;
}

static void free_task(gpointer p)
{
    struct diff_task *t = p;

    g_ptr_array_unref(t->names);
    g_free(t);
}

static bool had_name(const struct diff_task *t, const char *name)
{
    for (unsigned i = 0; i < t->names->len; i++) {
        if (!strcmp(t->names->pdata[i], name)) {
            return true;
        }
    }
    return false;
}

static struct diff_task *get_task(struct diff_tasks *t, unsigned vcpu,
                                  const struct task *task, uint64_t time)
{
    const struct task_key key = key_of(vcpu, task);
    struct diff_task *d = g_hash_table_lookup(t->keys, &key);

    if (!d) {
        d = g_new0(struct diff_task, 1);
        d->names = g_ptr_array_new();
        d->time = time;
        d->vcpu = vcpu;
        g_ptr_array_add(t->all, d);
        g_hash_table_insert(t->keys, g_memdup2(&key, sizeof(key)), d);
    }
    return d;
}

/*
 * The last name of a task.  Events name it when the kernel switches to it,
 * which may never happen after an exec; then snapshots know better.
 */
static const char *last_name(const struct process *p)
{
    const struct process *owner = p->owner;

    return !p->kernel && p->tid == p->pid && owner && owner->known &&
           owner->pid == p->pid ? owner->comm : p->comm;
}

static void add_name(struct diff_task *d, const char *name)
{
    if (!had_name(d, name) && d->names->len < MAX_NAMES) {
        g_ptr_array_add(d->names, (gpointer)name);
    }
}

static void set_process(struct diff_task *d, const struct task *task)
{
    const struct process *p = task->process;

    d->process = p;
    d->pid = p->pid;
    d->tid = task->tid >= 0 ? task->tid : p->tid;
    d->comm = last_name(p);
    d->known = p->known || task->tid >= 0;
    d->kernel = p->kernel;
}

static void add_part(struct diff_tasks *t, unsigned vcpu,
                     const struct btrail_batch *part, const struct task *task)
{
    struct diff_task *d = get_task(t, vcpu, task, part->time.host);
    const struct process *p = task->process;

    t->records += part->count;
    d->records += part->count;
    d->named |= task->tid >= 0;
    if (part->time.host < d->time) {
        d->time = part->time.host;
        d->vcpu = vcpu;
    }
    if (d->process != p) {
        add_name(d, p->comm);
        add_name(d, last_name(p));
        /* One vCPU is read after the other. */
        if (part->time.host >= d->last) {
            set_process(d, task);
        }
    }
    d->last = MAX(d->last, part->time.host);
}

static int read_stream(struct diff_tasks *t, const struct btrail_trace *trace,
                       unsigned vcpu, struct symbolizer *names,
                       const struct window *window)
{
    /* Parts of a batch need some address of its records, which nobody reads. */
    static const struct btrail_record none;
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_cursor_open(&cursor, trace, vcpu,
                                 BTRAIL_CURSOR_COUNTS_ONLY);

    while (!ret && !(ret = btrail_cursor_next(cursor, &b))) {
        struct btrail_batch part = { .count = 0 };
        struct task task;

        if (b.event || !window_has(window, b.time.host)) {
            continue;
        }
        b.records = &none;
        while (symbolizer_part(names, vcpu, &b, &part, &task)) {
            add_part(t, vcpu, &part, &task);
        }
    }
    t->damage += btrail_cursor_damage(cursor);
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* A task that events name; of the idle tasks, that of the first vCPU */
static struct diff_task *find_named(const struct diff_tasks *t, int64_t tid)
{
    for (unsigned i = 0; i < t->all->len; i++) {
        struct diff_task *d = t->all->pdata[i];

        if (d->named && d->tid == tid && (tid || !d->vcpu)) {
            return d;
        }
    }
    return NULL;
}

/* What was made by a task that had no name belongs to another one. */
static void join(struct diff_tasks *t, struct diff_task *unnamed,
                 struct diff_task *named)
{
    GHashTableIter iter;
    gpointer d;

    g_hash_table_iter_init(&iter, t->keys);
    while (g_hash_table_iter_next(&iter, NULL, &d)) {
        if (d == unnamed) {
            g_hash_table_iter_replace(&iter, named);
        }
    }
    named->records += unnamed->records;
    named->time = MIN(named->time, unnamed->time);
    named->last = MAX(named->last, unnamed->last);
    g_ptr_array_remove(t->all, unnamed);
}

/*
 * Where a trace has the boot of a guest, its first part does not name tasks,
 * because the kernel was not found yet, and at what moment it is found depends
 * on chance.  Nearly all of that part is of the first idle task, and then of
 * the task that becomes init.
 */
static void join_boot(struct diff_tasks *t)
{
    struct diff_task *init = find_named(t, 1);
    struct diff_task *idle = find_named(t, 0);

    for (unsigned i = t->all->len; i-- > 0;) {
        struct diff_task *d = t->all->pdata[i];

        if (d->named || !d->kernel || d->vcpu) {
            continue;
        }
        if (init && d->time < init->time && !strcmp(d->comm, NAME_TASK)) {
            join(t, d, init);
        } else if (idle && d->time < idle->time &&
                   !strcmp(d->comm, NAME_IDLE)) {
            join(t, d, idle);
        }
    }
}

static gint by_time(gconstpointer p, gconstpointer q)
{
    const struct diff_task *const *a = p, *const *b = q;
    const struct diff_task *x = *a, *y = *b;

    return x->time != y->time ? (x->time > y->time) - (x->time < y->time) :
           x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid) :
           (x->tid > y->tid) - (x->tid < y->tid);
}

int diff_tasks_read(struct diff_tasks *t, const struct btrail_trace *trace,
                    struct symbolizer *names, const struct window *window)
{
    struct btrail_stream_info info;
    int ret = 0;

    *t = (struct diff_tasks) {
        .all = g_ptr_array_new_with_free_func(free_task),
        .keys = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                      g_free, NULL),
    };
    for (unsigned i = 0; !ret && !btrail_trace_stream(trace, i, &info); i++) {
        ret = read_stream(t, trace, info.vcpu, names, window);
    }
    join_boot(t);
    g_ptr_array_sort(t->all, by_time);
    return ret;
}

void diff_tasks_clear(struct diff_tasks *t)
{
    g_clear_pointer(&t->keys, g_hash_table_unref);
    g_clear_pointer(&t->all, g_ptr_array_unref);
}

struct diff_task *diff_tasks_find(const struct diff_tasks *t, unsigned vcpu,
                                  const struct task *task)
{
    const struct task_key key = key_of(vcpu, task);

    return g_hash_table_lookup(t->keys, &key);
}

typedef bool match_fn(const struct diff_task *a, const struct diff_task *b);

/* Idle tasks have one number, and a vCPU each. */
static bool same_numbers(const struct diff_task *a, const struct diff_task *b)
{
    return a->tid >= 0 && a->tid == b->tid && a->pid == b->pid &&
           (a->tid || a->vcpu == b->vcpu);
}

static bool same_kind(const struct diff_task *a, const struct diff_task *b)
{
    return a->known == b->known && a->kernel == b->kernel &&
           (a->tid < 0) == (b->tid < 0) && !a->tid == !b->tid &&
           (a->tid >= 0 || !a->kernel || a->vcpu == b->vcpu);
}

static bool by_name_and_number(const struct diff_task *a,
                               const struct diff_task *b)
{
    return same_kind(a, b) && same_numbers(a, b) && !strcmp(a->comm, b->comm);
}

static bool by_name(const struct diff_task *a, const struct diff_task *b)
{
    return same_kind(a, b) && !strcmp(a->comm, b->comm);
}

static bool by_number(const struct diff_task *a, const struct diff_task *b)
{
    for (unsigned i = 0; same_kind(a, b) && same_numbers(a, b) &&
         i < a->names->len; i++) {
        if (had_name(b, a->names->pdata[i])) {
            return true;
        }
    }
    return false;
}

/* Address spaces of which nothing is known */
static bool by_order(const struct diff_task *a, const struct diff_task *b)
{
    return !a->known && same_kind(a, b);
}

static GPtrArray *left_of(const struct diff_tasks *t)
{
    GPtrArray *left = g_ptr_array_new();

    for (unsigned i = 0; i < t->all->len; i++) {
        struct diff_task *d = t->all->pdata[i];

        if (!d->other) {
            g_ptr_array_add(left, d);
        }
    }
    return left;
}

/*
 * The most pairs of tasks that are compared for one rule.  A guest can have
 * made more tasks than that; those that come last are then only in one trace.
 */
#define MAX_PAIRS   (1u << 26)

void diff_tasks_match(struct diff_tasks tasks[DIFF_SIDES])
{
    static match_fn *const rules[] = {
        by_name_and_number, by_name, by_number, by_order,
    };

    for (unsigned rule = 0; rule < G_N_ELEMENTS(rules); rule++) {
        g_autoptr(GPtrArray) a = left_of(&tasks[0]), b = left_of(&tasks[1]);
        unsigned pairs = 0;

        for (unsigned i = 0; i < a->len; i++) {
            struct diff_task *x = a->pdata[i];

            for (unsigned j = 0; j < b->len && !x->other &&
                 pairs < MAX_PAIRS; j++, pairs++) {
                struct diff_task *y = b->pdata[j];

                if (!y->other && rules[rule](x, y)) {
                    x->other = y;
                    y->other = x;
                }
            }
        }
    }
}
