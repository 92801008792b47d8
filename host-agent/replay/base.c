/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The base of a recording: see base.h
 */

#include "replay/base.h"
#include "util/clock.h"
#include "util/json.h"

#define POLL_US         5000
/* For each byte, if the disk of the host reads no more than 10 MB/s */
#define NS_PER_BYTE     100
#define LEAST_S         60
#define COMMAND_MS      60000

void base_add(const struct recording *r, struct emulator *e)
{
    if (r->base) {
        emulator_add(e, "-incoming");
        emulator_add(e, "file:recording/%s", r->base);
    }
}

static bool is_loading(struct emulator *e, bool *loading, GError **error)
{
    g_autoptr(JsonNode) node = emulator_execute(e, "query-status", NULL, -1,
                                                COMMAND_MS, error);
    const char *status = node && JSON_NODE_HOLDS_OBJECT(node) ?
        btrail_json_string(json_node_get_object(node), "status") : NULL;

    *loading = !g_strcmp0(status, "inmigrate");
    return node;
}

bool base_wait(const struct recording *r, struct emulator *e, GError **error)
{
    const struct recorded_file *f = r->base ? recording_find_file(r, r->base) :
                                    NULL;
    uint64_t size = MIN(f ? f->size : 0, UINT64_MAX / 4 / NS_PER_BYTE);
    uint64_t end = clock_ns() + size * NS_PER_BYTE +
                   LEAST_S * UINT64_C(1000000000);
    bool loading = r->base != NULL;

    while (loading) {
        if (!is_loading(e, &loading, error)) {
            g_prefix_error(error, "QEMU cannot load the base: ");
            return false;
        }
        if (loading && clock_ns() > end) {
            return agent_fail(error, AGENT_ERROR_TIMEOUT,
                              "QEMU does not end loading the base");
        }
        if (loading) {
            g_usleep(POLL_US);
        }
    }
    return true;
}
