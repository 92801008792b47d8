/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call stacks of a whole trace: see call-tree.h
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "analyze/call-reader.h"
#include "analyze/call-tree.h"
#include "analyze/off-cpu.h"
#include "analyze/wake-order.h"

G_STATIC_ASSERT(PACE_TICKS == STACK_TICKS);

/**
 * struct call_stream - a vCPU
 * @runs:   @task does, of which @until is the end of its last record
 * @leaves: as in struct call_step
 * @state:  in which it leaves, as far as the next event says
 * @moved:  it was seen to begin on another vCPU since then
 * @gone:   when it was; 0 if it can have been elsewhere before that
 */
struct call_stream {
    uint64_t index;             /* of the last batch */
    struct pace pace;           /* its pace; its records that count */
    const bool *counts;
    const struct stack_node *node;
    uint64_t stack;             /* it is on that */
    uint64_t since;             /* first record in that node */
    bool runs;
    bool leaves;
    enum thread_state state;
    struct task task;
    uint64_t until;
    bool moved;
    uint64_t gone;
};

struct call_walk {
    const struct call_tree_options *options;
    struct call_tree *tree;
    struct call_reader *reader;
    const struct call_step *step;   /* that is taken */
    struct call_stream streams[BTRAIL_MAX_VCPUS];
    unsigned n_streams;             /* no other one has made records */
    bool follows;               /* the user wants to know of each move */
    bool counts;                /* it has come to the window */
    struct off_cpu *off;        /* or NULL */
    struct times *times;        /* that count, with it */
    uint64_t until;             /* it was read up to here */
    bool *none;                 /* no record counts: @n_none of them */
    size_t n_none;
};

static uint64_t time_in(const struct pace *pace, uint64_t index)
{
    return index < pace->begin ? 0 :
           pace->time + (index - pace->begin) * pace->ticks / PACE_TICKS;
}

static uint64_t time_of(const struct call_stream *s, uint64_t index)
{
    return time_in(&s->pace, index);
}

/* Number of records from @s->since to @end, in the last batch, that count */
static uint64_t count_chosen(const struct call_stream *s, uint64_t end)
{
    uint64_t i, n = 0;

    if (!s->counts) {
        return end - s->since;
    }
    for (i = s->since; i < end; i++) {
        n += s->counts[i - s->index];
    }
    return n;
}

static void spend(struct call_walk *w, unsigned vcpu, uint64_t end)
{
    struct call_stream *s = &w->streams[vcpu];
    const struct call_tree_ops *ops = w->options->ops;
    uint64_t n = s->node && ops->spent && end > s->since ?
                 count_chosen(s, end) : 0;

    if (n) {
        ops->spent(w->options->opaque, vcpu, time_of(s, end), s->node,
                   s->stack, n);
    }
    s->since = end;
}

static void on_moved(void *opaque, unsigned vcpu, size_t record,
                     const struct stack_node *from,
                     const struct stack_node *to, uint64_t stack)
{
    struct call_walk *w = opaque;
    struct call_stream *s = &w->streams[vcpu];
    uint64_t end = s->index + record + 1;

    if (!s->node) {
        s->node = from;
    }
    spend(w, vcpu, end);
    s->node = to;
    s->stack = stack;
    if (w->options->ops->moved) {
        w->options->ops->moved(w->options->opaque, vcpu, time_of(s, end),
                               from, to, stack);
    }
}

static void on_spill(void *opaque)
{
    struct call_walk *w = opaque;

    if (w->options->ops->spill) {
        w->options->ops->spill(w->options->opaque, w->tree);
    }
}

static const struct stack_part *next_part(void *opaque, unsigned n)
{
    const struct call_walk *w = opaque;

    return call_reader_next_part(w->reader, w->step, n);
}

static uint64_t count_away(void *opaque, uint64_t since, uint64_t until)
{
    const struct call_walk *w = opaque;

    return times_between(w->options->times ?: w->times, since, until);
}

