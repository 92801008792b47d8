/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls that take long: threads, vCPUs, returns that do not come
 */

#include <string.h>

#include "drain/long-calls.h"

#define MS      UINT64_C(1000000)
#define TICK    MS
#define LONG    (10 * MS)
#define VCPUS   3

#define SITE    UINT64_C(0x401000)
#define OTHER   UINT64_C(0x402000)
#define CR3     UINT64_C(0x5000)

static struct long_calls *c;
static uint64_t now[VCPUS];     /* of the last TIME event */

static unsigned put(unsigned vcpu, uint16_t type, uint64_t data)
{
    const struct btrail_event e = { .type = type, .data = { data } };

    return long_calls_event(c, vcpu, &e);
}

static unsigned at(unsigned vcpu, uint64_t ms)
{
    now[vcpu] = ms * MS;
    return put(vcpu, BTRAIL_EVENT_TIME, now[vcpu]);
}

/* @time: 0 if the thread was on no other vCPU since it was on this one */
static unsigned run_at(unsigned vcpu, uint64_t thread, uint64_t time)
{
    const struct btrail_event e = {
        .type = BTRAIL_EVENT_TASK,
        .clock = time ? MAX((uint32_t)(time / BTRAIL_CLOCK_NS), 1) : 0,
        .data = { thread },
    };

    return long_calls_event(c, vcpu, &e);
}

static void change(unsigned vcpu, uint16_t type, uint16_t reason, uint64_t ms)
{
    const struct btrail_event e = {
        .type = type, .reason = reason, .data = { ms * MS },
    };

    now[vcpu] = ms * MS;
    g_assert_cmpuint(long_calls_event(c, vcpu, &e), ==, 0);
}

/* A vCPU waits for room, or stands with the guest. */
static void paused(unsigned vcpu, uint16_t reason, uint64_t begin, uint64_t end)
{
    change(vcpu, BTRAIL_EVENT_PAUSE, reason, begin);
    change(vcpu, BTRAIL_EVENT_RESUME, reason, end);
}

static void run(unsigned vcpu, uint64_t thread)
{
    g_assert_cmpuint(run_at(vcpu, thread, now[vcpu]), ==, 0);
}

static void begin(unsigned vcpu, uint64_t from)
{
    long_calls_begin(c, vcpu, CR3, from);
}

static bool end(unsigned vcpu, uint64_t to)
{
    return long_calls_end(c, vcpu, CR3, to);
}

/* All vCPUs are known up to then.  Returns how many calls are found by that. */
static unsigned known(uint64_t ms)
{
    for (unsigned i = 0; i < VCPUS; i++) {
        long_calls_passed(c, i, ms * MS);
    }
    return long_calls_waiting(c);
}

static void make(void)
{
    memset(now, 0, sizeof(now));
    c = long_calls_new(LONG);
    long_calls_set_device(c, TICK, VCPUS);
}

static void drop(void)
{
    long_calls_free(c);
}

/* A call from a place that has returned before */
static void make_known(void)
{
    make();
    run(0, 1);
    at(0, 1);
    begin(0, SITE);
    g_assert_false(end(0, SITE + 5));
    g_assert_cmpuint(known(2), ==, 0);
    at(0, 2);
}

/* Never too early, and late by two ticks at most */
static void test_limit(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    at(0, 101);
    g_assert_cmpuint(at(0, 110), ==, 0);
    g_assert_cmpuint(at(0, 111), ==, 0);
    g_assert_cmpuint(at(0, 112), ==, 1);
    /* Once */
    g_assert_cmpuint(at(0, 200), ==, 0);
    g_assert_false(end(0, SITE + 2));
    at(0, 300);
    begin(0, SITE);
    at(0, 301);
    at(0, 309);
    g_assert_false(end(0, SITE + 9));
    g_assert_cmpuint(at(0, 400), ==, 0);
    drop();
}

/* What happened since the last tick can have happened just before this one. */
static void test_late_tick(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    at(0, 120);
    g_assert_false(end(0, SITE + 5));
    begin(0, SITE);
    run(0, 2);
    at(0, 140);
    run(0, 1);
    g_assert_cmpuint(at(0, 141), ==, 0);
    g_assert_cmpuint(known(150), ==, 0);
    g_assert_cmpuint(known(152), ==, 1);
    g_assert_false(end(0, SITE + 5));
    /* An idle vCPU has no ticks. */
    begin(0, OTHER);
    run(0, 0);
    at(0, 160);
    g_assert_cmpuint(known(170), ==, 0);
    run(0, 1);
    g_assert_true(end(0, OTHER + 5));
    drop();
}

