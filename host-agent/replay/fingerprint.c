/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fingerprints of a trace: see fingerprint.h
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "replay/fingerprint.h"
#include "util/read-file.h"

#define HEAD        "backtrail fingerprints 2\n"
/* A trace of 2^44 records has this many. */
#define MAX_PRINTS  (1u << 24)
#define MAX_TEXT    (1u << 30)

static bool library_error(GError **error, int ret)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "the trace: %s", btrail_strerror(ret));
    return false;
}

struct fingerprinter {
    struct btrail_stream_observer observer;
    GArray *next;               /* of struct fingerprint, by vCPU */
    GPtrArray *made;            /* of GArray of struct fingerprint, by vCPU */
    bool lacks;
    uint64_t lacks_after;      /* this number of records */
};

/*
 * Each step is one-to-one in the state and in what is added, so that records
 * that differ once always make states that differ.  The two halves do not wait
 * for each other.
 */
static inline void chain_numbers(uint64_t *a, uint64_t *b, uint64_t m,
                                 uint64_t n)
{
    *a = (*a ^ m) * UINT64_C(0x9e3779b97f4a7c15);
    *a ^= *a >> 29;
    *b = (*b ^ n) * UINT64_C(0xff51afd7ed558ccd);
    *b ^= *b >> 32;
}

/* The flags are in both halves: no change of an address hides a change of them. */
static void chain_records(uint64_t chain[2], const struct btrail_record *r,
                          size_t n)
{
    uint64_t a = chain[0], b = chain[1];

    for (size_t i = 0; i < n; i++) {
        uint64_t flags = r[i].flags * UINT64_C(0xd6e8feb86659fd93);

        chain_numbers(&a, &b, r[i].from ^ flags,
                      r[i].to + (flags << 32 | flags >> 32));
    }
    chain[0] = a;
    chain[1] = b;
}

static struct fingerprint *stream_of(struct fingerprinter *f, unsigned vcpu)
{
    while (f->next->len <= vcpu) {
        struct fingerprint p = { .vcpu = f->next->len };

        g_array_append_val(f->next, p);
        g_ptr_array_add(f->made, g_array_new(FALSE, FALSE, sizeof(p)));
    }
    return &g_array_index(f->next, struct fingerprint, vcpu);
}

/* Adds records, and a fingerprint wherever one is due. */
static void add_records(void *opaque, unsigned vcpu,
                        const struct btrail_record *records, size_t n)
{
    struct fingerprinter *f = opaque;
    struct fingerprint *p = stream_of(f, vcpu);

    while (n) {
        size_t left = FINGERPRINT_INTERVAL - p->records % FINGERPRINT_INTERVAL;
        size_t step = MIN(n, left);

        chain_records(p->chain, records, step);
        p->records += step;
        if (step == left) {
            g_array_append_vals(g_ptr_array_index(f->made, vcpu), p, 1);
        }
        records += step;
        n -= step;
    }
}

static void add_event(void *opaque, unsigned vcpu,
                      const struct btrail_event *e)
{
    struct fingerprinter *f = opaque;
    struct fingerprint *p = stream_of(f, vcpu);

    if (e->type == BTRAIL_EVENT_CR3) {
        chain_numbers(&p->chain[0], &p->chain[1], e->data[0], e->data[0]);
    }
    if (e->type == BTRAIL_EVENT_GAP && e->data[0] && !f->lacks) {
        f->lacks = true;
        f->lacks_after = p->records;
    }
}

struct fingerprinter *fingerprinter_new(void)
{
    struct fingerprinter *f = g_new0(struct fingerprinter, 1);

    f->observer = (struct btrail_stream_observer) {
        .records = add_records,
        .event = add_event,
        .opaque = f,
    };
    f->next = g_array_new(FALSE, FALSE, sizeof(struct fingerprint));
    f->made = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    return f;
}

void fingerprinter_free(struct fingerprinter *f)
{
    if (f) {
        g_array_unref(f->next);
        g_ptr_array_unref(f->made);
        g_free(f);
    }
}

const struct btrail_stream_observer *
fingerprinter_observer(struct fingerprinter *f)
{
    return &f->observer;
}

