/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests of a gdb: tables of how they begin, and what their arguments are
 *
 * Arguments are read and checked here, and nowhere else.  A schema has a letter
 * for each:
 *
 *   n   a number, one hexadecimal digit at least, of 64 bits
 *   t   a thread, as in "1", "p1.2", "0" (any) or "-1" (all)
 *   c   a character
 *   s   what is left, which can be nothing
 *   ?   what follows can be missing as a whole
 *
 * Other characters are those that must be there.
 */

#ifndef BTRAIL_GDB_PACKET_H
#define BTRAIL_GDB_PACKET_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The most arguments of a schema; what the table itself says follows. */
#define PACKET_WHICH    4
#define PACKET_VALUES   (PACKET_WHICH + 1)
/* No thread in particular */
#define PACKET_ANY      0

/**
 * struct packet_value - an argument; 0 and NULL if it is missing
 * @number: of n, t and c
 * @text:   of s; a part of the request
 */
struct packet_value {
    uint64_t number;
    const char *text;
};

/**
 * enum packet_kind - what can interrupt a request, and how it is answered then
 * @PACKET_ALONE: nothing: it takes no time, and needs nothing of the target
 * @PACKET_ASKS:  its user, and other gdbs: it is an error
 * @PACKET_RUNS:  the same: it is a stop
 * @PACKET_MONITOR: the same, of a command of the monitor
 */
enum packet_kind {
    PACKET_ALONE,
    PACKET_ASKS,
    PACKET_RUNS,
    PACKET_MONITOR,
};

/**
 * struct packet - a request
 * @name:   what it begins with
 * @serve:  answers it, now or later
 * @answer: that there always is, if there is no @serve
 * @which:  which one of those with the same @serve: values[PACKET_WHICH] there
 */
struct packet {
    const char *name;
    const char *schema;
    enum packet_kind kind;
    void (*serve)(void *opaque, const struct packet_value *values);
    const char *answer;
    bool which;
};

/* Reads what a schema has; false if @text is something else. */
bool packet_parse(const char *schema, const char *text,
                  struct packet_value values[PACKET_VALUES]);

/**
 * packet_find - the request in a table
 * @table: ends with a NULL name.  A name that another one begins with comes
 *         after that one; a request without arguments is its name alone.
 * @text:  gets what follows the name
 *
 * Returns NULL if it is not in it.
 */
const struct packet *packet_find(const struct packet *table,
                                 const char *request, const char **text);

/**
 * struct packet_move - what lets the target run
 * @step:   one instruction
 * @thread: of which, or PACKET_ANY
 */
struct packet_move {
    bool step;
    uint64_t thread;
};

/*
 * Reads the actions of a vCont: the first step decides, or else the first
 * action.  False if there is none, or one that is not known.
 */
bool packet_move_parse(const char *actions, struct packet_move *move);

/*
 * Reads a number and moves to after it; false if there is none, or it has more
 * than 64 bits.
 */
bool packet_number(const char **text, uint64_t *number);

/* The same of a thread */
bool packet_thread(const char **text, uint64_t *thread);

#endif /* BTRAIL_GDB_PACKET_H */
