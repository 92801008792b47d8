/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How fast are streams of Intel PT decoded?
 *
 * pt-bench trace=FILE stream=FILE known=FILE [returns=all|compressed]
 * [bare=1] [libipt=0] [check=1]: of what tests/pt/pt-encode has written.  It
 * measures CPU time of one thread, with blocks that are made of nothing; then,
 * by the clock, what two threads do with two streams, each with a core for
 * itself if nobody else has work.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include "backtrail/trace.h"
#include "pt.h"
#include "pt/flow.h"
#include "pt/packet-scan.h"
#include "pt/trace-code.h"
#include "util/clock.h"

struct place {
    uint64_t offset, index, tsc;
    bool cut, psb;
};

struct range {
    uint64_t begin, end;
};

struct stream {
    struct btrail_trace *trace;
    struct btrail_code *code;
    struct trace_code *provider;
    unsigned vcpu;
    uint64_t first, n;
    GArray *places;
    GArray *determined;
    gchar *bytes;
    gsize size;
    bool check;

    struct btrail_record *truth;
    uint8_t *known;
    uint64_t at, right, wrong, missing, records;
    bool gap;
    unsigned place;
    uint64_t times, times_wrong;

    uint64_t since, base;       /* the record that a flow began with */
    uint64_t since_records;
};

/* PSB+ is shorter. */
#define PSB_BYTES       80
#define AHEAD           100000

static G_GNUC_NORETURN void die(const char *what)
{
    fprintf(stderr, "pt-bench: %s\n", what);
    exit(1);
}

static void read_known(struct stream *s, const char *path)
{
    char word[16];
    uint64_t n[3];
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[200];

    if (!f) {
        die("known=FILE is what pt-encode has written");
    }
    while (fgets(line, sizeof(line), f)) {
        int fields = sscanf(line, "%15s %" SCNu64 " %" SCNu64 " %" SCNu64,
                            word, &n[0], &n[1], &n[2]);

        if (!strcmp(word, "vcpu")) {
            s->vcpu = n[0];
        } else if (!strcmp(word, "records")) {
            s->n = n[0];
        } else if (!strcmp(word, "first")) {
            s->first = n[0];
        } else if (!strcmp(word, "determined")) {
            struct range r = { n[0], n[1] };

            g_array_append_val(s->determined, r);
        } else if (fields == 4) {
            struct place p = {
                n[0], n[1], n[2], !strcmp(word, "cut"), !strcmp(word, "psb"),
            };

            g_array_append_val(s->places, p);
        }
    }
    fclose(f);
}

/* The last place at or before an offset */
static const struct place *place_at(const struct stream *s, uint64_t offset)
{
    unsigned low = 0, high = s->places->len;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (g_array_index(s->places, struct place, middle).offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low ? &g_array_index(s->places, struct place, low - 1) : NULL;
}

static uint64_t index_at(void *opaque, const struct pt_moment *m)
{
    struct stream *s = opaque;

    return s->base + (m->records - m->since_records);
}

/*
 * The first record behind an offset: if that is at no place, the next one that
 * goes to the address where the flow begins is taken for that before it.
 */
static uint64_t base_at(const struct stream *s, uint64_t last, uint64_t offset,
                        uint64_t address)
{
    const struct place *p = place_at(s, offset);

    if (!p) {
        return s->first;
    }
    if (p->psb ? offset - p->offset < PSB_BYTES :
                 s->since == UINT64_MAX || s->since < p->offset) {
        return p->index;
    }
    for (uint64_t i = last; i < MIN(last + AHEAD, s->n); i++) {
        if (s->truth[i].to == address) {
            return s->first + i + 1;
        }
    }
    return p->index;
}

static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *m,
                                     struct pt_code *code)
{
    struct stream *s = opaque;

    if (m->since != s->since) {
        uint64_t last = s->base + (m->since_records - s->since_records);

        s->base = base_at(s, last - s->first, m->since, address);
        s->since = m->since;
        s->since_records = m->since_records;
    }
    return trace_code_read(s->provider, cr3, address, m, code);
}

static int code_at(void *opaque, uint64_t cr3, uint64_t address,
                   uint64_t offset, uint8_t *buf, size_t n)
{
    struct stream *s = opaque;
    const struct place *p = place_at(s, offset);
    struct pt_moment m = { 0 };
    struct pt_code code;

    s->base = p ? p->index : s->first;

    if (trace_code_read(s->provider, cr3, address, &m, &code) !=
        PT_CODE_READ) {
        return 0;
    }
    n = MIN(n, code.size);
    memcpy(buf, code.bytes, n);
    return n;
}

