/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events of a guest's threads, and its memory, which backtrail-pt-open opens
 * for a process that has no right to
 */

#ifndef BTRAIL_PT_OPEN_H
#define BTRAIL_PT_OPEN_H

#include "pt/pt-event.h"

/**
 * pt_open - have events opened
 * @program: backtrail-pt-open with its arguments; NULL for that which belongs
 *           to this one
 * @process: whose threads they are
 * @threads: of vCPUs, @n of them
 * @ring:    bytes of each ring
 * @events:  @n; gets events that are mapped and not started, each to be closed
 * @memory:  gets the descriptor of the process's memory, whose offsets are
 *           addresses of the process; to be closed
 *
 * Returns false after an error, which says what to do; nothing is open then.
 * It waits for a minute at most.
 */
bool pt_open(const char *const *program, pid_t process, const pid_t *threads,
             unsigned n, const struct pt_event_setup *setup, size_t ring,
             struct pt_event *events, int *memory, GError **error);

/* Where the program that belongs to this one is; to be freed. */
char *pt_open_program(void);

/**
 * pt_open_fault - can this user have events opened by a program?
 * @path:     of backtrail-pt-open
 * @paranoid: perf_event_paranoid, as struct pt_host has it
 *
 * Returns why not, and what to do, or NULL if nothing is known to be in the
 * way; to be freed.  It does not run the program.
 */
char *pt_open_fault(const char *path, int paranoid);

#endif /* BTRAIL_PT_OPEN_H */
