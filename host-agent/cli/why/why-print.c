/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail why, as a text of a screen
 */

#include <inttypes.h>
#include <string.h>

#include "cli/latency-table.h"
#include "cli/why/why.h"
#include "util/hash.h"
#include "util/search.h"

#define COLUMNS     100

/* What is printed of each list */
#define FUNCTIONS   5
#define USERS       3
#define WAITS       4
#define WAKERS      2
#define PATH        14

/* A wait is said to be no ordinary one if it is so many times as long. */
#define LONGER      4

/* Of what is more about a wait */
#define INDENT      "                 "

/* Tasks, and what they do, of the whole path */
#define SUMS        4

/* Parts of the path that are at least one of so many are printed. */
#define SHARE       200

static void put_task(GString *s, const struct btrail_task *task)
{
    if (!task->known) {
        g_string_append(s, "[unknown]");
    } else if (!task->tid) {
        g_string_append(s, "[idle]");
    } else if (task->tid == task->pid) {
        g_string_append_printf(s, "%s %u", task->name, task->pid);
    } else {
        g_string_append_printf(s, "%s %u/%u", task->name, task->pid,
                               task->tid);
    }
}

static char *task_text(const struct btrail_task *task)
{
    GString *s = g_string_new(NULL);

    put_task(s, task);
    return g_string_free(s, FALSE);
}

/* As many as there is room for in a line */
static void put_functions(GString *s, const GArray *functions, unsigned most,
                          size_t columns)
{
    char buf[WHY_NAME], ns[LATENCY_SIZE];

    for (guint i = 0; functions && i < MIN(functions->len, most); i++) {
        const struct hot_function *f = &g_array_index(
            functions, struct hot_function, i);

        const char *name = why_name(f->function, buf);

        if (i && s->len + strlen(name) + 10 > columns) {
            break;
        }
        if (f->ns) {
            g_string_append_printf(s, "%s%s %s", i ? ", " : "", name,
                                   latency_text(f->ns, ns));
        }
    }
}

static void put_users(GString *s, const GArray *users)
{
    char ns[LATENCY_SIZE];

    for (guint i = 0; users && i < MIN(users->len, USERS); i++) {
        const struct waiting_user *u = &g_array_index(
            users, struct waiting_user, i);

        g_string_append(s, i ? ", " : "");
        put_task(s, &u->task);
        g_string_append_printf(s, " %s", latency_text(u->ns, ns));
    }
}

/* How a task leaves its vCPU, and how others are woken, is always the same. */
static bool is_noise(const struct function *f)
{
    static const char *const names[] = {
        "__switch_to_asm", "__switch_to", "context_switch", "__schedule",
        "schedule", "preempt_schedule_common", "__cond_resched",
        "try_to_wake_up", "ttwu_queue_wakelist", "ttwu_do_activate",
        "default_wake_function", "autoremove_wake_function", "__wake_up",
        "__wake_up_common", "__wake_up_common_lock", "wake_up_process",
        "__wake_up_sync_key", "wake_up_q", "schedule_preempt_disabled",
        "finish_task_switch.isra.0", "x64_sys_call", "do_syscall_64",
        "entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64",
        "do_syscall_x64", "syscall_exit_to_user_mode",
        "activate_task", "enqueue_task", "enqueue_task_fair", "swake_up_locked",
        "schedule_timeout", "ret_from_fork", "ret_from_fork_asm", NULL,
    };

    return f->known && f->module->kernel && g_strv_contains(names, f->symbol);
}

/*
 * Adds " in " or the like and the functions of a stack in the kernel, or in the
 * program, to a line: the one that was called last first, and as many as there
 * is room for.  False if there are none.
 */
static bool put_stack(GString *s, const char *before, const GPtrArray *stack,
                      bool kernel)
{
    char buf[WHY_NAME];
    bool any = false;

    for (guint i = 0; stack && i < stack->len; i++) {
        const struct function *f = stack->pdata[i];
        const char *name = why_name(f, buf);

        if (f->module->kernel != kernel || is_noise(f)) {
            continue;
        }
        if (any && s->len + strlen(name) + 9 > COLUMNS) {
            g_string_append(s, " < ...");
            break;
        }
        g_string_append_printf(s, "%s%s", any ? " < " : before, name);
        any = true;
    }
    return any;
}

static void put_waker(GString *s, const struct waiting_waker *w)
{
    if (!w->known) {
        g_string_append(s, "[unknown]");
    } else if (w->interrupt) {
        g_string_append_printf(s, "interrupt %s", w->interrupt);
    } else {
        put_task(s, &w->task);
    }
}

static unsigned percent(uint64_t ns, uint64_t all)
{
    return all ? (unsigned)(100.0 * ns / all + 0.5) : 0;
}

