/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots: encoding and decoding what was found in a guest's memory
 *
 * docs/trace-format.md describes the bytes.  Strings, build-ids among them,
 * are in a table in front, each once: most mappings are of a few files.
 */

#include <stdlib.h>

#include "lib/agent/bytes.h"
#include "lib/internal/snapshot.h"
#include "util/hash.h"

/* The least bytes that each of these takes */
#define PROCESS_MIN     14
#define THREAD_MIN      4
#define MAPPING_MIN     6

#define COMMAND_LINE_MAX    (1u << 20)

struct string {
    const char *data;
    size_t size;
    bool text;                  /* without a NUL inside, and not too long */
};

struct decoder {
    const uint8_t *p;
    const uint8_t *end;
    bool bad;
    uint32_t n_strings;
    uint64_t threads;
    uint64_t mappings;
    struct string *strings;
    struct btrail_strings *kept;    /* that keep them, or NULL */
    struct btrail_snapshot *snapshot;
};

static uint64_t get(struct decoder *d)
{
    uint64_t v;
    const uint8_t *p = d->bad ? NULL : btrail_get_varint(d->p, d->end, &v);

    if (!p) {
        d->bad = true;
        return 0;
    }
    d->p = p;
    return v;
}

static uint64_t get_below(struct decoder *d, uint64_t limit)
{
    uint64_t v = get(d);

    if (v >= limit) {
        d->bad = true;
        return 0;
    }
    return v;
}

/* A number of things of which each takes at least this many bytes */
static uint32_t get_count(struct decoder *d, uint32_t max, size_t min)
{
    uint64_t n = get_below(d, (uint64_t)max + 1);

    if (n > (size_t)(d->end - d->p) / min) {
        d->bad = true;
        return 0;
    }
    return n;
}

static const struct string *get_string(struct decoder *d)
{
    static const struct string none = { "", 0, true };
    uint32_t i = get_below(d, d->n_strings);

    return d->bad ? &none : &d->strings[i];
}

static const char *get_text(struct decoder *d)
{
    const struct string *s = get_string(d);

    d->bad |= !s->text;
    return s->data;
}

/*
 * The bytes of all strings, with a NUL after each, and where they are; NULL if
 * others keep them
 */
static char *get_strings(struct decoder *d)
{
    uint32_t n = get_count(d, BTRAIL_SNAPSHOT_STRINGS, 1);
    char *bytes = NULL;
    size_t used = 0;
    uint32_t i;

    if (d->bad) {
        return NULL;
    }
    if (!d->kept) {
        bytes = g_malloc((size_t)(d->end - d->p) + n + 1);
    }
    d->strings = g_new(struct string, n ?: 1);
    for (i = 0; i < n; i++) {
        uint64_t size = get(d);

        if (d->bad || size > (uint64_t)(d->end - d->p)) {
            d->bad = true;
            break;
        }
        d->strings[i] = (struct string) {
            .size = size,
            .text = size <= BTRAIL_SNAPSHOT_TEXT && !memchr(d->p, 0, size),
        };
        if (d->kept) {
            d->strings[i].data = btrail_strings_keep(d->kept, d->p, size);
        } else {
            memcpy(bytes + used, d->p, size);
            bytes[used + size] = 0;
            d->strings[i].data = bytes + used;
            used += size + 1;
        }
        d->p += size;
    }
    d->n_strings = n;
    return bytes;
}

static void get_thread(struct decoder *d, struct btrail_thread *t,
                       uint32_t *tid, uint64_t start_time)
{
    uint64_t step = get(d);

    if (step > UINT32_MAX - *tid || (!step && *tid)) {
        d->bad = true;
        return;
    }
    *tid += step;
    t->tid = *tid;
    t->vcpu = (int32_t)get_below(d, (uint64_t)INT32_MAX + 1) - 1;
    t->start_time = start_time + btrail_unzigzag(get(d));
    t->comm = get_text(d);
}

static void get_mapping(struct decoder *d, struct btrail_mapping *m,
                        uint64_t *from)
{
    uint64_t hole = get(d);
    uint64_t length = get(d);
    const struct string *id;

    if (hole > UINT64_MAX - *from || !length ||
        length > UINT64_MAX - *from - hole) {
        d->bad = true;
        return;
    }
    m->start = *from + hole;
    m->end = m->start + length;
    *from = m->end;
    m->offset = get(d);
    m->flags = get_below(d, 1ull << 32);
    m->path = get_text(d);
    id = get_string(d);
    if (id->size > BTRAIL_BUILD_ID_MAX) {
        d->bad = true;
    }
    m->build_id_size = id->size;
    m->build_id = id->size ? (const uint8_t *)id->data : NULL;
}

