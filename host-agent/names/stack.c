/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Call stacks: see stack.h
 *
 * The records of a trace are many, their edges few.  What an edge does is
 * found out once.
 */

#include <string.h>

#include "instruction.h"
#include "stack.h"

#define MAX_FRAMES      8192
#define MAX_CONTEXTS    4096
#define MAX_EDGES       (4u << 20)
#define FIRST_BITS      12

/* What a kernel calls so near behind is no function. */
#define NEAR_CALL       32

/* An address of user mode in another process is another place. */
#define KERNEL_SPACE    UINT32_MAX

enum edge_kind {
    EDGE_UNKNOWN,               /* nothing is known of the instruction */
    EDGE_CALL,
    EDGE_RET,
    EDGE_JUMP,                  /* that says where */
    EDGE_JUMP_FAR,              /* indirect: it can go anywhere */
    EDGE_ENTRY,                 /* from user mode to the kernel */
    EDGE_EXIT,                  /* back */
    EDGE_INTERRUPT,             /* in the same mode */
    EDGE_IRET,
};

struct edge_info {
    uint64_t from;
    uint64_t to;
    uint64_t back;              /* where a return goes to */
    const struct function *from_fn;
    const struct function *to_fn; /* NULL: the slot is free */
    uint32_t space;
    uint8_t kind;
    bool start;                 /* @to is where a function starts */
    bool inner;                 /* a call into the middle of itself */
    bool switches;              /* a call of what switches kernel stacks */
    bool stays;                 /* a tail call that is shown as a call */
};

enum frame_kind {
    FRAME_CALL,
    FRAME_INTERRUPT,
    FRAME_ENTRY,
    FRAME_SIGNAL,
};

/*
 * @from and @back: if the call's length is not known, @back is 0
 * @caller: where it goes on after the return
 */
struct frame {
    uint64_t from;
    uint64_t back;
    struct stack_node *caller;
    uint8_t kind;
    bool inner;
};

struct context {
    struct frame *frames;
    unsigned n;
    unsigned size;
    int entry;                  /* the frame of FRAME_ENTRY; -1: user mode */
    struct stack_node *node;    /* NULL if that is not known */
    const struct process *process;
    bool sure;                  /* it was in user mode in that process */
    bool parked;                /* a user stack that is not a thread's */
    bool running;
    uint64_t resume;            /* where in the kernel it will go on */
    uint64_t age;
    GPtrArray *candidates;      /* what it could be, if it has no frames */
    unsigned level;             /* frames of theirs that were passed */
};

struct cpu {
    struct context *ctx;
    const struct process *process;
    uint64_t cr3;
    unsigned switching;         /* frames, when the stack is switched; 0: not */
};

struct stacks {
    struct symbolizer *s;
    stack_moved_fn *moved;
    void *opaque;
    struct cpu cpus[BTRAIL_MAX_VCPUS];
    unsigned n_cpus;            /* beyond these, none was seen */
    GPtrArray *contexts;        /* all of them */
    uint64_t age;
    struct edge_info *edges;
    unsigned bits;
    size_t used;
    struct edge_info scratch;   /* of an edge beyond the limit */
    GHashTable *nodes;          /* of struct stack_node, by parent and name */
    struct stack_node *roots;
    GPtrArray *all;
    struct stack_counts counts;
    bool counting;              /* the record that comes counts */
};

/*
 * The tree
 */

static guint node_hash(gconstpointer p)
{
    const struct stack_node *n = p;
    const void *name = n->function ? (const void *)n->function : n->process;

    return ((uintptr_t)n->parent * 31 + (uintptr_t)name) *
           0x9e3779b97f4a7c15ull >> 32;
}

static gboolean node_equal(gconstpointer a, gconstpointer b)
{
    const struct stack_node *x = a, *y = b;

    return x->parent == y->parent && x->function == y->function &&
           (x->function || x->process == y->process);
}

static struct stack_node *get_node(struct stacks *st,
                                   struct stack_node *parent,
                                   const struct process *process,
                                   const struct function *function)
{
    const struct stack_node key = { parent, process, function };
    struct stack_node *n = g_hash_table_lookup(st->nodes, &key);

    if (n) {
        return n;
    }
    if (parent && st->all->len >= STACK_MAX_NODES) {
        st->counts.dropped++;
        return parent;
    }
    n = g_new0(struct stack_node, 1);
    *n = key;
    n->depth = parent ? parent->depth + 1 : 0;
    n->id = st->all->len;
    n->next = parent ? parent->child : st->roots;
    if (parent) {
        parent->child = n;
    } else {
        st->roots = n;
    }
    g_ptr_array_add(st->all, n);
    g_hash_table_add(st->nodes, n);
    return n;
}

