/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format perfetto: what vCPUs run and why tasks do not,
 * calls, marks and spans on a timeline
 */

#include <inttypes.h>
#include <string.h>

#include "analyze/call-tracks.h"
#include "analyze/pauses.h"
#include "cli/export/export.h"
#include "cli/export/perfetto.h"
#include "cli/export/sched-bundles.h"
#include "cli/export/slices.h"
#include "cli/export/span-tracks.h"
#include "util/json.h"

/* Numbers of tracks, beside those of calls, spans and processes */
#define PAUSES      (2 * PERFETTO_TRACKS)
#define LEFT_OUT    (3 * PERFETTO_TRACKS)

/* Bytes of what says how much is left out, at most */
#define LEFT_OUT_SIZE   400

/**
 * struct timeline
 * @tracks: have the numbers of all tracks except those of spans
 */
struct timeline {
    struct export *e;
    struct perfetto *out;
    struct timeline_slices *slices;
    struct call_tracks *tracks;
};

/* A track's user data is the name that it was described with. */
static void describe_track(struct timeline *l, struct call_track *t)
{
    g_autofree char *stack = NULL;
    char name[256];

    if (t->user && (t->stack || !t->thread || t->user == t->thread->comm)) {
        return;
    }
    if (t->stack) {
        const struct call_slice *s = call_track_slice(t, t->open->len > 1);

        describe_track(l, t->around);
        stack = g_strdup_printf("stack %" G_GUINT64_FORMAT ": %s", t->stack,
                                call_tree_name_of(s->process, s->function,
                                                  name, sizeof(name)));
        perfetto_track(l->out, t->number, t->around->number, stack);
        t->user = "";
        return;
    }
    if (t->thread) {
        perfetto_thread(l->out, t->number, t->thread);
        t->user = t->thread->comm;
        return;
    }
    g_snprintf(name, sizeof(name), "vCPU %u", (unsigned)t->number - 1);
    perfetto_track(l->out, t->number, 0, name);
    t->user = "";
}

static void put_begin(void *opaque, struct call_track *t, unsigned i)
{
    const struct call_slice *s = call_track_slice(t, i);
    struct timeline *l = opaque;
    char buf[256];

    describe_track(l, t);
    slices_begin(l->slices, t->number, s->begin, call_tree_name_of(
        s->process, s->function, buf, sizeof(buf)), NULL);
}

static void put_end(void *opaque, struct call_track *t, unsigned i,
                    uint64_t time, bool cut)
{
    struct timeline *l = opaque;

    describe_track(l, t);
    slices_end(l->slices, t->number, time);
}

static void put_whole(void *opaque, struct call_track *t, unsigned i,
                      uint64_t time, bool cut)
{
    put_begin(opaque, t, i);
    put_end(opaque, t, i, time, cut);
}

/* The track of a thread, or of the vCPU if there is none */
static uint64_t track_of(struct timeline *l, unsigned vcpu,
                         const struct btrail_task *task)
{
    struct call_track *t = call_tracks_find(l->tracks, vcpu, task);

    describe_track(l, t);
    return t->number;
}

static void put_mark(struct timeline *l, struct clock_order *order,
                     struct marks *marks, const struct visit *visit)
{
    const struct btrail_batch b = visit_batch(visit);
    const struct moment *at = &visit->at;
    struct marks_found found;

    if (marks_read(marks, at->vcpu, &b, &found)) {
        slices_instant(l->slices, track_of(l, at->vcpu, &at->task),
                       clock_order_time(order, at), found.mark.name,
                       found.known ? &found.value : NULL);
    }
}