/* A line, cut at the last column */
static void print_line(GString *s)
{
    if (s->len > COLUMNS) {
        size_t end = COLUMNS - 3;

        /* Where a character begins */
        while (end && (s->str[end] & 0xc0) == 0x80) {
            end--;
        }
        g_string_truncate(s, end);
        g_string_append(s, "...");
    }
    cli_printf("%s\n", s->str);
    g_string_free(s, TRUE);
}

static void print_sum(const struct waiting_span *w, const char *name,
                      uint64_t ns, const char *more)
{
    char buf[LATENCY_SIZE];
    GString *s = g_string_new(NULL);

    if (ns || *more) {
        g_string_printf(s, "  %-9s %8s %3u%%%s%s", name, latency_text(ns, buf),
                        percent(ns, w->elapsed), *more ? "  " : "", more);
        print_line(s);
    } else {
        g_string_free(s, TRUE);
    }
}

#define UNKNOWN_TEXT    64

/* Why something is unknown, if that has one reason; @buf is for some */
static const char *unknown_text(const struct why *why,
                                const struct waiting_span *w,
                                char buf[UNKNOWN_TEXT])
{
    char ns[LATENCY_SIZE];

    if (w->unknown && why->named > w->begin.time) {
        g_snprintf(buf, UNKNOWN_TEXT, "of that, %s before tasks are named",
                   latency_text(why->named - w->begin.time, ns));
        return buf;
    }
    return !w->unknown ? "" :
           !analysis_tells_off_cpu(&why->in) ?
           "only some vCPUs or processes were recorded" :
           w->late ? "of a time in which too much happens" :
           !w->wakes ? "the trace does not say who wakes whom" : "";
}

static void print_sums(const struct why *why, const struct waiting_span *w)
{
    GString *functions = g_string_new(NULL), *users = g_string_new(NULL);
    char unknown[UNKNOWN_TEXT];
    uint64_t times = w->others;

    put_functions(functions, w->functions, FUNCTIONS, COLUMNS - 26);
    if (w->sampled) {
        g_string_append(functions, " (sampled)");
    }
    if (w->instead->len) {
        g_string_append(users, "while these ran: ");
        put_users(users, w->instead);
    }
    for (guint i = 0; i < w->waits->len; i++) {
        times += g_array_index(w->waits, struct waiting_wait, i).times;
    }
    print_sum(w, "on CPU", w->on_cpu, functions->str);
    print_sum(w, "runnable", w->runnable, users->str);
    g_string_printf(users, "%" PRIu64 " wait%s", times, times == 1 ? "" : "s");
    print_sum(w, "blocked", w->blocked, w->blocked ? users->str : "");
    print_sum(w, "paused", w->paused, w->paused ? "by the tracer, or stopped" :
              "");
    print_sum(w, "unknown", w->unknown,
              unknown_text(why, w, unknown));
    g_string_free(functions, TRUE);
    g_string_free(users, TRUE);
}

static void print_wait(const struct why *why, const struct waiting_span *w,
                       const struct waiting_wait *wait)
{
    char buf[LATENCY_SIZE];
    GString *s = g_string_new(NULL);
    uint64_t ordinary;

    g_string_printf(s, "  %8s %3u%%  %s", latency_text(wait->ns, buf),
                    percent(wait->ns, w->elapsed),
                    waiting_state_name(wait->state));
    if (wait->times > 1) {
        g_string_append_printf(s, " %" PRIu64 " times", wait->times);
    }
    put_stack(s, " in ", wait->stack, true);
    print_line(s);
    s = g_string_new(INDENT);
    if (put_stack(s, "called by ", wait->stack, false)) {
        print_line(s);
    } else {
        g_string_free(s, TRUE);
    }
    for (guint i = 0; i < MIN(wait->wakers->len, WAKERS); i++) {
        const struct waiting_waker *waker = &g_array_index(
            wait->wakers, struct waiting_waker, i);

        s = g_string_new(INDENT "woken by ");
        put_waker(s, waker);
        put_stack(s, ": ", waker->interrupt ? NULL : waker->stack, true);
        print_line(s);
    }
    if (wait->wakers->len > WAKERS) {
        cli_printf(INDENT "and by %u more\n", wait->wakers->len - WAKERS);
    }
    if (why_ordinary_wait(why, wait, &ordinary) &&
        wait->ns / LONGER >= ordinary) {
        cli_printf(INDENT "of the others: %s\n", ordinary ?
                   latency_text(ordinary, buf) : "no such wait");
    }
}

