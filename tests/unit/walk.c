/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk through a trace of several vCPUs and threads, which take random turns:
 * where each is at a moment, and what a search finds, against a list of all
 * records in the order in which they were made
 */

#include <string.h>

#include "find/record-reader.h"
#include "gdb/walk.h"
#include "trace-samples.h"

enum { VCPUS = 3, THREADS = 4, IDLE = THREADS, TURNS = 300, PLACES = 60 };

/* Threads of three processes, and idle tasks */
static const struct {
    uint32_t pid, tid;
    const char *name;
} threads[THREADS + 1] = {
    { 10, 10, "sh" }, { 10, 11, "a\tb" }, { 20, 20, "other" }, { 30, 30, "sh" },
    { 0, 0, "swapper" },
};

/* A record; its place in the list is its count of instructions. */
struct made {
    unsigned vcpu, thread;
    uint64_t index, from, to;
};

/**
 * struct scene
 * @made: of struct made
 * @last_vcpu:    turns after which a vCPU makes no records
 * @first_thread: and before which a thread makes none
 */
struct scene {
    char *path;
    GArray *made;
    unsigned last_vcpu[VCPUS], first_thread[THREADS];
    struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct walk *walk;
};

static const struct made *made(const struct scene *s, unsigned i)
{
    return &g_array_index(s->made, struct made, i);
}

