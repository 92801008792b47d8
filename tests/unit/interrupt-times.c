/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts and softirqs: random threads take turns on two vCPUs, and each
 * nanosecond of them is given to what they are in
 */

#include <string.h>

#include "analyze/interrupt-times.h"
#include "symbolize/vectors.h"
#include "trace-samples.h"

#define THREADS     3u
#define VCPUS       2u
#define STEPS       600u
#define ROUNDS      100u
#define DEPTH       12u

enum spot {
    MAIN, OTHER, TIMER_ENTRY, NMI_ENTRY, DEVICE_ENTRY, DEVICE_MORE, PERCPU,
    DRIVER, WAKE_THREAD, SOFTIRQS, TIMER_ACTION, RCU_ACTION, RCU_MORE, SCHEDULE,
    SPOTS,
};

static struct module kernel = { .kernel = true }, program;
static const struct function functions[SPOTS] = {
    [MAIN] = { .name = "__schedule", .module = &program, .known = true },
#define KERNEL(spot, text) \
    [spot] = { .name = text, .module = &kernel, .known = true }
    KERNEL(OTHER, "other"),
    KERNEL(TIMER_ENTRY, "asm_sysvec_apic_timer_interrupt"),
    KERNEL(NMI_ENTRY, "asm_exc_nmi"),
    KERNEL(DEVICE_ENTRY, "irq_entries_start"),
    KERNEL(DEVICE_MORE, "asm_common_interrupt"),
    KERNEL(PERCPU, "__handle_irq_event_percpu"),
    KERNEL(DRIVER, "vring_interrupt"),
    KERNEL(WAKE_THREAD, "__irq_wake_thread"),
    KERNEL(SOFTIRQS, "handle_softirqs"),
    KERNEL(TIMER_ACTION, "run_timer_softirq.isra.0"),
    KERNEL(RCU_ACTION, "rcu_core_si"),
    KERNEL(RCU_MORE, "rcu_core"),
    KERNEL(SCHEDULE, "__schedule"),
};

static const struct vector_entry timer = { 0xec, "apic_timer_interrupt" };
static const struct vector_entry nmi = { 2, "nmi" };
static const struct vector_entry device = { -1, "common_interrupt" };

/* Where a thread is: what it was called by is the frame before. */
struct frame {
    struct stack_node *node;
    enum spot spot;
    enum interrupt_kind kind;
    const char *name;
    const char *vector;
    uint64_t begin;
    uint64_t own;
};

struct thread {
    struct process owner;
    struct process process;
    GPtrArray *nodes;
    struct frame frames[DEPTH];
    unsigned n;
};

struct scene {
    struct thread threads[THREADS + VCPUS];
    unsigned running[VCPUS];
    uint64_t clock;
    struct interrupt_times *times;
    GHashTable *entries;
    GArray *want;               /* of struct interrupt_time */
    GArray *got;
};

static void on_ended(void *opaque, const struct interrupt_time *t)
{
    struct scene *s = opaque;

    g_array_append_val(s->got, *t);
}

static struct frame *top(struct thread *t)
{
    return &t->frames[t->n - 1];
}

/* The node of a function that the last frame calls */
static struct stack_node *node_of(struct thread *t, enum spot spot)
{
    struct stack_node *parent = t->n ? top(t)->node : t->nodes->pdata[0], *n;

    for (guint i = 1; i < t->nodes->len; i++) {
        n = t->nodes->pdata[i];
        if (n->parent == parent && n->function == &functions[spot]) {
            return n;
        }
    }
    n = g_new0(struct stack_node, 1);
    n->parent = parent;
    n->process = &t->process;
    n->function = &functions[spot];
    n->depth = parent->depth + 1;
    g_ptr_array_add(t->nodes, n);
    return n;
}

static bool is_in_any(const struct thread *t)
{
    for (unsigned i = 0; i < t->n; i++) {
        if (t->frames[i].kind) {
            return true;
        }
    }
    return false;
}

/* What a function begins, called by the last frame */
static struct frame frame_of(struct thread *t, enum spot spot)
{
    enum spot caller = t->n ? top(t)->spot : MAIN;
    struct frame f = { .spot = spot, .node = node_of(t, spot), .vector = "",
                       .name = functions[spot].name };

