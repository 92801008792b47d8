/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/stack-thread.h: a small machine runs threads on several
 * vCPUs and keeps their stacks itself.  It can have a nested guest, which is
 * another such machine.
 *
 * All code is on two pages, one of the kernel and one of user mode.  In a
 * function there is a call of each other one, a return, and a last instruction
 * that enters or leaves the kernel.  The kernel has return thunks, and code
 * without a symbol, which it calls by retpolines.
 */
#include <glib.h>
#include <string.h>

#include "scratch.h"
#include "symbolize/stack.h"
#include "toy-code.h"

enum function_number {
    ENTRY, SCHEDULE, SWITCH_ASM, SWITCH, FORK, WORK, IDLE, LAST, HANDLER,
    THUNK, RETURN_THUNK, SAFE_RETURN, COMPILED,
    MAIN, LEFT, RIGHT, LEAF, N_FUNCTIONS,
};

static const char *const names[N_FUNCTIONS] = {
    "entry", "schedule", "__switch_to_asm", "__switch_to",
    "ret_from_fork_asm", "work", "do_idle", "do_task_dead",
    "asm_sysvec_apic_timer_interrupt",
    "indirect_thunk", "return_thunk", "safe_return", "[unknown]",
    "main", "left", "right", "leaf",
};

/* Offsets in a function */
enum {
    RETURN_JUMP = 0x90,
    /* Retpolines: with a return, and with a jump to one */
    RETPOLINE = 0xc0, RETPOLINE_JUMP = 0xd0,
};
/* Offsets in a retpoline, and its size */
enum { REPLACES = 6, ENDS = 10, RETPOLINE_SIZE = 11 };

enum { VCPUS = 3, TIDS = 10, SPACES = 6, MAX_DEPTH = 40 };

struct thread {
    uint32_t tid;
    uint16_t nested;            /* as in struct btrail_task */
    uint32_t pid;
    char name[BTRAIL_TASK_NAME + 1];
    bool kernel;
    uint64_t cr3;
    unsigned path[MAX_DEPTH];
    uint64_t back[MAX_DEPTH];
    unsigned n;
    unsigned entry;             /* index of ENTRY in @path, 0: in user mode */
    bool cut;                   /* nothing below @entry is on the stack */
    bool alive;
    bool running;
};

struct machine {
    struct thread threads[VCPUS + TIDS];
    struct thread *now[VCPUS];
    uint64_t cr3[VCPUS];
    uint64_t index[VCPUS];
    uint32_t pids;
    unsigned programs;
    unsigned births;
    unsigned firsts;
    bool unnamed;
    uint64_t only;              /* 0, or the only CR3 that is recorded */
    struct machine *host;       /* of a nested guest: runs it, */
    unsigned on[VCPUS];         /* on which vCPUs, */
    uint64_t exits;             /* how often it came back in a step, */
    uint64_t moves;             /* and on another vCPU than before */
    bool moving;                /* it is not always on the same one */
    struct symbolizer *s;
    struct stack_edges *edges;
    struct stacks *stacks;
    GHashTable *expected;       /* "comm pid/tid;function;..." -> records */
    uint64_t records;
};

static uint64_t address_of(unsigned f)
{
    return f < MAIN ? TOY_KERNEL + TOY_PITCH * f :
           TOY_USER + TOY_PITCH * (f - MAIN);
}

static uint64_t call_site(unsigned caller, unsigned callee)
{
    return address_of(caller) + TOY_CALL_SITE(0, callee % MAIN);
}

static void make_page(struct toy_page *p, bool user)
{
    *p = (struct toy_page) {
        .address = user ? TOY_USER : TOY_KERNEL,
        .n = user ? N_FUNCTIONS - MAIN : MAIN,
        .names = names + (user ? MAIN : 0),
    };
    toy_page_fill(p);
    for (unsigned f = 0; f < p->n; f++) {
        memcpy(toy_page_at(p, f, TOY_SPECIAL),
               user ? "\x0f\x05\x90" : "\x48\x0f\x07", 3);
        if (!user) {
            toy_page_jump(p, f, RETURN_JUMP, 0xe9, address_of(RETURN_THUNK));
        }
    }
}