/* A place that is new can be a jump, whose call is not seen to end. */
static void test_new_site(void)
{
    make();
    run(0, 1);
    at(0, 100);
    begin(0, SITE);
    at(0, 101);
    g_assert_cmpuint(at(0, 200), ==, 0);
    g_assert_cmpuint(known(200), ==, 0);
    g_assert_false(end(0, SITE));
    g_assert_false(end(0, SITE + 10));
    g_assert_false(end(0, OTHER + 5));
    g_assert_true(end(0, SITE + 1));
    begin(0, SITE);
    at(0, 201);
    g_assert_cmpuint(at(0, 300), ==, 1);
    drop();
}

/* A jump never ends; calls after it are found nevertheless. */
static void test_jump(void)
{
    make_known();
    at(0, 100);
    begin(0, OTHER);
    at(0, 101);
    begin(0, SITE);
    at(0, 102);
    g_assert_cmpuint(at(0, 120), ==, 1);
    g_assert_false(end(0, SITE + 5));
    begin(0, OTHER);
    begin(0, SITE);
    at(0, 121);
    g_assert_cmpuint(at(0, 140), ==, 1);
    /* It was a call, and the other one part of it. */
    g_assert_true(end(0, OTHER + 5));
    g_assert_false(end(0, SITE + 5));
    begin(0, OTHER);
    begin(0, SITE);
    at(0, 141);
    g_assert_cmpuint(at(0, 160), ==, 1);
    g_assert_false(end(0, SITE + 5));
    g_assert_false(end(0, OTHER + 5));
    drop();
}

/* Each thread has its call, wherever it runs. */
static void test_threads(void)
{
    make_known();
    at(1, 1);
    at(0, 100);
    begin(0, SITE);
    run(0, 2);
    begin(0, SITE);
    at(0, 101);
    g_assert_cmpuint(known(105), ==, 0);
    g_assert_cmpuint(at(0, 109), ==, 0);
    g_assert_cmpuint(at(0, 112), ==, 1);
    at(1, 113);
    run(1, 1);
    g_assert_false(end(0, SITE + 5));
    g_assert_false(end(1, SITE + 5));
    g_assert_cmpuint(known(114), ==, 1);
    /* The idle threads of two vCPUs have one number. */
    run(0, 0);
    run(1, 0);
    at(0, 300);
    at(1, 300);
    begin(0, SITE);
    g_assert_false(end(1, SITE + 5));
    at(0, 301);
    g_assert_cmpuint(at(0, 320), ==, 1);
    g_assert_cmpuint(at(0, 321), ==, 0);
    g_assert_false(end(0, SITE + 5));
    drop();
}

/* One that waits is found by what the vCPUs are known to have done since. */
static void test_waiting(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    run(0, 0);
    g_assert_cmpuint(at(0, 150), ==, 0);
    g_assert_cmpuint(long_calls_waiting(c), ==, 0);
    g_assert_cmpuint(known(111), ==, 0);
    long_calls_passed(c, 1, 900 * MS);
    g_assert_cmpuint(long_calls_waiting(c), ==, 0);
    g_assert_cmpuint(known(150), ==, 1);
    g_assert_cmpuint(known(900), ==, 0);
    run(0, 1);
    g_assert_false(end(0, SITE + 5));
    drop();
}

/* It returns on a vCPU of which less is known than of others. */
static void test_waits_for_all(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    run(0, 0);
    known(101);
    /* What it does on vCPU 1 is not handed over yet. */
    at(2, 150);
    at(0, 150);
    g_assert_cmpuint(long_calls_waiting(c), ==, 0);
    run(0, 1);
    at(0, 151);
    g_assert_cmpuint(at(0, 170), ==, 0);
    g_assert_false(end(0, SITE + 5));
    g_assert_cmpuint(long_calls_waiting(c), ==, 0);
    at(1, 105);
    run(1, 1);
    g_assert_false(end(1, SITE + 5));
    at(1, 106);
    begin(1, SITE);
    at(1, 107);
    run(1, 0);
    /* From 106 to 170 */
    g_assert_cmpuint(known(200), ==, 1);
    g_assert_cmpuint(known(900), ==, 0);
    drop();
}

