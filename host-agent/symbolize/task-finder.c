/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks: see task-finder.h
 */

#include "lib/internal/names-private.h"
#include "symbolize/runs.h"
#include "symbolize/task-finder.h"
#include "symbolize/thread-lives.h"

struct task_finder {
    const struct btrail_trace *trace;
    struct address_space *kernel;
    const struct btrail_names *names;
    const struct btrail_owners *owners;
    struct processes *processes;
    bool searched;              /* the trace was searched for runs */
    struct runs *runs;
    struct thread_lives *threads;
};

struct task_finder *task_finder_new(const struct btrail_trace *trace,
                                    struct address_space *kernel,
                                    const struct btrail_names *names,
                                    const struct btrail_owners *owners,
                                    struct processes *processes)
{
    struct task_finder *f = g_new0(struct task_finder, 1);

    *f = (struct task_finder) { trace, kernel, names, owners, processes };
    return f;
}

void task_finder_free(struct task_finder *f)
{
    if (f) {
        runs_free(f->runs);
        thread_lives_free(f->threads);
        g_free(f);
    }
}

/* The address of a symbol that has one of two names; 0 if there is none */
static uint64_t find_symbol(const struct task_finder *f, const char *name,
                            const char *other)
{
    uint64_t address;

    return address_space_symbol_find(f->kernel, name, &address) ||
           (other && address_space_symbol_find(f->kernel, other, &address)) ?
           address : 0;
}

/* Searches the trace for runs, if the kernel's functions are known. */
static void find_runs(struct task_finder *f)
{
    static const char *const idle[] = { "do_idle", "schedule_idle" };
    struct runs_symbols symbols = { 0 };
    unsigned i;

    f->searched = true;
    if (!f->owners || !btrail_names_unfiltered(f->names)) {
        return;
    }
    symbols.switch_to = find_symbol(f, "__switch_to_asm", NULL);
    symbols.lazy = find_symbol(f, "enter_lazy_tlb", NULL);
    symbols.switch_mm = find_symbol(f, "switch_mm_irqs_off", NULL);
    if (!symbols.switch_to || !symbols.lazy || !symbols.switch_mm) {
        return;
    }
    for (i = 0; i < G_N_ELEMENTS(idle); i++) {
        uint64_t start = find_symbol(f, idle[i], NULL);
        const struct symbol *symbol = address_space_symbol(f->kernel, start);

        if (start && symbol) {
            symbols.idle[i].start = start;
            symbols.idle[i].end = symbol->end;
        }
    }
    symbols.birth = find_symbol(f, "ret_from_fork_asm", "ret_from_fork");
    symbols.clone = find_symbol(f, "kernel_clone", "_do_fork");
    symbols.exit = find_symbol(f, "do_exit", NULL);
    f->runs = runs_new(f->trace, &symbols, btrail_parallel_threads());
    if (f->runs && symbols.birth && symbols.clone && symbols.exit) {
        f->threads = thread_lives_new(f->runs, f->names, f->owners);
        processes_set_threads(f->processes, f->threads);
    }
}

/* Does a process stand for the page table of the kernel alone? */
static bool is_kernel(const struct process *p)
{
    return p->seen && !p->pid;
}

/* Finds the task that ran from a record on; @run is the record's run. */
static void find_task(struct task_finder *f,
                      const struct symbolizer_where *where, uint64_t time,
                      const struct run *run, struct task *task)
{
    task->process = processes_find(f->processes, where, time, &task->user);
    task->kernel = run->kind == RUN_USER ? task->user :
                   MIN(task->user, BTRAIL_LIKELY);
    if (run->kind == RUN_USER && is_kernel(task->process) && run->cr3) {
        /* The process ends and has returned its own page table. */
        const struct symbolizer_where begin = {
            where->vcpu, run->first, run->cr3,
        };

        task->process = processes_find(f->processes, &begin, run->time,
                                       &task->user);
        task->kernel = task->user;
    }
    /* Any task of the kernel can use the kernel's own page table. */
    if (run->kind == RUN_KERNEL || run->kind == RUN_IDLE ||
        (run->kind == RUN_UNKNOWN && is_kernel(task->process))) {
        task->process = processes_borrower(f->processes, task->process,
                                           run->kind == RUN_IDLE);
        task->user = task->kernel = BTRAIL_SURE;
    }
}

bool task_finder_part(struct task_finder *f, unsigned vcpu,
                      const struct btrail_batch *b, struct btrail_batch *part,
                      struct task *task)
{
    uint64_t index = part->count ? part->index + part->count : b->index;
    uint64_t done = index - b->index;
    const struct symbolizer_where where = { vcpu, index, b->cr3 };
    struct run run = { .end = UINT64_MAX };

    if (done >= b->count) {
        return false;
    }
    if (!f->searched) {
        find_runs(f);
    }
    if (f->runs) {
        run = runs_find(f->runs, vcpu, index);
    }
    *part = *b;
    part->index = index;
    part->records += done;
    part->count = MIN(b->count - done, run.end - index);
    find_task(f, &where, b->time.host, &run, task);
    return true;
}
