/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Options that say what a session records, of "record" and "start"
 */

#ifndef BTRAIL_CLI_SESSION_OPTIONS_H
#define BTRAIL_CLI_SESSION_OPTIONS_H

#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * struct session_options - as they were given; NULL without
 * @duration_ns: 0 for no limit
 * @part_size:   of --split, or 0
 */
struct session_options {
    char *session;
    char *vcpus;
    gboolean user;
    gboolean kernel;
    char **cr3;
    char **processes;
    char **triggers;
    char *mode;
    char *size;
    char *overflow;
    char *duration;
    char *split;
    char *names;

    uint64_t duration_ns;
    uint64_t part_size;
};

#define SESSION_OPTION_ENTRIES(o)                                           \
    { "session", 0, 0, G_OPTION_ARG_STRING, &(o)->session,                  \
      "name of the session", "NAME" },                                      \
    { "vcpus", 0, 0, G_OPTION_ARG_STRING, &(o)->vcpus,                      \
      "trace these vCPUs (default: all)", "LIST" },                         \
    { "user", 0, 0, G_OPTION_ARG_NONE, &(o)->user,                          \
      "trace branches in user mode", NULL },                                \
    { "kernel", 0, 0, G_OPTION_ARG_NONE, &(o)->kernel,                      \
      "trace branches in kernel mode (default: both)", NULL },              \
    { "cr3", 0, 0, G_OPTION_ARG_STRING_ARRAY, &(o)->cr3,                    \
      "trace this address space; can be repeated (default: all)", "ADDR" }, \
    { "process", 0, 0, G_OPTION_ARG_STRING_ARRAY, &(o)->processes,          \
      "trace this process; can be repeated (default: all)", "NAME|PID" },   \
    { "trigger", 0, 0, G_OPTION_ARG_STRING_ARRAY, &(o)->triggers,           \
      "start, stop or dump when PROCESS:SYMBOL, kernel:SYMBOL or mark:NAME " \
      "is reached; can be repeated", "PLACE" },                             \
    { "mode", 0, 0, G_OPTION_ARG_STRING, &(o)->mode,                        \
      "continuous, or last: keep only the last records, for a dump "        \
      "(default: continuous)", "MODE" },                                    \
    { "size", 0, 0, G_OPTION_ARG_STRING, &(o)->size,                        \
      "with --mode last: how much to keep, such as 64M, 30s or "            \
      "1000000records", "SIZE" },                                           \
    { "overflow", 0, 0, G_OPTION_ARG_STRING, &(o)->overflow,                \
      "when the buffer is full: pause the vCPU, drop new records, or "      \
      "overwrite old ones (default: pause)", "POLICY" },                    \
    { "duration", 0, 0, G_OPTION_ARG_STRING, &(o)->duration,                \
      "stop after this time", "TIME" },                                     \
    { "split", 0, 0, G_OPTION_ARG_STRING, &(o)->split,                      \
      "continue in another file (x.1.btrail after x.btrail) before one "    \
      "gets larger", "SIZE" },                                              \
    { "names", 0, 0, G_OPTION_ARG_STRING, &(o)->names,                      \
      "names of symbols and processes, read from the guest's memory: auto " \
      "(default), all (the guest waits until each process is known) or off", \
      "NAMES" }

/* Checks what does not depend on who traces; false after an error message. */
bool session_options_check(struct session_options *o);

/* Do they ask for what only the service does? */
bool session_options_need_service(const struct session_options *o);

/*
 * Adds what branch-trace-start and the service call alike: vCPUs, address
 * spaces, privilege, overflow.  Returns false after an error message.
 */
bool session_options_add_filter(const struct session_options *o,
                                JsonObject *json);

/**
 * session_options_start - the service's command "start"
 * @file: the trace, or NULL
 *
 * The session is named after the user if it has no other name.  Returns NULL
 * after an error message.
 */
JsonObject *session_options_start(const struct session_options *o,
                                  const char *file);

/* Who starts sessions here, to be freed: users of two hosts are two owners. */
char *session_options_owner(void);

/* Completes the values that have names. */
void session_options_complete(void);

void session_options_clear(struct session_options *o);

/* The size of a file of a trace, if it is given */
bool session_options_file_size(const char *option, const char *text,
                               uint64_t *value);

#endif /* BTRAIL_CLI_SESSION_OPTIONS_H */
