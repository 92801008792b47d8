/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record --pt and --pt-ring: a trace of rings of Intel PT and of a
 * guest that stands still; see record.h
 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/pt-share.h"
#include "cli/record/record-pt.h"
#include "drain/session-description.h"
#include "guest-linux/code-writers.h"
#include "guest-linux/kernel.h"
#include "pt/code-writes.h"
#include "pt/frozen-code.h"
#include "pt/frozen-names.h"
#include "pt/frozen-trace.h"
#include "pt/pt-clock.h"
#include "pt/pt-host.h"
#include "pt/pt-open.h"
#include "pt/pt-ring.h"
#include "pt/settled-code.h"
#include "pt/stock-memory.h"
#include "pt/written-code.h"
#include "util/agent-error.h"
#include "util/clock.h"
#include "util/close.h"
#include "util/deadline.h"
#include "util/json.h"

#define QMP_TIMEOUT_MS  10000

struct pt_recording {
    const struct record_request *options;
    struct pt_guest guest;
    int given_memory;           /* of backtrail-pt-open, or -1 */
    struct stock_memory *stock;
    struct guest_memory *memory;
    unsigned n;                 /* rings */
    struct pt_ring_bytes *rings;
    struct pt_event *events;    /* of them, unless they are of files */
    uint64_t began;             /* before they were started */
    struct pt_clock *clock;     /* of theirs; NULL if it is not known */
    struct frozen_code **code;
    struct written_code **unwritten;
    struct linux_code_writers *writers;     /* NULL: not known */
    struct settled_code **settled;
    struct frozen_stream *streams;
    unsigned n_streams;         /* those of vCPUs without a ring are last */
    unsigned plugged;           /* how many vCPUs have none */
    struct frozen_options decoding;
    struct btrail_store *store;
    struct output *output;
    struct scanner_result names;
    struct frozen_count count;
    uint64_t written;           /* bytes of the trace */
    int cancel_fd;              /* beside signals, or -1 */
    bool goes_on;               /* is traced again afterwards */
    bool shows;                 /* progress, on a terminal */
    bool stopped;               /* by a signal, or cancelled */
    bool ran;                   /* the guest has, meanwhile */
};

static bool read_rings(struct pt_recording *r)
{
    char **files = r->options->pt_rings;
    g_autoptr(GError) error = NULL;

    r->n = g_strv_length(files);
    r->rings = g_new0(struct pt_ring_bytes, r->n);
    for (unsigned i = 0; i < r->n; i++) {
        if (!pt_ring_from_file(files[i], &r->rings[i], &error)) {
            cli_error("--pt-ring: %s", error->message);
            return false;
        }
    }
    return true;
}

static bool open_guest(struct pt_recording *r, bool threads)
{
    const struct record_request *o = r->options;

    return pt_guest_open(&r->guest, o->guest.connect, o->domain, o->guest.qmp,
                         threads, threads, o->signal_fd);
}

/* Returns whether the guest stands still, or prints an error. */
static bool stands_still(struct pt_recording *r, int cancel_fd, bool *runs)
{
    *runs = false;
    return pt_guest_runs(&r->guest, cancel_fd, runs) && !*runs;
}

static bool open_memory(struct pt_recording *r)
{
    int cancel_fd = r->options->signal_fd;
    g_autoptr(GError) error = NULL;
    bool runs;

    if (!stands_still(r, cancel_fd, &runs)) {
        if (runs) {
            cli_error("this guest runs, so its memory has not the code of the "
                      "rings any more; stop it where they end");
        }
        return false;
    }
    r->stock = stock_memory_open(r->guest.qmp, r->guest.pid, r->given_memory,
                                 QMP_TIMEOUT_MS, cancel_fd, &error);
    if (!r->stock) {
        cli_error("%s", error->message);
        return false;
    }
    r->memory = guest_memory_open(r->stock->files);
    /* Of those with events some can have been unplugged since. */
    if (!r->events && r->n > r->stock->vcpus->len) {
        cli_error("--pt-ring: %u rings for %u vCPUs", r->n,
                  r->stock->vcpus->len);
        return false;
    }
    return true;
}

/* A second signal ends this process. */
static void take_signal(struct pt_recording *r)
{
    struct signalfd_siginfo info;
    sigset_t set;

    if (read(r->options->signal_fd, &info, sizeof(info)) != sizeof(info)) {
        return;
    }
    if (info.ssi_signo == SIGTERM) {
        deadline_begin();
    }
    if (r->stopped) {
        signal(info.ssi_signo, SIG_DFL);
        sigemptyset(&set);
        sigaddset(&set, info.ssi_signo);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        pt_guest_go_on(&r->guest);
        raise(info.ssi_signo);
    }
    r->stopped = true;
}