/* A task was away up to a moment; @back: it is back then. */
static void add_away(const struct call_walk *w, const struct off_cpu_wait *wait,
                     uint64_t until, bool back)
{
    uint64_t ticks = 0;

    if (wait->counts && wait->node && wait->since && wait->since < until) {
        ticks = off_cpu_sums_add(w->tree->away, wait, until, back, count_away,
                                 (gpointer)w);
    }
    if (ticks) {
        stacks_left(w->tree->stacks, wait->node, ticks);
    }
}

/*
 * The task of a stream has left it.  That shows when the vCPU makes records of
 * another one, which can be long after the task has begun elsewhere, and even
 * after it has left that vCPU, too.
 */
static void leave(const struct call_walk *w, unsigned vcpu,
                  enum thread_state state)
{
    const struct call_stream *s = &w->streams[vcpu];
    struct off_cpu_wait wait = {
        stacks_where(w->tree->stacks, vcpu), s->until, s->leaves,
        .state = state,
    };
    bool again;
    uint64_t since;

    again = s->moved && off_cpu_is_away(w->off, &s->task, &since);
    if (!again || since < s->until) {
        off_cpu_leaves(w->off, &s->task, &wait);
    }
    if (s->moved && !again) {
        again = off_cpu_returns(w->off, &s->task, s->gone, &wait);
    }
    if (s->moved && again && wait.since == s->until) {
        add_away(w, &wait, s->gone, true);
    }
}

/* A task begins on a vCPU, and so it has left all others. */
static void note_moved(struct call_walk *w, unsigned vcpu,
                       const struct task *task, uint64_t time)
{
    w->n_streams = MAX(w->n_streams, vcpu + 1);
    for (unsigned i = 0; i < w->n_streams; i++) {
        struct call_stream *s = &w->streams[i];

        if (i != vcpu && s->runs && !s->moved &&
            task_is_same(&s->task, task)) {
            s->moved = true;
            s->gone = time;
        }
    }
}

/* It is not known what runs, which can be any task. */
static void forget_tasks(struct call_walk *w)
{
    off_cpu_forget(w->off);
    for (unsigned i = 0; i < w->n_streams; i++) {
        w->streams[i].gone = 0;
    }
}

/* Notes which task makes the records of a part, before they are added. */
static void follow_task(struct call_walk *w, const struct call_step *step)
{
    struct call_stream *s = &w->streams[step->vcpu];
    const struct task *task = &step->part.task;
    bool moves = !s->runs || !task_is_same(&s->task, task);
    enum thread_state state = s->state;
    uint64_t time = time_in(&step->pace, step->index + step->part.first);
    struct off_cpu_wait wait;
    uint64_t since;

    s->state = THREAD_UNKNOWN;
    if (task->tid < 0) {
        forget_tasks(w);
        s->runs = false;
        return;
    }
    w->tree->tasks = true;
    /* It has moved away and left that vCPU, too. */
    moves |= s->moved && off_cpu_is_away(w->off, task, &since);
    if (s->runs && off_cpu_follows(&s->task) && moves) {
        leave(w, step->vcpu, state);
    }
    if (moves) {
        s->moved = false;
    }
    if (off_cpu_follows(task) && moves) {
        note_moved(w, step->vcpu, task, time);
    }
    if (off_cpu_follows(task) &&
        off_cpu_returns(w->off, task, time, &wait)) {
        add_away(w, &wait, time, true);
    }
    s->runs = true;
    s->task = *task;
}