/* A silent vCPU, which is known to have done nothing for long, does not run a
 * thread any more that another one has run since. */
static void test_claim(void)
{
    make_known();
    at(1, 50);
    run(1, 1);
    begin(1, SITE);
    run(1, 2);
    g_assert_cmpuint(known(60), ==, 0);
    g_assert_cmpuint(known(2000), ==, 1);
    drop();
}

/*
 * A thread calls twice, and moves in between: the second call is handed over
 * before the return of the first.
 */
static void test_second_call_first(void)
{
    for (int late = 0; late < 2; late++) {
        make_known();
        at(0, 100);
        at(1, 100);
        known(99);
        begin(0, SITE);
        at(0, 101);
        if (!late) {
            g_assert_false(end(0, SITE + 5));
            run(0, 0);
            at(0, 103);
        }
        at(1, 103);
        run(1, 1);
        begin(1, SITE);
        at(1, 104);
        if (late) {
            g_assert_false(end(0, SITE + 5));
            run(0, 0);
            at(0, 105);
        }
        g_assert_cmpuint(at(1, 114), ==, 0);
        g_assert_cmpuint(known(110), ==, 0);
        g_assert_cmpuint(at(1, 120), ==, 1);
        g_assert_false(end(1, SITE + 5));
        g_assert_cmpuint(known(900), ==, 0);
        drop();
    }
}

/* Short calls on two vCPUs are no long one, in whatever order they come. */
static void test_short_calls(void)
{
    make_known();
    at(0, 100);
    at(1, 100);
    known(99);
    begin(0, SITE);
    at(0, 101);
    /* Then it returns, calls again, and moves. */
    at(1, 150);
    run(1, 1);
    g_assert_false(end(1, SITE + 5));
    g_assert_cmpuint(at(1, 151), ==, 0);
    g_assert_false(end(0, SITE + 5));
    at(0, 149);
    begin(0, SITE);
    run(0, 0);
    g_assert_cmpuint(known(900), ==, 0);
    drop();
}

/*
 * The place of a call is not known yet when its return is handed over: it must
 * not last, but what comes after it is found.
 */
static void test_unknown_place(void)
{
    make_known();
    at(0, 100);
    at(1, 105);
    run(1, 1);
    g_assert_false(end(1, OTHER + 5));
    run(1, 0);
    begin(0, OTHER);
    run(0, 0);
    /* Another thread shows that the place is none of a jump. */
    run(2, 2);
    at(2, 106);
    begin(2, OTHER);
    g_assert_false(end(2, OTHER + 5));
    g_assert_cmpuint(known(900), ==, 0);
    at(1, 1000);
    run(1, 1);
    begin(1, OTHER);
    at(1, 1001);
    g_assert_cmpuint(at(1, 1020), ==, 1);
    drop();
}

/* Calls that the function makes of itself, and a return that was not seen */
static void test_nested(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    at(0, 101);
    at(0, 109);
    begin(0, OTHER);
    g_assert_false(end(0, OTHER + 5));
    at(0, 110);
    g_assert_cmpuint(at(0, 112), ==, 1);
    g_assert_false(end(0, SITE + 5));
    at(0, 200);
    begin(0, SITE);
    at(0, 201);
    at(0, 209);
    begin(0, SITE);
    at(0, 210);
    g_assert_cmpuint(at(0, 215), ==, 0);
    g_assert_cmpuint(at(0, 221), ==, 1);
    drop();
}

/* Without what it did, or the time, nothing is known of a call. */
static void test_unknown(void)
{
    make();
    run(0, 1);
    begin(0, SITE);
    at(0, 100);
    g_assert_false(end(0, SITE + 5));
    drop();
    make_known();
    at(0, 100);
    begin(0, SITE);
    at(0, 101);
    put(0, BTRAIL_EVENT_GAP, 0);
    g_assert_cmpuint(at(0, 120), ==, 1);
    g_assert_false(end(0, SITE + 5));
    begin(0, SITE);
    put(0, BTRAIL_EVENT_GAP, 3);
    g_assert_cmpuint(at(0, 140), ==, 0);
    run(0, 1);
    begin(0, SITE);
    long_calls_lost(c, 1);
    g_assert_cmpuint(at(0, 200), ==, 0);
    g_assert_cmpuint(known(900), ==, 0);
    g_assert_false(end(0, SITE + 5));
    drop();
}

