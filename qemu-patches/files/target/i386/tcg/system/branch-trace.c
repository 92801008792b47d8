/*
 * x86 branch trace: the TCG producer
 *
 * Writes the records that a CPU with a Branch Trace Store would write (SDM
 * vol. 3, "Branch Trace Store (BTS)"), except that the stream says where they
 * go.  docs/interop/branch-trace.rst defines which branches make a record.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "branch-trace-cr3.h"
#include "cpu.h"
#include "exec/cputlb.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "exec/tb-flush.h"
#include "exec/translation-block.h"
#include "hw/misc/branch-trace.h"
#include "qemu/timer.h"
#include "system/cpu-timers.h"
#include "tcg/helper-tcg.h"
#include "tcg/branch-trace.h"

static uint64_t linear_pc(CPUX86State *env)
{
    if (env->hflags & HF_CS64_MASK) {
        return env->eip;
    }
    return (uint32_t)(env->segs[R_CS].base + env->eip);
}

/*
 * How many instructions were executed before the next one.  A record is made at
 * the end of a block or outside of any, so these are the ones that have been
 * counted.
 */
static uint64_t instructions_executed(CPUState *cpu)
{
    bool can_do_io = cpu->neg.can_do_io;
    uint64_t icount;

    cpu->neg.can_do_io = true;
    icount = icount_get_raw();
    cpu->neg.can_do_io = can_do_io;
    return icount;
}

/* The flags of a record that is made now */
static uint64_t record_flags(CPUX86State *env)
{
    return icount_enabled() ? instructions_executed(env_cpu(env)) <<
                              BTRAIL_RECORD_ICOUNT_SHIFT : 0;
}

static uint32_t privilege_of(unsigned cpl)
{
    return cpl == 3 ? BTRAIL_PRIVILEGE_USER : BTRAIL_PRIVILEGE_KERNEL;
}

/* Another task may have come to run, which is read as soon as it can be. */
static void lose_task(CPUX86State *env)
{
    branch_trace_stream_task(env->branch_trace.stream, NULL, 0);
    env->branch_trace.task_unread = true;
}

static void update_filter(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint32_t cflags = 0;

    bt->privilege = 0;
    if (bt->stream) {
        const BranchTraceFilter *filter =
            branch_trace_stream_filter(bt->stream);

        /*
         * Tasks are switched under any CR3.  When they are described, most of
         * the code that was translated until then remains.
         */
        if (filter->privilege) {
            cflags |= CF_BRANCH_TRACE_TASK;
        }
        if (branch_trace_filter_has_cr3(filter, bt->cr3)) {
            bt->privilege = filter->privilege;
        }
    }
    if (bt->privilege & BTRAIL_PRIVILEGE_USER) {
        cflags |= CF_BRANCH_TRACE_USER;
    }
    if (bt->privilege & BTRAIL_PRIVILEGE_KERNEL) {
        cflags |= CF_BRANCH_TRACE_KERNEL;
    }
    if (bt->tasks &&
        (cflags & ~env_cpu(env)->tcg_cflags & CF_BRANCH_TRACE_TASK)) {
        lose_task(env);
    }
    tcg_cflags_update(env_cpu(env), CF_BRANCH_TRACE | CF_BRANCH_TRACE_TASK,
                      cflags);
}

static void read_task(CPUX86State *env, bool cr3_loaded)
{
    if (unlikely(env->branch_trace.task_unread)) {
        x86_branch_trace_read_task(env, cr3_loaded);
    }
}

/*
 * CR3 and the mode of the code that runs.  It changes only by transfers that
 * are bracketed (SDM vol. 3, "Switching to Protected Mode": the D flag of CS
 * remains until CS is loaded), at whose end update_cr3() is called.
 */
static uint64_t reported_cr3(const CPUX86State *env)
{
    uint64_t cr3 = x86_branch_trace_cr3(env);

    if (env->hflags & HF_CS64_MASK ||
        (env->efer & MSR_EFER_LMA && (env->hflags & HF_CPL_MASK) == 3)) {
        return cr3;
    }
    return cr3 | (env->hflags & HF_CS32_MASK ? BTRAIL_CR3_CODE32 :
                                               BTRAIL_CR3_CODE16);
}

static void update_cr3(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint64_t cr3 = reported_cr3(env);

    if (bt->cr3 != cr3) {
        bt->cr3 = cr3;
        branch_trace_stream_cr3(bt->stream, bt->cr3);
        update_filter(env);
    }
    x86_branch_trace_update_kernel(env);
}

