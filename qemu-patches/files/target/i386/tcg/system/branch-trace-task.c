/*
 * x86 branch trace: which task of the guest's kernel runs
 *
 * The agent describes where a kernel switches tasks and what its tasks look
 * like.  The translated code of these places calls helpers, which read the task
 * from the guest's memory at that moment.  All that is read belongs to the
 * guest, and the description to the agent: neither is trusted.  Nothing here
 * can fault, and nothing that the guest could notice changes, so that a replay
 * in which tasks are read is the same as any other.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "hw/misc/branch-trace.h"
#include "qemu/rcu.h"
#include "tcg/helper-tcg.h"
#include "tcg/branch-trace.h"
#include "tcg/tcg.h"

/* The largest PID of Linux, see PID_MAX_LIMIT */
#define MAX_PID     (4u << 20)

/* A frame of the function that wakes a task is smaller than that. */
#define FRAME_MAX   4096

/* What the stack of a task, or of interrupts, is aligned to */
#define STACK_SIZE  (16u << 10)

#define HOOKS_OF_EACH   (5 + BTRAIL_TASKS_WAKING)

/*
 * Where the kernels of the guest, and of nested ones, do something with tasks;
 * a place can be 0
 */
typedef struct Hooks {
    unsigned n;
    struct {
        uint64_t place;
        X86BranchTraceHook hook;
        bool nested;
    } of[BTRAIL_TASKS_MAX * HOOKS_OF_EACH];
} Hooks;

/*
 * Those that all code is translated with.  They change only in exclusive
 * sections, in which no CPU translates or executes anything.
 */
static Hooks translated;

/* Can a block have an instruction at this place, or at its offset in a page? */
static bool has_place(const TranslationBlock *tb, uint64_t place)
{
    return place &&
           ((place - tb_page_addr0(tb)) & ~TARGET_PAGE_MASK) < tb->size;
}

static bool has_any_place(const TranslationBlock *tb, const Hooks *hooks)
{
    for (unsigned i = 0; i < hooks->n; i++) {
        if (has_place(tb, hooks->of[i].place)) {
            return true;
        }
    }
    return false;
}

typedef struct Search {
    const Hooks *next;
    GPtrArray *found;           /* blocks with a place of either description */
} Search;

static gboolean find_block(gpointer key, gpointer value, gpointer data)
{
    TranslationBlock *tb = value;
    Search *search = data;

    if ((tb_cflags(tb) & CF_BRANCH_TRACE_TASK) &&
        !(tb_cflags(tb) & CF_INVALID) &&
        (has_any_place(tb, &translated) || has_any_place(tb, search->next))) {
        g_ptr_array_add(search->found, tb);
    }
    return false;
}

/*
 * Where a block is executed is not known (CF_PCREL), and where the memory of a
 * nested guest is neither.  But most of what was translated has nothing at
 * these offsets in its page.
 */
static void drop_blocks(const Hooks *next)
{
    g_autoptr(GPtrArray) found = g_ptr_array_new();
    Search search = { next, found };

    tcg_tb_foreach(find_block, &search);
    for (unsigned i = 0; i < found->len; i++) {
        tb_phys_invalidate(found->pdata[i], -1);
    }
}

static void use_hooks(CPUState *cpu, run_on_cpu_data data)
{
    g_autofree Hooks *hooks = data.host_ptr;

    if (memcmp(hooks, &translated, sizeof(translated))) {
        drop_blocks(hooks);
        translated = *hooks;
    }
}

static void add_hook(Hooks *hooks, uint64_t place, X86BranchTraceHook hook,
                     bool nested)
{
    if (place) {
        hooks->of[hooks->n].place = place;
        hooks->of[hooks->n].hook = hook;
        hooks->of[hooks->n++].nested = nested;
    }
}

