/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces with names: see analysis.h
 */

#include <inttypes.h>
#include <string.h>

#include "analyze/pauses.h"
#include "cli/analysis.h"
#include "cli/disk-image.h"
#include "cli/guest-files.h"
#include "lib/agent/budget.h"
#include "lib/agent/trace-files.h"
#include "util/closest.h"

/* Has the filter choose what --comm and --cpu say. */
static bool restrict_filter(struct analysis *a)
{
    g_auto(GStrv) commands = a->comm_text ? g_strsplit(a->comm_text, ",", -1) :
                             NULL;
    bool vcpus[BTRAIL_MAX_VCPUS];

    if (commands && !*commands) {
        cli_error("--comm: name at least one process");
        return false;
    }
    if (a->cpu_text && !cli_parse_vcpus("--cpu", a->cpu_text, vcpus)) {
        return false;
    }
    a->filter = filter_restrict(a->filter, commands,
                                a->cpu_text ? vcpus : NULL);
    return true;
}

bool analysis_parse(struct analysis *a)
{
    struct range range = { 0, UINT64_MAX };
    g_autoptr(GError) error = NULL;

    if (a->time_text &&
        !cli_parse_time_range("--time", a->time_text, &range)) {
        return false;
    }
    a->window = (struct window) { 0, range.begin, range.end };
    if (a->filter_text) {
        a->filter = filter_parse(a->filter_text, &error);
    }
    if (error) {
        cli_error("--filter: %s", error->message);
    }
    return !error && restrict_filter(a);
}

/*
 * Copies files out of the guest's disks, and from the guest itself.  False
 * after an error message.
 */
static bool copy_files(const struct analysis *a)
{
    const struct elf_files_options options = { a->sysroots, a->debug_dirs };
    struct elf_files *files = elf_files_new(&options);
    bool ok = !a->images ||
              disk_image_copy(a->trace.trace, a->images, files);

    elf_files_free(files);
    /* It finds what it did not find before. */
    files = elf_files_new(&options);
    ok = ok && (!a->guest_files ||
                guest_files_copy(a->trace.trace, a->guest_files, files));
    elf_files_free(files);
    return ok;
}

bool analysis_open(struct analysis *a, char *const *paths, bool names)
{
    struct symbolizer_options options = {
        .map = a->map,
        .vmlinux = a->vmlinux,
        .files = { a->sysroots, a->debug_dirs },
        .mangled = a->mangled,
    };
    g_autoptr(GError) error = NULL;

    if (!cli_trace_open(&a->trace, paths)) {
        return false;
    }
    a->window.start = a->trace.start;
    if (names && (a->images || a->guest_files) && !copy_files(a)) {
        return false;
    }
    if (names && a->fetch) {
        options.files.debuginfod = a->debuginfod = debuginfod_new(&error);
    }
    if (names && !error) {
        a->names = symbolizer_new(&options, a->trace.trace, &error);
    }
    if (error) {
        cli_error("%s", error->message);
    } else if (names && symbolizer_left_out(a->names)) {
        cli_error("%s: the trace describes more %s than a trace of its size "
                  "can have; the rest is left out", a->trace.path,
                  symbolizer_left_out(a->names));
        a->trace.left_out = true;
    }
    return !error;
}

void analysis_clear(struct analysis *a)
{
    if (debuginfod_failure(a->debuginfod)) {
        cli_error("%s", debuginfod_failure(a->debuginfod));
    }
    symbolizer_free(a->names);
    debuginfod_free(a->debuginfod);
    filter_free(a->filter);
    times_free(a->unpaused);
    times_free(a->waits);
    if (a->trace.trace) {
        cli_trace_close(&a->trace);
    }
    g_free(a->map);
    g_free(a->vmlinux);
    g_strfreev(a->sysroots);
    g_strfreev(a->debug_dirs);
    g_strfreev(a->images);
    g_free(a->guest_files);
    g_free(a->filter_text);
    g_free(a->comm_text);
    g_free(a->cpu_text);
    g_free(a->time_text);
}

int analysis_failed(const struct analysis *a, int ret)
{
    const struct btrail_budget *b = ret == -BTRAIL_ERR_MEMORY ?
        btrail_trace_decoding(a->trace.trace) : NULL;

    if (b && btrail_budget_refused(b)) {
        cli_error("%s: out of memory: to decode the records of its %u vCPUs at "
                  "the same time takes more than the %" PRIu64 " MiB that are "
                  "for a trace of its size", a->trace.path,
                  btrail_trace_streams(a->trace.trace),
                  btrail_budget_size(b) >> 20);
    } else {
        cli_error("%s: %s", a->trace.path, cli_strerror(ret));
    }
    return CLI_FAILED;
}

/* Offers the names of all tasks that the trace names. */
static void offer_tasks(const struct btrail_trace *trace, GStringChunk *names,
                        struct closest *closest)
{
    struct btrail_stream_info info;
    struct btrail_cursor *cursor;
    struct btrail_batch b;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        if (btrail_cursor_open(&cursor, trace, info.vcpu,
                               BTRAIL_CURSOR_EVENTS_ONLY)) {
            continue;
        }
        while (!btrail_cursor_next(cursor, &b)) {
            if (b.event->type == BTRAIL_EVENT_TASK && b.task.known) {
                closest_offer(closest, g_string_chunk_insert_const(
                    names, b.task.name));
            }
        }
        btrail_cursor_close(cursor);
    }
}

char *analysis_comm_hint(const struct analysis *a)
{
    g_autofree char *word = a->comm_text ?
        g_strndup(a->comm_text, strcspn(a->comm_text, ",")) : NULL;
    struct closest closest = closest_to(word ?: "");
    GStringChunk *names;
    char *hint = NULL;

    if (word) {
        names = g_string_chunk_new(1024);
        offer_tasks(a->trace.trace, names, &closest);
        hint = closest.distance ? closest_hint(&closest) : NULL;
        g_string_chunk_free(names);
    }
    return hint;
}

