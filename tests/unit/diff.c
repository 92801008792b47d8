/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/diff.h: a small machine runs the same threads twice, at
 * other addresses, on other vCPUs, in another order and with interrupts
 * elsewhere; it keeps what each thread did itself
 */
#include <glib.h>
#include <string.h>

#include "analyze/diff.h"
#include "lib/agent/budget.h"
#include "lib/agent/trace-files.h"
#include "scratch.h"
#include "toy-code.h"

enum function_number {
    ENTRY, WORK, INTERRUPT, FAULT, TRAP,
    MAIN, LEFT, RIGHT, LEAF, EXTRA, N_FUNCTIONS,
};

static const char *const function_names[N_FUNCTIONS] = {
    "entry_SYSCALL_64", "work", "asm_sysvec_apic_timer_interrupt",
    "asm_exc_page_fault", "asm_exc_divide_error",
    "main", "left", "right", "leaf", "extra",
};

/* Offsets in a function, of a loop */
enum { LOOP = 0xc0, AGAIN = 0xd4 };

enum { VCPUS = 2, THREADS = 4, EDGES = 3000, TURN = 40, MAX_DEPTH = 12 };

/* What one thread does: addresses as if there were no slide */
struct thread {
    GArray *edges;              /* of struct btrail_record */
    GArray *functions;          /* of unsigned: that each edge is in */
};

/* One run of all threads */
struct machine {
    uint64_t slide[2];          /* of the kernel, of programs */
    const struct thread *threads;
    unsigned done[THREADS];
    GArray *places[THREADS];    /* of uint64_t: vCPU << 32 | index, of each */
    GArray *records[VCPUS];
    GArray *events[VCPUS];
    uint64_t time;
    GRand *chance;
    int lose;                   /* a thread that misses records; -1: none */
    char *trace;
    char *map;
};

static char *folder;

static uint64_t address_of(unsigned f)
{
    return f < MAIN ? TOY_KERNEL + TOY_PITCH * f :
           TOY_USER + TOY_PITCH * (f - MAIN);
}

static uint64_t call_site(unsigned caller, unsigned callee)
{
    return address_of(caller) + TOY_CALL_SITE(0, callee % MAIN);
}

static void put(const struct thread *t, unsigned f, uint64_t from, uint64_t to)
{
    const struct btrail_record r = { from, to, 0 };

    g_array_append_val(t->edges, r);
    g_array_append_val(t->functions, f);
}

/* A thread that calls, returns, loops, and calls the kernel */
static void make_thread(struct thread *t, GRand *chance)
{
    unsigned path[MAX_DEPTH] = { MAIN }, n = 1;

    t->edges = g_array_new(FALSE, FALSE, sizeof(struct btrail_record));
    t->functions = g_array_new(FALSE, FALSE, sizeof(unsigned));
    while (t->edges->len < EDGES) {
        unsigned f = path[n - 1], g = g_rand_int_range(chance, LEFT, EXTRA);

        switch (g_rand_int_range(chance, 0, 5)) {
        case 0:
            for (int i = g_rand_int_range(chance, 1, 9); i; i--) {
                put(t, f, address_of(f) + LOOP, address_of(f) + LOOP + 16);
                put(t, f, address_of(f) + AGAIN, address_of(f) + LOOP);
            }
            break;
        case 1:
            put(t, f, address_of(f) + TOY_SPECIAL, address_of(ENTRY));
            put(t, ENTRY, call_site(ENTRY, WORK), address_of(WORK));
            put(t, WORK, address_of(WORK) + TOY_RETURN,
                call_site(ENTRY, WORK) + 5);
            put(t, ENTRY, address_of(ENTRY) + TOY_SPECIAL,
                address_of(f) + TOY_SPECIAL + 2);
            break;
        case 2:
            if (n > 1) {
                n--;
                put(t, f, address_of(f) + TOY_RETURN,
                    call_site(path[n - 1], f) + 5);
            }
            break;
        default:
            if (n < MAX_DEPTH) {
                put(t, f, call_site(f, g), address_of(g));
                path[n++] = g;
            }
            break;
        }
    }
}

/* A copy with one more call, of EXTRA, before edge @at */
static struct thread add_call(const struct thread *t, unsigned at)
{
    unsigned f = g_array_index(t->functions, unsigned, at), extra = EXTRA;
    struct thread new = {
        g_array_copy(t->edges), g_array_copy(t->functions),
    };
    const struct btrail_record calls[] = {
        { call_site(f, EXTRA), address_of(EXTRA), 0 },
        { address_of(EXTRA) + TOY_RETURN, call_site(f, EXTRA) + 5, 0 },
    };

