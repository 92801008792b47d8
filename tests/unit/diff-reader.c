/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/diff-reader.h: traces of a few records, which say of each
 * one whether it is read; and traces of anything
 */
#include <glib.h>
#include <string.h>

#include "analyze/diff-reader.h"
#include "scratch.h"
#include "toy-code.h"

#define FIRMWARE    UINT64_C(0x80000)

/* Code that was not captured, and the file that is mapped at some of it */
#define ELSEWHERE   UINT64_C(0xc00000)
#define MAPPED      "c00000-c01000 r-xp 00000000 00:00 0 /bin/program\n"

enum function_number {
    ENTRY, WORK, SYNC, DEAD, INTERRUPT, FAULT, TRAP,
    MAIN, LEAF, SIGNAL,
    SERVICE, TIMER, N_FUNCTIONS,
};

static const char *const function_names[N_FUNCTIONS] = {
    "entry_SYSCALL_64", "work", "sync_core", "do_task_dead",
    "asm_sysvec_apic_timer_interrupt", "asm_exc_page_fault",
    "asm_exc_divide_error", "main", "leaf", "on_signal",
    /* Nobody knows those of the firmware. */
};

/* In a function */
enum { SOMEWHERE = 0x80 };

/* Where the page of a function begins, and its number there */
#define PAGE(f) \
    ((f) < MAIN ? TOY_KERNEL : (f) < SERVICE ? TOY_USER : FIRMWARE)
#define NUMBER(f)   ((f) - ((f) < MAIN ? 0 : (f) < SERVICE ? MAIN : SERVICE))
#define AT(f, offset)       (PAGE(f) + TOY_PITCH * NUMBER(f) + (offset))
#define CALL_SITE(f, g)     (PAGE(f) + TOY_CALL_SITE(NUMBER(f), NUMBER(g)))

/* The addresses of a record */
#define CALL(f, g)          CALL_SITE(f, g), AT(g, 0)
#define RET(g, f)           AT(g, TOY_RETURN), CALL_SITE(f, g) + 5
#define SYSCALL(f)          AT(f, TOY_SPECIAL), AT(ENTRY, 0)
#define SYSRET(f)           AT(ENTRY, TOY_SPECIAL), AT(f, TOY_SPECIAL) + 2
#define HIT(f, handler)     AT(f, SOMEWHERE), AT(handler, 0)
#define BACK(handler, f)    AT(handler, TOY_SPECIAL), AT(f, SOMEWHERE)

enum { VCPUS = 3, MOST_ROWS = 32, GAP_RECORDS = 50 };

/* The time of a row that has no clock */
#define NO_CLOCK    UINT64_MAX

enum task_number {
    A = 1, THREAD, B, KTHREAD, IDLE0, IDLE1, EXEC, NOBODY, OTHER, N_TASKS,
};

/* Those with the same number are the same task. */
static const struct {
    const char *name;           /* NULL: no event names it */
    uint32_t pid;
    uint32_t tid;
    bool kernel;
    uint64_t cr3;
} tasks[N_TASKS] = {
    [A] = { "a", 10, 10, false, 0x1000 },
    [THREAD] = { "t", 10, 11, false, 0x1000 },
    [B] = { "b", 20, 20, false, 0x2000 },
    [KTHREAD] = { "kthreadd", 2, 2, true, 0x1000 },
    [IDLE0] = { "swapper/0", 0, 0, true, 0x2000 },
    [IDLE1] = { "swapper/1", 0, 0, true, 0x2000 },
    [EXEC] = { "c", 10, 10, false, 0x3000 },
    [NOBODY] = { .cr3 = 0x4000 },
    [OTHER] = { .cr3 = 0x5000 },
};

/**
 * enum fate - of a record
 * @KEPT: it is in the sequence of its task
 * @LEFT: it is left out
 * @LOST: no record: here, some are missing
 * @SWITCH: no record: the vCPU runs this task from here on
 */
enum fate { KEPT, LEFT, LOST, SWITCH };

/**
 * struct row
 * @task: 0: there are no more rows
 * @time: in microseconds; 0: later than all before
 */
struct row {
    unsigned vcpu;
    enum task_number task;
    uint64_t from;
    uint64_t to;
    enum fate fate;
    uint64_t time;
};

/**
 * struct scene
 * @named: the symbols of the kernel are needed
 * @ends:  this task ends; 0: none
 */
struct scene {
    const char *name;
    bool named;
    enum task_number ends;
    struct row rows[MOST_ROWS];
};

