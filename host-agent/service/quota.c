/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The limits of guests: see quota.h
 */

#include "service/quota.h"

/* @whose: "this guest" or "all guests together" */
static bool admit_traces(const struct config_limits *l,
                         const struct usage *u, const char *whose,
                         GError **error)
{
    return !l->disk || u->disk < l->disk ||
           service_fail(error, SERVICE_ERROR_LIMIT,
                        "the traces of %s take %" G_GUINT64_FORMAT
                        " bytes, and may take %" G_GUINT64_FORMAT
                        "; remove some, on the guest's host", whose,
                        u->disk, l->disk);
}

static bool admit(const struct config_limits *l,
                  const struct usage *u, uint64_t memory,
                  const char *whose, const char *group, GError **error)
{
    if (l->sessions && u->sessions >= l->sessions) {
        return service_fail(error, SERVICE_ERROR_LIMIT,
                            "%s may have %" G_GUINT64_FORMAT
                            " sessions at a time; stop another one "
                            "first", whose, l->sessions);
    }
    if (l->memory && !u->sessions && memory > l->memory) {
        return service_fail(error, SERVICE_ERROR_LIMIT,
                            "a session of this guest takes %"
                            G_GUINT64_FORMAT " bytes of memory, and %s "
                            "may take %" G_GUINT64_FORMAT "; raise "
                            "'memory' in [%s] of backtraild's "
                            "configuration, or lower 'buffer-size'",
                            memory, whose, l->memory, group);
    }
    return !l->memory ||
           (u->memory < l->memory && memory <= l->memory - u->memory) ||
           service_fail(error, SERVICE_ERROR_LIMIT,
                        "the sessions of %s would take %"
                        G_GUINT64_FORMAT " bytes of memory, and may "
                        "take %" G_GUINT64_FORMAT "; stop another one "
                        "first", whose, u->memory + memory, l->memory);
}

uint64_t quota_share(uint64_t all)
{
    return all - all / 4;
}

bool quota_admit(const struct config *config,
                         const struct usage *guest,
                         const struct usage *user,
                         const struct usage *all, uint64_t memory,
                         uint64_t space, GError **error)
{
    const struct config_limits share = {
        .sessions = quota_share(config->all.sessions),
        .memory = quota_share(config->all.memory),
    };

    return admit(&config->each, guest, memory, "this guest", "each-guest",
                 error) &&
           admit(&config->all, all, memory, "all guests together", "all-guests",
                 error) &&
           admit(&share, user, memory, "the guests of one user", "all-guests",
                 error) &&
           quota_admit_disk(config, guest, all, space, error);
}

bool quota_admit_disk(const struct config *config,
                      const struct usage *guest,
                      const struct usage *all, uint64_t space,
                      GError **error)
{
    return admit_traces(&config->each, guest, "this guest", error) &&
           admit_traces(&config->all, all, "all guests together", error) &&
           (space > config->keep_free ||
            service_fail(error, SERVICE_ERROR_LIMIT,
                         "the disk for traces has %" G_GUINT64_FORMAT
                         " bytes left, of which %" G_GUINT64_FORMAT
                         " must stay free", space, config->keep_free));
}

uint64_t quota_disk(const struct config_limits *limits,
                    const struct folder *folder)
{
    return limits->disk ? folder_usage(folder) : 0;
}

bool quota_admit_file(const struct host *host,
                      const struct folder *folder,
                      GError **error)
{
    const struct config *config = host->config;
    const struct usage one = {
        .disk = quota_disk(&config->each, folder),
    };
    const struct usage all = {
        .disk = quota_disk(&config->all, host->folder),
    };

    return quota_admit_disk(config, &one, &all,
                            folder_space(host->folder), error);
}

const char *quota_guest_exceeded(const struct config *config,
                                         const struct usage *guest)
{
    if (config->each.disk && guest->disk > config->each.disk) {
        return "the guest's traces take all the disk space that they may";
    }
    return NULL;
}

const char *quota_all_exceeded(const struct config *config,
                                       const struct usage *all,
                                       uint64_t space)
{
    if (space < config->keep_free) {
        return "the disk for traces is nearly full";
    }
    if (config->all.disk && all->disk > config->all.disk) {
        return "the traces of all guests take all the disk space that they "
               "may";
    }
    return NULL;
}