/* @parent has called @function. */
static inline struct stack_node *child(struct stacks *st,
                                       struct stack_node *parent,
                                       const struct function *function)
{
    if (parent->depth >= STACK_MAX_DEPTH && parent->parent) {
        st->counts.dropped++;
        parent = parent->parent;
    }
    if (!parent->hot || parent->hot->function != function) {
        parent->hot = get_node(st, parent, parent->process, function);
    }
    return parent->hot;
}

/* The same caller has @function instead: after a tail call. */
static inline struct stack_node *sibling(struct stacks *st,
                                         struct stack_node *node,
                                         const struct function *function)
{
    if (node->function == function) {
        return node;
    }
    return child(st, node->parent ? node->parent : node, function);
}

static struct stack_node *root(struct stacks *st, const struct process *p)
{
    return get_node(st, NULL, p->who, NULL);
}

/*
 * Edges
 */

/* Is this where the kernel takes an interrupt or exception? */
static bool takes_interrupts(const struct function *f)
{
    return g_str_has_prefix(f->name, "asm_") ||
           g_str_has_prefix(f->name, "irq_entries") ||
           g_str_has_prefix(f->name, "spurious_entries") ||
           g_str_has_prefix(f->name, "entry_");
}

/*
 * A kernel changes its code when it boots: calls of a thunk become what that
 * would do, and what does nothing becomes a jump.  So what its file says is
 * not what has happened.  The same holds for the vDSO: nothing interrupts a
 * program but the kernel.
 */
static enum edge_kind kind_of_changed(struct stacks *st,
                                      const struct process *process,
                                      const struct edge_info *e,
                                      const struct instruction *insn)
{
    struct place target;

    if (takes_interrupts(e->to_fn)) {
        return EDGE_INTERRUPT;
    }
    switch (insn->kind) {
    case INSTRUCTION_CALL:
        return EDGE_CALL;
    case INSTRUCTION_JUMP:
        symbolizer_place(st->s, process, insn->target, &target);
        if (strstr(target.function->name, "return_thunk")) {
            return EDGE_RET;
        }
        return EDGE_JUMP_FAR;
    default:
        return e->from_fn == e->to_fn ? EDGE_JUMP :
               e->start ? EDGE_CALL : EDGE_INTERRUPT;
    }
}

static void classify(struct stacks *st, const struct cpu *cpu, unsigned vcpu,
                     uint64_t index, struct edge_info *e)
{
    const struct symbolizer_where where = { vcpu, index, cpu->cr3 };
    bool from_kernel = e->from >= ADDRESS_SHARED;
    bool to_kernel = e->to >= ADDRESS_SHARED;
    uint8_t bytes[INSTRUCTION_MAX];
    struct instruction insn;
    struct place from, to;
    bool exact;
    size_t n;

    symbolizer_place(st->s, cpu->process, e->from, &from);
    symbolizer_place(st->s, cpu->process, e->to, &to);
    n = symbolizer_code(st->s, cpu->process, &where, e->from, bytes,
                        sizeof(bytes), &exact);
    instruction_decode(bytes, n, symbolizer_bits(st->s, cpu->process,
                                                 e->from),
                       e->from, &insn);
    e->from_fn = from.function;
    e->to_fn = to.function;
    e->start = to.function->known && !to.offset;
    e->back = insn.length ? e->from + insn.length : 0;
    if (!instruction_goes(&insn, e->to) &&
        (from_kernel ? to_kernel && !exact :
         !to_kernel && cpu->process->known)) {
        e->kind = kind_of_changed(st, cpu->process, e, &insn);
        e->back = e->kind == EDGE_INTERRUPT ? e->from : 0;
        return;
    }
    if (!instruction_goes(&insn, e->to)) {
        /* It has not been executed, and will be afterwards. */
        e->back = e->from;
        e->kind = to_kernel && !from_kernel ? EDGE_ENTRY : EDGE_INTERRUPT;
        return;
    }
    if (to_kernel != from_kernel) {
        e->kind = to_kernel ? EDGE_ENTRY : EDGE_EXIT;
        if (to_kernel && insn.kind != INSTRUCTION_SYSCALL &&
            insn.kind != INSTRUCTION_INT && insn.length) {
            e->back = e->from;
        }
        return;
    }
    switch (insn.kind) {
    case INSTRUCTION_UNKNOWN:
        e->kind = EDGE_UNKNOWN;
        break;
    case INSTRUCTION_CALL:
        /* A call of what follows it asks for its own address. */
        e->kind = e->to == e->back ? EDGE_JUMP : EDGE_CALL;
        if (!exact && !insn.direct) {
            /* It may have become a shorter one. */
            e->back = 0;
        }
        e->inner = e->from_fn == e->to_fn && !e->start;
        if (e->inner && to_kernel && e->to - e->from < NEAR_CALL) {
            /* It fills the return predictor, or is a jump in disguise. */
            e->kind = EDGE_JUMP;
        }
        e->switches = to_kernel && e->start &&
                      !strcmp(to.function->name, "__switch_to_asm");
        break;
    case INSTRUCTION_RET:
        e->kind = EDGE_RET;
        break;
    case INSTRUCTION_IRET:
    case INSTRUCTION_SYSRET:
        e->kind = EDGE_IRET;
        break;
    case INSTRUCTION_INT:
        e->kind = EDGE_INTERRUPT;
        break;
    case INSTRUCTION_JUMP:
        /* The entry of a system call says which one it is. */
        e->stays = to_kernel && e->from_fn != e->to_fn && e->start &&
                   (g_str_has_prefix(from.function->name, "__x64_sys_") ||
                    g_str_has_prefix(from.function->name, "__ia32_"));
        e->kind = insn.direct ? EDGE_JUMP : EDGE_JUMP_FAR;
        break;
    default:
        e->kind = EDGE_JUMP;
        break;
    }
}