static const struct scene scenes[] = {
    { "interrupts", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, A, HIT(LEAF, INTERRUPT), LEFT },
        { 0, A, CALL(INTERRUPT, WORK), LEFT },
        { 0, A, HIT(WORK, INTERRUPT), LEFT },
        { 0, A, BACK(INTERRUPT, WORK), LEFT },
        { 0, A, RET(WORK, INTERRUPT), LEFT },
        { 0, A, BACK(INTERRUPT, LEAF), LEFT },
        { 0, A, RET(LEAF, MAIN), KEPT },
        { 0, A, SYSCALL(MAIN), KEPT },
        { 0, A, CALL(ENTRY, WORK), KEPT },
        { 0, A, HIT(WORK, INTERRUPT), LEFT },
        { 0, A, CALL(INTERRUPT, WORK), LEFT },
        { 0, A, RET(WORK, INTERRUPT), LEFT },
        { 0, A, BACK(INTERRUPT, WORK), LEFT },
        { 0, A, RET(WORK, ENTRY), KEPT },
        { 0, A, SYSRET(MAIN), KEPT },
    } },
    { "page faults", .rows = {
        { 0, A, HIT(MAIN, FAULT), LEFT },
        { 0, A, CALL(FAULT, WORK), LEFT },
        { 0, A, RET(WORK, FAULT), LEFT },
        { 0, A, BACK(FAULT, MAIN), LEFT },
        { 0, A, SYSCALL(MAIN), KEPT },
        { 0, A, CALL(ENTRY, WORK), KEPT },
        { 0, A, HIT(WORK, FAULT), LEFT },
        /* It was wrong: the kernel continues elsewhere. */
        { 0, A, BACK(FAULT, ENTRY), LEFT },
        { 0, A, CALL(ENTRY, WORK), KEPT },
    } },
    /* The kernel returns from no interrupt to serialize what it executes. */
    { "serialize", .rows = {
        { 0, A, SYSCALL(MAIN), KEPT },
        { 0, A, CALL(ENTRY, SYNC), KEPT },
        { 0, A, AT(SYNC, TOY_SPECIAL), AT(SYNC, TOY_SPECIAL) + 2, KEPT },
        { 0, A, HIT(SYNC, INTERRUPT), LEFT },
        { 0, A, CALL(INTERRUPT, SYNC), LEFT },
        { 0, A, AT(SYNC, TOY_SPECIAL), AT(SYNC, TOY_SPECIAL) + 2, LEFT },
        { 0, A, RET(SYNC, INTERRUPT), LEFT },
        { 0, A, BACK(INTERRUPT, SYNC), LEFT },
        { 0, A, RET(SYNC, ENTRY), KEPT },
    } },
    /* A handler, interrupted and entered again, returns to itself. */
    { "nested", .rows = {
        { 0, A, HIT(MAIN, INTERRUPT), LEFT },
        { 0, A, HIT(INTERRUPT, INTERRUPT), LEFT },
        { 0, A, BACK(INTERRUPT, INTERRUPT), LEFT },
        { 0, A, CALL(INTERRUPT, WORK), LEFT },
        { 0, A, BACK(INTERRUPT, MAIN), LEFT },
        { 0, A, SYSCALL(MAIN), KEPT },
        { 0, A, HIT(ENTRY, INTERRUPT), LEFT },
        { 0, A, HIT(INTERRUPT, INTERRUPT), LEFT },
        { 0, A, BACK(INTERRUPT, INTERRUPT), LEFT },
        { 0, A, BACK(INTERRUPT, ENTRY), LEFT },
        { 0, A, CALL(ENTRY, WORK), KEPT },
    } },
    { "exceptions", true, .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, A, HIT(LEAF, TRAP), KEPT },
        { 0, A, CALL(TRAP, WORK), LEFT },
        { 0, A, RET(WORK, TRAP), LEFT },
        { 0, A, AT(TRAP, TOY_SPECIAL), AT(SIGNAL, 0), KEPT },
        { 0, A, SYSCALL(SIGNAL), KEPT },
        { 0, A, AT(ENTRY, TOY_SPECIAL), AT(LEAF, SOMEWHERE), KEPT },
        { 0, A, SYSCALL(MAIN), KEPT },
        { 0, A, HIT(ENTRY, TRAP), KEPT },
        { 0, A, CALL(TRAP, WORK), LEFT },
        { 0, A, BACK(TRAP, ENTRY), LEFT },
        { 0, A, SYSRET(MAIN), KEPT },
    } },
    { "a signal after an interrupt", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, A, HIT(LEAF, INTERRUPT), LEFT },
        { 0, A, CALL(INTERRUPT, WORK), LEFT },
        { 0, A, AT(INTERRUPT, TOY_SPECIAL), AT(SIGNAL, 0), KEPT },
        { 0, A, SYSCALL(SIGNAL), KEPT },
    } },
    { "an exit", true, A, {
        { 0, A, HIT(MAIN, INTERRUPT), LEFT },
        { 0, A, BACK(INTERRUPT, MAIN), LEFT },
        { 0, A, SYSCALL(MAIN), KEPT },
        { 0, A, CALL(ENTRY, WORK), KEPT },
        { 0, A, CALL(WORK, DEAD), KEPT },
        { 0, B, CALL(MAIN, LEAF), KEPT },
    } },
    { "killed by a page fault", true, A, {
        { 0, B, CALL(MAIN, LEAF), KEPT },
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, A, HIT(LEAF, FAULT), KEPT },
        { 0, A, CALL(FAULT, WORK), LEFT },
        { 0, A, HIT(WORK, INTERRUPT), LEFT },
        { 0, A, BACK(INTERRUPT, WORK), LEFT },
        { 0, A, CALL(WORK, DEAD), LEFT },
        { 0, A, CALL(DEAD, WORK), LEFT },
        { 0, A, CALL(WORK, DEAD), LEFT },
    } },
    { "killed by an exception", true, A, {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, A, HIT(LEAF, TRAP), KEPT },
        { 0, A, CALL(TRAP, WORK), LEFT },
        { 0, A, CALL(WORK, DEAD), LEFT },
    } },
    { "moved in an interrupt", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, A, HIT(LEAF, INTERRUPT), LEFT },
        { 0, A, CALL(INTERRUPT, WORK), LEFT },
        { 0, B, CALL(MAIN, LEAF), KEPT },
        { 0, IDLE0, CALL(WORK, WORK), KEPT },
        { 1, A, RET(WORK, INTERRUPT), LEFT },
        { 1, A, BACK(INTERRUPT, LEAF), LEFT },
        { 1, A, RET(LEAF, MAIN), KEPT },
        { 2, B, RET(LEAF, MAIN), KEPT },
        { 1, IDLE1, CALL(WORK, WORK), KEPT },
        { 0, A, CALL(MAIN, LEAF), KEPT },
    } },
    { "tasks and address spaces", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 1, THREAD, CALL(MAIN, LEAF), KEPT },
        { 2, B, CALL(MAIN, LEAF), KEPT },
        { 0, KTHREAD, CALL(WORK, WORK), KEPT },
        { 0, NOBODY, CALL(MAIN, LEAF), KEPT },
        { 1, OTHER, CALL(MAIN, LEAF), KEPT },
        { 1, NOBODY, RET(LEAF, MAIN), KEPT },
        { 0, NOBODY, RET(LEAF, MAIN), KEPT },
        { 0, KTHREAD, RET(WORK, WORK), KEPT },
        { 1, EXEC, RET(LEAF, MAIN), KEPT },
    } },
    { "gaps", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, A, HIT(LEAF, INTERRUPT), LEFT },
        { 1, B, CALL(MAIN, LEAF), KEPT },
        { 0, A, .fate = LOST },
        { 0, A, CALL(ENTRY, WORK), KEPT },
        { 0, THREAD, CALL(MAIN, LEAF), KEPT },
        { 1, B, .fate = LOST },
        { 1, B, .fate = LOST },
        { 1, B, RET(LEAF, MAIN), KEPT },
        { 0, A, HIT(WORK, INTERRUPT), LEFT },
        { 0, A, BACK(INTERRUPT, WORK), LEFT },
        { 0, A, RET(WORK, ENTRY), KEPT },
        { 2, A, .fate = LOST },
    } },
    { "a switch in a gap", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, A, .fate = LOST },
        { 1, A, RET(LEAF, MAIN), KEPT },
        { 1, B, CALL(MAIN, LEAF), KEPT },
        { 0, A, CALL(MAIN, LEAF), KEPT },
    } },
    { "a switch to a task without records", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, IDLE0, .fate = SWITCH },
        { 1, A, RET(LEAF, MAIN), KEPT },
        { 1, NOBODY, .fate = SWITCH },
        { 0, A, CALL(MAIN, LEAF), KEPT },
    } },
    { "a return that is missing", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, A, HIT(LEAF, INTERRUPT), LEFT },
        { 0, A, RET(LEAF, MAIN), KEPT },
        { 0, A, SYSCALL(MAIN), KEPT },
        { 0, A, CALL(ENTRY, WORK), KEPT },
    } },
    /* By the clock, vCPUs 1 and 2 run the task too early, and too long to have
     * had it before. */
    { "coarse clocks", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT, 1000 },
        { 0, A, RET(LEAF, MAIN), KEPT, 9000 },
        { 1, A, SYSCALL(MAIN), KEPT, 5000 },
        { 1, A, HIT(ENTRY, INTERRUPT), LEFT, 5500 },
        { 1, B, CALL(MAIN, LEAF), KEPT, 9500 },
        { 2, A, BACK(INTERRUPT, ENTRY), LEFT, 7000 },
        { 2, A, CALL(ENTRY, WORK), KEPT, 8000 },
        { 0, B, RET(LEAF, MAIN), KEPT, 10000 },
        { 2, A, RET(WORK, ENTRY), KEPT, 11000 },
        { 2, IDLE1, CALL(WORK, WORK), KEPT, 12000 },
        { 0, A, SYSRET(MAIN), KEPT, 13000 },
    } },
    { "a vCPU that does not leave a task", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT, 1000 },
        { 1, A, RET(LEAF, MAIN), KEPT, 2000 },
        { 1, A, CALL(MAIN, LEAF), KEPT, 3000 },
    } },
    /* The code of a firmware has no names, and handles interrupts itself. */
    { "a firmware", .rows = {
        { 0, NOBODY, CALL(SERVICE, SERVICE), KEPT },
        { 0, NOBODY, HIT(SERVICE, TIMER), LEFT },
        { 0, NOBODY, CALL(TIMER, SERVICE), LEFT },
        { 0, NOBODY, RET(SERVICE, TIMER), LEFT },
        { 0, NOBODY, BACK(TIMER, SERVICE), LEFT },
        { 0, NOBODY, RET(SERVICE, SERVICE), KEPT },
    } },
    { "user mode only", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 0, A, AT(LEAF, SOMEWHERE), BTRAIL_PSEUDO_INTERRUPT, LEFT },
        { 0, A, BTRAIL_PSEUDO_FROM_KERNEL, AT(LEAF, SOMEWHERE), LEFT },
        { 0, A, AT(LEAF, SOMEWHERE), BTRAIL_PSEUDO_PAGE_FAULT, LEFT },
        { 0, A, BTRAIL_PSEUDO_FROM_KERNEL, AT(LEAF, SOMEWHERE), LEFT },
        { 0, A, AT(LEAF, TOY_SPECIAL), BTRAIL_PSEUDO_SYSCALL, KEPT },
        { 0, A, BTRAIL_PSEUDO_FROM_KERNEL, AT(LEAF, TOY_SPECIAL) + 2, KEPT },
        { 0, A, AT(LEAF, SOMEWHERE), BTRAIL_PSEUDO_EXCEPTION, KEPT },
        { 0, A, BTRAIL_PSEUDO_FROM_KERNEL, AT(SIGNAL, 0), KEPT },
        { 0, A, AT(SIGNAL, SOMEWHERE), BTRAIL_PSEUDO_TO_KERNEL, LEFT },
        { 0, A, BTRAIL_PSEUDO_FROM_KERNEL, AT(SIGNAL, SOMEWHERE), LEFT },
        { 0, A, CALL(SIGNAL, LEAF), KEPT },
        { 0, A, ELSEWHERE, BTRAIL_PSEUDO_PAGE_FAULT, LEFT },
        { 0, A, BTRAIL_PSEUDO_FROM_KERNEL, ELSEWHERE, LEFT },
        { 0, A, ELSEWHERE, BTRAIL_PSEUDO_INTERRUPT, LEFT },
        { 0, A, BTRAIL_PSEUDO_FROM_KERNEL, ELSEWHERE, LEFT },
        { 0, A, ELSEWHERE, BTRAIL_PSEUDO_TO_KERNEL, LEFT },
        { 0, A, BTRAIL_PSEUDO_FROM_KERNEL, ELSEWHERE, LEFT },
        { 0, A, ELSEWHERE, BTRAIL_PSEUDO_SYSCALL, KEPT },
    } },
    { "kernel only", true, .rows = {
        { 0, A, BTRAIL_PSEUDO_FROM_USER, AT(ENTRY, 0), KEPT },
        { 0, A, CALL(ENTRY, WORK), KEPT },
        { 0, A, RET(WORK, ENTRY), KEPT },
        { 0, A, AT(ENTRY, TOY_SPECIAL), BTRAIL_PSEUDO_TO_USER, KEPT },
        { 0, A, BTRAIL_PSEUDO_FROM_USER, AT(INTERRUPT, 0), LEFT },
        { 0, A, CALL(INTERRUPT, WORK), LEFT },
        { 0, A, RET(WORK, INTERRUPT), LEFT },
        { 0, A, AT(INTERRUPT, TOY_SPECIAL), BTRAIL_PSEUDO_TO_USER, LEFT },
        { 0, A, BTRAIL_PSEUDO_FROM_USER, AT(ENTRY, 0), KEPT },
    } },
};

