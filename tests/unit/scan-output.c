/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/scan-output.h: pieces are sent, kept and sent again
 */

#include <string.h>

#include "guest-linux/scan-output.h"

#define NESTED  0x5000

static const char text[] = "a piece of sideband";
static struct btrail_snapshot a_snapshot;
static unsigned pieces, again, snapshots;

static void got(void *opaque, const struct scanner_piece *piece)
{
    struct btrail_sideband_info info;
    void *data;

    g_assert_true(opaque == &pieces);
    g_assert_cmphex(piece->nested, ==, NESTED);
    g_assert_cmpint(btrail_sideband_unpack(piece->packed, piece->packed_size,
                                           &info, &data), ==, 0);
    g_assert_cmpuint(piece->kind, ==, info.kind);
    g_assert_cmpuint(piece->kernel, ==, info.kernel);
    g_assert_cmpuint(info.kernel, ==, 2);
    g_assert_cmpuint(info.time, ==, 77);
    g_assert_cmpmem(data, info.size, text, sizeof(text));
    free(data);
    if (piece->snapshot) {
        g_assert_true(piece->snapshot == &a_snapshot);
        g_assert_cmpuint(piece->levels, ==, 5);
        snapshots++;
    }
    again += piece->again;
    pieces++;
}

static const struct scanner_ops ops = { .piece = got };
static const struct btrail_sideband_info info = {
    .kind = BTRAIL_SIDEBAND_SYMBOLS, .kernel = 2, .time = 77,
    .size = sizeof(text),
};

static struct scan_output start(uint64_t budget)
{
    pieces = again = snapshots = 0;
    return (struct scan_output) {
        .ops = &ops, .opaque = &pieces, .nested = NESTED,
        .kept = btrail_budget_new_fixed(budget, 4),
    };
}

static void test_sent(void)
{
    struct scan_output out = start(1 << 20);
    GBytes *sent = NULL;

    scan_output_resend(&out, info.kind, 2, NULL);
    g_assert_cmpuint(pieces, ==, 0);
    for (unsigned i = 0; i < 2; i++) {
        scan_output_keep(&out, &sent, scan_output_send(&out, &info, text));
        g_assert_cmpuint(btrail_budget_left(out.kept), ==, (1 << 20) -
                         g_bytes_get_size(sent) - BTRAIL_BUDGET_ENTRY);
    }
    g_assert_cmpuint(pieces, ==, 2);
    g_assert_cmpuint(again, ==, 0);
    scan_output_resend(&out, info.kind, 2, sent);
    g_assert_cmpuint(again, ==, 1);
    scan_output_drop(&out, &sent);
    g_assert_null(sent);
    scan_output_drop(&out, &sent);
    g_assert_cmpuint(btrail_budget_left(out.kept), ==, 1 << 20);
    btrail_budget_unref(out.kept);
}

static void test_snapshot(void)
{
    struct scan_output out = start(1 << 20);

    scan_output_send_snapshot(&out, &info, text, &a_snapshot, NULL, 5);
    g_assert_cmpuint(snapshots, ==, 1);
    g_assert_cmpuint(btrail_budget_left(out.kept), ==, 1 << 20);
    btrail_budget_unref(out.kept);
}

/* What there is no room for is sent, and not again. */
static void test_no_room(void)
{
    struct scan_output out = start(64);
    GBytes *sent = NULL;

    scan_output_keep(&out, &sent, scan_output_send(&out, &info, text));
    g_assert_cmpuint(pieces, ==, 1);
    g_assert_null(sent);
    btrail_budget_unref(out.kept);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/scan-output/sent", test_sent);
    g_test_add_func("/scan-output/snapshot", test_snapshot);
    g_test_add_func("/scan-output/no-room", test_no_room);
    return g_test_run();
}