/* A guest without tasks: address spaces, whose calls are found at the end. */
static void test_no_tasks(void)
{
    make();
    at(0, 1);
    begin(0, SITE);
    g_assert_false(end(0, SITE + 5));
    begin(0, SITE);
    at(0, 2);
    g_assert_cmpuint(at(0, 50), ==, 0);
    g_assert_false(long_calls_end(c, 0, 0x6000, SITE + 5));
    g_assert_true(long_calls_end(c, 0, CR3 | 1, SITE + 5));
    /* A tick is late: it may have begun just before that. */
    begin(0, SITE);
    at(0, 100);
    at(0, 110);
    g_assert_false(long_calls_end(c, 0, CR3, SITE + 5));
    drop();
}

/* The guest makes more threads, and calls from more places, than it may. */
static void test_many(void)
{
    make_known();
    for (uint64_t i = 0; i < 20000; i++) {
        run(0, i);
        at(0, 100 + i);
        begin(0, SITE + i * 16);
        if (i % 3) {
            end(0, SITE + i * 16 + 5);
        }
    }
    known(29000);
    run(0, 1);
    at(0, 30000);
    begin(0, SITE);
    at(0, 30001);
    g_assert_cmpuint(at(0, 30050), ==, 1);
    drop();
}

/*
 * Random guests, of which each vCPU's events are known with their true times,
 * and are handed over in any order of vCPUs
 */

#define STEPS       60

enum { TICK_EVENT, TASK_EVENT, BEGIN, END };

/* @moved: of TASK_EVENT: the thread comes from another vCPU */
struct step {
    unsigned kind;
    uint64_t value;
    uint64_t time;
    bool moved;
};

/* What a vCPU did; its tick comes with the first thing that it does after it */
struct stream {
    GArray *steps;
    uint64_t last, next;        /* ticks: was; comes not before */
    guint handed;
};

struct guest {
    struct stream vcpus[VCPUS];
    uint64_t now;
    uint64_t most_late;         /* of a tick */
    unsigned longer, much_longer;
};

static uint64_t between(uint64_t a, uint64_t b)
{
    return a + (uint64_t)g_test_rand_int_range(0, (gint32)(b - a));
}

static struct step *put_step(struct stream *v, unsigned kind, uint64_t value,
                             uint64_t time)
{
    const struct step step = { kind, value, time, false };

    g_array_append_val(v->steps, step);
    return &g_array_index(v->steps, struct step, v->steps->len - 1);
}

/* The vCPU does something at @time. */
static void does(struct guest *g, struct stream *v, uint64_t time)
{
    if (time >= v->next) {
        put_step(v, TICK_EVENT, 0, time);
        v->last = time;
        v->next = time - time % TICK + TICK + between(0, g->most_late + 1);
    }
}

/* The next tick is in time. */
static void be_in_time(struct stream *v)
{
    v->next = MIN(v->next, v->last - v->last % TICK + TICK);
}

/* A thread runs there up to now, since @from. */
static void runs(struct guest *g, struct stream *v, uint64_t from)
{
    for (uint64_t t = from; t < g->now; t += TICK / 4) {
        does(g, v, t);
    }
    does(g, v, g->now);
}

/*
 * A thread, which moves, waits, and calls; the vCPUs idle else.  If a vCPU has
 * made no tick when it becomes idle nobody knows that it should have.
 */
static void make_thread(struct guest *g, uint64_t thread)
{
    const struct stream *last = NULL;
    uint64_t begin = 0;

    for (unsigned i = 0; i < STEPS; i++) {
        struct stream *v = &g->vcpus[between(0, VCPUS)];
        unsigned parts = (unsigned)between(1, 4);

        be_in_time(v);
        does(g, v, g->now);
        put_step(v, TASK_EVENT, thread, g->now)->moved = v != last;
        last = v;
        for (unsigned k = 0; k < parts; k++) {
            uint64_t from = g->now;

            g->now += between(0, 2) ? between(1, TICK * 2) :
                      between(1, LONG * 2);
            runs(g, v, from);
            if (between(0, 2)) {
                put_step(v, begin ? END : BEGIN, 0, g->now);
                if (begin) {
                    g->longer += g->now - begin > LONG;
                    g->much_longer += g->now - begin >
                                      LONG + 2 * TICK + 2 * g->most_late;
                }
                begin = begin ? 0 : g->now;
            }
        }
        g->now += between(1, 1000);
        be_in_time(v);
        does(g, v, g->now);
        put_step(v, TASK_EVENT, 0, g->now);
        g->now += between(1, between(0, 4) ? TICK : LONG * 2);
    }
    /* One that never ends */
    g->longer += begin != 0;
    g->much_longer += begin != 0;
}

