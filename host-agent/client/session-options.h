/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Options that say what a session records, of "backtrail record" and "start"
 * and of "trace-start" of virsh
 */

#ifndef BTRAIL_CLIENT_SESSION_OPTIONS_H
#define BTRAIL_CLIENT_SESSION_OPTIONS_H

#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/session-words.h"

/*
 * The one list of them; a program expands it into its own table.
 *
 *   X(o, NAME, TYPE, USE, "JSON", SET, WORDS, "VALUE", "HELP")
 *
 *   o      whatever the program needs
 *   NAME   as after "--", and in struct session_options
 *   TYPE   FLAG, TEXT, or TEXTS for one that can be repeated
 *   USE    DEVICE   for QEMU's device as well as for the service
 *          RECORDER for whoever writes the trace
 *          SERVICE  only the service does it
 *   JSON   the member of the command, and
 *   SET    the function set_SET() of session-options.c that sets it
 *   WORDS  what words it can have: a word_fn, or NULL
 *   VALUE  its value, for help; NULL of a FLAG
 */
#define SESSION_OPTIONS(X, o)                                               \
    X(o, session, TEXT, RECORDER, "session", text, NULL, "NAME",            \
      "name of the session")                                                \
    X(o, vcpus, TEXT, DEVICE, "vcpus", vcpus, NULL, "LIST",                 \
      "trace these vCPUs, such as 0,2-3 (default: all)")                    \
    X(o, user, FLAG, DEVICE, "privilege", privilege, NULL, NULL,            \
      "trace branches in user mode")                                        \
    X(o, kernel, FLAG, DEVICE, "privilege", privilege, NULL, NULL,          \
      "trace branches in kernel mode (default: both)")                      \
    X(o, cr3, TEXTS, DEVICE, "cr3", cr3s, NULL, "ADDR",                     \
      "trace this address space, by its CR3; can be repeated (default: "    \
      "all)")                                                               \
    X(o, process, TEXTS, SERVICE, "processes", processes, NULL, "NAME|PID", \
      "trace this process; can be repeated (default: all)")                 \
    X(o, trigger, TEXTS, SERVICE, "triggers", triggers, NULL, "PLACE",      \
      "start, stop or dump when this place is reached; can be repeated; "   \
      "see backtrail-start(1)")                                             \
    X(o, sysroot, TEXTS, SERVICE, "sysroots", sysroots, NULL, "DIR",        \
      "find functions of triggers in the guest's files below this folder, " \
      "too; for your own service, see backtrail-start(1); can be repeated") \
    X(o, mode, TEXT, SERVICE, "mode", text, session_mode_name,       \
      "MODE", "continuous, or last: keep only the last records, for a "     \
      "dump (default: continuous)")                                         \
    X(o, size, TEXT, SERVICE, "size", size, NULL, "SIZE",                   \
      "with --mode last: how much to keep, such as 64MiB, 30s or "          \
      "1000000records")                                                     \
    X(o, overflow, TEXT, DEVICE, "overflow", text, btrail_overflow_name,    \
      "POLICY", "when the buffer is full: pause the vCPU, drop new "        \
      "records, or overwrite old ones (default: pause)")                    \
    X(o, duration, TEXT, RECORDER, "duration", duration, NULL, "TIME",      \
      "end the session after this time, such as 30s, 5min or 1h")           \
    X(o, split, TEXT, RECORDER, "split", split, NULL, "SIZE",               \
      "continue in another file (x.1.btrail after x.btrail) before one "    \
      "gets larger")                                                        \
    X(o, names, TEXT, RECORDER, "names", text, names_wanted_name,   \
      "NAMES", "names of symbols and processes, read from the guest's "     \
      "memory: auto (default), all (the guest waits until each process is " \
      "known) or off")

#define SESSION_OPTION_IS_FLAG  gboolean
#define SESSION_OPTION_IS_TEXT  char *
#define SESSION_OPTION_IS_TEXTS char **
#define SESSION_OPTION_MEMBER(o, name, type, ...) \
    SESSION_OPTION_IS_ ## type name;

/**
 * struct session_options - as they were given; NULL without
 * @duration_ns: 0 for no limit
 * @part_size:   of --split, or 0
 *
 * session_options_check() sets the last two.
 */
struct session_options {
    SESSION_OPTIONS(SESSION_OPTION_MEMBER, )
    uint64_t duration_ns;
    uint64_t part_size;
};

/* For tables of GLib's options: each one, into *@o */
#define SESSION_OPTION_ARG_FLAG     G_OPTION_ARG_NONE
#define SESSION_OPTION_ARG_TEXT     G_OPTION_ARG_STRING
#define SESSION_OPTION_ARG_TEXTS    G_OPTION_ARG_STRING_ARRAY
#define SESSION_OPTION_ENTRY(o, name, type, use, json, set, words, value,   \
                             help)                                          \
    { #name, 0, 0, SESSION_OPTION_ARG_ ## type, &(o)->name, help, value },

/* What session_option_words() takes */
#define SESSION_OPTION_ID(o, name, ...) SESSION_OPTION_ ## name,
enum session_option {
    SESSION_OPTIONS(SESSION_OPTION_ID, )
    SESSION_OPTION_COUNT
};

/* The words that an option can have, and what the help calls them; NULL if it
 * can have anything */
word_fn *session_option_words(unsigned option, const char **value);

/* All errors are G_OPTION_ERROR, whose messages name the option. */

/* Checks what does not depend on who traces. */
bool session_options_check(struct session_options *o, GError **error);

/* Do they ask for what only the service does? */
bool session_options_need_service(const struct session_options *o);

/* Adds what branch-trace-start and the service call alike. */
bool session_options_add_filter(const struct session_options *o,
                                JsonObject *json, GError **error);

/**
 * session_options_start - the service's command "start", after the check
 * @file: the trace, or NULL
 *
 * The session is named after the user if it has no other name.
 */
JsonObject *session_options_start(const struct session_options *o,
                                  const char *file, GError **error);

void session_options_clear(struct session_options *o);

/* The size of a file of a trace, if it is given */
bool session_options_file_size(const char *option, const char *text,
                               uint64_t *value, GError **error);

#endif /* BTRAIL_CLIENT_SESSION_OPTIONS_H */