GArray *fingerprinter_finish(struct fingerprinter *f, GError **error)
{
    GArray *prints;

    if (f->lacks) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                    "the trace lacks records after %" G_GUINT64_FORMAT,
                    f->lacks_after);
        return NULL;
    }
    prints = g_array_new(FALSE, FALSE, sizeof(struct fingerprint));
    for (unsigned i = 0; i < f->next->len; i++) {
        const struct fingerprint *last = stream_of(f, i);
        const GArray *made = g_ptr_array_index(f->made, i);

        g_array_append_vals(prints, made->data, made->len);
        if (last->records % FINGERPRINT_INTERVAL) {
            g_array_append_vals(prints, last, 1);
        }
    }
    return prints;
}

static bool add_stream(struct fingerprinter *f,
                       const struct btrail_trace *trace, unsigned vcpu,
                       GError **error)
{
    struct btrail_cursor *cursor;
    struct btrail_batch batch;
    int ret = btrail_cursor_open(&cursor, trace, vcpu, 0);

    if (ret) {
        return library_error(error, ret);
    }
    while (!f->lacks && !(ret = btrail_cursor_next(cursor, &batch))) {
        if (batch.event) {
            add_event(f, vcpu, batch.event);
        } else {
            add_records(f, vcpu, batch.records, batch.count);
        }
    }
    btrail_cursor_close(cursor);
    return f->lacks || ret == -BTRAIL_ERR_END || library_error(error, ret);
}

GArray *fingerprint_trace(const struct btrail_trace *trace, GError **error)
{
    struct fingerprinter *f = fingerprinter_new();
    struct btrail_stream_info stream;
    GArray *prints = NULL;
    bool ok = true;

    for (unsigned i = 0; ok && !btrail_trace_stream(trace, i, &stream); i++) {
        ok = add_stream(f, trace, stream.vcpu, error);
    }
    if (ok) {
        prints = fingerprinter_finish(f, error);
    }
    fingerprinter_free(f);
    return prints;
}

bool fingerprint_save(const char *path, const GArray *prints, GError **error)
{
    g_autoptr(GString) text = g_string_new(HEAD);

    for (unsigned i = 0; i < prints->len; i++) {
        const struct fingerprint *p = &g_array_index(prints,
                                                     struct fingerprint, i);

        g_string_append_printf(text, "%u %" PRIu64 " %016" PRIx64 "%016"
                               PRIx64 "\n", p->vcpu, p->records, p->chain[0],
                               p->chain[1]);
    }
    return g_file_set_contents(path, text->str, text->len, error);
}

static bool parse_line(const char *line, struct fingerprint *p)
{
    int end = -1;

    return sscanf(line, "%" SCNu32 " %" SCNu64 " %16" SCNx64 "%16" SCNx64 "%n",
                  &p->vcpu, &p->records, &p->chain[0], &p->chain[1],
                  &end) == 4 && end > 0 && !line[end];
}

GArray *fingerprint_parse(const char *text, GError **error)
{
    g_autoptr(GArray) prints = g_array_new(FALSE, FALSE,
                                           sizeof(struct fingerprint));
    bool ok = g_str_has_prefix(text, HEAD);

    text += ok ? strlen(HEAD) : 0;
    while (ok && *text) {
        const char *end = strchr(text, '\n');
        g_autofree char *line = g_strndup(text, end ? end - text : 0);
        struct fingerprint p;

        ok = end && prints->len < MAX_PRINTS && parse_line(line, &p);
        if (ok) {
            g_array_append_val(prints, p);
            text = end + 1;
        }
    }
    if (!ok) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                    "the fingerprints are damaged; remove the file, and "
                    "replay again");
        return NULL;
    }
    return g_steal_pointer(&prints);
}

GArray *fingerprint_load(const char *path, GError **error)
{
    g_autofree char *text = NULL;
    size_t length;

    text = read_whole_file(path, MAX_TEXT, &length, error);
    if (!text) {
        g_prefix_error(error, "%s: ", path);
        return NULL;
    }
    if (strlen(text) != length) {
        *text = 0;
    }
    return fingerprint_parse(text, error);
}

static const struct fingerprint *find(const GArray *prints, uint32_t vcpu,
                                      uint64_t records)
{
    for (unsigned i = 0; i < prints->len; i++) {
        const struct fingerprint *p = &g_array_index(prints,
                                                     struct fingerprint, i);

        if (p->vcpu == vcpu && p->records == records) {
            return p;
        }
    }
    return NULL;
}