static void load_truth(struct stream *s)
{
    struct btrail_cursor *c;
    struct btrail_batch b;

    s->truth = g_new0(struct btrail_record, s->n);
    s->known = g_malloc0(s->n);
    if (btrail_cursor_open(&c, s->trace, s->vcpu, 0) ||
        btrail_cursor_seek(c, s->first)) {
        die("cannot read the records");
    }
    while (!btrail_cursor_next(c, &b)) {
        for (size_t i = 0; !b.event && i < b.count; i++) {
            uint64_t at = b.index + i - s->first;

            if (at < s->n) {
                s->truth[at] = b.records[i];
            }
        }
        if (b.index >= s->first + s->n) {
            break;
        }
    }
    btrail_cursor_close(c);
    for (unsigned i = 0; i < s->determined->len; i++) {
        struct range r = g_array_index(s->determined, struct range, i);

        for (uint64_t j = r.begin; j < r.end; j++) {
            if (j - s->first < s->n) {
                s->known[j - s->first] = 1;
            }
        }
    }
}

static bool is_record(const struct stream *s, uint64_t at,
                      const struct btrail_record *r)
{
    return s->truth[at].from == r->from && s->truth[at].to == r->to;
}

static void compare(struct stream *s, const struct btrail_record *r)
{
    uint64_t at = s->at;

    while (at < s->n && !is_record(s, at, r) && (s->gap || !s->known[at])) {
        at++;
    }
    if (at < s->n && is_record(s, at, r)) {
        for (uint64_t i = s->at; i < at; i++) {
            s->missing += s->known[i];
        }
        s->right++;
        s->at = at + 1;
    } else if (s->wrong++ < 10) {
        fprintf(stderr, "at %" PRIu64 ": %" PRIx64 " > %" PRIx64
                ", it was %" PRIx64 " > %" PRIx64 "\n", s->first + s->at,
                r->from, r->to, s->truth[s->at].from, s->truth[s->at].to);
    }
    s->gap = false;
}

/* It is between those of the places around it; a cut has none. */
static void check_time(struct stream *s, uint64_t tsc)
{
    const struct place *places = (void *)s->places->data;
    uint64_t index = s->first + s->at;
    unsigned *i = &s->place, end = *i + 1;

    /* At its record, the time can be that before it. */
    while (*i + 1 < s->places->len && places[*i + 1].index < index) {
        ++*i;
    }
    s->times++;
    while (end < s->places->len && places[end].index <= index) {
        end++;
    }
    s->times_wrong += tsc < places[*i].tsc ||
                      (end < s->places->len && places[end].tsc &&
                       tsc > places[end].tsc);
}

static void take(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct stream *s = opaque;
    size_t e = 0;

    s->records += n;
    if (!s->check) {
        return;
    }
    for (size_t i = 0; i <= n; i++) {
        for (; e < n_events && events[e].at == i; e++) {
            if (events[e].type == PT_FLOW_TIME) {
                check_time(s, events[e].value);
            }
            if (events[e].type == PT_FLOW_GAP) {
                const struct place *p = place_at(s, events[e].offset);
                uint64_t at = p && p->index > s->first ? p->index - s->first :
                              0;

                for (s->gap = true; s->at < MIN(at, s->n); s->at++) {
                    s->missing += s->known[s->at];
                }
            }
            if (events[e].type == PT_FLOW_GAP && getenv("PT_SHOW")) {
                fprintf(stderr, "gap %s before %" PRIu64 "\n",
                        pt_gap_name(events[e].gap), s->first + s->at);
            }
        }
        if (i < n) {
            compare(s, &records[i]);
        }
    }
}

static double decode(struct stream *s, const struct pt_flow_options *o)
{
    struct pt_flow *f = pt_flow_new(o, read_code, s, take, s);
    const struct pt_flow_count *c = pt_flow_counted(f);
    const struct linked_blocks_count *b = pt_flow_blocks(f);
    uint64_t begin = clock_cpu_ns(), at = 0, ns;

    s->records = s->since_records = 0;
    s->base = s->first;
    s->since = UINT64_MAX;
    for (unsigned i = 0; i < s->places->len; i++) {
        struct place *p = &g_array_index(s->places, struct place, i);

        if (p->cut) {
            pt_flow_feed(f, (uint8_t *)s->bytes + at, p->offset - at);
            pt_flow_missing(f);
            at = p->offset;
        }
    }
    pt_flow_feed(f, (uint8_t *)s->bytes + at, s->size - at);
    pt_flow_finish(f);
    ns = clock_cpu_ns() - begin;
    printf("records %" PRIu64 " dropped %" PRIu64 " exits %" PRIu64
           " decoded %" PRIu64 " skipped %" PRIu64 " host %" PRIu64
           " of %zu blocks %" PRIu64 " changed %" PRIu64 " flushed %" PRIu64,
           c->records, c->dropped, c->exits, c->decoded, c->skipped, c->host,
           s->size, b->made, b->changed, b->flushed);
    for (unsigned i = 1; i < PT_GAPS; i++) {
        if (c->gaps[i]) {
            printf(" %s %" PRIu64, pt_gap_name(i), c->gaps[i]);
        }
    }
    printf("\n");
    pt_flow_free(f);
    return s->records * 1e3 / ns;
}