static unsigned hand(unsigned vcpu, const struct step *step)
{
    switch (step->kind) {
    case TICK_EVENT:
        return put(vcpu, BTRAIL_EVENT_TIME, step->time);
    case TASK_EVENT:
        return run_at(vcpu, step->value, step->moved ? step->time : 0);
    case BEGIN:
        begin(vcpu, SITE);
        return 0;
    default:
        return end(vcpu, SITE + 5);
    }
}

/* Hands over some of what a vCPU did, or all. */
static unsigned hand_some(struct stream *v, unsigned vcpu, guint n)
{
    unsigned found = 0;

    for (; n && v->handed < v->steps->len; n--) {
        found += hand(vcpu, &g_array_index(v->steps, struct step,
                                           v->handed++));
    }
    return found;
}

static uint64_t passed(const struct stream *v)
{
    return v->handed < v->steps->len ?
           g_array_index(v->steps, struct step, v->handed).time : UINT64_MAX;
}

/* The vCPU of which least was handed over */
static unsigned first_of(struct guest *g)
{
    unsigned first = 0;

    for (unsigned i = 1; i < VCPUS; i++) {
        if (passed(&g->vcpus[i]) < passed(&g->vcpus[first])) {
            first = i;
        }
    }
    return first;
}

static unsigned hand_all(struct guest *g)
{
    unsigned found = 0, i;

    while (passed(&g->vcpus[first_of(g)]) != UINT64_MAX) {
        i = (unsigned)between(0, VCPUS);
        if (passed(&g->vcpus[i]) > passed(&g->vcpus[first_of(g)]) +
            5 * LONG) {
            i = first_of(g);
        }
        found += hand_some(&g->vcpus[i], i, (guint)between(1, 100));
        if (!between(0, 3)) {
            for (i = 0; i < VCPUS; i++) {
                long_calls_passed(c, i, passed(&g->vcpus[i]));
            }
            found += long_calls_waiting(c);
        }
    }
    for (i = 0; i < VCPUS; i++) {
        long_calls_passed(c, i, UINT64_MAX / 2);
    }
    return found + long_calls_waiting(c);
}

static void random_guest(uint64_t late)
{
    struct guest g = { .now = 10 * MS, .most_late = late };
    unsigned found;

    make_known();
    run(0, 0);
    known(2);
    for (unsigned i = 0; i < VCPUS; i++) {
        g.vcpus[i].steps = g_array_new(FALSE, FALSE, sizeof(struct step));
    }
    make_thread(&g, 1);
    found = hand_all(&g);
    g_assert_cmpuint(found, <=, g.longer);
    g_assert_cmpuint(found, >=, g.much_longer);
    for (unsigned i = 0; i < VCPUS; i++) {
        g_array_unref(g.vcpus[i].steps);
    }
    drop();
}

static void test_any_order(void)
{
    for (unsigned i = 0; i < 2000; i++) {
        random_guest(0);
        random_guest(20 * MS);
    }
}

#define ROOM    BTRAIL_PAUSE_OVERFLOW
#define STOP    BTRAIL_PAUSE_VM_STOP

/* Pauses of its vCPU do not count, how many there are and in each other. */
static void test_paused(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    at(0, 101);
    paused(0, ROOM, 102, 200);
    at(0, 201);
    change(0, BTRAIL_EVENT_PAUSE, ROOM, 202);
    paused(0, STOP, 210, 220);
    change(0, BTRAIL_EVENT_RESUME, ROOM, 300);
    /* It has 1, 1 and 2 ms up to here, of which one can be before it. */
    g_assert_cmpuint(at(0, 306), ==, 0);
    g_assert_cmpuint(at(0, 307), ==, 0);
    g_assert_cmpuint(at(0, 309), ==, 1);
    g_assert_false(end(0, SITE + 5));
    /* It returns. */
    begin(0, SITE);
    paused(0, ROOM, 310, 400);
    at(0, 409);
    g_assert_false(end(0, SITE + 5));
    /* What was before it does not matter. */
    begin(0, SITE);
    at(0, 410);
    g_assert_cmpuint(at(0, 422), ==, 1);
    drop();
}

