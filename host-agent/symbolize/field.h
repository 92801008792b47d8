/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a record has by name: columns of reports, fields of expressions
 *
 * backtrail-report(1) describes them.
 */

#ifndef BTRAIL_FIELD_H
#define BTRAIL_FIELD_H

#include "symbolize/symbolizer.h"

enum field {
    FIELD_COMM, FIELD_PID, FIELD_TID, FIELD_CR3, FIELD_CPU,
    FIELD_DSO, FIELD_SYM, FIELD_SRCLINE, FIELD_FROM,
    FIELD_TO, FIELD_SYM_TO, FIELD_DSO_TO, FIELD_SRCLINE_TO,
    /* These are no columns. */
    FIELD_TIME, FIELD_INDEX, FIELD_FILE, FIELD_LINE, FIELD_USER, FIELD_KERNEL,
    N_FIELDS,
};

enum field_type {
    FIELD_TYPE_TEXT,
    FIELD_TYPE_NUMBER,
    FIELD_TYPE_CR3,
    FIELD_TYPE_SIGNED,          /* -1 if it is not known */
    FIELD_TYPE_TIME,            /* the same, in nanoseconds */
    FIELD_TYPE_BOOL,
};

/* Room for the text of a field, with a NUL */
#define FIELD_TEXT  512

/**
 * struct named_record - a record, and what its addresses mean
 * @time:       nanoseconds since the session's start, or -1
 * @certainty:  how sure @process is
 * @from_place, @to_place: can be NULL
 * @lines:      finds source lines; can be NULL
 * @where:      a place with the same names; NULL if the caller has none
 * @enters:     of a block (see struct profile_options): it ends where a program
 *              enters the kernel
 */
struct named_record {
    unsigned vcpu;
    uint64_t index;
    int64_t time;
    uint64_t from;
    uint64_t to;
    const struct process *process;
    enum btrail_certainty certainty;
    const struct place *from_place;
    const struct place *to_place;
    struct symbolizer *lines;
    const struct symbolizer_where *where;
    bool enters;
};

/* Name @i of all; NULL after the last one.  Some fields have several. */
const char *field_name(unsigned i);

/* Finds a field by any of its names; N_FIELDS if there is none. */
enum field field_find(const char *name);

/*
 * The names of the columns of reports, in the same way.  "line" and "file" are
 * both of the column FIELD_SRCLINE.
 */
const char *field_column_name(unsigned i);
enum field field_find_column(const char *name);

/* Its name in JSON */
const char *field_json(enum field f);

/* The title of a column */
const char *field_title(enum field f);

enum field_type field_type(enum field f);

/* Do many records, one after the other, have the same? */
bool field_is_common(enum field f);

/*
 * Does a record have that field of its target?  Otherwise it is of its source,
 * or of both.
 */
bool field_is_target(enum field f);

/*
 * The text of a field that is none of TIME, INDEX, USER and KERNEL; @buf has room
 * for it.  A source line that is not known is "".
 */
const char *field_text(enum field f, const struct named_record *r,
                       char buf[FIELD_TEXT]);

/* Is it a function that somebody means by this name?  See function_name_is(). */
bool field_is_function(enum field f, const struct named_record *r,
                       const char *name);

/* The value of a field that is no text */
uint64_t field_number(enum field f, const struct named_record *r);

#endif /* BTRAIL_FIELD_H */
