/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The scanner: see scanner.h
 */

#include <stdlib.h>
#include <string.h>

#include "guest-linux/kernel-numbers.h"
#include "guest-linux/kernel-watch.h"
#include "guest-linux/known-code.h"
#include "guest-linux/known-processes.h"
#include "guest-linux/missing-names.h"
#include "guest-linux/own-symbols.h"
#include "guest-linux/scan-memory.h"
#include "guest-linux/scan-plan.h"
#include "guest-linux/scanner.h"
#include "guest-linux/sent-files.h"
#include "guest-linux/sent-symbols.h"
#include "guest-linux/switch.h"
#include "guest-linux/tasks.h"
#include "lib/agent/bytes.h"
#include "util/clock.h"
#include "util/hash.h"

/* Between two snapshots that read everything */
#define WHOLE_INTERVAL_NS   UINT64_C(10000000000)
/* Snapshots that find nothing before the kernel is taken to be another one */
#define EMPTY_SNAPSHOTS     5
/* Between two looks whether the kernel still runs, and after one for nothing */
#define LOOK_NS             UINT64_C(50000000)
#define LOOK_IDLE_NS        UINT64_C(200000000)

struct scanner {
    GThread *thread;
    struct scan_output out;
    struct kernel_numbers *numbers;     /* as many references as scanners */
    struct scanner *own; /* of a nested one: the guest's; or NULL */
    struct scan_plan plan;
    struct known_code *code;

    GMutex lock;
    /* Under the lock */
    struct scanner_result result; /* only the thread changes it */
    struct scanner_last last;    /* only the thread changes it */

    uint64_t stranger;          /* CR3 with which no known kernel runs, 0 if
                                   none was reported; atomic */
    uint64_t booting;           /* CR3 with which a kernel may boot, 0 if none
                                   was reported; atomic */
    bool resend;                /* atomic */
    unsigned levels;            /* of the kernel's page tables, 0 if there is no
                                   kernel; atomic */
    uint64_t shared_held;       /* until when its symbols have held, for who
                                   finds the kernel next; atomic */
    bool over;                  /* atomic */
    uint64_t image[2];          /* of the kernel, from and to; atomic each */
    struct kernel_watch watch;  /* the drain reports to it */

    /* What follows belongs to the thread. */
    struct scan_memory memory;
    uint64_t cr3;               /* a nested one: the last stranger */
    uint64_t held_before;       /* of @kernel, by who had found it before */
    struct linux_kernel *kernel;
    bool searched;              /* for a kernel, once */
    bool ended;                 /* the kernel: what is in memory counts only if
                                   it runs */
    GBytes *sent_ended;         /* packed, or NULL */
    uint16_t ended_of;          /* the kernel of which that was said */
    uint64_t next_look;
    uint64_t next_booting;      /* earliest time, for one that boots */
    uint64_t next_search;       /* earliest time, for one that runs instead */
    uint64_t next_whole;        /* time of the next snapshot of everything */
    struct known_processes *processes;
    struct sent_files *files;
    struct sent_symbols *symbols;
    bool symbols_sent;          /* those of this kernel */
    struct btrail_tasks tasks;  /* that were sent */
    unsigned empty;             /* snapshots without processes, in succession */
};

void scanner_request(struct scanner *sc)
{
    scan_plan_request(&sc->plan, &sc->plan.snapshots);
}

void scanner_request_check(struct scanner *sc)
{
    scan_plan_request(&sc->plan, &sc->plan.checks);
}

void scanner_wait(struct scanner *sc)
{
    scan_plan_wait(&sc->plan);
}

bool scanner_report_kernel_code(struct scanner *sc,
                                uint64_t address)
{
    uint64_t end = __atomic_load_n(&sc->image[1], __ATOMIC_RELAXED);

    return end && (address >= end || address < __atomic_load_n(
                       &sc->image[0], __ATOMIC_RELAXED));
}

void scanner_last(struct scanner *sc,
                  struct scanner_last *last)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&sc->lock);

    *last = sc->last;
}

