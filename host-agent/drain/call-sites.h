/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where calls of a function come from, and whether a branch can be the return
 * of one
 */

#ifndef BTRAIL_CALL_SITES_H
#define BTRAIL_CALL_SITES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* As many are remembered.  The guest chooses them. */
#define CALL_SITES_MAX  4096

/* The longest call instruction that is in use: REX, FF /2, SIB, disp32 */
#define CALL_SITES_SIZE 9

struct call_sites;

struct call_sites *call_sites_new(void);
void call_sites_free(struct call_sites *sites);

/*
 * A call comes from there.  A new site is known since the number to which *@now
 * grows.  Returns false if there are too many.
 */
bool call_sites_add(struct call_sites *sites, uint64_t from, uint64_t *now);

/* Can a call from there return to @to? */
static inline bool call_sites_match(uint64_t from, uint64_t to)
{
    return to - from - 1 < CALL_SITES_SIZE;
}

/* Can a call from any site return there?  Quick: the true answer can be no */
bool call_sites_may_return(const struct call_sites *sites, uint64_t to);

/* The same for sure */
bool call_sites_return(const struct call_sites *sites, uint64_t to);

/* One from this site has, so it is no jump. */
void call_sites_set_returned(struct call_sites *sites, uint64_t from);
bool call_sites_has_returned(const struct call_sites *sites, uint64_t from);

/* Since when the site is known */
uint64_t call_sites_known_since(const struct call_sites *sites, uint64_t from);

#endif /* BTRAIL_CALL_SITES_H */