static void add_hooks(Hooks *hooks, const struct btrail_tasks *tasks,
                      bool nested)
{
    add_hook(hooks, tasks->switch_to, X86_BRANCH_TRACE_SWITCH, nested);
    add_hook(hooks, tasks->set_name, X86_BRANCH_TRACE_RENAME, nested);
    add_hook(hooks, tasks->wake, X86_BRANCH_TRACE_WAKE, nested);
    for (unsigned i = 0; i < BTRAIL_TASKS_WAKING; i++) {
        add_hook(hooks, tasks->waking[i], X86_BRANCH_TRACE_WAKING, nested);
    }
    add_hook(hooks, tasks->wake_new, X86_BRANCH_TRACE_WAKE, nested);
    add_hook(hooks, tasks->waking_new, X86_BRANCH_TRACE_WAKING_NEW, nested);
}

void x86_branch_trace_tasks_changed(CPUState *cs,
                                    const BranchTraceKernels *kernels)
{
    Hooks *hooks = g_new0(Hooks, 1);

    x86_branch_trace_watch_layout();
    for (unsigned i = 0; i < kernels->n; i++) {
        add_hooks(hooks, &kernels->of[i], i > 0);
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
    bool nested = cpu_env(cs)->hflags & HF_GUEST_MASK;

    for (unsigned i = 0; i < translated.n; i++) {
        if (pc == translated.of[i].place && nested == translated.of[i].nested) {
            return translated.of[i].hook;
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
 * Where pages are that were read: those that tasks are in, and what a CPU has of
 * its own.  Linux maps them once, when it begins to use the memory, in all page
 * tables alike; it could not use an address of a task in any other way.  So they
 * are looked for once: to switch to another process empties the TLB.
 */
typedef struct TaskPage {
    vaddr page;
    uint64_t layout;        /* see x86_branch_trace_layout(); 0: there is none */
    const char *ram;
} TaskPage;

/*
 * A page is one of the two at its place, of which the first came last; both are
 * in one cache line.
 */
typedef struct TaskPages {
    TaskPage of[2];
} QEMU_ALIGNED(64) TaskPages;

static __thread TaskPages task_pages[256];

static TaskPage *pages_at(vaddr page)
{
    return task_pages[(page >> TARGET_PAGE_BITS) %
                      ARRAY_SIZE(task_pages)].of;
}

/* Reads the guest's memory as its kernel would, in an RCU critical section. */
typedef struct TaskReader {
    CPUX86State *env;
    uint64_t layout;
    vaddr page;             /* that was read last; not aligned: none */
    const char *ram;        /* where it is, or NULL */
} TaskReader;

/* A hypervisor changes what a nested guest has for its memory at any time. */
static TaskReader new_reader(CPUX86State *env)
{
    return (TaskReader) {
        .env = env,
        .layout = env->hflags & HF_GUEST_MASK ? 0 : x86_branch_trace_layout(),
        .page = -1,
    };
}

static const char *look_for_page(TaskReader *r, vaddr page)
{
    CPUX86State *env = r->env;
    CPUState *cs = env_cpu(env);
    const char *ram = NULL;
    hwaddr physical;

    /* What the TLB has can be from before the last change of the layout. */
    if (!r->layout) {
        ram = tlb_find_ram(cs, page, cpu_mmu_index(cs, false));
    }
    if (!ram && x86_branch_trace_translate(env, kernel_cr3(env), page,
                                           &physical)) {
        ram = x86_branch_trace_find_ram(env, physical, TARGET_PAGE_SIZE);
    }
    return ram;
}

static const char *find_page(TaskReader *r, vaddr page)
{
    TaskPage *at = pages_at(page);
    TaskPage *p = at[0].page == page ? &at[0] : &at[1];

    if (r->page == page) {
        return r->ram;
    }
    r->page = page;
    if (likely(r->layout && p->page == page && p->layout == r->layout)) {
        r->ram = p->ram;
        return r->ram;
    }
    r->ram = look_for_page(r, page);
    /* What is not there now can be there the next time. */
    if (r->layout && r->ram) {
        at[1] = at[0];
        at[0] = (TaskPage) { page, r->layout, r->ram };
    }
    return r->ram;
}

/* Inlined, as the next one, so that the size is known where it is copied */
static QEMU_ALWAYS_INLINE bool read_in_page(TaskReader *r, vaddr addr,
                                            void *buf, unsigned size)
{
    const char *ram = find_page(r, addr & TARGET_PAGE_MASK);

    if (ram) {
        memcpy(buf, ram + (addr & ~TARGET_PAGE_MASK), size);
    }
    return ram;
}

static QEMU_ALWAYS_INLINE bool read_all(TaskReader *r, vaddr addr, void *buf,
                                        unsigned size)
{
    unsigned left = -(addr | TARGET_PAGE_MASK);

    return left >= size ? read_in_page(r, addr, buf, size) :
           read_in_page(r, addr, buf, left) &&
           read_in_page(r, addr + left, (char *)buf + left, size - left);
}

/* The bits of a task's state */
typedef struct TaskStates {
    uint32_t dead;
    uint32_t interruptible;
    uint32_t uninterruptible;
} TaskStates;

static TaskStates states_of(const struct btrail_tasks *tasks)
{
    return (TaskStates) {
        tasks->dead, tasks->interruptible, tasks->uninterruptible
    };
}

/* A task, of which all that is read is in one piece; it begins at @ram. */
typedef struct KnownTask {
    vaddr addr;             /* 0: none */
    const char *ram;
} KnownTask;

/*
 * What is needed to read tasks that were read before.  The guest has executed
 * for long since, so little of that is in a cache, or in the TLB: it is in few
 * lines, and these are in few pages.  Only where tasks are is remembered; what
 * they have is read each time.
 */
typedef struct KnownTasks {
    /* All of this is of one kernel, as long as the memory is laid out so. */
    uint64_t layout;        /* as that of a page */
    const struct btrail_tasks *kernel;
    /* The task that runs on the CPU with this base of GS */
    vaddr gs_base;
    const char *current;    /* NULL: that is not known */
    KnownTask last;         /* that was switched to */
    TaskStates states;
    uint32_t kernel_flag;
    /* The description's offsets, which are below BTRAIL_TASKS_MAX_OFFSET */
    uint16_t flags;
    uint16_t tid;
    uint16_t pid;
    uint16_t name;
    uint16_t state;
    uint16_t on_queue;
    uint16_t delayed;
    bool has_state;
    bool has_delayed;
    bool has_wakes;
    /* In a set, those that came last are first. */
    KnownTask of[64][4] QEMU_ALIGNED(64);
} QEMU_ALIGNED(64) KnownTasks;

QEMU_BUILD_BUG_ON(BTRAIL_TASKS_MAX_OFFSET > UINT16_MAX + 1);

static __thread KnownTasks known_tasks;

/* Tasks are aligned to a cache line; many are at the same offset in a page. */
static QEMU_ALWAYS_INLINE KnownTask *known_set(vaddr addr)
{
    return known_tasks.of[(addr >> 6 ^ addr >> TARGET_PAGE_BITS) %
                          ARRAY_SIZE(known_tasks.of)];
}

/* Returns NULL if there is none. */
static QEMU_ALWAYS_INLINE const char *find_known(const KnownTask *set,
                                                 vaddr addr)
{
    return likely(set[0].addr == addr) ? set[0].ram :
           set[1].addr == addr ? set[1].ram :
           set[2].addr == addr ? set[2].ram :
           set[3].addr == addr ? set[3].ram : NULL;
}

/* Does what is known hold?  Not of nested guests, see new_reader() */
static QEMU_ALWAYS_INLINE bool has_known(const CPUX86State *env)
{
    const struct btrail_tasks *kernel = env->branch_trace.kernel;

    return kernel && kernel == known_tasks.kernel &&
           known_tasks.layout == qatomic_read(&x86_branch_trace_layouts) &&
           !(env->hflags & HF_GUEST_MASK);
}

/* To know others, forgets all that is known. */
static void begin_to_know(const struct btrail_tasks *tasks, uint64_t layout)
{
    known_tasks = (KnownTasks) {
        .layout = layout,
        .kernel = tasks,
        .states = states_of(tasks),
        .kernel_flag = tasks->kernel,
        .flags = tasks->task_flags,
        .tid = tasks->tid,
        .pid = tasks->pid,
        .name = tasks->name,
        .state = tasks->state,
        .on_queue = tasks->on_queue,
        .delayed = tasks->delayed,
        .has_state = tasks->state,
        .has_delayed = tasks->delayed,
        .has_wakes = tasks->wake,
    };
}

/*
 * Where a task is, from its first byte on; NULL if what is read of it is not in
 * one piece, or not all of it is there.
 */
static const char *look_for_task(TaskReader *r,
                                 const struct btrail_tasks *tasks, vaddr addr)
{
    const struct {
        uint32_t offset;
        uint32_t size;
    } members[] = {
        { tasks->task_flags, sizeof(uint32_t) },
        { tasks->tid, sizeof(uint32_t) },
        { tasks->pid, sizeof(uint32_t) },
        { tasks->name, BTRAIL_TASKS_NAME },
        { tasks->state, tasks->state ? sizeof(uint32_t) : 0 },
        { tasks->on_queue, tasks->state ? sizeof(uint8_t) : 0 },
        { tasks->delayed, tasks->delayed ? sizeof(uint8_t) : 0 },
    };
    uint32_t from = UINT32_MAX, to = 0;
    const char *begin = NULL;
    vaddr page;

    for (unsigned i = 0; i < ARRAY_SIZE(members); i++) {
        if (members[i].size) {
            from = MIN(from, members[i].offset);
            to = MAX(to, members[i].offset + members[i].size);
        }
    }
    page = (addr + from) & TARGET_PAGE_MASK;
    for (uint64_t n = 0; n < addr + to - page; n += TARGET_PAGE_SIZE) {
        const char *ram = find_page(r, page + n);

        if (!n) {
            begin = ram;
        }
        if (!ram || ram != begin + n) {
            return NULL;
        }
    }
    return begin + (int64_t)(addr - page);
}

/* A task was read that was not known. */
static void know_task(TaskReader *r, const struct btrail_tasks *tasks,
                      vaddr addr)
{
    KnownTask *set = known_set(addr);
    const char *ram;

    if (!r->layout) {
        return;
    }
    if (known_tasks.layout != r->layout || known_tasks.kernel != tasks) {
        begin_to_know(tasks, r->layout);
    }
    if (find_known(set, addr)) {
        return;
    }
    ram = look_for_task(r, tasks, addr);
    if (ram) {
        memmove(set + 1, set, 3 * sizeof(*set));
        set[0] = (KnownTask) { addr, ram };
    }
}

/* The same of a CPU's pointer to the one that runs; after know_task() */
static void know_current(TaskReader *r, const struct btrail_tasks *tasks,
                         uint64_t gs_base)
{
    vaddr addr = gs_base + tasks->current;
    const char *ram;

    if (r->layout && -(addr | TARGET_PAGE_MASK) >= sizeof(uint64_t)) {
        ram = find_page(r, addr & TARGET_PAGE_MASK);
        if (ram) {
            known_tasks.gs_base = gs_base;
            known_tasks.current = ram + (addr & ~TARGET_PAGE_MASK);
        }
    }
}

/* The bytes before the first NUL, the others of which become NUL, too */
static uint64_t before_nul(uint64_t bytes, bool *has_nul)
{
    uint64_t nul = (bytes - dup_const(MO_8, 1)) & ~bytes &
                   dup_const(MO_8, 0x80);

    *has_nul = nul;
    return nul ? bytes & ((nul & -nul) - 1) : bytes;
}

/* A name, from its bytes: a string with NULs after it */
static QEMU_ALWAYS_INLINE void set_name(char *name, uint64_t low, uint64_t high)
{
    bool ends;

    /* The last byte is NUL, whatever the guest has there. */
    high &= UINT64_MAX >> 8;
    low = before_nul(low, &ends);
    high = ends ? 0 : before_nul(high, &ends);
    stq_le_p(name, low);
    stq_le_p(name + 8, high);
}

/* Reads a string, and only as far as it goes; fills @name with NULs. */
static bool read_name(TaskReader *r, vaddr addr, char *name)
{
    unsigned left = -(addr | TARGET_PAGE_MASK);
    uint64_t low, high;
    const char *ram;

    if (likely(left >= BTRAIL_TASKS_NAME)) {
        ram = find_page(r, addr & TARGET_PAGE_MASK);
        if (!ram) {
            return false;
        }
        ram += addr & ~TARGET_PAGE_MASK;
        low = ldq_le_p(ram);
        high = ldq_le_p(ram + 8);
    } else {
        /* The kernel has none that is longer, so another page may not matter. */
        if (!read_all(r, addr, name, BTRAIL_TASKS_NAME)) {
            memset(name, 0, BTRAIL_TASKS_NAME);
            if (!read_in_page(r, addr, name, left) ||
                (left < BTRAIL_TASKS_NAME - 1 && !memchr(name, 0, left))) {
                return false;
            }
        }
        low = ldq_le_p(name);
        high = ldq_le_p(name + 8);
    }
    set_name(name, low, high);
    return true;
}

/* A pointer to a task is in the upper half, and aligned. */
static bool can_be_task(uint64_t addr)
{
    return addr >> 63 && addr % sizeof(addr) == 0;
}

/* Reads a pointer to a task. */
static bool read_pointer(TaskReader *r, vaddr addr, uint64_t *task)
{
    uint64_t value;

    if (!read_all(r, addr, &value, sizeof(value))) {
        return false;
    }
    *task = le64_to_cpu(value);
    return can_be_task(*task);
}

/* The task that runs, while GS is the kernel's */
static bool read_current(TaskReader *r, const struct btrail_tasks *tasks,
                         uint64_t gs_base, uint64_t *task)
{
    return read_pointer(r, gs_base + tasks->current, task);
}

static bool read_u32(TaskReader *r, vaddr addr, uint32_t *value)
{
    if (!read_all(r, addr, value, sizeof(*value))) {
        return false;
    }
    *value = le32_to_cpu(*value);
    return true;
}

/* Reads a task without its name. */
static bool read_numbers(TaskReader *r, const struct btrail_tasks *tasks,
                         uint64_t addr, BranchTraceTask *task)
{
    uint32_t flags;

    /* The flags are in a page before the others. */
    if (!read_u32(r, addr + tasks->task_flags, &flags) ||
        !read_u32(r, addr + tasks->tid, &task->tid) ||
        !read_u32(r, addr + tasks->pid, &task->pid)) {
        return false;
    }
    task->kernel = flags & tasks->kernel;
    return task->tid <= MAX_PID && task->pid <= MAX_PID;
}

static void report_task(TaskReader *r, const struct btrail_tasks *tasks,
                        uint64_t addr, uint64_t name, uint16_t left)
{
    X86BranchTrace *bt = &r->env->branch_trace;
    BranchTraceTask task;
    bool known = read_numbers(r, tasks, addr, &task) &&
                 read_name(r, name, task.name);

    bt->task = known ? addr : 0;
    branch_trace_stream_task(bt->stream, known ? &task : NULL, left);
}

void x86_branch_trace_read_task(CPUX86State *env, bool cr3_loaded)
{
    X86BranchTrace *bt = &env->branch_trace;
    const struct btrail_tasks *tasks = bt->kernel;
    bool user = (env->hflags & HF_CPL_MASK) == 3;
    TaskReader reader = new_reader(env);
    uint64_t task;

    RCU_READ_LOCK_GUARD();
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
    if (read_current(&reader, tasks,
                     user ? env->kernelgsbase : env->segs[R_GS].base, &task)) {
        bt->task_unread = false;
        report_task(&reader, tasks, task, task + tasks->name, 0);
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
    TaskReader reader = new_reader(env);
    uint64_t task;

    RCU_READ_LOCK_GUARD();
    bt->nested.kernel = NULL;
    /* They differ while the kernel switches from one to another. */
    if (bt->kernel_nested && bt->kernel && bt->task && !bt->task_unread &&
        read_current(&reader, bt->kernel, kernel_gs(env), &task) &&
        task == bt->task) {
        bt->nested.kernel = bt->kernel;
        bt->nested.task = task;
        bt->nested.gs_base = env->segs[R_GS].base;
        bt->nested.kernelgsbase = env->kernelgsbase;
    }
}

/*
 * The hypervisor may run another CPU of that guest here, or may have run this
 * one elsewhere.  But the base of GS is that of a CPU, and where it is the
 * same, so is the place of the pointer.
 */
bool x86_branch_trace_return_to_nested_task(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    TaskReader reader = new_reader(env);
    uint64_t task;

    RCU_READ_LOCK_GUARD();
    if (!bt->kernel || bt->kernel != bt->nested.kernel ||
        bt->nested.gs_base != env->segs[R_GS].base ||
        bt->nested.kernelgsbase != env->kernelgsbase ||
        !read_current(&reader, bt->kernel, kernel_gs(env), &task) ||
        task != bt->nested.task) {
        return false;
    }
    report_task(&reader, bt->kernel, task, task + bt->kernel->name, 0);
    return true;
}

static bool read_u8(TaskReader *r, vaddr addr, uint8_t *value)
{
    return read_all(r, addr, value, sizeof(*value));
}

/*
 * Why a task leaves its CPU.  The scheduler has taken what is blocked off its
 * queue by now, or (since Linux 6.12) has left it there and says so.  Nobody
 * else changes that before the task has left: it is locked, or on a CPU.  But
 * who wakes it then changes its state to one that says only that.
 */
static QEMU_ALWAYS_INLINE uint16_t why_left(const TaskStates *states,
                                            uint32_t state, uint8_t on_queue,
                                            uint8_t delayed)
{
    if (on_queue && !(state && delayed)) {
        return BTRAIL_TASK_LEFT_RUNNABLE;
    }
    return state & states->dead ? BTRAIL_TASK_LEFT_DEAD :
           BTRAIL_TASK_LEFT_BLOCKED |
           (state & states->interruptible ? BTRAIL_TASK_LEFT_INTERRUPTIBLE :
            state & states->uninterruptible ?
            BTRAIL_TASK_LEFT_UNINTERRUPTIBLE : 0);
}

static uint16_t read_left(TaskReader *r, const struct btrail_tasks *tasks,
                          uint64_t task)
{
    TaskStates states = states_of(tasks);
    uint8_t on_queue, delayed = 0;
    uint32_t state;

    if (!tasks->state || !read_u32(r, task + tasks->state, &state) ||
        !read_u8(r, task + tasks->on_queue, &on_queue) ||
        (tasks->delayed && !read_u8(r, task + tasks->delayed, &delayed))) {
        return 0;
    }
    return why_left(&states, state, on_queue, delayed);
}

/*
 * What is needed to report a task: to wait for one cache line after the other
 * would take most of the time.
 */
static QEMU_ALWAYS_INLINE void fetch_task(const X86BranchTrace *bt,
                                          uint64_t addr)
{
    __builtin_prefetch(&x86_branch_trace_layouts);
    __builtin_prefetch(&known_tasks.layout);
    __builtin_prefetch(&known_tasks.flags);
    __builtin_prefetch(known_set(addr));
    branch_trace_stream_fetch(bt->stream);
}

/* Reads a task that is known, without its name. */
static QEMU_ALWAYS_INLINE bool read_known(const char *ram,
                                          BranchTraceTask *task)
{
    task->tid = ldl_le_p(ram + known_tasks.tid);
    task->pid = ldl_le_p(ram + known_tasks.pid);
    task->kernel = (uint32_t)ldl_le_p(ram + known_tasks.flags) &
                   known_tasks.kernel_flag;
    return task->tid <= MAX_PID && task->pid <= MAX_PID;
}

static QEMU_ALWAYS_INLINE uint16_t read_known_left(const char *ram)
{
    if (!known_tasks.has_state) {
        return 0;
    }
    return why_left(&known_tasks.states, ldl_le_p(ram + known_tasks.state),
                    ldub_p(ram + known_tasks.on_queue),
                    known_tasks.has_delayed ?
                    ldub_p(ram + known_tasks.delayed) : 0);
}

/* From one task that is known to another; returns false if they are not. */
static QEMU_ALWAYS_INLINE bool switch_known(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint64_t next = env->regs[R_ESI];
    uint64_t task = env->regs[R_EDI];
    const char *was, *ram;
    BranchTraceTask read;
    bool known;

    if (!has_known(env) || !known_tasks.current ||
        known_tasks.gs_base != env->segs[R_GS].base ||
        ldq_le_p(known_tasks.current) != task) {
        return false;
    }
    was = likely(known_tasks.last.addr == task) ? known_tasks.last.ram :
          find_known(known_set(task), task);
    ram = find_known(known_set(next), next);
    if (!was || !ram) {
        return false;
    }
    __builtin_prefetch(ram + known_tasks.name);
    known_tasks.last = (KnownTask) { next, ram };
    known = read_known(ram, &read);
    set_name(read.name, ldq_le_p(ram + known_tasks.name),
             ldq_le_p(ram + known_tasks.name + 8));
    bt->task = known ? next : 0;
    branch_trace_stream_task(bt->stream, known ? &read : NULL,
                             read_known_left(was));
    return true;
}

/* Apart, so that what is usual is in few cache lines */
static G_NO_INLINE void switch_any(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    const struct btrail_tasks *tasks = bt->kernel;
    TaskReader reader = new_reader(env);
    uint64_t next = env->regs[R_ESI];
    uint64_t task;

    /* In any other code than it should be, RDI is something else. */
    if (read_current(&reader, tasks, env->segs[R_GS].base, &task) &&
        task == env->regs[R_EDI] && can_be_task(next)) {
        report_task(&reader, tasks, next, next + tasks->name,
                    read_left(&reader, tasks, task));
        know_task(&reader, tasks, task);
        know_task(&reader, tasks, next);
        know_current(&reader, tasks, env->segs[R_GS].base);
    } else {
        bt->task = 0;
        branch_trace_stream_task(bt->stream, NULL, 0);
    }
}

static void switch_task(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;

    fetch_task(bt, env->regs[R_ESI]);
    if (!bt->tasks) {
        return;
    }
    if (unlikely(!bt->kernel)) {
        x86_branch_trace_check_kernel(env);
        if (!bt->kernel) {
            return;
        }
    }
    bt->task_unread = false;
    memset(bt->wakes, 0, sizeof(bt->wakes));
    if (unlikely(!switch_known(env))) {
        switch_any(env);
    }
}

static void rename_task(CPUX86State *env)
{
    const struct btrail_tasks *tasks = env->branch_trace.kernel;
    TaskReader reader = new_reader(env);
    uint64_t task;

    /* The name of another task is read when that is switched to. */
    if (env->branch_trace.tasks && tasks &&
        read_current(&reader, tasks, env->segs[R_GS].base, &task) &&
        task == env->regs[R_EDI]) {
        /* The name can be on a stack, which is mapped for one task. */
        reader.layout = 0;
        report_task(&reader, tasks, task, env->regs[R_ESI], 0);
    }
}

/* Are wake-ups to be reported of what runs now, if the kernel has them? */
static bool reports_wakes(const CPUX86State *env)
{
    const X86BranchTrace *bt = &env->branch_trace;

    return bt->tasks && bt->kernel &&
           (bt->privilege & BTRAIL_PRIVILEGE_KERNEL);
}

static bool is_on_same_stack(uint64_t a, uint64_t b)
{
    return !((a ^ b) & -(uint64_t)STACK_SIZE);
}

/*
 * A task may be awake, which is decided later, with a lock, and an interrupt can
 * wake others until then.
 */
static void begin_to_wake(CPUX86State *env)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint64_t sp = env->regs[R_ESP];

    if (!reports_wakes(env)) {
        return;
    }
    fetch_task(bt, env->regs[R_EDI]);
    for (unsigned i = 0; i < ARRAY_SIZE(bt->wakes); i++) {
        /* A call that was as deep as this one, or deeper, has returned. */
        if (bt->wakes[i].sp <= sp && is_on_same_stack(bt->wakes[i].sp, sp)) {
            bt->wakes[i].task = 0;
        }
    }
    bt->wakes[bt->next_wake].task = env->regs[R_EDI];
    bt->wakes[bt->next_wake].sp = sp;
    bt->next_wake = (bt->next_wake + 1) % ARRAY_SIZE(bt->wakes);
}

/* The task that the innermost call on this stack wakes, or 0; forgets it. */
static uint64_t take_wake(X86BranchTrace *bt, uint64_t sp)
{
    uint64_t above = FRAME_MAX, task = 0;
    uint64_t *found = NULL;

    for (unsigned i = 0; i < ARRAY_SIZE(bt->wakes); i++) {
        if (bt->wakes[i].task && bt->wakes[i].sp - sp < above) {
            above = bt->wakes[i].sp - sp;
            found = &bt->wakes[i].task;
        }
    }
    if (found) {
        task = *found;
        *found = 0;
    }
    return task;
}

static G_NO_INLINE bool read_woken(CPUX86State *env, uint64_t addr,
                                   BranchTraceTask *task)
{
    const struct btrail_tasks *tasks = env->branch_trace.kernel;
    TaskReader reader = new_reader(env);

    if (!can_be_task(addr) || !read_numbers(&reader, tasks, addr, task)) {
        return false;
    }
    know_task(&reader, tasks, addr);
    return true;
}

static void report_wake(CPUX86State *env, uint16_t flags)
{
    X86BranchTrace *bt = &env->branch_trace;
    uint64_t addr = take_wake(bt, env->regs[R_ESP]);
    const char *ram = NULL;
    BranchTraceTask task;
    bool known;

    if (!reports_wakes(env)) {
        return;
    }
    if (likely(has_known(env))) {
        if (!known_tasks.has_wakes) {
            return;
        }
        ram = find_known(known_set(addr), addr);
    } else if (!bt->kernel->wake) {
        return;
    }
    known = likely(ram) ? read_known(ram, &task) :
            read_woken(env, addr, &task);
    branch_trace_stream_wake(bt->stream, known ? &task : NULL, flags);
}

/*
 * It is called from translated code, which is executed in an RCU critical
 * section.  Not a switch: the compiler would look for the case in a table, whose
 * line is in no cache.
 */
void HELPER(branch_trace_hook)(CPUX86State *env, uint32_t hook)
{
    if (hook == X86_BRANCH_TRACE_WAKE) {
        begin_to_wake(env);
    } else if (hook == X86_BRANCH_TRACE_SWITCH) {
        switch_task(env);
    } else if (hook >= X86_BRANCH_TRACE_WAKING) {
        report_wake(env, hook == X86_BRANCH_TRACE_WAKING_NEW ?
                    BTRAIL_WAKE_NEW : 0);
    } else if (hook == X86_BRANCH_TRACE_RENAME) {
        rename_task(env);
    }
}
