/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr info: see rr.h
 */

#include <inttypes.h>
#include <unistd.h>

#include "cli/rr/rr.h"
#include "replay/fingerprint.h"
#include "replay/saved-checkpoints.h"
#include "util/json.h"

/* The records of the trace; false if there is none */
static bool count_records(const struct recording *r, uint64_t *records)
{
    g_autofree char *path = recording_path(r, RECORDING_TRACE);
    struct btrail_stream_info stream;
    struct btrail_trace *trace;

    *records = 0;
    if (btrail_trace_open(&trace, path)) {
        return false;
    }
    for (unsigned i = 0; !btrail_trace_stream(trace, i, &stream); i++) {
        *records += stream.records;
    }
    btrail_trace_close(trace);
    return true;
}

/* The number of fingerprints; 0 if there are none */
static unsigned count_prints(const struct recording *r)
{
    g_autofree char *path = recording_path(r, RECORDING_FINGERPRINTS);
    g_autoptr(GArray) prints = access(path, F_OK) ? NULL :
                               fingerprint_load(path, NULL);

    return prints ? prints->len : 0;
}

static void print_json(const struct recording *r)
{
    struct saved_checkpoints_info info = { 0 };
    uint64_t records;
    bool traced = count_records(r, &records);
    JsonObject *o = btrail_json_new(
        "s:folder", r->folder, "b:complete", r->complete,
        "U:begin", r->begin.icount, "U:instructions", r->instructions,
        "d:seconds", r->duration_ns / 1e9, "U:log_bytes", r->log.size,
        "s:qemu", r->qemu, "S:qemu_version", r->qemu_version,
        "s:qemu_sha256", r->qemu_sha256, "s:icount", r->icount, NULL);

    recording_add_json(r, o);
    json_object_set_boolean_member(o, "base", r->base != NULL);
    btrail_json_add(o, "b:traced", traced, "U:records", records,
                    "u:fingerprints", count_prints(r), NULL);
    saved_checkpoints_info(r, r->qemu_sha256, &info, NULL);
    btrail_json_add(o, "u:checkpoints", info.count, "U:checkpoint_bytes",
                    info.bytes, NULL);
    btrail_json_set_time(o, "created", r->created);
    cli_print_json(o);
}

static void print_machine(const struct recording *r)
{
    cli_printf("%-13s", "machine");
    for (char **a = r->arguments; *a; a++) {
        cli_printf(" %s", *a);
    }
    cli_printf("\n");
}

static void print_checkpoints(const struct recording *r)
{
    struct saved_checkpoints_info info;
    g_autoptr(GError) error = NULL;

    if (saved_checkpoints_info(r, r->qemu_sha256, &info, &error)) {
        cli_printf("%-13s %u, %.1f MB, %.1f MB of memory once they are used\n",
                   "checkpoints", info.count, info.bytes / 1e6,
                   info.memory / 1e6);
    } else {
        cli_printf("%-13s %s\n", "checkpoints", error ? error->message :
                   "none");
    }
}

static void print_text(const struct recording *r)
{
    g_autoptr(GDateTime) date = g_date_time_new_from_unix_local(r->created);
    g_autofree char *created = date ? g_date_time_format(date, "%F %T") : NULL;
    uint64_t records;

    cli_printf("%-13s %s\n", "created", created ? created : "-");
    if (r->complete) {
        cli_printf("%-13s %" PRIu64 ", in %.1f s\n", "instructions",
                   r->instructions, r->duration_ns / 1e9);
    } else {
        cli_printf("%-13s not known: the recorder was killed; what QEMU has "
                   "logged is whole\n", "instructions");
    }
    cli_printf("%-13s %.1f MB\n", "log", r->log.size / 1e6);
    cli_printf("%-13s %s, version %s\n", "QEMU", r->qemu,
               r->qemu_version ? r->qemu_version : "unknown");
    print_machine(r);
    if (r->begin.offset) {
        cli_printf("%-13s at instruction %" PRIu64 "; what was before that was "
                   "not kept (--ring)\n", "begins", r->begin.icount);
    } else {
        cli_printf("%-13s %s\n", "begins", r->base ? "with a guest that ran "
                   "already" : "at power-on");
    }
    for (unsigned i = 0; i < r->files->len; i++) {
        const struct recorded_file *f = g_ptr_array_index(r->files, i);

        cli_printf("%-13s %s, %" PRIu64 " bytes, from %s\n", "file", f->name,
                   f->size, f->source ? f->source : "-");
    }
    if (count_records(r, &records)) {
        cli_printf("%-13s %" PRIu64 " records, %u fingerprints\n", "trace",
                   records, count_prints(r));
    } else {
        cli_printf("%-13s none yet; backtrail rr replay makes it\n", "trace");
    }
    print_checkpoints(r);
}

int rr_info(int argc, char **argv)
{
    struct rr_options o = { .signals = -1 };
    const GOptionEntry entries[] = {
        { "json", 0, 0, G_OPTION_ARG_NONE, &o.json, "print JSON", NULL },
        { NULL }
    };
    g_autoptr(GError) error = NULL;
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, 1, "FOLDER",
                  "Show what is in a recording.")) {
        o.recording = recording_open(argv[1], &error);
        code = o.recording ? CLI_OK : rr_failed(error);
    }
    if (code == CLI_OK && o.json) {
        print_json(o.recording);
    } else if (code == CLI_OK) {
        print_text(o.recording);
    }
    rr_clear(&o);
    return code == CLI_OK && fflush(stdout) ? CLI_FAILED : code;
}
