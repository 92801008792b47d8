/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace that a gdb walks: a target of its server
 *
 * gdb sees a program with one register that is known, the program counter, and
 * memory that is known where code ran.  Without "record btrace bts" it goes
 * forwards and backwards by requests; with it, in a window of the trace that it
 * has read, where it also knows callers.  The window is moved by requests of
 * our own, which begin with TRACE_TARGET_REQUEST; numbers are hexadecimal.
 *
 *   thread:NUMBER                what follows, and commands of the monitor, are
 *                                about this one, whatever gdb has asked about
 *                                meanwhile
 *   window:NUMBER,BEFORE,AFTER   makes a window around an instruction of the
 *                                window; 0 is where it is.  Answers its
 *                                number there, and the last one
 *   stand:NUMBER                 goes there
 *   view:NUMBER                  the set of symbols there, process-symbols.h
 *   stops:ADDRESS,...            instructions at which ways end early; none
 *                                if there is no address
 *   from:NUMBER                  begins a way there.  The answer of this and the
 *                                next ones is PC,WAY: where it has come to, and
 *                                enum walker_way
 *   back:START,END,OVER          goes back by instructions within [START, END),
 *                                one at least, until it is at START or leaves
 *                                the function; passes over calls if OVER is 1
 *   on:START,END,OVER            the same forwards, until it is not in the range
 *   caller:RECORDS               goes back to the call of the function, by at
 *                                most that many records; 0: by as many as take
 *                                a second or two
 *   return:RECORDS               goes to where the function has returned to
 *   to                           ends the way.  Answers the number in the
 *                                window, or 0 if it is not there: then it
 *                                goes there
 *
 * The answer is E01 if there is nothing there.
 */

#ifndef BTRAIL_GDB_TRACE_TARGET_H
#define BTRAIL_GDB_TRACE_TARGET_H

#include "gdb/process-symbols.h"
#include "gdb/server.h"
#include "gdb/walk.h"

#define TRACE_TARGET_REQUEST GDB_SERVER_REQUEST

struct trace_target;

/**
 * struct trace_target_options
 * @trace, @symbols: live as long
 * @walk:   copied, but its string
 * @at:     where the gdb begins; NULL: at the end
 * @files:  of the processes, or NULL; lives as long
 */
struct trace_target_options {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct walk_options walk;
    const struct moment *at;
    struct process_symbols *files;
};

/* Errors: those of walk_new() */
struct trace_target *
trace_target_new(const struct trace_target_options *options, GError **error);
void trace_target_free(struct trace_target *s);

/*
 * Serves one gdb by two files, which can be one socket, in a main context; both
 * are taken.  A SIGINT that is blocked and waits interrupts a request.
 */
void trace_target_serve(struct trace_target *t, GMainContext *context, int in,
                        int out);
void trace_target_interrupt(struct trace_target *t);

/* Has the gdb left? */
bool trace_target_left(const struct trace_target *t);

/* Where the gdb is: the thread that its requests are about */
struct walk *trace_target_walk(const struct trace_target *t);
struct walk_thread *trace_target_thread(const struct trace_target *t);

#endif /* BTRAIL_GDB_TRACE_TARGET_H */