static char *folder;

static bool has_record(const struct row *row)
{
    return row->fate == KEPT || row->fate == LEFT;
}

static void make_page(struct toy_page *p, unsigned first, unsigned end)
{
    *p = (struct toy_page) {
        .address = AT(first, 0), .n = end - first,
        .names = function_names + first,
    };
    toy_page_fill(p);
    for (unsigned f = first; f < end; f++) {
        memcpy(toy_page_at(p, f - first, TOY_SPECIAL),
               first == MAIN ? "\x0f\x05" :
               f == ENTRY ? "\x0f\x07" : "\x48\xcf", 2);
    }
}

static void write_code(struct btrail_writer *w)
{
    struct toy_page pages[3];
    uint64_t cr3[N_TASKS - 1];

    make_page(&pages[0], 0, MAIN);
    make_page(&pages[1], MAIN, SERVICE);
    make_page(&pages[2], SERVICE, N_FUNCTIONS);
    for (unsigned i = 0; i < N_TASKS - 1; i++) {
        cr3[i] = tasks[i + 1].cr3;
    }
    toy_pages_write(w, pages, 3, VCPUS, cr3, N_TASKS - 1);
}

/* Names of functions; those of the kernel only if @kernel */
static char *write_map(bool kernel)
{
    char *path = g_build_filename(folder, "t.map", NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    struct toy_page page;

    if (kernel) {
        make_page(&page, 0, MAIN);
        toy_page_names(&page, text);
    }
    make_page(&page, MAIN, SERVICE);
    for (unsigned k = 1; k < NOBODY; k++) {
        g_string_append_printf(text, "cr3 %" G_GINT64_MODIFIER "x\n%s",
                               tasks[k].cr3, MAPPED);
        toy_page_names(&page, text);
    }
    g_assert_true(g_file_set_contents(path, text->str, -1, NULL));
    return path;
}

static struct btrail_event task_event(enum task_number number)
{
    struct btrail_event e = {
        .type = BTRAIL_EVENT_TASK, .reason = BTRAIL_TASK_UNKNOWN,
    };

    if (tasks[number].name) {
        e.reason = tasks[number].kernel ? BTRAIL_TASK_KERNEL : 0;
        e.data[0] = (uint64_t)tasks[number].pid << 32 | tasks[number].tid;
        memcpy(&e.data[1], tasks[number].name, strlen(tasks[number].name));
    }
    return e;
}

/* Writes one row.  @index gets the index of its record; @before is the task
 * that the vCPU is known to run. */
static void write_row(struct btrail_writer *w, const struct row *row,
                      uint64_t time, uint64_t *index,
                      enum task_number *before)
{
    const struct btrail_record record = { row->from, row->to, 0 };
    struct btrail_event events[3] = {
        { .type = BTRAIL_EVENT_TIME, .data = { time, 0, BTRAIL_NO_ICOUNT } },
    };
    struct btrail_slab slab = {
        .cr3 = tasks[row->task].cr3, .records = &record,
        .n_records = has_record(row), .events = events,
        .n_events = row->time != NO_CLOCK,
    };

    if (*before != row->task) {
        events[slab.n_events++] = task_event(row->task);
        *before = row->task;
    }
    if (row->fate == LOST) {
        *index += GAP_RECORDS;
        events[slab.n_events++] = (struct btrail_event) {
            .type = BTRAIL_EVENT_GAP, .reason = BTRAIL_GAP_OVERFLOW,
            .data = { GAP_RECORDS },
        };
        *before = 0;
    }
    slab.first_index = *index;
    for (unsigned i = 0; i < slab.n_events; i++) {
        events[i].index = *index;
    }
    g_assert_cmpint(btrail_writer_append(w, row->vcpu, &slab), ==, 0);
}

/* Returns the index of each row's record, of uint64_t. */
static GArray *write_rows(const char *path, const struct row *rows, unsigned n)
{
    GArray *indices = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    enum task_number before[VCPUS] = { 0 };
    uint64_t next[VCPUS] = { 0 };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    write_code(w);
    for (unsigned i = 0; i < n; i++) {
        const struct row *row = &rows[i];

        write_row(w, row, 1000 * (row->time ? row->time : 1000 * (i + 1)),
                  &next[row->vcpu], &before[row->vcpu]);
        g_array_append_val(indices, next[row->vcpu]);
        next[row->vcpu] += has_record(row);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return indices;
}

/* An edge of a task */
struct item {
    uint32_t number;
    unsigned vcpu;
    uint64_t index;
};

/**
 * struct sample - a trace that was read
 * @items:  struct diff_task -> GArray of struct item
 * @skip:   this task is not chosen
 * @count:  edges are only counted
 * @max_held: as for the reader
 * @kernel: functions of the kernel have names
 */
struct sample {
    struct btrail_trace *trace;
    struct symbolizer *names;
    struct diff_tasks tasks;
    struct diff_edges *edges;
    struct diff_reader_result result;
    GHashTable *items;
    const char *skip;
    bool count;
    size_t max_held;
    bool kernel;
};

static bool is_chosen(void *opaque, const struct diff_task *task)
{
    const struct sample *s = opaque;

    return !s->skip || strcmp(task->comm, s->skip);
}

static bool is_wanted(void *opaque, const struct diff_task *task)
{
    return !((const struct sample *)opaque)->count;
}

static void take_block(void *opaque, struct diff_task *task,
                       struct diff_block *block)
{
    struct sample *s = opaque;
    GArray *items = g_hash_table_lookup(s->items, task);
    unsigned run = 0;

    if (!items) {
        items = g_array_new(FALSE, FALSE, sizeof(struct item));
        g_hash_table_insert(s->items, task, items);
    }
    g_assert_cmpuint(block->n, >, 0);
    g_assert_cmpuint(block->n, <=, DIFF_READER_BLOCK);
    g_assert_cmpuint(block->run[0].position, ==, 0);
    for (uint32_t i = 0; i < block->n; i++) {
        struct item item = { block->edges[i], 0, 0 };

        while (run + 1 < block->runs && block->run[run + 1].position <= i) {
            run++;
        }
        item.vcpu = block->run[run].vcpu;
        item.index = block->run[run].index + i - block->run[run].position;
        g_array_append_val(items, item);
    }
    diff_block_free(block);
}

static const struct diff_reader_ops ops = {
    .chosen = is_chosen, .wanted = is_wanted, .block = take_block,
};

/* Reads a trace; only @parts: 1: user mode, 2: the kernel. */
static int read_trace(struct sample *s, const char *path, const char *map,
                      unsigned parts, const struct window *window, gint stop)
{
    const struct symbolizer_options names = { .map = map };
    struct diff_reader_options options = {
        .tasks = &s->tasks, .window = *window, .user = parts & 1,
        .kernel = parts & 2, .max_held = s->max_held, .ops = &ops,
        .opaque = s,
    };
    int ret;

    g_assert_cmpint(btrail_trace_open(&s->trace, path), ==, 0);
    options.trace = s->trace;
    options.names = s->names = symbolizer_new(&names, s->trace, NULL);
    options.edges = s->edges = diff_edges_new();
    s->items = g_hash_table_new_full(NULL, NULL, NULL,
                                     (GDestroyNotify)g_array_unref);
    ret = diff_tasks_read(&s->tasks, s->trace, s->names, window);
    return ret ? ret : diff_reader_read(&s->result, &options, &stop);
}

static void clear_sample(struct sample *s)
{
    diff_reader_result_clear(&s->result);
    diff_tasks_clear(&s->tasks);
    g_hash_table_unref(s->items);
    diff_edges_free(s->edges);
    symbolizer_free(s->names);
    btrail_trace_close(s->trace);
}

static uint64_t times_counted(const struct sample *s, uint32_t number)
{
    return number / 2 < s->result.counts->len ?
           g_array_index(s->result.counts, uint64_t, number / 2) : 0;
}

/* The number of a task's thread, which is the same after an exec */
static uint64_t key_of(const struct row *row)
{
    uint32_t tid = tasks[row->task].tid;

    return tasks[row->task].name && tid ? tid : 1000 + row->task;
}

static struct diff_task *find_task(const struct sample *s,
                                   const struct row *row)
{
    const struct symbolizer_where where = {
        .vcpu = row->vcpu, .cr3 = tasks[row->task].cr3,
    };
    const struct btrail_record record = { 0 };
    struct btrail_batch b = {
        .cr3 = where.cr3, .records = &record, .count = 1,
    }, part = { .count = 0 };
    struct task task;

    b.task.known = tasks[row->task].name;
    b.task.kernel = tasks[row->task].kernel;
    b.task.pid = tasks[row->task].pid;
    b.task.tid = tasks[row->task].tid;
    if (b.task.known) {
        strcpy(b.task.name, tasks[row->task].name);
    }
    g_assert_true(symbolizer_part(s->names, row->vcpu, &b, &part, &task));
    return diff_tasks_find(&s->tasks, row->vcpu, &task);
}

static bool is_user(uint64_t address)
{
    return address < ADDRESS_SHARED;
}

static bool is_in_parts(const struct row *row, unsigned parts)
{
    return ((parts & 1) && (is_user(row->from) || is_user(row->to))) ||
           ((parts & 2) && (!is_user(row->from) || !is_user(row->to)));
}

/*
 * Is the place of an edge's end that of an address?  Functions of the kernel
 * have names, or none of them has; and those of processes that have one.
 */
static bool is_at(const struct sample *s, const struct row *row,
                  const struct diff_function *f, uint64_t offset,
                  uint64_t address)
{
    const char *pseudo = btrail_pseudo_name(address);

    if (pseudo) {
        return !strcmp(f->name, pseudo);
    }
    if (address - ELSEWHERE < 0x100) {
        return !strcmp(f->module, "program") && offset == address - ELSEWHERE;
    }
    for (unsigned i = 0; i < SERVICE; i++) {
        if (address - AT(i, 0) < 0x100 &&
            (is_user(address) ? !!tasks[row->task].name : s->kernel)) {
            return !strcmp(f->name, function_names[i]) &&
                   offset == address - AT(i, 0);
        }
    }
    return !f->known && offset == address;
}

static void check_edge(const struct sample *s, const struct item *item,
                       const struct row *row, uint64_t index)
{
    const struct diff_edge *e = diff_edges_get(s->edges, item->number);

    g_assert_cmpuint(item->number, !=, DIFF_EDGE_GAP);
    g_assert_cmpuint(item->vcpu, ==, row->vcpu);
    g_assert_cmpuint(item->index, ==, index);
    g_assert_true(e->pseudo ? e->pseudo == row->to :
                  is_at(s, row, e->to_fn, e->to, row->to));
    /* The kernel has several ways out, which are one. */
    g_assert_true((!is_user(row->from) && is_user(row->to)) ||
                  is_at(s, row, e->from_fn, e->from, row->from));
}

/* Goes through the rows of a task; its sequence must be theirs. */
static void check_task(const struct sample *s, const struct row *rows,
                       unsigned n, unsigned first, const GArray *indices,
                       unsigned parts)
{
    const GArray *items = g_hash_table_lookup(s->items,
                                              find_task(s, &rows[first]));
    bool lost = false, begun = false;
    unsigned k = 0;

    for (unsigned i = 0; i < n; i++) {
        lost |= rows[i].fate == LOST;
        if (!has_record(&rows[i]) || key_of(&rows[i]) != key_of(&rows[first])) {
            continue;
        }
        if (lost && begun) {
            g_assert_cmpuint(g_array_index(items, struct item, k++).number, ==,
                             DIFF_EDGE_GAP);
        }
        lost = false;
        begun = true;
        if (rows[i].fate == KEPT && is_in_parts(&rows[i], parts)) {
            g_assert_true(items && k < items->len);
            check_edge(s, &g_array_index(items, struct item, k++), &rows[i],
                       g_array_index(indices, uint64_t, i));
        }
    }
    g_assert_cmpuint(k, ==, items ? items->len : 0);
}

/* Edges are counted as often as they are in sequences. */
static void check_counts(const struct sample *s)
{
    g_autoptr(GHashTable) counts = g_hash_table_new(NULL, NULL);
    GHashTableIter iter;
    gpointer p, n;

    g_hash_table_iter_init(&iter, s->items);
    while (g_hash_table_iter_next(&iter, NULL, &p)) {
        const GArray *items = p;

        for (unsigned i = 0; i < items->len; i++) {
            p = GUINT_TO_POINTER(g_array_index(items, struct item, i).number);
            n = g_hash_table_lookup(counts, p);
            g_hash_table_insert(counts, p, (char *)n + 1);
        }
    }
    g_hash_table_remove(counts, GUINT_TO_POINTER(DIFF_EDGE_GAP));
    for (unsigned i = 0; i < s->result.counts->len; i++) {
        p = GUINT_TO_POINTER(2 * i);
        n = g_hash_table_lookup(counts, p);
        p = GUINT_TO_POINTER(2 * i | DIFF_EDGE_STACK);
        g_assert_cmpuint(times_counted(s, 2 * i), ==, GPOINTER_TO_SIZE(n) +
                         GPOINTER_TO_SIZE(g_hash_table_lookup(counts, p)));
        g_hash_table_remove(counts, GUINT_TO_POINTER(2 * i));
        g_hash_table_remove(counts, p);
    }
    g_assert_cmpuint(g_hash_table_size(counts), ==, 0);
}

static void check_scene(const struct scene *scene, bool kernel, unsigned parts,
                        size_t max_held)
{
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    g_autofree char *map = write_map(kernel);
    g_autoptr(GArray) indices = NULL;
    struct sample s = { .max_held = max_held, .kernel = kernel };
    unsigned n = 0;

    while (n < MOST_ROWS && scene->rows[n].task) {
        n++;
    }
    indices = write_rows(path, scene->rows, n);
    g_assert_cmpint(read_trace(&s, path, map, parts, &WINDOW_ALL(0), 0), ==,
                    0);
    for (unsigned i = 0; i < n; i++) {
        if (has_record(&scene->rows[i])) {
            struct diff_task *task = find_task(&s, &scene->rows[i]);

            check_task(&s, scene->rows, n, i, indices, parts);
            g_assert_true(g_hash_table_contains(s.result.ended, task) ==
                          (scene->ends == scene->rows[i].task));
        }
    }
    check_counts(&s);
    g_assert_cmpuint(s.result.damage, ==, 0);
    clear_sample(&s);
}

static void test_scene(gconstpointer p)
{
    const struct scene *scene = p;

    for (unsigned parts = 1; parts <= 3; parts++) {
        check_scene(scene, true, parts, 0);
        if (!scene->named) {
            check_scene(scene, false, parts, 0);
        }
    }
}

/* With more records than may wait, those that wait still come first. */
static void test_held(void)
{
    static const struct scene scene = { "", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT },
        { 1, A, RET(LEAF, MAIN), KEPT },
        { 1, A, CALL(MAIN, LEAF), KEPT },
        { 1, A, RET(LEAF, MAIN), KEPT },
        { 1, A, SYSCALL(MAIN), KEPT },
        { 2, A, CALL(ENTRY, WORK), KEPT },
        { 2, A, RET(WORK, ENTRY), KEPT },
    } };

    /* One has waited, and another one waits. */
    static const struct scene again = { "", .rows = {
        { 0, A, CALL(MAIN, LEAF), KEPT, 1000 },
        { 0, A, RET(LEAF, MAIN), KEPT, 3000 },
        { 1, A, CALL(MAIN, LEAF), KEPT, 2000 },
        { 0, B, CALL(MAIN, LEAF), KEPT, 4000 },
        { 1, A, RET(LEAF, MAIN), KEPT, 5000 },
        { 1, A, CALL(MAIN, LEAF), KEPT, 8000 },
        { 2, A, RET(LEAF, MAIN), KEPT, 6000 },
        { 1, IDLE1, CALL(WORK, WORK), KEPT, 9000 },
    } };

    for (size_t max_held = 1; max_held < 8; max_held++) {
        check_scene(&scene, true, 3, max_held);
        check_scene(&again, true, 3, max_held);
    }
}

