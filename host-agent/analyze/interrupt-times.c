/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts and softirqs as they began and ended: see interrupt-times.h
 */

#include <string.h>

#include "analyze/cpu-threads.h"
#include "analyze/interrupt-times.h"
#include "symbolize/vectors.h"

/* What a function is to this */
enum role {
    ROLE_NONE,
    ROLE_ENTRY,
    ROLE_HANDLES,               /* it calls handlers */
    ROLE_RUNS,                  /* it calls softirqs' actions */
    ROLE_ACTION,
    ROLE_LEAVES,                /* what it does is no part of an interrupt */
};

/**
 * struct irq_function - a function
 * @name:   of the interrupt or softirq
 * @helper: nothing that a driver has
 */
struct irq_function {
    enum role role;
    bool helper;
    const char *name;
    char vector[16];
};

/**
 * struct irq_piece - what a thread or a vCPU is in
 * @depth:  in its stack
 * @at:     the function that is there: others can continue one, by a jump
 * @paused: of the thread, before it
 * @inner:  what is told apart of it, in ns without pauses
 * @late:   it had begun before
 * @chosen: records in it count
 */
struct irq_piece {
    enum interrupt_kind kind;
    const struct irq_function *known;
    const char *name;
    unsigned depth;
    const struct function *at;
    uint64_t begin;
    uint64_t paused;
    uint64_t inner;
    bool late;
    bool chosen;
};

/**
 * struct irq_holder - a thread or a vCPU
 * @of:     if it is a thread
 * @seen:   something is known of it
 * @pieces: of struct irq_piece, those within others last; NULL at first
 * @time:   of the last move
 */
struct irq_holder {
    struct cpu_thread of;
    bool seen;
    GArray *pieces;
    uint64_t time;
};

struct interrupt_times {
    struct interrupt_times_options options;
    struct irq_holder own[BTRAIL_MAX_VCPUS];        /* vCPUs */
    struct cpu_threads *threads;        /* of struct irq_holder */
    GHashTable *functions;      /* struct function -> struct irq_function */
};

static void clear_holder(gpointer p)
{
    struct irq_holder *h = p;

    g_clear_pointer(&h->pieces, g_array_unref);
}

struct interrupt_times *
interrupt_times_new(const struct interrupt_times_options *options)
{
    struct interrupt_times *s = g_new0(struct interrupt_times, 1);

    s->options = *options;
    s->threads = cpu_threads_new(sizeof(struct irq_holder), clear_holder);
    cpu_threads_set_pauses(s->threads, options->pauses);
    s->functions = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return s;
}

void interrupt_times_free(struct interrupt_times *s)
{
    if (s) {
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            clear_holder(&s->own[i]);
        }
        cpu_threads_free(s->threads);
        g_hash_table_unref(s->functions);
        g_free(s);
    }
}

/*
 * What functions are
 */

/* Softirqs by their actions, of Linux 4.19 and later */
static const struct {
    const char *action;
    const char *name;
} softirqs[] = {
    { "tasklet_hi_action", "HI" },
    { "run_timer_softirq", "TIMER" },
    { "net_tx_action", "NET_TX" },
    { "net_rx_action", "NET_RX" },
    { "blk_done_softirq", "BLOCK" },
    { "irq_poll_softirq", "IRQ_POLL" },
    { "tasklet_action", "TASKLET" },
    { "run_rebalance_domains", "SCHED" },
    { "sched_balance_softirq", "SCHED" },
    { "hrtimer_run_softirq", "HRTIMER" },
    { "rcu_core_si", "RCU" },
    { "rcu_core", "RCU" },
    { "rcu_process_callbacks", "RCU" },
};

/* Is it this function, or a part of it that a compiler has made? */
static bool is_called(const char *name, const char *wanted)
{
    size_t len = strlen(wanted);

    return !strncmp(name, wanted, len) && (!name[len] || name[len] == '.');
}

static bool is_any(const char *name, const char *const *wanted)
{
    while (*wanted && !is_called(name, *wanted)) {
        wanted++;
    }
    return *wanted;
}