void x86_branch_trace_do_paging(CPUX86State *env)
{
    /* In the middle of a transfer, its end does that. */
    if (env->branch_trace.far == X86_FAR_NONE) {
        update_cr3(env);
    }
}

void x86_branch_trace_update_cr3(CPUX86State *env)
{
    /* In the middle of a transfer, its end does that. */
    if (env->branch_trace.far == X86_FAR_NONE) {
        update_cr3(env);
        read_task(env, true);
    }
}

static void record_far(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint32_t ends = privilege_of(bt->far_cpl) |
                    privilege_of(env->hflags & HF_CPL_MASK);

    if (bt->privilege & ends) {
        branch_trace_stream_record(bt->stream, bt->far_from, linear_pc(env),
                                   record_flags(env));
    }
}

void x86_branch_trace_do_begin(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;

    if (bt->far == X86_FAR_COMMITTED) {
        /* An exception between a transfer and the first instruction there. */
        record_far(env);
    }
    if (bt->far != X86_FAR_ICEBP) {
        bt->far_from = linear_pc(env);
        bt->far_cpl = env->hflags & HF_CPL_MASK;
    }
    bt->far = X86_FAR_NONE;
    update_cr3(env);
    read_task(env, false);
    bt->far = X86_FAR_OPEN;
}

void x86_branch_trace_do_end(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;

    if (bt->far == X86_FAR_NONE) {
        return;
    }
    if (bt->far != X86_FAR_FAILED) {
        record_far(env);
    }
    bt->far = X86_FAR_NONE;
    bt->exit_pc = linear_pc(env);
    update_cr3(env);
    read_task(env, false);
}

void x86_branch_trace_do_vmexit(CPUX86State *env)
{
    x86_branch_trace_leave_nested(env);
    if (env->branch_trace.far == X86_FAR_VMRUN) {
        /* No instruction of the guest can have run. */
        env->branch_trace.far = X86_FAR_FAILED;
    } else {
        x86_branch_trace_do_begin(env);
    }
}

static void discontinuity(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;

    if (bt->discontinuity) {
        branch_trace_stream_discontinuity(bt->stream, bt->discontinuity);
        if (bt->discontinuity != BTRAIL_GAP_DEBUGGER) {
            /* It may be another kernel's. */
            bt->task_unread = false;
            x86_branch_trace_forget_kernel(env);
        }
        bt->discontinuity = 0;
    }
}

void x86_branch_trace_reset(CPUX86State *env)
{
    env->branch_trace.far = X86_FAR_NONE;
    env->branch_trace.discontinuity = BTRAIL_GAP_RESET;
    if (qemu_cpu_is_self(env_cpu(env))) {
        discontinuity(env);
        update_cr3(env);
    }
    env->branch_trace.exit_pc = linear_pc(env);
}

/* What has moved the CPU since it has left its execution loop */
static void report_move(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;

    if (!bt->discontinuity && bt->exit_pc != linear_pc(env)) {
        bt->discontinuity = BTRAIL_GAP_DEBUGGER;
    }
    discontinuity(env);
}

void x86_branch_trace_do_exec_enter(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;

    if (qatomic_read(&bt->code_stale)) {
        /* Clear it first, to notice if it is set again meanwhile. */
        qatomic_set_mb(&bt->code_stale, false);
        tcg_flush_jmp_cache(env_cpu(env));
    }

    /*
     * Where record/replay delivers an exception later than it was raised, the
     * CPU has left and entered again in between.
     */
    if (env_cpu(env)->exception_index < 0) {
        bt->far = X86_FAR_NONE;
    }
    branch_trace_stream_halted(bt->stream);
    report_move(env);
    if (icount_enabled()) {
        /* What is counted is taken from the budget: the sum is constant. */
        bt->icount_end = instructions_executed(env_cpu(env)) +
                         env_cpu(env)->icount_budget;
    }
    if (bt->far == X86_FAR_NONE) {
        update_cr3(env);
        read_task(env, false);
    }
}

void x86_branch_trace_do_exec_exit(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;

    bt->exit_pc = linear_pc(env);
    if (env_cpu(env)->halted) {
        branch_trace_stream_halt(bt->stream);
    }
}

/*
 * Whoever reads the records has their cache lines; they are asked back this
 * many records before they are written.
 */
#define RECORDS_AHEAD   32

