/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace that a command reads with names: its files, the options that say
 * where names are, and which records count
 */

#ifndef BTRAIL_CLI_ANALYSIS_H
#define BTRAIL_CLI_ANALYSIS_H

#include "analyze/call-tree.h"
#include "cli/cli.h"
#include "symbolize/field.h"
#include "symbolize/symbolizer.h"

/**
 * struct analysis
 * @map:         the first members are options
 * @filter_text: parsed into @filter, which is NULL for all records, together
 *               with @comm_text and @cpu_text
 * @time_text:   parsed into @window
 * @within:      @filter chooses only records of --between, too
 * @times:       of its spans, in @window; NULL without them
 * @unpaused:    what analysis_leave_out_pauses() has made of it, or NULL
 * @paused:      how long the whole guest was paused, in nanoseconds
 * @waits:       of @times, what analysis_leave_out_waits() has made; or NULL
 * @whole:       these have all records of all vCPUs
 * @off_cpu:     call stacks are those that tasks have left vCPUs with; see
 *               struct call_tree_options
 * @from:        host clock; what was recorded before it is not read for call
 *               stacks
 * @names:       NULL if they were not opened
 */
struct analysis {
    char *map;
    char *vmlinux;
    char **sysroots;
    char **debug_dirs;
    char **images;              /* of disks */
    char *guest_files;          /* socket of a guest's port */
    gboolean fetch;
    gboolean mangled;
    struct debuginfod *debuginfod;  /* if @fetch */
    char *filter_text;
    char *comm_text;
    char *cpu_text;
    char *time_text;
    struct filter *filter;
    bool within;
    const struct times *times;
    struct times *unpaused;
    uint64_t paused;
    struct times *waits;
    bool whole;
    gboolean off_cpu;
    struct window window;
    uint64_t from;
    struct cli_trace trace;
    struct symbolizer *names;
};

/* Where names are */
#define ANALYSIS_NAME_ENTRIES(a)                                             \
    { "map", 0, 0, G_OPTION_ARG_FILENAME, &(a)->map,                         \
      "read names of address spaces, files and symbols from FILE", "FILE" }, \
    { "vmlinux", 'k', 0, G_OPTION_ARG_FILENAME, &(a)->vmlinux,               \
      "ELF file of the guest's kernel", "FILE" },                            \
    { "sysroot", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &(a)->sysroots,          \
      "search DIR for the guest's files; can be repeated", "DIR" },          \
    { "debug-dir", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &(a)->debug_dirs,      \
      "also search DIR for files by build-id; can be repeated", "DIR" },     \
    { "image", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &(a)->images,              \
      "copy the guest's files out of DISK, if they are missing; can be "     \
      "repeated", "DISK" },                                                  \
    { "guest-files", 0, 0, G_OPTION_ARG_FILENAME, &(a)->guest_files,         \
      "ask backtrail-guest-names in the guest for its files, if they are "   \
      "missing, through the unix socket of its port", "SOCKET" },            \
    { "debuginfod", 0, 0, G_OPTION_ARG_NONE, &(a)->fetch,                    \
      "fetch missing symbols from the servers of DEBUGINFOD_URLS", NULL },   \
    { "no-demangle", 0, 0, G_OPTION_ARG_NONE, &(a)->mangled,                 \
      "print names of functions as they are in their files", NULL }

/* Short options mean what they mean in perf. */
#define ANALYSIS_ENTRIES(a)                                                  \
    { "filter", 0, 0, G_OPTION_ARG_STRING, &(a)->filter_text,                \
      "only records for which EXPRESSION is true, such as 'comm == sh && "   \
      "sym ~ ^do_'", "EXPRESSION" },                                         \
    { "comm", 'c', 0, G_OPTION_ARG_STRING, &(a)->comm_text,                  \
      "only records of processes with these names, such as sh,cc1",          \
      "NAMES" },                                                             \
    { "time", 0, 0, G_OPTION_ARG_STRING, &(a)->time_text,                    \
      "only from second A after the start to before B", "A..B" },            \
    ANALYSIS_NAME_ENTRIES(a)

#define ANALYSIS_CPU_ENTRY(a)                                                \
    { "cpu", 'C', 0, G_OPTION_ARG_STRING, &(a)->cpu_text,                    \
      "only records of these vCPUs, such as 0,2-3", "LIST" }

/* Parses which records count.  False after an error message. */
bool analysis_parse(struct analysis *a);

/* Opens the trace, and names if @names is set.  False after an error message;
 * analysis_clear() is needed then, too. */
bool analysis_open(struct analysis *a, char *const *paths, bool names);
void analysis_clear(struct analysis *a);

/* Reports an error of the library.  Returns CLI_FAILED. */
int analysis_failed(const struct analysis *a, int ret);

/* What the first name of --comm may be meant to be, as of closest_hint(); or
 * NULL */
char *analysis_comm_hint(const struct analysis *a);

/*
 * Reports that the options have chosen none of the trace's records, if @records
 * is 0 and they choose.  Returns CLI_FAILED then, and CLI_OK otherwise.
 * @option: one more that chooses, or NULL
 */
int analysis_chosen(const struct analysis *a, uint64_t records,
                    const char *option);

/* Is it known when tasks have run?  Not where only some are recorded. */
bool analysis_tells_off_cpu(const struct analysis *a);

/* The same; false after an error message about @option. */
bool analysis_check_off_cpu(const struct analysis *a, const char *option);

/*
 * Has time not count in which the whole guest was paused.  False after an error
 * message.
 */
bool analysis_leave_out_pauses(struct analysis *a);

/*
 * The same of the time in which vCPUs wait: one that is halted is not paused
 * itself, and it does not wait for the guest then.
 */
bool analysis_leave_out_waits(struct analysis *a);

/* Reads the call stacks.  Returns as call_tree_read(). */
int analysis_read_calls(const struct analysis *a, struct call_tree *t,
                        const struct call_tree_ops *ops, void *opaque);

/* Reports on stderr how far the numbers of a call tree can be trusted. */
void analysis_warn(const struct call_tree *t);

/**
 * names_text - format an address with its name
 * @buf: gets "function+0x12 (module)", "0x1234 (module)" or "0x1234"
 */
#define NAMES_SIZE  FIELD_TEXT
const char *names_text(const struct place *place, uint64_t address,
                       char buf[NAMES_SIZE]);

#endif /* BTRAIL_CLI_ANALYSIS_H */
