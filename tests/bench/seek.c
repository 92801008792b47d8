/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * seek-bench: how long it takes to go to any place of a huge trace
 *
 * usage: seek-bench seek RAW FILE RECORDS CHUNK PLACES
 *        seek-bench write RAW FILE RECORDS CHUNK PROCESSES
 *        seek-bench tasks RAW FILE RECORDS CHUNK TURN
 *        seek-bench size RAW CHUNK
 *
 * RAW is a raw trace (raw.h).  The first form writes FILE, with this many
 * records, of chunks that are as large as the agent makes them, but have at
 * most CHUNK records: those of the first stream of
 * RAW over and over again, with indices and times that go on.  It then goes to
 * PLACES random ones of each kind.  What is found there is compared with RAW.
 * The second form only writes FILE; each chunk is made by the next one of
 * PROCESSES processes, whose CR3s are 0x1000, 0x2000 and so on.
 * The third one, too; in it, the next one of TASKS tasks runs after each TURN
 * records: it is woken right before, and the one before is blocked.
 * The last form prints how large the chunks are.
 *
 * Prints a JSON object.  Times are in seconds, of the wall clock unless their
 * name has "cpu"; at each place the best of some tries.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/internal/crc32c.h"
#include "raw.h"
#include "lib/agent/store.h"

#define TRIES       5
#define MAX_PIECES  64

/* Of the form "tasks" */
#define TASKS       8
#define PID         100

/* No address space of a guest: page tables are not up there. */
#define RARE        0x000ffffffff00000ull
#define ABSENT      0x000ffffffff01000ull

/* A chunk as it was made of the raw trace */
struct piece {
    size_t start;               /* its first record there */
    uint32_t records;
    struct btrail_buf payload;
};

/* A chunk of the file */
struct place {
    const struct piece *piece;
    uint64_t first_index;
    uint64_t first_time;
};

static G_GNUC_NORETURN void die(const char *what)
{
    fprintf(stderr, "seek-bench: %s\n", what);
    exit(1);
}

static double clock_now(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

static double now(void)
{
    return clock_now(CLOCK_MONOTONIC);
}

/* What is in force before record number @start */
static size_t state_at(const struct raw_stream *raw, size_t start,
                       uint64_t *cr3, struct btrail_time *time)
{
    size_t e;

    *cr3 = 0;
    *time = (struct btrail_time) { .icount = BTRAIL_NO_ICOUNT };
    for (e = 0; e < raw->n_events && raw->events[e].index < start; e++) {
        const struct btrail_event *event = &raw->events[e];

        if (event->type == BTRAIL_EVENT_CR3) {
            *cr3 = event->data[0];
        } else if (event->type == BTRAIL_EVENT_TIME) {
            *time = (struct btrail_time) {
                event->data[0], event->data[1], event->data[2],
            };
        }
    }
    return e;
}

static void add_records(struct btrail_encoder *encoder,
                        struct btrail_block *block,
                        const struct raw_stream *raw, size_t *at, size_t end)
{
    while (*at < end) {
        size_t room = MIN(btrail_encoder_room(encoder),
                          btrail_block_room(block));
        size_t n = MIN(end - *at, room);

        if (!n) {
            return;
        }
        btrail_encoder_records(encoder, raw->records + *at, n);
        btrail_block_add_records(block, n);
        *at += n;
    }
}

/* Records of each task by turns; 0: none is named */
static size_t task_turn;

static struct btrail_event task_event(uint16_t type, uint16_t reason,
                                      size_t index)
{
    uint32_t tid = PID + index / task_turn % TASKS;

    return (struct btrail_event) {
        .index = index, .type = type, .reason = reason,
        .data = { (uint64_t)tid << 32 | tid, 0x6b736174 /* "task" */ },
    };
}

/* Replaces the events by those that say which tasks run, and TIME events. */
static void name_tasks(struct raw_stream *raw, size_t turn)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    size_t e = 0;

    task_turn = turn;
    for (size_t at = turn; at < raw->n_records; at += turn) {
        struct btrail_event event = task_event(
            BTRAIL_EVENT_TASK, BTRAIL_TASK_LEFT_BLOCKED, at);
        struct btrail_event wake = task_event(BTRAIL_EVENT_WAKE, 0, at);

        wake.index = at - turn / 100;
        wake.data[1] = 0;
        for (; e < raw->n_events && raw->events[e].index <= at; e++) {
            if (wake.type && raw->events[e].index > wake.index) {
                g_array_append_val(all, wake);
                wake.type = 0;
            }
            if (raw->events[e].type == BTRAIL_EVENT_TIME) {
                g_array_append_val(all, raw->events[e]);
            }
        }
        if (wake.type) {
            g_array_append_val(all, wake);
        }
        g_array_append_val(all, event);
    }
    raw->n_events = all->len;
    raw->events = (struct btrail_event *)g_array_free(all, FALSE);
}