bool scanner_report_cr3(struct scanner *sc, uint64_t cr3)
{
    return known_code_is_new_cr3(sc->code, cr3);
}

bool scanner_report_code(struct scanner *sc, uint64_t cr3,
                         uint64_t address)
{
    return known_code_is_new(sc->code, cr3, address);
}

void scanner_report_stranger(struct scanner *sc, uint64_t cr3)
{
    uint64_t root = btrail_cr3_root(cr3);

    /* CR3 is 0 after a reset. */
    if (root & ~BTRAIL_CR3_NESTED &&
        root != __atomic_load_n(&sc->stranger, __ATOMIC_RELAXED)) {
        __atomic_store_n(&sc->stranger, root, __ATOMIC_RELAXED);
        scan_plan_wake(&sc->plan);
    }
}

void scanner_report_image(struct scanner *sc, uint64_t cr3)
{
    uint64_t root = btrail_cr3_root(cr3);

    if (root && root != __atomic_load_n(&sc->booting, __ATOMIC_RELAXED)) {
        __atomic_store_n(&sc->booting, root, __ATOMIC_RELAXED);
        scan_plan_wake(&sc->plan);
    }
}

void scanner_report_ran(struct scanner *sc, uint64_t cr3,
                        uint64_t time)
{
    if (time) {
        kernel_watch_report(&sc->watch, cr3, time);
    }
}

/* Returns whether pieces were resent: a snapshot of everything must follow. */
static bool resend_if_requested(struct scanner *sc)
{
    const struct scan_output *out = &sc->out;

    if (!__atomic_exchange_n(&sc->resend, false, __ATOMIC_ACQUIRE)) {
        return false;
    }
    out->ops->resending(out->opaque, out->nested, true);
    sent_symbols_resend(sc->symbols, sc->kernel);
    scan_output_resend(out, BTRAIL_SIDEBAND_ENDED, sc->ended_of,
                       sc->sent_ended);
    sent_files_resend(sc->files);
    out->ops->resending(out->opaque, out->nested, false);
    return true;
}

/* Says which kernel there is, if there is one, and what is missing of it. */
static void send_kernel(struct scanner *sc)
{
    sc->out.ops->kernel(sc->out.opaque, sc->out.nested,
                        sc->kernel ? sc->kernel->release : NULL,
                        sc->kernel ? sc->result.missing : NULL);
}

/* The same, and how its tasks are found */
static void send_tasks(struct scanner *sc)
{
    sc->tasks = (struct btrail_tasks) { 0 };
    if (sc->kernel) {
        linux_switch(sc->kernel, &sc->tasks);
    }
    send_kernel(sc);
    sc->out.ops->tasks(sc->out.opaque, sc->out.nested, &sc->tasks);
}

/* Sends what stays as long as the kernel runs. */
static void send_symbols(struct scanner *sc)
{
    uint64_t image[2];

    sc->symbols_sent = true;
    sent_symbols_send_own(sc->symbols, sc->kernel);
    if (linux_image(sc->kernel, &image[0], &image[1])) {
        __atomic_store_n(&sc->image[0], image[0], __ATOMIC_RELAXED);
        __atomic_store_n(&sc->image[1], image[1], __ATOMIC_RELAXED);
    }
}

/* Has another scanner found the same kernel since? */
static bool has_moved(struct scanner *sc)
{
    return sc->own && sc->kernel &&
           !kernel_numbers_is_of(sc->numbers, sc->kernel->number, sc);
}

/* Says when the kernel was last seen to run.  No more is sent of it then. */
static void send_ended(struct scanner *sc)
{
    uint64_t now = clock_ns();
    const struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_ENDED, .kernel = sc->kernel->number,
        .size = BTRAIL_SIDEBAND_ENDED_SIZE, .time = MIN(sc->watch.alive, now),
    };
    uint8_t known[BTRAIL_SIDEBAND_ENDED_SIZE];

    btrail_put64(known, now);
    sc->ended_of = sc->kernel->number;
    scan_output_keep(&sc->out, &sc->sent_ended,
                     scan_output_send(&sc->out, &info, known));
}