/* Adds records that do not count themselves. */
static void add_uncounted(struct call_walk *w, const struct call_step *step)
{
    struct call_stream *s = &w->streams[step->vcpu];
    struct stack_part part = step->part;

    if (part.n > w->n_none) {
        g_free(w->none);
        w->none = g_new0(bool, part.n);
        w->n_none = part.n;
    }
    part.counts = w->none;
    /* To the task of a hypervisor, its guest is a part of what it runs. */
    if (!part.task.nested) {
        follow_task(w, step);
    }
    stacks_add(w->tree->stacks, &part);
    if (!part.task.nested) {
        s->until = time_in(&step->pace, step->index + part.first + part.n);
        s->leaves = step->leaves;
    }
}

static void add_part(struct call_walk *w, const struct call_step *step)
{
    struct call_stream *s = &w->streams[step->vcpu];
    const struct stack_part *part = &step->part;

    if (!step->before && !w->counts) {
        stacks_count(w->tree->stacks);
        w->counts = true;
    }
    if (!part->first) {
        stacks_begin(w->tree->stacks);
        s->index = step->index;
        s->pace = step->pace;
        s->counts = step->counts;
        s->since = step->index;
    }
    w->step = step;
    if (w->off) {
        add_uncounted(w, step);
        return;
    }
    if (w->options->ops && w->options->ops->runs && !part->task.nested) {
        w->options->ops->runs(w->options->opaque, step->vcpu,
                              part->task.tid < 0 ? NULL : part->task.process,
                              time_in(&step->pace, step->index + part->first),
                              time_in(&step->pace,
                                      step->index + part->first + part->n));
    }
    stacks_add(w->tree->stacks, part);
    if (w->follows && step->last) {
        s->node = stacks_where(w->tree->stacks, step->vcpu);
        s->stack = stacks_stack(w->tree->stacks, step->vcpu);
        spend(w, step->vcpu, step->index + part->first + part->n);
    }
}

/* Notes why the task of the last records leaves, if it does. */
static void note_left(struct call_walk *w, const struct call_step *step)
{
    w->streams[step->vcpu].state = thread_state_left(&step->left);
}

static void note_wake(struct call_walk *w, const struct call_step *step)
{
    const struct task task = {
        .tid = step->wake.tid, .where = { .kernel = step->kernel },
    };

    w->tree->told = true;
    if (!step->wake.known || !step->time) {
        off_cpu_wakes_unknown(w->off);
    } else if (off_cpu_follows(&task)) {
        off_cpu_wakes(w->off, &task, step->time,
                      stacks_where(w->tree->stacks, step->vcpu));
    }
}

static void take_step(struct call_walk *w, const struct call_step *step)
{
    struct call_stream *s = &w->streams[step->vcpu];

    switch (step->kind) {
    case CALL_STEP_WAIT:
        if (!w->off) {
            stacks_wait(w->tree->stacks, step->vcpu, step->wait);
        }
        break;
    case CALL_STEP_GAP:
        s->index = step->index - 1;
        s->since = step->index;
        stacks_gap(w->tree->stacks, step->vcpu);
        s->node = NULL;
        s->runs = false;
        if (w->off) {
            forget_tasks(w);
        }
        if (w->options->ops && w->options->ops->gap) {
            w->options->ops->gap(w->options->opaque, step->vcpu);
        }
        break;
    case CALL_STEP_RECORDS:
        add_part(w, step);
        break;
    case CALL_STEP_LEFT:
        note_left(w, step);
        break;
    case CALL_STEP_WAKE:
        note_wake(w, step);
        break;
    }
}

/*
 * A task that has not come back was away up to the end, unless it may have
 * ended, which only functions of the kernel tell if no event does.
 */
static void add_last_away(void *opaque, const struct off_cpu_wait *wait)
{
    const struct call_walk *w = opaque;
    const struct function *f = wait->node ? wait->node->function : NULL;

    if (wait->state != THREAD_UNKNOWN ||
        (f && f->known && f->module->kernel)) {
        add_away(w, wait, w->until, false);
    } else {
        w->tree->forgotten++;
    }
}

