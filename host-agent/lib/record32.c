/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Records in the 32-bit format
 *
 * Traces have one format of records, the wider one: addresses that fit into
 * 32 bits take no more room in a file for that.
 */

#include <glib.h>

#include "backtrail/trace.h"

int btrail_records_from_32(struct btrail_record *records,
                           const struct btrail_record32 *from, size_t n)
{
    size_t i;

    if (n && (!records || !from)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    for (i = 0; i < n; i++) {
        records[i] = (struct btrail_record) {
            from[i].from, from[i].to, from[i].flags,
        };
    }
    return 0;
}

int btrail_records_to_32(struct btrail_record32 *records,
                         const struct btrail_record *from, size_t n)
{
    size_t i;

    if (n && (!records || !from)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    for (i = 0; i < n; i++) {
        if ((from[i].from | from[i].to | from[i].flags) > UINT32_MAX) {
            return -BTRAIL_ERR_RANGE;
        }
        records[i] = (struct btrail_record32) {
            from[i].from, from[i].to, from[i].flags,
        };
    }
    return 0;
}

int btrail_writer_append_32(struct btrail_writer *writer, unsigned vcpu,
                            const struct btrail_slab *slab,
                            const struct btrail_record32 *records)
{
    g_autofree struct btrail_record *wide = NULL;
    struct btrail_slab copy;

    if (!slab || slab->records || (slab->n_records && !records)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    copy = *slab;
    if (slab->n_records) {
        wide = g_try_new(struct btrail_record, slab->n_records);
        if (!wide) {
            return -BTRAIL_ERR_MEMORY;
        }
        btrail_records_from_32(wide, records, slab->n_records);
        copy.records = wide;
    }
    return btrail_writer_append(writer, vcpu, &copy);
}
