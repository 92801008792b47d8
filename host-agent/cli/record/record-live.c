/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record --live: a trace of rings of Intel PT that are read while
 * they fill, and of a guest that runs; see record.h
 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "backtrail/words.h"
#include "cli/cli.h"
#include "cli/pt-share.h"
#include "cli/record/pt-guest.h"
#include "cli/record/record.h"
#include "drain/session-description.h"
#include "pt/aux-ring.h"
#include "pt/frozen-names.h"
#include "pt/frozen-trace.h"
#include "pt/live-trace.h"
#include "pt/pt-clock.h"
#include "pt/pt-host.h"
#include "pt/pt-open.h"
#include "pt/stock-memory.h"
#include "util/agent-error.h"
#include "util/clock.h"
#include "util/close.h"
#include "util/deadline.h"
#include "util/json.h"

#define QMP_TIMEOUT_MS  10000
/* How often it is looked for bytes when there are none */
#define LOOK_MS         1
/* Between two times that all code that is known is read again */
#define DECODE_NS       UINT64_C(2000000)
#define IDLE_NS         UINT64_C(20000000)
/* How often it is asked what the guest does: events, and libvirt */
#define NEWS_NS         UINT64_C(10000000)
#define DOMAIN_NEWS_NS  UINT64_C(100000000)
#define PROGRESS_NS     UINT64_C(1000000000)
#define CLOCK_NS        UINT64_C(1000000000)
/* So much is lost if this process is killed. */
#define FLUSH_NS        UINT64_C(1000000000)
/* A guest that stands still writes nothing for so long: all has come. */
#define SETTLE_US       2000
#define SETTLES         500

struct live_recording;

struct live_vcpu {
    struct live_recording *r;
    struct aux_ring ring;
    struct live_stream *stream;
    struct vcpu_trace *trace;
};

struct live_recording {
    const struct record_request *options;
    struct pt_guest guest;
    int given_memory;           /* of backtrail-pt-open, or -1 */
    struct stock_memory *stock;
    struct guest_memory *memory;
    struct live_trace_options decoding;
    struct frozen_options described;
    struct vcpu_trace_clock clock;
    uint64_t numbers;           /* more than those of all vCPUs */
    struct pt_clock *host_clock;    /* of events; NULL if it is not known */
    unsigned n;
    struct live_vcpu *vcpus;
    struct pt_event *events;    /* NULL: the rings are files */
    struct live_trace *live;
    struct btrail_store *store;
    struct output *output;
    struct frozen_pages *pages;
    struct frozen_names *names;
    struct scanner_result found;
    bool lossless;
    bool goes_on;               /* the guest was stopped here */
    bool ended;                 /* it is gone */
    uint64_t began;
    uint64_t pauses, paused_ns; /* that were made here */
    int code;
};

static void let_go_on(struct live_recording *r)
{
    if (r->goes_on) {
        r->goes_on = false;
        pt_guest_go_on(&r->guest);
    }
}

/*
 * The guest, which stands still for a moment: for where its memory is, and
 * until its events are open
 */

static bool open_rings(struct live_recording *r)
{
    char **files = r->options->pt_rings;
    g_autoptr(GError) error = NULL;

    if (!pt_guest_open(&r->guest, r->options->guest.connect,
                       r->options->domain, r->options->guest.qmp, true, true,
                       r->options->signal_fd)) {
        return false;
    }
    r->n = files ? g_strv_length(files) : r->guest.n;
    if (r->n > r->guest.n) {
        cli_error("--pt-ring: %u rings for %u vCPUs", r->n, r->guest.n);
        return false;
    }
    r->vcpus = g_new0(struct live_vcpu, r->n);
    for (unsigned i = 0; files && i < r->n; i++) {
        if (!aux_ring_from_file(&r->vcpus[i].ring, files[i], clock_ns(),
                                &error)) {
            cli_error("--pt-ring: %s", error->message);
            return false;
        }
    }
    return true;
}

