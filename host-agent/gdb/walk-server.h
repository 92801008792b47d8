/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a gdb connects to where it walks a trace
 *
 * gdb sees a program with one register that is known, the program counter, and
 * memory that is known where code ran.  Without "record btrace bts" it goes
 * forwards and backwards by requests; with it, in a window of the trace that it
 * has read, where it also knows callers.  The window is moved by requests of
 * our own, which begin with WALK_SERVER_REQUEST; numbers are hexadecimal.
 *
 *   window:NUMBER,BEFORE,AFTER   makes a window around an instruction of the
 *                                window; 0 is where it stands.  Answers its
 *                                number there, and the last one
 *   stand:NUMBER                 stands there
 *   view:NUMBER                  the set of symbols there, process-symbols.h
 *   stops:ADDRESS,...            instructions that ways end at before their
 *                                end; none if there is no address
 *   from:NUMBER                  begins a way there.  The answer of this and the
 *                                next ones is PC,WAY: where it has come to, and
 *                                enum walker_way
 *   back:START,END,OVER          goes back by instructions within [START, END),
 *                                one at least, until it is at START or leaves
 *                                the function; passes over calls if OVER is 1
 *   on:START,END,OVER            the same forwards, until it is not in the range
 *   caller:RECORDS               goes back to the call of the function, by so
 *                                many records at most; 0: by as many as take a
 *                                second or two
 *   return:RECORDS               goes on to where the function has returned to
 *   to                           ends the way.  Answers the number in the
 *                                window, or 0 if it is not there: then it
 *                                stands there
 *
 * The answer is E01 if there is nothing there.
 */

#ifndef BTRAIL_GDB_WALK_SERVER_H
#define BTRAIL_GDB_WALK_SERVER_H

#include "gdb/process-symbols.h"
#include "gdb/walk.h"

#define WALK_SERVER_REQUEST "qBacktrail."

struct walk_server;

/**
 * struct walk_server_options
 * @trace, @symbols: live as long
 * @walk:   copied, but its string
 * @at:     where the gdb begins; NULL: at the end
 * @files:  of the processes, or NULL; lives as long
 */
struct walk_server_options {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct walk_options walk;
    const struct moment *at;
    struct process_symbols *files;
};

/* Errors: those of walk_new() */
struct walk_server *walk_server_new(const struct walk_server_options *options,
                                    GError **error);
void walk_server_free(struct walk_server *s);

/* Serves one gdb by two files, which can be one socket, in a main context; both
 * are taken.  @ended is called there when it has left; it may free the server.
 * NULL if nobody wants to know. */
void walk_server_serve(struct walk_server *s, GMainContext *context, int in,
                       int out, void (*ended)(void *opaque), void *opaque);

/* Interrupts what it is asked for; a signal handler can do it. */
void walk_server_interrupt(struct walk_server *s);

#endif /* BTRAIL_GDB_WALK_SERVER_H */
