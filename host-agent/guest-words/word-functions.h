/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: functions that a process has compiled at run time
 *
 * They become a file like that of a program's functions, with a build-id that
 * nothing else has: a snapshot says that it is mapped where the process has
 * code that is no file's.
 */

#ifndef BTRAIL_WORD_FUNCTIONS_H
#define BTRAIL_WORD_FUNCTIONS_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest-words/word-queue.h"

#define WORD_FUNCTIONS_ID   20

/**
 * struct word_functions
 * @path: what they are called in place of a file
 * @id:   random
 * @names: of all
 * @sent: how many were there when they were sent last
 */
struct word_functions {
    char path[32];
    uint8_t id[WORD_FUNCTIONS_ID];
    struct word_queue all;
    struct word_queue names;
    guint sent;
};

/* @budget: what is kept is taken from it.  NULL if that is used up */
struct word_functions *word_functions_new(struct btrail_budget *budget,
                                          uint32_t pid);
void word_functions_free(struct word_functions *f);

/*
 * Takes whole lines of a perf-PID.map.  What is no line of one is ignored;
 * returns how many were left out, since the budget is used up.
 */
unsigned word_functions_take(struct word_functions *f, const char *lines);

/* Forgets all, as the process has. */
void word_functions_clear(struct word_functions *f);

/*
 * Are there so many new ones that they are worth a file?  At the end, any are.
 */
bool word_functions_due(const struct word_functions *f, bool end);

/*
 * The ELF file, to be unreferenced, or NULL if there are none.  Of two that
 * overlap it has the one that was said later; if they are too many, those that
 * were said last are missing.
 */
GByteArray *word_functions_file(const struct word_functions *f);

#endif /* BTRAIL_WORD_FUNCTIONS_H */
