/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test the queue of messages of guest-tools/names/outbox.c
 */

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "outbox.h"

static const struct outbox_text none = { 0 };

static bool put(struct outbox *o, uint32_t n, uint32_t text_size, size_t keep)
{
    struct btrail_guest_name name = { .pid = n, .comm_size = text_size };
    g_autofree char *text = g_malloc(text_size + 1);

    memset(text, 'a' + n % 26, text_size);
    return outbox_put(o, BTRAIL_GUEST_NAME, &name, sizeof(name),
                      (struct outbox_text) { text, text_size }, none, keep);
}

/* Reads all that was written, message by message. */
static unsigned check_messages(int fd, unsigned from, uint32_t text_size)
{
    struct btrail_guest_header h;
    struct btrail_guest_name name;
    g_autofree char *text = g_malloc(text_size + 1);

    while (read(fd, &h, sizeof(h)) == sizeof(h)) {
        g_assert_cmpint(h.type, ==, BTRAIL_GUEST_NAME);
        g_assert_cmpint(h.size, ==, sizeof(name) + text_size);
        g_assert_cmpint(read(fd, &name, sizeof(name)), ==, sizeof(name));
        g_assert_cmpint(name.pid, ==, from);
        g_assert_cmpint(read(fd, text, text_size), ==, text_size);
        for (uint32_t i = 0; i < text_size; i++) {
            g_assert_cmpint(text[i], ==, 'a' + from % 26);
        }
        from++;
    }
    return from;
}

/* Whatever goes in comes out, in order, however little is taken at once. */
static void test_order(void)
{
    struct outbox o;
    unsigned in = 0, out = 0;
    int fds[2];

    g_assert_true(outbox_init(&o));
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds),
                    ==, 0);
    while (in < 20000) {
        while (in - out < 100 && put(&o, in, 1000, 0)) {
            in++;
        }
        g_assert_true(outbox_write(&o, fds[0]));
        out = check_messages(fds[1], out, 1000);
    }
    g_assert_cmpint(out, >, 10000);
    close(fds[1]);
    g_assert_true(put(&o, in, 1000, 0));
    g_assert_false(outbox_write(&o, fds[0]));
    close(fds[0]);
    outbox_free(&o);
}

/* A full queue takes nothing, and each message leaves what it must. */
static void test_full(void)
{
    struct outbox o;
    unsigned n = 0, more = 0;
    size_t room;

    g_assert_true(outbox_init(&o));
    while (put(&o, n, 60000, OUTBOX_KEEP_LIST)) {
        n++;
    }
    g_assert_cmpint(outbox_room(&o), >=, OUTBOX_KEEP_LIST);
    g_assert_cmpint(outbox_room(&o), <, OUTBOX_KEEP_LIST + 61000);
    while (put(&o, n, 100, 0)) {
        more++;
    }
    g_assert_cmpint(more, >, 1000);
    room = outbox_room(&o);
    g_assert_cmpint(room, <, 200);
    g_assert_false(put(&o, n, 100, 0));
    g_assert_cmpint(outbox_room(&o), ==, room);
    outbox_clear(&o);
    g_assert_cmpint(outbox_room(&o), ==, OUTBOX_SIZE);
    g_assert_false(put(&o, 0, BTRAIL_GUEST_MESSAGE_MAX, 0));
    outbox_free(&o);
}

/* What was lost is said once, as soon as there is room. */
static void test_lost(void)
{
    struct outbox o;

    g_assert_true(outbox_init(&o));
    outbox_lost(&o, BTRAIL_GUEST_LOST_SWITCHES, 3);
    outbox_lost(&o, BTRAIL_GUEST_LOST_SWITCHES, 4);
    while (put(&o, 0, 0, 0)) {
    }
    outbox_report_lost(&o, 5);
    g_assert_cmpint(o.lost[BTRAIL_GUEST_LOST_SWITCHES], ==, 7);
    o.used = 0;
    outbox_report_lost(&o, 5);
    g_assert_cmpint(o.used, ==, sizeof(struct btrail_guest_header) +
                    sizeof(struct btrail_guest_lost));
    outbox_report_lost(&o, 5);
    g_assert_cmpint(o.used, ==, sizeof(struct btrail_guest_header) +
                    sizeof(struct btrail_guest_lost));
    outbox_free(&o);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    signal(SIGPIPE, SIG_IGN);
    g_test_add_func("/outbox/order", test_order);
    g_test_add_func("/outbox/full", test_full);
    g_test_add_func("/outbox/lost", test_lost);
    return g_test_run();
}
