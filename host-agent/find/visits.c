/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where code ran: see visits.h
 */

#include <string.h>

#include "find/clock-order.h"
#include "find/visits.h"
#include "lib/agent/batch.h"
#include "symbolize/executed.h"
#include "util/hash.h"
#include "util/search.h"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

/* Most records have an address whose hash is not that of a wanted one. */
#define HASH_LOG    16
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* Visits of a piece that are kept on the way back; others are read again. */
#define KEEP        4096

/* Work is shared in this many jobs for each thread. */
#define JOBS        8

/**
 * struct visit_reader - reads pieces of one stream
 * @piece:   whose moments are searched
 * @b, @next: records that were read, and the first that was not searched
 * @skip:    another process has made them
 * @any:     they can have the function at any address of user mode
 * @before:  the batch before, if nothing is missing between the two; its last
 *           record is @last
 */
struct visit_reader {
    struct visits *v;
    unsigned vcpu;
    struct btrail_cursor *cursor;
    struct piece piece;
    struct btrail_batch b;
    size_t next;
    bool skip;
    bool any;
    struct btrail_batch before;
    struct btrail_record last;
};

/**
 * struct visit_lane - a vCPU
 * @found:  @visit is the next one
 * @kept:   of struct visit: on the way back, those of a piece
 * @before: records from here on were searched on the way back
 */
struct visit_lane {
    struct candidates pieces;
    struct visit_reader reader;
    bool begun;
    bool found;
    bool ended;
    struct visit visit;
    GArray *kept;
    uint64_t before;
};

/**
 * struct visits
 * @hashes: of addresses, a bit for each
 * @lock:   of @symbols, the marks of @wanted, @holes and @bad
 * @order:  of several vCPUs; NULL before it is needed
 * @holes:  that were met: uint64_t[2], vCPU and index
 * @bad:    chunks that were met, each time
 */
struct visits {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    GMutex lock;
    const struct find_target *wanted;
    const uint64_t *addresses;
    size_t n_addresses;
    uint64_t hashes[1 << (HASH_LOG - 6)];
    struct visit_lane *lanes;
    unsigned n;
    struct clock_order *order;
    GHashTable *holes;
    uint64_t bad;
};

struct btrail_batch visit_batch(const struct visit *visit)
{
    const struct moment *at = &visit->at;

    return (struct btrail_batch) {
        .records = &visit->record, .count = 1, .index = at->index,
        .cr3 = visit->cr3, .time = at->time, .task = at->task,
        .kernel = at->kernel, .leaves = at->leaves,
    };
}

static bool library_failed(GError **error, int ret)
{
    return fail(error, "the trace: %s", btrail_strerror(ret));
}

static unsigned hash(uint64_t address)
{
    return address * HASH_FACTOR >> (64 - HASH_LOG);
}

