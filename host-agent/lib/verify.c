/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Is a trace complete, and does it account for every record?
 */

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "backtrail/words.h"
#include "lib/agent/code-piece.h"
#include "lib/agent/meta.h"
#include "lib/agent/trace-files.h"
#include "lib/internal/kernel-ends.h"
#include "lib/internal/scan.h"
#include "util/hash.h"

struct verify {
    const struct btrail_trace *trace;
    struct btrail_trace_status status;
    unsigned threads;
    btrail_fault_fn *fn;
    void *opaque;
    struct btrail_verify_result result;
};

struct stream {
    unsigned vcpu;
    uint64_t index;             /* of the next record */
    uint64_t recorded;          /* index after the last record */
    bool begun;
    bool ended;
    bool cut;                   /* that is the end of a file only */
    bool gap;                   /* the last thing was a GAP */
    uint64_t cr3;               /* by the events */
    struct btrail_time time;
    uint64_t clock;             /* of the last TIME event */
    bool task;                  /* known for the last records */
    bool kernel;                /* the last records say which one */
};

static void G_GNUC_PRINTF(3, 4) fault(struct verify *v,
                                      const struct stream *s,
                                      const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list args;

    if (v->result.faults++ >= BTRAIL_MAX_FAULTS || !v->fn) {
        return;
    }
    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    v->fn(v->opaque, &(struct btrail_fault) {
        .in_stream = s, .vcpu = s ? s->vcpu : 0, .index = s ? s->index : 0,
        .text = text,
    });
}

static bool known_left(uint16_t left)
{
    return !(left & ~BTRAIL_TASK_LEFT) ||
           left == (BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_LEFT_INTERRUPTIBLE) ||
           left == (BTRAIL_TASK_LEFT_BLOCKED |
                    BTRAIL_TASK_LEFT_UNINTERRUPTIBLE);
}

static bool known_reason(const struct btrail_event *e)
{
    switch (e->type) {
    case BTRAIL_EVENT_CR3:
    case BTRAIL_EVENT_TIME:
        return !e->reason;
    case BTRAIL_EVENT_TASK:
        return e->reason == BTRAIL_TASK_UNKNOWN ||
               (!(e->reason & ~(BTRAIL_TASK_KERNEL | BTRAIL_TASK_LEFT_ALL)) &&
                known_left(e->reason & BTRAIL_TASK_LEFT_ALL));
    case BTRAIL_EVENT_WAKE:
        return !(e->reason & ~(BTRAIL_WAKE_KERNEL | BTRAIL_WAKE_UNKNOWN |
                               BTRAIL_WAKE_NEW)) &&
               (e->reason & (BTRAIL_WAKE_KERNEL | BTRAIL_WAKE_UNKNOWN)) !=
               (BTRAIL_WAKE_KERNEL | BTRAIL_WAKE_UNKNOWN);
    case BTRAIL_EVENT_KERNEL:
        return e->reason <= BTRAIL_KERNEL_UNKNOWN;
    default:
        return btrail_reason_name(e->type, e->reason);
    }
}

/* Can more than one number of the event be other than 0? */
static bool may_have_numbers(const struct btrail_event *e)
{
    return e->type == BTRAIL_EVENT_TIME ||
           (e->type == BTRAIL_EVENT_GAP && !e->data[2] &&
            e->reason >= BTRAIL_GAP_PT_OVERFLOW &&
            e->reason <= BTRAIL_GAP_NOT_TRACED) ||
           (e->type == BTRAIL_EVENT_TASK &&
            !(e->reason & BTRAIL_TASK_UNKNOWN)) ||
           (e->type == BTRAIL_EVENT_KERNEL &&
            (e->reason & BTRAIL_KERNEL_NESTED));
}

/* Checks the place of an event and its numbers. */
static void check_form(struct verify *v, const struct stream *s,
                       const struct btrail_event *e)
{
    bool gap = e->type == BTRAIL_EVENT_GAP &&
               e->data[0] != BTRAIL_LOST_UNKNOWN;

    if (!known_reason(e)) {
        fault(v, s, "an event of type %u with the unknown reason %u",
              e->type, e->reason);
    }
    if (!may_have_numbers(e) && (e->data[1] || e->data[2])) {
        fault(v, s, "an event of type %u with numbers that must be 0",
              e->type);
    }
    /* An event of a gap comes after the GAP event. */
    if (!gap && (e->index > s->index || e->index < s->recorded)) {
        fault(v, s, "an event of type %u with index %" PRIu64 " is in the "
              "wrong place", e->type, e->index);
    }
}