static enum role role_of(const char *name)
{
    static const char *const handles[] = {
        "__handle_irq_event_percpu", "handle_irq_event_percpu", NULL,
    };
    static const char *const runs[] = {
        "handle_softirqs", "__do_softirq", "__softirqentry_text_start",
        NULL,
    };
    static const char *const leaves[] = {
        "__schedule", "preempt_schedule_irq", "irqentry_exit_to_user_mode",
        "exit_to_user_mode_prepare", "exit_to_user_mode_loop",
        "prepare_exit_to_usermode", NULL,
    };

    return is_any(name, handles) ? ROLE_HANDLES :
           is_any(name, runs) ? ROLE_RUNS :
           is_any(name, leaves) ? ROLE_LEAVES : ROLE_NONE;
}

/* What the kernel itself calls where it calls handlers (kernel/irq/handle.c) */
static bool is_helper(const char *name)
{
    static const char *const names[] = {
        "__handle_irq_event_percpu", "__irq_wake_thread", "irq_wake_thread",
        "add_interrupt_randomness", "note_interrupt", "record_irq_time",
        "warn_no_thread", "_printk", "printk", "__warn_printk", NULL,
    };
    static const char *const prefixes[] = {
        "__traceiter_", "trace_event_raw_event_", "perf_trace_", "__SCT__",
        "__SCK__", "__bpf_trace_", "asm_", "__x86_", "srso_", "__fentry__",
        "ftrace_", "lock_", "warn_",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(prefixes); i++) {
        if (g_str_has_prefix(name, prefixes[i])) {
            return true;
        }
    }
    return is_any(name, names);
}

static void know_function(const struct interrupt_times *s,
                          struct irq_function *k, const struct function *f)
{
    const struct vector_entry *entry = g_hash_table_lookup(s->options.entries,
                                                           f->name);

