/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places, which are moments of a trace as people name them
 *
 *   123456              that many instructions after the recording began, if
 *                       the trace has instruction counts
 *   1.5s, 300ms         if the trace has instruction counts, the guest's time
 *                       since power-on; otherwise the time since the session's
 *                       start, as other commands print it.  It has a unit
 *   @N, VCPU:N          behind the record with this index
 *   FUNCTION            where a function of the kernel runs first
 *   PROCESS:FUNCTION    where a process of this name runs a function of its
 *                       programs, or of the kernel
 *   FUNCTION#N          where it runs for the Nth time
 *   first FUNCTION, last FUNCTION
 *   first PROCESS, last PROCESS
 *                       where a process of this name begins to run, or has run
 *                       last
 *   first exit of PROCESS, last exit of PROCESS
 *                       behind the last record of a process that has ended
 *
 *   mark:NAME, mark:NAME=VALUE
 *                       where a program has left a mark, see marks.h; also with
 *                       #N, and first and last before it
 *
 * In a replay, all but the first need the trace.
 */

#ifndef BTRAIL_PLACE_H
#define BTRAIL_PLACE_H

#include "symbolize/symbolizer.h"
#include "util/agent-error.h"
#include "walk/marks.h"
#include "walk/moment.h"

/* What a text means */
enum walk_place_kind {
    WALK_PLACE_ICOUNT,
    WALK_PLACE_TIME,
    WALK_PLACE_RECORD,
    WALK_PLACE_FUNCTION,
    WALK_PLACE_NAME,          /* a function of the kernel, or a process */
    WALK_PLACE_PROCESS,
    WALK_PLACE_EXIT,
    WALK_PLACE_MARK,
};

/**
 * struct walk_place
 * @kind:   of these
 * @number: instructions; nanoseconds; index; of a function or mark, how often,
 *          from 1
 * @last:   of a name, the last one
 * @one:    of a function or mark: one time is meant in particular, by a number,
 *          first or last
 * @vcpu:   of a record
 * @process: that a function is run by, or NULL
 * @name:   of a function or process
 * @mark:   its name is not NULL if it is one
 */
struct walk_place {
    enum walk_place_kind kind;
    uint64_t number;
    bool last;
    bool one;
    unsigned vcpu;
    char *process;
    char *name;
    struct mark_wanted mark;
};

/* False if the text is none of these, with an error that lists them. */
bool walk_place_parse(const char *text, struct walk_place *place,
                        GError **error);
void walk_place_clear(struct walk_place *place);

/* Splits "[PROCESS:]FUNCTION"; *@process gets NULL if there is none.  False if
 * it is not such a name. */
bool walk_place_split(const char *text, char **process, char **function);

/**
 * walk_place_find - the moment of a place
 * @symbols: of the trace, for functions of programs; NULL for none
 *
 * Errors: COMMAND: the trace has no such place; NAMES: the guest's kernel has
 * no such function, or the trace has no names.
 */
bool walk_place_find(const struct walk_place *place,
                     const struct btrail_trace *trace,
                     struct symbolizer *symbols, struct moment *at,
                     GError **error);

/**
 * walk_place_icount - the instruction of a place of a replay
 * @trace:  of the recording, or NULL if there is none yet
 * @icount: gets it
 * @exact:  false if the trace has no count for each record: @icount is then
 *          the last one that is known before the place
 *
 * Errors: those of walk_place_find(); COMMAND: there must be a trace, or one
 * with instruction counts.
 */
bool walk_place_icount(const struct walk_place *place,
                       const struct btrail_trace *trace,
                       struct symbolizer *symbols, uint64_t *icount,
                       bool *exact, GError **error);

#endif /* BTRAIL_PLACE_H */
