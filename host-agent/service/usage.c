/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guests use: see usage.h
 */

#include "service/quota.h"
#include "service/usage.h"

/* Bytes of memory that a capture with this many sessions uses */
static uint64_t capture_memory(const struct guest *g, unsigned sessions)
{
    const struct config *config = g->host->config;

    return sessions ? config->names + g->vcpus * config->buffer_size +
                      sessions * service_session_memory(g->vcpus) : 0;
}

/* A process gets no more for saying that it is several guests. */
static bool of_process(const struct guest *g,
                       const struct guest *other)
{
    return g == other || (g->link.process && *g->link.process &&
                          !g_strcmp0(g->link.process, other->link.process));
}

static bool of_user(const struct guest *g,
                    const struct guest *other)
{
    return g->link.uid == other->link.uid;
}

/*
 * What the sessions of the guests that count with @g use; those of all without
 * @counts
 */
static struct usage measure(const struct guest *g,
                            bool (*counts)(const struct guest *g,
                                           const struct guest *))
{
    struct usage usage = { 0 };

    for (unsigned i = 0; i < g->host->guests->len; i++) {
        const struct guest *other =
            g_ptr_array_index(g->host->guests, i);

        if (!counts || counts(g, other)) {
            usage.sessions += other->members->len;
            usage.memory += capture_memory(other, other->members->len);
        }
    }
    return usage;
}

bool usage_admit(const struct guest *g, GError **error)
{
    const struct config *config = g->host->config;
    struct usage one = measure(g, of_process);
    struct usage user = measure(g, of_user), all = measure(g, NULL);
    unsigned n = g->members->len;
    uint64_t more = capture_memory(g, n + 1) - capture_memory(g, n);

    if (g->host->ending) {
        return service_fail(error, SERVICE_ERROR_COMMAND,
                            "the service is about to end");
    }
    one.disk = quota_disk(&config->each, g->folder);
    all.disk = quota_disk(&config->all, g->host->folder);
    return quota_admit(config, &one, &user, &all, more,
                       folder_space(g->host->folder), error);
}

const char *usage_guest_exceeded(const struct guest *g)
{
    const struct usage usage = {
        .disk = quota_disk(&g->host->config->each, g->folder),
    };

    return quota_guest_exceeded(g->host->config, &usage);
}

const char *usage_all_exceeded(const struct host *host,
                               struct guest **g,
                               struct guest_member **m)
{
    const struct usage all = {
        .disk = quota_disk(&host->config->all, host->folder),
    };
    uint64_t most = 0, space = folder_space(host->folder);
    const char *why = quota_all_exceeded(host->config, &all, space);

    *g = NULL;
    *m = NULL;
    if (!why || space < host->config->keep_free / 2) {
        return why;
    }
    /* One session at a time: ending the largest one may be enough. */
    for (unsigned i = 0; i < host->guests->len; i++) {
        struct guest *of = g_ptr_array_index(host->guests, i);

        for (unsigned k = 0; k < of->members->len; k++) {
            struct guest_member *one = guest_member_at(of->members, k);
            uint64_t bytes = service_session_bytes(one->session);

            if (guest_member_is_active(one) && bytes > most) {
                most = bytes;
                *g = of;
                *m = one;
            }
        }
    }
    return *m ? why : NULL;
}