    k->name = f->name;
    k->role = role_of(f->name);
    k->helper = is_helper(f->name);
    if (entry) {
        k->role = ROLE_ENTRY;
        k->name = entry->name;
        if (entry->number >= 0) {
            g_snprintf(k->vector, sizeof(k->vector), "0x%02x", entry->number);
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(softirqs); i++) {
        if (is_called(f->name, softirqs[i].action)) {
            k->role = ROLE_ACTION;
            g_strlcpy(k->vector, softirqs[i].name, sizeof(k->vector));
        }
    }
}

static const struct irq_function *
known_of(const struct interrupt_times *s, const struct function *f)
{
    static const struct irq_function none = { ROLE_NONE, true, "", "" };
    struct irq_function *k;

    if (!f || !f->known || !f->module->kernel) {
        return &none;
    }
    k = g_hash_table_lookup(s->functions, f);
    if (!k) {
        k = g_new0(struct irq_function, 1);
        know_function(s, k, f);
        g_hash_table_insert(s->functions, (gpointer)f, k);
    }
    return k;
}

/* What begins where the function of a node is called */
static enum interrupt_kind kind_of(const struct interrupt_times *s,
                                   const struct irq_holder *h,
                                   const struct stack_node *n)
{
    const struct irq_function *k = known_of(s, n->function), *caller;

    if (k->role == ROLE_ENTRY) {
        return INTERRUPT;
    }
    if (k->role == ROLE_LEAVES && h->pieces->len) {
        return INTERRUPT_OTHER;
    }
    caller = known_of(s, n->parent ? n->parent->function : NULL);
    return caller->role == ROLE_RUNS && k->role == ROLE_ACTION ?
               INTERRUPT_SOFTIRQ :
           caller->role == ROLE_HANDLES && !k->helper && n->function ?
               INTERRUPT_HANDLER : INTERRUPT_NONE;
}

/*
 * What threads and vCPUs are in
 */

static struct irq_piece *piece_at(const struct irq_holder *h, guint i)
{
    return &g_array_index(h->pieces, struct irq_piece, i);
}

static struct irq_piece *last_piece(const struct irq_holder *h)
{
    return h->pieces && h->pieces->len ? piece_at(h, h->pieces->len - 1) :
           NULL;
}

static uint64_t paused_in(const struct interrupt_times *s,
                          const struct irq_holder *h, const struct irq_piece *p,
                          uint64_t end)
{
    const struct pauses *pauses = s->options.pauses;
    bool vcpu = h >= s->own && h < s->own + BTRAIL_MAX_VCPUS;
    uint64_t alone;

    if (!pauses) {
        return 0;
    }
    alone = vcpu ? pauses_vcpu_alone(pauses, h - s->own, p->begin, end) :
            h->of.paused - p->paused;
    return MIN(end - p->begin,
               alone + pauses_whole_guest(pauses, p->begin, end));
}

/* The time of the last piece is no part of those around it. */
static void tell_apart(struct irq_holder *h, uint64_t ns)
{
    bool handler = true;

    for (guint i = h->pieces->len - 1; i && handler; i--) {
        struct irq_piece *around = piece_at(h, i - 1);

        around->inner += ns;
        handler = around->kind == INTERRUPT_HANDLER;
    }
}

/* Ends the last piece. */
static void end_piece(struct interrupt_times *s, struct irq_holder *h,
                      uint64_t time, bool cut)
{
    const struct irq_piece *p = last_piece(h);
    uint64_t end = MAX(time, p->begin);
    uint64_t ns = end - p->begin - paused_in(s, h, p, end);
    const struct interrupt_time found = {
        .kind = p->kind, .vector = p->known->vector, .name = p->name,
        .begin = p->begin, .end = end, .ns = ns - MIN(ns, p->inner),
        .whole = !p->late && !cut,
    };

    if (p->chosen && p->kind != INTERRUPT_OTHER) {
        s->options.ended(s->options.opaque, &found);
    }
    if (p->kind != INTERRUPT_HANDLER) {
        tell_apart(h, ns);
    }
    g_array_set_size(h->pieces, h->pieces->len - 1);
}

static void end_all(struct interrupt_times *s, struct irq_holder *h,
                    uint64_t time, bool cut)
{
    while (last_piece(h)) {
        end_piece(s, h, time, cut);
    }
}

static void begin_piece(struct interrupt_times *s, struct irq_holder *h,
                        const struct stack_node *n, uint64_t time, bool late)
{
    const struct irq_piece p = {
        .kind = kind_of(s, h, n), .known = known_of(s, n->function),
        .name = known_of(s, n->function)->name, .depth = n->depth,
        .at = n->function, .begin = time, .paused = h->of.paused,
        .late = late,
    };

    if (p.kind) {
        g_array_append_val(h->pieces, p);
    }
}

/* Is the path to a node still that of a piece? */
static bool is_on_path(const struct irq_piece *p, const struct stack_node *to)
{
    while (to && to->depth > p->depth) {
        to = to->parent;
    }
    return to && to->depth == p->depth && to->function == p->at;
}

/* How many pieces, the first ones, are on the path to a node */
static guint shared_pieces(const struct irq_holder *h,
                           const struct stack_node *to)
{
    guint n = 0;

    while (n < h->pieces->len && is_on_path(piece_at(h, n), to)) {
        n++;
    }
    return n;
}

/* A holder is at a node now, and was at another one, or it is not known
 * where. */
static void move(struct interrupt_times *s, struct irq_holder *h, uint64_t time,
                 const struct stack_node *from, const struct stack_node *to)
{
    const struct stack_node *path[STACK_MAX_DEPTH + 2];
    bool same = from && from->process == to->process;
    guint shared = shared_pieces(h, to), depth = 0;
    int last = shared ? (int)piece_at(h, shared - 1)->depth : -1;

    while (h->pieces->len > shared) {
        end_piece(s, h, time, !same);
    }
    for (const struct stack_node *n = to;
         n && (int)n->depth > last && depth < G_N_ELEMENTS(path);
         n = n->parent) {
        path[depth++] = n;
    }
    while (depth--) {
        begin_piece(s, h, path[depth], time, !same || path[depth] != to);
    }
}

/* The usual moves, which change little; false if it is none */
static bool move_by_one(struct interrupt_times *s, struct irq_holder *h,
                        uint64_t time, const struct stack_node *from,
                        const struct stack_node *to)
{
    struct irq_piece *p = last_piece(h);

    if (!from || !h->seen) {
        return false;
    }
    if (to->parent == from) {
        begin_piece(s, h, to, time, false);
        return true;
    }
    if (from->parent == to) {
        while ((p = last_piece(h)) && p->depth > to->depth) {
            end_piece(s, h, time, false);
        }
        return true;
    }
    if (from->parent != to->parent || !from->parent) {
        return false;
    }
    /* By a jump, which continues it */
    if (p && p->depth == to->depth) {
        p->at = to->function;
    } else {
        begin_piece(s, h, to, time, false);
    }
    return true;
}

/* Is it a thread that can have made records that are missing? */
static bool has_lost(const struct interrupt_times *s, unsigned vcpu,
                     const struct irq_holder *h)
{
    return h != &s->own[vcpu] && cpu_threads_lost(s->threads, h);
}

/* Up to when it certainly was in its interrupts */
static uint64_t known_until(const struct interrupt_times *s,
                            const struct irq_holder *h)
{
    return cpu_threads_lost(s->threads, h) ?
           MIN(h->time, cpu_threads_lost_since(s->threads, h)) : h->time;
}

static struct irq_holder *holder_at(struct interrupt_times *s, unsigned vcpu,
                                uint64_t time, const struct stack_node *n)
{
    struct irq_holder *h = cpu_threads_run(s->threads, vcpu, time,
                                           n->process);

    h = h ?: &s->own[vcpu];
    h->pieces = h->pieces ?: g_array_new(FALSE, FALSE,
                                         sizeof(struct irq_piece));
    return h;
}

static void on_gap(void *opaque, unsigned vcpu)
{
    struct interrupt_times *s = opaque;
    struct irq_holder *own = &s->own[vcpu];

    cpu_threads_gap(s->threads, vcpu);
    end_all(s, own, own->time, true);
    own->seen = false;
}

static void on_moved(void *opaque, unsigned vcpu, uint64_t time,
                     const struct stack_node *from,
                     const struct stack_node *to, uint64_t stack)
{
    struct interrupt_times *s = opaque;
    struct irq_holder *own = &s->own[vcpu], *h;

    cpu_threads_time(s->threads, vcpu, time);
    if (!time || !to) {
        return;
    }
    h = holder_at(s, vcpu, time, to);
    if (h != own) {
        end_all(s, own, MAX(time, own->time), true);
        own->seen = false;
    }
    if (has_lost(s, vcpu, h)) {
        end_all(s, h, known_until(s, h), true);
        cpu_threads_found(s->threads, h);
        h->seen = false;
    }
    from = h->seen ? from : NULL;
    /* Two vCPUs can run a thread in another order than their clocks say. */
    h->time = time = MAX(time, h->time);
    if (!move_by_one(s, h, time, from, to)) {
        move(s, h, time, from, to);
    }
    h->seen = true;
}

/* Records count, and so does what they are in. */
static void on_spent(void *opaque, unsigned vcpu, uint64_t time,
                     const struct stack_node *node, uint64_t stack,
                     uint64_t records)
{
    struct interrupt_times *s = opaque;
    struct irq_holder *h = holder_at(s, vcpu, time, node);

    cpu_threads_time(s->threads, vcpu, time);
    if (!h->seen || has_lost(s, vcpu, h)) {
        on_moved(opaque, vcpu, time, NULL, node, stack);
    }
    h->time = MAX(h->time, time);
    for (guint i = h->pieces->len; i && !piece_at(h, i - 1)->chosen; i--) {
        piece_at(h, i - 1)->chosen = true;
    }
}

/* Nodes are not kept. */
const struct call_tree_ops interrupt_times_tree_ops = {
    .moved = on_moved, .spent = on_spent, .gap = on_gap,
};

void interrupt_times_end(struct interrupt_times *s)
{
    g_autoptr(GList) all = cpu_threads_all(s->threads);

    for (const GList *l = all; l; l = l->next) {
        struct irq_holder *h = l->data;

        end_all(s, h, known_until(s, h), true);
    }
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        end_all(s, &s->own[i], s->own[i].time, true);
    }
}
