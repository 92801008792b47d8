/*
 * x86 branch trace: which task of the guest's kernel runs
 *
 * The agent describes where a kernel switches tasks and what its tasks look
 * like.  The translated code of these places calls helpers, which read the task
 * from the guest's memory at that moment.  All that is read belongs to the
 * guest, and the description to the agent: neither is trusted.  Nothing here can
 * fault, and nothing that the guest could notice changes, so that a replay in
 * which tasks are read is the same as any other.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "exec/tb-flush.h"
#include "hw/misc/branch-trace.h"
#include "tcg/helper-tcg.h"
#include "tcg/branch-trace.h"

/* The largest PID of Linux, see PID_MAX_LIMIT */
#define MAX_PID     (4u << 20)

/*
 * The places that code was translated with.  Only in exclusive sections, in
 * which no CPU translates or executes anything.
 */
typedef struct Hooks {
    struct {
        uint64_t switch_to;
        uint64_t set_name;
    } of[BTRAIL_TASKS_MAX];
} Hooks;

static Hooks translated;

static void use_hooks(CPUState *cpu, run_on_cpu_data data)
{
    g_autofree Hooks *hooks = data.host_ptr;

    if (memcmp(hooks, &translated, sizeof(translated))) {
        tb_flush(cpu);
        translated = *hooks;
    }
}

void x86_branch_trace_tasks_changed(CPUState *cs,
                                    const BranchTraceKernels *kernels)
{
    Hooks *hooks = g_new0(Hooks, 1);

    for (unsigned i = 0; i < kernels->n; i++) {
        hooks->of[i].switch_to = kernels->of[i].switch_to;
        hooks->of[i].set_name = kernels->of[i].set_name;
    }
    async_safe_run_on_cpu(cs, use_hooks, RUN_ON_CPU_HOST_PTR(hooks));
}

/*
 * A block can be executed at another address than that for which it was
 * translated (CF_PCREL), and by another nested guest.  The helpers notice that
 * their place is not one where the kernel switches tasks.
 */
X86BranchTraceHook x86_branch_trace_hook(CPUState *cs, vaddr pc)
{
    BranchTraceStream *stream = cpu_env(cs)->branch_trace.stream;
    const BranchTraceKernels *kernels =
        stream ? branch_trace_stream_tasks(stream) : NULL;
    bool nested = cpu_env(cs)->hflags & HF_GUEST_MASK;

    for (unsigned i = nested; kernels && i < (nested ? kernels->n : 1); i++) {
        if (pc == kernels->of[i].switch_to) {
            return X86_BRANCH_TRACE_SWITCH;
        }
        if (pc == kernels->of[i].set_name) {
            return X86_BRANCH_TRACE_RENAME;
        }
    }
    return X86_BRANCH_TRACE_NO_HOOK;
}

/*
 * The page tables of the kernel that runs: with page table isolation, not those
 * in force in user mode
 */
static uint64_t kernel_cr3(const CPUX86State *env)
{
    const X86BranchTrace *bt = &env->branch_trace;

    return bt->kernel && bt->kernel_root ? bt->kernel_root : env->cr[3];
}

/*
 * Reads as the kernel would, up to the end of the page; returns how much.
 * Most of what is read at a switch of tasks the kernel has just used.
 */
static unsigned read_page(CPUX86State *env, vaddr addr, void *buf,
                          unsigned size)
{
    unsigned n = MIN(size, -(addr | TARGET_PAGE_MASK));
    CPUState *cs = env_cpu(env);
    const void *ram = tlb_find_ram(cs, addr, cpu_mmu_index(cs, false));
    hwaddr physical;

    if (ram) {
        memcpy(buf, ram, n);
        return n;
    }
    return x86_branch_trace_translate(env, kernel_cr3(env), addr, &physical) &&
           x86_branch_trace_read_ram(env, physical, buf, n) ? n : 0;
}

static bool read_all(CPUX86State *env, vaddr addr, void *buf, unsigned size)
{
    unsigned n = read_page(env, addr, buf, size);

    return n == size ||
           (n && read_page(env, addr + n, (char *)buf + n, size - n) ==
            size - n);
}

/* Reads a string, and only as far as it goes; fills @name with NULs. */
static bool read_name(CPUX86State *env, vaddr addr, char *name)
{
    /* The kernel cuts it off there. */
    unsigned max = BTRAIL_TASKS_NAME - 1;
    unsigned n = read_page(env, addr, name, max);
    bool known = n;

    if (n && n < max && !memchr(name, 0, n)) {
        n += read_page(env, addr + n, name + n, max - n);
        known = n == max || memchr(name, 0, n);
    }
    n = strnlen(name, n);
    memset(name + n, 0, BTRAIL_TASKS_NAME - n);
    return known;
}

/* Reads a pointer to a task, which is in the upper half and aligned. */
static bool read_pointer(CPUX86State *env, vaddr addr, uint64_t *task)
{
    uint64_t value;

    if (!read_all(env, addr, &value, sizeof(value))) {
        return false;
    }
    *task = le64_to_cpu(value);
    return *task >> 63 && *task % sizeof(value) == 0;
}