/* Is it one of those that are wanted? */
static bool is_wanted(const struct visits *v, uint64_t address)
{
    size_t low = 0, high = v->n_addresses;

    if (!(v->hashes[hash(address) / 64] >> hash(address) % 64 & 1)) {
        return false;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (v->addresses[middle] == address) {
            return true;
        }
        if (v->addresses[middle] < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

struct visits *visits_new(const struct btrail_trace *trace,
                          struct symbolizer *symbols,
                          const struct find_target *wanted, GError **error)
{
    struct visits *v = g_new0(struct visits, 1);
    struct btrail_stream_info info;

    v->trace = trace;
    v->symbols = symbols;
    v->wanted = wanted;
    v->addresses = (const uint64_t *)wanted->addresses->data;
    v->n_addresses = wanted->addresses->len;
    v->holes = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                     g_free, NULL);
    g_mutex_init(&v->lock);
    for (size_t i = 0; i < v->n_addresses; i++) {
        unsigned bit = hash(v->addresses[i]);

        v->hashes[bit / 64] |= UINT64_C(1) << bit % 64;
    }
    v->lanes = g_new0(struct visit_lane, btrail_trace_streams(trace) + 1);
    while (!btrail_trace_stream(trace, v->n, &info)) {
        struct visit_lane *lane = &v->lanes[v->n++];

        lane->pieces = (struct candidates) {
            .trace = trace, .vcpu = info.vcpu, .addresses = wanted->addresses,
            .blocks = wanted->blocks, .others = wanted->others[info.vcpu],
            .end = UINT64_MAX,
        };
        lane->reader.v = v;
        lane->reader.vcpu = info.vcpu;
        lane->before = UINT64_MAX;
    }
    return v;
}

static void reader_clear(struct visit_reader *r)
{
    if (r->cursor) {
        g_mutex_lock(&r->v->lock);
        r->v->bad += btrail_cursor_bad_chunks(r->cursor);
        g_mutex_unlock(&r->v->lock);
        btrail_cursor_close(r->cursor);
        r->cursor = NULL;
    }
    r->b.count = r->before.count = r->next = 0;
}

void visits_free(struct visits *v)
{
    if (v) {
        for (unsigned i = 0; i < v->n; i++) {
            reader_clear(&v->lanes[i].reader);
            g_clear_pointer(&v->lanes[i].kept, g_array_unref);
        }
        g_mutex_clear(&v->lock);
        clock_order_free(v->order);
        g_hash_table_unref(v->holes);
        g_free(v->lanes);
        g_free(v);
    }
}

void visits_limit(struct visits *v, unsigned vcpu, uint64_t begin,
                  uint64_t end)
{
    for (unsigned i = 0; i < v->n; i++) {
        if (v->lanes[i].pieces.vcpu == vcpu) {
            v->lanes[i].pieces.begin = begin;
            v->lanes[i].pieces.end = end;
        }
    }
}

uint64_t visits_damage(const struct visits *v)
{
    uint64_t bad = v->bad;

    for (unsigned i = 0; i < v->n; i++) {
        const struct visit_reader *r = &v->lanes[i].reader;

        bad += r->cursor ? btrail_cursor_bad_chunks(r->cursor) : 0;
    }
    /* Chunks without records leave no hole. */
    return g_hash_table_size(v->holes) ?: bad;
}

/* The task of record @i of a batch; NULL if there are no names */
static const struct process *task_of(struct visits *v, unsigned vcpu,
                                     const struct btrail_batch *b, size_t i)
{
    const struct btrail_batch one = btrail_batch_part(b, i, 1);
    struct btrail_batch part = { .count = 0 };
    struct task task;

    return v->symbols &&
           symbolizer_part(v->symbols, vcpu, &one, &part, &task) ?
           task.process : NULL;
}

/* Does the process that is wanted make record @i, which goes to the code? */
static bool process_matches(struct visits *v, const struct visit_reader *r,
                            size_t i)
{
    const struct find_target *s = v->wanted;
    uint64_t to = r->b.records[i].to;
    /* Kernels are in the upper half. */
    bool kernel = to >> 63, ok;
    const struct symbolizer_where where = symbolizer_at(r->vcpu, &r->b, i);
    const struct process *process;
    struct place place;

    if (!s->process || ((kernel || !s->function) && r->b.task.known)) {
        return true;
    }
    g_mutex_lock(&v->lock);
    process = task_of(v, r->vcpu, &r->b, i);
    ok = process && !strcmp(process->comm, s->process);
    if (ok && !kernel && s->function) {
        symbolizer_target(v->symbols, process, &where, to, &place);
        ok = place.function->known && !place.offset &&
             function_is(place.function, s->function);
    }
    g_mutex_unlock(&v->lock);
    return ok;
}

/* Is record @i, which goes to where a mark's does, the mark that is wanted? */
static bool mark_matches(struct visits *v, const struct visit_reader *r,
                         size_t i)
{
    const struct find_target *s = v->wanted;
    struct btrail_batch one;
    bool ok;

    if (!s->marks) {
        return true;
    }
    one = btrail_batch_part(&r->b, i, 1);
    g_mutex_lock(&v->lock);
    ok = marks_match(s->marks, r->vcpu, &one, &s->mark);
    g_mutex_unlock(&v->lock);
    return ok;
}

/*
 * Has an interrupt or a fault prevented the instruction that record @i is from?
 * It is the last one of a block.
 */
static bool prevented(struct visits *v, const struct visit_reader *r, size_t i)
{
    const struct btrail_record *record = &r->b.records[i];
    const struct symbolizer_where where = symbolizer_at(r->vcpu, &r->b, i);
    uint8_t bytes[INSTRUCTION_MAX];
    const struct process *process;
    struct instruction insn;
    bool exact, ran = true;

    g_mutex_lock(&v->lock);
    process = task_of(v, r->vcpu, &r->b, i);
    if (process) {
        size_t n = symbolizer_code(v->symbols, process, &where, record->from,
                                   bytes, sizeof(bytes), &exact);

        ran = !instruction_decode(bytes, n,
                                  symbolizer_bits(v->symbols, process, &where,
                                                  record->from),
                                  record->from, &insn) || !exact ||
              executed(v->symbols, process, &where, &insn, 0, record->from,
                       record->to);
    }
    g_mutex_unlock(&v->lock);
    return !ran;
}

static void set_visit(const struct visit_reader *r,
                      const struct btrail_batch *b,
                      size_t i, const struct btrail_record *record,
                      uint64_t address, struct visit *visit)
{
    struct btrail_batch one = btrail_batch_part(b, i, 1);

    one.records = record;
    *visit = (struct visit) {
        .at = moment_after(r->vcpu, &one, 0), .record = *record,
        .cr3 = b->cr3, .address = address,
    };
}

/* Does record @i go to the code, as far as its address and time say? */
static bool is_target(const struct visits *v, const struct visit_reader *r,
                      size_t i)
{
    const struct symbolizer_where where = symbolizer_at(r->vcpu, &r->b, i);
    uint64_t to = r->b.records[i].to;

    return find_target_at(v->wanted, to, where.kernel, where.time) ||
           (r->any && !(to >> 63));
}

/* Searches what records go to, up to record @end of the batch. */
static bool find_target(struct visit_reader *r, size_t end, struct visit *visit)
{
    struct visits *v = r->v;

    for (; r->next < end; r->next++) {
        const struct btrail_record *record = &r->b.records[r->next];

        if ((is_wanted(v, record->to) || (r->any && !(record->to >> 63))) &&
            is_target(v, r, r->next) && process_matches(v, r, r->next) &&
            mark_matches(v, r, r->next)) {
            set_visit(r, &r->b, r->next, record, record->to, visit);
            r->next++;
            return true;
        }
    }
    return false;
}

/* The address of a block that is wanted; false if there is none */
static bool find_in_block(const struct visits *v, uint64_t to, uint64_t from,
                          uint64_t *address)
{
    for (size_t i = 0; i < v->n_addresses; i++) {
        if (v->addresses[i] >= to && v->addresses[i] <= from) {
            *address = v->addresses[i];
            return true;
        }
    }
    return false;
}

/* Searches the blocks that end with records before record @end of the batch. */
static bool find_block(struct visit_reader *r, size_t end, struct visit *visit)
{
    uint64_t address;

    for (; r->next < end; r->next++) {
        size_t i = r->next;
        const struct btrail_record *record = &r->b.records[i];
        const struct btrail_record *last = i ? record - 1 : &r->last;

        if ((!i && !r->before.count) ||
            !find_in_block(r->v, last->to, record->from, &address) ||
            (address == record->from && prevented(r->v, r, i))) {
            continue;
        }
        if (i) {
            set_visit(r, &r->b, i - 1, last, address, visit);
        } else {
            set_visit(r, &r->before, r->before.count - 1, last, address,
                      visit);
        }
        if (visit->at.index >= r->piece.begin) {
            r->next++;
            return true;
        }
    }
    return false;
}

/* Notes what is missing, once: two pieces can be at the same hole. */
static void note_hole(const struct visit_reader *r)
{
    const uint64_t key[] = { r->vcpu, r->b.index };

    g_mutex_lock(&r->v->lock);
    g_hash_table_add(r->v->holes, g_memdup2(key, sizeof(key)));
    g_mutex_unlock(&r->v->lock);
}

/* Another batch.  Returns an error of the library. */
static int read_batch(struct visit_reader *r)
{
    const struct find_target *s = r->v->wanted;
    int ret;

    if (r->b.count) {
        r->before = r->b;
        r->last = r->b.records[r->b.count - 1];
        r->b.count = 0;
    }
    r->next = 0;
    ret = btrail_cursor_next(r->cursor, &r->b);
    if (ret) {
        r->b.count = 0;
        return ret;
    }
    if (r->b.event) {
        if (r->b.synthetic) {
            note_hole(r);
        }
        if (r->b.event->type == BTRAIL_EVENT_GAP) {
            r->before.count = 0;
        }
        return 0;
    }
    r->skip = s->process && r->b.task.known &&
              strcmp(r->b.task.name, s->process);
    r->any = s->process && s->function && s->others[r->vcpu] &&
             r->v->symbols;
    return 0;
}

/* Searches a piece from here on; what was read continues if it goes on. */
static int reader_begin(struct visit_reader *r, const struct piece *piece)
{
    uint64_t at = r->b.index + r->next;
    bool goes_on = r->cursor && piece->begin == r->piece.end &&
                   r->b.count && at >= piece->begin &&
                   at <= piece->begin + r->v->wanted->blocks;
    int ret = 0;

    r->piece = *piece;
    if (goes_on) {
        return 0;
    }
    if (!r->cursor) {
        ret = btrail_cursor_open(&r->cursor, r->v->trace, r->vcpu, 0);
    }
    if (!ret) {
        ret = btrail_cursor_seek(r->cursor, piece->begin);
    }
    r->b.count = r->before.count = r->next = 0;
    return ret;
}

/*
 * The next visit of the piece.  Returns END after the last one, or an error of
 * the library.
 */
static int reader_find(struct visit_reader *r, struct visit *visit)
{
    const struct find_target *s = r->v->wanted;
    /* The record that ends a block comes after the moment. */
    uint64_t limit = r->piece.end + s->blocks;
    int ret;

    for (;;) {
        size_t end = MIN(r->b.count, limit - MIN(r->b.index, limit));

        if (r->next < end && r->skip) {
            r->next = end;
        } else if (r->next < end &&
                   (s->blocks ? find_block(r, end, visit) :
                    find_target(r, end, visit))) {
            return 0;
        }
        if (r->b.count && r->next < r->b.count) {
            return -BTRAIL_ERR_END;
        }
        if (r->b.count && r->b.index + r->b.count >= limit) {
            return -BTRAIL_ERR_END;
        }
        ret = read_batch(r);
        if (ret) {
            return ret;
        }
        if (!r->b.count && r->b.index >= limit) {
            return -BTRAIL_ERR_END;
        }
    }
}

/* Does the order of several vCPUs matter? */
static bool are_ordered(struct visits *v)
{
    unsigned n = 0;

    for (unsigned i = 0; i < v->n; i++) {
        const struct candidates *pieces = &v->lanes[i].pieces;

        n += pieces->begin < pieces->end;
    }
    if (n > 1 && !v->order) {
        v->order = clock_order_of(v->trace);
    }
    return n > 1;
}

/* Searches on to the next visit of a vCPU. */
static bool advance(struct visit_lane *lane, GError **error)
{
    int ret = 0;

    while (!lane->found && !lane->ended) {
        uint64_t from = lane->begun ? lane->reader.piece.end : 0;
        struct piece piece;

        if (!lane->begun || ret == -BTRAIL_ERR_END) {
            if (!candidates_next(&lane->pieces, from, &piece)) {
                lane->ended = true;
                break;
            }
            lane->begun = true;
            ret = reader_begin(&lane->reader, &piece);
        }
        if (!ret) {
            ret = reader_find(&lane->reader, &lane->visit);
            lane->found = !ret;
        }
        if (ret && ret != -BTRAIL_ERR_END) {
            lane->ended = true;
            return library_failed(error, ret);
        }
    }
    return true;
}

bool visits_next(struct visits *v, struct visit *visit, GError **error)
{
    struct visit_lane *first = NULL;
    bool ordered = are_ordered(v);

    for (unsigned i = 0; i < v->n; i++) {
        struct visit_lane *lane = &v->lanes[i];

        if (!advance(lane, error)) {
            return false;
        }
        if (lane->found && ordered) {
            clock_order_stamp(v->order, &lane->visit.at);
        }
        if (lane->found &&
            (!first ||
             moment_compare(&lane->visit.at, &first->visit.at) < 0)) {
            first = lane;
        }
    }
    if (!first) {
        return false;
    }
    *visit = first->visit;
    first->found = false;
    return true;
}

/* Keeps the last visits of a piece.  Returns an error of the library. */
static int keep_piece(struct visits *v, struct visit_lane *lane,
                      const struct piece *piece)
{
    bool ordered = are_ordered(v);
    struct visit visit;
    int ret = reader_begin(&lane->reader, piece);

    lane->before = piece->begin;
    while (!ret && !(ret = reader_find(&lane->reader, &visit))) {
        if (lane->kept->len == 2 * KEEP) {
            g_array_remove_range(lane->kept, 0, KEEP);
            lane->before = g_array_index(lane->kept, struct visit, 0).at.index;
        }
        /* Times in the order of indices are quick. */
        if (ordered) {
            clock_order_stamp(v->order, &visit.at);
        }
        g_array_append_val(lane->kept, visit);
    }
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* The last visit of a vCPU that was not handed out */
static bool go_back(struct visits *v, struct visit_lane *lane, GError **error)
{
    struct piece piece;
    int ret;

    if (!lane->kept) {
        lane->kept = g_array_new(FALSE, FALSE, sizeof(struct visit));
    }
    while (!lane->found && !lane->ended) {
        if (lane->kept->len) {
            lane->visit = g_array_index(lane->kept, struct visit,
                                        lane->kept->len - 1);
            g_array_set_size(lane->kept, lane->kept->len - 1);
            lane->found = true;
            break;
        }
        if (!candidates_previous(&lane->pieces, lane->before, &piece)) {
            lane->ended = true;
            break;
        }
        ret = keep_piece(v, lane, &piece);
        if (ret) {
            lane->ended = true;
            return library_failed(error, ret);
        }
    }
    return true;
}

bool visits_previous(struct visits *v, struct visit *visit, GError **error)
{
    struct visit_lane *last = NULL;

    for (unsigned i = 0; i < v->n; i++) {
        struct visit_lane *lane = &v->lanes[i];

        if (!go_back(v, lane, error)) {
            return false;
        }
        /* Where clocks are the same, the order is that of visits_next(). */
        if (lane->found &&
            (!last ||
             moment_compare(&lane->visit.at, &last->visit.at) >= 0)) {
            last = lane;
        }
    }
    if (!last) {
        return false;
    }
    *visit = last->visit;
    last->found = false;
    return true;
}

void visits_lock(struct visits *v)
{
    g_mutex_lock(&v->lock);
}

void visits_unlock(struct visits *v)
{
    g_mutex_unlock(&v->lock);
}

/* Pieces that follow each other, of one vCPU */
struct visit_job {
    unsigned vcpu;
    struct piece piece;
};

/**
 * struct team - threads that share the work
 * @jobs: of struct visit_job
 * @next: the first one that no thread has taken
 * @failure: an error of the library, if there was one
 */
struct team {
    struct visits *v;
    GArray *jobs;
    gint next;
    gint failure;
    visits_fn *fn;
    void *opaque;
};

struct visit_worker {
    struct team *team;
    unsigned number;
};

static gpointer work(gpointer data)
{
    struct visit_worker *w = data;
    struct team *team = w->team;
    struct visit_reader r = { .v = team->v };
    gint i;

    while (!g_atomic_int_get(&team->failure) &&
           (i = g_atomic_int_add(&team->next, 1)) < (gint)team->jobs->len) {
        const struct visit_job *job = &g_array_index(team->jobs,
                                                     struct visit_job, i);
        struct visit visit;
        int ret;

        if (r.vcpu != job->vcpu) {
            reader_clear(&r);
            r.vcpu = job->vcpu;
        }
        ret = reader_begin(&r, &job->piece);
        while (!ret && !(ret = reader_find(&r, &visit))) {
            team->fn(team->opaque, w->number, &visit);
        }
        if (ret != -BTRAIL_ERR_END) {
            g_atomic_int_set(&team->failure, ret);
        }
    }
    reader_clear(&r);
    return NULL;
}

/* All pieces, and those that follow each other as one, but not all as one */
static GArray *make_jobs(const struct visits *v, unsigned threads)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct visit_job));
    GArray *jobs = g_array_new(FALSE, FALSE, sizeof(struct visit_job));
    unsigned size, n = 0;

    for (unsigned i = 0; i < v->n; i++) {
        const struct candidates *pieces = &v->lanes[i].pieces;
        struct visit_job job = { .vcpu = pieces->vcpu };

        while (candidates_next(pieces, job.piece.end, &job.piece)) {
            g_array_append_val(all, job);
        }
    }
    size = 1 + all->len / (threads * JOBS);
    for (unsigned i = 0; i < all->len; i++) {
        const struct visit_job *job = &g_array_index(all, struct visit_job, i);
        struct visit_job *last =
            jobs->len ? &g_array_index(jobs, struct visit_job, jobs->len - 1) :
            NULL;

        if (last && n < size && last->vcpu == job->vcpu &&
            last->piece.end == job->piece.begin) {
            last->piece.end = job->piece.end;
            n++;
        } else {
            g_array_append_val(jobs, *job);
            n = 1;
        }
    }
    g_array_unref(all);
    return jobs;
}

bool visits_each(struct visits *v, unsigned threads, visits_fn *fn,
                 void *opaque, GError **error)
{
    struct team team = { .v = v, .fn = fn, .opaque = opaque };
    g_autofree struct visit_worker *workers = g_new0(struct visit_worker,
                                                     threads);
    g_autofree GThread **others = g_new0(GThread *, threads);

    team.jobs = make_jobs(v, threads);
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct visit_worker) { &team, i };
    }
    for (unsigned i = 1; i < threads; i++) {
        others[i] = g_thread_try_new("backtrail", work, &workers[i], NULL);
    }
    work(&workers[0]);
    for (unsigned i = 0; i < threads; i++) {
        if (others[i]) {
            g_thread_join(others[i]);
        }
    }
    g_array_unref(team.jobs);
    return !team.failure || library_failed(error, team.failure);
}
