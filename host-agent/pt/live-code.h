/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code of a guest that runs, read from its memory while it is executed
 *
 * Pages are read when a stream first has their address space, when they are
 * asked for, and again from time to time; what was seen is in a store of code.
 * A guest changes its page tables while they are read: what was found through
 * them counts only if they lead there afterwards, too.
 */

#ifndef BTRAIL_LIVE_CODE_H
#define BTRAIL_LIVE_CODE_H

#include "guest-linux/guest-memory.h"
#include "pt/code-store.h"
#include "pt/linked-blocks.h"

/**
 * struct live_code_options
 * @levels: as for frozen_code_new()
 * @memory: of the store, see code_store_new()
 * @spaces: address spaces that are told apart at most; 0: as many as usual
 * @pages:  that are asked for and read again; if there are more, all blocks
 *          are dropped.  0: as many as usual
 * @quiet:  for how long code must have been the same where other code can come:
 *          of a kernel's modules; where a program has mapped other pages.  In
 *          the unit of @now; 0: as long as usual
 * @alone:  how long a program is not looked at at most for code that is new to
 *          be known to have been there; in the same unit, 0: as usual
 * @always: all code of the kernel is taken to be there always, but for what it
 *          patches
 * @now:    the time, of which all times are; NULL: clock_ns()
 */
struct live_code_options {
    unsigned levels;
    size_t memory;
    size_t spaces;
    size_t pages;
    uint64_t quiet;
    uint64_t alone;
    bool always;
    uint64_t (*now)(void *opaque);
    void *now_opaque;
};

/**
 * struct live_code_count
 * @spaces:  address spaces whose page tables were read, again and again
 * @tables:  page tables that were read for them, and to see whose they are
 * @read:    pages that were read for them
 * @asked:   pages that were read as they were asked for
 * @checked: pages that were read again
 * @raced:   page tables that have changed while they were read
 */
struct live_code_count {
    uint64_t spaces;
    uint64_t tables;
    uint64_t read;
    uint64_t asked;
    uint64_t checked;
    uint64_t raced;
};

struct live_code;

/* Blocks of this page are not to be used any more. */
typedef void live_code_change_fn(void *opaque, uint64_t cr3, uint64_t page);

/* @memory must outlive it. */
struct live_code *live_code_new(const struct guest_memory *memory,
                                const struct live_code_options *options,
                                live_code_change_fn *change, void *opaque);
void live_code_free(struct live_code *c);

uint64_t live_code_now(const struct live_code *c);

/* A stream has this CR3: its page tables are read at once if it is new, and
 * again some times, rarer and rarer. */
void live_code_see(struct live_code *c, uint64_t cr3);

/* The same for those that were new a short time ago: programs are not in
 * memory when their page tables are first used. */
void live_code_poll(struct live_code *c);

/*
 * Reads all pages again that were asked for.  What is executed before, and is
 * decoded afterwards, is decoded with what was seen before and after it.
 */
void live_code_check(struct live_code *c);

/**
 * enum live_code_choice - which of two contents of a page is taken
 * @LIVE_CODE_NEITHER: such a page is PT_CODE_CHANGED
 */
enum live_code_choice {
    LIVE_CODE_NEITHER,
    LIVE_CODE_BEFORE,
    LIVE_CODE_AFTER,
};

/**
 * struct live_code_view - what is asked for, of one stream
 * @from, @until: the code is executed between them
 * @choice:  see there
 * @chosen:  gets true if there were two contents of a page
 * @passing: of struct live_code_place: pages with blocks that hold for this
 *           time alone
 */
struct live_code_view {
    struct live_code *code;
    uint64_t from, until;
    enum live_code_choice choice;
    bool chosen;
    GArray *passing;
};

struct live_code_place {
    uint64_t cr3;
    uint64_t page;
};

/* The view is the first argument.  Reads what was not seen since @until. */
pt_code_fn live_code_read;

/* Have pages with two contents been seen for which this time is between? */
bool live_code_has_changed(const struct live_code *c, uint64_t from,
                           uint64_t until);

const struct live_code_count *live_code_counted(const struct live_code *c);
const struct code_store_count *live_code_stored(const struct live_code *c);

#endif /* BTRAIL_LIVE_CODE_H */
