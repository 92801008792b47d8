/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording of which only the last part is kept: see ring.h
 */

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/copy-file.h"
#include "replay/guest-state.h"
#include "replay/option-list.h"
#include "replay/ring.h"
#include "util/clock.h"
#include "util/json.h"

#define SETTLE_MS       60000
/* A guest that does not run is looked at again. */
#define REST_NS         UINT64_C(1000000000)
/* Of the log, QEMU reads this before it loads a base. */
#define LOG_HEAD        (64u << 10)
#define BLOCK           4096u
#define INSIDE          "recording/"

/* A disk of the guest */
struct disk {
    char *node;                 /* of the image, below what the log has */
    char *image;                /* in the folder */
    char *written;              /* what the guest writes to, in the folder */
};

/* What a replay can begin with; files are of struct recorded_file */
struct ring_part {
    uint64_t saved_ns;
    struct log_start begin;
    char *base;
    GPtrArray *overlays;        /* one for each disk */
};

struct ring {
    struct recording *recording;
    struct emulator *emulator;
    uint64_t keep_ns, next_ns;
    GPtrArray *disks;
    GPtrArray *parts;           /* the oldest one first */
    unsigned count;
};

static void free_disk(void *p)
{
    struct disk *d = p;

    g_free(d->node);
    g_free(d->image);
    g_free(d->written);
    g_free(d);
}

static void free_part(void *p)
{
    struct ring_part *part = p;

    g_free(part->base);
    g_ptr_array_unref(part->overlays);
    g_free(part);
}

static void remove_file(const struct ring *r, const char *name)
{
    g_autofree char *path = recording_path(r->recording, name);

    unlink(path);
}

static void remove_part(const struct ring *r, const struct ring_part *part)
{
    remove_file(r, part->base);
    for (unsigned i = 0; i < part->overlays->len; i++) {
        remove_file(r, g_ptr_array_index(part->overlays, i));
    }
}

static void add_disk(struct ring *r, const char *value)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, NULL);
    const char *file = option_list_get(list, "file");
    const char *node = option_list_get(list, "id");
    const char *interface = option_list_get(list, "if");
    struct disk *d;

    /* Others are drives of devices, and flash, which is saved as RAM is. */
    if (g_strcmp0(interface, "none") || !node || !file ||
        !g_str_has_prefix(file, INSIDE)) {
        return;
    }
    d = g_new0(struct disk, 1);
    d->node = g_strdup(node);
    d->image = g_strdup(file + strlen(INSIDE));
    d->written = g_strdup_printf(RECORDING_RING "/disk.%u",
                                 r->disks->len);
    g_ptr_array_add(r->disks, d);
}

struct ring *ring_new(struct recording *recording, struct emulator *emulator,
                      uint64_t keep_ns)
{
    struct ring *r = g_new0(struct ring, 1);

    r->recording = recording;
    r->emulator = emulator;
    r->keep_ns = keep_ns;
    r->disks = g_ptr_array_new_with_free_func(free_disk);
    r->parts = g_ptr_array_new_with_free_func(free_part);
    for (char **a = recording->arguments; *a; a++) {
        if (!strcmp(*a, "-drive")) {
            add_disk(r, a[1]);
        }
    }
    return r;
}

bool ring_prepare(struct ring *r, GError **error)
{
    g_autofree char *folder = recording_path(r->recording,
                                             RECORDING_RING);

    if (mkdir(folder, 0700)) {
        return agent_error_errno(error, folder);
    }
    for (unsigned i = 0; i < r->disks->len; i++) {
        const struct disk *d = g_ptr_array_index(r->disks, i);
        g_autofree char *path = g_strconcat(INSIDE, d->written, NULL);

        if (!emulator_command(r->emulator, "blockdev-snapshot-sync",
                              btrail_json_new("s:device", d->node,
                                              "s:snapshot-file", path,
                                              "s:format", "qcow2", NULL),
                              error)) {
            return false;
        }
    }
    return true;
}

void ring_begin(struct ring *r)
{
    r->next_ns = clock_ns() + r->keep_ns;
}

int ring_wait_ms(const struct ring *r)
{
    uint64_t now = clock_ns();

    return now >= r->next_ns ? 0 : MIN((r->next_ns - now) / 1000000 + 1,
                                       INT_MAX);
}

/* Stops the guest where a replay can begin. */
static bool settle(struct ring *r, struct log_start *begin, GError **error)
{
    g_autoptr(JsonNode) node = emulator_execute(r->emulator, "replay-settle",
                                                NULL, -1, SETTLE_MS, error);
    JsonObject *o = node && JSON_NODE_HOLDS_OBJECT(node) ?
                    json_node_get_object(node) : NULL;

    if (!node) {
        return false;
    }
    begin->offset = o ? btrail_json_int(o, "offset", 0) : 0;
    begin->icount = o ? btrail_json_int(o, "icount", 0) : 0;
    begin->vcpu = o ? btrail_json_int(o, "cpu-index", 0) : 0;
    return true;
}

/* Does the guest sleep, or was it stopped by somebody? */
static bool is_at_rest(struct ring *r)
{
    g_autoptr(JsonNode) node = emulator_execute(r->emulator, "query-status",
                                                NULL, -1, SETTLE_MS, NULL);
    const char *status = node && JSON_NODE_HOLDS_OBJECT(node) ?
        btrail_json_string(json_node_get_object(node), "status") : NULL;

    return !g_strcmp0(status, "suspended") || !g_strcmp0(status, "paused");
}