static void check_gap(struct verify *v, struct stream *s,
                      const struct btrail_batch *b)
{
    const struct btrail_event *e = b->event;

    if (b->synthetic) {
        v->result.damage++;
        fault(v, s, "%" PRIu64 " records from here on are missing",
              e->data[0]);
    } else if (e->reason == BTRAIL_GAP_ELSEWHERE && s->begun) {
        fault(v, s, "%" PRIu64 " records from here on are in a file that "
              "was not given", e->data[0]);
    }
    if (e->data[0] == BTRAIL_LOST_UNKNOWN) {
        v->result.lost_unknown = true;
        v->result.gaps++;
    } else if (e->data[0]) {
        if (e->reason != BTRAIL_GAP_ELSEWHERE) {
            v->result.lost += e->data[0];
            v->result.gaps++;
        }
        s->index += e->data[0];
        if (s->index != e->index) {
            fault(v, s, "a GAP event whose index does not match the records "
                  "it lost");
        }
    }
}

/*
 * Only events change CR3 and time, except where chunks are missing, and where a
 * file continues the stream that does not know the time yet.
 */
static void check_state(struct verify *v, struct stream *s,
                        const struct btrail_batch *b)
{
    const struct btrail_event *e = b->event;
    /* Records between two files, by the header of the second one */
    bool between = e && e->type == BTRAIL_EVENT_GAP && e->data[0] &&
                   (e->reason == BTRAIL_GAP_AGENT_LOST ||
                    e->reason == BTRAIL_GAP_OVERWRITTEN ||
                    e->reason == BTRAIL_GAP_ELSEWHERE);

    if (s->begun && !s->gap && !between) {
        if (b->cr3 != s->cr3 && !(e && e->type == BTRAIL_EVENT_CR3)) {
            fault(v, s, "CR3 has changed without an event");
        }
        if (b->time.host && memcmp(&b->time, &s->time, sizeof(s->time)) &&
            !(e && e->type == BTRAIL_EVENT_TIME)) {
            fault(v, s, "the time has changed without an event");
        }
    }
    if ((b->cr3 & BTRAIL_CR3_CODE) == BTRAIL_CR3_CODE && b->cr3 != s->cr3) {
        fault(v, s, "a CR3 that says both 16 and 32 bits");
    }
    s->cr3 = b->cr3;
    s->time = b->time;
    s->gap = e && e->type == BTRAIL_EVENT_GAP;
    if (s->gap) {
        s->task = false;
        s->kernel = false;
    }
}

static void check_event(struct verify *v, struct stream *s,
                        const struct btrail_batch *b)
{
    const struct btrail_event *e = b->event;

    if (s->ended && !s->cut) {
        fault(v, s, "an event after the END event");
    }
    switch (e->type) {
    case BTRAIL_EVENT_GAP:
        check_form(v, s, e);
        check_gap(v, s, b);
        break;
    case BTRAIL_EVENT_END:
        check_form(v, s, e);
        /* Another file may continue where this one was cut off. */
        s->cut = e->reason == BTRAIL_END_CUT;
        s->ended = true;
        break;
    case BTRAIL_EVENT_TIME:
        check_form(v, s, e);
        if (e->data[0] < s->clock) {
            fault(v, s, "the clock goes back");
        }
        s->clock = e->data[0];
        break;
    case BTRAIL_EVENT_TASK:
        check_form(v, s, e);
        if (e->reason & BTRAIL_TASK_UNKNOWN) {
            if (e->data[0]) {
                fault(v, s, "a TASK event names a task that is not known");
            }
            s->task = false;
        }
        break;
    case BTRAIL_EVENT_KERNEL:
        check_form(v, s, e);
        if (e->data[0] > UINT16_MAX || e->data[2] ||
            ((e->reason & BTRAIL_KERNEL_UNKNOWN) && e->data[0])) {
            fault(v, s, "a KERNEL event with numbers that it cannot have");
        }
        /* It ends the task. */
        s->task = false;
        s->kernel = b->kernel.known && !b->ended;
        break;
    case BTRAIL_EVENT_WAKE:
        check_form(v, s, e);
        if ((e->reason & BTRAIL_WAKE_UNKNOWN) && e->data[0]) {
            fault(v, s, "a WAKE event names a task that is not known");
        }
        break;
    case BTRAIL_EVENT_CR3:
    case BTRAIL_EVENT_PAUSE:
    case BTRAIL_EVENT_RESUME:
        check_form(v, s, e);
        break;
    default:
        fault(v, s, "an event of the unknown type %u", e->type);
        break;
    }
}