/* Without clock a trace has no times, but all else. */
static void begin_clock(struct pt_recording *r)
{
    g_autoptr(GError) error = NULL;

    r->began = clock_ns();
    r->clock = pt_clock_begin("", r->guest.threads, r->n, &error);
    if (!r->clock) {
        cli_error("%s", error->message);
    }
}

static void end_clock(struct pt_recording *r)
{
    g_autoptr(GError) error = NULL;

    if (r->clock && !pt_clock_end(r->clock, "", r->events[0].page, &error)) {
        cli_error("%s", error->message);
        g_clear_pointer(&r->clock, pt_clock_free);
    }
}

static bool start_events(struct pt_recording *r)
{
    g_autoptr(GError) error = NULL;
    bool ok = true;

    for (unsigned i = 0; ok && i < r->n; i++) {
        ok = pt_event_start(&r->events[i], &error);
    }
    if (!ok) {
        cli_error("%s", error->message);
    }
    return ok;
}

/* Opens and starts an event for each vCPU. */
static bool open_events(struct pt_recording *r)
{
    const struct pt_event_options options = { .returns = false };
    struct pt_host *host = pt_host_read("");
    g_autoptr(GError) error = NULL;
    struct pt_event_setup setup;
    bool ok;

    ok = pt_event_prepare(host, &options, &setup, &error);
    if (ok) {
        pt_guest_flow(host, &setup, &r->decoding.flow);
        r->decoding.mtc = setup.mtc;
        r->decoding.cyc = setup.cyc;
    }
    pt_host_free(host);
    if (!ok) {
        cli_error("%s", error->message);
        return false;
    }
    if (!open_guest(r, true)) {
        return false;
    }
    r->n = r->guest.n;
    r->events = g_new(struct pt_event, r->n);
    for (unsigned i = 0; i < r->n; i++) {
        r->events[i] = PT_EVENT_NONE;
    }
    /* Its descriptor of the memory is used: to open one here would take the
     * rights that this program has. */
    ok = pt_open(NULL, r->guest.pid, r->guest.threads, r->n, &setup,
                 r->options->pt_size, r->events, &r->given_memory, &error);
    if (!ok) {
        cli_error("%s", error->message);
        return false;
    }
    begin_clock(r);
    return start_events(r);
}

/* Waits for what ends it: a signal, the time, or the guest's own end. */
static bool wait_for_end(struct pt_recording *r)
{
    uint64_t us = r->options->session.duration_ns / 1000;
    gint64 now = g_get_monotonic_time();
    /* Longer than it takes for the time to be over is no limit. */
    gint64 until = us && us < (uint64_t)(INT64_MAX - now) ? now + (gint64)us :
                   0;
    bool cancelled;

    if (!r->options->quiet) {
        cli_fprintf(stderr, "tracing %u vCPUs; Ctrl-C stops the guest and "
                    "decodes what it did last\n", r->n);
    }
    if (!pt_guest_wait(&r->guest, until, r->options->signal_fd, &cancelled)) {
        return false;
    }
    if (cancelled) {
        take_signal(r);
        /* Another one ends the decoding. */
        r->stopped = false;
    }
    return true;
}

/* Stops the guest, and takes what is in the rings. */
static bool freeze(struct pt_recording *r)
{
    g_autoptr(GError) error = NULL;
    bool runs;

    if (!stands_still(r, -1, &runs)) {
        if (!runs || !pt_guest_stop(&r->guest)) {
            return false;
        }
    }
    /* What comes from now on counts. */
    pt_guest_ran(&r->guest);
    r->rings = g_new0(struct pt_ring_bytes, r->n);
    for (unsigned i = 0; i < r->n; i++) {
        struct pt_event *e = &r->events[i];
        const char *flaw;

        if (!pt_event_stop(e, &error)) {
            cli_error("%s", error->message);
            return false;
        }
        flaw = pt_event_flaw(e->flags);
        if (flaw) {
            cli_error("vCPU %u: %s", r->guest.numbers[i], flaw);
        }
        if (!pt_ring_freeze(e->page, e->aux, e->aux_size, &r->rings[i])) {
            cli_error("vCPU %u: the kernel says nothing that makes sense of "
                      "its ring", r->guest.numbers[i]);
            return false;
        }
    }
    end_clock(r);
    return true;
}

