/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test the batch of events of guest-tools/names/batch.c
 */

#include <glib.h>
#include <string.h>

#include "batch.h"

static const struct outbox_text none = { 0 };

static bool add(struct batch *b, uint64_t ns, uint32_t pid, const char *text)
{
    const struct batch_event event = {
        .ns = ns, .type = BTRAIL_GUEST_NAME, .size = sizeof(event.name),
        .name = { .pid = pid, .comm_size = (uint32_t)strlen(text) },
    };

    return batch_add(b, &event,
                     (struct outbox_text) { text, (uint32_t)strlen(text) },
                     none);
}

static void check(const struct outbox *o, size_t *at, uint64_t time,
                  uint32_t pid, const char *text)
{
    struct btrail_guest_name name;

    *at += sizeof(struct btrail_guest_header);
    memcpy(&name, o->data + *at, sizeof(name));
    *at += sizeof(name);
    g_assert_cmpuint(name.time, ==, time);
    g_assert_cmpuint(name.pid, ==, pid);
    g_assert_cmpmem(o->data + *at, name.comm_size, text, strlen(text));
    *at += name.comm_size;
}

static void test_order(void)
{
    const struct tsc_clock clock = {
        .moments = { { 0, 1000 }, { 100, 1200 } }, .n = 2,
    };
    struct outbox o;
    struct batch b;
    size_t at = 0;

    g_assert_true(outbox_init(&o));
    g_assert_true(batch_init(&b));
    g_assert_true(add(&b, 50, 1, "first of CPU 0"));
    g_assert_true(add(&b, 70, 2, ""));
    g_assert_true(add(&b, 30, 3, "before"));
    g_assert_true(add(&b, 70, 4, "the same time"));
    batch_send(&b, &clock, &o);
    check(&o, &at, 1060, 3, "before");
    check(&o, &at, 1100, 1, "first of CPU 0");
    check(&o, &at, 1140, 2, "");
    check(&o, &at, 1140, 4, "the same time");
    g_assert_cmpuint(at, ==, o.used);
    batch_send(&b, &clock, &o);
    g_assert_cmpuint(at, ==, o.used);
    batch_free(&b);
    outbox_free(&o);
}

static void test_full(void)
{
    const struct tsc_clock clock = { .n = 0 };
    g_autofree char *text = g_strnfill(4000, 'x');
    struct outbox o;
    struct batch b;
    unsigned n = 0;

    g_assert_true(outbox_init(&o));
    g_assert_true(batch_init(&b));
    while (add(&b, n, n, text)) {
        n++;
    }
    g_assert_cmpuint(n, ==, BATCH_TEXT / 4000);
    while (add(&b, n, n, "")) {
        n++;
    }
    g_assert_cmpuint(n, ==, BATCH_MAX);
    batch_send(&b, &clock, &o);
    g_assert_cmpuint(o.lost[BTRAIL_GUEST_LOST_EVENTS], >, 0);
    g_assert_cmpuint(outbox_room(&o), >=, OUTBOX_KEEP_EVENTS);
    batch_free(&b);
    outbox_free(&o);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/batch/order", test_order);
    g_test_add_func("/batch/full", test_full);
    return g_test_run();
}