/* Has others know when what is known of the kernel was so. */
static void note_last(struct scanner *sc)
{
    g_mutex_lock(&sc->lock);
    sc->last = (struct scanner_last) { 0 };
    if (sc->kernel) {
        sc->last.kernel = sc->kernel->number;
        sc->last.held = sent_symbols_held(sc->symbols);
        sc->last.ran = kernel_watch_doubts(&sc->watch) ? sc->watch.alive : 0;
    }
    __atomic_store_n(&sc->shared_held, sc->last.held, __ATOMIC_RELAXED);
    g_mutex_unlock(&sc->lock);
}

/* Looks whether the kernel runs, if somebody has said what does. */
static void look(struct scanner *sc)
{
    bool any = kernel_watch_look(&sc->watch, sc->kernel, sc->memory.view);

    sc->next_look = clock_ns() + (any ? LOOK_NS : LOOK_IDLE_NS);
}

/* Forgets CR3s that no process has any more. */
static void forget_roots(struct scanner *sc)
{
    g_autoptr(GHashTable) roots = g_hash_table_new(btrail_int64_hash,
                                                   g_int64_equal);
    uint64_t own = sc->kernel->root | sc->kernel->cr3_flags;

    g_hash_table_add(roots, &own);
    known_processes_add_roots(sc->processes, roots);
    known_code_keep_only(sc->code, roots);
}

static void list_missing(struct scanner *sc)
{
    g_mutex_lock(&sc->lock);
    g_strfreev(sc->result.missing);
    sc->result.missing = missing_names(sc->kernel, sc->memory.unread);
    g_mutex_unlock(&sc->lock);
}

/* Says what is known now of a kernel that was found while it booted. */
static void complete_kernel(struct scanner *sc)
{
    struct btrail_tasks tasks;

    if (!sc->kernel->booting || !linux_kernel_complete(sc->kernel)) {
        return;
    }
    list_missing(sc);
    linux_switch(sc->kernel, &tasks);
    if (memcmp(&tasks, &sc->tasks, sizeof(tasks))) {
        send_tasks(sc);
    } else {
        send_kernel(sc);
    }
}

/*
 * A kernel without processes is not the one that it was, unless it has not got
 * that far.
 */
static bool is_empty(struct scanner *sc, const struct btrail_snapshot *snapshot)
{
    return snapshot->n <= 1 &&
           !(sc->kernel->booting && linux_kernel_remains(sc->kernel));
}

/* Returns whether it has a new process. */
static bool take_snapshot(struct scanner *sc, bool everything)
{
    struct btrail_snapshot *snapshot;
    size_t size;
    void *data;
    bool new;

    if (!sc->kernel->tasks) {
        sc->empty = linux_kernel_remains(sc->kernel) ? 0 : sc->empty + 1;
        return false;
    }
    complete_kernel(sc);
    snapshot = linux_snapshot(sc->kernel, clock_ns,
                              everything ? NULL : known_processes_is_known,
                              sc->processes);
    known_code_begin(sc->code, snapshot->begin);
    new = known_processes_take(sc->processes, snapshot);
    for (uint32_t i = 0; i < snapshot->n; i++) {
        const struct btrail_process *p = &snapshot->processes[i];

        if (p->mm && !(p->flags & BTRAIL_PROCESS_SEEN)) {
            known_code_keep(sc->code, p);
        }
    }
    if (snapshot->flags & BTRAIL_SNAPSHOT_WHOLE) {
        forget_roots(sc);
    }
    sc->empty = is_empty(sc, snapshot) ? sc->empty + 1 : 0;
    if (!sc->empty && !btrail_snapshot_encode(snapshot, &data, &size)) {
        const struct btrail_sideband_info info = {
            .kind = BTRAIL_SIDEBAND_PROCESSES, .kernel = sc->kernel->number,
            .size = (uint32_t)size, .time = snapshot->end,
        };

        scan_output_send_snapshot(&sc->out, &info, data, snapshot,
                                  sc->memory.view, sc->kernel->walk.levels);
        free(data);
        g_mutex_lock(&sc->lock);
        sc->result.snapshots++;
        g_mutex_unlock(&sc->lock);
    }
    sent_files_send(sc->files, sc->kernel, snapshot);
    linux_snapshot_free(snapshot);
    return new;
}

