/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is left of a session after the service was killed: see leftover.h
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service/command.h"
#include "lib/internal/file.h"
#include "service/leftover.h"
#include "service/log.h"
#include "lib/internal/parts.h"
#include "util/json.h"

void btrail_leftover_free(struct btrail_leftover *l)
{
    if (l) {
        g_array_unref(l->indices);
        g_free(l);
    }
}

static bool read_trace_id(const char *path, uint8_t *id)
{
    struct btrail_file *file;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 || btrail_file_open(&file, fd, false)) {
        return false;
    }
    memcpy(id, file->header.id, BTRAIL_ID_SIZE);
    btrail_file_close(file);
    return true;
}

static void read_streams(struct btrail_leftover *l, struct btrail_trace *trace)
{
    struct btrail_stream_info info;
    struct btrail_trace_status status;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        if (info.vcpu >= BTRAIL_MAX_VCPUS) {
            continue;
        }
        if (info.vcpu >= l->indices->len) {
            g_array_set_size(l->indices, info.vcpu + 1);
        }
        g_array_index(l->indices, uint64_t, info.vcpu) = info.end_index;
        l->records += info.records;
        l->record_bytes += info.bytes;
    }
    if (!btrail_trace_status(trace, &status)) {
        l->bytes = status.file_size;
    }
}

/* Completes a part that was cut off; reading it would be slow otherwise. */
static void repair_last(const char *first, uint32_t part)
{
    g_autofree char *path = btrail_part_path(first, part);
    int ret = btrail_repair(path, NULL, BTRAIL_REPAIR_IN_PLACE, NULL);

    if (ret) {
        btrail_log(BTRAIL_LOG_WARNING, "%s: cannot be completed: %s",
                   btrail_folder_last(path), btrail_strerror(ret));
    }
}

uint32_t btrail_leftover_last_part(const char *path)
{
    g_autoptr(GArray) parts = btrail_parts_find(path);

    return parts->len ? g_array_index(parts, uint32_t, parts->len - 1) : 0;
}

struct btrail_leftover *
btrail_leftover_inspect(const struct btrail_folder *folder, const char *file,
                     GError **error)
{
    struct btrail_leftover *l;
    g_autofree char *path = NULL;
    struct btrail_trace *trace;
    int fd, ret;

    path = btrail_folder_find(folder, file, &fd, error);
    if (!path) {
        return NULL;
    }
    l = g_new0(struct btrail_leftover, 1);
    l->indices = g_array_new(FALSE, TRUE, sizeof(uint64_t));
    ret = read_trace_id(path, l->id) ? btrail_trace_open_parts(&trace, path) :
          -BTRAIL_ERR_FORMAT;
    if (!ret) {
        read_streams(l, trace);
        btrail_trace_close(trace);
    }
    close(fd);
    if (ret) {
        btrail_service_fail(error, BTRAIL_SERVICE_ERROR_SYSTEM, "%s: %s", file,
                            btrail_strerror(ret));
        btrail_leftover_free(l);
        return NULL;
    }
    return l;
}

struct completion {
    char *path;
    int fd;
    uint32_t part;
};

static gpointer complete_thread(gpointer opaque)
{
    struct completion *c = opaque;

    repair_last(c->path, c->part);
    close(c->fd);
    g_free(c->path);
    g_free(c);
    return NULL;
}

void btrail_leftover_complete_part(int fd, const char *path, uint32_t part)
{
    struct completion *c = g_new0(struct completion, 1);

    c->fd = fd;
    c->path = g_strdup_printf("/proc/self/fd/%d/%s", fd,
                              btrail_folder_last(path));
    c->part = part;
    g_thread_unref(g_thread_new("complete", complete_thread, c));
}

char *btrail_leftover_keep_ring(const struct btrail_folder *folder,
                                const char *session, const char *suffix,
                                const char *ring)
{
    g_autofree char *file = btrail_folder_default_name(session, suffix);

    file[strlen(file) - strlen(".btrail")] = '\0';
    if (renameat(folder->fd, ring, folder->fd, file) < 0) {
        if (errno != ENOENT) {
            btrail_log(BTRAIL_LOG_WARNING, "session %s: its ring stays in %s: "
                       "%s", session, ring, g_strerror(errno));
        }
        return NULL;
    }
    btrail_log(BTRAIL_LOG_INFO, "session %s: its ring is in %s", session,
               file);
    return g_steal_pointer(&file);
}

void btrail_leftover_complete(const struct btrail_folder *folder,
                              JsonObject *session)
{
    g_autoptr(btrail_command) c = btrail_command_parse(
        btrail_json_object(session, "command"), NULL);
    const char *ring = btrail_json_string(session, "ring");
    g_autofree char *path = NULL;
    int fd;

    if (ring) {
        g_free(btrail_leftover_keep_ring(folder, c->session, "-before", ring));
    }
    if (c->mode == BTRAIL_SESSION_LAST) {
        return;
    }
    path = btrail_folder_find(folder, c->file, &fd, NULL);
    if (path) {
        btrail_leftover_complete_part(fd, path,
                                      btrail_leftover_last_part(path));
    }
}

void btrail_leftover_complete_all(const struct btrail_folder *folder,
                                  JsonObject *capture)
{
    JsonArray *sessions = json_object_get_array_member(capture, "sessions");

    for (unsigned i = 0; i < json_array_get_length(sessions); i++) {
        btrail_leftover_complete(folder,
                                 json_array_get_object_element(sessions, i));
    }
}
