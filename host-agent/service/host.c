/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything that the guests of one service share: see host.h
 */

#include "service/host.h"
#include "service/quota.h"

void btrail_host_changed(struct btrail_host *host)
{
    g_source_set_ready_time(host->changed, 0);
}

bool btrail_host_admit_file(struct btrail_host *host,
                            const struct btrail_folder *folder,
                            GError **error)
{
    const struct btrail_config *config = host->config;
    struct btrail_usage one = { 0 }, all = { 0 };

    if (config->each.disk) {
        one.disk = btrail_folder_usage(folder);
    }
    if (config->all.disk) {
        all.disk = btrail_folder_usage(host->folder);
    }
    return btrail_quota_admit_disk(config, &one, &all,
                                   btrail_folder_space(host->folder), error);
}
