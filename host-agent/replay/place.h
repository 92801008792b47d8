/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places of a replay as people name them
 *
 *   123456              that many instructions after the recording began
 *   1.5s, 300ms         the guest's time since power-on; it has a unit
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
 * All but the first need the trace.
 */

#ifndef BTRAIL_REPLAY_PLACE_H
#define BTRAIL_REPLAY_PLACE_H

#include "symbolize/symbolizer.h"
#include "util/agent-error.h"

/* What a text means */
enum replay_place_kind {
    REPLAY_PLACE_ICOUNT,
    REPLAY_PLACE_TIME,
    REPLAY_PLACE_RECORD,
    REPLAY_PLACE_FUNCTION,
    REPLAY_PLACE_NAME,          /* a function of the kernel, or a process */
    REPLAY_PLACE_PROCESS,
    REPLAY_PLACE_EXIT,
};

/**
 * struct replay_place
 * @kind:   of these
 * @number: instructions; nanoseconds; index; of a function, how often, from 1
 * @last:   of a name, the last one
 * @vcpu:   of a record
 * @process: that a function is run by, or NULL
 * @name:   of a function or process
 */
struct replay_place {
    enum replay_place_kind kind;
    uint64_t number;
    bool last;
    unsigned vcpu;
    char *process;
    char *name;
};

/* False if the text is none of these, with an error that lists them. */
bool replay_place_parse(const char *text, struct replay_place *place,
                        GError **error);
void replay_place_clear(struct replay_place *place);

/* Splits "[PROCESS:]FUNCTION"; *@process gets NULL if there is none.  False if
 * it is not such a name. */
bool replay_place_split(const char *text, char **process, char **function);

/**
 * replay_place_find - the instruction of a place
 * @trace:  of the recording, or NULL if there is none yet
 * @symbols: of the trace, for functions of programs; NULL for none
 * @icount: gets it
 * @exact:  false if the trace has no count for each record: @icount is then
 *          the last one that is known before the place
 *
 * Errors: COMMAND: the trace has no such place, or there must be a trace.
 */
bool replay_place_find(const struct replay_place *place,
                       const struct btrail_trace *trace,
                       struct symbolizer *symbols, uint64_t *icount,
                       bool *exact, GError **error);

#endif /* BTRAIL_REPLAY_PLACE_H */