static void forget_kernel(struct scanner *sc)
{
    sent_symbols_send_held(sc->symbols, sc->kernel);
    linux_kernel_free(sc->kernel);
    sc->kernel = NULL;
    sc->symbols_sent = false;
    __atomic_store_n(&sc->levels, 0, __ATOMIC_RELAXED);
    sent_symbols_forget(sc->symbols);
    __atomic_store_n(&sc->image[1], 0, __ATOMIC_RELAXED);
    sc->empty = 0;
    sc->next_whole = 0;
    known_code_begin(sc->code, 0);
    known_processes_clear(sc->processes);
    kernel_watch_begin(&sc->watch, clock_ns());
    note_last(sc);
}

/*
 * Gives a kernel that was found, if one was, its number.  Returns NULL, and
 * why, if there is none left.
 */
static struct linux_kernel *number(struct scanner *sc, struct linux_kernel *k,
                                   char **why)
{
    uint64_t held;

    if (!k) {
        return NULL;
    }
    k->number = kernel_numbers_take(sc->numbers, k,
                                    scan_memory_place(&sc->memory, k), sc,
                                    &sc->shared_held, &held);
    if (!k->number) {
        *why = g_strdup_printf("the guest has run more than %d kernels",
                               KERNEL_NUMBERS_MAX);
        linux_kernel_free(k);
        return NULL;
    }
    sc->held_before = held;
    return k;
}

/* Searches for a kernel, one that runs with @cr3 if that is not 0. */
static struct linux_kernel *search(struct scanner *sc, uint64_t cr3,
                                   char **why)
{
    unsigned own = sc->own ? __atomic_load_n(&sc->own->levels,
                                             __ATOMIC_RELAXED) : 0;

    return number(sc, scan_memory_find(&sc->memory, cr3, own, why), why);
}

static void set_kernel(struct scanner *sc, struct linux_kernel *k,
                       char *why)
{
    uint64_t unread = sc->memory.unread;

    sc->kernel = k;
    if (!k && unread) {
        g_autofree char *kernel = why, *text = missing_names_unread(unread);

        why = g_strdup_printf("%s; %s", kernel, text);
    }
    g_mutex_lock(&sc->lock);
    g_free(sc->result.why);
    sc->result.why = why;
    if (k) {
        g_free(sc->result.release);
        g_strfreev(sc->result.missing);
        sc->result.release = g_strdup(k->release);
        sc->result.missing = missing_names(k, unread);
        if (!k->tasks) {
            sc->result.why = g_strjoinv("; ", sc->result.missing);
        }
    }
    g_mutex_unlock(&sc->lock);
    if (k) {
        __atomic_store_n(&sc->levels, k->walk.levels, __ATOMIC_RELAXED);
    }
    if (k && sc->held_before) {
        /* Who has found it before says nothing more of it. */
        const struct btrail_sideband_info info = {
            .kind = BTRAIL_SIDEBAND_HELD, .kernel = k->number,
            .time = sc->held_before,
        };

        g_bytes_unref(scan_output_send(&sc->out, &info, NULL));
    }
}

/*
 * A nested guest must run with what was reported: what there is beside it may
 * have come with a boot loader.
 */
static uint64_t take_stranger(struct scanner *sc)
{
    uint64_t cr3 = __atomic_exchange_n(&sc->stranger, 0, __ATOMIC_RELAXED);

    if (sc->own) {
        sc->cr3 = cr3 ? cr3 : sc->cr3;
        return sc->cr3;
    }
    return cr3;
}