static struct edge_info *edge_slot(const struct stacks *st, uint32_t space,
                                   uint64_t from, uint64_t to)
{
    size_t mask = ((size_t)1 << st->bits) - 1;
    size_t i = (from * 0x9e3779b97f4a7c15ull ^ to * 0xff51afd7ed558ccdull ^
                space * 0xc4ceb9fe1a85ec53ull) >> (64 - st->bits);

    for (;; i = (i + 1) & mask) {
        struct edge_info *e = &st->edges[i];

        if (!e->to_fn ||
            (e->from == from && e->to == to && e->space == space)) {
            return e;
        }
    }
}

static void grow_edges(struct stacks *st)
{
    size_t i, n = (size_t)1 << st->bits;
    struct edge_info *old = st->edges;

    st->bits++;
    st->edges = g_new0(struct edge_info, (size_t)1 << st->bits);
    for (i = 0; i < n; i++) {
        if (old[i].to_fn) {
            *edge_slot(st, old[i].space, old[i].from, old[i].to) = old[i];
        }
    }
    g_free(old);
}

static struct edge_info *get_edge(struct stacks *st, const struct cpu *cpu,
                                  unsigned vcpu, uint64_t index,
                                  const struct btrail_record *r)
{
    uint32_t space = r->from >= ADDRESS_SHARED && r->to >= ADDRESS_SHARED ?
                     KERNEL_SPACE : cpu->process->id;
    struct edge_info *e = edge_slot(st, space, r->from, r->to);

    if (G_LIKELY(e->to_fn)) {
        return e;
    }
    if (st->used >= MAX_EDGES) {
        e = &st->scratch;
    } else if (++st->used > ((size_t)1 << st->bits) / 4 * 3) {
        grow_edges(st);
        e = edge_slot(st, space, r->from, r->to);
    }
    *e = (struct edge_info) { .from = r->from, .to = r->to, .space = space };
    classify(st, cpu, vcpu, index, e);
    return e;
}

/*
 * Contexts
 */

static void context_free(gpointer p)
{
    struct context *c = p;

    if (c->candidates) {
        g_ptr_array_unref(c->candidates);
    }
    g_free(c->frames);
    g_free(c);
}

/* Nobody's candidate any more; only what runs has some. */
static void drop_candidate(struct stacks *st, struct context *c)
{
    unsigned i;

    for (i = 0; i < st->n_cpus; i++) {
        const struct context *other = st->cpus[i].ctx;

        if (other && other->candidates) {
            g_ptr_array_remove(other->candidates, c);
        }
    }
}

static void forget(struct stacks *st, struct context *c)
{
    drop_candidate(st, c);
    g_ptr_array_remove_fast(st->contexts, c);
}

static struct context *context_new(struct stacks *st,
                                   const struct process *process)
{
    struct context *c = g_new0(struct context, 1), *oldest = NULL;
    unsigned i;

    if (st->contexts->len >= MAX_CONTEXTS) {
        for (i = 0; i < st->contexts->len; i++) {
            struct context *other = st->contexts->pdata[i];

            if (!other->running && (!oldest || other->age < oldest->age)) {
                oldest = other;
            }
        }
        if (oldest) {
            st->counts.dropped += oldest->n;
            forget(st, oldest);
        }
    }
    c->process = process;
    c->entry = -1;
    c->age = st->age++;
    c->running = true;
    g_ptr_array_add(st->contexts, c);
    return c;
}

