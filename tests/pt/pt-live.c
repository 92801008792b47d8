/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decodes streams of a guest that runs, from files that grow: pt-live
 * qmp=SOCKET out=TRACE clock=FILE RING...
 *
 * The guest must stand still when this begins; it prints a line then.  It ends
 * when its input does, and its last line says, in words and numbers, what came
 * of it.
 *
 * A ring has parts of a stream, and before each two numbers of 64 bits: since
 * when it was executed, and how many bytes it has; or UINT64_MAX: some are
 * missing.
 *
 * The file clock= has three numbers of 64 bits: one that is odd while the
 * others change, for how many nanoseconds the guest has run, and since when it
 * runs by CLOCK_MONOTONIC, or 0.  So the time in which the guest stands still,
 * while its stream is made, does not count.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drain/output.h"
#include "pt/live-trace.h"
#include "pt/stock-memory.h"
#include "pt/vcpu-trace.h"
#include "util/clock.h"

#define RINGS       16
#define PIECE       (1u << 20)
#define IDLE_NS     UINT64_C(20000000)
/* Of the guest's time: packets of a CPU come more often than parts do here. */
#define DECODE_NS   UINT64_C(5000000)
#define TIMEOUT_MS  60000

struct stream {
    struct live_stream *live;
    struct btrail_stream *out;
    GArray *events;             /* of struct btrail_event */
    int fd;
    uint64_t at;                /* in the file */
    uint64_t since;             /* of this part, */
    uint64_t left;              /* of which so many bytes have not come */
    uint64_t bytes;
    uint64_t label;
    bool has_time;
};

static const volatile uint64_t *guest_clock;

static G_GNUC_NORETURN void fail(const char *what, const char *why)
{
    fprintf(stderr, "pt-live: %s: %s\n", what, why);
    exit(1);
}

/* How long the guest has run */
static uint64_t guest_ns(void *opaque)
{
    static uint64_t last;
    uint64_t seq, ran, since, now;

    do {
        seq = guest_clock[0];
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        ran = guest_clock[1];
        since = guest_clock[2];
        now = clock_ns();
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    } while (seq % 2 || seq != guest_clock[0]);
    ran += since && now > since ? now - since : 0;
    last = MAX(last, ran);
    return last;
}

static void add_event(struct stream *s, uint64_t index, unsigned type,
                      unsigned reason, uint64_t data0, uint64_t data1)
{
    const struct btrail_event e = {
        .index = index, .type = type, .reason = reason,
        .data = { data0, data1 },
    };

    g_array_append_val(s->events, e);
}

static void take(struct stream *s, uint64_t index,
                 const struct pt_flow_event *e)
{
    if (e->type == PT_FLOW_CR3) {
        s->label = e->value;
        add_event(s, index, BTRAIL_EVENT_CR3, 0, e->value, 0);
    } else if (e->type == PT_FLOW_GAP) {
        unsigned reason = vcpu_trace_reason(e->gap, false);

        add_event(s, index, BTRAIL_EVENT_GAP, reason, BTRAIL_LOST_UNKNOWN,
                  reason >= BTRAIL_GAP_PT_OVERFLOW ? e->value : 0);
    }
}

static void give(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct stream *s = opaque;
    uint64_t index = btrail_stream_index(s->out);
    struct btrail_slab slab = {
        .first_index = index, .cr3 = s->label,
        .records = records, .n_records = n,
    };

    g_array_set_size(s->events, 0);
    if (!s->has_time) {
        const struct btrail_event e = {
            .index = index, .type = BTRAIL_EVENT_TIME,
            .data = { 1, 0, BTRAIL_NO_ICOUNT },
        };

        g_array_append_val(s->events, e);
        s->has_time = true;
    }
    for (size_t i = 0; i < n_events; i++) {
        take(s, index + events[i].at, &events[i]);
    }
    slab.events = (const struct btrail_event *)s->events->data;
    slab.n_events = s->events->len;
    if (btrail_stream_append(s->out, &slab, BTRAIL_GAP_CORRUPT)) {
        fail("trace", "a slab is not taken");
    }
}

/* Returns how many bytes there are, of @n. */
static size_t read_ring(struct stream *s, void *p, size_t n)
{
    ssize_t some = pread(s->fd, p, n, (off_t)s->at);

    if (some < 0) {
        fail("ring", g_strerror(errno));
    }
    return (size_t)some;
}

/* Returns whether anything has come. */
static bool feed(struct stream *s)
{
    static uint8_t bytes[PIECE];
    uint64_t head[2];
    bool some = false;
    size_t n;

    for (;;) {
        if (!s->left) {
            if (read_ring(s, head, sizeof(head)) < sizeof(head)) {
                break;
            }
            s->at += sizeof(head);
            if (head[1] == UINT64_MAX) {
                live_trace_missing(s->live);
                continue;
            }
            s->since = head[0];
            s->left = head[1];
        }
        n = read_ring(s, bytes, MIN(sizeof(bytes), s->left));
        if (!n) {
            break;
        }
        live_trace_feed(s->live, bytes, n, s->since);
        s->at += n;
        s->left -= n;
        s->bytes += n;
        some = true;
    }
    if (!some) {
        live_trace_feed(s->live, NULL, 0, 0);
    }
    return some;
}

static bool has_ended(void)
{
    struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
    char c;

    return poll(&p, 1, 0) > 0 && read(STDIN_FILENO, &c, 1) <= 0;
}

