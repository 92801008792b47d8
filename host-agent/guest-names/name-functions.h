/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: functions that a process has compiled at run time
 *
 * They become a file like that of a program's functions, with a build-id that
 * nothing else has: a snapshot says that this file is mapped where the process
 * has code of no file.
 */

#ifndef BTRAIL_NAME_FUNCTIONS_H
#define BTRAIL_NAME_FUNCTIONS_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest-names/name-queue.h"
#include "util/compiled-functions.h"

/**
 * struct name_functions
 * @path: what they are called in place of a file
 * @id:   random
 * @names: of all
 * @sent: how many were there when they were sent last
 */
struct name_functions {
    char path[COMPILED_FUNCTIONS_PATH];
    uint8_t id[COMPILED_FUNCTIONS_ID];
    struct name_queue all;
    struct name_queue names;
    guint sent;
};

/* @budget: what is kept is taken from it.  NULL if that is used up */
struct name_functions *name_functions_new(struct btrail_budget *budget,
                                          uint32_t pid);
void name_functions_free(struct name_functions *f);

/*
 * Takes whole lines of a perf-PID.map.  Whatever is not such a line is ignored;
 * returns how many were left out, since the budget is used up.
 */
unsigned name_functions_take(struct name_functions *f, const char *lines);

/* Forgets all, as the process has. */
void name_functions_clear(struct name_functions *f);

/*
 * Are there enough new ones to be worth a file?  At the end, any are.
 */
bool name_functions_due(const struct name_functions *f, bool end);

/*
 * The ELF file of compiled-functions.h, to be unreferenced, or NULL if there are
 * none
 */
GByteArray *name_functions_file(const struct name_functions *f);

#endif /* BTRAIL_NAME_FUNCTIONS_H */