    switch (spot) {
    case TIMER_ENTRY:
        f.kind = INTERRUPT;
        f.vector = "0xec";
        f.name = "apic_timer_interrupt";
        break;
    case NMI_ENTRY:
        f.kind = INTERRUPT;
        f.vector = "0x02";
        f.name = "nmi";
        break;
    case DEVICE_ENTRY:
        f.kind = INTERRUPT;
        f.name = "common_interrupt";
        break;
    case TIMER_ACTION:
    case RCU_ACTION:
    case RCU_MORE:
        f.kind = caller == SOFTIRQS ? INTERRUPT_SOFTIRQ : INTERRUPT_NONE;
        f.vector = spot == TIMER_ACTION ? "TIMER" : "RCU";
        break;
    case SCHEDULE:
        f.kind = is_in_any(t) ? INTERRUPT_OTHER : INTERRUPT_NONE;
        break;
    default:
        break;
    }
    if (!f.kind && caller == PERCPU && spot != WAKE_THREAD && spot != PERCPU &&
        spot != DEVICE_MORE && spot != MAIN) {
        f.kind = INTERRUPT_HANDLER;
        f.vector = spot == RCU_ACTION || spot == RCU_MORE ? "RCU" :
                   spot == TIMER_ACTION ? "TIMER" : "";
    }
    return f;
}

/* A nanosecond is that of what a thread is in, and of handlers in that. */
static void pass_time(struct scene *s, uint64_t ns)
{
    s->clock += ns;
    for (unsigned i = 0; i < THREADS + VCPUS; i++) {
        struct thread *t = &s->threads[i];
        bool more = true;

        for (unsigned k = t->n; more && k; k--) {
            struct frame *f = &t->frames[k - 1];

            f->own += f->kind ? ns : 0;
            more = !f->kind || f->kind == INTERRUPT_HANDLER;
        }
    }
}

static void end_frame(struct scene *s, struct thread *t, bool cut, bool counts)
{
    const struct frame *f = top(t);
    const struct interrupt_time found = {
        f->kind, f->vector, f->name, f->begin, s->clock, f->own, !cut,
    };

    if (counts && f->kind && f->kind != INTERRUPT_OTHER) {
        g_array_append_val(s->want, found);
    }
    t->n--;
}

static void begin_frame(struct scene *s, struct thread *t, enum spot spot)
{
    struct frame f = frame_of(t, spot);

    f.begin = s->clock;
    t->frames[t->n++] = f;
}

static void tell(struct scene *s, unsigned vcpu, const struct stack_node *from,
                 const struct stack_node *to)
{
    interrupt_times_tree_ops.moved(s->times, vcpu, s->clock, from, to, 0);
}

static void spend(struct scene *s, unsigned vcpu)
{
    struct thread *t = &s->threads[s->running[vcpu]];

    pass_time(s, 3);
    interrupt_times_tree_ops.spent(s->times, vcpu, s->clock, top(t)->node, 0,
                                   1);
}

static void call(struct scene *s, unsigned vcpu, enum spot spot)
{
    struct thread *t = &s->threads[s->running[vcpu]];
    const struct stack_node *from = top(t)->node;

    begin_frame(s, t, spot);
    tell(s, vcpu, from, top(t)->node);
}

/* Several at once, as for longjmp(), or one */
static void back(struct scene *s, unsigned vcpu, unsigned n)
{
    struct thread *t = &s->threads[s->running[vcpu]];
    const struct stack_node *from = top(t)->node;

    while (n--) {
        end_frame(s, t, false, true);
    }
    tell(s, vcpu, from, top(t)->node);
}

/* The function that is jumped to continues it. */
static void jump(struct scene *s, unsigned vcpu, enum spot spot)
{
    struct thread *t = &s->threads[s->running[vcpu]];
    const struct stack_node *from = top(t)->node;
    const struct frame before = *top(t);

    t->n--;
    begin_frame(s, t, spot);
    if (before.kind) {
        struct stack_node *node = top(t)->node;

        *top(t) = before;
        top(t)->node = node;
        top(t)->spot = spot;
    }
    tell(s, vcpu, from, top(t)->node);
}

/* Idle tasks are in nothing, so that nothing of them is cut. */
static void switch_to(struct scene *s, GRand *rand, unsigned vcpu)
{
    const struct stack_node *from = top(&s->threads[s->running[vcpu]])->node;
    unsigned next = g_rand_int_range(rand, 0, THREADS + 1);

    next = next == THREADS ? THREADS + vcpu : next;
    if (next == s->running[!vcpu] || next == s->running[vcpu]) {
        return;
    }
    s->running[vcpu] = next;
    tell(s, vcpu, from, top(&s->threads[next])->node);
}