static void push(struct stacks *st, struct context *c, enum frame_kind kind,
                 const struct edge_info *e)
{
    struct frame *f;

    if (c->n == MAX_FRAMES) {
        unsigned half = MAX_FRAMES / 2;

        memmove(c->frames, c->frames + half, half * sizeof(*c->frames));
        c->n -= half;
        c->entry = c->entry < (int)half ? -1 : c->entry - (int)half;
        st->counts.dropped += half;
    }
    if (c->n == c->size) {
        c->size = MAX(2 * c->size, 16);
        c->frames = g_renew(struct frame, c->frames, c->size);
    }
    f = &c->frames[c->n];
    *f = (struct frame) { e->from, e->back, c->node, kind, e->inner };
    if (kind == FRAME_ENTRY) {
        c->entry = c->n;
    }
    c->n++;
    c->node = child(st, c->node, e->to_fn);
    c->node->calls += st->counting;
}

static inline bool goes_back(const struct frame *f, uint64_t to)
{
    if (f->back) {
        return f->back == to;
    }
    /* A near call has two to eight bytes, or nearly always. */
    return to > f->from + 1 && to <= f->from + 8;
}

/* Go back to frame @k. */
static void pop_to(struct stacks *st, struct context *c, unsigned k,
                   const struct edge_info *e)
{
    c->n = k;
    if (c->entry >= (int)k) {
        c->entry = -1;
    }
    c->node = sibling(st, c->frames[k].caller, e->to_fn);
}

/* The frames that belong to what the context does now: from here on */
static unsigned bottom(const struct context *c)
{
    return c->entry + 1;
}

/* The frame that goes back to @to, or -1 */
static int find_back(const struct context *c, uint64_t to)
{
    int k;

    for (k = (int)c->n - 1; k >= (int)bottom(c); k--) {
        if (c->frames[k].kind == FRAME_CALL && goes_back(&c->frames[k], to)) {
            return k;
        }
    }
    return -1;
}

/* The frame that a function called from, or -1 */
static int find_caller(const struct context *c,
                       const struct function *function)
{
    int k;

    for (k = (int)c->n - 1; k >= (int)bottom(c); k--) {
        if (c->frames[k].caller->function == function && function->known) {
            return k;
        }
    }
    return -1;
}

/*
 * With page table isolation a process has two page tables, one beside the
 * other.  Who knows the process knows that it is one.
 */
static bool same_process(const struct process *a, const struct process *b)
{
    return a == b || ((a->cr3 ^ b->cr3) == 0x1000 &&
                      !(a->known && b->known));
}

/* It may be gone afterwards, if it has no frames. */
static void suspend(struct stacks *st, struct cpu *cpu, uint64_t resume)
{
    struct context *c = cpu->ctx;

    cpu->ctx = NULL;
    c->running = false;
    c->resume = resume;
    c->age = st->age++;
    if (c->candidates) {
        g_ptr_array_unref(c->candidates);
        c->candidates = NULL;
    }
    if (!c->n) {
        forget(st, c);
    }
}

static void run(struct stacks *st, struct cpu *cpu, struct context *c)
{
    drop_candidate(st, c);
    c->running = true;
    c->parked = false;
    cpu->ctx = c;
    cpu->switching = 0;
    st->counts.switches++;
}

/* Nothing is known but where it is. */
static struct context *run_fresh(struct stacks *st, struct cpu *cpu,
                                 const struct edge_info *e)
{
    struct context *c = context_new(st, cpu->process);

    c->node = e ? child(st, root(st, c->process), e->to_fn) : NULL;
    run(st, cpu, c);
    return c;
}

/* @c turns out to be what @cpu runs; its frames from @k on are done. */
static void adopt(struct stacks *st, struct cpu *cpu, struct context *c,
                  unsigned k, const struct edge_info *e)
{
    struct context *fresh = cpu->ctx;

    c->running = true;
    c->parked = false;
    cpu->ctx = c;
    cpu->switching = 0;
    pop_to(st, c, k, e);
    drop_candidate(st, c);
    forget(st, fresh);
    st->counts.resumed++;
}