/*
 * The streams of two vCPUs, which have a thread each; all have the code of the
 * end, as in the memory of a guest that stands still
 */

#define VCPUS   2
#define ROUNDS  5

static uint64_t last_index(void *opaque, const struct pt_moment *m)
{
    const struct stream *s = opaque;

    return s->first + s->n;
}

struct vcpu {
    const struct stream *s;
    const struct pt_flow_options *o;
    struct btrail_code *code;
    struct trace_code *provider;
    uint64_t records;
};

static void take_vcpu(void *opaque, const struct btrail_record *records,
                      size_t n, const struct pt_flow_event *events,
                      size_t n_events)
{
    struct vcpu *v = opaque;

    v->records += n;
}

static gpointer decode_vcpu(gpointer opaque)
{
    struct vcpu *v = opaque;
    struct pt_flow *f = pt_flow_new(v->o, trace_code_read, v->provider,
                                    take_vcpu, v);

    pt_flow_feed(f, (uint8_t *)v->s->bytes, v->s->size);
    pt_flow_finish(f);
    pt_flow_free(f);
    return NULL;
}

/* By the clock, one after the other or at the same time */
static uint64_t decode_vcpus(struct vcpu *vcpus, bool together)
{
    uint64_t begin = clock_ns();
    GThread *threads[VCPUS];

    for (unsigned i = 0; i < VCPUS; i++) {
        threads[i] = g_thread_new("pt", decode_vcpu, &vcpus[i]);
        if (!together) {
            g_thread_join(threads[i]);
        }
    }
    for (unsigned i = 0; together && i < VCPUS; i++) {
        g_thread_join(threads[i]);
    }
    return clock_ns() - begin;
}

/* How many times as fast two threads are */
static double two_cores(struct stream *s, const struct pt_flow_options *o)
{
    struct vcpu vcpus[VCPUS] = { 0 };
    uint64_t best[2] = { UINT64_MAX, UINT64_MAX };

    for (unsigned i = 0; i < VCPUS; i++) {
        vcpus[i].s = s;
        vcpus[i].o = o;
        if (btrail_code_open(&vcpus[i].code, s->trace)) {
            die("the trace's code cannot be read");
        }
        vcpus[i].provider = trace_code_new(vcpus[i].code, s->vcpu, last_index,
                                           s);
    }
    for (unsigned i = 0; i < ROUNDS * 2; i++) {
        best[i % 2] = MIN(best[i % 2], decode_vcpus(vcpus, i % 2));
    }
    for (unsigned i = 0; i < VCPUS; i++) {
        trace_code_free(vcpus[i].provider);
        btrail_code_close(vcpus[i].code);
    }
    return (double)best[0] / best[1];
}

/*
 * The look through a stream, as live-trace.c does it, in pieces that are what
 * comes in some milliseconds
 */

#define SCANNED (UINT64_C(1) << 28)
#define AT_ONCE (128u << 10)

struct seen {
    uint64_t n, hash;
};

static void see(void *opaque, const struct pt_packet *packet, uint64_t offset)
{
    struct seen *seen = opaque;

    seen->n++;
    seen->hash = (seen->hash ^ (offset << 8 | packet->type)) *
                 UINT64_C(0x9e3779b97f4a7c15);
}

/* The same, one packet after the other */
static struct seen see_each(const struct stream *s)
{
    const uint8_t *p = (uint8_t *)s->bytes;
    struct seen seen = { 0 };
    bool in_step = false;
    unsigned items = 0;
    size_t i = 0;

    while (i < s->size) {
        struct pt_packet packet;
        int size;

        i += in_step ? 0 : pt_packet_find_psb(p + i, s->size - i);
        size = pt_packet_read(p + i, s->size - i, items, &packet);
        if (!size) {
            break;
        }
        in_step = size > 0;
        items = in_step && packet.type == PT_PACKET_BBP ? packet.form :
                !in_step || packet.type == PT_PACKET_PSB ||
                packet.type == PT_PACKET_BEP ? 0 : items;
        if (packet.type == PT_PACKET_PSB || packet.type == PT_PACKET_PIP) {
            see(&seen, &packet, i);
        }
        i += MAX(size, 1);
    }
    return seen;
}

static struct seen scan_stream(const struct stream *s, uint64_t *ns)
{
    struct packet_scan scan = { .in_step = false };
    uint64_t begin = clock_cpu_ns();
    struct seen seen = { 0 };

