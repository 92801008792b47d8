/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of the device's queue.c: an agent that drains as it should is never
 * said to have written an impossible tail, whichever threads read it, also
 * while the next agent takes over; one that lies is.
 */

#include <glib.h>
#include "backtrail/transport.h"
#include "qemu/osdep.h"
#include "queue.h"

#define SLABS       8
#define ROUNDS      50000

static struct world {
    uint64_t head;
    uint64_t tail[BTRAIL_AGENT_SLOTS];
    BranchTraceQueue queue;
    bool done;
} world;

static void start(uint32_t slot)
{
    world = (struct world) { 0 };
    branch_trace_queue_init(&world.queue, &world.head, world.tail, slot);
}

static bool is_done(void)
{
    return __atomic_load_n(&world.done, __ATOMIC_ACQUIRE);
}

/* The vCPU publishes a slab whenever there is room. */
static gpointer vcpu(gpointer data)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        while (branch_trace_queue_used(&world.queue) == SLABS) {
            g_assert_true(branch_trace_queue_read_tail(&world.queue));
            g_thread_yield();
        }
        branch_trace_queue_advance(&world.queue);
        g_assert_true(branch_trace_queue_read_tail(&world.queue));
        g_assert_cmpuint(branch_trace_queue_used(&world.queue), <=, SLABS);
    }
    __atomic_store_n(&world.done, true, __ATOMIC_RELEASE);
    return NULL;
}

struct agent {
    GThread *thread;
    uint32_t slot;
    bool dead;
};

/* An agent drains in its slot until it is dead or the test is done. */
static gpointer drain(gpointer data)
{
    const struct agent *agent = data;
    uint64_t *tail = &world.tail[agent->slot];

    while (!__atomic_load_n(&agent->dead, __ATOMIC_ACQUIRE) && !is_done()) {
        if (*tail != __atomic_load_n(&world.head, __ATOMIC_ACQUIRE)) {
            __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

static void start_agent(struct agent *agent, uint32_t slot)
{
    *agent = (struct agent) { .slot = slot };
    agent->thread = g_thread_new("agent", drain, agent);
}

static void end_agent(struct agent *agent)
{
    __atomic_store_n(&agent->dead, true, __ATOMIC_RELEASE);
    g_thread_join(agent->thread);
}

/* The main thread watches the agent meanwhile. */
static void test_two_readers(void)
{
    struct agent agent;
    GThread *producer;
    uint64_t last = 0;

    start(0);
    start_agent(&agent, 0);
    producer = g_thread_new("vcpu", vcpu, NULL);
    while (!is_done()) {
        uint64_t tail;

        g_assert_true(branch_trace_queue_read_tail(&world.queue));
        tail = branch_trace_queue_tail(&world.queue);
        g_assert_cmpuint(tail, >=, last);
        last = tail;
    }
    end_agent(&agent);
    g_thread_join(producer);
}

/* The last agent has not noticed yet that it is not the agent any more. */
static void test_hand_over(void)
{
    struct agent agents[2];
    GThread *producer;
    uint32_t slot = BTRAIL_AGENT_SLOTS - 1;
    unsigned now = 0;

    start(slot);
    start_agent(&agents[now], slot);
    producer = g_thread_new("vcpu", vcpu, NULL);
    while (!is_done()) {
        slot = (slot + 1) % BTRAIL_AGENT_SLOTS;
        branch_trace_queue_hand_over(&world.queue, slot);
        start_agent(&agents[!now], slot);
        for (unsigned i = 0; i < 100; i++) {
            g_assert_true(branch_trace_queue_read_tail(&world.queue));
        }
        end_agent(&agents[now]);
        now = !now;
    }
    end_agent(&agents[now]);
    g_thread_join(producer);
}

static void test_lies(void)
{
    BranchTraceQueue *q = &world.queue;

    start(2);
    for (unsigned i = 0; i < 5; i++) {
        branch_trace_queue_advance(q);
    }
    world.tail[2] = 3;
    g_assert_true(branch_trace_queue_read_tail(q));
    g_assert_cmpuint(branch_trace_queue_used(q), ==, 2);

    /* Ahead of the head, backwards, and with the bits that hold the slot */
    static const uint64_t lies[] = { 6, 2, UINT64_MAX, 3 | 1ull << 56 };
    for (unsigned i = 0; i < G_N_ELEMENTS(lies); i++) {
        world.tail[2] = lies[i];
        g_assert_false(branch_trace_queue_read_tail(q));
        g_assert_cmpuint(branch_trace_queue_tail(q), ==, 3);
    }
    /* The next agent continues where the last valid tail was. */
    branch_trace_queue_hand_over(q, 3);
    g_assert_cmpuint(world.tail[3], ==, 3);
    g_assert_true(branch_trace_queue_read_tail(q));
    world.tail[2] = 4;
    world.tail[3] = 5;
    g_assert_true(branch_trace_queue_read_tail(q));
    g_assert_cmpuint(branch_trace_queue_used(q), ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/queue/two-readers", test_two_readers);
    g_test_add_func("/queue/hand-over", test_hand_over);
    g_test_add_func("/queue/lies", test_lies);
    return g_test_run();
}