static void print_waits(const struct why *why, const struct waiting_span *w)
{
    char buf[LATENCY_SIZE];
    uint64_t more = w->others, more_ns = w->others_ns;

    if (!w->waits->len && !w->others) {
        return;
    }
    cli_printf("\nWaits, the longest ones first\n");
    for (guint i = 0; i < w->waits->len; i++) {
        const struct waiting_wait *wait = &g_array_index(
            w->waits, struct waiting_wait, i);

        if (i < WAITS) {
            print_wait(why, w, wait);
        } else {
            more += wait->times;
            more_ns += wait->ns;
        }
    }
    if (more) {
        cli_printf("  %8s %3u%%  %" PRIu64 " more\n",
                   latency_text(more_ns, buf), percent(more_ns, w->elapsed),
                   more);
    }
}

/* What a part of the path says of its time */
static void put_part(GString *s, const struct waiting_part *p)
{
    enum waiting_state state = waiting_part_state(p);

    switch (state) {
    case WAITING_RUNNING:
        g_string_append(s, p->functions && p->functions->len ? "runs " :
                        "runs");
        put_functions(s, p->functions, USERS, COLUMNS);
        break;
    case WAITING_RUNNABLE:
        g_string_append(s, "runnable, while these ran: ");
        put_users(s, p->instead);
        break;
    case WAITING_INTERRUPT:
        g_string_append_printf(s, "until interrupt %s", p->waker.interrupt);
        put_stack(s, ", in ", p->stack, true);
        break;
    case WAITING_BLOCKED:
        g_string_append(s, "blocked");
        put_stack(s, " in ", p->stack, true);
        break;
    default:
        g_string_append(s, waiting_state_name(state));
    }
}

static void print_part(const struct why *why, const struct waiting_span *w,
                       const struct waiting_part *p)
{
    char time[CLI_TIME_SIZE], buf[LATENCY_SIZE];
    g_autofree char *task = p->task.known || p->state != WAITING_RUNNING ?
                            task_text(&p->task) : g_strdup("[before tasks]");
    GString *s = g_string_new(NULL);

    g_string_printf(s, "  %14s %8s %3u%%  %-18s ",
                    cli_format_time(&why->in.trace, p->begin, time),
                    latency_text(p->ns, buf),
                    percent(p->ns, w->elapsed), task);
    put_part(s, p);
    print_line(s);
}

static gint by_length(gconstpointer a, gconstpointer b)
{
    const struct waiting_part *x = *(const struct waiting_part *const *)a;
    const struct waiting_part *y = *(const struct waiting_part *const *)b;

    return BTRAIL_COMPARE(y->ns, x->ns) ?:
           BTRAIL_COMPARE(x, y);
}

static gint in_order(gconstpointer a, gconstpointer b)
{
    const struct waiting_part *x = *(const struct waiting_part *const *)a;
    const struct waiting_part *y = *(const struct waiting_part *const *)b;

    return BTRAIL_COMPARE(x, y);
}

/* What a task does in a path, in all its parts */
struct path_sum {
    const struct waiting_part *part;
    uint64_t ns;
};

static gint by_sum(gconstpointer a, gconstpointer b)
{
    const struct path_sum *x = a, *y = b;

    return BTRAIL_COMPARE(y->ns, x->ns) ?: BTRAIL_COMPARE(x->part, y->part);
}

/* Who was the reason of most of the time, with all that is short, too */
static void print_path_sums(const struct waiting_span *w)
{
    g_autoptr(GHashTable) table = g_hash_table_new_full(
        btrail_pair_hash, btrail_pair_equal, g_free, NULL);
    g_autoptr(GArray) sums = g_array_new(FALSE, FALSE, sizeof(struct path_sum));
    char buf[LATENCY_SIZE];
    uint64_t paused = 0;
    GString *s;

    for (guint i = 0; i < w->path->len; i++) {
        const struct waiting_part *p = &g_array_index(
            w->path, struct waiting_part, i);
        const struct path_sum sum = { p };
        const uint64_t key[2] = {
            (uint64_t)p->task.pid << 32 | p->task.tid,
            (uint64_t)p->state << 1 | p->task.known,
        };
        gpointer number;

        if (!g_hash_table_lookup_extended(table, key, NULL, &number)) {
            number = GUINT_TO_POINTER(sums->len);
            g_hash_table_insert(table, g_memdup2(key, sizeof(key)), number);
            g_array_append_val(sums, sum);
        }
        g_array_index(sums, struct path_sum, GPOINTER_TO_UINT(number)).ns +=
            p->ns - p->paused;
        paused += p->paused;
    }
    g_array_sort(sums, by_sum);
    cli_printf("\nThe same, summed up\n");
    for (guint i = 0; i < MIN(sums->len, SUMS); i++) {
        const struct path_sum *sum = &g_array_index(sums, struct path_sum, i);

        s = g_string_new(NULL);
        g_string_printf(s, "  %8s %3u%%  %-9s  ", latency_text(sum->ns, buf),
                        percent(sum->ns, w->elapsed),
                        waiting_state_name(sum->part->state));
        put_task(s, &sum->part->task);
        print_line(s);
    }
    if (paused) {
        cli_printf("  %8s %3u%%  %s\n", latency_text(paused, buf),
                   percent(paused, w->elapsed),
                   waiting_state_name(WAITING_PAUSED));
    }
}

