/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Triggers: what a session does when a branch goes to some address, or a
 * program leaves a mark
 *
 * Only targets of branches count; the entry of a function is one.
 */

#ifndef BTRAIL_TRIGGER_H
#define BTRAIL_TRIGGER_H

#include "drain/session-filter.h"
#include "guest-linux/symbol-places.h"
#include "lib/internal/budget.h"
#include "util/mark-wanted.h"

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
 * The record of the branch itself is kept; of a mark whose value meets a
 * condition, the last one of the value.  On other vCPUs the action takes
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
 * @mark:    its name is not NULL if it is a mark; then without @symbol
 * @address: without @symbol and @mark, linear address
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
    struct mark_wanted mark;
    uint64_t address;
    unsigned action;
    uint64_t hits;
    uint64_t longer_ns;
};

/* Does it act only once something has been found in the guest? */
static inline bool btrail_trigger_is_sought(const struct btrail_trigger *t)
{
    return t->symbol || t->mark.name;
}

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
 * For the scanner's thread: a snapshot, and symbols of a kernel in the form of
 * /proc/kallsyms: either its own, or all of what it has loaded, which take the
 * place of those before
 */
void btrail_triggers_snapshot(struct btrail_triggers *t,
                              const struct btrail_snapshot *snapshot);
void btrail_triggers_symbols(struct btrail_triggers *t, uint16_t kernel,
                             const char *text, size_t size);

/*
 * For the same thread: finds symbols of programs.  This may read files, and so
 * take a while, without any lock.
 */
void btrail_triggers_find(struct btrail_triggers *t,
                          const struct btrail_snapshot *snapshot,
                          const struct guest_memory *memory, unsigned levels);

/* Any thread: does a trigger need names of the guest?  The guest's code? */
bool btrail_triggers_want_names(const struct btrail_triggers *t);
bool btrail_triggers_want_code(const struct btrail_triggers *t);

/* An item of code, before the records that execute it.  Returns whether a
 * trigger has got its first place. */
bool btrail_triggers_code(struct btrail_triggers *t, unsigned vcpu,
                          const struct btrail_code_item *item,
                          const uint8_t *page);

/* Is code missing that other vCPUs' items may have? */
bool btrail_triggers_lack_code(const struct btrail_triggers *t);

/*
 * Any thread: returns at how many places a trigger acts, 0 if its symbol has
 * not been found.  An address counts as one, and each content of a page that
 * has a mark.
 */
unsigned btrail_triggers_places(const struct btrail_triggers *t, unsigned i);

/* Has the symbol of a trigger got its first place since the last call? */
bool btrail_triggers_new_places(struct btrail_triggers *t);

/*
 * The gate of a session with triggers: what its capture records, whose device
 * has this tick, of a guest that can have so many vCPUs.  A record is kept if
 * records are being kept, or if it starts or stops that.  What is kept of code
 * is taken from @budget, if there is one.  Once
 */
struct btrail_gate btrail_triggers_gate(struct btrail_triggers *t,
                                        uint64_t tick_ns, unsigned vcpus,
                                        struct btrail_budget *budget);

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
