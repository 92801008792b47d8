/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The places of a symbol: where functions of programs and libraries are, in
 * each process that has them mapped
 *
 * A place is an address in an address space: each process has its own.  With
 * each snapshot (names.h) they are searched for: in a file on the host, if
 * there is one, or else in the process's own memory.
 */

#ifndef BTRAIL_SYMBOL_PLACES_H
#define BTRAIL_SYMBOL_PLACES_H

#include <glib.h>
#include <stdbool.h>

#include "backtrail/names.h"
#include "guest-linux/guest-memory.h"

/* A guest may have any number of processes of a name. */
#define BTRAIL_PLACES_MAX           4096
#define BTRAIL_PLACES_PROCESSES     1024
#define BTRAIL_PLACES_MODULES       16384   /* files that they have mapped */

/**
 * enum btrail_symbol_answer
 *
 * @BTRAIL_SYMBOL_NO_FILE: there is no such file: search elsewhere
 * @BTRAIL_SYMBOL_NONE:    the file has no such function
 * @BTRAIL_SYMBOL_FOUND:   it has one
 */
enum btrail_symbol_answer {
    BTRAIL_SYMBOL_NO_FILE,
    BTRAIL_SYMBOL_NONE,
    BTRAIL_SYMBOL_FOUND,
};

/**
 * btrail_symbol_fn - find a function in a file of the guest
 * @path:     of the file in the guest, absolute; may be anything
 * @build_id: of the file, @build_id_size bytes, or NULL
 * @symbol:   the function's name
 * @offset:   gets its offset in the file, with BTRAIL_SYMBOL_FOUND
 *
 * Called by a scanner's thread, without a lock of ours, so it may read files;
 * by several such threads at once if there are several captures.
 */
typedef enum btrail_symbol_answer
btrail_symbol_fn(void *opaque, const char *path, const uint8_t *build_id,
                 size_t build_id_size, const char *symbol, uint64_t *offset);

/**
 * struct btrail_symbol_files - files of the guest that the host has
 * @find:   NULL if it has none
 * @opaque: must live until the last capture is finished that has a session
 *          with it
 */
struct btrail_symbol_files {
    btrail_symbol_fn *find;
    void *opaque;
};

struct btrail_places;

/* @process: a pid or a name, as in struct btrail_session_filter */
struct btrail_places *
btrail_places_new(const char *process, const char *symbol,
                  const struct btrail_symbol_files *files);
void btrail_places_free(struct btrail_places *p);

/**
 * btrail_places_snapshot - search in the processes of a snapshot
 * @snapshot: of the guest
 * @memory:   of the guest
 * @levels:   of its page tables
 *
 * What cannot be read yet is tried again with each snapshot.  For one thread;
 * no other thread waits for it.
 */
void btrail_places_snapshot(struct btrail_places *p,
                            const struct btrail_snapshot *snapshot,
                            const struct guest_memory *memory,
                            unsigned levels);

/* Is the symbol at this address, with this CR3?  Any thread. */
bool btrail_places_has(struct btrail_places *p, uint64_t cr3,
                       uint64_t address);

/* The number of places; any thread */
unsigned btrail_places_count(const struct btrail_places *p);

/* Calls @fn with each address; for the thread of btrail_places_snapshot() */
void btrail_places_each(const struct btrail_places *p,
                        void (*fn)(void *opaque, uint64_t address),
                        void *opaque);

#endif /* BTRAIL_SYMBOL_PLACES_H */
