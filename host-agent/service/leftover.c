/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is left of a session after the service was killed: see leftover.h
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/agent/file.h"
#include "lib/agent/parts.h"
#include "lib/agent/store.h"
#include "service/command.h"
#include "service/leftover.h"
#include "service/log.h"
#include "util/close.h"
#include "util/json.h"

void leftover_free(struct leftover *l)
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

static void read_streams(struct leftover *l, struct btrail_trace *trace)
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
        /* Those that are lost have numbers. */
        l->lost += info.end_index - info.first_index -
                   MIN(info.end_index - info.first_index, info.records);
    }
    if (!btrail_trace_status(trace, &status)) {
        l->bytes = status.file_size;
    }
}

uint32_t leftover_last_part(const char *path)
{
    g_autoptr(GArray) parts = btrail_parts_find(path);

    return parts->len ? g_array_index(parts, uint32_t, parts->len - 1) : 0;
}

/* Removes the last parts if they have nothing, not even a header. */
static void remove_empty(const char *path)
{
    uint32_t part;
    bool removed = true;

    while (removed && (part = leftover_last_part(path))) {
        g_autofree char *last = btrail_part_path(path, part);
        int fd = open(last, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat st;

        /* Whoever writes a file has its lock. */
        removed = fd >= 0 && btrail_store_lock(fd) && !fstat(fd, &st) &&
                  S_ISREG(st.st_mode) && !st.st_size && !unlink(last);
        btrail_close(fd);
    }
}

struct leftover *
leftover_inspect(const struct folder *folder, const char *file,
                     GError **error)
{
    struct leftover *l;
    g_autofree char *path = NULL;
    struct btrail_trace *trace;
    int fd, ret;

    path = folder_find(folder, file, &fd, error);
    if (!path) {
        return NULL;
    }
    remove_empty(path);
    l = g_new0(struct leftover, 1);
    l->indices = g_array_new(FALSE, TRUE, sizeof(uint64_t));
    ret = read_trace_id(path, l->id) ? btrail_trace_open_parts(&trace, path) :
          -BTRAIL_ERR_FORMAT;
    if (!ret) {
        read_streams(l, trace);
        btrail_trace_close(trace);
    }
    close(fd);
    if (ret) {
        service_fail(error, SERVICE_ERROR_SYSTEM, "%s: %s", file,
                     btrail_strerror(ret));
        leftover_free(l);
        return NULL;
    }
    return l;
}

char *leftover_keep_ring(const struct folder *folder,
                         const char *session, const char *suffix,
                         const char *ring)
{
    g_autofree char *file = folder_default_name(session, suffix);

    file[strlen(file) - strlen(".btrail")] = '\0';
    if (renameat(folder->fd, ring, folder->fd, file) < 0) {
        if (errno != ENOENT) {
            service_log(SERVICE_LOG_WARNING,
                        "session %s: its ring stays in %s: "
                        "%s", session, ring, g_strerror(errno));
        }
        return NULL;
    }
    service_log(SERVICE_LOG_INFO, "session %s: its ring is in %s", session,
                file);
    return g_steal_pointer(&file);
}

/*
 * Completes a file that was cut off.  False if that may be possible later: if
 * the disk is full, or another process repairs it.
 */
static bool complete_file(const char *path)
{
    struct btrail_file *file;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool whole;
    int ret;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        btrail_close(fd);
        return true;
    }
    /* A file that is whole has an index: that is fast. */
    ret = btrail_file_open(&file, fd, false);
    if (!ret) {
        whole = file->status.complete && file->status.indexed;
        btrail_file_close(file);
        if (whole) {
            return true;
        }
        ret = btrail_repair(path, NULL, BTRAIL_REPAIR_IN_PLACE, NULL);
    }
    if (ret) {
        service_log(SERVICE_LOG_WARNING, "%s: cannot be completed: %s",
                    folder_last(path), ret == -BTRAIL_ERR_IO ?
                    g_strerror(errno) : btrail_strerror(ret));
    }
    return ret != -BTRAIL_ERR_IO;
}

/* Completes the parts of a trace; those before @end if that is not 0. */
static bool complete_trace(const struct folder *folder,
                           const char *file, uint32_t end)
{
    g_autoptr(GArray) parts = NULL;
    g_autofree char *path = NULL;
    bool ok;
    int fd;

    path = folder_find(folder, file, &fd, NULL);
    if (!path) {
        return true;
    }
    if (!end) {
        remove_empty(path);
    }
    parts = btrail_parts_find(path);
    ok = complete_file(path);
    for (unsigned i = 0; i < parts->len; i++) {
        uint32_t part = g_array_index(parts, uint32_t, i);
        g_autofree char *next = btrail_part_path(path, part);

        if (!end || part < end) {
            ok = complete_file(next) && ok;
        }
    }
    close(fd);
    return ok;
}

static bool complete_ring(const struct folder *folder,
                          const char *session, const char *ring)
{
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d/%s", folder->fd,
                                            ring);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name;
    bool ok = true;

    while (dir && (name = g_dir_read_name(dir))) {
        if (g_str_has_suffix(name, ".btrail")) {
            g_autofree char *file = g_build_filename(path, name, NULL);

            ok = complete_file(file) && ok;
        }
    }
    if (ok) {
        g_free(leftover_keep_ring(folder, session, "-before", ring));
    }
    return ok;
}

bool leftover_complete(const struct folder *folder,
                       JsonObject *session)
{
    g_autoptr(service_command) c = command_parse(
        btrail_json_object(session, "command"), NULL);
    const char *ring = btrail_json_string(session, "ring");
    JsonArray *dumps = btrail_json_array(session, "dumps");
    gint64 parts = btrail_json_int(session, "parts", -1);
    bool ok = true;

    for (unsigned i = 0; dumps && i < json_array_get_length(dumps); i++) {
        ok = complete_trace(folder, json_array_get_string_element(dumps, i),
                            0) && ok;
    }
    if (parts) {
        ok = complete_trace(folder, c->file, MAX(parts, 0)) && ok;
    }
    if (ring) {
        ok = complete_ring(folder, c->session, ring) && ok;
    }
    return ok;
}
