/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr: see rr.h
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/rr/rr.h"
#include "replay/fingerprint.h"
#include "replay/guest-output.h"
#include "replay/known-qemu.h"
#include "replay/saved-checkpoints.h"
#include "replay/tracer.h"
#include "replay/vcpu-count.h"

static const struct cli_command commands[] = {
    { "record", rr_record, "record a guest into a folder" },
    { "replay", rr_replay, "replay a recording: trace it, or debug it" },
    { "goto", rr_goto, "go to a place, and show the CPU's state there" },
    { "branch", rr_branch, "let the guest run on from a place" },
    { "info", rr_info, "show what is in a recording" },
    { "verify", rr_verify, "replay a recording again, and compare" },
};

static void print_help(FILE *out)
{
    cli_fprintf(out, "Usage: backtrail rr COMMAND [OPTION]... FOLDER\n\n"
                "Record a guest, and go back to any moment of it.\n\n"
                "Commands:\n");
    cli_print_commands(out, commands, G_N_ELEMENTS(commands));
    cli_fprintf(out, "\nSee also backtrail rr COMMAND --help, and man "
                "backtrail-rr.\n");
}

int cmd_rr(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    if (!name) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        print_help(stdout);
        return CLI_OK;
    }
    return cli_run_command("rr ", commands, G_N_ELEMENTS(commands), argc,
                           argv);
}

int rr_failed(const GError *error)
{
    cli_error("%s", error->message);
    return g_error_matches(error, AGENT_ERROR,
                           AGENT_ERROR_PROTOCOL) ? CLI_DAMAGED :
           CLI_FAILED;
}

const char *rr_default_qemu(void)
{
    const char *name = g_getenv("BACKTRAIL_QEMU");

    return name ? name : BACKTRAIL_EMULATOR;
}

/* Not the one that it names: it can be somebody else's.  NULL if none. */
static char *find_qemu(const struct recording *r)
{
    char *known = known_qemu_find(r->qemu_sha256);

    if (!known && !access(rr_default_qemu(), X_OK)) {
        known = g_strdup(rr_default_qemu());
    }
    return known;
}

bool rr_open(struct rr_options *o, const char *folder, int *code)
{
    g_autoptr(GError) error = NULL;

    o->signals = cli_open_signals();
    if (o->signals < 0) {
        *code = CLI_FAILED;
        return false;
    }
    if (!folder) {
        return true;
    }
    o->recording = recording_open(folder, &error);
    if (!o->recording || !recording_check(o->recording, &error)) {
        *code = rr_failed(error);
        return false;
    }
    if (!o->qemu) {
        o->qemu = find_qemu(o->recording);
    }
    return true;
}

void rr_clear(struct rr_options *o)
{
    recording_free(o->recording);
    if (o->signals >= 0) {
        close(o->signals);
    }
    g_free(o->qemu);
    g_strfreev(o->sysroots);
    g_strfreev(o->debug_dirs);
}

/* How far it is; a recorder that was killed does not know how far it goes. */
static void print_progress(uint64_t icount, void *opaque)
{
    const struct rr_options *o = opaque;
    uint64_t all = o->recording->instructions;

    if (all) {
        cli_fprintf(stderr, "\r%.2f of %.2f G instructions (%.0f %%)  ",
                    icount / 1e9, all / 1e9, 100.0 * icount / all);
    } else {
        cli_fprintf(stderr, "\r%.2f G instructions  ", icount / 1e9);
    }
}

static bool has_progress(const struct rr_options *o)
{
    return !o->quiet && isatty(STDERR_FILENO);
}

void rr_end_progress(const struct rr_options *o)
{
    if (has_progress(o)) {
        cli_fprintf(stderr, "\n");
    }
}

struct symbolizer_options rr_symbols(const struct rr_options *o)
{
    return (struct symbolizer_options) {
        .files = { o->sysroots, o->debug_dirs },
    };
}

struct turns *rr_turns(const struct rr_options *o, GError **error)
{
    g_autofree char *path = recording_path(o->recording,
                                           o->recording->log.name);

    return vcpu_count(o->recording->arguments) > 1 ?
           turns_load(path, &o->recording->begin, error) : NULL;
}

void rr_found_clear(struct rr_found *found)
{
    trace_index_free(found->index);
    turns_free(found->turns);
    btrail_trace_close(found->trace);
}

struct player_options rr_player(struct rr_options *o)
{
    return (struct player_options) {
        .recording = o->recording,
        .program = o->qemu,
        .any_qemu = o->any_qemu,
        .cancel_fd = o->signals,
        .progress = has_progress(o) ? print_progress : NULL,
        .opaque = o,
    };
}

uint64_t rr_memory(const struct rr_options *o)
{
    return o->memory ? o->memory : PLAYER_CHECKPOINTS;
}

struct player *rr_start(const struct rr_options *o,
                        const struct player_options *options, GError **error)
{
    struct player *p = player_start(options, error);

    if (p && player_note(p) && !o->quiet) {
        cli_fprintf(stderr, "%s\n", player_note(p));
    }
    return p;
}

