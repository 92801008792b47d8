/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time of a guest that is replayed: see guest-time.h
 */

#include "find/guest-time.h"
#include "lib/agent/meta.h"

#define NS_PER_S    UINT64_C(1000000000)
/* No TSC counts slower or faster. */
#define LEAST_HZ    UINT64_C(1000000)
#define MOST_HZ     UINT64_C(15000000000)

uint64_t guest_time_hz(const struct btrail_trace *trace)
{
    unsigned bad;
    g_autoptr(JsonObject) meta = btrail_meta_read(trace, &bad);
    /* A negative one is beyond MOST_HZ. */
    uint64_t hz = btrail_json_int(meta, "tsc_hz", 0);

    return hz < LEAST_HZ || hz > MOST_HZ ? NS_PER_S : hz;
}

uint64_t guest_time_ns(uint64_t tsc, uint64_t hz)
{
    uint64_t s = tsc / hz;

    return s >= UINT64_MAX / NS_PER_S ? UINT64_MAX :
           s * NS_PER_S + tsc % hz * NS_PER_S / hz;
}