static void print_path(const struct why *why, const struct waiting_span *w)
{
    g_autoptr(GPtrArray) parts = g_ptr_array_new();
    uint64_t rest = w->elapsed;
    char buf[LATENCY_SIZE];
    guint n = 0;

    for (guint i = 0; i < w->path->len; i++) {
        g_ptr_array_add(parts, &g_array_index(w->path, struct waiting_part, i));
    }
    g_ptr_array_sort(parts, by_length);
    while (n < MIN(parts->len, PATH)) {
        const struct waiting_part *p = parts->pdata[n];

        if (p->ns < w->elapsed / SHARE) {
            break;
        }
        rest -= p->ns;
        n++;
    }
    g_ptr_array_set_size(parts, n);
    g_ptr_array_sort(parts, in_order);
    cli_printf("\nCritical path: who was the reason, from begin to end\n");
    for (guint i = 0; i < n; i++) {
        print_part(why, w, parts->pdata[i]);
    }
    if (w->path->len > n) {
        cli_printf("  %14s %8s %3u%%  %u shorter ones\n", "",
                   latency_text(rest, buf), percent(rest, w->elapsed),
                   w->path->len - n);
    }
}

static void print_ordinary(const struct why *why)
{
    const struct why_ordinary *o = &why->ordinary;
    char buf[LATENCY_SIZE];

    if (!o->n) {
        return;
    }
    cli_printf("\nOf %" PRIu64 " others, the median", o->all);
    if (o->n < o->all) {
        cli_printf(" of %" PRIu64 " of them", o->n);
    }
    if (why->left_out) {
        cli_printf(", and of none of the %" PRIu64 " shorter ones that are "
                   "more than can be kept", why->left_out);
    }
    for (unsigned c = 0; c < WHY_COMPONENTS; c++) {
        if (o->medians[c]) {
            cli_printf("%s %s %s", c ? "," : ":", c == WHY_ON_CPU ? "on CPU" :
                       why_component_name(c), latency_text(o->medians[c], buf));
        }
    }
    cli_printf("\n");
}

/* How long a span of a recording is for the guest */
static void print_instructions(const struct why *why,
                               const struct waiting_span *w)
{
    uint64_t begin = why_icount(why, &w->begin), end = why_icount(why, &w->end);

    if (begin != BTRAIL_NO_ICOUNT && end != BTRAIL_NO_ICOUNT && begin <= end) {
        cli_printf("  the guest executed %" PRIu64 " instructions, on all "
                   "vCPUs\n", end - begin);
    }
}

/* The same in the guest's own time, as far as the clocks of the trace say it */
static void print_guest_time(const struct why *why,
                             const struct waiting_span *w)
{
    char least[LATENCY_SIZE], most[LATENCY_SIZE];
    struct why_guest_time begin, end;

    if (!why_guest_time(why, &w->begin, &begin) ||
        !why_guest_time(why, &w->end, &end) || end.to < begin.from) {
        return;
    }
    latency_text(end.from - MIN(begin.to, end.from), least);
    latency_text(end.to - begin.from, most);
    if (end.to == UINT64_MAX) {
        cli_printf("  in its own time, this took %s or more\n", least);
    } else if (strcmp(least, most)) {
        cli_printf("  in its own time, this took from %s to %s\n", least,
                   most);
    } else {
        cli_printf("  in its own time, this took %s\n", least);
    }
}

static void print_span(const struct why *why, const struct waiting_span *w)
{
    char begin[CLI_TIME_SIZE], end[CLI_TIME_SIZE], buf[LATENCY_SIZE];
    g_autofree char *task = task_text(&w->task);

    cli_printf("%s, from %s to %s: %s\n", task,
               cli_format_time(&why->in.trace, w->begin.time, begin),
               cli_format_time(&why->in.trace, w->end.time, end),
               latency_text(w->elapsed, buf));
    if (why_is_replay(why)) {
        print_instructions(why, w);
        print_guest_time(why, w);
    }
    print_sums(why, w);
    print_waits(why, w);
    print_path(why, w);
    print_path_sums(w);
}

void why_print_text(const struct why *why)
{
    if (why_is_replay(why)) {
        cli_printf(why->clock ?
                   "# When is by the clock of the host that has replayed it; "
                   "how long is in the guest's time\n" :
                   "# Times are those of the replay, by its host's clock, and "
                   "not the guest's\n");
    }
    for (guint i = 0; i < why->slow->len; i++) {
        if (i) {
            cli_printf("\n");
        }
        print_span(why, &g_array_index(why->slow, struct waiting_span, i));
    }
    print_ordinary(why);
}
