/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads of control, and which of them vCPUs run
 *
 * A context is a stack: the frames of user mode, the entry into the kernel and
 * the frames of the kernel.  Return addresses show which context a vCPU
 * continues after a switch, if the trace does not name the thread.
 */

#ifndef BTRAIL_STACK_CONTEXT_H
#define BTRAIL_STACK_CONTEXT_H

#include "symbolize/stack-counts.h"
#include "symbolize/stack-edge.h"
#include "symbolize/stack-tree.h"

enum stack_frame_kind {
    STACK_FRAME_CALL,
    STACK_FRAME_INTERRUPT,
    STACK_FRAME_ENTRY,
    STACK_FRAME_SIGNAL,
};

/*
 * @from:   address of the call
 * @back:   return address; 0 if the length of the call is not known
 * @caller: the node that continues after the return
 * @replaced: the context's, to which it returns
 * @handled: of STACK_FRAME_SIGNAL: the handler has returned, to the code that
 *          asks the kernel to continue what it has interrupted
 * @called: what has begun then may be a function, not the next handler
 * @record: number of the record that has added it
 */
struct stack_frame {
    uint64_t from;
    uint64_t back;
    struct stack_node *caller;
    uint32_t record;
    uint8_t kind;
    bool inner : 1;
    bool replaced : 1;
    bool handled : 1;
    bool called : 1;
};

struct stack_context {
    struct stack_frame *frames;
    unsigned n;
    unsigned size;
    int entry;                  /* that of STACK_FRAME_ENTRY; -1: user mode */
    struct stack_node *node;    /* NULL if that is not known */
    const struct process *process;
    bool sure;                  /* it was in user mode of @process */
    bool parked;                /* a user stack that is not a thread's */
    uint64_t number;            /* of a program's stack; 0: a thread's */
    bool whole;                 /* it is known since its first function, */
    bool over;                  /* which has returned */
    struct stack_frame *guessed;    /* its frames if it is not sure that it */
    unsigned n_guessed;             /* is the stack that continues, or NULL */
    bool running;
    bool replaced;              /* the next return is that of a retpoline */
    GList place;                /* among those that wait */
    uint64_t resume;            /* where in the kernel it will continue */
    uint64_t age;
    uint64_t id;                /* no other one has had it */
    uint32_t strayed;           /* a record that may have ended any frames */
    uint32_t doubted;           /* a record that has chosen it to continue */
    GPtrArray *candidates;      /* contexts that it may continue */
    unsigned level;             /* frames of theirs that have returned */
    uint64_t thread;            /* as in struct stack_cpu */
    struct stack_context *before;   /* where the thread was before a gap, if
                                   it may go on there; and the reverse */
    struct stack_context *after;
    const struct process *named;    /* that the root has the name of */
    bool ended;                 /* the thread will not run again */
    uint64_t gaps;              /* in the trace, when it stopped */
    unsigned switching;         /* as in struct stack_cpu, */
    unsigned arriving;          /* when it was paused */
};

/*
 * What a vCPU runs for the guest itself, or for nested guests.  At VMRUN and
 * #VMEXIT it leaves one where it is, and continues with the other.
 *
 * @switching: frames in a stack switch; 0: none
 * @thread:    number of the thread that runs, 0 if the trace does not name it
 * @arriving:  1 + the frames with which it has begun to run here, until it
 *             returns to one of them
 * @left:      the vCPU has left it, to continue with the other one
 */
struct stack_cpu {
    struct stack_context *ctx;
    const struct process *process;
    unsigned switching;
    uint64_t thread;
    unsigned arriving;
    bool left;
};

/**
 * struct stack_contexts
 * @cpus:     two of each vCPU: the guest's, and that of its nested guests
 * @nested:   the vCPU ran the latter last
 * @n_cpus:   number of @cpus that are in use
 * @all:      of struct stack_context
 * @waiting:  those that do not run, the oldest first
 * @frames:   number of frames that all of them have room for
 * @threads:  number of a thread -> its struct stack_context
 * @numbers:  of stacks of programs, up to now
 * @counting: the next record counts
 * @switched: a vCPU has called __switch_to_asm(), so others are seen as well
 * @record:   number of the record that is followed
 * @ended:    by which record the first frame was added that one has ended last,
 *            and which one that was
 * @handler:  which one has begun a signal handler last
 * @strayed:  which one has last gone to where no known frame leads
 */
struct stack_contexts {
    struct stack_tree *tree;
    struct stack_counts *counts;
    struct stack_cpu cpus[2 * BTRAIL_MAX_VCPUS];
    bool nested[BTRAIL_MAX_VCPUS];
    unsigned n_cpus;
    GPtrArray *all;
    GQueue waiting;
    size_t frames;
    GHashTable *threads;
    uint64_t age;
    uint64_t numbers;
    bool counting;
    bool switched;
    uint32_t record;
    struct {
        uint32_t first;
        uint32_t by;
    } ended;
    uint32_t handler;
    uint32_t strayed;
};

void stack_contexts_init(struct stack_contexts *st, struct stack_tree *tree,
                         struct stack_counts *counts);