static const struct row plain[] = {
    { 0, A, CALL(MAIN, LEAF), KEPT },
    { 1, B, CALL(MAIN, LEAF), KEPT },
    { 0, A, RET(LEAF, MAIN), KEPT },
    { 0, A, CALL(MAIN, LEAF), KEPT },
    { 1, B, RET(LEAF, MAIN), KEPT },
    { 0, A, RET(LEAF, MAIN), KEPT },
    { 2, A, SYSCALL(MAIN), KEPT },
};

/* Reads rows in some way, and expects what their fates say. */
static void check_rows(struct sample *s, const struct window *window,
                       bool stop, const struct row *rows, unsigned n)
{
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    g_autofree char *map = write_map(true);
    g_autoptr(GArray) indices = write_rows(path, rows, n);

    s->kernel = true;
    g_assert_cmpint(read_trace(s, path, map, 3, window, stop), ==, 0);
    for (unsigned i = 0; i < n; i++) {
        check_task(s, rows, n, i, indices, 3);
    }
}

/* What is outside of a window is left out, and tasks begin in it. */
static void test_window(void)
{
    /* Each row is a millisecond after the one before. */
    const struct window window = { 1000000, 1500000, 4500000 };
    struct row expected[G_N_ELEMENTS(plain)];
    struct sample s = { 0 };

    for (unsigned i = 0; i < G_N_ELEMENTS(plain); i++) {
        expected[i] = plain[i];
        expected[i].fate = i >= 2 && i <= 4 ? KEPT : LEFT;
    }
    check_rows(&s, &window, false, expected, G_N_ELEMENTS(expected));
    check_counts(&s);
    clear_sample(&s);
}