/* While a thread waits, whatever it waits for may be paused. */
static void test_paused_waiting(void)
{
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        make_known();
        at(0, 100);
        begin(0, SITE);
        /* This comes first, though what vCPU 0 did before comes later. */
        if (vcpu) {
            paused(vcpu, ROOM, 105, 200);
        }
        at(0, 101);
        run(0, 0);
        if (!vcpu) {
            paused(vcpu, ROOM, 105, 200);
        }
        g_assert_cmpuint(known(205), ==, 0);
        /* A stop is one of all vCPUs. */
        for (unsigned i = 0; i < VCPUS; i++) {
            paused(i, STOP, 205, 300);
        }
        g_assert_cmpuint(known(300), ==, 0);
        /* 4 and 5 ms up to here */
        g_assert_cmpuint(known(301), ==, 0);
        change(0, BTRAIL_EVENT_PAUSE, STOP, 301);
        /* It lasts. */
        g_assert_cmpuint(known(900), ==, 0);
        change(0, BTRAIL_EVENT_RESUME, STOP, 900);
        g_assert_cmpuint(known(902), ==, 1);
        drop();
    }
}

/* It goes on elsewhere, where it is paused, too; or did and returned. */
static void test_paused_moves(void)
{
    for (unsigned returns = 0; returns < 2; returns++) {
        make_known();
        at(0, 100);
        begin(0, SITE);
        at(0, 101);
        run(0, 0);
        paused(0, ROOM, 102, 150);
        at(1, 150);
        run(1, 1);
        paused(1, ROOM, 151, 200);
        at(1, 201);
        if (returns) {
            g_assert_false(end(1, SITE + 5));
        }
        g_assert_cmpuint(known(202), ==, 0);
        at(1, 208);
        g_assert_cmpuint(known(208), ==, 0);
        g_assert_cmpuint(at(1, 213), ==, !returns);
        drop();
    }
}

/* Without the names of threads, pauses of all vCPUs are left out. */
static void test_paused_nameless(void)
{
    make();
    at(0, 1);
    begin(0, SITE);
    g_assert_false(end(0, SITE + 5));
    at(0, 100);
    at(1, 100);
    begin(0, SITE);
    at(0, 101);
    paused(1, ROOM, 102, 200);
    paused(0, ROOM, 150, 203);
    at(0, 209);
    g_assert_false(end(0, SITE + 5));
    begin(0, SITE);
    at(0, 210);
    paused(1, ROOM, 211, 220);
    at(0, 232);
    g_assert_true(end(0, SITE + 5));
    drop();
}

/* The time between old pauses may count as one, but that is not too early. */
static void test_many_pauses(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    at(0, 101);
    run(0, 0);
    for (unsigned i = 0; i < 10000; i++) {
        /* In an order that is not theirs */
        unsigned n = i ^ 5;

        paused(1, ROOM, 200 + 10 * n, 209 + 10 * n);
    }
    g_assert_cmpuint(known(105), ==, 0);
    g_assert_cmpuint(known(200 + 10 * 10000), ==, 1);
    drop();
}

/*
 * What is said to be handed over is not: a vCPU has not said that the thread has
 * left it.  What it did there may have ended the call.
 */
static void test_not_passed(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    run_at(0, 2, 0);
    at(0, 104);
    /* It returns there, which counts once it is known what vCPU 2 did. */
    run_at(1, 1, 103 * MS);
    at(1, 104);
    g_assert_false(end(1, SITE + 5));
    run_at(0, 1, 300 * MS);
    at(0, 301);
    g_assert_cmpuint(known(301), ==, 0);
    g_assert_cmpuint(at(0, 302), ==, 0);
    g_assert_cmpuint(known(400), ==, 0);
    g_assert_cmpuint(at(0, 400), ==, 0);
    drop();
}

/*
 * A vCPU that executes has TIME events.  If it has none, it is held up, and what
 * it has done is not published: here the end of the call.
 */
static void test_not_flushed(void)
{
    make_known();
    long_calls_set_doubtful(c);
    at(1, 100);
    run_at(1, 2, 0);
    at(0, 100);
    begin(0, SITE);
    at(0, 101);
    run(0, 0);
    run_at(2, 0, 0);
    g_assert_cmpuint(known(500), ==, 0);
    run_at(1, 1, 104 * MS);
    at(1, 105);
    g_assert_cmpuint(known(500), ==, 0);
    g_assert_false(end(1, SITE + 5));
    run_at(1, 0, 106 * MS);
    g_assert_cmpuint(known(800), ==, 0);
    g_assert_cmpuint(known(900), ==, 0);
    drop();
}

