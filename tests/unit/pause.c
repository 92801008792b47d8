/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of lib/agent/pause.h: pauses in each other, and what is not known
 */
#include <glib.h>
#include <string.h>

#include "lib/agent/pause.h"

/* Takes events from a text: p and r pause and resume for lack of room, P and R
 * with the guest, t is a time, g a gap, 0 the next one without a clock, e the
 * end.  There are 10 ns from one to the next. */
static void expect(const char *text, unsigned n, uint64_t ns,
                   uint64_t unknown, bool paused)
{
    struct btrail_pause_watch w = { 0 };
    uint64_t clock = 1000, sum = 0;
    struct btrail_pause pause;

    for (; *text; text++) {
        struct btrail_event e = { .data = { clock += 10 } };

        if (*text == '0') {
            e.data[0] = 0;
            text++;
        }
        e.type = strchr("pP", *text) ? BTRAIL_EVENT_PAUSE :
                 strchr("rR", *text) ? BTRAIL_EVENT_RESUME :
                 *text == 't' ? BTRAIL_EVENT_TIME :
                 *text == 'g' ? BTRAIL_EVENT_GAP :
                 *text == 'e' ? BTRAIL_EVENT_END : BTRAIL_EVENT_CR3;
        e.reason = strchr("PR", *text) ? BTRAIL_PAUSE_VM_STOP :
                   BTRAIL_PAUSE_OVERFLOW;
        if (btrail_pause_watch_event(&w, &e, &pause)) {
            g_assert_cmpuint(pause.begin, <=, pause.end);
            sum += pause.end - pause.begin;
            n--;
        }
    }
    g_assert_cmpuint(n, ==, 0);
    g_assert_cmpuint(sum, ==, ns);
    g_assert_cmpuint(w.unknown, ==, unknown);
    g_assert_cmpint(w.reasons != 0, ==, paused);
}

static void test_watch(void)
{
    expect("tprt", 1, 10, 0, false);
    expect("tpPRrt", 1, 30, 0, false);
    /* In any order */
    expect("tpPrRt", 1, 30, 0, false);
    expect("tPctRprt", 2, 40, 0, false);
    /* Up to the end */
    expect("tpPe", 1, 20, 0, false);
    expect("tp", 0, 0, 0, true);
    /* It begins while the guest is stopped. */
    expect("Rtpr", 1, 10, 0, false);
    expect("trpr", 1, 10, 1, false);
    /* What is missing may have had the end, and others. */
    expect("tpgtpr", 1, 10, 1, false);
    expect("tp0gr", 1, 20, 0, false);
    expect("tppr", 1, 10, 1, false);
    expect("t0pr", 0, 0, 1, false);
    expect("tp0rr", 1, 20, 0, false);
    expect("tp0er", 1, 20, 0, false);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pause/watch", test_watch);
    return g_test_run();
}