/*
 * A record is in the window if the last clock before it is, however far away
 * the next one is: other vCPUs have passed the end of the window by then.
 */
static void test_clocks(void)
{
    static const struct row rows[] = {
        { 0, A, CALL(MAIN, LEAF), KEPT, 1000 },
        { 0, A, RET(LEAF, MAIN), KEPT, NO_CLOCK },
        { 1, B, CALL(MAIN, LEAF), KEPT, 1001 },
        { 1, B, RET(LEAF, MAIN), LEFT, 30000 },
        { 0, A, CALL(MAIN, LEAF), LEFT, 100000 },
    };
    const struct window window = { 1000000, 0, 5000000 };
    struct sample s = { 0 };

    check_rows(&s, &window, false, rows, G_N_ELEMENTS(rows));
    check_counts(&s);
    clear_sample(&s);
}

/* Tasks that are not chosen are not counted; others can be counted alone. */
static void test_chosen(void)
{
    struct row expected[G_N_ELEMENTS(plain)];
    struct sample all = { 0 }, s = { .skip = "b" }, counted = { .count = true };

    check_rows(&all, &WINDOW_ALL(0), false, plain, G_N_ELEMENTS(plain));
    for (unsigned i = 0; i < G_N_ELEMENTS(plain); i++) {
        expected[i] = plain[i];
        expected[i].fate = plain[i].task == A ? KEPT : LEFT;
    }
    check_rows(&s, &WINDOW_ALL(0), false, expected, G_N_ELEMENTS(expected));
    check_counts(&s);
    for (unsigned i = 0; i < G_N_ELEMENTS(plain); i++) {
        expected[i].fate = LEFT;
    }
    check_rows(&counted, &WINDOW_ALL(0), false, expected,
               G_N_ELEMENTS(expected));
    g_assert_cmpuint(counted.result.counts->len, ==,
                     all.result.counts->len);
    for (unsigned i = 0; i < all.result.counts->len; i++) {
        g_assert_cmpuint(times_counted(&counted, 2 * i), ==,
                         times_counted(&all, 2 * i));
    }
    clear_sample(&all);
    clear_sample(&s);
    clear_sample(&counted);
}