static bool open_events(struct live_recording *r)
{
    const struct pt_event_options options = { .live = true };
    struct pt_flow_options *flow = &r->decoding.flow;
    struct pt_host *host = pt_host_read("");
    g_autoptr(GError) error = NULL;
    struct pt_event_setup setup;
    bool ok = pt_event_prepare(host, &options, &setup, &error);

    if (ok) {
        pt_guest_flow(host, &setup, flow);
        r->described.mtc = setup.mtc;
        r->described.cyc = setup.cyc;
    }
    pt_host_free(host);
    r->events = g_new(struct pt_event, r->n);
    for (unsigned i = 0; i < r->n; i++) {
        r->events[i] = PT_EVENT_NONE;
    }
    ok = ok && pt_open(NULL, r->guest.pid, r->guest.threads, r->n, &setup,
                       r->options->pt_size, r->events, &r->given_memory,
                       &error);
    for (unsigned i = 0; ok && i < r->n; i++) {
        struct pt_event *e = &r->events[i];

        ok = aux_ring_init(&r->vcpus[i].ring, e->page, e->base_size, e->aux,
                           e->aux_size, clock_ns()) ||
             agent_fail(&error, AGENT_ERROR_SYSTEM, "the kernel says nothing "
                        "that makes sense of its ring");
    }
    if (!ok) {
        cli_error("%s", error->message);
    }
    return ok;
}

static bool open_memory(struct live_recording *r)
{
    g_autoptr(GError) error = NULL;

    r->stock = stock_memory_open(r->guest.qmp, r->guest.pid, r->given_memory,
                                 QMP_TIMEOUT_MS, r->options->signal_fd,
                                 &error);
    if (!r->stock ||
        !stock_memory_levels(r->stock, &r->decoding.code.levels, &error)) {
        cli_error("%s", error->message);
        return false;
    }
    r->decoding.flow.modes = r->decoding.code.levels < 4;
    r->memory = guest_memory_open(r->stock->files);
    return true;
}

/* What was done here is no news. */
static void forget_news(struct live_recording *r)
{
    enum pt_guest_news news;
    bool runs = true;

    do {
        news = pt_guest_news(&r->guest);
        if (news == PT_GUEST_ENDED) {
            r->ended = true;
            return;
        }
    } while (news != PT_GUEST_NOTHING);
    r->guest.stood = pt_guest_runs(&r->guest, -1, &runs) && !runs;
}

static bool open_guest(struct live_recording *r)
{
    bool runs, ok;

    if (!open_rings(r) ||
        !pt_guest_runs(&r->guest, r->options->signal_fd, &runs)) {
        return false;
    }
    if (runs) {
        if (!pt_guest_stop(&r->guest)) {
            return false;
        }
        r->goes_on = true;
    }
    ok = (r->options->pt_rings || open_events(r)) && open_memory(r);
    if (!ok) {
        let_go_on(r);
    }
    return ok;
}

/*
 * Times
 */

/* By the host's TSC now: what the kernel says of its frequency holds only for
 * a short time, as CLOCK_MONOTONIC is slewed. */
static void set_clock(struct live_recording *r)
{
    struct pt_clock *c = r->host_clock;
    struct host_tsc now;
    uint64_t said;

    if (!c) {
        return;
    }
    said = host_tsc_said(r->events[0].page);
    r->clock.hz = said && host_tsc_now(&now) ? kvm_tsc_hz(&c->kvm[0], said) : 0;
    if (!r->clock.hz) {
        return;
    }
    r->clock.tsc = kvm_tsc_at(&c->kvm[0], now.tsc);
    r->clock.ns = now.ns;
    for (unsigned i = 0; i < r->n; i++) {
        struct kvm_tsc kvm;

        if (!kvm_tsc_read("", r->guest.threads[i], &kvm, NULL) ||
            !kvm_tsc_equal(&kvm, &c->kvm[i])) {
            cli_error("no times from here on: the guest's TSC was set");
            r->clock.hz = 0;
            g_clear_pointer(&r->host_clock, pt_clock_free);
            return;
        }
    }
}

static void begin_clock(struct live_recording *r)
{
    g_autoptr(GError) error = NULL;

    r->began = clock_ns();
    r->clock = r->options->pt_clock;
    r->clock.begin = r->began;
    r->clock.runs = true;
    if (!r->events) {
        return;
    }
    r->host_clock = pt_clock_begin("", r->guest.threads, r->n, &error);
    if (!r->host_clock) {
        cli_error("%s", error->message);
        return;
    }
    set_clock(r);
    if (!r->clock.hz) {
        cli_error("no times: the kernel does not keep the host's time by its "
                  "TSC, or perf does not say so (cap_user_time_zero)");
        g_clear_pointer(&r->host_clock, pt_clock_free);
        return;
    }
    if (r->host_clock->kvm[0].ratio !=
        UINT64_C(1) << r->host_clock->kvm[0].fraction) {
        /* These lead from one TSC to the next as the host's counts. */
        memset(r->decoding.flow.tsc_per_ctc, 0,
               sizeof(r->decoding.flow.tsc_per_ctc));
        r->decoding.flow.bus_ratio = 0;
    }
}