static const struct stock_vcpu *vcpu_at(const struct pt_recording *r,
                                        unsigned i)
{
    return &g_array_index(r->stock->vcpus, struct stock_vcpu, i);
}

static void set_clock(struct pt_recording *r)
{
    struct frozen_options *o = &r->decoding;
    const struct pt_clock *c = r->clock;

    if (!r->events) {
        o->clock = r->options->pt_clock;
        for (unsigned i = 0; i < r->n; i++) {
            r->streams[i].host_tsc = r->options->pt_host_tsc;
        }
        return;
    }
    o->clock.begin = r->began;
    for (unsigned i = 0; c && i < r->n; i++) {
        o->clock.hz = c->hz;
        o->clock.tsc = c->tsc[0];
        o->clock.ns = c->ns;
        r->streams[i].tsc_ahead = c->tsc[i] - c->tsc[0];
        r->streams[i].host_tsc = c->kvm[i];
    }
    if (c && c->scaled) {
        /* These lead from one TSC to the next as the host's counts. */
        memset(o->flow.tsc_per_ctc, 0, sizeof(o->flow.tsc_per_ctc));
        o->flow.bus_ratio = 0;
    }
}

/*
 * What was plugged since the events were opened has none: a stream without
 * records says so.  If it is another vCPU of a number that has a stream, that
 * one does, at its end.
 */
static void add_plugged(struct pt_recording *r)
{
    g_autofree unsigned *plugged = g_new(unsigned, BTRAIL_MAX_VCPUS);
    r->n_streams = r->n;
    r->plugged = r->events ? pt_guest_plugged(&r->guest, plugged) : 0;
    for (unsigned i = 0; i < r->plugged; i++) {
        unsigned k = 0;

        while (k < r->n && r->streams[k].vcpu != plugged[i]) {
            k++;
        }
        if (k == r->n) {
            k = r->n_streams++;
            r->streams[k].vcpu = plugged[i];
        }
        r->streams[k].untraced = true;
        pt_guest_print_plugged(plugged[i]);
    }
}

/* Of a kernel that is not found nothing says what it has written. */
static struct linux_code_writers *find_writers(struct pt_recording *r)
{
    const struct btrail_memory *head = &r->stock->files->head;
    struct linux_code_writers *writers = NULL;
    struct linux_kernel *kernel;
    g_autofree char *why = NULL;

    kernel = linux_kernel_find(r->memory, head->note, head->note_size,
                               vcpu_at(r, 0)->registers.cr3, &why);
    if (kernel) {
        writers = linux_code_writers_new(kernel);
        linux_kernel_free(kernel);
    }
    return writers;
}

/* Takes the code of a stream as what it is if the kernel stays the same. */
static void settle(struct pt_recording *r, unsigned i)
{
    struct frozen_stream *s = &r->streams[i];

    if (r->writers) {
        r->settled[i] = settled_code_new(r->writers->image,
                                         r->writers->image_end, s->code,
                                         s->code_opaque);
        s->code = settled_code_read;
        s->code_opaque = r->settled[i];
    }
}

/* The code of each stream, and how it is decoded */
static bool prepare(struct pt_recording *r)
{
    g_autofree uint64_t *roots = g_new(uint64_t, r->stock->vcpus->len);
    struct frozen_code_options code = { .roots = roots };
    g_autoptr(GError) error = NULL;

    if (!stock_memory_levels(r->stock, &code.levels, &error)) {
        cli_error("%s", error->message);
        return false;
    }
    for (unsigned i = 0; i < r->stock->vcpus->len; i++) {
        if (vcpu_at(r, i)->levels == code.levels) {
            roots[code.n_roots++] = vcpu_at(r, i)->registers.cr3;
        }
    }
    r->code = g_new0(struct frozen_code *, r->n);
    r->unwritten = g_new0(struct written_code *, r->n);
    r->settled = g_new0(struct settled_code *, r->n);
    r->writers = find_writers(r);
    r->streams = g_new0(struct frozen_stream, r->n + BTRAIL_MAX_VCPUS);
    for (unsigned i = 0; i < r->n; i++) {
        const struct pt_ring_bytes *ring = &r->rings[i];
        bool live = r->events;

        r->code[i] = frozen_code_new(r->memory, &code);
        r->unwritten[i] = written_code_new(r->memory, code.levels,
                                           frozen_code_read, r->code[i]);
        r->streams[i] = (struct frozen_stream){
            .vcpu = live ? r->guest.numbers[i] : vcpu_at(r, i)->number,
            .bytes = { ring->bytes[0], ring->bytes[1] },
            .size = { ring->size[0], ring->size[1] },
            /* What was before the file's first byte is not known. */
            .wrapped = !live || ring->wrapped,
            .code = written_code_read, .code_opaque = r->unwritten[i],
        };
        settle(r, i);
    }
    add_plugged(r);
    r->decoding.pae = code.levels == 3;
    /* In IA-32e mode a label does not say it of programs. */
    r->decoding.flow.modes = code.levels < 4;
    set_clock(r);
    r->decoding.flow.returns |= r->options->pt_returns;
    return true;
}