/* The task that runs, while GS is the kernel's */
static bool read_current(CPUX86State *env, const struct btrail_tasks *tasks,
                         uint64_t gs_base, uint64_t *task)
{
    return read_pointer(env, gs_base + tasks->current, task);
}

static bool read_u32(CPUX86State *env, vaddr addr, uint32_t *value)
{
    if (!read_all(env, addr, value, sizeof(*value))) {
        return false;
    }
    *value = le32_to_cpu(*value);
    return true;
}

/* Reads a task but for its name. */
static bool read_numbers(CPUX86State *env, const struct btrail_tasks *tasks,
                         uint64_t addr, BranchTraceTask *task)
{
    uint32_t flags;

    if (!read_u32(env, addr + tasks->tid, &task->tid) ||
        !read_u32(env, addr + tasks->pid, &task->pid) ||
        !read_u32(env, addr + tasks->task_flags, &flags)) {
        return false;
    }
    task->kernel = flags & tasks->kernel;
    return task->tid <= MAX_PID && task->pid <= MAX_PID;
}

static void report_task(CPUX86State *env, const struct btrail_tasks *tasks,
                        uint64_t addr, uint64_t name)
{
    BranchTraceTask task;
    bool known = read_numbers(env, tasks, addr, &task) &&
                 read_name(env, name, task.name);

    env->branch_trace.task = known ? addr : 0;
    branch_trace_stream_task(env->branch_trace.stream, known ? &task : NULL);
}

void x86_branch_trace_read_task(CPUX86State *env, bool cr3_loaded)
{
    X86BranchTrace *bt = &env->branch_trace;
    const struct btrail_tasks *tasks = bt->kernel;
    bool user = (env->hflags & HF_CPL_MASK) == 3;
    uint64_t task;

    if (!tasks || !qemu_cpu_is_self(env_cpu(env)) ||
        !(env->hflags & HF_LMA_MASK) || (env->hflags & HF_SMM_MASK) ||
        !(env->hflags2 & HF2_GIF_MASK)) {
        return;
    }
    /*
     * The kernel changes GS, and the pointer, while interrupts are disabled,
     * and a hypervisor has the GS of its guest while GIF is 0.  The kernel
     * loads CR3 only when both are consistent; while the page tables are those
     * of user mode the pointer may not be mapped.
     */
    if (!user && !(env->eflags & IF_MASK) && !cr3_loaded) {
        return;
    }
    if (read_current(env, tasks,
                     user ? env->kernelgsbase : env->segs[R_GS].base, &task)) {
        bt->task_unread = false;
        report_task(env, tasks, task, task + tasks->name);
    }
}

/* The base of GS in the kernel, which is in the upper half */
static uint64_t kernel_gs(const CPUX86State *env)
{
    return env->segs[R_GS].base >> 63 ? env->segs[R_GS].base
                                      : env->kernelgsbase;
}

void x86_branch_trace_leave_nested(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint64_t task;

    bt->nested.kernel = NULL;
    /* They differ while the kernel switches from one to another. */
    if (bt->kernel_nested && bt->kernel && bt->task && !bt->task_unread &&
        read_current(env, bt->kernel, kernel_gs(env), &task) &&
        task == bt->task) {
        bt->nested.kernel = bt->kernel;
        bt->nested.task = task;
        bt->nested.gs_base = env->segs[R_GS].base;
        bt->nested.kernelgsbase = env->kernelgsbase;
    }
}

/*
 * The hypervisor may run another CPU of that guest here, or may have run this
 * one elsewhere.  But the base of GS is that of a CPU, and where it is the same,
 * so is the place of the pointer.
 */
bool x86_branch_trace_return_to_nested_task(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint64_t task;

    if (!bt->kernel || bt->kernel != bt->nested.kernel ||
        bt->nested.gs_base != env->segs[R_GS].base ||
        bt->nested.kernelgsbase != env->kernelgsbase ||
        !read_current(env, bt->kernel, kernel_gs(env), &task) ||
        task != bt->nested.task) {
        return false;
    }
    report_task(env, bt->kernel, task, task + bt->kernel->name);
    return true;
}

void HELPER(branch_trace_switch)(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    const struct btrail_tasks *tasks;
    uint64_t next = env->regs[R_ESI];
    uint64_t task;

    x86_branch_trace_check_kernel(env);
    tasks = bt->kernel;
    if (!tasks) {
        return;
    }
    bt->task_unread = false;
    /* In any other code than it should be, RDI is something else. */
    if (read_current(env, tasks, env->segs[R_GS].base, &task) &&
        task == env->regs[R_EDI]) {
        report_task(env, tasks, next, next + tasks->name);
    } else {
        bt->task = 0;
        branch_trace_stream_task(bt->stream, NULL);
    }
}

void HELPER(branch_trace_rename)(CPUX86State *env)
{
    const struct btrail_tasks *tasks = env->branch_trace.kernel;
    uint64_t task;

    /* The name of another task is read when that is switched to. */
    if (tasks &&
        read_current(env, tasks, env->segs[R_GS].base, &task) &&
        task == env->regs[R_EDI]) {
        report_task(env, tasks, task, env->regs[R_ESI]);
    }
}
