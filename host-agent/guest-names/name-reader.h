/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: from the bytes of backtrail-guest-names to messages
 *
 * The guest can send anything.  What a message says is checked for being
 * possible, not for being true.
 */

#ifndef BTRAIL_NAME_READER_H
#define BTRAIL_NAME_READER_H

#include <glib.h>
#include <stdbool.h>

#include "backtrail/guest-names.h"

/**
 * struct word - a message
 * @type:  enum btrail_guest_type: which member of the union it has
 * @text, @size: what follows the struct, in that order; each has a NUL after
 *         it, and none inside, except arguments (the third of a process),
 *         build-ids (the second of a mapping) and the bytes of files
 * @list:  of SWITCHES, in the order of time
 */
struct word {
    uint16_t type;
    union {
        struct btrail_guest_hello hello;
        struct btrail_guest_listing listing;
        struct btrail_guest_process process;
        struct btrail_guest_thread thread;
        struct btrail_guest_mapping mapping;
        struct btrail_guest_fork fork;
        struct btrail_guest_exit exit;
        struct btrail_guest_name name;
        struct btrail_guest_switches switches;
        struct btrail_guest_up_to up_to;
        struct btrail_guest_lost lost;
        struct btrail_guest_symbols symbols;
        struct btrail_guest_functions functions;
        struct btrail_guest_flushed flushed;
        struct btrail_guest_content content;
    };
    const char *text[3];
    uint32_t size[3];
    const struct btrail_guest_switch *list;
};

struct name_reader;

/* Called for each message; its texts are valid during the call. */
typedef void name_reader_fn(void *opaque, const struct word *word);

/* Fills in an OPEN message with a random nonce; the reader is that of the reply. */
struct name_reader *name_reader_open(struct btrail_guest_open *open,
                                     uint32_t wants);

/* @nonce is the one of the OPEN message: bytes before its HELLO are skipped. */
struct name_reader *name_reader_new(uint64_t nonce);
void name_reader_free(struct name_reader *r);

/* Has HELLO come? */
bool name_reader_begun(const struct name_reader *r);

/**
 * name_reader_feed - take bytes
 * @why: gets what is wrong, to be freed
 *
 * Returns false if the guest has broken the protocol; the reader is of no use
 * then.
 */
bool name_reader_feed(struct name_reader *r, const void *data, size_t size,
                      name_reader_fn *fn, void *opaque, char **why);

#endif /* BTRAIL_NAME_READER_H */
