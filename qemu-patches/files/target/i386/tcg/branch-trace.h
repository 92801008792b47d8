/*
 * x86 branch trace: what TCG tells its producer
 *
 * A near branch is recorded by translated code alone.  Every other transfer of
 * control is bracketed: begin it while CS:EIP still are where it comes from,
 * end it when they are where it goes to.  What changes CR3 on the way (a task
 * switch, say) takes effect for the label of the next record.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_TCG_BRANCH_TRACE_H
#define I386_TCG_BRANCH_TRACE_H

#include "cpu.h"

#ifdef CONFIG_USER_ONLY

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
void x86_branch_trace_do_exec_enter(CPUX86State *env);
void x86_branch_trace_do_exec_exit(CPUX86State *env);

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
 * from where it went.
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