    g_array_insert_vals(new.edges, at, calls, 2);
    g_array_insert_val(new.functions, at, f);
    g_array_insert_val(new.functions, at + 1, extra);
    return new;
}

static void clear_thread(struct thread *t)
{
    g_array_unref(t->edges);
    g_array_unref(t->functions);
}

static void add_event(struct machine *m, unsigned vcpu, uint16_t type,
                      uint16_t reason, uint64_t data0, uint64_t data1,
                      uint64_t data2)
{
    const struct btrail_event e = {
        .index = m->records[vcpu]->len, .type = type, .reason = reason,
        .data = { data0, data1, data2 },
    };

    g_array_append_val(m->events[vcpu], e);
}

static uint64_t slid(const struct machine *m, uint64_t address)
{
    return address + m->slide[address < ADDRESS_SHARED];
}

static void emit(struct machine *m, unsigned vcpu, uint64_t from, uint64_t to)
{
    const struct btrail_record r = { slid(m, from), slid(m, to), 0 };

    g_array_append_val(m->records[vcpu], r);
}

/* An interrupt, or a page fault, before the instruction at @at */
static void interrupt(struct machine *m, unsigned vcpu, uint64_t at)
{
    unsigned f = g_rand_boolean(m->chance) ? INTERRUPT : FAULT;

    emit(m, vcpu, at, address_of(f));
    emit(m, vcpu, call_site(f, WORK), address_of(WORK));
    if (!g_rand_int_range(m->chance, 0, 3)) {
        /* Another one meanwhile */
        emit(m, vcpu, address_of(WORK), address_of(INTERRUPT));
        emit(m, vcpu, address_of(INTERRUPT) + TOY_SPECIAL, address_of(WORK));
    }
    emit(m, vcpu, address_of(WORK) + TOY_RETURN, call_site(f, WORK) + 5);
    emit(m, vcpu, address_of(f) + TOY_SPECIAL, at);
}

/* A thread runs for a while. */
static void turn(struct machine *m, unsigned vcpu, unsigned k)
{
    const struct thread *t = &m->threads[k];
    unsigned n = g_rand_int_range(m->chance, 1, TURN);

    add_event(m, vcpu, BTRAIL_EVENT_TIME, 0, m->time, 0, BTRAIL_NO_ICOUNT);
    add_event(m, vcpu, BTRAIL_EVENT_CR3, 0, (k + 1) << 12, 0, 0);
    add_event(m, vcpu, BTRAIL_EVENT_TASK, 0,
              (uint64_t)(k + 10) << 32 | (k + 10), 'a' + k, 0);
    if (m->lose == (int)k && m->done[k] > t->edges->len / 2) {
        m->done[k] += 50;
        m->lose = -1;
        add_event(m, vcpu, BTRAIL_EVENT_GAP, BTRAIL_GAP_OVERFLOW,
                  BTRAIL_LOST_UNKNOWN, 0, 0);
    }
    for (; n && m->done[k] < t->edges->len; n--) {
        const struct btrail_record *r = &g_array_index(
            t->edges, struct btrail_record, m->done[k]++);
        uint64_t place = (uint64_t)vcpu << 32 | m->records[vcpu]->len;

        emit(m, vcpu, r->from, r->to);
        g_array_append_val(m->places[k], place);
        if (!g_rand_int_range(m->chance, 0, 15)) {
            interrupt(m, vcpu, r->to);
        }
    }
    m->time += 1000000;
    add_event(m, vcpu, BTRAIL_EVENT_TIME, 0, m->time, 0, BTRAIL_NO_ICOUNT);
    add_event(m, vcpu, BTRAIL_EVENT_TASK, BTRAIL_TASK_KERNEL, 0, 0, 0);
    m->time += 1000000;
}

static void run(struct machine *m)
{
    for (unsigned left = THREADS; left;) {
        turn(m, g_rand_int_range(m->chance, 0, VCPUS),
             g_rand_int_range(m->chance, 0, THREADS));
        left = 0;
        for (unsigned k = 0; k < THREADS; k++) {
            left += m->done[k] < m->threads[k].edges->len;
        }
    }
}

static void make_page(struct toy_page *p, const struct machine *m, bool user)
{
    *p = (struct toy_page) {
        .address = slid(m, address_of(user ? MAIN : 0)),
        .n = user ? N_FUNCTIONS - MAIN : MAIN,
        .names = function_names + (user ? MAIN : 0),
    };
    toy_page_fill(p);
    for (unsigned f = 0; f < p->n; f++) {
        memcpy(toy_page_at(p, f, TOY_SPECIAL), user ? "\x0f\x05\x90" :
               f == ENTRY ? "\x48\x0f\x07" : "\x48\xcf\x90", 3);
        memcpy(toy_page_at(p, f, LOOP), "\x75\x0e", 2);
        memcpy(toy_page_at(p, f, AGAIN), "\x75\xea", 2);
    }
}

