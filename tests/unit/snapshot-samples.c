/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshots in traces that tests write: see snapshot-samples.h
 */

#include <glib.h>
#include <stdlib.h>

#include "snapshot-samples.h"

void sample_snapshot(struct btrail_writer *w,
                     const struct btrail_snapshot *snapshot)
{
    struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_PROCESSES, .time = snapshot->end,
        .kernel = snapshot->n ? snapshot->processes[0].kernel : 0,
    };
    void *data;
    size_t size;

    g_assert_cmpint(btrail_snapshot_encode(snapshot, &data, &size), ==, 0);
    info.size = size;
    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
    free(data);
}
