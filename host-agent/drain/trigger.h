/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Triggers: what a session does when a branch goes to some address
 *
 * Only the targets of branches are looked at; the entry of a function is one.
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
 * @BTRAIL_TRIGGER_STOP:  keep none any more.  If there is no trigger that
 *                        starts it again, the session ends
 * @BTRAIL_TRIGGER_DUMP:  tell the owner, who calls btrail_session_dump()
 *
 * The record of the branch itself is kept.  On other vCPUs it is from, or up
 * to, the moment at which it is drained.
 */
enum btrail_trigger_action {
    BTRAIL_TRIGGER_START = 1,
    BTRAIL_TRIGGER_STOP = 2,
    BTRAIL_TRIGGER_DUMP = 3,
};

/**
 * struct btrail_trigger
 * @process: in which process it counts: a pid or a name, as in
 *           struct btrail_session_filter; NULL in any, and for addresses of
 *           the kernel
 * @symbol:  or NULL; it counts as soon as it is known where that is
 * @user:    with @process and @symbol: of a program or library that the
 *           process has mapped.  Without, of the guest's kernel
 * @address: without @symbol, linear address
 * @action:  enum btrail_trigger_action
 * @hits:    it acts when there have been so many hits, and begins to count
 *           anew; 0 is the same as 1
 */
struct btrail_trigger {
    const char *process;
    const char *symbol;
    bool user;
    uint64_t address;
    unsigned action;
    uint64_t hits;
};

/*
 * Matching, by one thread but for what is said to be for any.
 */

struct btrail_triggers;

/* A trigger acts: its number, and what it does */
typedef void btrail_fired_fn(void *opaque, unsigned trigger,
                             enum btrail_trigger_action action);

/* They are copied, and @files; NULL if nobody knows files on the host. */
struct btrail_triggers *
btrail_triggers_new(const struct btrail_trigger *triggers, unsigned n,
                    const struct btrail_symbol_files *files,
                    btrail_fired_fn *fired, void *opaque);

/* Whoever has a reference can still look; nothing fires without a session. */
struct btrail_triggers *btrail_triggers_ref(struct btrail_triggers *t);
void btrail_triggers_unref(struct btrail_triggers *t);

/*
 * By the thread that snapshots: who was found, and symbols of the kernel in the
 * form of /proc/kallsyms
 */
void btrail_triggers_snapshot(struct btrail_triggers *t,
                          const struct btrail_snapshot *snapshot);
void btrail_triggers_symbols(struct btrail_triggers *t, const char *text,
                             size_t size);

/*
 * The same thread: find symbols of programs.  This may read files, and so take
 * a while; it waits for nobody, and nobody for it.
 */
void btrail_triggers_find(struct btrail_triggers *t,
                          const struct btrail_snapshot *snapshot,
                          const struct guest_memory *memory, unsigned levels);

/* Any thread: is there a trigger that has to be looked for? */
bool btrail_triggers_want_names(const struct btrail_triggers *t);

/*
 * Any thread: at how many places a trigger acts, 0 if its symbol has not been
 * found.  An address counts as one.
 */
unsigned btrail_triggers_places(const struct btrail_triggers *t, unsigned i);

/* Is there a place of a trigger that had none when this was asked last? */
bool btrail_triggers_new_places(struct btrail_triggers *t);

/*
 * A branch goes to an address; a btrail_gate_fn.  True if it is to be kept:
 * records are being kept, or this is the one that ends or begins that.
 */
bool btrail_triggers_pass(void *t, uint64_t cr3, uint64_t to);

/*
 * Any thread: are records being kept?  And: they are, as if a trigger had begun
 * that, before the first one.
 */
bool btrail_triggers_keeping(const struct btrail_triggers *t);
void btrail_triggers_keep(struct btrail_triggers *t);

/* No record is kept any more, and there is nothing that could change that. */
bool btrail_triggers_over(const struct btrail_triggers *t);

#endif /* BTRAIL_TRIGGER_H */
