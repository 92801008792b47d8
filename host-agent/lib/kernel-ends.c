/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When no kernel ran that is known: see kernel-ends.h
 */

#include <stdlib.h>

#include "lib/agent/bytes.h"
#include "lib/agent/meta.h"
#include "lib/agent/sideband.h"
#include "lib/internal/kernel-ends.h"
#include "util/search.h"
#include "util/sort.h"

/* A time without a kernel, from its first to its last moment */
struct no_kernel {
    uint64_t from;
    uint64_t last;
};

static gint by_from(gconstpointer p, gconstpointer q)
{
    const struct no_kernel *a = p, *b = q;

    return BTRAIL_COMPARE(a->from, b->from);
}

/* Times of all pieces of a kind, in order */
static GArray *times_of(const struct btrail_trace *trace, uint16_t kind)
{
    GArray *times = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct btrail_sideband_info info;

    for (unsigned i = 0; !btrail_trace_sideband(trace, i, &info, NULL); i++) {
        if (info.kind == kind) {
            g_array_append_val(times, info.time);
        }
    }
    btrail_order_u64(times);
    return times;
}

/* Times at which kernels begin: without symbols, they have processes. */
static GArray *find_begins(const struct btrail_trace *trace)
{
    GArray *times = times_of(trace, BTRAIL_SIDEBAND_SYMBOLS);

    if (!times->len) {
        g_array_unref(times);
        times = times_of(trace, BTRAIL_SIDEBAND_PROCESSES);
    }
    return times;
}

bool btrail_kernel_ended_get(const struct btrail_sideband_info *info,
                             const void *data, uint64_t *known)
{
    *known = info->size >= BTRAIL_SIDEBAND_ENDED_SIZE ? btrail_get64(data) : 0;
    if (*known < info->time) {
        *known = info->time;
        return false;
    }
    return info->size == BTRAIL_SIDEBAND_ENDED_SIZE;
}

/*
 * When it was known that the kernel had ended.  Even a damaged piece says that
 * it had.
 */
static uint64_t known_at(const struct btrail_trace *trace, unsigned i,
                         struct btrail_sideband_info *info)
{
    uint64_t at = info->time;
    void *data;

    if (!btrail_trace_sideband(trace, i, info, &data)) {
        btrail_kernel_ended_get(info, data, &at);
        free(data);
    }
    return at;
}

static void add_end(GArray *ends, uint64_t tick, const GArray *begins,
                    uint64_t time, uint64_t known)
{
    const uint64_t *all = (const uint64_t *)begins->data;
    size_t next = btrail_up_to(all, begins->len, sizeof(*all), false, 0, known);
    /* A record can be later than its time, and of what came then. */
    struct no_kernel end = {
        time - MIN(time, tick) + 1,
        next < begins->len ? all[next] - 1 : UINT64_MAX,
    };

    if (time != UINT64_MAX) {
        g_array_append_val(ends, end);
    }
}

/* Joins those that overlap. */
static void join(GArray *ends)
{
    struct no_kernel *all = (struct no_kernel *)ends->data;
    guint n = 0;

    g_array_sort(ends, by_from);
    for (guint i = 0; i < ends->len; i++) {
        if (n && all[i].from <= all[n - 1].last) {
            all[n - 1].last = MAX(all[n - 1].last, all[i].last);
        } else {
            all[n++] = all[i];
        }
    }
    g_array_set_size(ends, n);
}

GArray *btrail_kernel_ends_read(const struct btrail_trace *trace)
{
    g_autoptr(GArray) begins = NULL;
    GArray *ends = NULL;
    struct btrail_sideband_info info;
    uint64_t tick = 0;

    for (unsigned i = 0; !btrail_trace_sideband(trace, i, &info, NULL); i++) {
        uint64_t time = info.time;

        if (info.kind != BTRAIL_SIDEBAND_ENDED) {
            continue;
        }
        if (!ends) {
            unsigned bad;
            g_autoptr(JsonObject) meta = btrail_meta_read(trace, &bad);

            tick = btrail_meta_tick(meta);
            begins = find_begins(trace);
            ends = g_array_new(FALSE, FALSE, sizeof(struct no_kernel));
        }
        add_end(ends, tick, begins, time, known_at(trace, i, &info));
    }
    if (ends) {
        join(ends);
    }
    return ends;
}

bool btrail_kernel_ends_at(const GArray *ends, uint64_t time, uint64_t *from,
                           uint64_t *last)
{
    const struct no_kernel *all = ends ? (void *)ends->data : NULL;
    guint len = ends ? ends->len : 0;
    size_t n = BTRAIL_UP_TO(all, len, struct no_kernel, from, time);
    bool none = n && time <= all[n - 1].last;

    if (from) {
        *from = none ? all[n - 1].from : n ? all[n - 1].last + 1 : 0;
    }
    if (last) {
        *last = none ? all[n - 1].last :
                n < len ? all[n].from - 1 : UINT64_MAX;
    }
    return none;
}
