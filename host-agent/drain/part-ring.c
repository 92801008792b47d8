/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A flight recorder: see part-ring.h
 */

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "drain/part-ring.h"
#include "lib/agent/parts.h"
#include "lib/agent/trace-files.h"
#include "util/random.h"

/* Names are resent when their file has half of the ring's size, or this. */
#define NAMES_MIN   (UINT64_C(64) << 20)

struct part_ring {
    char *records;              /* path of its first part */
    char *old_names;            /* NULL if there are none */
    char *new_names;
    unsigned generation;
    uint64_t max_names;
    uint8_t id[BTRAIL_ID_SIZE];
    unsigned held;              /* atomic */
    struct btrail_store *store;
    struct btrail_store *names;
};

static struct btrail_store *open_names_file(struct part_ring *r,
                                            const char *path)
{
    const struct btrail_store_options options = {
        .path = path,
        .id = r->id,
        /* Why records are missing before the first */
        .begin = BTRAIL_GAP_OVERWRITTEN,
        .sync = BTRAIL_SYNC_NONE,
    };
    struct btrail_store *store;

    return btrail_store_open(&store, &options) ? NULL : store;
}

static char *names_path(struct part_ring *r)
{
    g_autofree char *folder = g_path_get_dirname(r->records);

    return g_strdup_printf("%s/names-%u.btrail", folder, r->generation++);
}

struct part_ring *part_ring_new(const char *folder,
                                const struct session_limit *limit)
{
    struct part_ring *r = g_new0(struct part_ring, 1);
    struct btrail_store_options options = {
        .id = r->id,
        .ring_size = limit->bytes,
        .ring_records = limit->records,
        .ring_ns = limit->ns,
        .ring_held = &r->held,
        /* What is soon deleted is not worth waiting for a disk. */
        .sync = BTRAIL_SYNC_NONE,
    };
    int error;

    random_bytes(r->id, sizeof(r->id));
    r->max_names = MAX(NAMES_MIN, limit->bytes / 2);
    r->records = g_build_filename(folder, "ring.btrail", NULL);
    r->new_names = names_path(r);
    options.path = r->records;
    if (!btrail_store_open(&r->store, &options)) {
        r->names = open_names_file(r, r->new_names);
        if (r->names) {
            return r;
        }
        error = errno;
        btrail_store_close(r->store, NULL);
        unlink(r->records);
        errno = error;
    }
    error = errno;
    g_free(r->records);
    g_free(r->new_names);
    g_free(r);
    errno = error;
    return NULL;
}

struct btrail_store *part_ring_store(struct part_ring *r)
{
    return r->store;
}

struct btrail_store *part_ring_names(struct part_ring *r)
{
    return r->names;
}

void part_ring_hold(struct part_ring *r)
{
    __atomic_fetch_add(&r->held, 1, __ATOMIC_ACQ_REL);
}

void part_ring_release(struct part_ring *r)
{
    __atomic_fetch_sub(&r->held, 1, __ATOMIC_ACQ_REL);
}

void part_ring_trim(struct part_ring *r)
{
    btrail_store_trim(r->store);
}

bool part_ring_names_full(struct part_ring *r)
{
    return btrail_store_size(r->names) > r->max_names;
}

struct btrail_store *part_ring_new_names(struct part_ring *r)
{
    g_autofree char *path = names_path(r);
    struct btrail_store *names = open_names_file(r, path);

    if (!names) {
        return NULL;
    }
    btrail_store_close(r->names, NULL);
    r->names = names;
    if (r->old_names) {
        unlink(r->old_names);
        g_free(r->old_names);
    }
    r->old_names = r->new_names;
    r->new_names = g_steal_pointer(&path);
    return names;
}

static void add_file(gpointer files, const char *path)
{
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    /* Any part may be the first that exists. */
    if (fd >= 0) {
        g_array_append_val((GArray *)files, fd);
    }
}

static void close_ring_file(gpointer p)
{
    close(*(int *)p);
}

/* Calls @fn for each part of the ring. */
static void for_parts(struct part_ring *r,
                      void (*fn)(gpointer opaque, const char *path),
                      gpointer opaque)
{
    g_autoptr(GArray) parts = btrail_parts_find(r->records);

    fn(opaque, r->records);
    for (guint i = 0; i < parts->len; i++) {
        g_autofree char *path =
            btrail_part_path(r->records, g_array_index(parts, uint32_t, i));

        fn(opaque, path);
    }
}

GArray *part_ring_files(struct part_ring *r)
{
    GArray *files = g_array_new(FALSE, FALSE, sizeof(int));

    g_array_set_clear_func(files, close_ring_file);
    add_file(files, r->old_names);
    add_file(files, r->new_names);
    for_parts(r, add_file, files);
    return files;
}

int part_ring_dump(GArray *files, const char *path, const char *more,
                   struct btrail_merge_result *result)
{
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
    struct btrail_trace *trace;
    int ret, error;

    for (guint i = 0; i < files->len; i++) {
        /* A file that was deleted meanwhile is still open. */
        g_ptr_array_add(paths, g_strdup_printf("/proc/self/fd/%d",
                                               g_array_index(files, int, i)));
    }
    ret = btrail_trace_open_files(&trace, (const char *const *)paths->pdata,
                                  paths->len);
    if (!ret) {
        ret = btrail_merge_running(trace, path, more, result);
        error = errno;
        btrail_trace_close(trace);
        errno = error;
    }
    error = errno;
    g_array_unref(files);
    errno = error;
    return ret;
}

static void remove_part_file(gpointer opaque, const char *path)
{
    unlink(path);
}

void part_ring_free(struct part_ring *r, bool keep)
{
    btrail_store_close(r->names, NULL);
    if (!keep) {
        for_parts(r, remove_part_file, NULL);
        unlink(r->new_names);
        if (r->old_names) {
            unlink(r->old_names);
        }
    }
    g_free(r->records);
    g_free(r->old_names);
    g_free(r->new_names);
    g_free(r);
}