static void run(struct live_trace *t, struct stream *streams, unsigned n)
{
    uint64_t decoded = clock_ns(), ran = guest_ns(NULL);

    while (!has_ended()) {
        bool some = false;

        for (unsigned i = 0; i < n; i++) {
            some |= feed(&streams[i]);
        }
        if (some || clock_ns() - decoded > IDLE_NS ||
            guest_ns(NULL) - ran > DECODE_NS) {
            ran = guest_ns(NULL);
            live_trace_decode(t);
            decoded = clock_ns();
        } else {
            g_usleep(100);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        feed(&streams[i]);
    }
    live_trace_finish(t);
}

static void map_clock(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED :
              mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED) {
        fail(path, g_strerror(errno));
    }
    guest_clock = p;
}

static struct stock_memory *find_memory(const char *path)
{
    g_autoptr(GError) error = NULL;
    struct qmp *qmp = qmp_connect(path, TIMEOUT_MS, -1, &error);
    struct stock_memory *m = qmp ? stock_memory_open(qmp, 0, -1, TIMEOUT_MS, -1,
                                                     &error) : NULL;

    if (!m) {
        fail(path, error->message);
    }
    qmp_free(qmp);
    return m;
}

static struct output *open_output(const char *path, unsigned n,
                                  struct btrail_store **store)
{
    static const char meta[] =
        "{\"writer\": \"pt-live\", \"producer\": \"pt\"}";
    const struct btrail_store_options o = { .path = path, .replace = true };

    if (btrail_store_open(store, &o) ||
        btrail_store_meta(*store, meta, strlen(meta))) {
        fail(path, g_strerror(errno));
    }
    return output_new(*store, NULL, n + 8);
}

static void report(const struct live_trace *t, uint64_t bytes)
{
    const struct live_trace_count c = live_trace_counted(t);
    const struct live_code_count *k = live_code_counted(live_trace_code(t));
    const struct code_store_count *s = live_code_stored(live_trace_code(t));

    for (unsigned i = PT_GAP_NONE + 1; i < PT_GAPS; i++) {
        printf("%s %" PRIu64 " ", pt_gap_name(i), c.flow.gaps[i]);
    }
    printf("bytes %" PRIu64 " decoded %" PRIu64 " skipped %" PRIu64
           " host %" PRIu64 " records %" PRIu64 " pieces %" PRIu64
           " tried %" PRIu64 " chosen %" PRIu64 " spaces %" PRIu64
           " read %" PRIu64 " asked %" PRIu64 " checked %" PRIu64
           " raced %" PRIu64 " pages %" PRIu64 " changes %" PRIu64
           " evicted %" PRIu64 "\n", bytes, c.flow.decoded, c.flow.skipped,
           c.flow.host, c.flow.records, c.pieces, c.tried, c.chosen, k->spaces,
           k->read, k->asked, k->checked, k->raced, s->pages, s->changes,
           s->evicted);
}

int main(int argc, char **argv)
{
    const char *qmp = NULL, *out = NULL, *clock = NULL;
    struct live_trace_options o = { .code.now = guest_ns };
    struct stream streams[RINGS] = { 0 };
    struct guest_memory *memory;
    struct btrail_store *store;
    struct stock_memory *stock;
    struct output *output;
    struct live_trace *t;
    uint64_t bytes = 0;
    unsigned n = 0;

    for (int i = 1; i < argc; i++) {
        if (g_str_has_prefix(argv[i], "qmp=")) {
            qmp = argv[i] + 4;
        } else if (g_str_has_prefix(argv[i], "out=")) {
            out = argv[i] + 4;
        } else if (g_str_has_prefix(argv[i], "clock=")) {
            clock = argv[i] + 6;
        } else if (n < RINGS) {
            streams[n].fd = open(argv[i], O_RDONLY | O_CLOEXEC);
            if (streams[n++].fd < 0) {
                fail(argv[i], g_strerror(errno));
            }
        }
    }
    if (!qmp || !out || !clock || !n) {
        fail("usage", "qmp=SOCKET out=TRACE clock=FILE RING...");
    }
    map_clock(clock);
    stock = find_memory(qmp);
    memory = guest_memory_open(stock->files);
    o.code.levels = g_array_index(stock->vcpus, struct stock_vcpu, 0).levels;
    t = live_trace_new(memory, &o);
    output = open_output(out, n, &store);
    for (unsigned i = 0; i < n; i++) {
        streams[i].events = g_array_new(FALSE, FALSE,
                                        sizeof(struct btrail_event));
        streams[i].out = btrail_stream_new(i, output_sink(output), false);
        streams[i].live = live_trace_add(t, NULL);
        live_stream_begin(streams[i].live, &(struct live_trace_ops){
            .give = give, .give_opaque = &streams[i],
        });
    }
    printf("ready\n");
    fflush(stdout);
    run(t, streams, n);
    for (unsigned i = 0; i < n; i++) {
        bytes += streams[i].bytes;
        if (btrail_stream_event(streams[i].out, BTRAIL_EVENT_END,
                                BTRAIL_END_STOPPED, clock_ns()) ||
            btrail_stream_flush(streams[i].out)) {
            fail(out, "the stream is not taken");
        }
        btrail_stream_free(streams[i].out);
        g_array_free(streams[i].events, TRUE);
        close(streams[i].fd);
    }
    output_finish(output);
    output_free(output);
    if (btrail_store_close(store, NULL)) {
        fail(out, g_strerror(errno));
    }
    report(t, bytes);
    live_trace_free(t);
    guest_memory_free(memory);
    stock_memory_free(stock);
    return 0;
}