static bool open_output(struct pt_recording *r)
{
    r->store = record_open_store(r->options);
    if (!r->store) {
        return false;
    }
    frozen_trace_describe(r->options->metadata, &r->decoding, r->streams,
                          r->n_streams);
    if (!record_describe_pt(r->options, r->store, r->guest.qmp, clock_ns())) {
        return false;
    }
    r->output = output_new(r->store, NULL, frozen_trace_blocks(r->n_streams));
    return true;
}

static bool on_progress(void *opaque, const struct frozen_progress *p)
{
    struct pt_recording *r = opaque;
    struct pollfd ready[] = {
        { r->options->signal_fd, POLLIN, 0 }, { r->cancel_fd, POLLIN, 0 },
    };

    if (poll(ready, G_N_ELEMENTS(ready), 0) > 0) {
        if (ready[0].revents) {
            take_signal(r);
        }
        r->stopped |= ready[1].revents != 0;
    }
    if (r->shows) {
        cli_fprintf(stderr, "\r%3u%% of %" PRIu64 " bytes, %" PRIu64
                    " records ", p->size ? (unsigned)(p->bytes * 100.0 /
                    p->size) : 100, p->size, p->records);
    }
    return !r->stopped;
}

/*
 * When the trace begins, which is known only now: times are shown from there.
 * Without clock nobody knows which time of the day that was.
 */
static JsonObject *start_json(const struct pt_recording *r)
{
    uint64_t first = r->count.first, now = clock_ns();
    JsonObject *start = btrail_json_new("U:monotonic", first, NULL);

    if (r->decoding.clock.hz && first <= now) {
        btrail_json_add(start, "U:realtime", g_get_real_time() * 1000 -
                        (now - first), NULL);
    }
    return start;
}

static int finish(struct pt_recording *r, int ret)
{
    const char *path = r->options->store.path;
    g_autoptr(JsonObject) meta = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL, *share = NULL;
    int code = CLI_OK;

    output_finish(r->output);
    if (output_error(r->output)) {
        errno = output_error(r->output);
        g_set_error(&error, G_FILE_ERROR, g_file_error_from_errno(errno),
                    "%s: %s", path, g_strerror(errno));
        code = CLI_FAILED;
    } else if (ret) {
        g_set_error(&error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: %s", path,
                    cli_strerror(ret));
        code = CLI_FAILED;
    } else if (r->ran) {
        g_set_error(&error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "the guest ran "
                    "while its memory was read: names and records can be "
                    "wrong");
        code = CLI_DAMAGED;
    }
    output_free(r->output);
    meta = btrail_json_new("o:pt", frozen_trace_count_json(&r->count), NULL);
    if (r->count.first) {
        json_object_set_object_member(meta, "start", start_json(r));
    }
    text = btrail_json_text(meta, FALSE);
    ret = btrail_store_meta(r->store, text, strlen(text));
    if (!ret) {
        ret = session_describe_end(r->store, BTRAIL_END_STOPPED, error,
                                   r->names.snapshots, r->names.release,
                                   r->names.missing, r->names.kernels);
    }
    if ((btrail_store_close(r->store, &r->written) || ret) && !error) {
        g_set_error(&error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: %s", path,
                    g_strerror(errno));
        code = CLI_FAILED;
    }
    if (r->shows) {
        cli_fprintf(stderr, "\n");
    }
    if (!r->options->quiet) {
        share = pt_share_text(meta);
        cli_fprintf(stderr, "%s: %" PRIu64 " records, %" PRIu64 " bytes; %s\n",
                    path, r->count.flow.records, r->written, share);
        if (r->names.why) {
            cli_fprintf(stderr, "%s lacks names: %s\n", path, r->names.why);
        }
    }
    if (error) {
        cli_error("%s", error->message);
    }
    return code;
}

/* What it does from now on is traced, too. */
static void go_on(struct pt_recording *r)
{
    if (r->goes_on) {
        start_events(r);
    }
    pt_guest_go_on(&r->guest);
}

