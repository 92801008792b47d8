/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: make-sample FILE CHUNKS|large
 *
 * Writes the sample trace (see trace-samples.h) for tests in other languages;
 * or one with a lot of everything.
 */

#include <stdlib.h>

#include "trace-samples.h"

/* Slabs until there is more than one chunk; addresses and flags vary. */
static void write_large(const char *path)
{
    enum { SLABS = 30, RECORDS = 1000 };
    struct btrail_record records[RECORDS];
    struct btrail_event events[3];
    struct btrail_slab slab = {
        .records = records, .n_records = RECORDS,
        .events = events, .n_events = G_N_ELEMENTS(events),
    };
    struct btrail_writer *w;
    uint64_t random = 1;
    unsigned i, j;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    for (i = 0; i < SLABS; i++) {
        for (j = 0; j < RECORDS; j++) {
            uint64_t place = j % 37;

            random = random * 6364136223846793005ull + 1442695040888963407ull;
            if (random >> 60 == 0) {
                place = random >> 40 & 0xffff;
            }
            records[j].from = 0xffffffff81000000ull + place * 24;
            records[j].to = random >> 57 == 5 ? random : place * 8;
            records[j].flags = random >> 56 == 9 ? random >> 20 : 0;
        }
        slab.first_index += 13;
        events[0] = (struct btrail_event) {
            slab.first_index, BTRAIL_EVENT_GAP, BTRAIL_GAP_OVERFLOW, 0,
            { 13 },
        };
        events[1] = (struct btrail_event) {
            slab.first_index, BTRAIL_EVENT_TIME, 0, 0,
            { 1000000 + i * 12345, random, i },
        };
        slab.cr3 = 0x1000 * i;
        events[2] = (struct btrail_event) {
            slab.first_index + 500, BTRAIL_EVENT_CR3, 0, 0,
            { 0x1000 * (i + 1) },
        };
        g_assert_cmpint(btrail_writer_append(w, 2, &slab), ==, 0);
        slab.first_index += RECORDS;
        if (i == SLABS / 2) {
            g_assert_cmpint(btrail_writer_flush(w), ==, 0);
        }
    }
    g_assert_cmpint(btrail_writer_meta(w, "{}", 2), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }
    if (!g_strcmp0(argv[2], "large")) {
        write_large(argv[1]);
    } else {
        sample_write(argv[1], atoi(argv[2]));
    }
    return 0;
}
