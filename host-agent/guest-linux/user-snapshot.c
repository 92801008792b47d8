/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshots without addresses of the kernel: see user-snapshot.h
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/user-snapshot.h"

static uint64_t number_of(uint64_t mm, const uint8_t *key)
{
    GHmac *hmac = g_hmac_new(G_CHECKSUM_SHA256, key, USER_SNAPSHOT_KEY);
    uint8_t digest[32];
    gsize size = sizeof(digest);
    uint64_t number;

    g_hmac_update(hmac, (const guchar *)&mm, sizeof(mm));
    g_hmac_get_digest(hmac, digest, &size);
    g_hmac_unref(hmac);
    memcpy(&number, digest, sizeof(number));
    /* In the user's half, and not 0, which is for processes of the kernel */
    return number >> 1 | 1;
}

int snapshot_encode_user(const struct btrail_snapshot *snapshot,
                         const uint8_t *key, void **data,
                         size_t *size)
{
    struct btrail_snapshot copy = *snapshot;
    int ret;

    copy.processes = g_memdup2(snapshot->processes,
                               snapshot->n * sizeof(*snapshot->processes));
    for (uint32_t i = 0; i < copy.n; i++) {
        struct btrail_process *p = &copy.processes[i];

        if (p->mm) {
            p->mm = number_of(p->mm, key);
        }
    }
    ret = btrail_snapshot_encode(&copy, data, size);
    g_free(copy.processes);
    return ret;
}