/* Make a chunk of the records from @start on; with @rare, one that has RARE. */
static void make_piece(struct btrail_encoder *encoder,
                       struct btrail_packer *packer,
                       struct btrail_block *block,
                       const struct raw_stream *raw, size_t start,
                       size_t chunk, bool rare, bool one_space,
                       struct piece *piece)
{
    size_t end = MIN(start + chunk, raw->n_records), at = start, e;
    struct btrail_time time;
    uint64_t cr3;

    e = state_at(raw, start, &cr3, &time);
    btrail_block_begin(block, 0, start, cr3, &time);
    btrail_encoder_begin(encoder, block->streams, &block->footprint);
    if (task_turn) {
        struct btrail_event event = task_event(BTRAIL_EVENT_TASK, 0, start);

        btrail_block_add_event(block, &event);
    }
    for (; e < raw->n_events && raw->events[e].index < end; e++) {
        struct btrail_event event = raw->events[e];

        if ((event.type != BTRAIL_EVENT_CR3 || one_space) &&
            event.type != BTRAIL_EVENT_TIME && !task_turn) {
            continue;
        }
        add_records(encoder, block, raw, &at, event.index);
        /* What lies where a chunk ends is for the next one. */
        if (at < event.index || !btrail_block_room(block) ||
            block->header.events == BTRAIL_BLOCK_MAX_EVENTS) {
            end = at;
            break;
        }
        if (rare && event.type == BTRAIL_EVENT_CR3 && at > start) {
            event.data[0] = RARE;
            rare = false;
        }
        btrail_block_add_event(block, &event);
    }
    add_records(encoder, block, raw, &at, end);
    btrail_encoder_end(encoder);
    piece->start = start;
    piece->records = block->header.records;
    btrail_packer_pack(packer, block, &piece->payload);
}

/*
 * Chunks of all of the raw trace, or of the first MAX_PIECES; and at the end
 * one with RARE.  With @one_space, no chunk switches to another address space.
 */
static GArray *make_pieces(const struct raw_stream *raw, size_t chunk,
                           bool all, bool one_space)
{
    struct btrail_encoder *encoder = btrail_encoder_new();
    struct btrail_packer *packer = btrail_packer_new();
    struct btrail_block *block = btrail_block_new();
    GArray *pieces = g_array_new(FALSE, TRUE, sizeof(struct piece));
    /* One with no time in force at its start could not be moved. */
    size_t first = all ? 0 : 1, at = first;

    while (at < raw->n_records && (all || pieces->len < MAX_PIECES)) {
        struct piece piece = { 0 };

        make_piece(encoder, packer, block, raw, at, chunk, false, one_space,
                   &piece);
        at += piece.records;
        g_array_append_val(pieces, piece);
    }
    if (!all) {
        struct piece piece = { 0 };

        make_piece(encoder, packer, block, raw, first, chunk, true, one_space,
                   &piece);
        g_array_append_val(pieces, piece);
    }
    btrail_block_free(block);
    btrail_packer_free(packer);
    btrail_encoder_free(encoder);
    return pieces;
}

/*
 * Have a chunk begin at this index and time, and with this CR3 if that is not
 * 0; returns when it ends.
 */
static uint64_t move(uint8_t *p, uint64_t index, uint32_t records,
                     uint64_t time, uint64_t cr3)
{
    uint32_t roots = btrail_cr3set_listed(btrail_get32(p + 80));
    uint64_t shift = time - btrail_get64(p + 56);

    btrail_put64(p + 8, index);
    btrail_put64(p + 16, index + records);
    if (cr3) {
        btrail_put64(p + 24, cr3);
    }
    if (btrail_get64(p + 32)) {
        btrail_put64(p + 32, btrail_get64(p + 32) + shift);
    }
    btrail_put64(p + 56, btrail_get64(p + 56) + shift);
    btrail_put64(p + 64, btrail_get64(p + 64) + shift);
    btrail_put32(p + 84, btrail_crc32c(
        btrail_crc32c(0, p, 84), p + BTRAIL_BLOCK_HEADER_SIZE,
        (size_t)roots * BTRAIL_BLOCK_ROOT_SIZE));
    return btrail_get64(p + 64);
}

