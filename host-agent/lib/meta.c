/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The description of a trace: see meta.h
 */

#include "lib/internal/meta.h"

JsonObject *btrail_meta_read(const struct btrail_trace *trace, unsigned *bad)
{
    JsonObject *meta = json_object_new();
    const char *text;
    unsigned i;

    *bad = 0;
    for (i = 0; !btrail_trace_meta(trace, i, &text, NULL); i++) {
        g_autoptr(JsonNode) node = btrail_json_parse_object(text);
        JsonObjectIter iter;
        const char *name;
        JsonNode *value;

        if (!node) {
            ++*bad;
            continue;
        }
        json_object_iter_init(&iter, json_node_get_object(node));
        while (json_object_iter_next(&iter, &name, &value)) {
            json_object_set_member(meta, name, json_node_copy(value));
        }
    }
    return meta;
}