/* The code of both pages, and the names of all functions */
static void write_code(struct machine *m, struct btrail_writer *w)
{
    g_autoptr(GString) text = g_string_new(NULL);
    struct toy_page pages[2];
    uint64_t cr3[THREADS];

    for (unsigned user = 0; user < 2; user++) {
        make_page(&pages[user], m, user);
    }
    toy_page_names(&pages[0], text);
    for (unsigned k = 0; k < THREADS; k++) {
        cr3[k] = (k + 1) << 12;
        g_string_append_printf(text, "cr3 %x pid=%u %c\n", (k + 1) << 12,
                               k + 10, 'a' + k);
        toy_page_names(&pages[1], text);
    }
    toy_pages_write(w, pages, 2, VCPUS, cr3, THREADS);
    g_assert_true(g_file_set_contents(m->map, text->str, -1, NULL));
}

/* Runs all threads, and writes the trace. */
static void machine_init(struct machine *m, const struct thread *threads,
                         unsigned number, int lose)
{
    struct btrail_writer *w;

    *m = (struct machine) {
        .slide = { number * 0x200000, number * 0x5000 }, .threads = threads,
        .time = 1000000, .lose = lose,
        .chance = g_rand_new_with_seed(g_test_rand_int()),
        .trace = g_strdup_printf("%s/%u.btrail", folder, number),
        .map = g_strdup_printf("%s/%u.map", folder, number),
    };
    for (unsigned k = 0; k < THREADS; k++) {
        m->places[k] = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    }
    for (unsigned v = 0; v < VCPUS; v++) {
        m->records[v] = g_array_new(FALSE, FALSE,
                                    sizeof(struct btrail_record));
        m->events[v] = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    }
    run(m);
    g_assert_cmpint(btrail_writer_open(&w, m->trace, BTRAIL_WRITER_REPLACE),
                    ==, 0);
    write_code(m, w);
    for (unsigned v = 0; v < VCPUS; v++) {
        const struct btrail_slab slab = {
            .records = (struct btrail_record *)m->records[v]->data,
            .n_records = m->records[v]->len,
            .events = (struct btrail_event *)m->events[v]->data,
            .n_events = m->events[v]->len,
        };

        g_assert_cmpint(btrail_writer_append(w, v, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static void machine_clear(struct machine *m)
{
    for (unsigned k = 0; k < THREADS; k++) {
        g_array_unref(m->places[k]);
    }
    for (unsigned v = 0; v < VCPUS; v++) {
        g_array_unref(m->records[v]);
        g_array_unref(m->events[v]);
    }
    g_rand_free(m->chance);
    g_free(m->trace);
    g_free(m->map);
}

struct compared {
    struct btrail_trace *traces[DIFF_SIDES];
    struct diff_options options;
    struct diff diff;
};

static void compare(struct compared *c, const struct machine *m)
{
    unsigned side;

    for (side = 0; side < DIFF_SIDES; side++) {
        const struct symbolizer_options names = { .map = m[side].map };

        g_assert_cmpint(btrail_trace_open(&c->traces[side], m[side].trace),
                        ==, 0);
        c->options.input[side] = (struct diff_input) {
            c->traces[side], symbolizer_new(&names, c->traces[side], NULL),
            WINDOW_ALL(0),
        };
    }
    g_assert_cmpint(diff_run(&c->diff, &c->options, &side), ==, 0);
}

static void compared_clear(struct compared *c)
{
    diff_clear(&c->diff);
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        symbolizer_free(c->options.input[side].names);
        btrail_trace_close(c->traces[side]);
    }
}

static const struct diff_pair *pair_of(const struct compared *c, unsigned k)
{
    for (unsigned i = 0; i < c->diff.pairs->len; i++) {
        const struct diff_pair *pair = c->diff.pairs->pdata[i];

        if (pair->task[0]->pid == (int64_t)k + 10) {
            g_assert_true(pair->task[0]->other == pair->task[1]);
            return pair;
        }
    }
    g_assert_not_reached();
}

static void make_threads(struct thread *threads)
{
    g_autoptr(GRand) chance = g_rand_new_with_seed(g_test_rand_int());

    for (unsigned k = 0; k < THREADS; k++) {
        make_thread(&threads[k], chance);
    }
}

static bool in_kernel(const struct btrail_record *r)
{
    return r->from >= ADDRESS_SHARED && r->to >= ADDRESS_SHARED;
}

static bool in_user(const struct btrail_record *r)
{
    return r->from < ADDRESS_SHARED && r->to < ADDRESS_SHARED;
}

/* How many of a thread's edges are compared */
static uint64_t chosen(const struct thread *t, unsigned end, bool user,
                       bool kernel)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < end; i++) {
        const struct btrail_record *r = &g_array_index(
            t->edges, struct btrail_record, i);

        n += (user && !in_kernel(r)) || (kernel && !in_user(r));
    }
    return n;
}

static void test_same(void)
{
    struct thread threads[THREADS];
    struct machine m[DIFF_SIDES];

    make_threads(threads);
    machine_init(&m[0], threads, 0, -1);
    machine_init(&m[1], threads, 1, -1);
    for (unsigned parts = 1; parts < 4; parts++) {
        struct compared c = {
            .options = { .user = parts & 1, .kernel = parts & 2 },
        };

        compare(&c, m);
        g_assert_false(c.diff.differs);
        g_assert_cmpuint(c.diff.pairs->len, ==, THREADS);
        g_assert_cmpuint(c.diff.functions->len, ==, 0);
        for (unsigned k = 0; k < THREADS; k++) {
            const struct diff_pair *pair = pair_of(&c, k);

            g_assert_cmpuint(pair->same, ==, chosen(
                &threads[k], threads[k].edges->len, parts & 1, parts & 2));
            g_assert_cmpuint(pair->edges[0], ==, pair->same);
            g_assert_cmpuint(pair->edges[1], ==, pair->same);
        }
        compared_clear(&c);
    }
    machine_clear(&m[0]);
    machine_clear(&m[1]);
    for (unsigned k = 0; k < THREADS; k++) {
        clear_thread(&threads[k]);
    }
}

static void check_side(const struct machine *m, unsigned k, unsigned at,
                       const struct diff_side *side)
{
    uint64_t place = g_array_index(m->places[k], uint64_t, at);

    g_assert_true(side->placed);
    g_assert_cmpuint(side->at, ==, at);
    g_assert_cmpuint(side->vcpu, ==, place >> 32);
    g_assert_cmpuint(side->index, ==, place & UINT32_MAX);
}

/* One thread calls one more function once, in one of the runs. */
static void check_one(unsigned k, unsigned at, unsigned changed)
{
    struct compared c = { .options = { .user = true, .kernel = true } };
    struct thread threads[DIFF_SIDES][THREADS];
    const struct diff_function *extra;
    const struct diff_group *g;
    const struct diff_pair *pair;
    struct machine m[DIFF_SIDES];
    unsigned f;

    make_threads(threads[!changed]);
    memcpy(threads[changed], threads[!changed], sizeof(threads[changed]));
    do {
        f = g_array_index(threads[0][k].functions, unsigned, at++);
    } while (f < MAIN);
    threads[changed][k] = add_call(&threads[!changed][k], --at);
    machine_init(&m[0], threads[0], 0, -1);
    machine_init(&m[1], threads[1], 1, -1);
    compare(&c, m);
    g_assert_true(c.diff.differs);
    for (unsigned i = 0; i < THREADS; i++) {
        g_assert_cmpuint(pair_of(&c, i)->differences, ==, i == k);
    }
    pair = pair_of(&c, k);
    g_assert_cmpuint(pair->same, ==, threads[!changed][k].edges->len);
    g_assert_cmpuint(pair->groups->len, ==, 1);
    g = pair->groups->pdata[0];
    g_assert_cmpstr(g->function->name, ==, function_names[f]);
    g_assert_cmpint(g->end, ==, DIFF_TOGETHER);
    g_assert_cmpuint(g->fresh, ==, 2);
    g_assert_cmpuint(g->side[changed].n, ==, 2);
    g_assert_cmpuint(g->side[!changed].n, ==, 0);
    check_side(&m[0], k, at, &g->side[0]);
    check_side(&m[1], k, at, &g->side[1]);
    g_assert_cmpuint(c.diff.fresh->len, ==, 1);
    g_assert_cmpuint(c.diff.functions->len, ==, 1);
    extra = c.diff.functions->pdata[0];
    g_assert_cmpstr(extra->name, ==, function_names[EXTRA]);
    g_assert_cmpuint(extra->calls[changed], ==, 1);
    g_assert_cmpuint(extra->calls[!changed], ==, 0);
    compared_clear(&c);
    machine_clear(&m[0]);
    machine_clear(&m[1]);
    clear_thread(&threads[changed][k]);
    for (unsigned i = 0; i < THREADS; i++) {
        clear_thread(&threads[!changed][i]);
    }
}

static void test_one(void)
{
    for (unsigned i = 0; i < 10; i++) {
        check_one(g_test_rand_int_range(0, THREADS),
                  g_test_rand_int_range(100, EDGES - 100), i % 2);
    }
}

/* Missing records are no difference, and what is after them is compared. */
static void test_gap(void)
{
    struct compared c = { .options = { .user = true, .kernel = true } };
    struct thread threads[THREADS];
    struct machine m[DIFF_SIDES];
    const struct diff_pair *pair;

    make_threads(threads);
    machine_init(&m[0], threads, 0, -1);
    machine_init(&m[1], threads, 1, 2);
    compare(&c, m);
    for (unsigned k = 0; k < THREADS; k++) {
        /* Where records are missing, loops may be taken for one another. */
        g_assert_cmpuint(pair_of(&c, k)->differences, <=, k == 2 ? 2 : 0);
    }
    pair = pair_of(&c, 2);
    g_assert_cmpuint(pair->gaps, >, 0);
    g_assert_cmpuint(pair->same, <=, threads[2].edges->len - 50);
    g_assert_cmpuint(pair->same, >=, threads[2].edges->len - 300);
    compared_clear(&c);
    machine_clear(&m[0]);
    machine_clear(&m[1]);
    for (unsigned k = 0; k < THREADS; k++) {
        clear_thread(&threads[k]);
    }
}

static void test_process(void)
{
    struct thread threads[THREADS];
    struct machine m[DIFF_SIDES];
    static const char *const chosen_names[] = { "b", "11", "none" };

    make_threads(threads);
    machine_init(&m[0], threads, 0, -1);
    machine_init(&m[1], threads, 1, -1);
    for (unsigned i = 0; i < G_N_ELEMENTS(chosen_names); i++) {
        struct compared c = {
            .options = {
                .user = true, .kernel = true, .process = chosen_names[i],
            },
        };

        compare(&c, m);
        g_assert_cmpuint(c.diff.pairs->len, ==, i < 2);
        compared_clear(&c);
    }
    machine_clear(&m[0]);
    machine_clear(&m[1]);
    for (unsigned k = 0; k < THREADS; k++) {
        clear_thread(&threads[k]);
    }
}

/* Edges that wait, and what the traces are decoded in, take no more than edges
 * alone may. */
static void test_kept(void)
{
    enum { GIB = 1 << 30, EDGES_OF_GIB = GIB / sizeof(uint32_t) };
    struct thread threads[THREADS];
    struct diff_options options = { .user = true };
    struct btrail_budget *budgets[DIFF_SIDES];
    struct btrail_trace *trace[DIFF_SIDES];
    struct machine m[DIFF_SIDES];

    make_threads(threads);
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        machine_init(&m[side], threads, side, -1);
        g_assert_cmpint(btrail_trace_open(&trace[side], m[side].trace), ==, 0);
        options.input[side].trace = trace[side];
        budgets[side] = btrail_trace_decoding(trace[side]);
    }
    g_assert_cmpuint(diff_most_kept(&options), ==, 2 * EDGES_OF_GIB);
    g_assert_true(btrail_budget_take(budgets[1], GIB));
    g_assert_cmpuint(diff_most_kept(&options), ==, EDGES_OF_GIB);
    g_assert_true(btrail_budget_take(budgets[0], GIB / 2));
    g_assert_cmpuint(diff_most_kept(&options), ==, EDGES_OF_GIB / 2);
    /* Some can wait in any case. */
    g_assert_true(btrail_budget_take(budgets[0], GIB));
    g_assert_cmpuint(diff_most_kept(&options), ==, 1 << 24);
    btrail_budget_give(budgets[0], GIB + GIB / 2);
    btrail_budget_give(budgets[1], GIB);
    g_assert_cmpuint(diff_most_kept(&options), ==, 2 * EDGES_OF_GIB);
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        btrail_trace_close(trace[side]);
        machine_clear(&m[side]);
    }
    for (unsigned k = 0; k < THREADS; k++) {
        clear_thread(&threads[k]);
    }
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    folder = scratch_new();
    g_test_add_func("/diff/same", test_same);
    g_test_add_func("/diff/one", test_one);
    g_test_add_func("/diff/gap", test_gap);
    g_test_add_func("/diff/process", test_process);
    g_test_add_func("/diff/kept", test_kept);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