static bool find_kernel(struct scanner *sc)
{
    uint64_t cr3 = take_stranger(sc);
    struct linux_kernel *k = NULL;
    char *why;

    if (!cr3 && sc->ended) {
        look(sc);
        cr3 = sc->watch.stranger;
        sc->watch.stranger = 0;
    }
    if (cr3 || !sc->ended) {
        k = search(sc, cr3, &why);
    } else {
        why = g_strdup("the guest's kernel has ended, and no other one runs");
    }
    if (k) {
        /* What ran until now was no kernel, or others. */
        kernel_watch_begin(&sc->watch, sc->watch.alive);
        sc->ended = false;
    }
    set_kernel(sc, k, why);
    /* Who waits for the first search must learn that there is no kernel. */
    if (sc->kernel || (!sc->searched && !sc->own)) {
        send_tasks(sc);
    }
    sc->searched = true;
    return sc->kernel != NULL;
}

/* Returns whether other RAM is read from here on than before. */
static bool take_memory(struct scanner *sc)
{
    bool more;

    if (!scan_memory_take(&sc->memory, &more)) {
        return false;
    }
    if (more && sc->kernel) {
        list_missing(sc);
        send_kernel(sc);
    }
    return true;
}

/*
 * Looks for the kernel that runs with the CR3 that was reported last.  The one
 * that is known does not: it has started another one without a reset, say, and
 * all that it had is still in memory.  Returns whether another one was found.
 */
static bool follow_stranger(struct scanner *sc)
{
    uint64_t cr3 = take_stranger(sc);
    uint64_t begin = clock_ns();
    uint64_t took = clock_cpu_ns();
    struct linux_kernel *k;
    char *why;

    guest_memory_begin(sc->memory.view);
    if (linux_kernel_runs(sc->kernel, cr3)) {
        /* The vCPU was interrupted by firmware, for example. */
        return false;
    }
    k = search(sc, cr3, &why);
    if (k) {
        forget_kernel(sc);
        set_kernel(sc, k, why);
        send_tasks(sc);
    } else {
        g_free(why);
    }
    took = clock_cpu_ns() - took;
    scan_plan_charge(&sc->plan, took);
    sc->next_search = begin + scan_plan_search_spacing(&sc->plan, took);
    return k;
}

/*
 * Looks for a kernel that boots.  All that is known of another one may still be
 * in memory, as after a reset.  Returns whether one was found.
 */
static bool follow_booting(struct scanner *sc)
{
    uint64_t cr3 = __atomic_exchange_n(&sc->booting, 0, __ATOMIC_RELAXED);
    uint64_t begin = clock_ns();
    uint64_t took = clock_cpu_ns();
    struct linux_kernel *k;
    char *why = NULL;

    guest_memory_begin(sc->memory.view);
    if (sc->kernel && linux_kernel_runs(sc->kernel, cr3)) {
        return false;
    }
    k = number(sc, linux_kernel_find_booting(sc->memory.view, cr3), &why);
    if (k) {
        if (sc->kernel) {
            forget_kernel(sc);
        } else {
            kernel_watch_begin(&sc->watch, sc->watch.alive);
        }
        sc->ended = false;
        set_kernel(sc, k, NULL);
        send_tasks(sc);
        sc->searched = true;
    }
    g_free(why);
    took = clock_cpu_ns() - took;
    scan_plan_charge(&sc->plan, took);
    sc->next_booting = scan_plan_booting_searched(&sc->plan, begin, took);
    return k;
}

/*
 * Gives the kernel up if it has ended, as far as page tables show it.  Returns
 * whether it has.
 */
static bool follow_end(struct scanner *sc)
{
    look(sc);
    if (!kernel_watch_ended(&sc->watch)) {
        return false;
    }
    send_ended(sc);
    forget_kernel(sc);
    sc->ended = true;
    send_tasks(sc);
    return true;
}

/*
 * Waits until there is something to do, and sets what, or until the kernel is
 * another one.  Returns false if the thread must end.
 */