static void make_pages(struct toy_page pages[2])
{
    make_page(&pages[0], false);
    make_page(&pages[1], true);
    toy_page_jump(&pages[0], SWITCH_ASM, TOY_SPECIAL, 0xe9,
                  address_of(SWITCH));
    for (unsigned at = RETPOLINE; at <= RETPOLINE_JUMP; at += 0x10) {
        memcpy(toy_page_at(&pages[0], THUNK, at),
               "\xe8\1\0\0\0\xcc\x48\x89\x04\x24\xc3", RETPOLINE_SIZE);
    }
    toy_page_jump(&pages[0], THUNK, RETPOLINE_JUMP + ENDS, 0xe9,
                  address_of(RETURN_THUNK));
    memcpy(toy_page_at(&pages[0], SAFE_RETURN, 0),
           "\x48\x8d\x64\x24\x08\xc3", 6);
}

static uint64_t space(unsigned i)
{
    return 0x10000 * (i + 1);
}

/* Those of the nested guest follow. */
static uint64_t all_spaces(unsigned i)
{
    return i < SPACES ? space(i) : space(i - SPACES) | BTRAIL_CR3_NESTED;
}

/* A trace with the code and without records */
static void write_trace(const char *path)
{
    struct toy_page pages[2];
    uint64_t cr3[2 * SPACES];
    struct btrail_writer *w;

    for (unsigned i = 0; i < 2 * SPACES; i++) {
        cr3[i] = all_spaces(i);
    }
    make_pages(pages);
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    toy_pages_write(w, pages, 2, VCPUS, cr3, 2 * SPACES);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static char *write_map(const char *folder)
{
    char *path = g_build_filename(folder, "names.map", NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    struct toy_page pages[2];

    make_pages(pages);
    toy_page_names(&pages[0], text);
    for (unsigned i = 0; i < 2 * SPACES; i++) {
        g_string_append_printf(text, "cr3 %" G_GINT64_MODIFIER "x\n",
                               all_spaces(i));
        toy_page_names(&pages[1], text);
        g_string_append_printf(text, "%" G_GINT64_MODIFIER "x d end\n",
                               address_of(N_FUNCTIONS));
    }
    g_assert_true(g_file_set_contents(path, text->str, -1, NULL));
    return path;
}

static char *path_of(const struct thread *t)
{
    GString *text = g_string_new(NULL);

    g_string_printf(text, "%s %u/%u/%u", t->name, t->nested, t->pid, t->tid);
    for (unsigned i = t->cut ? t->entry : 0; i < t->n; i++) {
        g_string_append_printf(text, ";%s", names[t->path[i]]);
    }
    return g_string_free(text, FALSE);
}

static void count(GHashTable *sums, char *path, uint64_t n)
{
    uint64_t *sum = g_hash_table_lookup(sums, path);

    if (!sum) {
        sum = g_new0(uint64_t, 1);
        g_hash_table_insert(sums, path, sum);
    } else {
        g_free(path);
    }
    *sum += n;
}

static void feed(struct machine *m, unsigned vcpu,
                 const struct btrail_batch *b)
{
    const struct symbolizer_where where = symbolizer_at(vcpu, b, 0);
    struct stack_part part = { .vcpu = vcpu, .n = 1, .ticks = 1 };
    struct btrail_batch some = { .count = 0 };
    const struct stack_edge *edge;
    struct stack_run run;

    g_assert_true(symbolizer_part(m->s, vcpu, b, &some, &part.task));
    stack_edges_get_all(m->edges, part.task.process, &where, b->records, 1,
                        &edge, &run);
    part.edges = &edge;
    part.runs = &run;
    stacks_begin(m->stacks);
    stacks_add(m->stacks, &part);
}

/* A record; one that leaves goes to the nested guest, or back. */
static void put(struct machine *m, unsigned vcpu, uint64_t from, uint64_t to,
                bool leaves)
{
    struct thread *t = m->now[vcpu];
    const struct btrail_record record = { from, to, 0 };
    unsigned cpu = m->host ? m->on[vcpu] : vcpu;
    struct btrail_batch b = {
        .records = &record, .count = 1,
        .index = (m->host ? m->host : m)->index[cpu]++,
        .cr3 = m->cr3[vcpu] | (m->host ? BTRAIL_CR3_NESTED : 0),
        .time.host = 1, .leaves = leaves,
    };

    if (m->only && m->cr3[vcpu] != m->only) {
        return;
    }
    if (!m->unnamed) {
        b.task = (struct btrail_task) { true, t->kernel, t->tid, t->pid, "",
                                        t->nested };
        memcpy(b.task.name, t->name, sizeof(t->name));
    }
    count(m->expected, path_of(t), 1);
    feed(m, cpu, &b);
    m->records++;
}

static void leave_nested(struct machine *m, unsigned vcpu, uint64_t from);

static void emit(struct machine *m, unsigned vcpu, uint64_t from, uint64_t to)
{
    if (m->host && g_test_rand_int_range(0, 4) == 0) {
        leave_nested(m, vcpu, from);
    }
    put(m, vcpu, from, to, false);
}

static unsigned top(const struct thread *t)
{
    return t->path[t->n - 1];
}

static void push(struct thread *t, unsigned f, uint64_t back)
{
    g_assert_cmpuint(t->n, <, MAX_DEPTH);
    t->path[t->n] = f;
    t->back[t->n++] = back;
}

static void call(struct machine *m, unsigned vcpu, unsigned f)
{
    struct thread *t = m->now[vcpu];
    uint64_t from = call_site(top(t), f);

    emit(m, vcpu, from, address_of(f));
    push(t, f, from + 5);
}

static void leave(struct machine *m, unsigned vcpu)
{
    struct thread *t = m->now[vcpu];

    emit(m, vcpu, address_of(top(t)) + TOY_RETURN, t->back[t->n - 1]);
    t->n--;
}

static void call_pointer(struct machine *m, unsigned vcpu, unsigned f);

/*
 * An interrupt in the kernel, whose handler calls functions through pointers,
 * and which returns to @to
 */
static void interrupt(struct machine *m, unsigned vcpu, uint64_t from,
                      uint64_t to)
{
    struct thread *t = m->now[vcpu];

    emit(m, vcpu, from, address_of(HANDLER));
    push(t, HANDLER, from);
    if (t->n < MAX_DEPTH - 10) {
        call_pointer(m, vcpu, COMPILED);
        leave(m, vcpu);
        call(m, vcpu, WORK);
        leave(m, vcpu);
    }
    emit(m, vcpu, address_of(HANDLER) + TOY_SPECIAL, to);
    t->n--;
}

static bool sometimes(void)
{
    return g_test_rand_int_range(0, 8) == 0;
}

/* A jump to the return thunk, which returns to @to */
static void return_by_thunk(struct machine *m, unsigned vcpu, uint64_t from,
                            uint64_t to)
{
    struct thread *t = m->now[vcpu];
    uint64_t thunk = address_of(RETURN_THUNK);
    uint64_t safe = address_of(SAFE_RETURN);

    emit(m, vcpu, from, thunk);
    t->path[t->n - 1] = RETURN_THUNK;
    if (sometimes()) {
        interrupt(m, vcpu, thunk, thunk);
    }
    emit(m, vcpu, call_site(RETURN_THUNK, SAFE_RETURN), safe);
    t->path[t->n - 1] = SAFE_RETURN;
    if (sometimes()) {
        interrupt(m, vcpu, safe, safe);
    } else if (sometimes()) {
        /* The handler does the return. */
        interrupt(m, vcpu, safe, to);
        return;
    }
    emit(m, vcpu, safe + 5, to);
}

/* A call through a pointer: a retpoline */
static void call_pointer(struct machine *m, unsigned vcpu, unsigned f)
{
    struct thread *t = m->now[vcpu];
    bool jump = g_test_rand_bit();
    uint64_t at = address_of(THUNK) + (jump ? RETPOLINE_JUMP : RETPOLINE);

    call(m, vcpu, THUNK);
    emit(m, vcpu, at, at + REPLACES);
    if (sometimes()) {
        interrupt(m, vcpu, at + REPLACES, at + REPLACES);
    }
    if (jump) {
        return_by_thunk(m, vcpu, at + ENDS, address_of(f));
    } else {
        emit(m, vcpu, at + ENDS, address_of(f));
    }
    t->path[t->n - 1] = f;
}

/* Returns, as leave() does, by a return thunk. */
static void leave_by_thunk(struct machine *m, unsigned vcpu)
{
    struct thread *t = m->now[vcpu];

    return_by_thunk(m, vcpu, address_of(top(t)) + RETURN_JUMP,
                    t->back[t->n - 1]);
    t->n--;
}

static void enter_kernel(struct machine *m, unsigned vcpu)
{
    struct thread *t = m->now[vcpu];
    uint64_t from = address_of(top(t)) + TOY_SPECIAL;

    emit(m, vcpu, from, address_of(ENTRY));
    t->entry = t->n;
    push(t, ENTRY, from + 2);
}

/* Leaves the kernel to where it was entered, or to the start of a program. */
static void leave_kernel(struct machine *m, unsigned vcpu)
{
    struct thread *t = m->now[vcpu];

    emit(m, vcpu, address_of(top(t)) + TOY_SPECIAL, t->cut ? address_of(MAIN) :
         t->back[t->n - 1]);
    t->n--;
    if (t->cut) {
        t->path[0] = MAIN;
        t->n = 1;
        t->cut = false;
    }
    t->entry = 0;
}

/* The vCPU's thread is on its way to another one. */
static void begin_switch(struct machine *m, unsigned vcpu,
                         const struct thread *next)
{
    call(m, vcpu, SCHEDULE);
    /* As switch_mm() does, whose second half can be all that is recorded */
    call(m, vcpu, WORK);
    if (!next->kernel) {
        m->cr3[vcpu] = next->cr3;
    }
    leave(m, vcpu);
    call(m, vcpu, SWITCH_ASM);
    m->now[vcpu]->running = false;
}

/* The vCPU gets to where @next has left another one, or to its first code. */
static void end_switch(struct machine *m, unsigned vcpu, struct thread *next)
{
    bool fresh = !next->n;

    m->now[vcpu] = next;
    next->running = true;
    if (fresh) {
        push(next, SWITCH_ASM, address_of(FORK));
    }
    emit(m, vcpu, address_of(SWITCH_ASM) + TOY_SPECIAL, address_of(SWITCH));
    next->path[next->n - 1] = SWITCH;
    leave(m, vcpu);
    if (fresh) {
        push(next, FORK, 0);
        if (!next->kernel) {
            /* It goes to user mode, right after the call of the kernel. */
            emit(m, vcpu, address_of(FORK) + TOY_SPECIAL,
                 address_of(LEFT) + TOY_SPECIAL + 2);
            next->path[0] = LEFT;
        }
    } else {
        leave(m, vcpu);
    }
}

static void switch_to(struct machine *m, unsigned vcpu, struct thread *next)
{
    begin_switch(m, vcpu, next);
    end_switch(m, vcpu, next);
}

static struct thread *some_thread(struct machine *m, bool alive)
{
    struct thread *t = &m->threads[g_test_rand_int_range(VCPUS,
                                                         VCPUS + TIDS)];

    return t->alive == alive && !t->running ? t : NULL;
}

/* A new thread or process, whose number may have been another's before */
static void give_birth(struct machine *m, const struct thread *parent)
{
    struct thread *t = some_thread(m, false);
    uint32_t tid;
    uint16_t nested;

    if (t) {
        tid = t->tid;
        nested = t->nested;
        *t = *parent;
        t->tid = tid;
        t->nested = nested;
        if (parent->kernel || g_test_rand_int_range(0, 4) == 0) {
            t->pid = tid;
            t->cr3 = space(g_test_rand_int_range(0, SPACES));
            t->kernel &= g_test_rand_bit();
        }
        t->n = t->entry = 0;
        t->alive = true;
        t->running = t->cut = false;
        m->births++;
    }
}

/*
 * An exec ends the other threads of a process; the one that remains gets the
 * number of the first.
 */
static void become_first(struct machine *m, struct thread *t)
{
    for (unsigned i = VCPUS; i < VCPUS + TIDS; i++) {
        struct thread *first = &m->threads[i];

        if (first != t && first->tid == t->pid && !first->running &&
            first->nested == t->nested) {
            first->tid = t->tid;
            first->alive = false;
            t->tid = t->pid;
            m->firsts++;
            return;
        }
    }
}

static void start_program(struct machine *m, unsigned vcpu)
{
    struct thread *t = m->now[vcpu];

    call(m, vcpu, WORK);
    t->cr3 = m->cr3[vcpu] = space((t->cr3 / space(0)) % SPACES);
    call(m, vcpu, WORK);
    g_snprintf(t->name, sizeof(t->name), "program%u", ++m->programs % 1000);
    t->cut = true;
    become_first(m, t);
    leave(m, vcpu);
    leave(m, vcpu);
    leave_kernel(m, vcpu);
}

static void step_user(struct machine *m, unsigned vcpu)
{
    struct thread *t = m->now[vcpu];
    unsigned what = g_test_rand_int_range(0, 10);

    if (what < 4 && t->n < 12) {
        call(m, vcpu, MAIN + g_test_rand_int_range(0, N_FUNCTIONS - MAIN));
    } else if (what < 8 && t->n > 1) {
        leave(m, vcpu);
    } else {
        enter_kernel(m, vcpu);
    }
}

static void step_kernel(struct machine *m, unsigned vcpu)
{
    struct thread *t = m->now[vcpu], *next;
    unsigned what = g_test_rand_int_range(0, 100);

    if (what < 15 && t->n < 20) {
        call(m, vcpu, WORK);
    } else if (what < 25 && t->n < 20) {
        call_pointer(m, vcpu, g_test_rand_bit() ? WORK : COMPILED);
    } else if (what < 50 && (top(t) == WORK || top(t) == COMPILED)) {
        if (g_test_rand_bit()) {
            leave(m, vcpu);
        } else {
            leave_by_thunk(m, vcpu);
        }
    } else if (what < 60) {
        next = g_test_rand_bit() ? some_thread(m, true) : &m->threads[vcpu];
        if (next && next != t) {
            switch_to(m, vcpu, next);
        }
    } else if (what < 63) {
        give_birth(m, t);
    } else if (what < 65 && t->tid) {
        call(m, vcpu, LAST);
        switch_to(m, vcpu, &m->threads[vcpu]);
        t->alive = false;
    } else if (what < 66 && t->tid) {
        g_snprintf(t->name, sizeof(t->name), "name%u", ++m->programs % 9);
    } else if (top(t) == ENTRY && t->n == t->entry + 1) {
        if (what < 70) {
            start_program(m, vcpu);
        } else {
            leave_kernel(m, vcpu);
        }
    }
}

static void step(struct machine *m, unsigned vcpu)
{
    struct thread *t = m->now[vcpu];

    if (t->kernel || t->entry) {
        step_kernel(m, vcpu);
    } else {
        step_user(m, vcpu);
    }
}

/* Where a vCPU runs its nested guest: in any function of the kernel */
static uint64_t vmrun(const struct machine *m, unsigned vcpu)
{
    return address_of(top(m->now[vcpu])) + 4;
}

/* A nested guest continues, on any vCPU whose kernel runs. */
static void enter_nested(struct machine *m, unsigned vcpu, uint64_t to)
{
    struct machine *host = m->host;
    unsigned on = vcpu;

    if (m->moving) {
        on = g_test_rand_int_range(0, VCPUS);
    }
    while (!host->now[on]->kernel && !host->now[on]->entry) {
        step(host, on);
    }
    m->moves += m->on[vcpu] != on;
    m->on[vcpu] = on;
    put(host, on, vmrun(host, on), to, true);
}

static void exit_nested(struct machine *m, unsigned vcpu, uint64_t from)
{
    put(m, vcpu, from, vmrun(m->host, m->on[vcpu]) + 3, true);
}

/* #VMEXIT: what runs a nested guest does what it does, and runs it again. */
static void leave_nested(struct machine *m, unsigned vcpu, uint64_t from)
{
    exit_nested(m, vcpu, from);
    for (int n = g_test_rand_int_range(0, 4); n; n--) {
        step(m->host, g_test_rand_int_range(0, VCPUS));
    }
    enter_nested(m, vcpu, from);
    m->exits++;
}

static void step_nested(struct machine *m, unsigned vcpu)
{
    uint64_t at = address_of(top(m->now[vcpu])) + 1;

    enter_nested(m, vcpu, at);
    step(m, vcpu);
    exit_nested(m, vcpu, address_of(top(m->now[vcpu])) + 1);
}

static void machine_init(struct machine *m, struct symbolizer *s)
{
    memset(m, 0, sizeof(*m));
    m->s = s;
    m->edges = stack_edges_new(s, 0);
    m->stacks = stacks_new(&(struct stacks_options) { false });
    m->expected = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                        g_free);
    for (unsigned i = 0; i < VCPUS + TIDS; i++) {
        struct thread *t = &m->threads[i];

        if (i < VCPUS) {
            t->kernel = t->running = t->alive = true;
            t->cr3 = m->cr3[i] = space(0);
            g_snprintf(t->name, sizeof(t->name), "swapper/%u", i);
            push(t, IDLE, 0);
            m->now[i] = t;
        } else {
            /* Nested guests use the same numbers. */
            t->tid = 10 + i / 2;
            t->nested = i % 2 * 3;
        }
    }
    /* A thread of the kernel and a process, which have others */
    m->threads[VCPUS].alive = m->threads[VCPUS + 1].alive = true;
    m->threads[VCPUS].kernel = true;
    m->threads[VCPUS].pid = m->threads[VCPUS].tid;
    strcpy(m->threads[VCPUS].name, "kworker");
    m->threads[VCPUS + 1].pid = m->threads[VCPUS + 1].tid;
    m->threads[VCPUS + 1].cr3 = space(1);
    strcpy(m->threads[VCPUS + 1].name, "init");
}

static void machine_clear(struct machine *m)
{
    stacks_free(m->stacks);
    stack_edges_free(m->edges);
    g_hash_table_unref(m->expected);
}

/* Adds the records of each path below @n to @sums. */
static void collect(GHashTable *sums, const struct stack_node *n,
                    const char *above)
{
    for (; n; n = n->next) {
        g_autofree char *path = n->function ?
            g_strdup_printf("%s;%s", above, n->function->name) :
            g_strdup_printf("%s %u/%u/%u", n->process->comm,
                            n->process->nested, (unsigned)n->process->pid,
                            (unsigned)n->process->tid);

        if (n->records) {
            count(sums, g_strdup(path), n->records);
        }
        collect(sums, n->child, path);
    }
}

static uint64_t sum(const struct stack_node *n)
{
    uint64_t records = 0;

    for (; n; n = n->next) {
        records += n->records + sum(n->child);
    }
    return records;
}

static void compare(struct machine *m)
{
    g_autoptr(GHashTable) sums = g_hash_table_new_full(g_str_hash, g_str_equal,
                                                       g_free, g_free);
    GHashTableIter iter;
    gpointer path, sum;

    collect(sums, stacks_roots(m->stacks), "");
    g_hash_table_iter_init(&iter, m->expected);
    while (g_hash_table_iter_next(&iter, &path, &sum)) {
        const uint64_t *found = g_hash_table_lookup(sums, path);

        if (!found || *found != *(uint64_t *)sum) {
            g_test_message("%s: %" G_GUINT64_FORMAT " records, %"
                           G_GUINT64_FORMAT " found", (char *)path,
                           *(uint64_t *)sum, found ? *found : 0);
            g_test_fail();
        }
    }
    g_assert_cmpuint(g_hash_table_size(sums), ==,
                     g_hash_table_size(m->expected));
}

static struct symbolizer *names_of(const char *folder,
                                   struct btrail_trace **trace)
{
    g_autofree char *map = write_map(folder);
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    const struct symbolizer_options options = { .map = map };
    struct symbolizer *s;

    write_trace(path);
    g_assert_cmpint(btrail_trace_open(trace, path), ==, 0);
    s = symbolizer_new(&options, *trace, NULL);
    g_assert_nonnull(s);
    return s;
}

/* Each record is on the stack of its thread, whatever the others do. */
static void test_machine(gconstpointer opaque)
{
    struct btrail_trace *trace;
    struct symbolizer *s = names_of(opaque, &trace);
    struct machine m;

    machine_init(&m, s);
    /* What is rare happens in each run, too. */
    while (m.records < 200000 || m.births <= 100 || m.firsts <= 10) {
        g_assert_cmpuint(m.records, <, 20000000);
        step(&m, g_test_rand_int_range(0, VCPUS));
    }
    compare(&m);
    g_assert_cmpuint(stacks_counts(m.stacks)->unknown, ==, 0);
    g_assert_cmpuint(stacks_counts(m.stacks)->astray, ==, 0);
    g_assert_cmpuint(stacks_counts(m.stacks)->signals, ==, 0);
    machine_clear(&m);
    symbolizer_free(s);
    btrail_trace_close(trace);
}

/* Is a vCPU where it is to be, on the stack of its thread, if it is named? */
static bool on_stack(const struct machine *m, unsigned vcpu)
{
    g_autofree char *expected = path_of(m->now[vcpu]);
    const struct stack_node *n = stacks_where(m->stacks, vcpu);
    g_autoptr(GString) found = g_string_new(NULL);

    for (; n; n = n->parent) {
        g_autofree char *root = n->function ? NULL :
            g_strdup_printf("%s %u/%u/%u", n->process->comm,
                            n->process->nested, (unsigned)n->process->pid,
                            (unsigned)n->process->tid);

        g_string_prepend(found, n->function ? n->function->name : root);
        if (n->parent) {
            g_string_prepend_c(found, ';');
        }
    }
    if (m->unnamed) {
        return !g_strcmp0(strchr(found->str, ';'), strchr(expected, ';'));
    }
    if (strcmp(found->str, expected)) {
        g_test_message("%s, not %s", found->str, expected);
    }
    return !strcmp(found->str, expected);
}

/* Where a thread is not known to be, returns show it. */
static void test_return(gconstpointer opaque)
{
    struct btrail_trace *trace;
    struct symbolizer *s = names_of(opaque, &trace);
    struct machine m;
    struct thread *t;

    machine_init(&m, s);
    t = &m.threads[VCPUS + 1];
    switch_to(&m, 0, t);
    call(&m, 0, MAIN);
    call(&m, 0, RIGHT);
    enter_kernel(&m, 0);
    call(&m, 0, WORK);
    g_assert_true(on_stack(&m, 0));

    /* It runs on vCPU 1 before it has left vCPU 0. */
    begin_switch(&m, 0, &m.threads[0]);
    begin_switch(&m, 1, t);
    end_switch(&m, 1, t);
    g_assert_false(on_stack(&m, 1));
    end_switch(&m, 0, &m.threads[0]);
    leave(&m, 1);
    g_assert_true(on_stack(&m, 1));
    g_assert_true(on_stack(&m, 0));
    leave_kernel(&m, 1);
    g_assert_true(on_stack(&m, 1));

    /* The same, and it goes to user mode at once. */
    enter_kernel(&m, 1);
    begin_switch(&m, 1, &m.threads[1]);
    begin_switch(&m, 2, t);
    end_switch(&m, 2, t);
    end_switch(&m, 1, &m.threads[1]);
    leave_kernel(&m, 2);
    g_assert_true(on_stack(&m, 2));

    /* After a gap, in user mode, */
    call(&m, 2, LEAF);
    stacks_gap(m.stacks, 2);
    call(&m, 2, LEFT);
    g_assert_false(on_stack(&m, 2));
    leave(&m, 2);
    leave(&m, 2);
    g_assert_true(on_stack(&m, 2));
    /* in the kernel, */
    enter_kernel(&m, 2);
    stacks_gap(m.stacks, 2);
    call(&m, 2, WORK);
    leave(&m, 2);
    leave_kernel(&m, 2);
    g_assert_true(on_stack(&m, 2));
    /* and on another vCPU: it may have run there. */
    enter_kernel(&m, 2);
    switch_to(&m, 2, &m.threads[2]);
    stacks_gap(m.stacks, 0);
    switch_to(&m, 1, t);
    g_assert_true(on_stack(&m, 1));
    leave_kernel(&m, 1);
    g_assert_true(on_stack(&m, 1));

    /* The trace does not name it for a while. */
    call(&m, 1, LEAF);
    enter_kernel(&m, 1);
    m.unnamed = true;
    call(&m, 1, WORK);
    m.unnamed = false;
    leave(&m, 1);
    leave_kernel(&m, 1);
    leave(&m, 1);
    g_assert_true(on_stack(&m, 1));
    machine_clear(&m);
    symbolizer_free(s);
    btrail_trace_close(trace);
}

/*
 * In a trace of one CR3, what ran with others left no record: another task is
 * there, and nothing says that the kernel has switched to it.
 */
static void test_filtered(gconstpointer opaque)
{
    struct btrail_trace *trace;
    struct symbolizer *s = names_of(opaque, &trace);
    struct thread *t, *other;
    struct machine m;

    machine_init(&m, s);
    t = &m.threads[VCPUS + 1];
    other = &m.threads[VCPUS + 2];
    other->alive = true;
    other->pid = other->tid;
    other->cr3 = space(2);
    strcpy(other->name, "other");
    m.only = t->cr3;
    switch_to(&m, 0, t);
    call(&m, 0, MAIN);
    call(&m, 0, RIGHT);
    for (unsigned i = 0; i < 10; i++) {
        enter_kernel(&m, 0);
        call(&m, 0, WORK);
        g_assert_true(on_stack(&m, 0));
        /* The end of the way back is with this CR3. */
        switch_to(&m, 0, other);
        enter_kernel(&m, 0);
        switch_to(&m, 0, t);
        /* It is where it has left, in the kernel as well. */
        g_assert_true(on_stack(&m, 0));
        leave(&m, 0);
        g_assert_true(on_stack(&m, 0));
        leave_kernel(&m, 0);
        g_assert_true(on_stack(&m, 0));
        switch_to(&m, 1, other);
        leave_kernel(&m, 1);
        enter_kernel(&m, 1);
        switch_to(&m, 1, &m.threads[1]);
    }
    machine_clear(&m);
    symbolizer_free(s);
    btrail_trace_close(trace);
}

/* Gaps everywhere: no record is lost, and none is another thread's. */
static void test_gaps(gconstpointer opaque)
{
    struct btrail_trace *trace;
    struct symbolizer *s = names_of(opaque, &trace);
    struct machine m;
    uint64_t gaps = 0;

    machine_init(&m, s);
    while (m.records < 100000) {
        unsigned vcpu = g_test_rand_int_range(0, VCPUS);
        uint64_t before = m.records;
        const struct process *p;

        m.unnamed = g_test_rand_int_range(0, 100) == 0;
        if (g_test_rand_int_range(0, 20) == 0) {
            stacks_gap(m.stacks, vcpu);
            gaps++;
        }
        step(&m, vcpu);
        if (m.records > before && !m.unnamed) {
            p = stacks_where(m.stacks, vcpu)->process;
            g_assert_cmpint(p->tid, ==, m.now[vcpu]->tid);
        }
    }
    g_assert_cmpuint(stacks_counts(m.stacks)->gaps, ==, gaps);
    g_assert_cmpuint(sum(stacks_roots(m.stacks)), ==, m.records);
    machine_clear(&m);
    symbolizer_free(s);
    btrail_trace_close(trace);
}

/* @nested is a guest of @m. */
static void nested_init(struct machine *nested, struct machine *m)
{
    machine_init(nested, m->s);
    stacks_free(nested->stacks);
    stack_edges_free(nested->edges);
    g_hash_table_unref(nested->expected);
    nested->host = m;
    nested->stacks = m->stacks;
    nested->edges = m->edges;
    nested->expected = m->expected;
    for (unsigned i = 0; i < VCPUS + TIDS; i++) {
        m->threads[i].tid = i < VCPUS ? 0 : 10 + i;
        m->threads[i].nested = 0;
        nested->threads[i].tid = m->threads[i].tid;
        nested->threads[i].nested = 2;
    }
    for (unsigned i = 0; i < VCPUS; i++) {
        nested->on[i] = i;
    }
}

/*
 * A nested guest is interrupted anywhere, and continues on that vCPU or on
 * another; the stacks of neither change while the other one runs.
 */
static void test_nested(gconstpointer opaque)
{
    struct btrail_trace *trace;
    struct symbolizer *s = names_of(opaque, &trace);

    for (unsigned moves = 0; moves < 2; moves++) {
        struct machine m, nested;

        machine_init(&m, s);
        nested_init(&nested, &m);
        nested.moving = moves;
        while (nested.records < 100000) {
            step(&m, g_test_rand_int_range(0, VCPUS));
            step_nested(&nested, g_test_rand_int_range(0, VCPUS));
        }
        g_assert_cmpuint(nested.exits, >, 10000);
        g_assert_cmpint(nested.moves > 1000, ==, moves);
        compare(&m);
        g_assert_cmpuint(stacks_counts(m.stacks)->unknown, ==, 0);
        g_assert_cmpuint(stacks_counts(m.stacks)->astray, ==, 0);
        g_assert_cmpuint(stacks_counts(m.stacks)->signals, ==, 0);
        machine_clear(&m);
    }
    symbolizer_free(s);
    btrail_trace_close(trace);
}

/* Calls, or returns, on the stack of the idle task. */
static void step_idle(struct machine *m)
{
    if (m->now[0]->n == 1 || (m->now[0]->n < 20 && g_test_rand_bit())) {
        call(m, 0, WORK);
    } else {
        leave(m, 0);
    }
}

/* The same, while the trace names no task of the nested guest */
static void test_nested_unnamed(gconstpointer opaque)
{
    struct btrail_trace *trace;
    struct symbolizer *s = names_of(opaque, &trace);
    struct machine m, nested;

    machine_init(&m, s);
    nested_init(&nested, &m);
    nested.unnamed = true;
    while (nested.records < 10000) {
        step_idle(&m);
        g_assert_true(on_stack(&m, 0));
        enter_nested(&nested, 0, address_of(top(nested.now[0])) + 1);
        step_idle(&nested);
        g_assert_true(on_stack(&nested, 0));
        exit_nested(&nested, 0, address_of(top(nested.now[0])) + 1);
    }
    g_assert_cmpuint(stacks_counts(m.stacks)->unknown, ==, 0);
    machine_clear(&m);
    symbolizer_free(s);
    btrail_trace_close(trace);
}

int main(int argc, char **argv)
{
    char *folder = scratch_new();
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/stack-thread/machine", folder, test_machine);
    g_test_add_data_func("/stack-thread/return", folder, test_return);
    g_test_add_data_func("/stack-thread/filtered", folder, test_filtered);
    g_test_add_data_func("/stack-thread/gaps", folder, test_gaps);
    g_test_add_data_func("/stack-thread/nested", folder, test_nested);
    g_test_add_data_func("/stack-thread/nested-unnamed", folder,
                         test_nested_unnamed);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
