/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU that we start, talk to, and end
 *
 * It has a private folder, where it runs: its sockets, its output and what it
 * needs for a while.  The folder is removed with it.
 */

#ifndef BTRAIL_EMULATOR_H
#define BTRAIL_EMULATOR_H

#include "monitor/qmp.h"

struct emulator;

/**
 * struct emulator_options
 * @program:   path of QEMU
 * @recording: folder that "recording/" means in its arguments, or NULL
 * @arguments: without the program and without a monitor; ends with NULL
 * @death_signal: that it gets when this process dies
 * @input:     its stdin, or -1 for none; stays the caller's
 * @output:    its stdout, or -1 for none; stays the caller's
 * @inherit:   more descriptors that it has, by the same numbers; ends with -1;
 *             or NULL
 * @cancel_fd: what waits here ends when it becomes readable; -1 for none
 */
struct emulator_options {
    const char *program;
    const char *recording;
    char *const *arguments;
    int death_signal;
    int input;
    int output;
    const int *inherit;
    int cancel_fd;
};

/* Makes its private folder; nothing runs yet. */
struct emulator *emulator_new(const struct emulator_options *options,
                              GError **error);

/* A file in its private folder, to be freed */
char *emulator_path(const struct emulator *e, const char *name);

/* Adds an argument after those of the options, before the start. */
void emulator_add(struct emulator *e, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

/*
 * Starts it and waits for its monitor.  It belongs to the calling thread: when
 * that ends, QEMU gets the death signal.
 */
bool emulator_start(struct emulator *e, GError **error);

/* Replaces options.cancel_fd. */
void emulator_set_cancel(struct emulator *e, int cancel_fd);

/* The monitor, after the start; events are kept. */
struct qmp *emulator_qmp(struct emulator *e);

/* A command; if QEMU is gone, the error has its last words. */
JsonNode *emulator_execute(struct emulator *e, const char *command,
                           JsonObject *arguments, int fd, int timeout_ms,
                           GError **error);

/* A command that returns nothing */
bool emulator_command(struct emulator *e, const char *command,
                      JsonObject *arguments, GError **error);

/* A line of the human monitor; its text, to be freed, or NULL */
char *emulator_hmp(struct emulator *e, const char *line, GError **error);

/* The next event, as qmp_next_event(), with last words as above */
char *emulator_event(struct emulator *e, int timeout_ms, GError **error);

/* How many instructions it has executed or replayed */
bool emulator_icount(struct emulator *e, uint64_t *icount, GError **error);

/* The version from the monitor, or NULL */
const char *emulator_version(const struct emulator *e);

/* What it has written to stderr, to be freed */
char *emulator_output(const struct emulator *e);

/* CPU time that it has used so far; 0 if it is gone */
uint64_t emulator_cpu_ns(const struct emulator *e);

/*
 * Waits until it has ended; false if it has not in this time.  @status gets
 * that of waitpid().
 */
bool emulator_wait(struct emulator *e, int timeout_ms, int *status);

/* Ends it, in any state, and removes its folder. */
void emulator_free(struct emulator *e);

#endif /* BTRAIL_EMULATOR_H */
