/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the CPU enters Linux: see entry-place.h
 */

#include <string.h>

#include "symbolize/entry-place.h"
#include "util/entry-names.h"

uint64_t entry_place_kind(const struct place *to)
{
    const struct function *f = to->function;
    size_t size = strlen(f->name);

    return f->known && (!to->offset || entry_is_table(f->name, size)) ?
           entry_kind(f->name, size) : 0;
}

uint64_t entry_place_handler(const struct place *to)
{
    uint64_t kind = entry_place_kind(to);

    return kind == BTRAIL_PSEUDO_SYSCALL ? 0 : kind;
}