bool fingerprint_agree(const GArray *a, const GArray *b, uint32_t vcpu,
                       uint64_t *records)
{
    for (unsigned i = 0; i < a->len; i++) {
        const struct fingerprint *p = &g_array_index(a, struct fingerprint,
                                                     i);
        const struct fingerprint *q = i < b->len ?
            &g_array_index(b, struct fingerprint, i) : NULL;

        if (p->vcpu != vcpu) {
            continue;
        }
        if (!q || q->vcpu != vcpu || q->records != p->records) {
            q = find(b, vcpu, p->records);
        }
        if (q && (q->chain[0] != p->chain[0] || q->chain[1] != p->chain[1])) {
            *records = p->records;
            return false;
        }
    }
    return true;
}

/* One side of a comparison: records in their order */
struct fingerprint_side {
    struct btrail_cursor *cursor;
    struct btrail_batch batch;
    size_t at;
    bool end;
    int ret;
};

static bool has_stream(const struct btrail_trace *trace, uint32_t vcpu)
{
    struct btrail_stream_info info;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        if (info.vcpu == vcpu) {
            return true;
        }
    }
    return false;
}

static bool open_side(struct fingerprint_side *s,
                      const struct btrail_trace *trace,
                      uint32_t vcpu, uint64_t from)
{
    memset(s, 0, sizeof(*s));
    if (!has_stream(trace, vcpu)) {
        s->end = true;
        return true;
    }
    s->ret = btrail_cursor_open(&s->cursor, trace, vcpu, 0);
    if (!s->ret) {
        s->ret = btrail_cursor_seek(s->cursor, from);
    }
    return !s->ret;
}

/* The next record, or NULL at the end */
static const struct btrail_record *next_record(struct fingerprint_side *s)
{
    while (!s->end && s->at >= s->batch.count) {
        s->at = 0;
        s->ret = btrail_cursor_next(s->cursor, &s->batch);
        s->end = s->ret;
        if (!s->end && s->batch.event) {
            s->batch.count = 0;
        }
    }
    return s->end ? NULL : &s->batch.records[s->at++];
}

static bool same(const struct btrail_record *a, const struct btrail_record *b)
{
    return a->from == b->from && a->to == b->to && a->flags == b->flags;
}

/* Where a trace goes from a record on, which may be NULL */
static void follow(struct fingerprint_side *s, const struct btrail_record *r,
                   struct fingerprint_path *path)
{
    path->icount = r ? btrail_record_icount(r, &s->batch.time) :
                   BTRAIL_NO_ICOUNT;
    for (; r; r = next_record(s)) {
        path->records[path->count++] = *r;
        if (path->count == FINGERPRINT_PATH) {
            return;
        }
    }
}

static bool compare_sides(struct fingerprint_side *a,
                          struct fingerprint_side *b, uint64_t index,
                          struct fingerprint_difference *d)
{
    for (;; index++) {
        const struct btrail_record *x = next_record(a);
        const struct btrail_record *y = next_record(b);

        if (x && y && same(x, y)) {
            continue;
        }
        if (!x && !y) {
            return false;
        }
        d->index = index;
        d->ended = !x || !y;
        follow(a, x, &d->a);
        follow(b, y, &d->b);
        return true;
    }
}

bool fingerprint_compare(const struct btrail_trace *a,
                         const struct btrail_trace *b, uint32_t vcpu,
                         uint64_t from, struct fingerprint_difference *d,
                         GError **error)
{
    struct fingerprint_side x = { NULL }, y = { NULL };
    bool differ = false;

    memset(d, 0, sizeof(*d));
    d->vcpu = vcpu;
    if (open_side(&x, a, vcpu, from) && open_side(&y, b, vcpu, from)) {
        differ = compare_sides(&x, &y, from, d);
    }
    btrail_cursor_close(x.cursor);
    btrail_cursor_close(y.cursor);
    if (x.ret && x.ret != -BTRAIL_ERR_END) {
        library_error(error, x.ret);
    } else if (y.ret && y.ret != -BTRAIL_ERR_END) {
        library_error(error, y.ret);
    }
    return differ;
}
