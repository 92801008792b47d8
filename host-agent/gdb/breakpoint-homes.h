/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The breakpoints of a gdb whose target runs many programs at the same
 * addresses
 *
 * gdb has one list of files, and does not say of the breakpoints in files that
 * are not in it any more whether it still wants them: it forgets that it has
 * set them, and sets them again when the file is back.  So each breakpoint
 * belongs to the file that was mapped at its address when it was set, its home;
 * one whose home is elsewhere stays, and one whose home is here is gone if gdb
 * has not set it.  A home is a number, see process-symbols.h; 0 is everywhere.
 */

#ifndef BTRAIL_GDB_BREAKPOINT_HOMES_H
#define BTRAIL_GDB_BREAKPOINT_HOMES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct breakpoint_homes;

/* Is a home here?  It is not asked for 0. */
typedef bool breakpoint_home_fn(void *opaque, unsigned home);

struct breakpoint_homes *breakpoint_homes_new(void);
void breakpoint_homes_free(struct breakpoint_homes *h);

unsigned breakpoint_homes_count(const struct breakpoint_homes *h);

/* gdb has set one, or removed it: @conditions is NULL; see breakpoints.h. */
void breakpoint_homes_set(struct breakpoint_homes *h, const char *key,
                          unsigned home, const char *conditions);

/* gdb has another list: what it has set elsewhere it knows no more. */
void breakpoint_homes_leave(struct breakpoint_homes *h,
                            breakpoint_home_fn *here, void *opaque);

/*
 * The target is to run: makes @breakpoints those that gdb has set, and those
 * whose home is elsewhere.  @forget: those that gdb has removed, or not set
 * again, here are gone
 */
void breakpoint_homes_insert(struct breakpoint_homes *h, bool forget,
                             breakpoint_home_fn *here, void *opaque,
                             GHashTable *breakpoints);

/**
 * enum breakpoint_owner - whose the breakpoints at an address are
 * @BREAKPOINT_NOBODYS: there are none
 * @BREAKPOINT_OTHERS:  all of them have a home elsewhere
 * @BREAKPOINT_OWN:     one is meant here
 */
enum breakpoint_owner {
    BREAKPOINT_NOBODYS,
    BREAKPOINT_OTHERS,
    BREAKPOINT_OWN,
};

/* @set: only those that gdb has set, and not removed */
enum breakpoint_owner breakpoint_homes_owner(const struct breakpoint_homes *h,
                                             uint64_t address, bool set,
                                             breakpoint_home_fn *here,
                                             void *opaque);

#endif /* BTRAIL_GDB_BREAKPOINT_HOMES_H */
