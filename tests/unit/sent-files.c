/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/sent-files.h: images are sent once
 */

#include "fake-linux.h"
#include "guest-linux/sent-files.h"
#include "guest-linux/tasks.h"
#include "util/clock.h"

static unsigned images, again;

static void got(void *opaque, const struct scanner_piece *piece)
{
    g_assert_cmpuint(piece->kernel, ==, 0);
    g_assert_cmpuint(piece->kind, ==, BTRAIL_SIDEBAND_IMAGE);
    images++;
    again += piece->again;
}

static const struct scanner_ops ops = { .piece = got };

/* Sends what is in a snapshot, with room for this many bytes. */
static void test_images(gconstpointer room)
{
    struct scan_output out = {
        .ops = &ops, .kept = btrail_budget_new_fixed(*(const uint64_t *)room,
                                                     4),
    };
    struct sent_files *files = sent_files_new(&out);
    bool fits = *(const uint64_t *)room > 64;
    struct btrail_snapshot *snapshot;
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, 0, &m);

    images = again = 0;
    snapshot = linux_snapshot(k, clock_ns, NULL, NULL);
    g_assert_cmpuint(snapshot->n, >, 1);
    sent_files_send(files, k, snapshot);
    g_assert_cmpuint(images, ==, fits);
    sent_files_send(files, k, snapshot);
    g_assert_cmpuint(images, ==, fits);
    sent_files_resend(files);
    g_assert_cmpuint(images, ==, 2 * fits);
    g_assert_cmpuint(again, ==, fits);
    linux_snapshot_free(snapshot);
    sent_files_free(files);
    fake_linux_end(&f, m, k);
    btrail_budget_unref(out.kept);
}

int main(int argc, char **argv)
{
    static const uint64_t much = 1 << 20, little = 64;

    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/sent-files/images", &much, test_images);
    g_test_add_data_func("/sent-files/no-room", &little, test_images);
    return g_test_run();
}
