/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file that ledger writes and audit checks
 */

#ifndef LEDGER_H
#define LEDGER_H

#include <stdint.h>

#define BLOCK   1024
#define BLOCKS  1600
#define ENTRIES (BLOCK / sizeof(struct entry))

/* @check: of the two others */
struct entry {
    uint64_t number;
    uint64_t amount;
    uint64_t check;
    uint64_t unused;
};

static inline uint64_t check_of(const struct entry *e)
{
    return (e->number * 6364136223846793005ull) ^ e->amount;
}

#endif /* LEDGER_H */