int call_tree_read(struct call_tree *t, const struct btrail_trace *trace,
                   const struct call_tree_options *options)
{
    const struct call_reader_options read = {
        .names = options->names, .filter = options->filter,
        .window = options->window, .from = options->from,
        .times = options->times, .waits = options->waits,
        .whole = options->whole, .leaves = options->off_cpu,
        .tick = options->tick,
        .many_edges = options->many_edges,
    };
    struct call_reader_sums sums;
    struct call_walk *w;
    struct call_reader *r;
    const struct call_step *steps;
    size_t n;
    int ret = call_reader_open(&r, trace, &read), error;

    memset(t, 0, sizeof(*t));
    if (ret) {
        return ret;
    }
    w = g_new0(struct call_walk, 1);
    w->options = options;
    w->tree = t;
    w->follows = options->ops && (options->ops->moved || options->ops->spent);
    t->stacks = stacks_new(&(struct stacks_options) {
        .by_command = !w->follows,
        .many = options->many,
        .moved = w->follows ? on_moved : NULL,
        .next = next_part,
        .spill = options->ops ? on_spill : NULL,
        .opaque = w,
    });
    w->reader = r;
    w->off = options->off_cpu ?
             off_cpu_new(wake_order_slack(options->tick)) : NULL;
    t->away = options->off_cpu ? off_cpu_sums_new(0) : NULL;
    w->times = w->off && !options->times ? times_new(&options->window, NULL) :
               NULL;
    while ((steps = call_reader_next(r, &n))) {
        for (size_t i = 0; i < n; i++) {
            take_step(w, &steps[i]);
        }
    }
    ret = call_reader_close(r, &sums);
    error = errno;
    t->records = sums.records;
    t->chosen = sums.chosen;
    t->damage = sums.damage;
    t->gaps = sums.gaps;
    if (w->off) {
        t->forgotten = off_cpu_forgotten(w->off);
        w->until = sums.until;
        off_cpu_each(w->off, add_last_away, w);
    }
    off_cpu_free(w->off);
    times_free(w->times);
    g_free(w->none);
    g_free(w);
    if (ret) {
        call_tree_clear(t);
    }
    errno = error;
    return ret;
}

void call_tree_clear(struct call_tree *t)
{
    stacks_free(t->stacks);
    t->stacks = NULL;
    g_clear_pointer(&t->away, off_cpu_sums_free);
}

static void add_sums(struct call_sum *sums, const struct stack_node *n)
{
    for (; n; n = n->next) {
        struct call_sum *mine = &sums[n->id];

        mine->records += n->records;
        mine->ticks += n->ticks;
        /* The tree is at most STACK_MAX_DEPTH deep. */
        add_sums(sums, n->child);
        if (n->parent) {
            sums[n->parent->id].records += mine->records;
            sums[n->parent->id].ticks += mine->ticks;
        }
    }
}

struct call_sum *call_tree_sums(const struct call_tree *t)
{
    struct call_sum *sums = g_new0(struct call_sum,
                                   stacks_nodes(t->stacks) + 1);

    add_sums(sums, stacks_roots(t->stacks));
    return sums;
}

const char *call_tree_name_of(const struct process *process,
                              const struct function *function, char *buf,
                              size_t size)
{
    if (function) {
        if (function->known) {
            return function->name;
        }
        g_snprintf(buf, size, "[%s]", function->module->name);
        return strcmp(function->module->name, NAME_UNKNOWN) &&
               *function->module->name != '[' ? buf : function->module->name;
    }
    if (process->pid < 0) {
        return process->comm;
    }
    g_snprintf(buf, size, "%s %" PRId64, process->comm, process->pid);
    if (process->tid >= 0 && process->tid != process->pid) {
        size_t len = strlen(buf);

        g_snprintf(buf + len, size - len, "/%" PRId64, process->tid);
    }
    return buf;
}

const char *call_tree_name(const struct stack_node *n, char *buf, size_t size)
{
    return call_tree_name_of(n->process, n->function, buf, size);
}