static void check_records(struct verify *v, struct stream *s,
                          const struct btrail_batch *b)
{
    if (b->index != s->index) {
        fault(v, s, "records do not follow those before them");
    }
    if (s->ended && !s->cut) {
        fault(v, s, "records after the END event");
    }
    if (!b->time.host) {
        fault(v, s, "records without a time");
    }
    /* Else the sideband says it, whatever the events do. */
    if (!b->ended) {
        if (s->task && !b->task.known) {
            fault(v, s, "records whose task is no longer named");
        }
        if (s->kernel && !b->kernel.known) {
            fault(v, s, "records whose kernel is no longer named");
        }
        s->task = b->task.known;
        s->kernel = b->kernel.known;
    }
    s->index = b->index + b->count;
    s->recorded = s->index;
    v->result.records += b->count;
}

/* The state of a stream while it is read */
struct check {
    struct verify *verify;
    struct stream stream;
};

static int check_batch(void *opaque, const struct btrail_piece *piece,
                       const struct btrail_batch *b)
{
    struct check *c = opaque;

    if (!b) {
        c->verify->result.damage += piece->bad;
        return 0;
    }
    check_state(c->verify, &c->stream, b);
    if (b->event) {
        check_event(c->verify, &c->stream, b);
    } else {
        check_records(c->verify, &c->stream, b);
    }
    c->stream.begun = true;
    return 0;
}

static int check_stream(struct verify *v, unsigned vcpu)
{
    struct check c = { v, { .vcpu = vcpu } };
    int ret = btrail_parallel_decode(v->trace, &vcpu, 1,
                                     BTRAIL_PARALLEL_ORDERED |
                                     BTRAIL_PARALLEL_CHECK_ONLY, v->threads,
                                     check_batch, &c);

    if (!ret && !c.stream.ended && !v->status.continued) {
        fault(v, &c.stream, "the stream has no END event");
    }
    return ret;
}

static void add_known(GHashTable *known, const GArray *chunks, unsigned file)
{
    for (unsigned i = 0; i < chunks->len; i++) {
        const struct btrail_index_entry *e = btrail_entry(chunks, i);

        if (e->file == file) {
            g_hash_table_add(known, g_memdup2(&e->offset,
                                              sizeof(e->offset)));
        }
    }
}

/* Offsets of the chunks of one file that the index has */
static GHashTable *known_chunks(const struct btrail_trace *trace, unsigned n)
{
    const struct btrail_file *f = btrail_trace_file(trace, n);
    GHashTable *known = g_hash_table_new_full(btrail_int64_hash, g_int64_equal,
                                              g_free, NULL);
    const struct btrail_trace_stream *s;

    for (unsigned i = 0; i < f->metas->len; i++) {
        g_hash_table_add(known, g_memdup2(
            &g_array_index(f->metas, struct btrail_meta, i).offset,
            sizeof(uint64_t)));
    }
    add_known(known, btrail_trace_sidebands(trace), n);
    for (unsigned i = 0; (s = btrail_trace_nth_stream(trace, i)); i++) {
        add_known(known, s->chunks, n);
    }
    return known;
}

static void check_chunk(struct verify *v, const struct btrail_scan_chunk *c,
                        GHashTable *known)
{
    struct btrail_block_header h;

    switch (c->header.type) {
    case BTRAIL_CHUNK_DATA:
        if (btrail_block_header_get(c->start, c->start_len, &h) &&
            !btrail_block_known(&h)) {
            fault(v, NULL, "the chunk at %" PRIu64 " has the unknown codec "
                  "%u; use the version of Backtrail that made it, or a newer "
                  "one", c->offset, h.codec);
        }
        /* fall through */
    case BTRAIL_CHUNK_META:
    case BTRAIL_CHUNK_SIDEBAND:
        if (!g_hash_table_contains(known, &c->offset)) {
            fault(v, NULL, "the chunk at %" PRIu64 " is damaged, or not in "
                  "the index", c->offset);
        }
        break;
    case BTRAIL_CHUNK_INDEX:
    case BTRAIL_CHUNK_END:
        break;
    default:
        fault(v, NULL, "the chunk at %" PRIu64 " is of the unknown type %u",
              c->offset, c->header.type);
        break;
    }
}