/* Whoever asks it to end is heard once decoding begins. */
static bool goes_on(void *opaque)
{
    const struct pt_recording *r = opaque;
    struct pollfd ready[] = {
        { r->options->signal_fd, POLLIN, 0 }, { r->cancel_fd, POLLIN, 0 },
    };

    return poll(ready, G_N_ELEMENTS(ready), 0) <= 0;
}

/* From when on code is what it is now, which is known before any is decoded */
static void find_writes(struct pt_recording *r)
{
    g_autofree uint64_t *after = g_new(uint64_t, r->n);
    struct code_writes_count count;

    if (!r->writers) {
        return;
    }
    code_writes_find(r->writers, &r->decoding, r->streams, r->n,
                     MAX(r->stock->vcpus->len, r->n + r->plugged), goes_on, r,
                     after, &count);
    for (unsigned i = 0; i < r->n; i++) {
        settled_code_set(r->settled[i], after[i]);
    }
}

static int decode(struct pt_recording *r)
{
    int ret;

    r->shows = !r->options->quiet && isatty(STDERR_FILENO);
    r->decoding.progress = on_progress;
    r->decoding.progress_opaque = r;
    if (g_strcmp0(r->options->session.names, "off")) {
        frozen_names_write(r->output, r->stock->files, &r->names);
    }
    find_writes(r);
    ret = frozen_trace_write(r->output, &r->decoding, r->streams, r->n_streams,
                             &r->count);
    /* Its memory is not needed any more, however long writing takes. */
    r->ran = pt_guest_ran(&r->guest);
    go_on(r);
    return finish(r, ret);
}

static int write_trace(struct pt_recording *r)
{
    if (open_memory(r) && prepare(r) && open_output(r)) {
        return decode(r);
    }
    go_on(r);
    return CLI_FAILED;
}

/* All that is of one trace */
static void clear_trace(struct pt_recording *r)
{
    for (unsigned i = 0; i < r->n; i++) {
        if (r->code) {
            frozen_code_free(r->code[i]);
            written_code_free(r->unwritten[i]);
            settled_code_free(r->settled[i]);
        }
        if (r->rings) {
            pt_ring_clear(&r->rings[i]);
        }
    }
    scanner_result_clear(&r->names);
    g_clear_pointer(&r->code, g_free);
    g_clear_pointer(&r->unwritten, g_free);
    g_clear_pointer(&r->settled, g_free);
    g_clear_pointer(&r->writers, linux_code_writers_free);
    g_clear_pointer(&r->rings, g_free);
    g_clear_pointer(&r->streams, g_free);
    g_clear_pointer(&r->memory, guest_memory_free);
    g_clear_pointer(&r->stock, stock_memory_free);
    memset(&r->names, 0, sizeof(r->names));
    memset(&r->count, 0, sizeof(r->count));
    r->written = 0;
    r->stopped = r->ran = false;
}

static void clear(struct pt_recording *r)
{
    pt_guest_go_on(&r->guest);
    for (unsigned i = 0; r->events && i < r->n; i++) {
        pt_event_close(&r->events[i]);
    }
    clear_trace(r);
    g_free(r->events);
    pt_clock_free(r->clock);
    btrail_close(r->given_memory);
    pt_guest_clear(&r->guest);
}

struct pt_recording *pt_recording_begin(const struct record_request *options)
{
    struct pt_recording *r = g_new0(struct pt_recording, 1);

    r->options = options;
    r->given_memory = -1;
    r->cancel_fd = -1;
    r->goes_on = true;
    if (!open_events(r)) {
        g_clear_pointer(&r, pt_recording_free);
    }
    return r;
}

void pt_recording_free(struct pt_recording *r)
{
    if (r) {
        clear(r);
        g_free(r);
    }
}

struct pt_guest *pt_recording_guest(struct pt_recording *r)
{
    return &r->guest;
}

int pt_recording_write(struct pt_recording *r, int cancel_fd,
                       struct pt_written *written)
{
    int code = CLI_FAILED;

    r->cancel_fd = cancel_fd;
    if (freeze(r)) {
        code = write_trace(r);
    } else {
        go_on(r);
    }
    if (written) {
        *written = (struct pt_written){ r->count.flow.records, r->written };
    }
    clear_trace(r);
    return code;
}

int record_pt(const struct record_request *options)
{
    struct pt_recording r = {
        .options = options, .given_memory = -1, .cancel_fd = -1,
    };
    int code = CLI_FAILED;

    if (options->pt ? open_events(&r) && wait_for_end(&r) && freeze(&r) :
        read_rings(&r) && open_guest(&r, false)) {
        code = write_trace(&r);
    }
    clear(&r);
    return code;
}