/*
 * Spans between marks
 */

static void make_spans(uint64_t ns)
{
    memset(now, 0, sizeof(now));
    c = long_calls_new_spans(ns);
    long_calls_set_device(c, TICK, VCPUS);
    for (unsigned i = 0; i < VCPUS; i++) {
        at(i, 1);
    }
}

static void mark_a(unsigned vcpu)
{
    long_calls_begin_span(c, vcpu, CR3);
}

static bool mark_b(unsigned vcpu)
{
    return long_calls_end_span(c, vcpu, CR3);
}

static void took(uint64_t ns, bool lasts)
{
    struct call_time time = long_calls_take_time(c);

    g_assert_cmpuint(time.ns, ==, ns);
    g_assert_cmpint(time.lasts, ==, lasts);
}

/* While it lasts, or at its end; and pauses are no part of it. */
static void test_spans(void)
{
    make_spans(LONG);
    run(0, 1);
    at(0, 100);
    mark_a(0);
    at(0, 101);
    g_assert_cmpuint(at(0, 111), ==, 0);
    g_assert_false(mark_b(0));
    g_assert_false(mark_b(0));
    mark_a(0);
    at(0, 112);
    g_assert_cmpuint(at(0, 123), ==, 1);
    took(11 * MS, true);
    took(0, false);
    g_assert_false(mark_b(0));
    mark_a(0);
    at(0, 124);
    paused(0, BTRAIL_PAUSE_OVERFLOW, 125, 200);
    g_assert_cmpuint(at(0, 209), ==, 0);
    g_assert_false(mark_b(0));
    /* It waits. */
    mark_a(0);
    at(0, 210);
    run(0, 2);
    g_assert_cmpuint(at(0, 300), ==, 0);
    g_assert_cmpuint(known(305), ==, 1);
    took(95 * MS, true);
    g_assert_cmpuint(long_calls_left_out(c), ==, 0);
    drop();
}

/* On two vCPUs, of which the one with B is handed over first; and nested */
static void test_spans_move(void)
{
    make_spans(LONG);
    run(0, 1);
    at(0, 100);
    at(1, 100);
    /* Its run on vCPU 1, from 150 on: B of what it began before, and one more */
    run_at(1, 1, 150 * MS);
    at(1, 151);
    g_assert_false(mark_b(1));
    mark_a(1);
    at(1, 152);
    g_assert_cmpuint(at(1, 160), ==, 0);
    g_assert_false(mark_b(1));
    run_at(1, 0, 161 * MS);
    /* What was before: two begin, of which one ends there. */
    mark_a(0);
    at(0, 101);
    at(0, 145);
    g_assert_cmpuint(long_calls_take_time(c).ns, >=, 40 * MS);
    mark_a(0);
    at(0, 146);
    run_at(0, 0, 150 * MS);
    at(0, 155);
    g_assert_cmpuint(known(160), ==, 0);
    /* The first one was found, and the second one was short. */
    g_assert_cmpuint(known(190), ==, 0);
    run_at(2, 1, 191 * MS);
    at(2, 192);
    g_assert_false(mark_b(2));
    g_assert_false(mark_b(2));
    known(300);
    took(0, false);
    g_assert_cmpuint(long_calls_left_out(c), ==, 0);
    drop();
}

/* More ends come before their beginnings than a run remembers times of. */
static void test_spans_ends(void)
{
    make_spans(LONG);
    run(0, 1);
    at(0, 100);
    run_at(1, 1, 150 * MS);
    at(1, 151);
    for (unsigned i = 0; i < 7; i++) {
        g_assert_false(mark_b(1));
    }
    run_at(1, 0, 152 * MS);
    for (unsigned i = 0; i < 7; i++) {
        mark_a(0);
    }
    at(0, 101);
    run_at(0, 0, 102 * MS);
    at(0, 153);
    /* Four are measured. */
    g_assert_cmpuint(known(154), ==, 4);
    g_assert_cmpuint(long_calls_left_out(c), ==, 3);
    took(50 * MS, false);
    g_assert_cmpuint(known(400), ==, 0);
    drop();
}

