/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace of a kernel whose modules come and go: see symbol-samples.h
 */

#include <glib.h>
#include <string.h>

#include "backtrail/trace.h"
#include "symbol-samples.h"

static const char own[] =
    "ffffffff81000000 T _text\n"
    "ffffffff81000100 T do_work\n"
    "ffffffff81000200 D _end\n";
static const char dummy[] =
    "ffffffffc0560000 t stay\t[stays]\n"
    "ffffffffc0560020 e .end\t[stays]\n"
    "ffffffffc0562000 t dummy_xmit\t[dummy]\n"
    "ffffffffc0562100 t dummy_setup\t[dummy]\n"
    "ffffffffc0562110 e .end\t[dummy]\n";
static const char tun[] =
    "ffffffffc0560000 t stay\t[stays]\n"
    "ffffffffc0560020 e .end\t[stays]\n"
    "ffffffffc0562000 t tun_get\t[tun]\n"
    "ffffffffc0562080 t tun_put\t[tun]\n"
    "ffffffffc0562090 e .end\t[tun]\n";

static void put(struct btrail_writer *w, uint16_t kind, uint64_t time,
                const char *text)
{
    const struct btrail_sideband_info info = {
        .kind = kind, .size = strlen(text), .time = time,
    };

    g_assert_cmpint(btrail_writer_sideband(w, &info, text), ==, 0);
}

void symbol_samples_write(const char *path)
{
    static const char meta[] = "{\"tick_ns\": 0}";
    struct btrail_writer *w;
    struct btrail_record records[6];
    struct btrail_event events[3];
    const struct btrail_slab slab = {
        .cr3 = 0x5000, .records = records, .n_records = 6, .events = events,
        .n_events = 3,
    };

    for (unsigned i = 0; i < 3; i++) {
        records[2 * i] = (struct btrail_record) {
            SYMBOL_SAMPLES_KERNEL + 8, SYMBOL_SAMPLES_MODULE, 0,
        };
        records[2 * i + 1] = (struct btrail_record) {
            SYMBOL_SAMPLES_MODULE + 4, SYMBOL_SAMPLES_KERNEL + 16, 0,
        };
        events[i] = (struct btrail_event) {
            .index = 2 * i, .type = BTRAIL_EVENT_TIME,
            .data = { 1500 + 1000 * i, 0, BTRAIL_NO_ICOUNT },
        };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    put(w, BTRAIL_SIDEBAND_SYMBOLS, 1000, own);
    put(w, BTRAIL_SIDEBAND_SYMBOLS, 1000, dummy);
    put(w, BTRAIL_SIDEBAND_HELD, 2000, "");
    put(w, BTRAIL_SIDEBAND_SYMBOLS, 3000, tun);
    put(w, BTRAIL_SIDEBAND_HELD, 4000, "");
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}
