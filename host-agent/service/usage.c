/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guests use: see usage.h
 */

#include "service/guest.h"
#include "service/quota.h"
#include "service/usage.h"

/* Bytes of memory that a capture with so many sessions uses */
static uint64_t capture_memory(const struct btrail_guest *g, unsigned sessions)
{
    const struct btrail_config *config = g->host->config;

    return sessions ? config->names + g->vcpus * config->buffer_size +
                      sessions * btrail_service_session_memory(g->vcpus) : 0;
}

/* What a folder has on the disk, if there is a limit */
static uint64_t measure_disk(const struct btrail_config_limits *limits,
                             const struct btrail_folder *folder)
{
    return limits->disk ? btrail_folder_usage(folder) : 0;
}

static void add_sessions(struct btrail_usage *usage,
                         const struct btrail_guest *g)
{
    usage->sessions += g->members->len;
    usage->memory += capture_memory(g, g->members->len);
}

/* A process gets no more for saying that it is several guests. */
static bool is_one_process(const struct btrail_guest *a,
                           const struct btrail_guest *b)
{
    return a == b || (a->link.process && *a->link.process &&
                      !g_strcmp0(a->link.process, b->link.process));
}

static struct btrail_usage measure_guest(const struct btrail_guest *g)
{
    struct btrail_usage one = {
        .disk = measure_disk(&g->host->config->each, g->folder),
    };

    for (unsigned i = 0; i < g->host->guests->len; i++) {
        const struct btrail_guest *other =
            g_ptr_array_index(g->host->guests, i);

        if (is_one_process(g, other)) {
            add_sessions(&one, other);
        }
    }
    return one;
}

static struct btrail_usage measure_user(const struct btrail_guest *g)
{
    struct btrail_usage user = { 0 };

    for (unsigned i = 0; i < g->host->guests->len; i++) {
        const struct btrail_guest *other =
            g_ptr_array_index(g->host->guests, i);

        if (other->link.uid == g->link.uid) {
            add_sessions(&user, other);
        }
    }
    return user;
}

static struct btrail_usage measure_all(const struct btrail_host *host)
{
    struct btrail_usage all = {
        .disk = measure_disk(&host->config->all, host->folder),
    };

    for (unsigned i = 0; i < host->guests->len; i++) {
        add_sessions(&all, g_ptr_array_index(host->guests, i));
    }
    return all;
}

bool btrail_usage_admit(const struct btrail_guest *g, GError **error)
{
    struct btrail_usage one = measure_guest(g), user = measure_user(g);
    struct btrail_usage all = measure_all(g->host);
    unsigned n = g->members->len;
    uint64_t more = capture_memory(g, n + 1) - capture_memory(g, n);

    if (g->host->ending) {
        return btrail_service_fail(error, BTRAIL_SERVICE_ERROR_COMMAND,
                                   "the service is about to end");
    }
    return btrail_quota_admit(g->host->config, &one, &user, &all, more,
                              btrail_folder_space(g->host->folder), error);
}

bool btrail_usage_admit_file(const struct btrail_host *host,
                             const struct btrail_folder *folder,
                             GError **error)
{
    const struct btrail_config *config = host->config;
    const struct btrail_usage one = {
        .disk = measure_disk(&config->each, folder),
    };
    const struct btrail_usage all = {
        .disk = measure_disk(&config->all, host->folder),
    };

    return btrail_quota_admit_disk(config, &one, &all,
                                   btrail_folder_space(host->folder), error);
}

/* One session at a time: ending the largest one may be enough. */
static void enforce_all(struct btrail_host *host)
{
    struct btrail_usage all = measure_all(host);
    uint64_t most = 0, space = btrail_folder_space(host->folder);
    const char *why = btrail_quota_all_exceeded(host->config, &all, space);
    struct btrail_guest *of = NULL;
    struct guest_member *largest = NULL;

    for (unsigned i = 0; why && i < host->guests->len; i++) {
        struct btrail_guest *g = g_ptr_array_index(host->guests, i);

        if (space < host->config->keep_free / 2) {
            btrail_guest_end(g, why);
            continue;
        }
        for (unsigned k = 0; k < g->members->len; k++) {
            struct guest_member *m = guest_member_at(g->members, k);
            uint64_t bytes = btrail_service_session_bytes(m->session);

            if (guest_member_is_active(m) && bytes > most) {
                most = bytes;
                largest = m;
                of = g;
            }
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

    for (unsigned i = 0; i < host->guests->len; i++) {
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
