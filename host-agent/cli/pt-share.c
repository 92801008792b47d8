/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much of a guest a trace of Intel PT has: see pt-share.h
 */

#include <inttypes.h>

#include "cli/pt-share.h"
#include "util/json.h"

static uint64_t number(JsonObject *pt, const char *name)
{
    return (uint64_t)MAX(btrail_json_int(pt, name, 0), 0);
}

char *pt_share_text(JsonObject *meta)
{
    JsonObject *pt = btrail_json_object(meta, "pt");
    uint64_t decoded, guest;
    GString *text;

    if (!pt) {
        return NULL;
    }
    decoded = number(pt, "decoded");
    guest = decoded + number(pt, "skipped");
    text = g_string_new(NULL);
    if (guest) {
        /* Not rounded up: 100% is all. */
        g_string_append_printf(text, "%.1f%% of %" PRIu64 " bytes of the guest "
                               "decoded", (uint64_t)(decoded * 1000.0 / guest) /
                               10.0, guest);
    } else {
        g_string_append(text, "no bytes of the guest");
    }
    g_string_append_printf(
        text, ", %" PRIu64 " of the host; %s%" PRIu64 " address spaces, %"
        PRIu64 " never decoded", number(pt, "host"),
        btrail_json_is_true(pt, "more_address_spaces") ? "more than " : "",
        number(pt, "address_spaces"), number(pt, "never_decoded"));
    if (btrail_json_is_true(pt, "ended")) {
        g_string_append_printf(text, "; ended early, %" PRIu64 " bytes were "
                               "not read", number(pt, "size") -
                               MIN(number(pt, "read"), number(pt, "size")));
    }
    return g_string_free(text, FALSE);
}

char *pt_share_times(JsonObject *meta)
{
    JsonObject *clock = btrail_json_object(meta, "pt_clock");
    const char *packets = clock ? btrail_json_string(clock, "packets") : NULL;

    if (!btrail_json_object(meta, "pt")) {
        return NULL;
    }
    if (!clock) {
        return g_strdup("not known: all records have the time of the begin");
    }
    if (!g_strcmp0(packets, "cyc")) {
        return g_strdup_printf("by cycles, no closer than %" PRIu64 " ns",
                               number(clock, "step"));
    }
    if (!g_strcmp0(packets, "mtc")) {
        return g_strdup_printf("by MTC packets, each %" PRIu64 " ns",
                               number(clock, "step"));
    }
    return g_strdup("by TSC packets only: where a PSB is, and where tracing "
                    "goes on");
}

bool pt_share_adds_up(JsonObject *meta)
{
    JsonObject *pt = btrail_json_object(meta, "pt");

    return !pt || (number(pt, "decoded") + number(pt, "skipped") +
                   number(pt, "host") == number(pt, "read") &&
                   number(pt, "read") <= number(pt, "size"));
}