    for (size_t i = 0; i < s->size; i += AT_ONCE) {
        packet_scan_feed(&scan, (uint8_t *)s->bytes + i,
                         MIN(s->size - i, AT_ONCE), see, &seen);
    }
    *ns = MIN(*ns, clock_cpu_ns() - begin);
    return seen;
}

/* Bytes a nanosecond; 0 if it does not see what is there */
static double scan(const struct stream *s)
{
    struct seen expected = see_each(s);
    uint64_t ns = UINT64_MAX;

    for (uint64_t bytes = 0, i = 0; bytes < SCANNED || i < ROUNDS; i++) {
        struct seen seen = scan_stream(s, &ns);

        if (seen.n != expected.n || seen.hash != expected.hash) {
            printf("the scan sees something else\n");
            return 0;
        }
        bytes += s->size;
    }
    printf("saw %" PRIu64 " PSBs and PIPs in %zu bytes\n", expected.n,
           s->size);
    return (double)s->size / ns;
}

/* How fast a PSB is found where there are few */
static double find_psbs(const struct stream *s)
{
    uint64_t begin = clock_cpu_ns(), bytes = 0, psbs = 0;

    while (bytes < UINT64_C(1) << 30) {
        for (size_t i = 0; i < s->size; i += PT_PACKET_MAX) {
            i += pt_packet_find_psb((uint8_t *)s->bytes + i, s->size - i);
            psbs++;
        }
        bytes += s->size;
    }
    printf("found %" PRIu64 " PSBs in %" PRIu64 " bytes\n", psbs, bytes);
    return (double)bytes / (clock_cpu_ns() - begin);
}

static const char *argument(char **argv, const char *name, const char *other)
{
    for (size_t n = strlen(name); *argv; argv++) {
        if (!strncmp(*argv, name, n) && (*argv)[n] == '=') {
            return *argv + n + 1;
        }
    }
    return other;
}

int main(int argc, char **argv)
{
    struct stream s = {
        .places = g_array_new(FALSE, FALSE, sizeof(struct place)),
        .determined = g_array_new(FALSE, FALSE, sizeof(struct range)),
    };
    const char *returns = argument(argv, "returns", ""),
               *stream = argument(argv, "stream", NULL),
               *trace = argument(argv, "trace", NULL);
    struct pt_flow_options o = {
        .returns = *returns, .keep_returns = !strcmp(returns, "compressed"),
        .trust_overflow = true, .linear = true,
        .tsc_per_ctc = { 125, 1 }, .mtc_shift = 3, .bus_ratio = 30,
        .bare = argument(argv, "bare", NULL),
    };
    double mrps = 0, libipt = 0, ratio, psbs;

    read_known(&s, argument(argv, "known", NULL));
    if (!stream || !g_file_get_contents(stream, &s.bytes, &s.size, NULL) ||
        !trace || btrail_trace_open_parts(&s.trace, trace) ||
        btrail_code_open(&s.code, s.trace)) {
        die("trace=FILE and stream=FILE cannot be read");
    }
    load_truth(&s);
    s.provider = trace_code_new(s.code, s.vcpu, index_at, &s);
    s.check = argument(argv, "check", NULL);
    if (s.check) {
        s.gap = true;
        decode(&s, &o);
        for (uint64_t i = s.at; i < s.n; i++) {
            s.missing += s.known[i];
        }
        printf("right %" PRIu64 " wrong %" PRIu64 " missing %" PRIu64
               " times %" PRIu64 " wrong %" PRIu64 "\n", s.right, s.wrong,
               s.missing, s.times, s.times_wrong);
        s.check = false;
    } else {
        for (unsigned i = 0; i < 3; i++) {
            double now = decode(&s, &o);

            mrps = MAX(mrps, now);
        }
#ifdef HAVE_LIBIPT
        if (atoi(argument(argv, "libipt", "1"))) {
            uint64_t errors, begin = clock_cpu_ns(),
                     blocks = pt_bench_libipt((uint8_t *)s.bytes, s.size,
                                              code_at, &s, &errors);

            libipt = s.records * 1e3 / (clock_cpu_ns() - begin);
            printf("libipt: %" PRIu64 " blocks, %" PRIu64 " errors, %.2f M "
                   "records a second\n", blocks, errors, libipt);
        }
#else
        (void)code_at;
#endif
        ratio = two_cores(&s, &o);
        psbs = find_psbs(&s);
        printf("decode_mrps=%.1f vs_libipt=%.1f scan_gbps=%.2f psb_gbps=%.1f "
               "two_cores=%.2f\n", mrps, libipt ? mrps / libipt : 0, scan(&s),
               psbs, ratio);
    }
    trace_code_free(s.provider);
    btrail_code_close(s.code);
    btrail_trace_close(s.trace);
    return s.wrong != 0;
}
