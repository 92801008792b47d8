/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks in a trace: see marks.h
 */

#include <string.h>

#include "backtrail/code.h"
#include "find/marks.h"
#include "find/task-run.h"
#include "lib/agent/meta.h"
#include "lib/agent/thread.h"
#include "util/closest.h"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

/* More places than this are not a program's. */
#define MAX_PLACES      (1u << 22)

/*
 * Records that are read for one value: an interrupt of the thread can take
 * long.
 */
#define MAX_RECORDS     (UINT64_C(1) << 24)

/* How often a thread is followed to where it continues */
#define MAX_MOVES       64

/* To a place that is this near, reading is quicker than seeking. */
#define NEAR            (UINT64_C(1) << 20)

/**
 * struct mark_reader - reads a stream where values are
 * @cursor: NULL if there is none yet
 * @b:      the last batch
 * @placed: the cursor is after @b, and has passed no gap
 */
struct mark_reader {
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    bool placed;
};

/**
 * struct marks
 * @alone: the guest can have one vCPU, so a thread continues where it was
 */
struct marks {
    const struct btrail_trace *trace;
    struct btrail_code *code;
    bool own_code;
    bool alone;
    struct mark_reader readers[BTRAIL_MAX_VCPUS];
};

static bool is_alone(const struct btrail_trace *trace)
{
    unsigned bad;
    g_autoptr(JsonObject) meta = btrail_meta_read(trace, &bad);

    return btrail_trace_streams(trace) == 1 &&
           btrail_json_int(meta, "vcpus", 0) == 1;
}

struct marks *marks_new(const struct btrail_trace *trace,
                        struct symbolizer *symbols, GError **error)
{
    struct marks *m = g_new0(struct marks, 1);
    int ret = 0;

    m->trace = trace;
    m->alone = is_alone(trace);
    m->code = symbols ? symbolizer_captured(symbols) : NULL;
    if (!m->code) {
        m->own_code = true;
        ret = btrail_code_open(&m->code, trace);
    }
    if (ret) {
        fail(error, "the trace: %s", btrail_strerror(ret));
        g_free(m);
        return NULL;
    }
    return m;
}

void marks_free(struct marks *m)
{
    if (m) {
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            btrail_cursor_close(m->readers[i].cursor);
        }
        if (m->own_code) {
            btrail_code_close(m->code);
        }
        g_free(m);
    }
}

/*
 * Finding
 */

/* What can be a mark, in a page */
struct offset {
    uint64_t from;
    uint64_t to;
};

/**
 * struct mark_search
 * @contents: what to search of each: a struct btrail_code_page, by its content
 * @offsets:  of struct offset in an array, by the contents that have some
 * @found:    those of the page that is searched, or NULL
 * @names:    of other marks
 * @closest:  of these, to the one that is wanted
 */
struct mark_search {
    struct marks *m;
    const struct mark_wanted *wanted;
    GHashTable *contents;
    GHashTable *offsets;
    GArray *found;
    GStringChunk *names;
    struct closest closest;
};

static void take_offset(void *opaque, uint64_t from, uint64_t to,
                        const struct mark *mark)
{
    struct mark_search *s = opaque;
    const struct offset offset = { from, to };

    if (mark && !mark_wanted_has_name(s->wanted, mark->name)) {
        closest_offer(&s->closest,
                      g_string_chunk_insert_const(s->names,
                                                  mark->name));
        return;
    }
    if (!s->found) {
        s->found = g_array_new(FALSE, FALSE, sizeof(struct offset));
    }
    g_array_append_val(s->found, offset);
}

/* Keeps one page of each content. */
static void collect_contents(struct mark_search *s)
{
    struct btrail_code_page page;

    for (size_t i = 0; !btrail_code_page(s->m->code, i, &page); i++) {
        if (!g_hash_table_contains(s->contents, &page.content)) {
            struct btrail_code_page *copy = g_memdup2(&page, sizeof(page));

            g_hash_table_insert(s->contents, &copy->content, copy);
        }
    }
}

static gint by_content(gconstpointer a, gconstpointer b)
{
    const struct btrail_code_page *const *x = a, *const *y = b;

    return ((*x)->content > (*y)->content) - ((*x)->content < (*y)->content);
}

/*
 * Searches all contents, in the order in which they are in the file.  Returns
 * an error of the library.
 */