/* Replays it for what the guest writes, which is then kept. */
static bool collect_output(struct rr_options *o, GError **error)
{
    struct player_options options = rr_player(o);
    struct output_collector *c = output_collector_new(o->recording, error);
    struct player *p = NULL;
    uint64_t end = 0;
    bool ok;

    if (!c) {
        return false;
    }
    options.output = c;
    p = rr_start(o, &options, error);
    ok = p && player_finish(p, error) && player_icount(p, &end, error);
    if (p) {
        rr_end_progress(o);
    }
    if (!ok) {
        cli_take_interrupt();
    }
    player_free(p);
    return output_collector_finish(c, ok, end, error);
}

static bool find_output(struct rr_options *o, const struct find_place *place,
                        uint64_t *icount, GError **error)
{
    return guest_output_possible(o->recording, error) &&
           (guest_output_there(o->recording) || collect_output(o, error)) &&
           guest_output_find(o->recording, place, icount, error);
}

bool rr_find(struct rr_options *o, const struct find_place *place,
             struct rr_found *found, GError **error)
{
    g_autofree char *path = recording_path(o->recording,
                                           RECORDING_TRACE);
    const struct symbolizer_options symbols = rr_symbols(o);
    g_autoptr(GError) local = NULL;
    int ret;

    *found = (struct rr_found) { .turns = rr_turns(o, &local) };
    if (local) {
        g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    ret = access(path, F_OK) ? 0 : btrail_trace_open(&found->trace, path);
    if (ret) {
        return agent_fail(error, AGENT_ERROR_PROTOCOL, "%s: %s",
                          path, cli_strerror(ret));
    }
    if (found->trace) {
        found->index = trace_index_new(found->trace, found->turns, &symbols,
                                       error);
    }
    if (found->trace && !found->index) {
        return false;
    }
    if (place->kind == FIND_PLACE_OUTPUT) {
        found->exact = true;
        return find_output(o, place, &found->icount, error);
    }
    return find_place_icount(place, found->trace,
                             found->index ? found->index->symbols : NULL,
                             &found->icount, &found->exact, error);
}

/* Are there checkpoints that a replay can use? */
static bool has_checkpoints(const struct rr_options *o)
{
    g_autofree char *hash = o->qemu ? recording_hash(o->qemu, NULL, NULL) :
                                      NULL;
    struct saved_checkpoints_info info;

    return hash && saved_checkpoints_info(o->recording, hash, &info, NULL);
}

static void say_result(const struct rr_options *o, const char *path,
                       struct tracer_result *result)
{
    if (result->checkpoints && !o->quiet) {
        cli_fprintf(stderr, "%u checkpoints\n", result->checkpoints);
    }
    if (result->no_checkpoints && !o->quiet) {
        cli_fprintf(stderr, "no checkpoints are saved: %s\n",
                    result->no_checkpoints);
    }
    if (result->no_names && !o->quiet) {
        cli_fprintf(stderr, "%s lacks names: %s\n", path, result->no_names);
    }
    g_free(result->no_checkpoints);
    g_free(result->no_names);
}

static void say_no_output(const struct rr_options *o, const GError *error)
{
    if (error && !o->quiet) {
        cli_fprintf(stderr, "what the guest writes is not kept: %s\n",
                    error->message);
    }
}

/* What the guest writes comes with the first trace, which is worth having
 * without. */
static struct output_collector *start_output(const struct rr_options *o)
{
    g_autoptr(GError) error = NULL;
    struct output_collector *c = NULL;

    if (guest_output_possible(o->recording, NULL)) {
        c = output_collector_new(o->recording, &error);
        say_no_output(o, error);
    }
    return c;
}

static void finish_output(const struct rr_options *o,
                          struct output_collector *c, bool ok, uint64_t end)
{
    g_autoptr(GError) error = NULL;

    if (c) {
        output_collector_finish(c, ok, end, &error);
        say_no_output(o, error);
    }
}

GArray *rr_trace(struct rr_options *o, uint64_t until, const char *path,
                 struct rr_divergence *diverged, int *code)
{
    struct player_options options = rr_player(o);
    struct tracer_result result;
    g_autoptr(GError) error = NULL;
    GArray *prints = NULL;

    options.output = until == UINT64_MAX && !rr_has_trace(o) ?
                     start_output(o) : NULL;
    if (until == UINT64_MAX && !has_checkpoints(o)) {
        /* Those that are saved; a session with gdb takes some more. */
        options.checkpoints = rr_memory(o) / 4 * 3;
    }
    tracer_run(&options, until, path, &result, &error);
    prints = result.prints;
    rr_end_progress(o);
    finish_output(o, options.output, prints, result.icount);
    if (!prints && result.diverged) {
        diverged->icount = result.icount;
        diverged->reason = g_strdup(error->message);
        *code = CLI_DAMAGED;
        return NULL;
    }
    if (!prints) {
        *code = rr_failed(error);
        return NULL;
    }
    if (!o->quiet && until == UINT64_MAX) {
        cli_fprintf(stderr, "%s: %" PRIu64 " records of %" PRIu64
                    " instructions\n", path, result.records, result.icount);
    }
    say_result(o, path, &result);
    return prints;
}
