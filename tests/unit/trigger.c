/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "trigger.h"

#define A   UINT64_C(0x401000)
#define B   UINT64_C(0x402000)
#define K   UINT64_C(0xffffffff81000040)

static unsigned fired_n[4];

static void fired(void *opaque, unsigned trigger)
{
    g_assert_cmpuint(trigger, <, G_N_ELEMENTS(fired_n));
    fired_n[trigger]++;
}

static struct btrail_triggers *make(const struct btrail_trigger *t, unsigned n)
{
    memset(fired_n, 0, sizeof(fired_n));
    return btrail_triggers_new(t, n, fired, NULL);
}

/* From one address up to another, as often as it is there */
static void test_start_stop(void)
{
    static const struct btrail_trigger list[] = {
        { .address = A, .action = BTRAIL_TRIGGER_START },
        { .address = B, .action = BTRAIL_TRIGGER_STOP },
    };
    struct btrail_triggers *t = make(list, 2);
    unsigned i;

    g_assert_false(btrail_triggers_over(t));
    for (i = 0; i < 3; i++) {
        g_assert_false(btrail_triggers_pass(t, 0, 5));
        g_assert_false(btrail_triggers_pass(t, 0, A + 1));
        g_assert_true(btrail_triggers_pass(t, 0, A));
        g_assert_true(btrail_triggers_pass(t, 0, 5));
        g_assert_true(btrail_triggers_pass(t, 0, B));
    }
    g_assert_false(btrail_triggers_pass(t, 0, B));
    g_assert_false(btrail_triggers_over(t));
    g_assert_cmpuint(fired_n[0], ==, 3);
    g_assert_cmpuint(fired_n[1], ==, 4);
    btrail_triggers_free(t);
}

static void test_stop_alone(void)
{
    static const struct btrail_trigger list[] = {
        { .address = B, .action = BTRAIL_TRIGGER_STOP, .hits = 3 },
    };
    struct btrail_triggers *t = make(list, 1);

    g_assert_true(btrail_triggers_pass(t, 0, B));
    g_assert_true(btrail_triggers_pass(t, 0, B));
    g_assert_false(btrail_triggers_over(t));
    g_assert_true(btrail_triggers_pass(t, 0, B));
    g_assert_true(btrail_triggers_over(t));
    g_assert_false(btrail_triggers_pass(t, 0, A));
    g_assert_cmpuint(fired_n[0], ==, 1);
    btrail_triggers_free(t);
}

/* A symbol counts once it is known, and a process once it is found. */
static void test_names(void)
{
    static const struct btrail_trigger list[] = {
        { .symbol = "panic", .action = BTRAIL_TRIGGER_DUMP },
        { .process = "nginx", .address = A, .action = BTRAIL_TRIGGER_DUMP },
        { .symbol = "nowhere", .action = BTRAIL_TRIGGER_DUMP },
    };
    static const char text[] =
        "ffffffff81000000 T panic_on_warn\n"
        "ffffffff81000010 T kernel_panic\n"
        "ffffffff81000020 T pani\n"
        "bad\n\n"
        "ffffffff81000040 T panic";
    struct btrail_process p = { .pgd = 0x5000, .mm = 1, .comm = "nginx" };
    const struct btrail_look look = { .n = 1, .processes = &p };
    struct btrail_triggers *t = make(list, 3);
    unsigned i;

    g_assert_true(btrail_triggers_pass(t, 0x5000, K));
    g_assert_true(btrail_triggers_pass(t, 0x5000, A));
    g_assert_true(btrail_triggers_pass(t, 0x5000, 0));
    g_assert_cmpuint(fired_n[0] + fired_n[1] + fired_n[2], ==, 0);
    btrail_triggers_symbols(t, text, strlen(text));
    btrail_triggers_look(t, &look);
    for (i = 0; i < 0x80; i++) {
        btrail_triggers_pass(t, 0x5000, K - 0x40 + i);
    }
    g_assert_cmpuint(fired_n[0], ==, 1);
    btrail_triggers_pass(t, 0x6000, A);
    g_assert_cmpuint(fired_n[1], ==, 0);
    btrail_triggers_pass(t, 0x5007, A);
    g_assert_cmpuint(fired_n[1], ==, 1);
    g_assert_cmpuint(fired_n[2], ==, 0);
    g_assert_false(btrail_triggers_over(t));
    btrail_triggers_free(t);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trigger/start-stop", test_start_stop);
    g_test_add_func("/trigger/stop-alone", test_stop_alone);
    g_test_add_func("/trigger/names", test_names);
    return g_test_run();
}