/*
 * What comes of the streams
 */

static void give(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct live_vcpu *v = opaque;
    uint64_t pae = v->r->described.pae ? BTRAIL_CR3_PAE : 0;

    for (size_t i = 0; v->r->names && i < n_events; i++) {
        if (events[i].type == PT_FLOW_CR3) {
            frozen_names_see(v->r->names, events[i].value | pae);
        }
    }
    vcpu_trace_give(v->trace, records, n, events, n_events);
}

static void add_streams(struct live_recording *r)
{
    r->live = live_trace_new(r->memory, &r->decoding);
    for (unsigned i = 0; i < r->n; i++) {
        struct live_vcpu *v = &r->vcpus[i];
        struct live_stream *stream = live_trace_add(
            r->live, r->host_clock ? &r->host_clock->kvm[i] : NULL);
        const struct vcpu_trace_options o = {
            .vcpu = r->guest.numbers[i],
            .output = r->output, .pages = r->pages, .clock = &r->clock,
            .tsc_ahead = r->host_clock ? r->host_clock->kvm[i].offset -
                         r->host_clock->kvm[0].offset : 0,
            .pae = r->described.pae,
            .code = live_trace_read, .code_opaque = stream,
        };
        struct live_trace_ops ops = {
            .give = give, .give_opaque = v,
            .read = vcpu_trace_read, .change = vcpu_trace_change,
        };

        v->r = r;
        v->stream = stream;
        /* It is asked for code, to note what was read, and asks the stream. */
        v->trace = ops.code_opaque = vcpu_trace_new(&o);
        live_stream_begin(stream, &ops);
    }
}

static bool open_output(struct live_recording *r)
{
    JsonObject *meta = r->options->metadata;
    g_autofree struct frozen_stream *streams = g_new0(struct frozen_stream,
                                                      r->n);

    r->store = record_open_store(r->options);
    if (!r->store) {
        return false;
    }
    r->described.flow = r->decoding.flow;
    r->described.pae = r->decoding.code.levels == 3;
    r->described.clock = r->clock;
    for (unsigned i = 0; i < r->n; i++) {
        streams[i].vcpu = r->guest.numbers[i];
        r->numbers = MAX(r->numbers, streams[i].vcpu + UINT64_C(1));
        streams[i].size[0] = r->vcpus[i].ring.aux_size;
    }
    frozen_trace_describe(meta, &r->described, streams, r->n);
    btrail_json_add(meta, "s:mode", "continuous",
                    "s:overflow", r->lossless ? "pause" : "drop", NULL);
    if (!record_describe_pt(r->options, r->store, r->guest.qmp, r->began)) {
        return false;
    }
    r->output = output_new(r->store, NULL, frozen_trace_blocks(r->n));
    r->pages = frozen_pages_new(r->output);
    if (g_strcmp0(r->options->session.names, "off")) {
        r->names = frozen_names_begin(r->output, r->stock->files);
    }
    add_streams(r);
    return true;
}

/*
 * Reading
 */

static void take_bytes(void *opaque, const uint8_t *p, size_t n, uint64_t since)
{
    struct live_vcpu *v = opaque;

    live_trace_feed(v->stream, p, n, since);
}

static void take_missing(void *opaque)
{
    struct live_vcpu *v = opaque;

    live_trace_missing(v->stream);
}

/* Reads what all rings have; false if one says what cannot be. */
static bool read_rings(struct live_recording *r, bool *some)
{
    static const struct aux_ring_ops ops = { take_bytes, take_missing };

    *some = false;
    for (unsigned i = 0; i < r->n; i++) {
        struct live_vcpu *v = &r->vcpus[i];
        g_autoptr(GError) error = NULL;
        bool more = false;

        if (!aux_ring_read(&v->ring, &ops, v, &more)) {
            cli_error("vCPU %u: its ring says of itself what cannot be", i);
            r->code = CLI_DAMAGED;
            return false;
        }
        *some |= more;
        if (v->ring.stopped && r->events &&
            !pt_event_start(&r->events[i], &error)) {
            cli_error("%s", error->message);
            r->code = CLI_FAILED;
            return false;
        }
        v->ring.stopped = false;
        if (!more) {
            live_trace_feed(v->stream, NULL, 0, 0);
        }
    }
    return true;
}