int analysis_chosen(const struct analysis *a, uint64_t records,
                    const char *option)
{
    g_autoptr(GPtrArray) given = g_ptr_array_new();
    g_autofree char *list = NULL, *hint = NULL;
    const struct {
        const char *name;
        bool given;
    } options[] = {
        { option, option }, { "--filter", a->filter_text },
        { "--comm", a->comm_text }, { "--cpu", a->cpu_text },
        { "--time", a->time_text }, { "--between", a->within },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(options); i++) {
        if (options[i].given) {
            g_ptr_array_add(given, (gpointer)options[i].name);
        }
    }
    if (records || !given->len) {
        return CLI_OK;
    }
    g_ptr_array_add(given, NULL);
    list = g_strjoinv(" and ", (char **)given->pdata);
    hint = analysis_comm_hint(a);
    cli_error("%s: no record matches %s%s", a->trace.path, list, hint ?: "");
    return CLI_FAILED;
}

bool analysis_tells_off_cpu(const struct analysis *a)
{
    static const char *const restricted[] = {
        "vcpu_filter", "cr3_filter", "processes",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(restricted); i++) {
        if (json_object_has_member(a->trace.meta, restricted[i])) {
            return false;
        }
    }
    return true;
}

bool analysis_check_off_cpu(const struct analysis *a, const char *option)
{
    bool tells = analysis_tells_off_cpu(a);

    if (!tells) {
        cli_error("%s: %s needs a trace of all vCPUs and all processes: of "
                  "this one, only some were recorded", a->trace.path, option);
    }
    return tells;
}

/* The times that count without those in which the whole guest was paused; NULL
 * after an error message.  @paused: gets how long it was */
static struct times *without_pauses(const struct analysis *a,
                                    uint64_t *paused)
{
    g_autoptr(GArray) spans = g_array_new(FALSE, FALSE,
                                          sizeof(struct times_span));
    struct times_span span;
    bool known;
    struct pauses *p = cli_trace_pauses(&a->trace, &known);

    if (!p) {
        return NULL;
    }
    for (size_t i = 0; pauses_get(p, PAUSES_GUEST, i, &span.begin, &span.end);
         i++) {
        g_array_append_val(spans, span);
    }
    *paused = pauses_whole_guest(p, 0, UINT64_MAX);
    pauses_free(p);
    return times_except(a->times, &a->window, spans);
}

bool analysis_leave_out_pauses(struct analysis *a)
{
    a->unpaused = without_pauses(a, &a->paused);
    a->times = a->unpaused ? a->unpaused : a->times;
    return a->unpaused;
}

bool analysis_leave_out_waits(struct analysis *a)
{
    uint64_t paused;

    a->waits = without_pauses(a, &paused);
    return a->waits;
}

int analysis_read_calls(const struct analysis *a, struct call_tree *t,
                        const struct call_tree_ops *ops, void *opaque)
{
    const struct call_tree_options options = {
        .names = a->names, .filter = a->filter, .window = a->window,
        .from = a->from, .times = a->times, .waits = a->waits,
        .whole = a->whole,
        .off_cpu = a->off_cpu, .tick = a->trace.tick, .ops = ops,
        .opaque = opaque,
    };

    return call_tree_read(t, a->trace.trace, &options);
}

void analysis_warn(const struct call_tree *t)
{
    const struct stack_counts *c = stacks_counts(t->stacks);

    if (c->no_code) {
        cli_error("the instructions of %" PRIu64 " of %" PRIu64 " records "
                  "are unknown; their calls and returns are guessed",
                  c->no_code, t->records);
    }
    if (c->likely) {
        cli_error("%" PRIu64 " of %" PRIu64 " records are attributed to a "
                  "process that is likely, not certain", c->likely,
                  t->records);
    }
    if (c->nested || c->unknown) {
        cli_error("%" PRIu64 " calls, %" PRIu64 " returns; %" PRIu64
                  " calls never returned, %" PRIu64 " returns have no known "
                  "call", c->calls, c->returns, c->nested, c->unknown);
    }
    if (c->mistaken) {
        cli_error("at %" PRIu64 " switches between stacks of a program, "
                  "another stack was taken at first: calls there can begin "
                  "twice", c->mistaken);
    }
    if (c->dropped) {
        cli_error("there are too many different stacks: %" PRIu64 " calls are "
                  "counted as part of their callers, so the numbers of some "
                  "functions are too low", c->dropped);
    }
    if (c->deep) {
        cli_error("%" PRIu64 " calls are shown below fewer callers than they "
                  "had: their stack is too deep, or older than those of "
                  "thousands of other threads", c->deep);
    }
}

const char *names_text(const struct place *place, uint64_t address,
                       char buf[NAMES_SIZE])
{
    const struct function *f = place->function;
    const char *module = f->module->name;

    if (btrail_pseudo_name(address)) {
        g_strlcpy(buf, btrail_pseudo_name(address), NAMES_SIZE);
    } else if (f->known) {
        g_snprintf(buf, NAMES_SIZE, "%.200s+0x%" G_GINT64_MODIFIER
                   "x (%.200s)", f->name, place->offset, module);
    } else if (strcmp(module, NAME_UNKNOWN)) {
        g_snprintf(buf, NAMES_SIZE, "0x%" G_GINT64_MODIFIER "x (%.200s)",
                   place->address, module);
    } else {
        g_snprintf(buf, NAMES_SIZE, "0x%" G_GINT64_MODIFIER "x", address);
    }
    return buf;
}
