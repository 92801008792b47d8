/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Samples for stores: see store-samples.h
 */

#include <glib.h>
#include <sys/stat.h>

#include "lib/agent/parts.h"
#include "store-samples.h"

struct store_parts store_parts(const char *path)
{
    g_autoptr(GArray) parts = btrail_parts_find(path);
    struct store_parts found = { .first = UINT32_MAX };
    uint32_t zero = 0;
    unsigned i;

    g_array_prepend_val(parts, zero);
    for (i = 0; i < parts->len; i++) {
        uint32_t part = g_array_index(parts, uint32_t, i);
        g_autofree char *name = btrail_part_path(path, part);
        struct stat st;

        if (stat(name, &st) < 0) {
            g_assert_cmpuint(part, ==, 0);
            continue;
        }
        found.total += st.st_size;
        found.first = MIN(found.first, part);
        found.last = part;
        found.n++;
    }
    return found;
}

int store_put_chunk(struct btrail_store *store, uint64_t index, size_t len)
{
    struct btrail_block *block = btrail_block_new();
    struct btrail_packer *packer = btrail_packer_new();
    struct btrail_buf payload = { 0 };
    unsigned i;
    int ret;

    block->header = (struct btrail_block_header) {
        .first_index = index, .end_index = index + 1, .records = 1,
        .time_first = (index + 1) * 1000000, .time_last = (index + 1) * 1000000,
    };
    for (i = 0; i < index % 10; i++) {
        btrail_cr3set_switch(&block->header.switches, 0, (i + 1ull) << 12);
    }
    btrail_packer_pack(packer, block, &payload);
    g_assert_cmpuint(payload.len, <=, len);
    btrail_buf_reserve(&payload, len);
    memset(payload.data + payload.len, 0, len - payload.len);
    ret = btrail_store_data(store, payload.data, len, &block->header);
    btrail_buf_free(&payload);
    btrail_packer_free(packer);
    btrail_block_free(block);
    return ret;
}