/* The kernel goes on at @to, on the stack of another thread. */
static void switch_thread(struct stacks *st, struct cpu *cpu,
                          const struct edge_info *e, uint64_t resume)
{
    struct context *old = cpu->ctx, *c;
    unsigned i;

    suspend(st, cpu, resume);
    c = run_fresh(st, cpu, e);
    c->candidates = g_ptr_array_new();
    for (i = 0; i < st->contexts->len; i++) {
        struct context *other = st->contexts->pdata[i];

        if (!other->running && other != old && other->resume == e->to &&
            other->n && (!other->sure ||
                         same_process(other->process, cpu->process))) {
            g_ptr_array_add(c->candidates, other);
        }
    }
}

/* The last known frame of a context has returned. */
static void return_from_bottom(struct stacks *st, struct cpu *cpu,
                               const struct edge_info *e)
{
    struct context *c = cpu->ctx;
    GPtrArray *left = g_ptr_array_new();
    struct context *found = NULL;
    int k = -1;
    unsigned i;

    for (i = 0; c->candidates && i < c->candidates->len; i++) {
        struct context *other = c->candidates->pdata[i];

        if (c->level < other->n &&
            other->frames[other->n - 1 - c->level].kind == FRAME_CALL &&
            goes_back(&other->frames[other->n - 1 - c->level], e->to)) {
            g_ptr_array_add(left, other);
        }
    }
    if (left->len == 1) {
        found = left->pdata[0];
        k = found->n - 1 - c->level;
    }
    /* Where something is missing, frames may be, too. */
    for (i = 0; !left->len && !found && c->candidates &&
         i < c->candidates->len; i++) {
        k = find_back(c->candidates->pdata[i], e->to);
        found = k >= 0 ? c->candidates->pdata[i] : NULL;
    }
    if (found) {
        g_ptr_array_unref(left);
        adopt(st, cpu, found, k, e);
        return;
    }
    st->counts.unknown += !left->len;
    g_ptr_array_unref(c->candidates ? c->candidates : left);
    if (c->candidates) {
        c->candidates = left;
    }
    c->level++;
    c->node = child(st, root(st, c->process), e->to_fn);
}

/* A user stack that was left and goes on at @to: the oldest one */
static struct context *find_parked(struct stacks *st, const struct cpu *cpu,
                                   uint64_t to)
{
    struct context *best = NULL;
    unsigned i;

    for (i = 0; i < st->contexts->len; i++) {
        struct context *c = st->contexts->pdata[i];

        if (c->parked && !c->running && c->n &&
            c->frames[c->n - 1].kind == FRAME_CALL &&
            goes_back(&c->frames[c->n - 1], to) &&
            same_process(c->process, cpu->process) &&
            (!best || c->age < best->age)) {
            best = c;
        }
    }
    return best;
}

/* A program goes on with another stack of its own. */
static void park(struct stacks *st, struct cpu *cpu,
                 const struct edge_info *e, struct context *next)
{
    bool sure = cpu->ctx->sure;

    cpu->ctx->parked = true;
    suspend(st, cpu, 0);
    if (next) {
        run(st, cpu, next);
        next->sure = sure;
        pop_to(st, next, next->n - 1, e);
        st->counts.resumed++;
    } else {
        run_fresh(st, cpu, e)->sure = sure;
    }
}

/*
 * What records do
 */

/* Frames from @k on that should have been returned from */
static unsigned skipped(const struct context *c, unsigned k)
{
    unsigned n = 0;

    for (; k < c->n; k++) {
        n += !c->frames[k].inner;
    }
    return n;
}

/* A return from frame @k */
static void return_to(struct stacks *st, struct cpu *cpu, unsigned k,
                      const struct edge_info *e)
{
    struct context *c = cpu->ctx;

    st->counts.returns++;
    st->counts.nested += skipped(c, k + 1);
    pop_to(st, c, k, e);
    if (cpu->switching == k + 1) {
        switch_thread(st, cpu, e, e->to);
    } else if (cpu->switching > k) {
        cpu->switching = 0;
    }
}