static void test_stop(void)
{
    struct row expected[G_N_ELEMENTS(plain)];
    struct sample s = { 0 };

    for (unsigned i = 0; i < G_N_ELEMENTS(plain); i++) {
        expected[i] = plain[i];
        expected[i].fate = LEFT;
    }
    check_rows(&s, &WINDOW_ALL(0), true, expected, G_N_ELEMENTS(expected));
    clear_sample(&s);
}

/* The page that an edge comes from is near the one that it shows. */
static void test_image(void)
{
    static const struct row row = { 0, A, ELSEWHERE + 0x1010, ELSEWHERE };
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    g_autofree char *map = write_map(true);
    g_autoptr(GArray) indices = write_rows(path, &row, 1);
    const struct diff_edge *e;
    const GArray *items;
    struct sample s = { 0 };

    g_assert_cmpint(read_trace(&s, path, map, 3, &WINDOW_ALL(0), 0), ==, 0);
    items = g_hash_table_lookup(s.items, s.tasks.all->pdata[0]);
    g_assert_cmpuint(items->len, ==, 1);
    e = diff_edges_get(s.edges, g_array_index(items, struct item, 0).number);
    g_assert_cmpstr(e->from_fn->module, ==, "program");
    g_assert_cmphex(e->from, ==, 0x1010);
    g_assert_cmpstr(e->to_fn->module, ==, "program");
    g_assert_cmphex(e->to, ==, 0);
    clear_sample(&s);
}