static bool read_marks(struct timeline *l, struct find_options *o,
                       GError **error)
{
    struct finder *f = finder_new(o, error);
    struct marks *marks = f ? marks_new(o->in.trace.trace, o->in.names, error) :
                          NULL;
    struct clock_order *order = clock_order_new(o->in.trace.trace,
                                                o->in.trace.tick);
    g_autoptr(GError) local = NULL;
    struct find_moment found;

    while (marks && finder_next(f, &found, &local)) {
        put_mark(l, order, marks, &found.visit);
    }
    clock_order_free(order);
    marks_free(marks);
    finder_free(f);
    if (local) {
        g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    return marks;
}

/* Puts all marks that there are.  False after an error message. */
static bool put_marks(struct timeline *l)
{
    struct find_options o = { .in = l->e->in, .threads = 1 };
    g_autoptr(GError) error = NULL;
    bool ok = find_event_parse("mark:", &o.what, &error) &&
              read_marks(l, &o, &error);

    find_event_clear(&o.what);
    if (ok || g_error_matches(error, AGENT_ERROR,
                              AGENT_ERROR_NAMES)) {
        return true;
    }
    cli_error("%s: %s", l->e->in.trace.path, error->message);
    return false;
}

/* Puts the spans of --between.  False after an error message. */
static bool put_spans(struct timeline *l)
{
    struct between *b = &l->e->between;
    g_autofree char *name = NULL;
    struct span_tracks *tracks;
    const struct span *span;
    uint64_t unended = 0, left_out;

    if (!b->given) {
        return true;
    }
    if (!between_read(b, &l->e->in, true, false)) {
        return false;
    }
    name = g_strdup_printf("%s to %s", b->texts[0], b->texts[1]);
    tracks = span_tracks_new(l->out, l->slices, name);
    for (size_t i = 0; (span = spans_get(b->spans, i)); i++) {
        unended += !span->end;
        if (span->end) {
            span_tracks_add(tracks, track_of(l, span->begin->vcpu,
                                             &span->begin->task), span);
        }
    }
    left_out = span_tracks_end(tracks);
    if (unended) {
        cli_error("%s: %" G_GUINT64_FORMAT " spans from '%s' do not end; they "
                  "are left out", l->e->in.trace.path, unended, b->texts[0]);
    }
    if (left_out) {
        cli_error("%s: %" G_GUINT64_FORMAT " spans overlap too many others; "
                  "they are left out", l->e->in.trace.path, left_out);
    }
    span_tracks_free(tracks);
    return true;
}

/* Is it known where tasks leave?  Why not, or NULL */
static const char *lacks_schedule(JsonObject *meta)
{
    const char *privilege = btrail_json_string(meta, "privilege");

    return json_object_has_member(meta, "cr3_filter") ||
           json_object_has_member(meta, "processes") ?
           "only a part of the processes" :
           privilege && !strcmp(privilege, "user") ? "only user mode" : NULL;
}

/*
 * The release of the guest's kernel, by which readers take the states of tasks.
 * Those that are written are of Linux 4.14 and later.
 */
static char *find_release(const struct cli_trace *t)
{
    JsonObject *names = btrail_json_object(t->meta, "names");
    JsonArray *kernels = names ? btrail_json_array(names, "kernels") : NULL;
    const char *release = NULL;
    unsigned major, minor;

    for (unsigned i = 0; kernels && !release &&
                         i < json_array_get_length(kernels); i++) {
        JsonNode *node = json_array_get_element(kernels, i);

        release = JSON_NODE_HOLDS_OBJECT(node) ? btrail_json_string(
            json_node_get_object(node), "release") : NULL;
    }
    if (release && sscanf(release, "%u.%u.", &major, &minor) == 2 &&
        (major > 4 || (major == 4 && minor >= 14))) {
        return g_strdup(release);
    }
    return release ? g_strdup_printf("4.14.states (%s)", release) :
           g_strdup("4.14.states (unknown)");
}

static void say_unknown(const struct timeline *l,
                        const struct schedule_sums *sums)
{
    const char *path = l->e->in.trace.path;

    if (!sums->woken && sums->unknown) {
        cli_error("%s: who wakes tasks is not in the trace: tasks that wait "
                  "are in an unknown state", path);
    } else if (sums->unknown) {
        cli_error("%s: of %" PRIu64 " of %" PRIu64 " switches of tasks it is "
                  "not known in which state the task before was then", path,
                  sums->unknown, sums->runs);
    }
}

/* Adds the events of a schedule, unless they are more than half of a timeline
 * that has a limit.  False after a message about that. */
static bool add_schedule(struct timeline *l, const char *events, size_t size,
                         bool whole)
{
    if (!whole || !perfetto_append(l->out, events, size)) {
        cli_error("%s: which tasks vCPUs run is left out: it takes more than "
                  "half of the size; --time, --size and --all show more",
                  l->e->in.trace.path);
        return false;
    }
    return true;
}

/* Puts which tasks vCPUs run, and why others do not.  0 or a negative enum
 * btrail_error */
static int put_schedule(struct timeline *l, struct sched_bundles **bundles)
{
    const struct analysis *in = &l->e->in;
    const char *lacks = lacks_schedule(in->trace.meta);
    const struct schedule_options options = {
        .window = in->window, .tick = in->trace.tick,
        .some = json_object_has_member(in->trace.meta, "vcpu_filter"),
    };
    g_autofree char *release = find_release(&in->trace);
    struct schedule_sums sums;
    struct perfetto *out = l->out;
    char *events = NULL;
    size_t size = 0;
    FILE *memory = NULL;
    bool written = true;
    int ret;

    if (lacks) {
        cli_error("%s: which tasks vCPUs run is left out: %s was recorded",
                  in->trace.path, lacks);
        return 0;
    }
    perfetto_release(l->out, release);
    if (l->e->size) {
        memory = open_memstream(&events, &size);
        out = perfetto_new(memory);
        perfetto_set_limit(out, l->e->size / 2);
    }
    *bundles = sched_bundles_new(out);
    ret = schedule_read(in->trace.trace, &options, &sched_bundles_ops,
                        *bundles, &sums);
    sched_bundles_end(*bundles);
    if (memory) {
        bool whole = !perfetto_refused(out);

        perfetto_free(out);
        fclose(memory);
        written = !ret && add_schedule(l, events, size, whole);
        free(events);
    }
    if (!ret && written) {
        say_unknown(l, &sums);
    }
    return ret;
}

/* The pauses of one vCPU, or of the whole guest, on a track of their own */
static void put_pauses_of(struct timeline *l, const struct pauses *p,
                          unsigned vcpu, const char *name)
{
    const struct window *w = &l->e->in.window;
    uint64_t track = PAUSES + vcpu, begin, end;
    uint64_t from = w->start + w->begin, to = w->end == UINT64_MAX ?
                    UINT64_MAX : w->start + w->end;
    bool described = false;

    for (size_t i = 0; pauses_get(p, vcpu, i, &begin, &end); i++) {
        begin = MAX(begin, w->begin ? from : 0);
        end = MIN(end, to);
        if (begin >= end) {
            continue;
        }
        if (!described) {
            perfetto_track(l->out, track, 0, name);
            described = true;
        }
        slices_begin(l->slices, track, begin, "paused", NULL);
        slices_end(l->slices, track, end);
    }
}

/* Puts when vCPUs were paused.  False after an error message. */
static bool put_pauses(struct timeline *l)
{
    const struct cli_trace *t = &l->e->in.trace;
    struct btrail_stream_info info;
    bool known;
    struct pauses *p = cli_trace_pauses(t, &known);
    g_autofree char *unknown = p ? cli_unknown_pauses(p, known) : NULL;

    if (!p) {
        return false;
    }
    for (unsigned i = 0; !btrail_trace_stream(t->trace, i, &info); i++) {
        g_autofree char *name = g_strdup_printf("pauses of vCPU %u",
                                                info.vcpu);

        put_pauses_of(l, p, info.vcpu, name);
    }
    put_pauses_of(l, p, PAUSES_GUEST, "pauses of the guest");
    if (known && unknown) {
        cli_error("%s: %s", t->path, unknown);
    }
    pauses_free(p);
    return true;
}

/* Says what there was no room for, also on the timeline. */
static void say_left_out(struct timeline *l, const struct slices_sums *sums)
{
    const char *path = l->e->in.trace.path;
    char shortest[CLI_TIME_SIZE];
    g_autofree char *text = NULL;

    if (sums->left_out) {
        text = g_strdup_printf(
            "%" PRIu64 " of %" PRIu64 " slices are left out, those shorter "
            "than %s s: they are part of those around them", sums->left_out,
            sums->slices, cli_format_ns(sums->shortest, shortest));
        cli_error("%s: %s; --time, --size and --all show more", path, text);
        perfetto_track(l->out, LEFT_OUT, 0, "left out");
        perfetto_event(l->out, &(struct perfetto_event) {
            .type = PERFETTO_BEGIN, .track = LEFT_OUT, .time = sums->begin,
            .name = text,
        });
        perfetto_event(l->out, &(struct perfetto_event) {
            .type = PERFETTO_END, .track = LEFT_OUT, .time = sums->end,
        });
    }
    if (sums->instants) {
        cli_error("%s: %" PRIu64 " marks are left out: there is no room for "
                  "them", path, sums->instants);
    }
    if (perfetto_refused(l->out)) {
        cli_error("%s: %" PRIu64 " names of threads, tracks or processes are "
                  "left out: there is no room for them", path,
                  perfetto_refused(l->out));
    }
}

/* Writes what is left, after all was read. */
static void end_timeline(struct timeline *l,
                         const struct sched_bundles *bundles)
{
    struct slices_sums sums;

    if (bundles) {
        sched_bundles_threads(bundles, l->out);
    }
    sums = slices_write(l->slices, perfetto_processes_size(l->out) +
                        LEFT_OUT_SIZE);
    perfetto_processes(l->out);
    say_left_out(l, &sums);
}

int export_perfetto(struct export *e)
{
    static const struct call_tracks_ops ops = {
        put_begin, put_whole, put_end,
    };
    struct timeline l = { .e = e, .out = perfetto_new(e->out) };
    struct sched_bundles *bundles = NULL;
    struct call_tree t;
    int ret;

    perfetto_set_limit(l.out, e->size);
    l.slices = slices_new(l.out, e->size);
    l.tracks = call_tracks_new(&(struct call_tracks_options) {
        .shortest = e->shortest, .ops = &ops, .opaque = &l,
    });
    ret = put_schedule(&l, &bundles) ?:
          analysis_read_calls(&e->in, &t, &call_tracks_tree_ops, l.tracks);
    if (!ret) {
        call_tracks_end(l.tracks, e->in.trace.trace, &e->in.window);
        export_end_calls(e, &t);
        ret = put_marks(&l) && put_spans(&l) && put_pauses(&l) ? 0 :
              EXPORT_FAILED;
        end_timeline(&l, bundles);
    }
    if (bundles) {
        sched_bundles_free(bundles);
    }
    call_tracks_free(l.tracks);
    slices_free(l.slices);
    perfetto_free(l.out);
    return ret;
}
