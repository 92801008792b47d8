/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Values of QEMU's options: key=value,key=value
 *
 * A comma in a value is written twice.  A first element without "=" can stand
 * for a key that the option implies; others are switches.
 */

#ifndef BTRAIL_OPTION_LIST_H
#define BTRAIL_OPTION_LIST_H

#include <glib.h>
#include <stdbool.h>

/**
 * struct option_pair
 * @key:   never NULL
 * @value: NULL for a switch
 */
struct option_pair {
    char *key;
    char *value;
};

/* Of struct option_pair; @implied is the key of a first element without "=",
 * or NULL.  Free it with g_ptr_array_unref(). */
GPtrArray *option_list_parse(const char *text, const char *implied);

/* The text of a list, to be freed; @implied as above */
char *option_list_format(const GPtrArray *list, const char *implied);

/* The last value of a key; NULL if there is none */
const char *option_list_get(const GPtrArray *list, const char *key);

/* Sets a key, instead of all that it had. */
void option_list_set(GPtrArray *list, const char *key, const char *value);

/* Removes a key; its last value, to be freed, or NULL */
char *option_list_take(GPtrArray *list, const char *key);

/* The first key that is not in @known, which ends with NULL; NULL if all are */
const char *option_list_unknown(const GPtrArray *list,
                                const char *const *known);

#endif /* BTRAIL_OPTION_LIST_H */