static int search_contents(struct mark_search *s)
{
    g_autofree struct btrail_code_page **pages = NULL;
    guint n;

    pages = (struct btrail_code_page **)
            g_hash_table_get_keys_as_array(s->contents, &n);
    for (guint i = 0; i < n; i++) {
        pages[i] = g_hash_table_lookup(s->contents, pages[i]);
    }
    qsort(pages, n, sizeof(*pages), by_content);
    for (guint i = 0; i < n; i++) {
        const struct btrail_code_page *p = pages[i];
        uint8_t bytes[MARK_PAGE];
        int ret = btrail_code_read(s->m->code, p->vcpu, p->index, p->cr3,
                                   p->address, bytes, sizeof(bytes));

        if (ret < 0 && ret != -BTRAIL_ERR_CORRUPT) {
            return ret;
        }
        if (ret == sizeof(bytes)) {
            s->found = NULL;
            mark_scan(bytes, take_offset, s);
            if (s->found) {
                g_hash_table_insert(s->offsets,
                                    g_memdup2(&p->content,
                                              sizeof(p->content)),
                                    s->found);
            }
        }
    }
    return 0;
}

/* The places of all pages.  False if there are too many. */
static bool add_places(struct mark_search *s, GArray *addresses)
{
    g_autoptr(GHashTable) known = g_hash_table_new_full(g_int64_hash,
                                                        g_int64_equal, g_free,
                                                        NULL);
    struct btrail_code_page page;

    for (size_t i = 0; !btrail_code_page(s->m->code, i, &page); i++) {
        const GArray *found = g_hash_table_lookup(s->offsets, &page.content);

        for (guint k = 0; found && k < found->len; k++) {
            uint64_t to = page.address +
                          g_array_index(found, struct offset, k).to;

            if (g_hash_table_contains(known, &to)) {
                continue;
            }
            if (addresses->len == MAX_PLACES) {
                return false;
            }
            g_hash_table_add(known, g_memdup2(&to, sizeof(to)));
            g_array_append_val(addresses, to);
        }
    }
    return true;
}

static bool not_found(struct mark_search *s, GError **error)
{
    g_autofree char *hint = closest_hint(&s->closest);

    if (!*s->wanted->name) {
        return agent_fail(error, AGENT_ERROR_NAMES,
                          "no code that the trace has is a mark");
    }
    return agent_fail(error, AGENT_ERROR_NAMES,
                      "no code that the trace has is a mark '%s'%s",
                      s->wanted->name, hint);
}

bool marks_find(struct marks *m, const struct mark_wanted *wanted,
                GArray *addresses, GError **error)
{
    struct mark_search s = {
        .m = m, .wanted = wanted,
        .names = g_string_chunk_new(1024),
        .closest = closest_to(wanted->name),
        .contents = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL,
                                          g_free),
        .offsets = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                         (GDestroyNotify)g_array_unref),
    };
    int ret;
    bool ok;

    collect_contents(&s);
    ret = search_contents(&s);
    ok = ret ? fail(error, "the trace: %s", btrail_strerror(ret)) :
         add_places(&s, addresses) ||
         fail(error, "the trace has marks at more than %u addresses",
              MAX_PLACES);
    ok = ok && (addresses->len || not_found(&s, error));
    g_hash_table_unref(s.contents);
    g_hash_table_unref(s.offsets);
    g_string_chunk_free(s.names);
    return ok;
}

/*
 * Records
 */

bool marks_at(struct marks *m, unsigned vcpu, const struct btrail_batch *b,
              struct mark *mark)
{
    const struct btrail_record *r = &b->records[0];
    uint8_t bytes[MARK_SIZE_MAX];
    size_t size = r->to - r->from;

    if (!mark_fits(r->from, r->to)) {
        return false;
    }
    /* The second page of two is known once it runs, which is after this. */
    for (unsigned i = 0; i < 2; i++) {
        int n = btrail_code_read(m->code, vcpu, b->index + i, b->cr3, r->from,
                                 bytes, size);

        if (n == (int)size) {
            return mark_decode(bytes, size, r->from, mark) &&
                   mark->to == r->to;
        }
    }
    return false;
}

/**
 * struct marked_thread - that leaves a mark
 * @mark: the batch of the mark's record
 * @run:  where it has run last; not of a thread that no event names
 * @moves: how often it was switched away from
 */
struct marked_thread {
    const struct btrail_batch *mark;
    struct task_run run;
    unsigned moves;
};

/* The thread that has made the records of a batch */
static struct mark_thread thread_of(const struct btrail_batch *b)
{
    return (struct mark_thread) { b->task.known, btrail_thread(&b->task),
                                  b->cr3 };
}

/*
 * Goes to a record, or to what is in its place.  Returns an error of the
 * library.
 */