static void get_process(struct decoder *d, struct btrail_process *p)
{
    const struct string *command_line;
    uint64_t from = 0;
    uint32_t tid = 0;
    uint32_t i;

    p->pgd = get(d);
    p->user_pgd = get(d);
    p->mm = get(d);
    p->start_time = get(d);
    p->first = d->snapshot->end - get_below(d, d->snapshot->end + 1);
    p->last = d->snapshot->end - get_below(d, d->snapshot->end + 1);
    if (p->first > p->last) {
        d->bad = true;
    }
    p->flags = get_below(d, 1ull << 32);
    p->pid = get_below(d, 1ull << 32);
    p->parent = get_below(d, 1ull << 32);
    p->comm = get_text(d);
    p->exe = get_text(d);
    command_line = get_string(d);
    p->command_line = command_line->data;
    p->command_line_size = command_line->size;
    if (command_line->size > COMMAND_LINE_MAX) {
        d->bad = true;
    }

    p->n_threads = get_count(d, BTRAIL_SNAPSHOT_THREADS, THREAD_MIN);
    d->threads += p->n_threads;
    d->bad |= d->threads > BTRAIL_SNAPSHOT_THREADS;
    if (d->bad) {
        p->n_threads = 0;
        return;
    }
    p->threads = g_new0(struct btrail_thread, p->n_threads);
    for (i = 0; i < p->n_threads && !d->bad; i++) {
        get_thread(d, &p->threads[i], &tid, p->start_time);
    }
    p->n_mappings = get_count(d, BTRAIL_SNAPSHOT_MAPPINGS, MAPPING_MIN);
    d->mappings += p->n_mappings;
    d->bad |= d->mappings > BTRAIL_SNAPSHOT_MAPPINGS;
    if (d->bad) {
        p->n_mappings = 0;
        return;
    }
    p->mappings = g_new0(struct btrail_mapping, p->n_mappings);
    for (i = 0; i < p->n_mappings && !d->bad; i++) {
        get_mapping(d, &p->mappings[i], &from);
    }
}

/* A snapshot, and what it owns that its reader does not see */
struct owned {
    struct btrail_snapshot snapshot;
    char *bytes;
};

int btrail_snapshot_decode_kept(struct btrail_snapshot **snapshot,
                                const void *data, size_t size,
                                struct btrail_strings *strings)
{
    struct decoder d = {
        .p = data, .end = (const uint8_t *)data + size, .kept = strings,
    };
    struct owned *owned;
    uint64_t took;
    uint32_t n;
    uint32_t i;