static bool wait_for_work(struct scanner *sc)
{
    struct scan_plan *plan = &sc->plan;
    uint64_t now;
    bool more, other = false, lost = false;

    g_mutex_lock(&plan->lock);
    for (;;) {
        uint64_t until = scan_plan_next(plan);

        bool stranger = sc->kernel &&
                        __atomic_load_n(&sc->stranger, __ATOMIC_RELAXED);
        bool booting = __atomic_load_n(&sc->booting, __ATOMIC_RELAXED);

        now = clock_ns();
        if (plan->closing || other || lost) {
            break;
        }
        /* First, however much else there is to do. */
        if (sc->kernel && now >= sc->next_look) {
            g_mutex_unlock(&plan->lock);
            lost = follow_end(sc);
            g_mutex_lock(&plan->lock);
            continue;
        }
        if (booting && now >= sc->next_booting) {
            g_mutex_unlock(&plan->lock);
            other = follow_booting(sc);
            g_mutex_lock(&plan->lock);
            continue;
        }
        if (now >= until) {
            break;
        }
        if (booting) {
            until = MIN(until, sc->next_booting);
        }
        if (sc->kernel) {
            until = MIN(until, sc->next_look);
        }
        if (stranger && now >= sc->next_search) {
            g_mutex_unlock(&plan->lock);
            other = follow_stranger(sc);
            g_mutex_lock(&plan->lock);
            continue;
        }
        if (stranger) {
            until = MIN(until, sc->next_search);
        }
        scan_plan_sleep(plan, now, until);
    }
    more = scan_plan_begin(plan, now);
    g_mutex_unlock(&plan->lock);
    return more;
}

static void snapshot(struct scanner *sc)
{
    uint64_t begin = clock_ns();
    uint64_t took = clock_cpu_ns();
    bool new = take_snapshot(sc, resend_if_requested(sc) ||
                             begin >= sc->next_whole);

    if (begin >= sc->next_whole) {
        sc->next_whole = begin + WHOLE_INTERVAL_NS;
    }
    scan_plan_snapshot_done(&sc->plan, begin, clock_cpu_ns() - took, new);
}

static void check(struct scanner *sc)
{
    uint64_t begin = clock_ns();
    uint64_t took = clock_cpu_ns();

    look(sc);
    sent_symbols_check(sc->symbols, sc->kernel);
    note_last(sc);
    scan_plan_check_done(&sc->plan, begin, clock_cpu_ns() - took);
}

/* Does what is due; all, if the kernel was just found. */
static void work(struct scanner *sc)
{
    if (!sc->symbols_sent) {
        scan_plan_begin_first(&sc->plan);
        snapshot(sc);
        /* Those of the kernel do not move, so they can be read later. */
        send_symbols(sc);
        check(sc);
        return;
    }
    if (sc->plan.snapshots.due) {
        snapshot(sc);
    }
    if (sc->plan.checks.due) {
        check(sc);
    }
}

/* The kernel is another scanner's: there is nothing to do until the end. */
static void wait_for_end(struct scanner *sc)
{
    forget_kernel(sc);
    __atomic_store_n(&sc->over, true, __ATOMIC_RELAXED);
    scan_plan_wait_for_end(&sc->plan);
}

/* All that is known at the end */
static void end(struct scanner *sc)
{
    take_memory(sc);
    if (!sc->kernel && (sc->own || !find_kernel(sc))) {
        return;
    }
    take_snapshot(sc, resend_if_requested(sc));
    if (!sc->symbols_sent) {
        send_symbols(sc);
    }
    sent_symbols_check(sc->symbols, sc->kernel);
    look(sc);
    sent_symbols_send_held(sc->symbols, sc->kernel);
    if (kernel_watch_doubts(&sc->watch)) {
        send_ended(sc);
    }
}

static gpointer scanner_thread(gpointer opaque)
{
    struct scanner *sc = opaque;
    bool more = true;

    while (more) {
        uint64_t begin = clock_ns();
        uint64_t took = clock_cpu_ns();

        if (take_memory(sc)) {
            sc->next_whole = 0;
        }
        if (!sc->kernel && !find_kernel(sc)) {
            took = clock_cpu_ns() - took;
            scan_plan_charge(&sc->plan, took);
            scan_plan_none_found(&sc->plan, begin, took);
            more = wait_for_work(sc);
            continue;
        }
        begin = clock_ns();
        work(sc);
        scan_plan_pace(&sc->plan, begin, clock_cpu_ns() - took);
        more = wait_for_work(sc);
        if (has_moved(sc)) {
            wait_for_end(sc);
            return NULL;
        }
        if (sc->empty == EMPTY_SNAPSHOTS) {
            if (sc->watch.reported) {
                send_ended(sc);
            }
            sc->ended = sc->watch.reported;
            forget_kernel(sc);
            send_tasks(sc);
        }
    }
    end(sc);
    return NULL;
}