static bool is_too_full(const struct live_recording *r)
{
    for (unsigned i = 0; i < r->n; i++) {
        const struct aux_ring *ring = &r->vcpus[i].ring;

        if (aux_ring_waiting(ring) > ring->aux_size / 4 * 3) {
            return true;
        }
    }
    return false;
}

static void add_event(struct live_recording *r, uint16_t type, uint64_t ns)
{
    for (unsigned i = 0; i < r->n; i++) {
        vcpu_trace_event(r->vcpus[i].trace, type, BTRAIL_PAUSE_VM_STOP, ns);
    }
}

/* The guest stands still: reads and decodes all that it has made. */
static bool settle(struct live_recording *r)
{
    bool some = true;

    /* A file's writer may go on. */
    for (unsigned i = 0; some && i < SETTLES; i++) {
        g_usleep(SETTLE_US);
        if (!read_rings(r, &some)) {
            return false;
        }
    }
    live_trace_flush(r->live);
    return true;
}

/* Stops the guest until what it has made is decoded. */
static bool hold(struct live_recording *r)
{
    uint64_t begin, end;
    bool runs, ok;

    if (!pt_guest_runs(&r->guest, -1, &runs)) {
        r->ended = true;
        return false;
    }
    if (!runs) {
        return true;
    }
    if (!pt_guest_stop(&r->guest)) {
        r->code = CLI_FAILED;
        return false;
    }
    r->goes_on = true;
    begin = clock_ns();
    ok = settle(r);
    add_event(r, BTRAIL_EVENT_PAUSE, begin);
    end = clock_ns();
    let_go_on(r);
    add_event(r, BTRAIL_EVENT_RESUME, end);
    r->pauses++;
    r->paused_ns += end - begin;
    forget_news(r);
    if (r->guest.stood) {
        /* By somebody else, meanwhile */
        add_event(r, BTRAIL_EVENT_PAUSE, clock_ns());
    }
    return ok;
}

/* What others do with the guest; false if there is no more to come. */
static bool take_news(struct live_recording *r)
{
    for (;;) {
        switch (pt_guest_news(&r->guest)) {
        case PT_GUEST_NOTHING:
            return true;
        case PT_GUEST_STOPPED:
            if (!settle(r)) {
                return false;
            }
            add_event(r, BTRAIL_EVENT_PAUSE, clock_ns());
            break;
        case PT_GUEST_WENT_ON:
            add_event(r, BTRAIL_EVENT_RESUME, clock_ns());
            break;
        case PT_GUEST_PANICKED:
            return false;
        case PT_GUEST_ENDED:
            r->ended = true;
            return false;
        }
    }
}

static bool is_signalled(struct live_recording *r, int ms)
{
    struct pollfd ready = { r->options->signal_fd, POLLIN, 0 };
    struct signalfd_siginfo info;
    sigset_t set;

    if (poll(&ready, 1, ms) != 1 ||
        read(ready.fd, &info, sizeof(info)) != sizeof(info)) {
        return false;
    }
    if (info.ssi_signo == SIGTERM) {
        deadline_begin();
    }
    /* Another one ends this process. */
    signal((int)info.ssi_signo, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, (int)info.ssi_signo);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return true;
}

static uint64_t bytes_read(const struct live_recording *r, uint64_t *lost)
{
    uint64_t sum = 0;

    *lost = 0;
    for (unsigned i = 0; i < r->n; i++) {
        sum += r->vcpus[i].ring.read;
        *lost += r->vcpus[i].ring.lost;
    }
    return sum;
}

static void print_progress(const struct live_recording *r, uint64_t now)
{
    struct live_trace_count c = live_trace_counted(r->live);
    uint64_t lost, bytes = bytes_read(r, &lost);

    cli_fprintf(stderr, "\r%" PRIu64 " s, %" PRIu64 " bytes, %" PRIu64
                " records, %" PRIu64 " times bytes were lost, %" PRIu64
                " pauses ", (now - r->began) / 1000000000, bytes,
                c.flow.records, lost, r->pauses);
}

static int trace_error(const struct live_recording *r)
{
    for (unsigned i = 0; i < r->n; i++) {
        if (vcpu_trace_error(r->vcpus[i].trace)) {
            return vcpu_trace_error(r->vcpus[i].trace);
        }
    }
    return output_error(r->output) ? -BTRAIL_ERR_IO : 0;
}