static void step(struct scene *s, GRand *rand)
{
    unsigned vcpu = g_rand_int_range(rand, 0, VCPUS);
    struct thread *t = &s->threads[s->running[vcpu]];
    bool idle = s->running[vcpu] >= THREADS;

    pass_time(s, g_rand_int_range(rand, 1, 100));
    switch (g_rand_int_range(rand, 0, 10)) {
    case 0:
        switch_to(s, rand, vcpu);
        break;
    case 1:
        if (!idle && t->n > 1) {
            jump(s, vcpu, g_rand_int_range(rand, OTHER, SPOTS));
        }
        break;
    case 2 ... 5:
        if (t->n > 1) {
            back(s, vcpu, g_rand_int_range(rand, 0, 8) ? 1 :
                          g_rand_int_range(rand, 1, t->n));
        }
        break;
    default:
        if (t->n < DEPTH && !idle) {
            call(s, vcpu, g_rand_int_range(rand, OTHER, SPOTS));
        }
    }
    spend(s, vcpu);
}

static void thread_init(struct thread *t, unsigned i)
{
    struct stack_node *root = g_new0(struct stack_node, 1);

    t->owner = (struct process) { .owner = &t->owner, .tid = -1, .pid = -1 };
    t->process = (struct process) {
        .owner = &t->owner, .pid = i < THREADS ? 10 + i / 2 : 0,
        .tid = i < THREADS ? 10 + i : 0,
    };
    root->process = &t->process;
    t->nodes = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(t->nodes, root);
    t->n = 0;
    t->frames[0] = frame_of(t, MAIN);
    t->n = 1;
}

static void scene_init(struct scene *s, const struct pauses *pauses)
{
    memset(s, 0, sizeof(*s));
    s->clock = 1000;
    s->want = g_array_new(FALSE, FALSE, sizeof(struct interrupt_time));
    s->got = g_array_new(FALSE, FALSE, sizeof(struct interrupt_time));
    s->entries = g_hash_table_new(g_str_hash, g_str_equal);
    g_hash_table_insert(s->entries, (char *)functions[TIMER_ENTRY].name,
                        (gpointer)&timer);
    g_hash_table_insert(s->entries, (char *)functions[NMI_ENTRY].name,
                        (gpointer)&nmi);
    g_hash_table_insert(s->entries, (char *)functions[DEVICE_ENTRY].name,
                        (gpointer)&device);
    s->times = interrupt_times_new(&(struct interrupt_times_options) {
        .entries = s->entries, .pauses = pauses, .ended = on_ended,
        .opaque = s,
    });
    for (unsigned i = 0; i < THREADS + VCPUS; i++) {
        thread_init(&s->threads[i], i);
    }
}

static void scene_clear(struct scene *s)
{
    for (unsigned i = 0; i < THREADS + VCPUS; i++) {
        g_ptr_array_unref(s->threads[i].nodes);
    }
    interrupt_times_free(s->times);
    g_hash_table_unref(s->entries);
    g_array_unref(s->want);
    g_array_unref(s->got);
}

static void compare(const struct scene *s)
{
    for (unsigned i = 0; i < MIN(s->want->len, s->got->len); i++) {
        const struct interrupt_time *want =
            &g_array_index(s->want, struct interrupt_time, i);
        const struct interrupt_time *got =
            &g_array_index(s->got, struct interrupt_time, i);

        g_assert_cmpint(got->kind, ==, want->kind);
        g_assert_cmpstr(got->name, ==, want->name);
        g_assert_cmpstr(got->vector, ==, want->vector);
        g_assert_cmpuint(got->begin, ==, want->begin);
        g_assert_cmpuint(got->end, ==, want->end);
        g_assert_cmpuint(got->ns, ==, want->ns);
        g_assert_cmpint(got->whole, ==, want->whole);
    }
    g_assert_cmpuint(s->got->len, ==, s->want->len);
}

static void test_random(void)
{
    GRand *rand = g_rand_new_with_seed(7);
    unsigned seen = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct scene s;

        scene_init(&s, NULL);
        for (unsigned v = 0; v < VCPUS; v++) {
            s.running[v] = v;
            spend(&s, v);
        }
        for (unsigned i = 0; i < STEPS; i++) {
            step(&s, rand);
        }
        compare(&s);
        seen += s.got->len;
        scene_clear(&s);
    }
    g_assert_cmpuint(seen, >, ROUNDS * 20);
    g_rand_free(rand);
}