/* Lost records can have had any mark. */
static void test_spans_lost(void)
{
    make_spans(LONG);
    run(0, 1);
    at(0, 100);
    mark_a(0);
    put(1, BTRAIL_EVENT_GAP, 5);
    g_assert_cmpuint(long_calls_left_out(c), ==, 1);
    /* Who runs is said at the next switch, or slab. */
    mark_a(0);
    g_assert_cmpuint(long_calls_left_out(c), ==, 2);
    at(0, 101);
    g_assert_cmpuint(at(0, 200), ==, 0);
    g_assert_cmpuint(known(200), ==, 0);
    g_assert_false(mark_b(0));
    run(0, 1);
    at(0, 201);
    mark_a(0);
    at(0, 202);
    g_assert_cmpuint(at(0, 300), ==, 1);
    drop();
}

/*
 * What an address space does on several vCPUs does not come in order: here B of
 * the first span before its A.
 */
static void test_spans_nameless(void)
{
    make_spans(LONG);
    at(0, 100);
    at(1, 100);
    g_assert_false(mark_b(1));
    mark_a(0);
    at(0, 101);
    at(1, 150);
    g_assert_false(mark_b(1));
    g_assert_cmpuint(long_calls_left_out(c), ==, 1);
    drop();
    /* On one, it does. */
    c = long_calls_new_spans(LONG);
    long_calls_set_device(c, TICK, 1);
    at(0, 100);
    mark_a(0);
    at(0, 101);
    at(0, 150);
    g_assert_true(mark_b(0));
    took(49 * MS, false);
    drop();
}

/* A guest that leaves A without an end, in more threads than are remembered */
static void test_spans_many(void)
{
    struct btrail_budget *budget = btrail_budget_new_fixed(1 << 16, 8);
    uint64_t left;

    make_spans(LONG);
    long_calls_set_budget(c, budget);
    btrail_budget_unref(budget);
    left = btrail_budget_left(budget);
    for (unsigned i = 1; i < 20000; i++) {
        run(0, i);
        at(0, i);
        for (unsigned k = 0; k < 20; k++) {
            mark_a(0);
        }
        g_assert_cmpuint(btrail_budget_left(budget), <, left);
    }
    g_assert_cmpuint(long_calls_left_out(c), >, 12 * 20000);
    g_assert_cmpuint(long_calls_left_out(c), <, 20 * 20000);
    btrail_budget_ref(budget);
    drop();
    g_assert_cmpuint(btrail_budget_left(budget), ==, left);
    btrail_budget_unref(budget);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/long-calls/spans", test_spans);
    g_test_add_func("/long-calls/spans-move", test_spans_move);
    g_test_add_func("/long-calls/spans-ends", test_spans_ends);
    g_test_add_func("/long-calls/spans-lost", test_spans_lost);
    g_test_add_func("/long-calls/spans-many", test_spans_many);
    g_test_add_func("/long-calls/not-passed", test_not_passed);
    g_test_add_func("/long-calls/not-flushed", test_not_flushed);
    g_test_add_func("/long-calls/spans-nameless", test_spans_nameless);
    g_test_add_func("/long-calls/limit", test_limit);
    g_test_add_func("/long-calls/late-tick", test_late_tick);
    g_test_add_func("/long-calls/new-site", test_new_site);
    g_test_add_func("/long-calls/jump", test_jump);
    g_test_add_func("/long-calls/threads", test_threads);
    g_test_add_func("/long-calls/waiting", test_waiting);
    g_test_add_func("/long-calls/claim", test_claim);
    g_test_add_func("/long-calls/waits-for-all", test_waits_for_all);
    g_test_add_func("/long-calls/second-call-first", test_second_call_first);
    g_test_add_func("/long-calls/short-calls", test_short_calls);
    g_test_add_func("/long-calls/unknown-place", test_unknown_place);
    g_test_add_func("/long-calls/nested", test_nested);
    g_test_add_func("/long-calls/unknown", test_unknown);
    g_test_add_func("/long-calls/no-tasks", test_no_tasks);
    g_test_add_func("/long-calls/many", test_many);
    g_test_add_func("/long-calls/any-order", test_any_order);
    g_test_add_func("/long-calls/paused", test_paused);
    g_test_add_func("/long-calls/paused-waiting", test_paused_waiting);
    g_test_add_func("/long-calls/paused-moves", test_paused_moves);
    g_test_add_func("/long-calls/paused-nameless", test_paused_nameless);
    g_test_add_func("/long-calls/many-pauses", test_many_pauses);
    return g_test_run();
}