static GArray *write_file(const char *path, GArray *pieces, uint64_t records,
                          uint64_t processes)
{
    struct btrail_store_options options = {
        .path = path, .replace = true, .sync = BTRAIL_SYNC_NONE,
    };
    GArray *places = g_array_new(FALSE, FALSE, sizeof(struct place));
    struct btrail_store *store;
    uint64_t index = 0, time = 1000000000, number = 0;
    unsigned usual = pieces->len - 1;

    if (btrail_store_open(&store, &options)) {
        die(g_strerror(errno));
    }
    while (index < records) {
        struct piece *piece;
        struct btrail_block_header h;
        struct place place;

        piece = &g_array_index(pieces, struct piece, number % usual);
        /* The rare one is in the middle. */
        if (index <= records / 2 && index + piece->records > records / 2) {
            piece = &g_array_index(pieces, struct piece, usual);
        }
        place = (struct place) { piece, index, time };
        g_array_append_val(places, place);
        time = move(piece->payload.data, index, piece->records, time,
                    processes ? (1 + number % processes) << 12 : 0);
        if (!btrail_block_header_get(piece->payload.data, piece->payload.len,
                                     &h) ||
            btrail_store_data(store, piece->payload.data, piece->payload.len,
                              &h)) {
            die("cannot write the file");
        }
        index += piece->records;
        number++;
    }
    if (btrail_store_close(store, NULL)) {
        die(g_strerror(errno));
    }
    return places;
}

/* Times of many seeks */
struct times {
    const char *name;
    GArray *list;               /* of double, in seconds */
    double worst_cpu;           /* CPU time */
};

