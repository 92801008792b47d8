/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of session-wait.c: how long a wait for a session continues when libvirt,
 * the guest or the service does not answer.  The clock is the test's own.
 */

#include <string.h>

#include "client/session-wait.h"

static struct {
    gint64 now;
    bool alive, off, answers, captured, connects;
    unsigned lost, connected, asked;
} world;

gint64 g_get_monotonic_time(void)
{
    return world.now;
}

static bool is_connected(void *opaque)
{
    return world.alive;
}

static void lost(void *opaque)
{
    world.lost++;
}

static bool reconnect(void *opaque)
{
    world.connected++;
    world.alive = world.connects;
    return world.connects;
}

static bool ask(void *opaque)
{
    g_assert_true(world.alive);
    world.asked++;
    return world.answers && !world.off;
}

static bool is_off(void *opaque)
{
    g_assert_true(world.alive);
    return world.off;
}

static bool is_captured(void *opaque)
{
    return world.captured;
}

static struct session_wait begin(void)
{
    memset(&world, 0, sizeof(world));
    world.now = 1000000000;
    world.alive = world.answers = world.captured = true;
    return (struct session_wait) {
        .is_connected = is_connected, .lost = lost, .connect = reconnect,
        .ask = ask, .is_off = is_off, .is_captured = is_captured,
    };
}

/* Polls after @ms. */
static enum session_wait_result later(struct session_wait *w, unsigned ms)
{
    world.now += ms * 1000;
    return session_wait_poll(w);
}

static void test_answer(void)
{
    struct session_wait w = begin();

    g_assert_cmpint(later(&w, 0), ==, SESSION_WAIT_ANSWERED);
    world.off = true;
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_OFF);
    g_assert_cmpuint(world.asked, ==, 2);
}

/* Tried again after 1 s and every 2 s, for 30 s */
static void test_connection(void)
{
    struct session_wait w = begin();
    unsigned i;

    world.alive = false;
    for (i = 0; i < 60; i++) {
        g_assert_cmpint(later(&w, i ? 500 : 0), ==, SESSION_WAIT_AGAIN);
        g_assert_cmpuint(world.connected, ==, (i + 2) / 4);
    }
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_LOST);
    g_assert_cmpuint(world.lost, ==, 1);
    g_assert_cmpuint(world.asked, ==, 0);

    world.connects = true;
    g_assert_cmpint(later(&w, 2000), ==, SESSION_WAIT_ANSWERED);
    /* It has 30 s again. */
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_ANSWERED);
    world.alive = world.connects = false;
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 29500), ==, SESSION_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_LOST);
    g_assert_cmpuint(world.lost, ==, 2);
}

/* Each question has a connection of its own, as to a monitor. */
static void test_no_connection(void)
{
    struct session_wait w = begin();

    w.is_connected = NULL;
    w.lost = NULL;
    w.connect = NULL;
    g_assert_cmpint(later(&w, 0), ==, SESSION_WAIT_ANSWERED);
    world.answers = false;
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_AGAIN);
    world.off = true;
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_OFF);
}

/* A service that does not answer has 60 s, if it has a capture to return to. */
static void test_service(void)
{
    struct session_wait w = begin();

    world.answers = false;
    g_assert_cmpint(later(&w, 0), ==, SESSION_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 59500), ==, SESSION_WAIT_AGAIN);
    world.answers = true;
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_ANSWERED);
    world.answers = false;
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 60000), ==, SESSION_WAIT_NO_ANSWER);

    w = begin();
    world.answers = world.captured = false;
    g_assert_cmpint(later(&w, 0), ==, SESSION_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 2000), ==, SESSION_WAIT_NO_ANSWER);
}

/* libvirt may find out later than we do that QEMU is dead. */
static void test_dying(void)
{
    struct session_wait w = begin();

    g_assert_cmpint(later(&w, 0), ==, SESSION_WAIT_ANSWERED);
    world.answers = world.captured = false;
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_AGAIN);
    g_assert_cmpint(later(&w, 1500), ==, SESSION_WAIT_AGAIN);
    world.off = true;
    g_assert_cmpint(later(&w, 500), ==, SESSION_WAIT_OFF);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session-wait/answer", test_answer);
    g_test_add_func("/session-wait/connection", test_connection);
    g_test_add_func("/session-wait/no-connection", test_no_connection);
    g_test_add_func("/session-wait/service", test_service);
    g_test_add_func("/session-wait/dying", test_dying);
    return g_test_run();
}