static void do_return(struct stacks *st, struct cpu *cpu,
                      const struct edge_info *e)
{
    struct context *c = cpu->ctx, *next;
    struct frame *top = c->n > bottom(c) ? &c->frames[c->n - 1] : NULL;
    bool kernel = e->to >= ADDRESS_SHARED;
    int k;

    if (top && top->kind == FRAME_CALL && goes_back(top, e->to)) {
        return_to(st, cpu, c->n - 1, e);
        return;
    }
    if (!top && (!c->n || c->entry < 0)) {
        return_from_bottom(st, cpu, e);
        return;
    }
    if (!top || top->kind != FRAME_CALL) {
        /* What an interrupt or signal has begun returns to what began it. */
        c->node = sibling(st, c->node, e->to_fn);
        return;
    }
    k = find_back(c, e->to);
    if (k >= 0) {
        return_to(st, cpu, k, e);
        return;
    }
    if (kernel && cpu->switching && cpu->switching <= c->n) {
        /* The other thread is new. */
        uint64_t resume;

        c->n = cpu->switching - 1;
        c->node = c->frames[c->n].caller;
        resume = c->frames[c->n].back;
        switch_thread(st, cpu, e, resume);
        return;
    }
    if (top->inner && e->start) {
        /* A jump in disguise: what the inner call had pushed was replaced. */
        c->n--;
        c->node = sibling(st, top->caller, e->to_fn);
        return;
    }
    if (!kernel) {
        next = find_parked(st, cpu, e->to);
        k = next ? -1 : find_caller(c, e->to_fn);
        if (k >= 0 && !e->start) {
            st->counts.nested += skipped(c, k);
            st->counts.jumps_out++;
            pop_to(st, c, k, e);
            return;
        }
        st->counts.unknown += !next && !e->start;
        park(st, cpu, e, next);
        return;
    }
    if (e->start) {
        c->node = sibling(st, c->node, e->to_fn);
        return;
    }
    st->counts.unknown++;
    switch_thread(st, cpu, e, top->back);
}

static void do_jump(struct stacks *st, struct cpu *cpu,
                    const struct edge_info *e)
{
    struct context *c = cpu->ctx, *next;
    int k;

    if (e->to_fn == c->node->function) {
        return;
    }
    if (e->kind == EDGE_JUMP_FAR && !e->start) {
        k = find_back(c, e->to);
        if (k >= 0) {
            return_to(st, cpu, k, e);
            return;
        }
        next = e->to < ADDRESS_SHARED ? find_parked(st, cpu, e->to) : NULL;
        if (next) {
            park(st, cpu, e, next);
            return;
        }
        k = find_caller(c, e->to_fn);
        if (k >= 0) {
            st->counts.jumps_out++;
            st->counts.nested += skipped(c, k);
            pop_to(st, c, k, e);
            return;
        }
    }
    c->node = e->stays && c->node->function == e->from_fn ?
              child(st, c->node, e->to_fn) : sibling(st, c->node, e->to_fn);
    c->node->calls += e->start;
}

/* User mode is left. */
static void do_entry(struct stacks *st, struct cpu *cpu,
                     const struct edge_info *e)
{
    st->counts.entries++;
    push(st, cpu->ctx, FRAME_ENTRY, e);
}

/* A context that left user mode where it would go on at @to: the oldest */
static struct context *find_entered(struct stacks *st, const struct cpu *cpu,
                                    GPtrArray *among, uint64_t to)
{
    struct context *best = NULL;
    unsigned i;

    for (i = 0; i < among->len; i++) {
        struct context *c = among->pdata[i];

        if (!c->running && c->entry >= 0 &&
            goes_back(&c->frames[c->entry], to) &&
            same_process(c->process, cpu->process) &&
            (!best || c->age < best->age)) {
            best = c;
        }
    }
    return best;
}

static bool resumes(const struct frame *f, uint64_t to)
{
    /* A system call may be made again: syscall and int have two bytes. */
    return !f->back || f->back == to || f->back == to + 2;
}

/*
 * The frame of what a handler has interrupted that goes on now, or -1.  The
 * handler may have changed where.
 */
static int find_signal(const struct context *c, const struct edge_info *e)
{
    int k, likely = -1;

    for (k = c->entry - 1; k >= 0; k--) {
        const struct frame *f = &c->frames[k];

        if (f->kind != FRAME_SIGNAL) {
            continue;
        }
        if (f->back && resumes(f, e->to)) {
            return k;
        }
        if (likely < 0 && !e->start && f->caller->function == e->to_fn &&
            e->to_fn->known) {
            likely = k;
        }
    }
    return likely;
}