void stack_contexts_clear(struct stack_contexts *st);

/* What a vCPU continues with; @enters: it was left */
struct stack_cpu *stack_cpu_run(struct stack_contexts *st, unsigned vcpu,
                                bool nested, bool *enters);

/* What a vCPU has run last */
const struct stack_cpu *stack_cpu_now(const struct stack_contexts *st,
                                      unsigned vcpu);

/* A new context that runs.  If there are too many, the oldest is dropped. */
struct stack_context *stack_context_new(struct stack_contexts *st,
                                        const struct process *process);

/* The node of a function right below the process of a context */
struct stack_node *stack_root_child(struct stack_contexts *st,
                                    const struct stack_context *c,
                                    const struct function *function);

/* Adds a frame for a call, interrupt or entry. */
void stack_push(struct stack_contexts *st, struct stack_context *c,
                enum stack_frame_kind kind, const struct stack_edge *e);

/* Frame @k and all frames above it are no more. */
void stack_end(struct stack_contexts *st, struct stack_context *c, unsigned k);

/* Returns from frame @k and all frames above it. */
void stack_pop_to(struct stack_contexts *st, struct stack_context *c,
                  unsigned k, const struct stack_edge *e);

/* Frees a context that no vCPU runs. */
void stack_forget(struct stack_contexts *st, struct stack_context *c);

/*
 * Stops the context that @cpu runs, wherever it is.  It continues there, or on
 * another CPU, by stack_resume().
 */
void stack_pause(struct stack_contexts *st, struct stack_cpu *cpu);
void stack_resume(struct stack_contexts *st, struct stack_cpu *cpu,
                  struct stack_context *c);

/* Stops the context that @cpu runs.  A context without frames is freed. */
void stack_suspend(struct stack_contexts *st, struct stack_cpu *cpu,
                   uint64_t resume);

/* @cpu continues @c. */
void stack_run(struct stack_contexts *st, struct stack_cpu *cpu,
               struct stack_context *c);

/* @cpu runs a new context, of which only the function is known. */
struct stack_context *stack_run_fresh(struct stack_contexts *st,
                                      struct stack_cpu *cpu,
                                      const struct stack_edge *e);

/* @cpu turns out to run @c, whose frames from @k on have returned. */
void stack_adopt(struct stack_contexts *st, struct stack_cpu *cpu,
                 struct stack_context *c, unsigned k,
                 const struct stack_edge *e);

/* The kernel continues at the edge's target on another thread's stack. */
void stack_switch_thread(struct stack_contexts *st, struct stack_cpu *cpu,
                         const struct stack_edge *e, uint64_t resume);

/* The last known frame of a context has returned. */
void stack_return_from_bottom(struct stack_contexts *st,
                              struct stack_cpu *cpu,
                              const struct stack_edge *e);

/* A parked stack that may continue, from frame @frame of it */
struct stack_parked {
    struct stack_context *context;
    unsigned frame;
};

/*
 * The parked user stacks of @cpu's process that may continue at @to: those of
 * the same thread first, and those that were left first before others.  Frames
 * on top of that which returns to @to can have been left for good: those of a
 * scheduler that was called.
 */
void stack_find_parked(struct stack_contexts *st, const struct stack_cpu *cpu,
                       uint64_t to, GArray *found);

/*
 * A program switches to another stack of its own.  @next: NULL if it is new.  A
 * stack that is over is freed.
 */
void stack_park(struct stack_contexts *st, struct stack_cpu *cpu,
                const struct stack_edge *e, const struct stack_parked *next);

/*
 * The stack that runs, from frame @k on, is a guess, until it stops to run; and
 * was wrong: it still waits where it was.  False if it is not one.
 */
void stack_guess(struct stack_context *c, unsigned k);
bool stack_guessed_wrong(struct stack_context *c);

/*
 * Does what was interrupted continue at @to?  The kernel can restart a system
 * call: syscall and int have two bytes.
 */
bool stack_resumes(const struct stack_frame *f, uint64_t to);

/* Has a frame been returned from if the program goes to @to? */
bool stack_returns(const struct stack_frame *f, uint64_t to);

/*
 * The frame to look at after frame @k, from the top of a stack down.  Of a very
 * deep one, those in the middle are left out.
 */
int stack_below(const struct stack_context *c, int k);

/* The index of the frame that returns to @to, or -1 */
int stack_find_back(const struct stack_context *c, uint64_t to);

/* The index of the frame that a function has called from, or -1 */
int stack_find_caller(const struct stack_context *c,
                      const struct function *function);

/* The index of the first frame in the current mode */
unsigned stack_bottom(const struct stack_context *c);

/* Does this frame of a call return to @to? */
bool stack_goes_back(const struct stack_frame *f, uint64_t to);

/*
 * Are two processes the same?  With page table isolation, a process has two
 * adjacent page tables, which are two processes if their names are unknown.
 */
bool stack_same_process(const struct process *a, const struct process *b);

#endif /* BTRAIL_STACK_CONTEXT_H */