/* Has what was decoded written, for who reads it now, or if this is killed. */
static void flush(struct live_recording *r)
{
    live_trace_give(r->live);
    for (unsigned i = 0; i < r->n; i++) {
        vcpu_trace_flush(r->vcpus[i].trace);
    }
    frozen_pages_flush(r->pages);
}

static void run(struct live_recording *r)
{
    uint64_t duration = r->options->session.duration_ns;
    bool shows = !r->options->quiet && isatty(STDERR_FILENO);
    uint64_t asked = 0, decoded = 0, shown = r->began, clocked = r->began;
    uint64_t flushed = r->began;
    bool some, undecoded = false;
    uint64_t now;

    for (;;) {
        if (r->lossless && is_too_full(r) && !hold(r)) {
            break;
        }
        if (!read_rings(r, &some)) {
            break;
        }
        undecoded |= some;
        now = clock_ns();
        if (now - decoded > (undecoded ? DECODE_NS : IDLE_NS)) {
            live_trace_decode(r->live);
            decoded = now = clock_ns();
            undecoded = false;
        }
        if (now - asked > (r->guest.watch ? DOMAIN_NEWS_NS : NEWS_NS)) {
            if (!take_news(r) || trace_error(r)) {
                break;
            }
            asked = now;
        }
        if (now - clocked > CLOCK_NS) {
            set_clock(r);
            clocked = now;
        }
        if (now - flushed > FLUSH_NS) {
            flush(r);
            flushed = now;
        }
        if (shows && now - shown > PROGRESS_NS) {
            print_progress(r, now);
            shown = now;
        }
        if (is_signalled(r, some ? 0 : LOOK_MS) ||
            (duration && now - r->began >= duration)) {
            break;
        }
    }
    if (shows) {
        cli_fprintf(stderr, "\n");
    }
}

/*
 * What was plugged since the guest was opened has no ring: as record-pt.c has
 * it, a stream of its own, or that of its number, says so at its end.
 */
static void end_plugged(struct live_recording *r, uint16_t end)
{
    g_autofree unsigned *plugged = g_new(unsigned, BTRAIL_MAX_VCPUS);
    unsigned n = r->ended ? 0 : pt_guest_plugged(&r->guest, plugged);

    for (unsigned i = 0; i < n; i++) {
        const struct vcpu_trace_options o = {
            .vcpu = plugged[i], .output = r->output, .pages = r->pages,
            .clock = &r->clock,
        };
        struct vcpu_trace *trace;
        unsigned k = 0;

        while (k < r->n && r->guest.numbers[k] != plugged[i]) {
            k++;
        }
        pt_guest_print_plugged(plugged[i]);
        r->numbers = MAX(r->numbers, plugged[i] + UINT64_C(1));
        trace = k < r->n ? r->vcpus[k].trace : vcpu_trace_new(&o);
        vcpu_trace_gap(trace, BTRAIL_GAP_NOT_TRACED, 0);
        if (k == r->n) {
            vcpu_trace_end(trace, end, clock_ns());
            vcpu_trace_free(trace);
        }
    }
}

/* Reads what is left, once the events are stopped. */
static void end_streams(struct live_recording *r)
{
    uint16_t end = r->ended ? BTRAIL_END_SHUTDOWN : BTRAIL_END_STOPPED;
    g_autoptr(GError) error = NULL;
    bool some;

    for (unsigned i = 0; r->events && i < r->n; i++) {
        if (!pt_event_stop(&r->events[i], &error) && !r->ended) {
            cli_error("%s", error->message);
        }
        g_clear_error(&error);
    }
    if (!r->code) {
        read_rings(r, &some);
    }
    live_trace_finish(r->live);
    end_plugged(r, end);
    for (unsigned i = 0; i < r->n; i++) {
        const char *flaw = pt_event_flaw(r->vcpus[i].ring.flags &
                                         PERF_AUX_FLAG_PARTIAL);

        if (flaw) {
            cli_error("vCPU %u: %s", r->guest.numbers[i], flaw);
        }
        vcpu_trace_end(r->vcpus[i].trace, end, clock_ns());
    }
    frozen_pages_flush(r->pages);
}

