/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: see name-snapshot.h
 */

#include <stdlib.h>
#include <string.h>

#include "guest-names/name-snapshot.h"
#include "lib/agent/mapping.h"

/*
 * Of one snapshot, whose limit is many times this.  Bytes are those of texts,
 * mappings and threads, as far as they are counted here.
 */
#define PROCESSES_EACH  256
#define BYTES_EACH      (2u << 20)

/* A snapshot that is being made */
struct making {
    const struct name_owners *owners;
    bool pti;
    uint64_t time;              /* the host's, of its end */
    GArray *processes;          /* of struct btrail_process */
    size_t bytes;
    name_snapshot_fn *fn;
    void *opaque;
};

static void clear_process(gpointer p)
{
    struct btrail_process *process = p;

    g_free((char *)process->command_line);
    g_free(process->threads);
    g_free(process->mappings);
}

/* The threads of a space; their names are the space's. */
static void put_threads(struct making *m, struct btrail_process *p,
                        const struct name_space *space)
{
    p->n_threads = space->threads->len;
    p->threads = g_new0(struct btrail_thread, p->n_threads);
    for (uint32_t i = 0; i < p->n_threads; i++) {
        const struct name_thread *t = g_ptr_array_index(space->threads, i);

        p->threads[i] = (struct btrail_thread) {
            .tid = (uint32_t)t->tid, .vcpu = -1, .start_time = t->start_time,
            .comm = t->comm,
        };
        m->bytes += sizeof(p->threads[i]) + strlen(t->comm);
    }
}

/* The mappings of a space; their strings are the space's. */
static void put_mappings(struct making *making, struct btrail_process *p,
                         const struct name_space *space)
{
    const GPtrArray *all = space->mappings ? space->mappings->all : NULL;
    const struct name_functions *f = space->functions;

    p->n_mappings = all ? all->len : 0;
    p->mappings = g_new0(struct btrail_mapping, p->n_mappings);
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct name_mapping *m = g_ptr_array_index(all, i);

        making->bytes += sizeof(p->mappings[i]) + strlen(m->path);
        p->mappings[i] = (struct btrail_mapping) {
            .start = m->start, .end = m->end, .offset = m->offset,
            .flags = m->flags, .path = m->path,
            .build_id = m->build_id_size ? m->build_id : NULL,
            .build_id_size = m->build_id_size,
        };
        if (f && btrail_mapping_is_anonymous(m->flags, m->path)) {
            p->mappings[i].path = f->path;
            p->mappings[i].offset = m->start;
            p->mappings[i].build_id = f->id;
            p->mappings[i].build_id_size = sizeof(f->id);
        }
    }
}

/* The path of its program, or of the first file that it has mapped */
static const char *path_of(const struct name_space *space)
{
    const GPtrArray *all = space->mappings ? space->mappings->all : NULL;

    for (guint i = 0; !*space->exe && all && i < all->len; i++) {
        const struct name_mapping *m = g_ptr_array_index(all, i);

        if (*m->path == '/') {
            return m->path;
        }
    }
    return space->exe;
}

static void put_details(struct making *m, struct btrail_process *p,
                        const struct name_space *space)
{
    char *line = g_malloc(space->command_size + 2);

    memcpy(line, space->command, space->command_size);
    /* The last argument can be cut off. */
    p->command_line_size = space->command_size;
    if (space->command_size && line[space->command_size - 1]) {
        line[p->command_line_size++] = 0;
    }
    line[p->command_line_size] = 0;
    p->command_line = line;
    p->exe = path_of(space);
    m->bytes += space->texts_size;
    put_threads(m, p, space);
    put_mappings(m, p, space);
}

static void flush(struct making *m)
{
    struct btrail_snapshot snapshot = {
        .begin = m->time, .end = m->time, .n = m->processes->len,
        .processes = (struct btrail_process *)m->processes->data,
    };
    void *data;
    size_t size;

    if (snapshot.n && !btrail_snapshot_encode(&snapshot, &data, &size)) {
        m->fn(m->opaque, data, size, m->time);
        free(data);
    }
    g_array_set_size(m->processes, 0);
    m->bytes = 0;
}

static void put_space(struct making *m, struct name_space *space)
{
    uint64_t first = name_owners_host_time(m->owners, space->begin);
    uint64_t last = space->end == UINT64_MAX ? m->time :
                    name_owners_host_time(m->owners, space->end);
    struct btrail_process p = {
        .pgd = space->root,
        .user_pgd = m->pti ? space->root | 0x1000 : 0,
        .mm = space->number, .start_time = space->start_time,
        .pid = space->pid, .parent = space->parent, .comm = space->comm,
        .exe = "", .flags = space->changed ? 0 : BTRAIL_PROCESS_SEEN,
    };

    p.last = MIN(last, m->time);
    p.first = MIN(first, p.last);
    if (space->changed) {
        put_details(m, &p, space);
    } else {
        p.comm = "";
        p.parent = 0;
        p.command_line = g_strdup("");
    }
    g_array_append_val(m->processes, p);
    if (m->processes->len == PROCESSES_EACH || m->bytes > BYTES_EACH) {
        flush(m);
    }
}

unsigned name_snapshots(struct name_spaces *spaces,
                        const struct name_owners *owners, bool pti,
                        uint64_t time, name_snapshot_fn *fn, void *opaque)
{
    const GPtrArray *all = name_spaces_all(spaces);
    struct making m = {
        .owners = owners, .pti = pti, .fn = fn, .opaque = opaque,
        .time = name_owners_host_time(owners, time),
        .processes = g_array_new(FALSE, FALSE, sizeof(struct btrail_process)),
    };
    unsigned fresh = 0;

    g_array_set_clear_func(m.processes, clear_process);
    for (guint i = 0; m.time && i < all->len; i++) {
        struct name_space *space = g_ptr_array_index(all, i);

        /* There may have been no room for what it is called. */
        if (space->root && !space->kernel && space->texts &&
            !(space->gone && !space->changed)) {
            fresh += !space->sent;
            put_space(&m, space);
            space->sent = true;
            space->changed = false;
            space->gone = space->end <= time;
        }
    }
    flush(&m);
    g_array_unref(m.processes);
    return fresh;
}
