/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is done in a process of its own: its answer, and how it is given up
 */

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "util/apart.h"

#define LARGE   (3u << 20)
#define TOO_LARGE   (65u << 20)

static int number = 1;

static void say(void *opaque, GByteArray *out)
{
    number = 2;
    g_byte_array_append(out, opaque, strlen(opaque));
}

static void say_much(void *opaque, GByteArray *out)
{
    g_byte_array_set_size(out, GPOINTER_TO_UINT(opaque));
    memset(out->data, 'x', out->len);
}

static void die(void *opaque, GByteArray *out)
{
    g_byte_array_append(out, (const guint8 *)"half", 4);
    kill(getpid(), SIGKILL);
}

static void wait_for_ever(void *opaque, GByteArray *out)
{
    for (;;) {
        pause();
    }
}

static bool yes(void *opaque)
{
    return true;
}

static bool a_few_times(void *opaque)
{
    return ++*(int *)opaque < 5;
}

static void test_answer(void)
{
    g_autoptr(GByteArray) answer = apart_run(say, (void *)"this", yes, NULL);

    g_assert_cmpuint(answer->len, ==, 4);
    g_assert_cmpint(memcmp(answer->data, "this", 4), ==, 0);
    /* It was another process. */
    g_assert_cmpint(number, ==, 1);
    g_byte_array_unref(answer);
    answer = apart_run(say, (void *)"", yes, NULL);
    g_assert_cmpuint(answer->len, ==, 0);
    g_byte_array_unref(answer);
    answer = apart_run(say_much, GUINT_TO_POINTER(LARGE), yes, NULL);
    g_assert_cmpuint(answer->len, ==, LARGE);
    g_assert_cmpint(answer->data[LARGE - 1], ==, 'x');
}

static void test_none(void)
{
    int times = 0;

    g_assert_null(apart_run(die, NULL, yes, NULL));
    g_assert_null(apart_run(say_much, GUINT_TO_POINTER(TOO_LARGE), yes, NULL));
    g_assert_null(apart_run(wait_for_ever, NULL, a_few_times, &times));
    g_assert_cmpint(times, ==, 5);
}

/* In a main loop: its descriptor says when there is something. */
static void test_descriptor(void)
{
    struct apart *a = apart_start(say, (void *)"this");
    struct pollfd ready = { .fd = apart_fd(a), .events = POLLIN };
    bool done = false;

    g_assert_null(apart_answer(a));
    while (!done) {
        g_assert_cmpint(poll(&ready, 1, 60000), ==, 1);
        apart_read(a, &done);
    }
    g_assert_cmpuint(apart_answer(a)->len, ==, 4);
    apart_free(a);
    a = apart_start(wait_for_ever, NULL);
    apart_read(a, &done);
    g_assert_false(done);
    apart_free(a);
    apart_free(NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/apart/answer", test_answer);
    g_test_add_func("/apart/none", test_none);
    g_test_add_func("/apart/descriptor", test_descriptor);
    return g_test_run();
}