/* Back to user mode */
static void do_exit(struct stacks *st, struct cpu *cpu,
                    const struct edge_info *e)
{
    struct context *c = cpu->ctx, *other = NULL;
    bool mine = c->entry >= 0 && same_process(c->process, cpu->process);
    int k;

    cpu->switching = 0;
    if (mine && (resumes(&c->frames[c->entry], e->to) ||
                 (!e->start && e->to_fn->known &&
                  e->to_fn == c->frames[c->entry].caller->function))) {
        pop_to(st, c, c->entry, e);
        c->sure = true;
        return;
    }
    k = mine ? find_signal(c, e) : -1;
    if (k >= 0) {
        pop_to(st, c, k, e);
        return;
    }
    if (c->candidates) {
        other = find_entered(st, cpu, c->candidates, e->to);
    }
    if (!other) {
        other = find_entered(st, cpu, st->contexts, e->to);
    }
    if (other) {
        if (c->entry < 0) {
            adopt(st, cpu, other, other->entry, e);
            st->counts.switches++;
        } else {
            suspend(st, cpu, 0);
            run(st, cpu, other);
            pop_to(st, other, other->entry, e);
            st->counts.resumed++;
        }
        return;
    }
    if (mine) {
        /* The kernel has it run a handler before it goes on. */
        k = c->entry;
        st->counts.signals++;
        c->frames[k].kind = FRAME_SIGNAL;
        c->n = k + 1;
        c->entry = -1;
        c->node = child(st, c->frames[k].caller, e->to_fn);
        c->node->calls += st->counting;
        return;
    }
    if (c->entry >= 0) {
        suspend(st, cpu, 0);
        c = run_fresh(st, cpu, e);
    }
    if (c->candidates) {
        g_ptr_array_unref(c->candidates);
        c->candidates = NULL;
    }
    c->n = 0;
    c->process = cpu->process;
    c->sure = true;
    c->node = child(st, root(st, c->process), e->to_fn);
}

/* Back from an interrupt to what was interrupted in the same mode */
static void do_iret(struct stacks *st, struct cpu *cpu,
                    const struct edge_info *e)
{
    struct context *c = cpu->ctx;
    int k, last = -1;

    for (k = (int)c->n - 1; k >= (int)bottom(c); k--) {
        if (c->frames[k].kind != FRAME_INTERRUPT) {
            continue;
        }
        last = last < 0 ? k : last;
        if (goes_back(&c->frames[k], e->to)) {
            pop_to(st, c, k, e);
            return;
        }
    }
    if (last >= 0) {
        /* It goes on elsewhere: what had failed was repaired. */
        pop_to(st, c, last, e);
    } else {
        c->node = sibling(st, c->node, e->to_fn);
    }
}

/* Nothing is known of the instruction, but of the functions. */
static void do_unknown(struct stacks *st, struct cpu *cpu,
                       const struct edge_info *e)
{
    struct context *c = cpu->ctx;

    st->counts.no_code++;
    if (find_back(c, e->to) >= 0) {
        do_return(st, cpu, e);
    } else if (e->start && (e->to_fn != e->from_fn || e->from > e->to + 64)) {
        st->counts.calls++;
        push(st, c, FRAME_CALL, e);
    } else if (e->to_fn != e->from_fn && e->to_fn->known) {
        do_return(st, cpu, e);
    } else {
        c->node = sibling(st, c->node, e->to_fn);
    }
}

static void step(struct stacks *st, struct cpu *cpu,
                 const struct edge_info *e)
{
    switch (e->kind) {
    case EDGE_CALL:
        st->counts.calls++;
        push(st, cpu->ctx, FRAME_CALL, e);
        if (e->switches) {
            cpu->switching = cpu->ctx->n;
        }
        break;
    case EDGE_RET:
        do_return(st, cpu, e);
        break;
    case EDGE_JUMP:
    case EDGE_JUMP_FAR:
        do_jump(st, cpu, e);
        break;
    case EDGE_ENTRY:
        do_entry(st, cpu, e);
        break;
    case EDGE_EXIT:
        do_exit(st, cpu, e);
        break;
    case EDGE_INTERRUPT:
        st->counts.interrupts++;
        push(st, cpu->ctx, FRAME_INTERRUPT, e);
        break;
    case EDGE_IRET:
        do_iret(st, cpu, e);
        break;
    default:
        do_unknown(st, cpu, e);
        break;
    }
}

/* Have the context be where the record says that it is. */
static void go_on(struct stacks *st, struct cpu *cpu,
                  const struct edge_info *e)
{
    struct context *c = cpu->ctx;

    if (!c->node) {
        c->node = child(st, root(st, c->process), e->from_fn);
        return;
    }
    if (e->from < ADDRESS_SHARED) {
        if (c->entry >= 0) {
            /* What the kernel did was not recorded. */
            c->n = c->entry;
            c->node = c->frames[c->n].caller;
            c->entry = -1;
        }
        if (!same_process(c->process, cpu->process)) {
            suspend(st, cpu, 0);
            c = run_fresh(st, cpu, NULL);
            c->node = child(st, root(st, c->process), e->from_fn);
        }
        c->sure = true;
    }
    if (c->node->function != e->from_fn) {
        st->counts.astray++;
        c->node = sibling(st, c->node, e->from_fn);
    }
}

