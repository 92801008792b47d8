/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks as people name them, in places, in searches and in triggers
 *
 *   mark:NAME           each mark of this name
 *   mark:NAME=VALUE     those with this value; also with !=, <, <=, > and >=
 *   mark:, mark:=VALUE  those of any name
 *
 * A value is decimal or hexadecimal.  With a sign (-5, +0) it is that of a
 * signed number, and numbers are compared as signed ones.
 *
 * A name can have any of these characters, too.  The last of '=', '<' and '>'
 * is the condition's if a value follows and nothing else; with what is before
 * it, it makes the longest condition.
 */

#ifndef BTRAIL_MARK_WANTED_H
#define BTRAIL_MARK_WANTED_H

#include <stdbool.h>
#include <stdint.h>

enum mark_condition {
    MARK_ANY_VALUE = 0,         /* also none, and one that is not known */
    MARK_EQUAL,
    MARK_NOT_EQUAL,
    MARK_BELOW,
    MARK_AT_MOST,
    MARK_ABOVE,
    MARK_AT_LEAST,
};

/**
 * struct mark_wanted
 * @name:      empty for any
 * @condition: that the value meets
 * @is_signed: @value is, and others are
 */
struct mark_wanted {
    char *name;
    enum mark_condition condition;
    bool is_signed;
    uint64_t value;
};

/* False if a text does not begin with "mark:". */
bool mark_wanted_parse(const char *text, struct mark_wanted *wanted);

/* The name of @to is its own. */
void mark_wanted_copy(struct mark_wanted *to, const struct mark_wanted *from);
void mark_wanted_clear(struct mark_wanted *wanted);

bool mark_wanted_has_name(const struct mark_wanted *wanted, const char *name);

/* Does a value meet the condition?  Without a condition each one does. */
bool mark_wanted_has_value(const struct mark_wanted *wanted, uint64_t value);

#endif /* BTRAIL_MARK_WANTED_H */