/* What had begun before the trace, or does not end in it, is not whole. */
static void test_partial(void)
{
    const struct interrupt_time *got;
    struct thread *t;
    struct scene s;

    scene_init(&s, NULL);
    t = &s.threads[0];
    begin_frame(&s, t, TIMER_ENTRY);
    begin_frame(&s, t, SOFTIRQS);
    begin_frame(&s, t, RCU_ACTION);
    spend(&s, 0);                               /* seen from 1003 on */
    pass_time(&s, 97);
    back(&s, 0, 1);
    spend(&s, 0);
    call(&s, 0, TIMER_ACTION);
    spend(&s, 0);
    pass_time(&s, 94);
    interrupt_times_tree_ops.gap(s.times, 0);
    pass_time(&s, 100);
    interrupt_times_tree_ops.moved(s.times, 0, s.clock, NULL,
                                   t->frames[0].node, 0);
    g_assert_cmpuint(s.got->len, ==, 3);
    got = (const void *)s.got->data;
    g_assert_cmpstr(got[0].vector, ==, "RCU");
    g_assert_cmpuint(got[0].ns, ==, 97);
    /* Up to the last record before the gap */
    g_assert_cmpstr(got[1].vector, ==, "TIMER");
    g_assert_cmpuint(got[1].ns, ==, 3);
    g_assert_cmpstr(got[2].vector, ==, "0xec");
    g_assert_cmpuint(got[2].ns, ==, 3);
    for (unsigned i = 0; i < 3; i++) {
        g_assert_false(got[i].whole);
    }
    t->n = 1;
    call(&s, 0, NMI_ENTRY);
    spend(&s, 0);
    interrupt_times_end(s.times);
    g_assert_cmpuint(s.got->len, ==, 4);
    got = (const void *)s.got->data;
    g_assert_false(got[3].whole);
    g_assert_cmpuint(got[3].ns, ==, 3);
    scene_clear(&s);
}

/* An interrupt without records that count is none. */
static void test_chosen(void)
{
    struct scene s;

    scene_init(&s, NULL);
    spend(&s, 0);
    call(&s, 0, TIMER_ENTRY);
    pass_time(&s, 10);
    call(&s, 0, NMI_ENTRY);
    back(&s, 0, 1);
    back(&s, 0, 1);
    g_assert_cmpuint(s.got->len, ==, 0);
    call(&s, 0, TIMER_ENTRY);
    spend(&s, 0);
    call(&s, 0, NMI_ENTRY);
    back(&s, 0, 2);
    g_assert_cmpuint(s.got->len, ==, 1);
    scene_clear(&s);
}

static void test_pauses(void)
{
    const struct btrail_record record = { 1, 2, 0 };
    struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_TIME,
          .data = { 1000, 0, BTRAIL_NO_ICOUNT } },
        { .type = BTRAIL_EVENT_PAUSE, .reason = BTRAIL_PAUSE_OVERFLOW,
          .data = { 1010 } },
        { .type = BTRAIL_EVENT_RESUME, .reason = BTRAIL_PAUSE_OVERFLOW,
          .data = { 1050 } },
    };
    const struct btrail_slab slab = {
        .records = &record, .n_records = 1, .events = events,
        .n_events = G_N_ELEMENTS(events),
    };
    const struct pauses_guest guest = { 0 };
    const struct interrupt_time *got;
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_writer *w;
    struct pauses *pauses;
    struct scene s;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(pauses_read(&pauses, trace, &guest), ==, 0);
    scene_init(&s, pauses);
    spend(&s, 0);
    call(&s, 0, TIMER_ENTRY);                   /* at 1003 */
    spend(&s, 0);
    call(&s, 0, NMI_ENTRY);                     /* at 1006 */
    pass_time(&s, 100);
    spend(&s, 0);
    back(&s, 0, 1);                             /* at 1109 */
    spend(&s, 0);
    back(&s, 0, 1);
    g_assert_cmpuint(s.got->len, ==, 2);
    got = (const void *)s.got->data;
    g_assert_cmpuint(got[0].ns, ==, 103 - 40);
    g_assert_cmpuint(got[1].ns, ==, 6);
    scene_clear(&s);
    pauses_free(pauses);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/random", test_random);
    g_test_add_func("/partial", test_partial);
    g_test_add_func("/chosen", test_chosen);
    g_test_add_func("/pauses", test_pauses);
    return g_test_run();
}