/* Records of one task; @done of the batch were before them. */
static void take_part(struct stacks *st, unsigned vcpu,
                      const struct task *task, const struct btrail_batch *b,
                      uint64_t ticks, const bool *counts, size_t done)
{
    struct cpu *cpu = &st->cpus[vcpu];
    size_t i;

    cpu->cr3 = b->cr3;
    cpu->process = task->process;
    if (!cpu->ctx) {
        cpu->ctx = context_new(st, cpu->process);
    }
    for (i = 0; i < b->count; i++) {
        const struct btrail_record *r = &b->records[i];
        struct edge_info *e = get_edge(st, cpu, vcpu, b->index + i, r);
        struct stack_node *before = cpu->ctx->node;

        if (G_UNLIKELY(!before || before->function != e->from_fn ||
                       (r->from < ADDRESS_SHARED &&
                        (cpu->ctx->entry >= 0 ||
                         cpu->ctx->process != cpu->process)))) {
            go_on(st, cpu, e);
            if (st->moved && before && cpu->ctx->node != before) {
                st->moved(st->opaque, vcpu, done + i - 1, before,
                          cpu->ctx->node);
            }
            before = cpu->ctx->node;
        }
        st->counting = !counts || counts[done + i];
        if (st->counting) {
            st->counts.likely += BTRAIL_LIKELY == (
                r->from < ADDRESS_SHARED ? task->user : task->kernel);
            cpu->ctx->node->records++;
            cpu->ctx->node->ticks += ticks;
        }
        if (e->kind != EDGE_JUMP || e->to_fn != e->from_fn) {
            step(st, cpu, e);
        }
        if (st->moved && cpu->ctx->node != before) {
            st->moved(st->opaque, vcpu, done + i, before, cpu->ctx->node);
        }
    }
}

void stacks_records(struct stacks *st, unsigned vcpu,
                    const struct btrail_batch *b, uint64_t ticks,
                    const bool *counts)
{
    struct btrail_batch part = { .count = 0 };
    struct task task;

    st->n_cpus = MAX(st->n_cpus, vcpu + 1);
    while (symbolizer_part(st->s, vcpu, b, &part, &task)) {
        take_part(st, vcpu, &task, &part, ticks, counts,
                  part.index - b->index);
    }
}

void stacks_wait(struct stacks *st, unsigned vcpu, uint64_t ticks)
{
    struct cpu *cpu = &st->cpus[vcpu];

    if (cpu->ctx && cpu->ctx->node) {
        cpu->ctx->node->ticks += ticks;
    }
}

void stacks_gap(struct stacks *st, unsigned vcpu)
{
    struct cpu *cpu = &st->cpus[vcpu];
    struct context *c = cpu->ctx;
    struct stack_node *before = c ? c->node : NULL;

    st->counts.gaps++;
    cpu->switching = 0;
    if (!c || !c->n) {
        if (c) {
            c->node = NULL;
        }
    } else {
        struct context *fresh = context_new(st, c->process);

        /* It may go on where it was, or in one of its callers. */
        suspend(st, cpu, 0);
        fresh->candidates = g_ptr_array_new();
        g_ptr_array_add(fresh->candidates, c);
        cpu->ctx = fresh;
    }
    if (st->moved && before) {
        st->moved(st->opaque, vcpu, 0, before, NULL);
    }
}

struct stacks *stacks_new(struct symbolizer *s, stack_moved_fn *moved,
                          void *opaque)
{
    struct stacks *st = g_new0(struct stacks, 1);

    st->s = s;
    st->moved = moved;
    st->opaque = opaque;
    st->contexts = g_ptr_array_new_with_free_func(context_free);
    st->bits = FIRST_BITS;
    st->edges = g_new0(struct edge_info, (size_t)1 << st->bits);
    st->nodes = g_hash_table_new(node_hash, node_equal);
    st->all = g_ptr_array_new_with_free_func(g_free);
    return st;
}

void stacks_free(struct stacks *st)
{
    if (st) {
        g_ptr_array_unref(st->contexts);
        g_free(st->edges);
        g_hash_table_unref(st->nodes);
        g_ptr_array_unref(st->all);
        g_free(st);
    }
}

const struct stack_node *stacks_where(const struct stacks *st, unsigned vcpu)
{
    const struct context *c = st->cpus[vcpu].ctx;

    return c ? c->node : NULL;
}

const struct stack_node *stacks_roots(const struct stacks *st)
{
    return st->roots;
}

unsigned stacks_nodes(const struct stacks *st)
{
    return st->all->len;
}

const struct stack_counts *stacks_counts(const struct stacks *st)
{
    return &st->counts;
}
