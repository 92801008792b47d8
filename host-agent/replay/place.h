/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places of a replay as people name them
 *
 *   123456              that many instructions after the machine was switched on
 *   1.5s, 300ms         a time of the guest, from then on; it has a unit
 *   @N, VCPU:N          behind the record with this index
 *   FUNCTION            where a function of the kernel runs first
 *   FUNCTION#N          where it runs for the Nth time
 *   first FUNCTION, last FUNCTION
 *   first exit of NAME, last exit of NAME
 *                       behind the last record of a process of this name
 *
 * All but the first need the trace.
 */

#ifndef BTRAIL_REPLAY_PLACE_H
#define BTRAIL_REPLAY_PLACE_H

#include "backtrail/trace.h"
#include "util/agent-error.h"

/* What a text means */
enum replay_place_kind {
    REPLAY_PLACE_ICOUNT,
    REPLAY_PLACE_TIME,
    REPLAY_PLACE_RECORD,
    REPLAY_PLACE_FUNCTION,
    REPLAY_PLACE_EXIT,
};

/**
 * struct replay_place
 * @kind:   of these
 * @number: instructions; nanoseconds; index; of a function, how often, from 1
 * @last:   of a function or exit, the last one
 * @vcpu:   of a record
 * @name:   of a function or process
 */
struct replay_place {
    enum replay_place_kind kind;
    uint64_t number;
    bool last;
    unsigned vcpu;
    char *name;
};

/* False if the text is none of these, with an error that lists them. */
bool replay_place_parse(const char *text, struct replay_place *place,
                        GError **error);
void replay_place_clear(struct replay_place *place);

/**
 * replay_place_find - the instruction of a place
 * @trace:  of the recording, or NULL if there is none yet
 * @icount: gets it
 * @exact:  false if the trace has no count for each record: @icount is then
 *          the last one that is known before the place
 *
 * Errors: COMMAND: the trace has no such place, or there must be a trace.
 */
bool replay_place_find(const struct replay_place *place,
                       const struct btrail_trace *trace, uint64_t *icount,
                       bool *exact, GError **error);

#endif /* BTRAIL_REPLAY_PLACE_H */