static gint compare_doubles(gconstpointer a, gconstpointer b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_times(struct times *t)
{
    g_array_sort(t->list, compare_doubles);
    printf(", \"%s\": {\"median_s\": %.6f, \"worst_s\": %.6f, "
           "\"worst_cpu_s\": %.6f}", t->name,
           g_array_index(t->list, double, t->list->len / 2),
           g_array_index(t->list, double, t->list->len - 1), t->worst_cpu);
    g_array_free(t->list, TRUE);
}

enum kind { INDEX, LAST, TIME, CR3, CR3_BACK, CR3_RARE, CR3_ABSENT, KINDS };

static const char *const names[] = {
    "index", "last", "time", "cr3", "cr3_back", "cr3_rare", "cr3_absent",
};

struct bench {
    const struct raw_stream *raw;
    GArray *places;
    GArray *spaces;             /* of uint64_t */
    uint64_t records;
    uint64_t first_time, last_time;
};

/* The chunk that a record is in */
static const struct place *find_place(const struct bench *b, uint64_t index)
{
    unsigned low = 0, high = b->places->len;

    while (high - low > 1) {
        unsigned middle = (low + high) / 2;

        if (g_array_index(b->places, struct place, middle).first_index <=
            index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &g_array_index(b->places, struct place, low);
}

static uint64_t random_u64(uint64_t below)
{
    return ((uint64_t)g_random_int() << 32 | g_random_int()) % below;
}

/* The next records, from wherever the cursor is */
static void want_records(struct btrail_cursor *cursor,
                         struct btrail_batch *batch)
{
    do {
        if (btrail_cursor_next(cursor, batch)) {
            die("there is nothing at that place");
        }
    } while (!batch->count);
}

static void check_record(const struct bench *b,
                         const struct btrail_batch *batch)
{
    const struct place *p = find_place(b, batch->index);
    const struct btrail_record *want =
        &b->raw->records[p->piece->start + (batch->index - p->first_index)];

    if (memcmp(batch->records, want, sizeof(*want))) {
        die("this is not the record that should be there");
    }
}

static void seek(const struct bench *b, struct btrail_cursor *cursor,
                 enum kind kind, uint64_t where)
{
    uint64_t space = g_array_index(b->spaces, uint64_t,
                                   where % b->spaces->len);
    unsigned flags = kind == CR3_BACK ? BTRAIL_SEEK_PREVIOUS : 0;
    struct btrail_batch batch;
    int ret = 0;

    switch (kind) {
    case INDEX:
    case LAST:
        ret = btrail_cursor_seek(cursor, where);
        want_records(cursor, &batch);
        if (batch.index != where) {
            die("this is another place");
        }
        break;
    case TIME:
        ret = btrail_cursor_seek_time(cursor, where);
        want_records(cursor, &batch);
        if (batch.time.host < where) {
            die("this is before the time");
        }
        break;
    case CR3_RARE:
        space = RARE;
        where = 0;
        /* fall through */
    case CR3:
    case CR3_BACK:
        ret = btrail_cursor_seek_cr3(cursor, space, where, flags);
        if (ret == -BTRAIL_ERR_END) {
            return;
        }
        want_records(cursor, &batch);
        if (btrail_cr3_root(batch.cr3) != btrail_cr3_root(space)) {
            die("this is another address space");
        }
        break;
    default:
        ret = btrail_cursor_seek_cr3(cursor, ABSENT, 0, 0);
        if (ret != -BTRAIL_ERR_END) {
            die("an address space that is not there was found");
        }
        return;
    }
    if (ret) {
        die(btrail_strerror(ret));
    }
    check_record(b, &batch);
}

static uint64_t random_place(const struct bench *b, enum kind kind)
{
    const struct place *p;

    switch (kind) {
    case LAST:
        p = &g_array_index(b->places, struct place,
                           random_u64(b->places->len));
        return p->first_index + p->piece->records - 1;
    case TIME:
        return b->first_time + random_u64(b->last_time - b->first_time);
    default:
        return random_u64(b->records);
    }
}

static void bench_kind(const struct bench *b, struct btrail_cursor *cursor,
                       enum kind kind, unsigned places, int cold_fd)
{
    struct times t = {
        names[kind], g_array_new(FALSE, FALSE, sizeof(double)),
    };
    g_autofree char *name = NULL;
    unsigned i, k;

    if (cold_fd >= 0) {
        t.name = name = g_strconcat(names[kind], "_cold", NULL);
    }
    for (i = 0; i < places; i++) {
        uint64_t where = random_place(b, kind);
        double best = G_MAXDOUBLE, best_cpu = G_MAXDOUBLE;

        for (k = 0; k < TRIES; k++) {
            double start, cpu;

            if (cold_fd >= 0) {
                posix_fadvise(cold_fd, 0, 0, POSIX_FADV_DONTNEED);
            }
            start = now();
            cpu = clock_now(CLOCK_THREAD_CPUTIME_ID);
            seek(b, cursor, kind, where);
            cpu = clock_now(CLOCK_THREAD_CPUTIME_ID) - cpu;
            best_cpu = MIN(best_cpu, cpu);
            best = MIN(best, now() - start);
        }
        t.worst_cpu = MAX(t.worst_cpu, best_cpu);
        g_array_append_val(t.list, best);
    }
    print_times(&t);
}

/* What the raw trace switches to */
static void find_spaces(struct bench *b)
{
    size_t e;
    unsigned i;

    b->spaces = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (e = 0; e < b->raw->n_events; e++) {
        uint64_t space = b->raw->events[e].data[0];

        if (b->raw->events[e].type != BTRAIL_EVENT_CR3) {
            continue;
        }
        for (i = 0; i < b->spaces->len; i++) {
            if (g_array_index(b->spaces, uint64_t, i) == space) {
                break;
            }
        }
        if (i == b->spaces->len) {
            g_array_append_val(b->spaces, space);
        }
    }
    if (!b->spaces->len) {
        die("the raw trace has no address spaces");
    }
}

static void bench_seek(const struct raw_stream *raw, const char *path,
                       uint64_t records, size_t chunk, unsigned places)
{
    GArray *pieces = make_pieces(raw, chunk, false, false);
    struct bench b = { .raw = raw };
    struct btrail_trace_status status;
    struct btrail_stream_info info;
    struct btrail_cursor *cursor;
    struct btrail_trace *trace;
    double start = now(), written, best = G_MAXDOUBLE;
    unsigned i;
    int fd;

    b.places = write_file(path, pieces, records, 0);
    find_spaces(&b);
    written = now() - start;
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fdatasync(fd) < 0) {
        die(g_strerror(errno));
    }
    for (i = 0; i < TRIES; i++) {
        start = now();
        if (btrail_trace_open(&trace, path)) {
            die("the file cannot be opened");
        }
        best = MIN(best, now() - start);
        if (i < TRIES - 1) {
            btrail_trace_close(trace);
        }
    }
    btrail_trace_status(trace, &status);
    btrail_trace_stream(trace, 0, &info);
    b.records = info.records;
    b.first_time = info.first_time;
    b.last_time = info.last_time;
    if (!status.indexed || b.records < records ||
        btrail_cursor_open(&cursor, trace, 0, 0)) {
        die("the file is not what was written");
    }
    printf("{\"records\": %" PRIu64 ", \"chunk\": %zu, \"chunks\": %" PRIu64
           ", \"bytes\": %" PRIu64 ", \"address_spaces\": %u, "
           "\"write_s\": %.3f, \"open_s\": %.6f", b.records, chunk,
           info.chunks, status.file_size, b.spaces->len, written, best);
    for (i = 0; i < KINDS; i++) {
        bench_kind(&b, cursor, i, i < CR3_RARE ? places : 3, -1);
    }
    for (i = 0; i < CR3_BACK; i++) {
        bench_kind(&b, cursor, i, MIN(places, 20), fd);
    }
    printf("}\n");
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
    close(fd);
}

static void bench_size(GArray *streams, size_t chunk)
{
    uint64_t records = 0, bytes = 0;
    unsigned i, k, chunks = 0;

    for (i = 0; i < streams->len; i++) {
        GArray *pieces = make_pieces(
            &g_array_index(streams, struct raw_stream, i), chunk, true, false);

        for (k = 0; k < pieces->len; k++) {
            struct piece *p = &g_array_index(pieces, struct piece, k);

            records += p->records;
            bytes += BTRAIL_CHUNK_HEADER_SIZE + p->payload.len;
            btrail_buf_free(&p->payload);
        }
        chunks += pieces->len;
        g_array_free(pieces, TRUE);
    }
    printf("{\"records\": %" PRIu64 ", \"chunk\": %zu, \"chunks\": %u, "
           "\"bytes\": %" PRIu64 "}\n", records, chunk, chunks, bytes);
}

int main(int argc, char **argv)
{
    bool seeks = argc == 7 && !strcmp(argv[1], "seek");
    bool writes = argc == 7 && !strcmp(argv[1], "write");
    bool by_tasks = argc == 7 && !strcmp(argv[1], "tasks");
    struct raw_stream *first;
    size_t chunk;
    GArray *streams;

    if (!seeks && !writes && !by_tasks && (argc != 4 || strcmp(argv[1], "size"))) {
        fprintf(stderr, "usage: seek-bench seek RAW FILE RECORDS CHUNK PLACES\n"
                "       seek-bench write RAW FILE RECORDS CHUNK PROCESSES\n"
                "       seek-bench tasks RAW FILE RECORDS CHUNK TURN\n"
                "       seek-bench size RAW CHUNK\n");
        return 2;
    }
    chunk = strtoull(argv[argc == 7 ? 5 : 3], NULL, 10);
    if (!chunk || chunk > BTRAIL_BLOCK_MAX_RECORDS) {
        die("a chunk of that many records cannot be");
    }
    streams = raw_load(argv[2]);
    if (!streams || !streams->len) {
        return 1;
    }
    first = &g_array_index(streams, struct raw_stream, 0);
    if (seeks) {
        bench_seek(first, argv[3], strtoull(argv[4], NULL, 10), chunk,
                   strtoull(argv[6], NULL, 10));
    } else if (by_tasks) {
        name_tasks(first, MAX(strtoull(argv[6], NULL, 10), 100));
        write_file(argv[3], make_pieces(first, chunk, false, true),
                   strtoull(argv[4], NULL, 10), 1);
    } else if (writes) {
        write_file(argv[3], make_pieces(first, chunk, false, true),
                   strtoull(argv[4], NULL, 10),
                   strtoull(argv[6], NULL, 10));
    } else {
        bench_size(streams, chunk);
    }
    return 0;
}
