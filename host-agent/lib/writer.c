/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The public writer: streams that write their blocks at once
 */

#include <errno.h>

#include "lib/agent/chunk.h"
#include "lib/agent/store.h"
#include "lib/agent/stream.h"

struct btrail_writer {
    struct btrail_block_sink sink;
    struct btrail_store *store;
    struct btrail_packer *packer;
    struct btrail_block *unused;
    struct btrail_buf payload;
    bool anywhere;              /* can streams begin */
    struct btrail_stream *streams[BTRAIL_MAX_VCPUS];
};

static struct btrail_block *writer_get(struct btrail_block_sink *sink)
{
    struct btrail_writer *w = (struct btrail_writer *)sink;
    struct btrail_block *block = w->unused;

    w->unused = NULL;
    return block ? block : btrail_block_new();
}

static int writer_put(struct btrail_block_sink *sink,
                      struct btrail_block *block)
{
    struct btrail_writer *w = (struct btrail_writer *)sink;
    int ret;

    btrail_packer_pack(w->packer, block, &w->payload);
    ret = btrail_store_data(w->store, w->payload.data, w->payload.len,
                            &block->header);
    if (!ret) {
        ret = btrail_store_sync(w->store, NULL);
    }
    btrail_block_free(w->unused);
    btrail_block_trim(block);
    w->unused = block;
    return ret;
}

int btrail_writer_open_with(struct btrail_writer **writer, const char *path,
                            const struct btrail_writer_options *options)
{
    struct btrail_store_options store_options;
    struct btrail_writer *w;
    struct btrail_store *store;
    int ret;

    if (!writer || !path || !options ||
        (options->flags & ~BTRAIL_WRITER_REPLACE) ||
        options->sync > BTRAIL_SYNC_INTERVAL) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    store_options = (struct btrail_store_options) {
        .path = path,
        .replace = options->flags & BTRAIL_WRITER_REPLACE,
        .id = options->id,
        .begin = options->begin,
        .part_size = options->part_size,
        .ring_size = options->ring_size,
        .sync = options->sync,
        .sync_interval = options->sync_interval,
    };
    ret = btrail_store_open(&store, &store_options);
    if (ret) {
        return ret;
    }
    w = g_new0(struct btrail_writer, 1);
    w->sink.get = writer_get;
    w->sink.put = writer_put;
    w->store = store;
    w->packer = btrail_packer_new();
    w->anywhere = options->begin;
    *writer = w;
    return 0;
}

int btrail_writer_open(struct btrail_writer **writer, const char *path,
                       unsigned flags)
{
    struct btrail_writer_options options = { .flags = flags };

    return btrail_writer_open_with(writer, path, &options);
}

int btrail_writer_meta(struct btrail_writer *w, const char *json,
                       size_t length)
{
    if (!w || !json || !length || length > BTRAIL_META_MAX_PAYLOAD ||
        !g_utf8_validate_len(json, length, NULL)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    return btrail_store_meta(w->store, json, length);
}

int btrail_writer_sideband(struct btrail_writer *w,
                           const struct btrail_sideband_info *info,
                           const void *data)
{
    int ret;

    if (!w || !info || info->size > BTRAIL_SIDEBAND_MAX_SIZE ||
        (info->size && !data)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    btrail_sideband_pack(info, data, &w->payload);
    ret = btrail_store_sideband(w->store, w->payload.data, w->payload.len);
    return ret ? ret : btrail_store_sync(w->store, NULL);
}

int btrail_writer_append(struct btrail_writer *w, unsigned vcpu,
                         const struct btrail_slab *slab)
{
    if (!w || vcpu >= BTRAIL_MAX_VCPUS || !slab ||
        (slab->n_records && !slab->records) ||
        (slab->n_events && !slab->events)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (!w->streams[vcpu]) {
        w->streams[vcpu] = btrail_stream_new(vcpu, &w->sink, w->anywhere);
    }
    return btrail_stream_append(w->streams[vcpu], slab, BTRAIL_GAP_CORRUPT);
}

int btrail_writer_flush(struct btrail_writer *w)
{
    int first = 0;
    unsigned i;

    if (!w) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    for (i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (w->streams[i]) {
            int ret = btrail_stream_flush(w->streams[i]);

            first = first ? first : ret;
        }
    }
    return first ? first : btrail_store_sync(w->store, NULL);
}

int btrail_writer_close(struct btrail_writer *w)
{
    int ret, error;
    unsigned i;

    if (!w) {
        return 0;
    }
    /* An error is sticky: closing returns it again. */
    btrail_writer_flush(w);
    ret = btrail_store_close(w->store, NULL);
    error = errno;
    for (i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        btrail_stream_free(w->streams[i]);
    }
    btrail_packer_free(w->packer);
    btrail_block_free(w->unused);
    btrail_buf_free(&w->payload);
    g_free(w);
    errno = error;
    return ret;
}
