/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guests use: see usage.h
 */

#include "service/usage.h"

static struct btrail_usage measure_guest(const struct btrail_guest *g)
{
    struct btrail_usage usage = {
        .sessions = g->members->len,
        .memory = btrail_guest_memory(g, g->members->len),
    };

    if (g->host->config->each.disk) {
        usage.disk = btrail_folder_usage(g->folder);
    }
    return usage;
}

static struct btrail_usage measure_all(const struct btrail_host *host)
{
    struct btrail_usage all = { 0 };
    unsigned i;

    for (i = 0; i < host->guests->len; i++) {
        const struct btrail_guest *g = g_ptr_array_index(host->guests, i);

        all.sessions += g->members->len;
        all.memory += btrail_guest_memory(g, g->members->len);
    }
    if (host->config->all.disk) {
        all.disk = btrail_folder_usage(host->folder);
    }
    return all;
}

bool btrail_usage_admit(const struct btrail_guest *g, GError **error)
{
    struct btrail_usage one = measure_guest(g), all = measure_all(g->host);
    uint64_t more = btrail_guest_memory(g, one.sessions + 1) - one.memory;

    if (g->host->ending) {
        return btrail_service_fail(error, BTRAIL_SERVICE_ERROR_COMMAND,
                                   "the service is about to end");
    }
    return btrail_quota_admit(g->host->config, &one, &all, more,
                              btrail_folder_space(g->host->folder), error);
}

/* One session at a time: ending the largest one may be enough. */
static void enforce_all(struct btrail_host *host)
{
    struct btrail_usage all = measure_all(host);
    uint64_t most = 0, space = btrail_folder_space(host->folder);
    const char *why = btrail_quota_all_exceeded(host->config, &all, space);
    struct btrail_guest *of = NULL;
    struct guest_member *largest = NULL;
    unsigned i;

    for (i = 0; why && i < host->guests->len; i++) {
        struct btrail_guest *g = g_ptr_array_index(host->guests, i);
        struct guest_member *m = btrail_guest_largest(g);

        if (space < host->config->keep_free / 2) {
            btrail_guest_end(g, why);
        } else if (m && btrail_service_session_bytes(m->session) > most) {
            most = btrail_service_session_bytes(m->session);
            largest = m;
            of = g;
        }
    }
    if (largest) {
        btrail_guest_end_session(of, largest, why);
    }
}

gboolean btrail_usage_enforce(gpointer opaque)
{
    struct btrail_host *host = opaque;
    bool active = false;
    unsigned i;

    for (i = 0; i < host->guests->len; i++) {
        struct btrail_guest *g = g_ptr_array_index(host->guests, i);

        if (g->capture.name) {
            struct btrail_usage usage = measure_guest(g);
            const char *why = btrail_quota_guest_exceeded(host->config,
                                                          &usage);

            active = true;
            if (why) {
                btrail_guest_end(g, why);
            }
        }
    }
    if (active) {
        enforce_all(host);
    }
    return G_SOURCE_CONTINUE;
}