/* QEMU has written all of its disks' files when it has saved the guest. */
static bool save(struct ring *r, struct ring_part *part, GError **error)
{
    g_autofree char *base = recording_path(r->recording, part->base);

    if (!guest_state_save(emulator_qmp(r->emulator), base, -1, error)) {
        return false;
    }
    for (unsigned i = 0; i < r->disks->len; i++) {
        const struct disk *d = g_ptr_array_index(r->disks, i);
        g_autofree char *from = recording_path(r->recording, d->written);
        g_autofree char *to = recording_path(
            r->recording, g_ptr_array_index(part->overlays, i));

        if (!copy_file(from, to, error)) {
            return false;
        }
    }
    return emulator_command(r->emulator, "cont", NULL, error);
}

static struct ring_part *new_part(struct ring *r)
{
    struct ring_part *part = g_new0(struct ring_part, 1);
    unsigned n = r->count++;

    part->base = g_strdup_printf(RECORDING_RING "/base.%u", n);
    part->overlays = g_ptr_array_new_with_free_func(g_free);
    for (unsigned i = 0; i < r->disks->len; i++) {
        g_ptr_array_add(part->overlays, g_strdup_printf(
            RECORDING_RING "/overlay.%u.%u", i, n));
    }
    return part;
}

static bool add_file(struct ring *r, const char *name, GError **error)
{
    g_autofree char *path = recording_path(r->recording, name);
    uint64_t size;
    g_autofree char *hash = recording_hash(path, &size, error);

    if (hash) {
        recording_add_file(r->recording, name, NULL, size, hash);
    }
    return hash;
}

/* Has the recording begin with a part. */
static bool begin_with(struct ring *r, const struct ring_part *part,
                       GError **error)
{
    struct recording *to = r->recording;

    recording_remove_files(to, RECORDING_RING "/");
    recording_remove_files(to, RECORDING_BASE);
    for (unsigned i = 0; i < r->disks->len; i++) {
        const struct disk *d = g_ptr_array_index(r->disks, i);
        const char *name = g_ptr_array_index(part->overlays, i);
        struct recorded_file *image = recording_find_file(to, d->image);

        g_free(image->overlay);
        image->overlay = g_strdup(name);
        if (!add_file(r, name, error)) {
            return false;
        }
    }
    g_free(to->base);
    to->base = g_strdup(part->base);
    to->begin = part->begin;
    return add_file(r, part->base, error) && recording_save(to, error);
}

/* Gives back what is before an offset; the log keeps its size.  A file system
 * that cannot do that keeps all of it. */
static void shorten_log(const struct ring *r, uint64_t offset)
{
    g_autofree char *path = recording_path(r->recording, RECORDING_LOG);
    uint64_t end = offset / BLOCK * BLOCK;
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        if (end > LOG_HEAD) {
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, LOG_HEAD,
                      end - LOG_HEAD);
        }
        close(fd);
    }
}

/* The last part that is old enough for the recording to begin with, or -1 */
static int find_begin(const struct ring *r)
{
    uint64_t now = clock_ns();
    int found = -1;

    for (unsigned i = 0; i < r->parts->len; i++) {
        const struct ring_part *part = g_ptr_array_index(r->parts, i);

        if (now - part->saved_ns >= r->keep_ns) {
            found = i;
        }
    }
    return found;
}

/* Removes what is too old. */
static bool forget(struct ring *r, GError **error)
{
    int begin = find_begin(r);
    const struct ring_part *part = begin < 0 ? NULL :
                              g_ptr_array_index(r->parts, begin);

    if (!part || !g_strcmp0(r->recording->base, part->base)) {
        return true;
    }
    if (!begin_with(r, part, error)) {
        return false;
    }
    remove_file(r, RECORDING_BASE);
    shorten_log(r, part->begin.offset);
    while (begin--) {
        remove_part(r, g_ptr_array_index(r->parts, 0));
        g_ptr_array_remove_index(r->parts, 0);
    }
    return true;
}

bool ring_turn(struct ring *r, GError **error)
{
    struct ring_part *part = new_part(r);
    GError *local = NULL;
    bool settled = settle(r, &part->begin, &local);

    if (!settled || !save(r, part, &local)) {
        remove_part(r, part);
        free_part(part);
        if (!settled && is_at_rest(r)) {
            g_error_free(local);
            r->next_ns = clock_ns() + REST_NS;
            return true;
        }
        g_propagate_error(error, local);
        return false;
    }
    part->saved_ns = clock_ns();
    g_ptr_array_add(r->parts, part);
    r->next_ns = part->saved_ns + r->keep_ns;
    return forget(r, error);
}

void ring_end(struct ring *r)
{
    for (unsigned i = 0; i < r->parts->len; i++) {
        const struct ring_part *part = g_ptr_array_index(r->parts, i);

        if (g_strcmp0(part->base, r->recording->base)) {
            remove_part(r, part);
        }
    }
    for (unsigned i = 0; i < r->disks->len; i++) {
        const struct disk *d = g_ptr_array_index(r->disks, i);

        remove_file(r, d->written);
    }
}

void ring_free(struct ring *r)
{
    if (r) {
        g_ptr_array_unref(r->disks);
        g_ptr_array_unref(r->parts);
        g_free(r);
    }
}
