/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a session can be asked for, and the words for that in commands, in the
 * answers of the service and in traces
 *
 * virsh has this file, too.
 */

#ifndef BTRAIL_SESSION_WORDS_H
#define BTRAIL_SESSION_WORDS_H

#include <stdbool.h>

/**
 * enum session_mode
 * @SESSION_CONTINUOUS: all records, into a trace
 * @SESSION_LAST:       the last records, into a ring of which a dump
 *                             makes a trace
 */
enum session_mode {
    SESSION_CONTINUOUS = 0,
    SESSION_LAST = 1,
};

/**
 * enum trigger_action
 * @TRIGGER_START: keep records from here on.  A session that has such a
 *                        trigger keeps none before, nor after a
 *                        TRIGGER_STOP
 * @TRIGGER_STOP:  keep no more records.  If no trigger can start the
 *                        session again, it ends
 * @TRIGGER_DUMP:  have the owner of the session dump it
 *
 * The record of the branch itself is kept; of a mark whose value meets a
 * condition, the last one of the value.  On other vCPUs the action takes
 * effect when that record is drained.
 */
enum trigger_action {
    TRIGGER_START = 1,
    TRIGGER_STOP = 2,
    TRIGGER_DUMP = 3,
};

/* Whether to search the guest's memory for names; a larger value does more. */
enum names_wanted {
    NAMES_OFF = 0,
    NAMES_AUTO = 1,
    NAMES_ALL = 2,          /* the guest waits for each snapshot */
};

/* The most bytes that the name of a session has */
#define SESSION_MAX_NAME 63

/* The word for a value; NULL if there is no such value */
typedef const char *word_fn(unsigned value);

word_fn session_mode_name;
word_fn trigger_action_name;
word_fn names_wanted_name;

/* Above all values of such functions */
#define WORD_VALUES      5

/* Stores the value of a word; false if it is none, or NULL. */
bool word_find(word_fn *name, const char *word, unsigned *value);

/*
 * "WORD, WORD or WORD", for messages, with @quote at both ends of each word;
 * to be freed
 */
char *word_list(word_fn *name, const char *quote);

#endif /* BTRAIL_SESSION_WORDS_H */
