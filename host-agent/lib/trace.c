/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Traces: the public side of a file that is read
 */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "trace.h"

struct btrail_trace {
    struct btrail_file *file;
};

const struct btrail_trace_stream *
btrail_trace_find_stream(const struct btrail_trace *t, unsigned vcpu)
{
    unsigned place;

    return btrail_find_stream(t->file->streams, vcpu, &place);
}

int btrail_trace_read_chunk(const struct btrail_trace *t,
                            const struct btrail_index_entry *entry,
                            uint8_t *buf)
{
    return btrail_file_read_chunk(t->file, entry, buf);
}

const struct btrail_roots *
btrail_trace_roots(const struct btrail_trace *t,
                   const struct btrail_index_entry *entry)
{
    return &t->file->roots;
}

int btrail_trace_open_fd(struct btrail_trace **trace, int fd)
{
    struct btrail_file *file;
    int ret;

    if (!trace) {
        if (fd >= 0) {
            close(fd);
        }
        return -BTRAIL_ERR_ARGUMENT;
    }
    ret = btrail_file_open(&file, fd);
    if (ret) {
        return ret;
    }
    *trace = g_new0(struct btrail_trace, 1);
    (*trace)->file = file;
    return 0;
}

int btrail_trace_open(struct btrail_trace **trace, const char *path)
{
    if (!trace || !path) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    return btrail_trace_open_fd(trace, open(path, O_RDONLY | O_CLOEXEC));
}

void btrail_trace_close(struct btrail_trace *t)
{
    if (t) {
        btrail_file_close(t->file);
        g_free(t);
    }
}

int btrail_trace_status(const struct btrail_trace *t,
                        struct btrail_trace_status *status)
{
    if (!t || !status) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    *status = t->file->status;
    return 0;
}

unsigned btrail_trace_streams(const struct btrail_trace *t)
{
    return t ? t->file->streams->len : 0;
}

int btrail_trace_stream(const struct btrail_trace *t, unsigned n,
                        struct btrail_stream_info *info)
{
    const struct btrail_trace_stream *s;
    unsigned i;

    if (!t || !info) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (n >= t->file->streams->len) {
        return -BTRAIL_ERR_STREAM;
    }
    s = &g_array_index(t->file->streams, struct btrail_trace_stream, n);
    *info = (struct btrail_stream_info) {
        .vcpu = s->vcpu,
        .chunks = s->chunks->len,
    };
    for (i = 0; i < s->chunks->len; i++) {
        const struct btrail_index_entry *e =
            &g_array_index(s->chunks, struct btrail_index_entry, i);

        info->records += e->records;
        if (!i) {
            info->first_index = e->first_index;
        }
        if (!info->first_time) {
            info->first_time = e->time_first;
        }
        if (e->time_last) {
            info->last_time = e->time_last;
        }
        info->end_index = e->end_index;
    }
    return 0;
}

int btrail_trace_meta(const struct btrail_trace *t, unsigned n,
                      const char **json, size_t *length)
{
    const struct btrail_meta *meta;

    if (!t || !json) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (n >= t->file->metas->len) {
        return -BTRAIL_ERR_END;
    }
    meta = &g_array_index(t->file->metas, struct btrail_meta, n);
    *json = meta->json;
    if (length) {
        *length = meta->length;
    }
    return 0;
}
