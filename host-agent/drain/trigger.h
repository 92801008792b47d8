/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Triggers: what a session does when a branch goes to some address, or a
 * program leaves a mark
 *
 * Only targets of branches count; the entry of a function is one.
 */

#ifndef BTRAIL_TRIGGER_H
#define BTRAIL_TRIGGER_H

#include "drain/lasting-call.h"
#include "drain/session-filter.h"
#include "guest-linux/symbol-places.h"
#include "lib/agent/budget.h"
#include "util/mark-wanted.h"
#include "util/session-words.h"

/**
 * struct trigger
 * @process: the process in which it counts: a pid or a name, as in
 *           struct session_filter; NULL for any, and for addresses of
 *           the kernel
 * @symbol:  or NULL; each function of this name, see function_name_is(), counts
 *           as soon as its address is known
 * @user:    with @process and @symbol: the symbol is of a program or library
 *           that the process has mapped.  Otherwise of the guest's kernel
 * @mark:    its name is not NULL if it is a mark; then without @symbol
 * @until:   its name is not NULL if a hit is a span from @mark to this mark, of
 *           one thread, which takes longer than @longer_ns; see open-spans.h.
 *           Both are without conditions
 * @address: without @symbol and @mark, linear address
 * @action:  enum trigger_action
 * @hits:    it acts at each hit with a multiple of this number; 0 is the same
 *           as 1
 * @once:    after it has acted it is off
 * @longer_ns: a hit is a call, or a span, that takes longer than this, see
 *           long-calls.h; 0 for each branch to the address
 */
struct trigger {
    const char *process;
    const char *symbol;
    bool user;
    struct mark_wanted mark;
    struct mark_wanted until;
    uint64_t address;
    unsigned action;
    uint64_t hits;
    bool once;
    uint64_t longer_ns;
};

/* Does it act only once something has been found in the guest? */
static inline bool trigger_is_wanted(const struct trigger *t)
{
    return t->symbol || t->mark.name;
}

/*
 * Matching.  One thread calls the functions, if nothing else is said.
 */

struct triggers;

/**
 * struct trigger_hit - what a trigger acts for
 * @trigger: its number
 * @took:    of a trigger with @longer_ns
 * @unsure:  marks are not found any more that may have been between
 */
struct trigger_hit {
    unsigned trigger;
    struct call_time took;
    bool unsure;
};

/* Called when a trigger acts */
typedef void fired_fn(void *opaque, const struct trigger_hit *hit,
                      enum trigger_action action);

/* @triggers and @files are copied; @files: NULL if the host has none. */
struct triggers *
triggers_new(const struct trigger *triggers, unsigned n,
             const struct symbol_files *files,
             fired_fn *fired, void *opaque);

/* A reference allows queries; only the session makes triggers act. */
struct triggers *triggers_ref(struct triggers *t);
void triggers_unref(struct triggers *t);

/*
 * For the scanner's thread: a snapshot, and symbols of a kernel in the form of
 * /proc/kallsyms: either its own, or all of what it has loaded, which take the
 * place of those before
 */
void triggers_snapshot(struct triggers *t,
                       const struct btrail_snapshot *snapshot);
void triggers_symbols(struct triggers *t, uint16_t kernel,
                      const char *text, size_t size);

/*
 * For the same thread: finds symbols of programs.  This may read files, and so
 * take a while, without any lock.
 */
void triggers_find(struct triggers *t,
                   const struct btrail_snapshot *snapshot,
                   const struct guest_memory *memory, unsigned levels);

/* Any thread: does a trigger need names of the guest?  The guest's code? */
bool triggers_want_names(const struct triggers *t);
bool triggers_want_code(const struct triggers *t);

/*
 * An item of code, before the records that execute it.  Returns whether a
 * trigger has got its first place.
 */
bool triggers_code(struct triggers *t, unsigned vcpu,
                   const struct btrail_code_item *item,
                   const uint8_t *page);

/* Is code missing that other vCPUs' items may have? */
bool triggers_lack_code(const struct triggers *t);

/*
 * Any thread: returns at how many places a trigger acts, 0 if its symbol has
 * not been found.  An address counts as one, and each content of a page that
 * has a mark.
 */
unsigned triggers_places(const struct triggers *t, unsigned i);

/* Any thread: the same of where spans end, of a trigger that has such */
unsigned triggers_ends(const struct triggers *t, unsigned i);

/* Any thread: are there more of them than it knows, which it ignores? */
bool triggers_capped(const struct triggers *t, unsigned i);

/*
 * Any thread: how many calls or spans has a trigger not measured, or not up to
 * their end?
 */
uint64_t triggers_left_out(const struct triggers *t, unsigned i);

/* Has the symbol of a trigger got its first place since the last call? */
bool triggers_new_places(struct triggers *t);

/*
 * The gate of a session with triggers: what its capture records, whose device
 * has this tick, of a guest that can have this many vCPUs.  A record is kept if
 * records are being kept, or if it starts or stops that.  What is kept of code
 * is taken from @budget, if there is one.  @doubtful: see
 * long_calls_set_doubtful().  Once
 */
struct gate triggers_gate(struct triggers *t,
                          uint64_t tick_ns, unsigned vcpus, bool doubtful,
                          struct btrail_budget *budget);

/* The gate has got all that the vCPU did before @time. */
void triggers_passed(struct triggers *t, unsigned vcpu,
                     uint64_t time);

/*
 * Time passes although there are no records: calls whose threads wait can
 * become too long.
 */
void triggers_tick(struct triggers *t);

/*
 * Any thread: are records being kept?  And, before the first record: keep them
 * as if a trigger had started that.
 */
bool triggers_keeping(const struct triggers *t);
void triggers_keep(struct triggers *t);

/*
 * Any thread: a trigger that acts once has acted, and is off.  It can be set
 * otherwise: if nothing has come of that, or before the first record.
 */
bool triggers_are_off(const struct triggers *t, unsigned i);
uint64_t triggers_off(const struct triggers *t);    /* a bit for each */
void triggers_set_off(struct triggers *t, unsigned i, bool off);

/* Are no more records kept, and no trigger can change that? */
bool triggers_over(const struct triggers *t);

#endif /* BTRAIL_TRIGGER_H */
