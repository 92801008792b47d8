/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Triggers: what a session does when a branch goes to some address
 *
 * Only targets of branches count; the entry of a function is one.
 */

#ifndef BTRAIL_TRIGGER_H
#define BTRAIL_TRIGGER_H

#include "drain/session-filter.h"
#include "guest-linux/symbol-places.h"

/**
 * enum btrail_trigger_action
 *
 * @BTRAIL_TRIGGER_START: keep records from here on.  A session that has such a
 *                        trigger keeps none before, nor after a
 *                        BTRAIL_TRIGGER_STOP
 * @BTRAIL_TRIGGER_STOP:  keep no more records.  If no trigger can start the
 *                        session again, it ends
 * @BTRAIL_TRIGGER_DUMP:  notify the owner, which calls btrail_session_dump()
 *
 * The record of the branch itself is kept.  On other vCPUs the action takes
 * effect when that record is drained.
 */
enum btrail_trigger_action {
    BTRAIL_TRIGGER_START = 1,
    BTRAIL_TRIGGER_STOP = 2,
    BTRAIL_TRIGGER_DUMP = 3,
};

/**
 * struct btrail_trigger
 * @process: the process in which it counts: a pid or a name, as in
 *           struct btrail_session_filter; NULL for any, and for addresses of
 *           the kernel
 * @symbol:  or NULL; it counts as soon as its address is known
 * @user:    with @process and @symbol: the symbol is of a program or library
 *           that the process has mapped.  Otherwise of the guest's kernel
 * @address: without @symbol, linear address
 * @action:  enum btrail_trigger_action
 * @hits:    it acts at each hit with a multiple of this number; 0 is the same
 *           as 1
 * @longer_ns: a hit is a call that takes longer than this, see long-calls.h; 0
 *           for each branch to the address
 */
struct btrail_trigger {
    const char *process;
    const char *symbol;
    bool user;
    uint64_t address;
    unsigned action;
    uint64_t hits;
    uint64_t longer_ns;
};

/*
 * Matching.  One thread calls the functions, if nothing else is said.
 */

struct btrail_triggers;

/* Called when a trigger acts, with its number */
typedef void btrail_fired_fn(void *opaque, unsigned trigger,
                             enum btrail_trigger_action action);

/* @triggers and @files are copied; @files: NULL if the host has none. */
struct btrail_triggers *
btrail_triggers_new(const struct btrail_trigger *triggers, unsigned n,
                    const struct btrail_symbol_files *files,
                    btrail_fired_fn *fired, void *opaque);

/* A reference allows queries; only the session makes triggers act. */
struct btrail_triggers *btrail_triggers_ref(struct btrail_triggers *t);
void btrail_triggers_unref(struct btrail_triggers *t);

/*
 * For the scanner's thread: a snapshot, and symbols of the kernel in the form
 * of /proc/kallsyms
 */
void btrail_triggers_snapshot(struct btrail_triggers *t,
                              const struct btrail_snapshot *snapshot);
void btrail_triggers_symbols(struct btrail_triggers *t, const char *text,
                             size_t size);

/*
 * For the same thread: finds symbols of programs.  This may read files, and so
 * take a while, without any lock.
 */
void btrail_triggers_find(struct btrail_triggers *t,
                          const struct btrail_snapshot *snapshot,
                          const struct guest_memory *memory, unsigned levels);

/* Any thread: does a trigger need names of the guest? */
bool btrail_triggers_want_names(const struct btrail_triggers *t);

/*
 * Any thread: returns at how many places a trigger acts, 0 if its symbol has
 * not been found.  An address counts as one.
 */
unsigned btrail_triggers_places(const struct btrail_triggers *t, unsigned i);

/* Has a trigger got its first place since the last call? */
bool btrail_triggers_new_places(struct btrail_triggers *t);

/*
 * The gate of a session with triggers: what its capture records, whose device
 * has this tick.  A record is kept if records are being kept, or if it starts
 * or stops that.
 */
struct btrail_gate btrail_triggers_gate(struct btrail_triggers *t,
                                        uint64_t tick_ns);

/*
 * Time goes on although there are no records: calls whose threads wait can
 * become too long.
 */
void btrail_triggers_tick(struct btrail_triggers *t, uint64_t now);

/*
 * Any thread: are records being kept?  And, before the first record: keep them
 * as if a trigger had started that.
 */
bool btrail_triggers_keeping(const struct btrail_triggers *t);
void btrail_triggers_keep(struct btrail_triggers *t);

/* Are no more records kept, and no trigger can change that? */
bool btrail_triggers_over(const struct btrail_triggers *t);

#endif /* BTRAIL_TRIGGER_H */