/* More edges than a block has; after each one an interrupt or none */
static void check_blocks(bool interrupted)
{
    enum { EDGES = 3 * DIFF_READER_BLOCK + 7 };
    static struct btrail_record records[3 * EDGES];
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    g_autofree char *map = write_map(true);
    struct btrail_event event = task_event(A);
    struct btrail_slab slab = {
        .cr3 = tasks[A].cr3, .records = records, .events = &event,
        .n_events = 1,
    };
    const unsigned step = interrupted ? 3 : 1;
    const GArray *items;
    struct sample s = { 0 };
    struct btrail_writer *w;

    while (slab.n_records < EDGES * step) {
        struct btrail_record *r = &records[slab.n_records];

        slab.n_records += step;
        r[0] = (struct btrail_record) { CALL(MAIN, MAIN), 0 };
        if (interrupted) {
            r[1] = (struct btrail_record) { HIT(MAIN, INTERRUPT), 0 };
            r[2] = (struct btrail_record) { BACK(INTERRUPT, MAIN), 0 };
        }
    }
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    write_code(w);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(read_trace(&s, path, map, 3, &WINDOW_ALL(0), 0), ==, 0);
    items = g_hash_table_lookup(s.items, s.tasks.all->pdata[0]);
    g_assert_cmpuint(items->len, ==, EDGES);
    for (unsigned i = 0; i < EDGES; i++) {
        g_assert_cmpuint(g_array_index(items, struct item, i).index, ==,
                         (uint64_t)i * step);
    }
    check_counts(&s);
    clear_sample(&s);
}

static void test_blocks(void)
{
    check_blocks(false);
    check_blocks(true);
}