static int go_to(struct mark_reader *r, const struct btrail_trace *trace,
                 unsigned vcpu, uint64_t index)
{
    uint64_t end = r->b.index + r->b.count;
    int ret = 0;

    if (r->placed && index >= r->b.index && index < end) {
        return 0;
    }
    if (!r->cursor) {
        ret = btrail_cursor_open(&r->cursor, trace, vcpu, 0);
    }
    if (!ret && (!r->placed || index < end || index - end > NEAR)) {
        ret = btrail_cursor_seek(r->cursor, index);
        end = index;
    }
    r->b = (struct btrail_batch) { .index = end };
    r->placed = !ret;
    return ret;
}

/* The next batch of records.  False at a gap, an error or the end. */
static bool read_batch(struct mark_reader *r)
{
    do {
        r->placed = !btrail_cursor_next(r->cursor, &r->b) &&
                    !(r->b.event && r->b.event->type == BTRAIL_EVENT_GAP);
    } while (r->placed && r->b.event);
    return r->placed;
}

/*
 * Goes to where a thread continues, after it was switched away from at record
 * @left.  False if that is not sure.
 */
static bool follow(struct marks *m, struct marked_thread *t, uint64_t left,
                   uint64_t *index)
{
    const struct btrail_batch *mark = t->mark;
    struct task_run next;

    if (!mark->task.known || t->moves == MAX_MOVES ||
        (!t->moves && !task_run_at(m->trace, t->run.vcpu, mark, &t->run)) ||
        !task_run_next(m->trace, btrail_thread(&mark->task), &t->run, left,
                       &next)) {
        return false;
    }
    t->moves++;
    t->run = next;
    *index = next.index;
    return !go_to(&m->readers[next.vcpu], m->trace, next.vcpu, next.index);
}

bool marks_value(struct marks *m, unsigned vcpu, const struct btrail_batch *b,
                 const struct mark *mark, uint64_t *value)
{
    struct marked_thread t = { .mark = b, .run.vcpu = vcpu };
    enum mark_value_state state = MARK_VALUE_MORE;
    uint64_t index = b->index + 1, n = 0;
    struct mark_thread thread = thread_of(b), now;
    struct mark_value v;
    bool same;

    if (!mark->has_value || go_to(&m->readers[vcpu], m->trace, vcpu, index)) {
        return false;
    }
    mark_value_begin(&v, mark);
    while (state == MARK_VALUE_MORE && n < MAX_RECORDS) {
        struct mark_reader *r = &m->readers[t.run.vcpu];

        if (index >= r->b.index + r->b.count && !read_batch(r)) {
            return false;
        }
        index = MAX(index, r->b.index);
        now = thread_of(&r->b);
        same = mark_thread_is_same(&thread, mark, &now);
        if (v.away && !(m->alone && !thread.named) &&
            index < r->b.index + r->b.count &&
            mark_thread_is_switched(&thread, mark, &now)) {
            if (!follow(m, &t, index, &index)) {
                return false;
            }
            continue;
        }
        for (; index < r->b.index + r->b.count && state == MARK_VALUE_MORE;
             index++, n++) {
            state = mark_value_add(&v, &r->b.records[index - r->b.index],
                                   same);
        }
    }
    *value = v.value;
    return state == MARK_VALUE_KNOWN;
}

bool marks_read(struct marks *m, unsigned vcpu, const struct btrail_batch *b,
                struct marks_found *found)
{
    if (!marks_at(m, vcpu, b, &found->mark)) {
        return false;
    }
    found->known = marks_value(m, vcpu, b, &found->mark, &found->value);
    return true;
}

const char *marks_text(const struct marks_found *found, char buf[MARKS_TEXT])
{
    if (found->known) {
        g_snprintf(buf, MARKS_TEXT, "%s = %" G_GUINT64_FORMAT,
                   found->mark.name, found->value);
    } else {
        g_snprintf(buf, MARKS_TEXT, "%s%s", found->mark.name,
                   found->mark.has_value ? " = ?" : "");
    }
    return buf;
}

bool marks_match(struct marks *m, unsigned vcpu, const struct btrail_batch *b,
                 const struct mark_wanted *wanted)
{
    struct mark mark;
    uint64_t value;

    return marks_at(m, vcpu, b, &mark) &&
           mark_wanted_has_name(wanted, mark.name) &&
           (!wanted->condition ||
            (marks_value(m, vcpu, b, &mark, &value) &&
             mark_wanted_has_value(wanted, value)));
}
