/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr: its commands, and what they share
 */

#ifndef BTRAIL_CLI_RR_H
#define BTRAIL_CLI_RR_H

#include "cli/cli.h"
#include "find/place.h"
#include "replay/fingerprint.h"
#include "replay/player.h"
#include "replay/trace-index.h"
#include "symbolize/symbolizer.h"

int rr_record(int argc, char **argv);
int rr_replay(int argc, char **argv);
int rr_branch(int argc, char **argv);
int rr_goto(int argc, char **argv);
int rr_info(int argc, char **argv);
int rr_verify(int argc, char **argv);

/**
 * struct rr_options - options of all commands that replay
 * @qemu:     path, or NULL; after rr_open() that of the QEMU to replay with
 * @sysroots, @debug_dirs: where the guest's files are
 * @signals:  the first signal cancels what waits; -1 before rr_open()
 * @memory:   for checkpoints of a replay with gdb, the size of half of which
 *            can be saved; 0 for the default
 */
struct rr_options {
    char *qemu;
    char **sysroots;
    char **debug_dirs;
    gboolean any_qemu;
    gboolean json;
    gboolean quiet;
    int signals;
    uint64_t memory;
    struct recording *recording;
};

#define RR_ENTRIES_QEMU(o) \
    { "qemu", 0, 0, G_OPTION_ARG_FILENAME, &(o)->qemu, \
      "the QEMU to replay with (default: the one you have recorded with, " \
      "$BACKTRAIL_QEMU, or the one that is installed)", "PATH" }, \
    { "any-qemu", 0, 0, G_OPTION_ARG_NONE, &(o)->any_qemu, \
      "try it with another QEMU than the one that has recorded", NULL }, \
    { "quiet", 'q', 0, G_OPTION_ARG_NONE, &(o)->quiet, \
      "print errors and results only", NULL }

#define RR_ENTRIES(o) \
    RR_ENTRIES_QEMU(o), \
    { "json", 0, 0, G_OPTION_ARG_NONE, &(o)->json, "print JSON", NULL }

/* What is run where no other QEMU is named */
const char *rr_default_qemu(void);

#define RR_SYMBOL_ENTRIES(o) \
    { "sysroot", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &(o)->sysroots, \
      "search DIR for the guest's files; can be repeated", "DIR" }, \
    { "debug-dir", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &(o)->debug_dirs, \
      "also search DIR for files by build-id; can be repeated", "DIR" }

/*
 * Opens a recording whose files are whole.  False after an error message; then
 * *code is what to exit with.
 */
bool rr_open(struct rr_options *o, const char *folder, int *code);
void rr_clear(struct rr_options *o);

/* What RR_SYMBOL_ENTRIES have read */
struct symbolizer_options rr_symbols(const struct rr_options *o);

/* The turns of a recording's vCPUs: NULL without an error if it has one */
struct turns *rr_turns(const struct rr_options *o, GError **error);

/**
 * struct rr_found - where a place is
 * @trace, @index: of the recording; NULL if it has none
 * @turns:         see rr_turns()
 * @exact:         the trace has a count for it, and not only for one before
 */
struct rr_found {
    struct btrail_trace *trace;
    struct trace_index *index;
    struct turns *turns;
    uint64_t icount;
    bool exact;
};

/*
 * Finds a place: output in what the guest has written, which a replay finds out
 * if it is not known yet; others by the recording's trace, if there is one.
 */
bool rr_find(struct rr_options *o, const struct find_place *place,
             struct rr_found *found, GError **error);
void rr_found_clear(struct rr_found *found);

/* Options for a player of it; with progress on a terminal */
struct player_options rr_player(struct rr_options *o);
/* Starts it, and says if the saved checkpoints are not used. */
struct player *rr_start(const struct rr_options *o,
                        const struct player_options *options, GError **error);

/* The memory for checkpoints of a replay with gdb */
uint64_t rr_memory(const struct rr_options *o);

/* Ends the line of the progress. */
void rr_end_progress(const struct rr_options *o);

/*
 * Prints an error, NULL if it was printed already; returns an exit code: what
 * comes from a damaged recording, or from a replay that has failed, is
 * CLI_DAMAGED.
 */
int rr_failed(const GError *error);

/**
 * struct rr_divergence - where a replay could not continue as the log says
 * @icount: instruction
 * @reason: what QEMU says of it; NULL if there is no such place
 */
struct rr_divergence {
    uint64_t icount;
    char *reason;
};

/*
 * Makes a trace at a path of the recording's folder, of a replay up to an
 * instruction or, with UINT64_MAX, to its end, and its fingerprints.  A whole
 * one also saves checkpoints, if there are none that can be used.  Returns
 * NULL after an error message, or if @diverged has a reason.
 */
GArray *rr_trace(struct rr_options *o, uint64_t until, const char *path,
                 struct rr_divergence *diverged, int *code);

/*
 * The first trace and its fingerprints: are they there; make them, false after
 * an error message; compare another replay with them, which returns an exit
 * code
 */
bool rr_has_trace(const struct rr_options *o);
bool rr_make_trace(struct rr_options *o, int *code);
int rr_check_trace(struct rr_options *o);

/*
 * Prints where two replays differ, and what the log has there; returns an exit
 * code.  @d is NULL, and so is @first, if they are the same as far as they go.
 * @diverged says where the second one could not continue; NULL if it could.
 */
int rr_print_difference(const struct rr_options *o,
                        const struct btrail_trace *first,
                        const struct fingerprint_difference *d,
                        const struct rr_divergence *diverged);

#endif /* BTRAIL_CLI_RR_H */