/* A near branch with icount: its instructions were counted with its block. */
void HELPER(branch_trace_near)(CPUX86State *env, uint64_t from, uint64_t to)
{
    X86BranchTrace *bt = &env->branch_trace;
    struct btrail_record *record = (struct btrail_record *)bt->cursor.next;
    CPUState *cpu = env_cpu(env);

    __builtin_prefetch(record + RECORDS_AHEAD, 1);
    record->from = from;
    record->to = to;
    record->flags = (bt->icount_end - cpu->icount_extra -
                     cpu->neg.icount_decr.low) << BTRAIL_RECORD_ICOUNT_SHIFT;
    bt->cursor.next += sizeof(*record);
    if (unlikely(bt->cursor.next >= bt->cursor.limit)) {
        branch_trace_stream_limit(bt->stream);
    }
}

void HELPER(branch_trace_limit)(CPUX86State *env)
{
    branch_trace_stream_limit(env->branch_trace.stream);
}

void HELPER(branch_trace_far)(CPUX86State *env)
{
    x86_branch_trace_do_end(env);
}

static BranchTraceCursor *producer_cursor(CPUState *cpu)
{
    return &cpu_env(cpu)->branch_trace.cursor;
}

static void enable_tasks(CPUState *cpu, run_on_cpu_data data)
{
    X86BranchTrace *bt = &cpu_env(cpu)->branch_trace;

    if (bt->stream && branch_trace_stream_tasks(bt->stream)) {
        bt->tasks = true;
        x86_branch_trace_forget_kernel(cpu_env(cpu));
        x86_branch_trace_update_kernel(cpu_env(cpu));
        if (cpu->tcg_cflags & CF_BRANCH_TRACE_TASK) {
            lose_task(cpu_env(cpu));
        }
    }
}

static void producer_tasks(CPUState *cpu)
{
    X86BranchTrace *bt = &cpu_env(cpu)->branch_trace;
    const BranchTraceKernels *kernels = branch_trace_stream_tasks(bt->stream);

    if (kernels) {
        x86_branch_trace_tasks_changed(cpu, kernels);
        /* After what that has queued. */
        async_run_on_cpu(cpu, enable_tasks, RUN_ON_CPU_NULL);
    } else {
        bt->tasks = false;
        bt->task_unread = false;
        x86_branch_trace_forget_kernel(cpu_env(cpu));
        x86_branch_trace_update_kernel(cpu_env(cpu));
    }
}

static void producer_attach(CPUState *cpu, BranchTraceStream *stream)
{
    CPUX86State *env = cpu_env(cpu);
    X86BranchTrace *bt = &env->branch_trace;

    bt->stream = stream;
    bt->tasks = false;
    bt->task_unread = false;
    bt->far = X86_FAR_NONE;
    bt->discontinuity = 0;
    bt->described = false;
    x86_branch_trace_forget_kernel(env);
    bt->cr3 = reported_cr3(env);
    bt->exit_pc = linear_pc(env);
    update_filter(env);
    if (stream) {
        producer_tasks(cpu);
    }
}

static void producer_filter(CPUState *cpu)
{
    update_filter(cpu_env(cpu));
}

static uint64_t producer_cr3(CPUState *cpu)
{
    return reported_cr3(cpu_env(cpu));
}

static void producer_clocks(CPUState *cpu, uint64_t *host, uint64_t *tsc,
                            uint64_t *icount)
{
    CPUX86State *env = cpu_env(cpu);
    bool can_do_io = cpu->neg.can_do_io;
    unsigned tries = BRANCH_TRACE_CLOCKS_TRIES;

    *icount = icount_enabled() ? instructions_executed(cpu) : BTRAIL_NO_ICOUNT;
    cpu->neg.can_do_io = true;
    do {
        *host = get_clock();
        *tsc = cpu_get_tsc(env) + env->tsc_offset;
    } while (get_clock() - *host > BRANCH_TRACE_CLOCKS_NS && --tries);
    cpu->neg.can_do_io = can_do_io;
}

static void producer_discontinuity(CPUState *cpu, uint16_t reason)
{
    cpu_env(cpu)->branch_trace.discontinuity = reason;
}

static void producer_settle(CPUState *cpu)
{
    CPUX86State *env = cpu_env(cpu);

    if (env->branch_trace.stream) {
        report_move(env);
        env->branch_trace.exit_pc = linear_pc(env);
        update_cr3(env);
    }
}