static void put_turn(struct scene *s, struct btrail_writer *w, unsigned vcpu,
                     unsigned thread, uint64_t *next, uint64_t *last_to)
{
    struct btrail_record records[9];
    unsigned n = g_test_rand_int_range(1, 9);
    struct btrail_event events[2] = {
        { .index = next[vcpu], .type = BTRAIL_EVENT_TIME,
          .data = { 1000000 + s->made->len * 1000, 0, s->made->len } },
        { .index = next[vcpu], .type = BTRAIL_EVENT_TASK,
          .data = { (uint64_t)threads[thread].pid << 32 |
                    threads[thread].tid } },
    };
    struct btrail_slab slab = {
        .first_index = next[vcpu], .cr3 = 0x1000, .records = records,
        .n_records = n, .events = events, .n_events = 2,
    };

    memcpy(&events[1].data[1], threads[thread].name,
           strlen(threads[thread].name));
    for (unsigned i = 0; i < n; i++) {
        const struct made m = {
            vcpu, thread, next[vcpu]++, *last_to + 4,
            0x1000 + g_test_rand_int_range(0, PLACES) * 64,
        };

        records[i] = (struct btrail_record) {
            m.from, m.to, BTRAIL_RECORD_HAS_ICOUNT |
            (uint64_t)s->made->len << BTRAIL_RECORD_ICOUNT_SHIFT,
        };
        *last_to = m.to;
        g_array_append_val(s->made, m);
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

/*
 * @by_vcpu: code goes on where that of the vCPU was, and not where that of the
 * thread was; and threads need not leave a vCPU before another one runs them
 */
static void make_trace(struct scene *s, bool by_vcpu)
{
    uint64_t next[VCPUS] = { 0 }, to[THREADS + 1] = { 0 };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, s->path, BTRAIL_WRITER_REPLACE),
                    ==, 0);
    for (unsigned i = 0; i < TURNS; i++) {
        unsigned vcpu, thread;

        do {
            vcpu = g_test_rand_int_range(0, VCPUS);
        } while (i > s->last_vcpu[vcpu]);
        do {
            thread = g_test_rand_int_range(0, THREADS);
        } while (i < s->first_thread[thread]);
        put_turn(s, w, vcpu, thread, next, &to[by_vcpu ? vcpu : thread]);
        if (!by_vcpu) {
            put_turn(s, w, vcpu, IDLE, next, &to[IDLE]);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static void begin(struct scene *s, bool by_vcpu, const char *process, int vcpu)
{
    const struct walk_options options = { process, vcpu };
    g_autoptr(GError) error = NULL;

    *s = (struct scene) {
        .path = sample_path(),
        .made = g_array_new(FALSE, FALSE, sizeof(struct made)),
        .last_vcpu = { TURNS, TURNS / 2, TURNS / 3 },
        .first_thread = { TURNS / 4, TURNS / 8, 0, TURNS / 3 },
    };
    make_trace(s, by_vcpu);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    s->symbols = symbolizer_new(&(struct symbolizer_options) { NULL },
                                s->trace, NULL);
    s->walk = walk_new(s->trace, s->symbols, &options, &error);
    g_assert_no_error(error);
}

static void end(struct scene *s)
{
    walk_free(s->walk);
    symbolizer_free(s->symbols);
    btrail_trace_close(s->trace);
    g_array_unref(s->made);
    sample_remove(s->path);
}

/* Is a record of a thread of gdb? */
static bool is_of(const struct walk_thread *t, const struct made *m)
{
    return t->vcpu >= 0 ? m->vcpu == (unsigned)t->vcpu :
           threads[m->thread].tid == t->id && threads[m->thread].pid == t->pid;
}

/* The last record of a thread up to one, or its first one */
static unsigned last_of(const struct scene *s, const struct walk_thread *t,
                        unsigned at)
{
    int i = at;

    while (i >= 0 && !is_of(t, made(s, i))) {
        i--;
    }
    for (; i < 0 || !is_of(t, made(s, i)); i++) {
        continue;
    }
    return i;
}

static struct walk_thread *thread_at(const struct scene *s, unsigned i)
{
    return g_ptr_array_index(s->walk->threads, i);
}

/* The record after which a walker is, by its place in the list */
static unsigned place_of(const struct scene *s, struct walker *walker)
{
    const struct lane_record *r = walker_record(walker);

    g_assert_nonnull(r);
    for (unsigned i = 0; i < s->made->len; i++) {
        if (made(s, i)->vcpu == r->vcpu && made(s, i)->index == r->at.index) {
            return i;
        }
    }
    g_assert_not_reached();
}

/* All threads are at the moment after a record. */
static void check_at(const struct scene *s, unsigned at)
{
    for (unsigned i = 0; i < s->walk->threads->len; i++) {
        struct walk_thread *t = thread_at(s, i);

        g_assert_cmpuint(place_of(s, walk_walker(s->walk, t)), ==,
                         last_of(s, t, at));
    }
}

static void go(const struct scene *s, unsigned at)
{
    struct visit visit;

    g_assert_cmpint(record_read(s->trace, made(s, at)->vcpu, made(s, at)->index,
                                &visit), ==, 0);
    walk_go(s->walk, &visit.at);
}

/* The last record of all threads that are walked along */
static unsigned last_of_all(const struct scene *s, unsigned at)
{
    unsigned last = 0;

    for (unsigned i = 0; i < s->walk->threads->len; i++) {
        last = MAX(last, last_of(s, thread_at(s, i), at));
    }
    return last;
}

static void check_refused(struct scene *s, const char *process, int vcpu,
                          const char *why)
{
    const struct walk_options options = { process, vcpu };
    g_autoptr(GError) error = NULL;

    g_assert_null(walk_new(s->trace, s->symbols, &options, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_assert_nonnull(strstr(error->message, why));
}

/* Threads have their numbers, and all begin at the end. */
static void test_vcpus(void)
{
    struct scene s;

    begin(&s, true, NULL, -1);
    g_assert_cmpuint(s.walk->threads->len, ==, VCPUS);
    for (unsigned i = 0; i < VCPUS; i++) {
        struct walk_thread *t = walk_thread(s.walk, i + 1);

        g_assert_nonnull(t);
        g_assert_cmpint(t->vcpu, ==, i);
    }
    g_assert_null(walk_thread(s.walk, 0));
    g_assert_null(walk_thread(s.walk, VCPUS + 1));
    g_assert_cmpuint(place_of(&s, s.walk->current->walker), ==,
                     s.made->len - 1);
    check_at(&s, s.made->len - 1);
    check_refused(&s, NULL, VCPUS, "no records of vCPU 3");
    check_refused(&s, "nobody", -1, "nobody");
    end(&s);
}

/* One vCPU, which ends before others */
static void test_one(void)
{
    struct scene s;

    begin(&s, true, NULL, 2);
    g_assert_cmpuint(s.walk->threads->len, ==, 1);
    g_assert_null(walk_thread(s.walk, 1));
    g_assert_true(walk_thread(s.walk, 3) == s.walk->current);
    check_at(&s, s.made->len - 1);
    end(&s);
}

static void test_process(void)
{
    struct scene s;

    begin(&s, false, "10", -1);
    g_assert_cmpuint(s.walk->threads->len, ==, 2);
    g_assert_nonnull(walk_thread(s.walk, 10));
    g_assert_nonnull(walk_thread(s.walk, 11));
    check_at(&s, s.made->len - 1);
    end(&s);
    /* Two processes of one name */
    begin(&s, false, "sh", -1);
    g_assert_cmpuint(s.walk->threads->len, ==, 3);
    g_assert_nonnull(walk_thread(s.walk, 30));
    check_at(&s, s.made->len - 1);
    end(&s);
}

static void test_empty(void)
{
    struct scene s = { .path = sample_path() };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, s.path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s.trace, s.path), ==, 0);
    s.symbols = symbolizer_new(&(struct symbolizer_options) { NULL }, s.trace,
                               NULL);
    check_refused(&s, NULL, -1, "no records");
    check_refused(&s, NULL, 0, "no records of vCPU 0");
    symbolizer_free(s.symbols);
    btrail_trace_close(s.trace);
    sample_remove(s.path);
}

/* To moments at random: the thread that has made the record goes there. */
static void test_go(void)
{
    struct scene s;

    begin(&s, true, NULL, -1);
    for (unsigned i = 0; i < 300; i++) {
        unsigned at = g_test_rand_int_range(0, s.made->len);

        go(&s, at);
        g_assert_cmpint(s.walk->current->vcpu, ==, made(&s, at)->vcpu);
        check_at(&s, at);
    }
    end(&s);
}

/*
 * The same along the threads of a process: what others do is after what its
 * own have done last, or before all that they do.
 */
static void test_go_process(void)
{
    static const char *const processes[] = { "10", "20", "sh", "30" };

    for (unsigned k = 0; k < G_N_ELEMENTS(processes); k++) {
        struct scene s;

        begin(&s, false, processes[k], -1);
        for (unsigned i = 0; i < 300; i++) {
            unsigned at = g_test_rand_int_range(0, s.made->len);
            unsigned begun = UINT_MAX, want = 0;
            bool any = false;

            for (unsigned n = 0; n < s.walk->threads->len; n++) {
                unsigned last = last_of(&s, thread_at(&s, n), at);

                begun = MIN(begun, last);
                if (last <= at) {
                    want = MAX(want, last);
                    any = true;
                }
            }
            go(&s, at);
            g_assert_cmpuint(place_of(&s, s.walk->current->walker), ==,
                             any ? want : begun);
            check_at(&s, any ? want : begun);
        }
        end(&s);
    }
}

/* What moves takes the others along, forwards and backwards. */
static void test_moved(void)
{
    struct scene s;

    begin(&s, true, NULL, -1);
    for (unsigned i = 0; i < 300; i++) {
        struct walk_thread *t = thread_at(&s, g_test_rand_int_range(0, VCPUS));
        struct walker *walker = walk_walker(s.walk, t);

        for (int n = g_test_rand_int_range(1, 60); n; n--) {
            if (!(i % 2 ? walker_step(walker) : walker_back(walker))) {
                break;
            }
        }
        walk_moved(s.walk, t);
        g_assert_true(s.walk->current == t);
        check_at(&s, place_of(&s, walker));
        if (i % 20 == 0) {
            go(&s, g_test_rand_int_range(0, s.made->len));
        }
    }
    end(&s);
}

/* An instruction of a thread, and the record after which it was executed */
struct step {
    uint64_t pc;
    unsigned at;
};

/* Those of a thread: where a record goes to, and where the next one is */
static GArray *steps_of(const struct scene *s, const struct walk_thread *t)
{
    GArray *steps = g_array_new(FALSE, FALSE, sizeof(struct step));

    for (unsigned i = 0, last = UINT_MAX; i < s->made->len; i++) {
        if (is_of(t, made(s, i))) {
            struct step from = { made(s, i)->from, last };
            struct step to = { made(s, i)->to, i };

            if (last != UINT_MAX) {
                g_array_append_val(steps, from);
            }
            g_array_append_val(steps, to);
            last = i;
        }
    }
    return steps;
}

static bool is_wanted(uint64_t pc, const uint64_t *addresses, unsigned n)
{
    while (n && addresses[n - 1] != pc) {
        n--;
    }
    return n;
}

/* Where a thread comes to one of the addresses from where it is; -1: nowhere */
static int find_of(const struct scene *s, struct walk_thread *t, bool forward,
                   const uint64_t *addresses, unsigned n, uint64_t *pc)
{
    struct walker *walker = walk_walker(s->walk, t);
    g_autoptr(GArray) steps = steps_of(s, t);
    unsigned at = place_of(s, walker), here = 0;
    int found = -1;

    /* The first instruction there, or the last one */
    while (g_array_index(steps, struct step, here).at != at) {
        here++;
    }
    here += walker_spot(walker)->number;
    for (int i = here + (forward ? 1 : -1);
         found < 0 && i >= 0 && i < (int)steps->len; i += forward ? 1 : -1) {
        const struct step *step = &g_array_index(steps, struct step, i);

        if (is_wanted(step->pc, addresses, n)) {
            found = step->at;
            *pc = step->pc;
        }
    }
    return found;
}

static bool yes(void *opaque)
{
    return true;
}

/* So often, and not any more */
static bool some(void *opaque)
{
    unsigned *left = opaque;

    return (*left) && (*left)--;
}

static void check_search(struct scene *s, struct walk_thread *only,
                         const uint64_t *addresses, unsigned n, bool forward)
{
    int want = -1;
    uint64_t pc = 0;
    enum walker_answer answer;

    for (unsigned i = 0; i < s->walk->threads->len; i++) {
        struct walk_thread *t = thread_at(s, i);
        uint64_t at_pc;
        int at = only && t != only ? -1 : find_of(s, t, forward, addresses, n,
                                                  &at_pc);

        if (at >= 0 && (want < 0 || (at < want) == forward)) {
            want = at;
            pc = at_pc;
        }
    }
    answer = walk_search(s->walk, only, addresses, n, forward, yes, NULL);
    g_assert_cmpint(answer, ==, want < 0 ? WALKER_END : WALKER_FOUND);
    if (want >= 0) {
        g_assert_cmpuint(place_of(s, s->walk->current->walker), ==, want);
        g_assert_cmphex(walker_pc(s->walk->current->walker), ==, pc);
    } else if (only) {
        g_assert_true(s->walk->current == only);
        want = last_of(s, only, forward ? s->made->len - 1 : 0);
    } else {
        /* Where there is nothing more of any thread */
        want = forward ? last_of_all(s, s->made->len - 1) : 0;
    }
    g_assert_cmpuint(place_of(s, s->walk->current->walker), ==, want);
    check_at(s, want);
}

/* @often: how many of all addresses are searched */
static void search(unsigned often)
{
    struct scene s;

    begin(&s, true, NULL, -1);
    for (unsigned i = 0; i < 200; i++) {
        uint64_t addresses[8];
        unsigned n = g_test_rand_int_range(0, often + 1);

        for (unsigned k = 0; k < n; k++) {
            addresses[k] = 0x1000 + g_test_rand_int_range(0, PLACES) * 64 +
                           4 * g_test_rand_bit();
        }
        if (i % 4 == 0) {
            go(&s, g_test_rand_int_range(0, s.made->len));
        }
        check_search(&s, i % 3 ? NULL :
                     thread_at(&s, g_test_rand_int_range(0, VCPUS)),
                     addresses, n, g_test_rand_bit());
    }
    end(&s);
}

static void test_search(void)
{
    search(1);
    search(8);
}

/* Nobody wants it any more: it stays. */
static void test_interrupted(void)
{
    const uint64_t nowhere = 7;
    unsigned interrupted = 0;
    struct scene s;

    begin(&s, true, NULL, -1);
    for (unsigned i = 0; i < 30; i++) {
        unsigned at = g_test_rand_int_range(0, s.made->len / 2);
        struct walk_thread *t;
        unsigned left = i / 2;

        go(&s, at);
        t = s.walk->current;
        if (walk_search(s.walk, NULL, &nowhere, 1, i % 2, some, &left) ==
            WALKER_INTERRUPTED) {
            g_assert_true(s.walk->current == t);
            check_at(&s, at);
            interrupted = MAX(interrupted, i / 2);
        }
    }
    /* Also after some threads were searched */
    g_assert_cmpuint(interrupted, >, 0);
    end(&s);
}

/* The task that is about to go on, quoted */
static void test_describe(void)
{
    struct scene s;

    begin(&s, true, NULL, -1);
    for (unsigned i = 0; i < 100; i++) {
        unsigned at = g_test_rand_int_range(0, s.made->len), next = at + 1;
        g_autofree char *text = NULL, *want = NULL;
        const struct made *m;

        go(&s, at);
        text = walk_describe(s.walk, s.walk->current);
        while (next < s.made->len &&
               !is_of(s.walk->current, made(&s, next))) {
            next++;
        }
        m = made(&s, next < s.made->len ? next : at);
        want = g_strdup_printf("vCPU %u: %s %u/%u", m->vcpu, m->thread == 1 ?
                               "a\\tb" : threads[m->thread].name,
                               threads[m->thread].pid, threads[m->thread].tid);
        g_assert_cmpstr(text, ==, want);
    }
    end(&s);
    begin(&s, false, "10", -1);
    {
        g_autofree char *text = walk_describe(s.walk,
                                              walk_thread(s.walk, 11));

        g_assert_cmpstr(text, ==, "a\\tb 10/11");
    }
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/walk/vcpus", test_vcpus);
    g_test_add_func("/walk/one", test_one);
    g_test_add_func("/walk/process", test_process);
    g_test_add_func("/walk/empty", test_empty);
    g_test_add_func("/walk/go", test_go);
    g_test_add_func("/walk/go-process", test_go_process);
    g_test_add_func("/walk/moved", test_moved);
    g_test_add_func("/walk/search", test_search);
    g_test_add_func("/walk/interrupted", test_interrupted);
    g_test_add_func("/walk/describe", test_describe);
    return g_test_run();
}