    if (!snapshot || (!data && size)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (size > BTRAIL_SNAPSHOT_SIZE) {
        return -BTRAIL_ERR_CORRUPT;
    }
    owned = g_new0(struct owned, 1);
    d.snapshot = &owned->snapshot;
    d.snapshot->flags = get_below(&d, 1ull << 32);
    d.snapshot->end = get_below(&d, UINT64_MAX);
    took = get_below(&d, d.snapshot->end + 1);
    d.snapshot->begin = d.snapshot->end - took;
    owned->bytes = get_strings(&d);
    n = d.bad ? 0 : get_count(&d, BTRAIL_SNAPSHOT_PROCESSES, PROCESS_MIN);
    d.snapshot->processes = g_new0(struct btrail_process, n);
    d.snapshot->n = n;
    for (i = 0; i < n && !d.bad; i++) {
        get_process(&d, &d.snapshot->processes[i]);
    }
    g_free(d.strings);
    if (d.bad || d.p != d.end) {
        btrail_snapshot_free(d.snapshot);
        return -BTRAIL_ERR_CORRUPT;
    }
    *snapshot = d.snapshot;
    return 0;
}

int btrail_snapshot_decode(struct btrail_snapshot **snapshot, const void *data,
                           size_t size)
{
    return btrail_snapshot_decode_kept(snapshot, data, size, NULL);
}

void btrail_snapshot_free(struct btrail_snapshot *snapshot)
{
    struct owned *owned = (struct owned *)snapshot;
    uint32_t i;

    if (!snapshot) {
        return;
    }
    for (i = 0; i < snapshot->n; i++) {
        g_free(snapshot->processes[i].threads);
        g_free(snapshot->processes[i].mappings);
    }
    g_free(snapshot->processes);
    g_free(owned->bytes);
    g_free(owned);
}

struct encoder {
    struct btrail_buf strings;
    struct btrail_buf rest;
    GHashTable *known;          /* GBytes to number + 1 */
    uint32_t n_strings;
    uint64_t threads;
    uint64_t mappings;
};

static void put(struct encoder *e, uint64_t v)
{
    btrail_buf_append_varint(&e->rest, v);
}

static bool put_string(struct encoder *e, const void *data, size_t size)
{
    GBytes *bytes;
    uint32_t n;

    if (!data && size) {
        return false;
    }
    bytes = g_bytes_new(data, size);
    n = GPOINTER_TO_UINT(g_hash_table_lookup(e->known, bytes));
    if (n) {
        g_bytes_unref(bytes);
    } else {
        n = ++e->n_strings;
        g_hash_table_insert(e->known, bytes, GUINT_TO_POINTER(n));
        btrail_buf_append_varint(&e->strings, size);
        btrail_buf_append(&e->strings, data, size);
    }
    put(e, n - 1);
    return e->n_strings <= BTRAIL_SNAPSHOT_STRINGS;
}

static bool put_text(struct encoder *e, const char *text)
{
    size_t size = text ? strlen(text) : 0;

    return text && size <= BTRAIL_SNAPSHOT_TEXT && put_string(e, text, size);
}

static bool put_thread(struct encoder *e, const struct btrail_thread *t,
                       uint32_t *tid, uint64_t start_time)
{
    if ((t->tid <= *tid && *tid) || t->vcpu < -1 || t->vcpu == INT32_MAX) {
        return false;
    }
    put(e, t->tid - *tid);
    *tid = t->tid;
    put(e, (uint64_t)(t->vcpu + 1));
    put(e, btrail_zigzag(t->start_time - start_time));
    return put_text(e, t->comm);
}

static bool put_mapping(struct encoder *e, const struct btrail_mapping *m,
                        uint64_t *from)
{
    if (m->start < *from || m->end <= m->start ||
        m->build_id_size > BTRAIL_BUILD_ID_MAX) {
        return false;
    }
    put(e, m->start - *from);
    put(e, m->end - m->start);
    *from = m->end;
    put(e, m->offset);
    put(e, m->flags);
    return put_text(e, m->path) &&
           put_string(e, m->build_id, m->build_id_size);
}

static bool put_process(struct encoder *e,
                        const struct btrail_snapshot *snapshot,
                        const struct btrail_process *p)
{
    uint64_t from = 0;
    uint32_t tid = 0;
    uint32_t i;

    e->threads += p->n_threads;
    e->mappings += p->n_mappings;
    if (p->first > p->last || p->last > snapshot->end ||
        p->command_line_size > COMMAND_LINE_MAX ||
        e->threads > BTRAIL_SNAPSHOT_THREADS ||
        e->mappings > BTRAIL_SNAPSHOT_MAPPINGS ||
        (!p->threads && p->n_threads) || (!p->mappings && p->n_mappings)) {
        return false;
    }
    put(e, p->pgd);
    put(e, p->user_pgd);
    put(e, p->mm);
    put(e, p->start_time);
    put(e, snapshot->end - p->first);
    put(e, snapshot->end - p->last);
    put(e, p->flags);
    put(e, p->pid);
    put(e, p->parent);
    if (!put_text(e, p->comm) || !put_text(e, p->exe) ||
        !put_string(e, p->command_line, p->command_line_size)) {
        return false;
    }
    put(e, p->n_threads);
    for (i = 0; i < p->n_threads; i++) {
        if (!put_thread(e, &p->threads[i], &tid, p->start_time)) {
            return false;
        }
    }
    put(e, p->n_mappings);
    for (i = 0; i < p->n_mappings; i++) {
        if (!put_mapping(e, &p->mappings[i], &from)) {
            return false;
        }
    }
    return true;
}

int btrail_snapshot_encode(const struct btrail_snapshot *snapshot, void **data,
                       size_t *size)
{
    struct encoder e = { .rest = { 0 } };
    struct btrail_buf head = { 0 };
    bool good;
    uint32_t i;

    if (!snapshot || !data || !size || (!snapshot->processes && snapshot->n)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    e.known = g_hash_table_new_full(btrail_bytes_hash, g_bytes_equal,
                                    (GDestroyNotify)g_bytes_unref, NULL);
    good = snapshot->begin <= snapshot->end && snapshot->end < UINT64_MAX &&
           snapshot->n <= BTRAIL_SNAPSHOT_PROCESSES;
    put(&e, snapshot->n);
    for (i = 0; i < snapshot->n && good; i++) {
        good = put_process(&e, snapshot, &snapshot->processes[i]) &&
               e.strings.len + e.rest.len < BTRAIL_SNAPSHOT_SIZE;
    }
    btrail_buf_append_varint(&head, snapshot->flags);
    btrail_buf_append_varint(&head, snapshot->end);
    btrail_buf_append_varint(&head, snapshot->end - snapshot->begin);
    btrail_buf_append_varint(&head, e.n_strings);
    btrail_buf_append(&head, e.strings.data, e.strings.len);
    btrail_buf_append(&head, e.rest.data, e.rest.len);
    *size = head.len;
    good = good && *size <= BTRAIL_SNAPSHOT_SIZE;
    if (good) {
        *data = g_realloc(head.data, *size);
    } else {
        btrail_buf_free(&head);
    }
    btrail_buf_free(&e.strings);
    btrail_buf_free(&e.rest);
    g_hash_table_destroy(e.known);
    return good ? 0 : -BTRAIL_ERR_ARGUMENT;
}