static uint64_t any_address(void)
{
    static const uint64_t some[] = {
        0, UINT64_MAX, ADDRESS_SHARED, ADDRESS_SHARED - 1, 0x400000,
        BTRAIL_PSEUDO_TO_KERNEL, BTRAIL_PSEUDO_SYSCALL,
        BTRAIL_PSEUDO_PAGE_FAULT, BTRAIL_PSEUDO_EXCEPTION,
        BTRAIL_PSEUDO_INTERRUPT, BTRAIL_PSEUDO_FROM_KERNEL,
        BTRAIL_PSEUDO_TO_USER, BTRAIL_PSEUDO_FROM_USER,
    };
    static const unsigned offsets[] = {
        0, TOY_CALLS, TOY_CALLS + 5, SOMEWHERE, TOY_RETURN, TOY_SPECIAL,
        TOY_SPECIAL + 2,
    };
    unsigned f = g_test_rand_int_range(0, N_FUNCTIONS);

    switch (g_test_rand_int_range(0, 8)) {
    case 0:
        return some[g_test_rand_int_range(0, G_N_ELEMENTS(some))];
    case 1:
        return (uint64_t)g_test_rand_int() << 32 | (uint32_t)g_test_rand_int();
    default:
        return AT(f, offsets[g_test_rand_int_range(0, G_N_ELEMENTS(offsets))]);
    }
}

static struct btrail_event any_event(void)
{
    struct btrail_event e = {
        .type = g_test_rand_int_range(BTRAIL_EVENT_CR3, BTRAIL_EVENT_END),
        .reason = g_test_rand_int_range(0, 12),
    };

    if (g_test_rand_bit()) {
        return task_event(g_test_rand_int_range(A, N_TASKS));
    }
    for (unsigned i = 0; i < 3; i++) {
        e.data[i] = (uint64_t)g_test_rand_int() << 32 |
                    (uint32_t)g_test_rand_int();
    }
    switch (e.type) {
    case BTRAIL_EVENT_CR3:
        e.data[0] = tasks[g_test_rand_int_range(A, N_TASKS)].cr3;
        break;
    case BTRAIL_EVENT_TIME:
        e.data[0] = g_test_rand_int_range(0, 1000000);
        break;
    case BTRAIL_EVENT_GAP:
        e.data[0] = BTRAIL_LOST_UNKNOWN;
        break;
    case BTRAIL_EVENT_PAUSE:
        /* Or a task with any name and number */
        e.type = BTRAIL_EVENT_TASK;
        break;
    }
    return e;
}

enum { SLABS = 60, RECORDS = 40, EVENTS = 10 };

/* A trace of no order at all */
static void write_anything(const char *path)
{
    uint64_t next[VCPUS] = { 0 };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    write_code(w);
    for (unsigned i = 0; i < SLABS; i++) {
        unsigned vcpu = g_test_rand_int_range(0, VCPUS);
        struct btrail_record records[RECORDS];
        struct btrail_event events[EVENTS];
        const struct btrail_slab slab = {
            .first_index = next[vcpu], .records = records,
            .n_records = RECORDS, .events = events, .n_events = EVENTS,
            .cr3 = tasks[g_test_rand_int_range(A, N_TASKS)].cr3,
        };

        for (unsigned k = 0; k < RECORDS; k++) {
            records[k] = (struct btrail_record) { any_address(), any_address(),
                                                  0 };
        }
        for (unsigned k = 0; k < EVENTS; k++) {
            events[k] = any_event();
            events[k].index = next[vcpu] + k * RECORDS / EVENTS;
        }
        g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
        next[vcpu] += RECORDS;
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* Damages a file at some places. */
static void damage(const char *path)
{
    g_autofree char *bytes = NULL;
    gsize size;

    g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
    for (unsigned i = 0; i < 5; i++) {
        bytes[g_test_rand_int_range(size / 10, size)] ^=
            1 << g_test_rand_int_range(0, 8);
    }
    g_assert_true(g_file_set_contents(path, bytes, size, NULL));
}

static uint64_t count_edges(const struct sample *s)
{
    uint64_t n = 0;
    GHashTableIter iter;
    gpointer items;

    g_hash_table_iter_init(&iter, s->items);
    while (g_hash_table_iter_next(&iter, NULL, &items)) {
        n += ((const GArray *)items)->len;
    }
    return n;
}

/* Whatever a trace says, each record is in one sequence at most. */
static void test_anything(void)
{
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    g_autofree char *map = write_map(true);

    for (unsigned i = 0; i < 60; i++) {
        struct sample s = { .max_held = g_test_rand_int_range(0, 200) };
        struct btrail_trace *trace;
        bool damaged = i % 2;

        write_anything(path);
        if (damaged) {
            damage(path);
        }
        if (btrail_trace_open(&trace, path)) {
            g_assert_true(damaged);
            continue;
        }
        btrail_trace_close(trace);
        g_assert_cmpint(read_trace(&s, path, map, 3, &WINDOW_ALL(0), 0), ==,
                        0);
        g_assert_true(damaged || !s.result.damage);
        g_assert_cmpuint(s.tasks.records, <=, SLABS * RECORDS);
        g_assert_true(damaged || s.tasks.records == SLABS * RECORDS);
        /* Before each record there can be a gap, and a task can end. */
        g_assert_cmpuint(count_edges(&s), <=, 2 * s.tasks.records +
                         s.tasks.all->len);
        check_counts(&s);
        clear_sample(&s);
    }
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    folder = scratch_new();
    for (unsigned i = 0; i < G_N_ELEMENTS(scenes); i++) {
        g_autofree char *name = g_strdup_printf("/diff-reader/%s",
                                                scenes[i].name);

        g_test_add_data_func(name, &scenes[i], test_scene);
    }
    g_test_add_func("/diff-reader/held", test_held);
    g_test_add_func("/diff-reader/window", test_window);
    g_test_add_func("/diff-reader/clocks", test_clocks);
    g_test_add_func("/diff-reader/chosen", test_chosen);
    g_test_add_func("/diff-reader/stop", test_stop);
    g_test_add_func("/diff-reader/image", test_image);
    g_test_add_func("/diff-reader/blocks", test_blocks);
    g_test_add_func("/diff-reader/anything", test_anything);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
