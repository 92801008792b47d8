/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Chunks to test stores with, and the files that come of them
 */

#ifndef STORE_SAMPLES_H
#define STORE_SAMPLES_H

#include "lib/agent/store.h"

/* The parts of a trace that are there, and their bytes */
struct store_parts {
    uint64_t total;
    uint32_t first, last;
    unsigned n;
};

struct store_parts store_parts(const char *path);

/*
 * Appends a DATA chunk of this many bytes, for record @index, made @index + 1
 * ms after the host's start.  Only its header is sound.
 */
int store_put_chunk(struct btrail_store *store, uint64_t index, size_t len);

#endif /* STORE_SAMPLES_H */
