/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of virsh-trace-wait.c: how long a wait for a session continues when
 * libvirt, the domain or the service does not answer.  Clock and libvirt are
 * the test's own.
 */

#include "virsh-trace-wait.h"

static struct {
    gint64 now;
    int alive, active;
    gboolean answers, captured, connects;
    unsigned lost, connected, asked;
} world;

static char domain;
#define DOMAIN ((virDomainPtr)&domain)

gint64 g_get_monotonic_time(void)
{
    return world.now;
}

virConnectPtr virDomainGetConnect(virDomainPtr dom)
{
    g_assert_true(dom == DOMAIN);
    return NULL;
}

int virConnectIsAlive(virConnectPtr conn)
{
    return world.alive;
}

int virDomainIsActive(virDomainPtr dom)
{
    return world.active;
}

static void lost(void *opaque)
{
    world.lost++;
}

static virDomainPtr reconnect(void *opaque)
{
    world.connected++;
    world.alive = world.connects;
    return world.connects ? DOMAIN : NULL;
}

static gboolean ask(void *opaque)
{
    world.asked++;
    return world.answers;
}

static gboolean captured(void *opaque)
{
    return world.captured;
}

static virshTraceWait begin(void)
{
    memset(&world, 0, sizeof(world));
    world.now = 1000000000;
    world.alive = world.active = 1;
    world.answers = world.captured = TRUE;
    return (virshTraceWait) {
        .dom = DOMAIN, .lost = lost, .connect = reconnect, .ask = ask,
        .captured = captured,
    };
}

/* Polls after @ms. */
static virshTraceWaitResult later(virshTraceWait *w, unsigned ms)
{
    world.now += ms * 1000;
    return virshTraceWaitPoll(w);
}

static void test_answer(void)
{
    virshTraceWait w = begin();

    g_assert_cmpint(later(&w, 0), ==, VIRSH_TRACE_WAIT_ANSWERED);
    world.active = 0;
    g_assert_cmpint(later(&w, 500), ==, VIRSH_TRACE_WAIT_SHUT_OFF);
    g_assert_cmpuint(world.asked, ==, 1);
}

/* Tried again after 1 s and every 2 s, for 30 s */
static void test_connection(void)
{
    virshTraceWait w = begin();
    unsigned i;

    world.alive = 0;
    for (i = 0; i < 60; i++) {
        g_assert_cmpint(later(&w, i ? 500 : 0), ==, VIRSH_TRACE_WAIT_AGAIN);
        g_assert_cmpuint(world.connected, ==, (i + 2) / 4);
    }
    g_assert_cmpint(later(&w, 500), ==, VIRSH_TRACE_WAIT_LOST);
    g_assert_cmpuint(world.lost, ==, 1);
    g_assert_cmpuint(world.asked, ==, 0);

    world.connects = TRUE;
    g_assert_cmpint(later(&w, 2000), ==, VIRSH_TRACE_WAIT_ANSWERED);
    /* It has 30 s again. */
    g_assert_cmpint(later(&w, 500), ==, VIRSH_TRACE_WAIT_ANSWERED);
    world.alive = world.connects = FALSE;
    g_assert_cmpint(later(&w, 500), ==, VIRSH_TRACE_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 29500), ==, VIRSH_TRACE_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 500), ==, VIRSH_TRACE_WAIT_LOST);
    g_assert_cmpuint(world.lost, ==, 2);
}

/* An agent that does not answer has 60 s, if it has a capture to return to. */
static void test_agent(void)
{
    virshTraceWait w = begin();

    world.answers = FALSE;
    g_assert_cmpint(later(&w, 0), ==, VIRSH_TRACE_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 59500), ==, VIRSH_TRACE_WAIT_AGAIN);
    world.answers = TRUE;
    g_assert_cmpint(later(&w, 500), ==, VIRSH_TRACE_WAIT_ANSWERED);
    world.answers = FALSE;
    g_assert_cmpint(later(&w, 500), ==, VIRSH_TRACE_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 60000), ==, VIRSH_TRACE_WAIT_NO_ANSWER);

    w = begin();
    world.answers = world.captured = FALSE;
    g_assert_cmpint(later(&w, 0), ==, VIRSH_TRACE_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 2000), ==, VIRSH_TRACE_WAIT_NO_ANSWER);
}

/* libvirt may find out later than we do that QEMU is dead. */
static void test_dying(void)
{
    virshTraceWait w = begin();

    g_assert_cmpint(later(&w, 0), ==, VIRSH_TRACE_WAIT_ANSWERED);
    world.answers = world.captured = FALSE;
    g_assert_cmpint(later(&w, 500), ==, VIRSH_TRACE_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 1500), ==, VIRSH_TRACE_WAIT_AGAIN);
    world.active = 0;
    g_assert_cmpint(later(&w, 500), ==, VIRSH_TRACE_WAIT_SHUT_OFF);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/virsh-trace-wait/answer", test_answer);
    g_test_add_func("/virsh-trace-wait/connection", test_connection);
    g_test_add_func("/virsh-trace-wait/agent", test_agent);
    g_test_add_func("/virsh-trace-wait/dying", test_dying);
    return g_test_run();
}