/* Starts a scanner, of whose struct the caller has set what is of it alone. */
static struct scanner *start(const struct scanner *with,
                             const struct guest_memory_files *files,
                             bool wait_for_scan, struct cpu_limit *limit)
{
    struct scanner *sc = g_memdup2(with, sizeof(*with));

    btrail_budget_ref(sc->out.kept);
    g_mutex_init(&sc->lock);
    scan_plan_init(&sc->plan, wait_for_scan, limit, sc->numbers);
    scan_memory_init(&sc->memory, files, sc->out.nested);
    kernel_watch_begin(&sc->watch, clock_ns());
    sc->processes = known_processes_new(sc->out.kept);
    sc->code = known_code_new(sc->out.kept, wait_for_scan);
    sc->files = sent_files_new(&sc->out);
    sc->symbols = sent_symbols_new(&sc->out, sc->numbers,
                                   sc->own ? sc : NULL);
    sc->thread = g_thread_new("scanner", scanner_thread, sc);
    return sc;
}

struct scanner *
scanner_new(const struct guest_memory_files *files, bool wait_for_scan,
            struct cpu_limit *limit, struct btrail_budget *kept,
            const struct scanner_ops *ops, void *opaque)
{
    const struct scanner with = {
        .out = { .ops = ops, .opaque = opaque, .kept = kept },
        .numbers = kernel_numbers_new(),
    };

    return start(&with, files, wait_for_scan, limit);
}

struct scanner *
scanner_new_nested(struct scanner *own,
                   const struct guest_memory_files *files,
                   uint64_t root, uint64_t cr3)
{
    struct scanner with = {
        .out = own->out, .numbers = kernel_numbers_ref(own->numbers),
        .own = own, .stranger = btrail_cr3_root(cr3),
    };

    with.out.nested = root;
    return start(&with, files, own->plan.wait_for_scan, own->plan.limit);
}

bool scanner_is_over(const struct scanner *sc)
{
    return __atomic_load_n(&sc->over, __ATOMIC_RELAXED);
}

void scanner_memory(struct scanner *sc,
                    const struct guest_memory_files *files)
{
    scan_memory_change(&sc->memory, files);
    scanner_request(sc);
}

void scanner_resend(struct scanner *sc)
{
    __atomic_store_n(&sc->resend, true, __ATOMIC_RELEASE);
    scanner_request(sc);
}

void scanner_status(struct scanner *sc,
                    struct scanner_result *result)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&sc->lock);

    *result = sc->result;
    result->release = g_strdup(sc->result.release);
    result->why = g_strdup(sc->result.why);
    result->missing = g_strdupv(sc->result.missing);
    result->kernels = kernel_numbers_list(sc->numbers);
}

void scanner_finish(struct scanner *sc,
                    struct scanner_result *result)
{
    scan_plan_close(&sc->plan);
    g_thread_join(sc->thread);

    *result = sc->result;
    result->kernels = kernel_numbers_list(sc->numbers);
    kernel_numbers_leave(sc->numbers, sc);
    kernel_numbers_unref(sc->numbers);
    linux_kernel_free(sc->kernel);
    scan_memory_clear(&sc->memory);
    known_processes_free(sc->processes);
    known_code_free(sc->code);
    sent_files_free(sc->files);
    sent_symbols_free(sc->symbols);
    scan_output_drop(&sc->out, &sc->sent_ended);
    btrail_budget_unref(sc->out.kept);
    scan_plan_clear(&sc->plan);
    g_mutex_clear(&sc->lock);
    g_free(sc);
}

void scanner_result_clear(struct scanner_result *result)
{
    g_free(result->release);
    g_free(result->why);
    g_strfreev(result->missing);
    g_strfreev(result->kernels);
    memset(result, 0, sizeof(*result));
}
