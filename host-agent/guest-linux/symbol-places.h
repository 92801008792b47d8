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
#define PLACES_MAX           4096
#define PLACES_PROCESSES     1024
#define PLACES_MODULES       16384          /* files that they have mapped */
#define PLACES_OF_FILE       256            /* in each of those */

/**
 * enum symbol_answer
 *
 * @SYMBOL_NO_FILE: there is no such file: search elsewhere
 * @SYMBOL_NONE:    the file has no such function
 * @SYMBOL_FOUND:   it has some
 */
enum symbol_answer {
    SYMBOL_NO_FILE,
    SYMBOL_NONE,
    SYMBOL_FOUND,
};

/**
 * symbol_fn - find functions in a file of the guest
 * @path:     of the file in the guest, absolute; may be anything
 * @build_id: of the file, @build_id_size bytes, or NULL
 * @symbol:   the name of one function or several, see function_name_is()
 * @offsets:  with SYMBOL_FOUND, their offsets in the file (uint64_t) are added
 *            to it, in any order
 *
 * Called by a scanner's thread, without a lock of ours, so it may read files;
 * by several such threads at once if there are several captures.
 */
typedef enum symbol_answer
symbol_fn(void *opaque, const char *path, const uint8_t *build_id,
          size_t build_id_size, const char *symbol, GArray *offsets);

/**
 * struct symbol_files - files of the guest that the host has
 * @find:   NULL if it has none
 * @opaque: must live until the last capture is finished that has a session
 *          with it
 * @below:  another opaque for @find, which also looks below these folders and
 *          lives as long; NULL with an @error.  NULL: who asks for a session
 *          does not decide which files are read
 */
struct symbol_files {
    symbol_fn *find;
    void *opaque;
    void *(*below)(void *opaque, const char *const *folders, GError **error);
};

struct symbol_places;

/* @process: a pid or a name, as in struct session_filter */
struct symbol_places *
symbol_places_new(const char *process, const char *symbol,
                  const struct symbol_files *files);
void symbol_places_free(struct symbol_places *p);

/**
 * symbol_places_snapshot - search in the processes of a snapshot
 * @snapshot: of the guest
 * @memory:   of the guest
 * @levels:   of its page tables
 *
 * What cannot be read yet is tried again with each snapshot.  For one thread;
 * no other thread waits for it.
 */
void symbol_places_snapshot(struct symbol_places *p,
                            const struct btrail_snapshot *snapshot,
                            const struct guest_memory *memory,
                            unsigned levels);

/* Is a function of this name at this address, with this CR3?  Any thread. */
bool symbol_places_has(struct symbol_places *p, uint64_t cr3,
                       uint64_t address);

/* The number of places, and whether there are others that are ignored since
 * there are too many; any thread */
unsigned symbol_places_count(const struct symbol_places *p);
bool symbol_places_capped(const struct symbol_places *p);

/* Calls @fn with each address; for the thread of symbol_places_snapshot() */
void symbol_places_each(const struct symbol_places *p,
                        void (*fn)(void *opaque, uint64_t address),
                        void *opaque);

#endif /* BTRAIL_SYMBOL_PLACES_H */