/*
 * Checks the frame of a file: it consists of numbered chunks, each of them in
 * the index.  A reader with an index reads only that.
 */
static int check_frame(struct verify *v, unsigned n)
{
    const struct btrail_file *f = btrail_trace_file(v->trace, n);
    g_autoptr(GHashTable) known = known_chunks(v->trace, n);
    struct btrail_scan_chunk chunk;
    struct btrail_scan scan;
    uint64_t sequence = 0;
    int ret;

    if (!f->status.indexed) {
        /* The file was scanned when it was opened. */
        return 0;
    }
    btrail_scan_begin(&scan, f->fd, BTRAIL_FILE_HEADER_SIZE, f->size);
    while (!(ret = btrail_scan_next(&scan, &chunk))) {
        if (chunk.header.sequence != sequence) {
            fault(v, NULL, "the chunk at %" PRIu64 " has number %" PRIu64
                  " and should have %" PRIu64, chunk.offset,
                  chunk.header.sequence, sequence);
        }
        sequence = chunk.header.sequence + 1;
        check_chunk(v, &chunk, known);
    }
    if (scan.skipped || scan.cut) {
        fault(v, NULL, "%" PRIu64 " bytes are not part of a chunk",
              scan.skipped + scan.cut);
    }
    btrail_scan_free(&scan);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static int check_frames(struct verify *v)
{
    unsigned bad_metas;
    int ret = 0;

    for (unsigned i = 0; !ret && i < v->status.files; i++) {
        ret = check_frame(v, i);
    }
    json_object_unref(btrail_meta_read(v->trace, &bad_metas));
    if (bad_metas) {
        fault(v, NULL, "%u pieces of the description are not JSON objects",
              bad_metas);
    }
    return ret;
}

static int check_sideband(struct verify *v)
{
    struct btrail_sideband_info info;
    struct btrail_code_piece code;
    uint64_t known;

    for (unsigned i = 0;; i++) {
        void *data = NULL;
        int ret = btrail_trace_sideband(v->trace, i, &info, &data);

        if (!ret && info.kind == BTRAIL_SIDEBAND_CODE &&
            !btrail_code_piece_get(data, info.size, &code)) {
            ret = -BTRAIL_ERR_CORRUPT;
        }
        if (!ret && info.kind == BTRAIL_SIDEBAND_ENDED &&
            !btrail_kernel_ended_get(&info, data, &known)) {
            fault(v, NULL, "piece %u of the sideband says that a kernel had "
                  "ended before it was seen to run", i);
        }
        free(data);
        if (ret == -BTRAIL_ERR_END) {
            return 0;
        }
        if (ret == -BTRAIL_ERR_CORRUPT) {
            v->result.damage++;
            fault(v, NULL, "piece %u of the sideband is damaged", i);
        } else if (ret) {
            return ret;
        } else if (!btrail_sideband_name(info.kind)) {
            fault(v, NULL, "piece %u of the sideband is of the unknown kind "
                  "%u", i, info.kind);
        }
    }
}

/* Is all there that belongs to the trace, and was none left out? */
static bool is_whole(const struct btrail_trace_status *s)
{
    return s->complete && s->indexed && !s->bad_chunks && !s->missing_chunks &&
           !s->skipped_bytes && !s->missing_parts &&
           (!s->continued || s->first_part);
}

static int check(struct verify *v)
{
    struct btrail_stream_info info;
    int ret = check_frames(v);

    if (!ret) {
        ret = check_sideband(v);
    }
    for (unsigned i = 0; !ret && i < btrail_trace_streams(v->trace); i++) {
        btrail_trace_stream(v->trace, i, &info);
        ret = check_stream(v, info.vcpu);
    }
    return ret;
}

int btrail_verify(const struct btrail_trace *trace, unsigned threads,
                  btrail_fault_fn *fn, void *opaque,
                  struct btrail_verify_result *result)
{
    struct verify v = {
        .trace = trace, .threads = threads, .fn = fn, .opaque = opaque,
    };
    int ret;

    if (!trace || !result || !threads || threads > BTRAIL_MAX_THREADS) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    btrail_trace_status(trace, &v.status);
    ret = check(&v);
    v.result.complete = !ret && !v.result.faults && !v.result.damage &&
                        is_whole(&v.status);
    *result = v.result;
    return ret;
}
