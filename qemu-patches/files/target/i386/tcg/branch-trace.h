/*
 * x86 branch trace: the hooks of TCG for its producer
 *
 * Translated code records near branches by itself.  Every other transfer of
 * control is bracketed: it begins while CS:EIP are still those of its source,
 * and ends when they are those of its target.  A change of CR3 in between, by a
 * task switch for example, applies to the label of the next record.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_TCG_BRANCH_TRACE_H
#define I386_TCG_BRANCH_TRACE_H

#include "cpu.h"
#include "hw/misc/branch-trace.h"

/* What an instruction of the guest's kernel begins */
typedef enum X86BranchTraceHook {
    X86_BRANCH_TRACE_NO_HOOK,
    X86_BRANCH_TRACE_SWITCH,    /* to another task */
    X86_BRANCH_TRACE_RENAME,    /* of a task */
    X86_BRANCH_TRACE_WAKE,      /* to wake a task that may be awake */
    X86_BRANCH_TRACE_WAKING,    /* it was not */
    X86_BRANCH_TRACE_WAKING_NEW, /* it was not, and has not run yet */
} X86BranchTraceHook;

#ifdef CONFIG_USER_ONLY

static inline X86BranchTraceHook x86_branch_trace_hook(CPUState *cs, vaddr pc)
{
    return X86_BRANCH_TRACE_NO_HOOK;
}

static inline void x86_branch_trace_begin(CPUX86State *env) { }
static inline void x86_branch_trace_end(CPUX86State *env) { }
static inline void x86_branch_trace_commit(CPUX86State *env) { }
static inline void x86_branch_trace_exec_enter(CPUX86State *env) { }
static inline void x86_branch_trace_exec_exit(CPUX86State *env) { }

#else

/* Register the producer. */
void x86_branch_trace_init(void);

void x86_branch_trace_do_begin(CPUX86State *env);
void x86_branch_trace_do_end(CPUX86State *env);
void x86_branch_trace_do_vmexit(CPUX86State *env);
void x86_branch_trace_do_paging(CPUX86State *env);
void x86_branch_trace_do_exec_enter(CPUX86State *env);
void x86_branch_trace_do_exec_exit(CPUX86State *env);

/* For the instruction at @pc, which is translated with CF_BRANCH_TRACE_TASK */
X86BranchTraceHook x86_branch_trace_hook(CPUState *cs, vaddr pc);

/*
 * The task that runs has not been read yet: do that if the state of the CPU
 * permits.  @cr3_loaded: the kernel has loaded CR3 just now.
 */
void x86_branch_trace_read_task(CPUX86State *env, bool cr3_loaded);

/* CR3, the paging mode or the page tables of a nested guest may have changed. */
void x86_branch_trace_update_kernel(CPUX86State *env);

/* If no kernel was found to run: it may be the one that is described again. */
void x86_branch_trace_check_kernel(CPUX86State *env);

/* What was found of the kernel does not hold any more. */
void x86_branch_trace_forget_kernel(CPUX86State *env);

/* A nested guest is about to leave; its state is still in force. */
void x86_branch_trace_leave_nested(CPUX86State *env);

/*
 * A nested guest runs, perhaps again.  Reports its task if that can only be the
 * one that it ran when it left; returns false if it may be another one.
 */
bool x86_branch_trace_return_to_nested_task(CPUX86State *env);

/*
 * Reads RAM; @size bytes at an address that the guest, or the nested one while
 * that runs, knows as @addr.
 */
bool x86_branch_trace_read_ram(CPUX86State *env, hwaddr addr, void *buf,
                               unsigned size);

/*
 * The same in place, within a page.  The caller is in an RCU critical section
 * for as long as it reads there.  Returns NULL if that is not RAM.
 */
const void *x86_branch_trace_find_ram(CPUX86State *env, hwaddr addr,
                                      unsigned size);

/* With the BQL held: how the guest's memory is laid out can be remembered. */
void x86_branch_trace_watch_layout(void);

extern uint64_t x86_branch_trace_layouts;

/*
 * As long as this is the same number and not 0, RAM of the guest is where it was,
 * and it is the same kernel that is described, with the state that it has made.
 * In an RCU critical section, such RAM does not go away meanwhile.
 */
static inline uint64_t x86_branch_trace_layout(void)
{
    uint64_t layout = qatomic_read(&x86_branch_trace_layouts);

    /* Nobody listens for changes yet, or there is one. */
    return (uint32_t)layout && layout % 2 == 0 ? layout : 0;
}

/* Translates an address by page tables of four or five levels. */
bool x86_branch_trace_translate(CPUX86State *env, uint64_t cr3, vaddr addr,
                                hwaddr *physical);

/*
 * How tasks are found has changed.  Before work that is queued after this call,
 * no code is left that was translated with another description.
 */
void x86_branch_trace_tasks_changed(CPUState *cs,
                                    const BranchTraceKernels *kernels);

/* See TCGCPUOps. */
void x86_branch_trace_code_translated(CPUState *cs,
                                      const TranslationBlock *tb);
void x86_branch_trace_code_found(CPUState *cs, vaddr pc,
                                 const TranslationBlock *tb);

/* An interrupt, exception or SMI is about to be delivered. */
static inline void x86_branch_trace_begin(CPUX86State *env)
{
    if (unlikely(env->branch_trace.stream)) {
        x86_branch_trace_do_begin(env);
    }
}

/* CS:EIP are those of the next instruction. */
static inline void x86_branch_trace_end(CPUX86State *env)
{
    if (unlikely(env->branch_trace.stream)) {
        x86_branch_trace_do_end(env);
    }
}

/*
 * The transfer has happened: an exception that is raised before its end comes
 * from its target.
 */
static inline void x86_branch_trace_commit(CPUX86State *env)
{
    if (unlikely(env->branch_trace.far != X86_FAR_NONE)) {
        env->branch_trace.far = X86_FAR_COMMITTED;
    }
}

/* VMRUN is about to check the guest's state. */
static inline void x86_branch_trace_vmrun(CPUX86State *env)
{
    if (unlikely(env->branch_trace.far != X86_FAR_NONE)) {
        env->branch_trace.far = X86_FAR_VMRUN;
    }
}

/* #VMEXIT begins. */
static inline void x86_branch_trace_vmexit(CPUX86State *env)
{
    if (unlikely(env->branch_trace.stream)) {
        x86_branch_trace_do_vmexit(env);
    }
}

/*
 * CR0, CR4 or EFER have changed, perhaps in code of an address space that is
 * not recorded.
 */
static inline void x86_branch_trace_paging(CPUX86State *env)
{
    if (unlikely(env->branch_trace.stream)) {
        x86_branch_trace_do_paging(env);
    }
}

static inline void x86_branch_trace_exec_enter(CPUX86State *env)
{
    if (unlikely(env->branch_trace.stream)) {
        x86_branch_trace_do_exec_enter(env);
    }
}

static inline void x86_branch_trace_exec_exit(CPUX86State *env)
{
    if (unlikely(env->branch_trace.stream)) {
        x86_branch_trace_do_exec_exit(env);
    }
}

#endif /* !CONFIG_USER_ONLY */

#endif /* I386_TCG_BRANCH_TRACE_H */
