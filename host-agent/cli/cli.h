/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the subcommands share
 */

#ifndef BTRAIL_CLI_H
#define BTRAIL_CLI_H

#include <json-glib/json-glib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "backtrail/words.h"
#include "analyze/pauses.h"
#include "cli/print.h"
#include "util/parse.h"

/* Exit codes; see backtrail(1). */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_DAMAGED = 3,
};

int cmd_record(int argc, char **argv);
int cmd_start(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_fetch(int argc, char **argv);
int cmd_delete(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_enable(int argc, char **argv);
int cmd_disable(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_script(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_repair(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_calls(int argc, char **argv);
int cmd_find(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_annotate(int argc, char **argv);
int cmd_flamegraph(int argc, char **argv);
int cmd_gdbserver(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_rr(int argc, char **argv);

/**
 * struct cli_command - a command, or a command of a command
 * @heading: of the commands from this one on, in the help; or NULL
 */
struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
    const char *heading;
};

/* Prints a line for each, and the headings. */
void cli_print_commands(FILE *out, const struct cli_command *commands,
                        unsigned n);

/**
 * cli_run_command - run the one that argv[1] names
 * @group: "", or the command of which it is a subcommand, with a blank after it
 *
 * Returns its exit code; CLI_USAGE after an error message.
 */
int cli_run_command(const char *group, const struct cli_command *commands,
                    unsigned n, int argc, char **argv);

/*
 * A descriptor that can be read when SIGINT, SIGTERM or SIGHUP has come; -1
 * after an error message.  Whoever reads a signal ends because of it; a signal
 * that nobody reads kills the program if nothing ends within a second.
 */
int cli_open_signals(void);

/* Ctrl-C was seen: what it ends may take its time, unlike what SIGTERM ends. */
void cli_take_interrupt(void);

/**
 * enum cli_deadline - which signals do that
 * @CLI_DEADLINE_NOT_INT: Ctrl-C is for another program
 */
enum cli_deadline {
    CLI_DEADLINE_ALL,
    CLI_DEADLINE_NOT_INT,
};
void cli_set_deadline(enum cli_deadline which);

/*
 * Before cli_open_signals(): what was recorded is written first.  SIGINT and
 * SIGHUP take the time that this takes; SIGTERM does not, see util/deadline.h,
 * which prints @note.  Whoever reads that signal calls deadline_begin().
 */
void cli_set_records(const char *note);

/* Print a JSON object, which is freed; the latter in one line */
void cli_print_json(JsonObject *root);
void cli_print_json_line(JsonObject *root);

/* Writes a JSON string. */
void cli_put_json_string(FILE *out, const char *text);

/* Add what was copied to a new file. */
void cli_json_copied(JsonObject *o, const struct btrail_merge_result *copied);

/* One operand or none, and any number of them */
#define CLI_OPTIONAL    INT_MIN
#define CLI_ANY         (INT_MIN + 1)

/**
 * cli_parse - parse the options of a subcommand
 * @operands: number of arguments that are not options; if negative, at least
 *            that many; CLI_OPTIONAL for one or none, CLI_ANY for any
 * @usage:    the operands, such as "FILE"
 * @summary:  one sentence
 *
 * Returns false after printing an error.
 */
bool cli_parse(int *argc, char ***argv, const GOptionEntry *entries,
               int operands, const char *usage, const char *summary);

/* Values of options.  These return false after printing an error. */

bool cli_parse_u64(const char *option, const char *text, uint64_t *value);

/* "512K", "2M", "1G" or bytes */
bool cli_parse_size(const char *option, const char *text, uint64_t *value);

/* Seconds with a fraction, or with a unit: "500ms", "3s", "2min" */
bool cli_parse_duration(const char *option, const char *text, uint64_t *ns);

/* "0,2-3": sets the members of a bool[BTRAIL_MAX_VCPUS] */
bool cli_parse_vcpus(const char *option, const char *text, bool *vcpus);

/* The number for --threads; if @text is NULL, one for each CPU */
bool cli_parse_threads(const char *text, unsigned *threads);

/* A range "A..B" from A to before B; either may be missing. */
bool cli_parse_range(const char *option, const char *text,
                     struct range *range);
/* The same of times, in seconds unless they have units, as nanoseconds */
bool cli_parse_time_range(const char *option, const char *text,
                          struct range *range);

/* Page table roots, from --cr3 options; @texts may be NULL. */
bool cli_parse_cr3s(char **texts, GArray **cr3s);

/* Does @cr3 belong to one of @cr3s (of uint64_t; NULL for all)? */
bool cli_cr3_matches(const GArray *cr3s, uint64_t cr3);

/* Words for an error of the library that has just been returned */
const char *cli_strerror(int ret);

/*
 * Trace files
 */

/**
 * struct cli_trace - an open trace
 * @path: of the first file, for messages
 */
struct cli_trace {
    const char *path;
    struct btrail_trace *trace;
    struct btrail_trace_status status;
    JsonObject *meta;           /* all pieces merged */
    unsigned bad_metas;         /* pieces that cannot be parsed */
    uint64_t start;             /* CLOCK_MONOTONIC at session start */
    uint64_t tick;              /* of the session in ns; 0: unknown */
    bool left_out;              /* it describes too much for its size */
    bool sideband_said;         /* damage of the sideband was reported */
};

/*
 * Opens a file and the parts that follow it, or files that are one trace.
 * @paths ends with NULL.  Returns false after printing an error.
 */
bool cli_trace_open(struct cli_trace *t, char *const *paths);
void cli_trace_close(struct cli_trace *t);

/**
 * cli_trace_verdict - report damage of the file, if any
 * @damage: places of damage found while reading, each once
 *
 * Returns CLI_OK or CLI_DAMAGED.
 */
int cli_trace_verdict(const struct cli_trace *t, uint64_t damage);

/**
 * cli_trace_pauses - read the pauses of a trace
 * @known: gets whether it would have them, if there were some: its producer and
 *         its agent are known to say so
 *
 * Returns NULL after an error message.
 */
struct pauses *cli_trace_pauses(const struct cli_trace *t, bool *known);

/* What is not known of the pauses of calls, as a text, or NULL; @known is that
 * of cli_trace_pauses(). */
char *cli_unknown_pauses(const struct pauses *p, bool known);

/* Nanoseconds as seconds with nine digits */
#define CLI_TIME_SIZE   32
const char *cli_format_ns(uint64_t ns, char buf[CLI_TIME_SIZE]);

/* The same since the session's start; "-" if unknown. */
const char *cli_format_time(const struct cli_trace *t, uint64_t host,
                            char buf[CLI_TIME_SIZE]);

/* The flags of a record without its instruction count */
static inline uint64_t cli_flags(const struct btrail_record *record)
{
    return record->flags & ((1u << BTRAIL_RECORD_ICOUNT_SHIFT) - 1);
}

/* The instruction count, or @unknown if the trace does not have it */
const char *cli_format_icount(const struct btrail_record *record,
                              const struct btrail_time *time,
                              const char *unknown, char buf[CLI_TIME_SIZE]);

#endif /* BTRAIL_CLI_H */