static void producer_code_stale(CPUState *cpu)
{
    qatomic_set(&cpu_env(cpu)->branch_trace.code_stale, true);
    /*
     * The CPU checks the flag when it enters its execution loop, and cpu_exit()
     * makes it leave the loop before it executes another block.  Where all CPUs
     * share one thread no other CPU is in the loop, and cpu_exit() would change
     * their schedule.
     */
    if (qemu_tcg_mttcg_enabled()) {
        cpu_exit(cpu);
    }
}

static void producer_code_forget(CPUState *cpu)
{
    tcg_flush_jmp_cache(cpu);
}

/* Does the capture record the branches of a block? */
static bool code_is_selected(const X86BranchTrace *bt,
                             const TranslationBlock *tb)
{
    unsigned cpl = tb->flags & HF_CPL_MASK;

    return bt->stream && (bt->privilege & privilege_of(cpl));
}

static void code_translated(CPUState *cs, tb_page_addr_t ram, unsigned offset,
                            unsigned size)
{
    if (branch_trace_stream_code_translated(
            cpu_env(cs)->branch_trace.stream, ram, qemu_map_ram_ptr(NULL, ram),
            offset, size)) {
        tcg_flush_jmp_cache(cs);
    }
}

void x86_branch_trace_code_translated(CPUState *cs, const TranslationBlock *tb)
{
    tb_page_addr_t ram = tb_page_addr0(tb);
    unsigned offset = ram & ~TARGET_PAGE_MASK;
    unsigned first = MIN(tb->size, TARGET_PAGE_SIZE - offset);

    if (ram == -1 || !code_is_selected(&cpu_env(cs)->branch_trace, tb)) {
        return;
    }
    code_translated(cs, ram & TARGET_PAGE_MASK, offset, first);
    if (tb_page_addr1(tb) != -1) {
        code_translated(cs, tb_page_addr1(tb) & TARGET_PAGE_MASK, 0,
                        tb->size - first);
    }
}

static uint64_t physical_page(CPUX86State *env, vaddr page)
{
    CPUTLBEntryFull *full;
    void *host;

    /* It is in the TLB: code was fetched from it just now. */
    if (probe_access_full(env, page, 0, MMU_INST_FETCH,
                          cpu_mmu_index(env_cpu(env), true), true, &host,
                          &full, 0) & TLB_INVALID_MASK) {
        return -1;
    }
    return full->phys_addr & TARGET_PAGE_MASK;
}

static void code_found(CPUX86State *env, vaddr page, tb_page_addr_t ram)
{
    BranchTraceStream *stream = env->branch_trace.stream;

    if (unlikely(!branch_trace_stream_code_known(stream, page, ram))) {
        branch_trace_stream_code_executed(stream, page,
                                          physical_page(env, page), ram,
                                          qemu_map_ram_ptr(NULL, ram));
    }
}

void x86_branch_trace_code_found(CPUState *cs, vaddr pc,
                                 const TranslationBlock *tb)
{
    CPUX86State *env = cpu_env(cs);
    vaddr page = pc & TARGET_PAGE_MASK;

    if (tb_page_addr0(tb) == -1 || !code_is_selected(&env->branch_trace, tb)) {
        return;
    }
    code_found(env, page, tb_page_addr0(tb) & TARGET_PAGE_MASK);
    if (unlikely(tb_page_addr1(tb) != -1)) {
        page += TARGET_PAGE_SIZE;
        if (!(tb->flags & HF_CS64_MASK)) {
            page = (uint32_t)page;
        }
        code_found(env, page, tb_page_addr1(tb) & TARGET_PAGE_MASK);
    }
}

static uint64_t producer_tsc_hz(CPUState *cpu)
{
    /* Without icount, TCG's TSC counts ticks of the host's. */
    return icount_enabled() ? icount_get_ticks_hz() : 0;
}

static uint32_t producer_record_has(void)
{
    return icount_enabled() ? BTRAIL_RECORD_HAS_ICOUNT : 0;
}

static const BranchTraceProducerOps tcg_producer = {
    .type = BTRAIL_PRODUCER_TCG,
    .cursor = producer_cursor,
    .attach = producer_attach,
    .filter = producer_filter,
    .tasks = producer_tasks,
    .cr3 = producer_cr3,
    .clocks = producer_clocks,
    .discontinuity = producer_discontinuity,
    .settle = producer_settle,
    .code_stale = producer_code_stale,
    .code_forget = producer_code_forget,
    .tsc_hz = producer_tsc_hz,
    .record_has = producer_record_has,
};

void x86_branch_trace_init(void)
{
    branch_trace_set_producer(&tcg_producer);
}
