/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The description of a trace: see meta.h
 */

#include <string.h>

#include "lib/agent/meta.h"

/*
 * How many members a description may have, with those of its members: the
 * names can be such that each search passes all of them.
 */
#define MAX_MEMBERS 4096
/* A tick, if the trace does not say how long it is; and the longest one */
#define TICK        UINT64_C(1000000)
#define TICK_MAX    UINT64_C(10000000000)

/* Can it have more?  Each one has a colon. */
static bool has_many_members(const char *text)
{
    unsigned n = 0;

    for (; (text = strchr(text, ':')); text++) {
        if (++n > MAX_MEMBERS) {
            return true;
        }
    }
    return false;
}

JsonObject *btrail_meta_read(const struct btrail_trace *trace, unsigned *bad)
{
    JsonObject *meta = json_object_new();
    const char *text;
    unsigned i;

    *bad = 0;
    for (i = 0; !btrail_trace_meta(trace, i, &text, NULL); i++) {
        g_autoptr(JsonNode) node = has_many_members(text) ? NULL :
                                   btrail_json_parse_object(text);
        JsonObjectIter iter;
        const char *name;
        JsonNode *value;

        if (!node) {
            ++*bad;
            continue;
        }
        json_object_iter_init(&iter, json_node_get_object(node));
        while (json_object_iter_next(&iter, &name, &value)) {
            if (json_object_get_size(meta) < MAX_MEMBERS ||
                json_object_has_member(meta, name)) {
                json_object_set_member(meta, name, json_node_copy(value));
            }
        }
    }
    return meta;
}

uint64_t btrail_meta_tick(JsonObject *meta)
{
    gint64 tick = btrail_json_int(meta, "tick_ns", -1);

    return tick < 0 ? TICK : MIN((uint64_t)tick, TICK_MAX);
}

uint64_t btrail_busy_time(uint64_t tick)
{
    return 2 * (tick ? MIN(tick, TICK_MAX) : TICK);
}
