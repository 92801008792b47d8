/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Dumps of a session's ring: see session-dump.h
 */

#include <errno.h>
#include <sys/stat.h>

#include "drain/session-dump.h"
#include "util/event-fd.h"
#include "util/json.h"

/*
 * Ticks until all that was made before is flushed: the first may be in
 * progress, the next requests slabs, and the one after that has them.
 */
#define FLUSH_TICKS         3

void session_dumps_init(struct session_dumps *d, struct part_ring *ring)
{
    d->ring = ring;
    g_mutex_init(&d->lock);
    g_cond_init(&d->changed);
    g_mutex_init(&d->output_lock);
}

void session_dumps_clear(struct session_dumps *d)
{
    g_mutex_clear(&d->lock);
    g_cond_clear(&d->changed);
    g_mutex_clear(&d->output_lock);
}

void session_dumps_begin(struct session_dumps *d, struct output *output,
                         int wake_fd)
{
    d->wake_fd = wake_fd;
    d->output = output;
}

bool session_dumps_await_tick(const struct session_dumps *d)
{
    return __atomic_load_n(&d->waiting, __ATOMIC_ACQUIRE);
}

void session_dumps_ticked(struct session_dumps *d)
{
    g_mutex_lock(&d->lock);
    d->ticks++;
    g_cond_broadcast(&d->changed);
    g_mutex_unlock(&d->lock);
}

static void set_flag(struct session_dumps *d, bool *flag)
{
    g_mutex_lock(&d->lock);
    *flag = true;
    g_cond_broadcast(&d->changed);
    g_mutex_unlock(&d->lock);
}

void session_dumps_end(struct session_dumps *d)
{
    set_flag(d, &d->ending);
}

struct output *session_dumps_end_output(struct session_dumps *d)
{
    struct output *output;

    g_mutex_lock(&d->output_lock);
    output = g_steal_pointer(&d->output);
    if (output) {
        output_finish(output);
    }
    g_mutex_unlock(&d->output_lock);
    return output;
}

void session_dumps_closed(struct session_dumps *d)
{
    set_flag(d, &d->closed);
}

void session_dumps_wait_closed(struct session_dumps *d)
{
    g_mutex_lock(&d->lock);
    while (!d->closed) {
        g_cond_wait(&d->changed, &d->lock);
    }
    g_mutex_unlock(&d->lock);
}

void session_dumps_hold(struct session_dumps *d)
{
    if (d->ring && !__atomic_exchange_n(&d->held, true, __ATOMIC_ACQ_REL)) {
        part_ring_hold(d->ring);
    }
}

void session_dumps_release(struct session_dumps *d)
{
    if (d->ring && __atomic_exchange_n(&d->held, false, __ATOMIC_ACQ_REL)) {
        part_ring_release(d->ring);
    }
}

/* Waits until all that was made before is flushed, or is in the files. */
static void wait_flushed(struct session_dumps *d)
{
    uint64_t ticks;

    g_mutex_lock(&d->lock);
    __atomic_fetch_add(&d->waiting, 1, __ATOMIC_ACQ_REL);
    ticks = d->ticks + FLUSH_TICKS;
    if (!d->ending) {
        event_fd_set(d->wake_fd);
    }
    while (d->ticks < ticks && !d->ending) {
        g_cond_wait(&d->changed, &d->lock);
    }
    __atomic_fetch_sub(&d->waiting, 1, __ATOMIC_ACQ_REL);
    while (d->ending && !d->closed) {
        g_cond_wait(&d->changed, &d->lock);
    }
    g_mutex_unlock(&d->lock);
}

/* A dump, and the files that it is made of */
struct ring_dump {
    struct session_dumps *dumps;
    GArray *files;
};

/* Opens the files; they stay readable, whatever the ring deletes later. */
static void open_files(struct ring_dump *dump)
{
    dump->files = part_ring_files(dump->dumps->ring);
    part_ring_release(dump->dumps->ring);
    session_dumps_release(dump->dumps);
}

static struct btrail_store *open_and_trim(void *opaque)
{
    struct ring_dump *dump = opaque;

    open_files(dump);
    part_ring_trim(dump->dumps->ring);
    return NULL;
}

/* What the trace says of why it was made; NULL if nobody says so */
static char *describe(const char *why)
{
    g_autoptr(JsonObject) meta = why ? btrail_json_new("s:why", why, NULL) :
                                       NULL;

    return meta ? btrail_json_text(meta, FALSE) : NULL;
}

bool session_dumps_write(struct session_dumps *d, const char *path,
                         const char *why,
                         uint64_t *records, uint64_t *bytes, GError **error)
{
    g_autofree char *more = describe(why);
    struct ring_dump dump = { d, NULL };
    struct btrail_merge_result merged;
    struct stat st;
    int ret;

    part_ring_hold(d->ring);
    wait_flushed(d);
    g_mutex_lock(&d->output_lock);
    if (d->output) {
        output_call(d->output, open_and_trim, &dump);
    } else {
        open_files(&dump);
    }
    g_mutex_unlock(&d->output_lock);
    ret = part_ring_dump(dump.files, path, more, &merged);
    if (!ret && stat(path, &st) < 0) {
        ret = -BTRAIL_ERR_IO;
    }
    if (ret) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_OUTPUT,
                    "cannot write %s: %s", path, ret == -BTRAIL_ERR_IO ?
                    g_strerror(errno) : btrail_strerror(ret));
        return false;
    }
    *records = merged.records;
    *bytes = st.st_size;
    return true;
}