static JsonObject *count_json(const struct live_recording *r)
{
    const struct live_trace_count live = live_trace_counted(r->live);
    struct frozen_spaces *spaces = frozen_spaces_new();
    struct frozen_count count = {
        .flow = live.flow, .pages = frozen_pages_written(r->pages),
        .more_pages = frozen_pages_more(r->pages),
    };
    JsonObject *json;
    uint64_t lost;

    count.size = bytes_read(r, &lost);
    for (unsigned i = 0; i < r->n; i++) {
        frozen_spaces_add(spaces, vcpu_trace_spaces(r->vcpus[i].trace));
    }
    count.spaces = frozen_spaces_counted(spaces);
    frozen_spaces_free(spaces);
    json = frozen_trace_count_json(&count);
    btrail_json_add(json, "U:times_lost", lost, "U:pauses", r->pauses,
                    "U:paused_ns", r->paused_ns, NULL);
    return json;
}

static int finish(struct live_recording *r)
{
    const char *path = r->options->store.path;
    g_autoptr(JsonObject) meta = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL, *share = NULL;
    uint64_t size;
    int ret = trace_error(r);

    if (r->names) {
        frozen_names_end(r->names, &r->found);
    }
    output_finish(r->output);
    if (ret || output_error(r->output)) {
        errno = output_error(r->output);
        g_set_error(&error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: %s", path,
                    errno ? g_strerror(errno) : cli_strerror(ret));
        r->code = CLI_FAILED;
    }
    output_free(r->output);
    meta = btrail_json_new("o:pt", count_json(r), "U:vcpus", r->numbers, NULL);
    text = btrail_json_text(meta, FALSE);
    ret = btrail_store_meta(r->store, text, strlen(text));
    if (!ret) {
        ret = session_describe_end(r->store, r->ended ? BTRAIL_END_SHUTDOWN :
                                   BTRAIL_END_STOPPED, error,
                                   r->found.snapshots, r->found.release,
                                   r->found.missing, r->found.kernels);
    }
    if ((btrail_store_close(r->store, &size) || ret) && !error) {
        g_set_error(&error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: %s", path,
                    g_strerror(errno));
        r->code = CLI_FAILED;
    }
    if (!r->options->quiet) {
        share = pt_share_text(meta);
        cli_fprintf(stderr, "%s: %" PRIu64 " records, %" PRIu64 " bytes; %s\n",
                    path, live_trace_counted(r->live).flow.records, size,
                    share);
        if (r->pauses) {
            cli_fprintf(stderr, "the guest was stopped %" PRIu64 " times, for "
                        "%.3f s together\n", r->pauses, r->paused_ns / 1e9);
        }
        if (r->found.why) {
            cli_fprintf(stderr, "%s lacks names: %s\n", path, r->found.why);
        }
    }
    if (error) {
        cli_error("%s", error->message);
    }
    return r->code;
}

static bool begin(struct live_recording *r)
{
    g_autoptr(GError) error = NULL;

    begin_clock(r);
    if (!open_output(r)) {
        return false;
    }
    for (unsigned i = 0; r->events && i < r->n; i++) {
        if (!pt_event_start(&r->events[i], &error)) {
            cli_error("%s", error->message);
            r->code = CLI_FAILED;
        }
    }
    if (!r->options->quiet) {
        cli_fprintf(stderr, "tracing %u vCPUs; Ctrl-C ends it\n", r->n);
    }
    return true;
}

static void clear(struct live_recording *r)
{
    let_go_on(r);
    live_trace_free(r->live);
    for (unsigned i = 0; i < r->n; i++) {
        vcpu_trace_free(r->vcpus[i].trace);
        aux_ring_clear(&r->vcpus[i].ring);
        if (r->events) {
            pt_event_close(&r->events[i]);
        }
    }
    frozen_pages_free(r->pages);
    scanner_result_clear(&r->found);
    g_free(r->vcpus);
    g_free(r->events);
    guest_memory_free(r->memory);
    pt_clock_free(r->host_clock);
    stock_memory_free(r->stock);
    btrail_close(r->given_memory);
    pt_guest_clear(&r->guest);
}

int record_live(const struct record_request *options)
{
    struct live_recording r = {
        .options = options, .given_memory = -1, .code = CLI_OK,
        .lossless = !g_strcmp0(options->session.overflow, "pause"),
    };
    int code = CLI_FAILED;

    r.decoding.flow.returns = options->pt_returns;
    r.decoding.flow.host_tsc = options->pt_host_tsc;
    if (open_guest(&r) && begin(&r)) {
        let_go_on(&r);
        forget_news(&r);
        if (r.guest.stood) {
            add_event(&r, BTRAIL_EVENT_PAUSE, clock_ns());
        }
        if (!r.code) {
            run(&r);
        }
        end_streams(&r);
        code = finish(&r);
    }
    clear(&r);
    return code;
}
