/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a mapping is of, beside what its flags say
 */

#ifndef BTRAIL_MAPPING_H
#define BTRAIL_MAPPING_H

#include <stdbool.h>
#include <string.h>

#include "backtrail/names.h"

/*
 * Can a process have put there what it has compiled?  Memory that it shares
 * with itself, to write at one address what it executes at another, is of a
 * file that has no name in any folder.
 */
static inline bool btrail_mapping_is_anonymous(uint32_t flags,
                                               const char *path)
{
    return !(flags & BTRAIL_MAPPING_FILE) ? *path != '[' ||
           !strncmp(path, "[anon", 5) || !strcmp(path, "[heap]") :
           !strncmp(path, "/memfd:", 7) || !strcmp(path, "/dev/zero");
}

/*
 * Is it of functions that the process has compiled, as the guest says?  They
 * are a file in which each is where its address is; see name-functions.h.
 */
static inline bool btrail_mapping_is_compiled(const struct btrail_mapping *m)
{
    return m->build_id_size && m->start && m->offset == m->start;
}

#endif /* BTRAIL_MAPPING_H */
