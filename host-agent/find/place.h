/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places, which are moments of a trace as people name them
 *
 *   123456              that many instructions after the recording began, if
 *                       the trace has instruction counts
 *   1.5s, 300ms         if the trace has instruction counts, the guest's time
 *                       since power-on; otherwise the time since the session's
 *                       start, as other commands print it.  It has a unit
 *   @N, VCPU:N          after the record with this index
 *   FUNCTION            where a function of the kernel runs first
 *   PROCESS:FUNCTION    where a process of this name runs a function of its
 *                       programs, or of the kernel
 *   FUNCTION#N          where it runs for the Nth time
 *   first FUNCTION, last FUNCTION
 *   first PROCESS, last PROCESS
 *                       where a process of this name begins to run, or has run
 *                       last
 *   first exit of PROCESS, last exit of PROCESS
 *                       after the last record of a process that has ended
 *
 *   mark:NAME, mark:NAME=VALUE
 *                       where a program has left a mark, see marks.h; also with
 *                       #N, and first and last before it
 *
 *   output "TEXT"       where the guest has written the last byte of a text to
 *                       a serial port, with escapes as in unquote.h; also with
 *                       #N, and first and last before it.  A recording has it,
 *                       and no trace: see replay/guest-output.h
 *
 * In a replay, all but the first and the last need the trace.
 */

#ifndef BTRAIL_PLACE_H
#define BTRAIL_PLACE_H

#include "find/marks.h"
#include "find/moment.h"
#include "find/past.h"
#include "symbolize/symbolizer.h"
#include "util/agent-error.h"

/* What a text means */
enum find_place_kind {
    FIND_PLACE_ICOUNT,
    FIND_PLACE_TIME,
    FIND_PLACE_RECORD,
    FIND_PLACE_FUNCTION,
    FIND_PLACE_NAME,          /* a function of the kernel, or a process */
    FIND_PLACE_PROCESS,
    FIND_PLACE_EXIT,
    FIND_PLACE_MARK,
    FIND_PLACE_OUTPUT,
};

/**
 * struct find_place
 * @kind:   of these
 * @number: instructions; nanoseconds; index; of a function, mark or output, how
 *          often, from 1
 * @last:   of a name or output, the last one
 * @one:    of a function, mark or output: one time is meant in particular, by a number,
 *          first or last
 * @vcpu:   of a record
 * @process: that a function is run by, or NULL
 * @name:   of a function or process; the bytes of output
 * @length: how many bytes of output there are, at least 1
 * @mark:   its name is not NULL if it is one
 */
struct find_place {
    enum find_place_kind kind;
    uint64_t number;
    bool last;
    bool one;
    unsigned vcpu;
    char *process;
    char *name;
    size_t length;
    struct mark_wanted mark;
};

/* False if the text is none of these, with an error that lists them. */
bool find_place_parse(const char *text, struct find_place *place,
                        GError **error);
void find_place_clear(struct find_place *place);

/* Splits "[PROCESS:]FUNCTION"; *@process gets NULL if there is none.  False if
 * it is not such a name. */
bool find_place_split(const char *text, char **process, char **function);

/**
 * find_place_find - the moment of a place
 * @symbols: of the trace, for functions of programs; NULL for none
 *
 * Errors: COMMAND: the trace has no such place, or it is output; NAMES: the guest's kernel has
 * no such function, or the trace has no names.
 */
bool find_place_find(const struct find_place *place,
                     const struct btrail_trace *trace,
                     struct symbolizer *symbols, struct moment *at,
                     GError **error);

/*
 * The moment of the vCPU that had executed this many instructions last; @past
 * is of @trace.  Of many moments, those that come in order are quick.  False if
 * the trace begins later.
 */
bool find_place_count(struct past *past, const struct btrail_trace *trace,
                      uint64_t icount, struct moment *at);

/**
 * find_place_icount - the instruction of a place of a replay
 * @trace:  of the recording, or NULL if there is none yet
 * @icount: gets it
 * @exact:  false if the trace has no count for each record: @icount is then
 *          the last one that is known before the place
 *
 * Errors: those of find_place_find(); COMMAND: there must be a trace, or one
 * with instruction counts.
 */
bool find_place_icount(const struct find_place *place,
                       const struct btrail_trace *trace,
                       struct symbolizer *symbols, uint64_t *icount,
                       bool *exact, GError **error);

#endif /* BTRAIL_PLACE_H */
