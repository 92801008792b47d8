/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: which page tables a space has
 *
 * No program in the guest knows its page tables, and no trace of such a guest
 * says which process runs.  Two things bring them together:
 *
 * - Samples.  At a time of the guest's TSC, a vCPU had a CR3 (each TIME event of
 *   a trace says so), and the guest says which task the CPU of that number ran
 *   then.  A space whose samples agree has those page tables.
 * - Pages.  User code at an address was executed with a CR3.  The space must
 *   have it mapped for execution.  Addresses are random in each process, so
 *   where there are no samples the only space that has all pages is the right
 *   one.
 *
 * Both can be wrong: what comes of them is likely, and never sure.
 */

#ifndef BTRAIL_NAME_OWNERS_H
#define BTRAIL_NAME_OWNERS_H

#include "guest-names/name-spaces.h"

/* A vCPU had page tables at a moment */
struct name_sample {
    uint64_t tsc;
    uint64_t host;              /* CLOCK_MONOTONIC */
    uint64_t root;
    uint32_t vcpu;
};

/* Code at an address was executed first between two moments */
struct name_page {
    uint64_t from;              /* TSC */
    uint64_t to;
    uint64_t root;
    uint64_t address;
};

struct name_owners;

/* @budget: what is kept is taken from it; it must live as long. */
struct name_owners *name_owners_new(struct btrail_budget *budget);
void name_owners_free(struct name_owners *o);

/*
 * The guest says that user mode has page tables of its own (PTI): those at root
 * | 0x1000 and at root are of the same space.
 */
void name_owners_set_pti(struct name_owners *o, bool pti);

void name_owners_sample(struct name_owners *o,
                        const struct name_sample *sample);
void name_owners_page(struct name_owners *o, const struct name_page *page);

/* Which tasks a CPU has run */
void name_owners_switches(struct name_owners *o, const struct word *w);

/*
 * All of the guest's words up to a time have come: counts the samples before
 * it.
 */
void name_owners_count(struct name_owners *o, struct name_spaces *spaces,
                       uint64_t time);

/* Sets the @root of all spaces of which it is known. */
void name_owners_decide(struct name_owners *o, struct name_spaces *spaces);

/* The host's clock at a time of the TSC, as near as samples say */
uint64_t name_owners_host_time(const struct name_owners *o, uint64_t tsc);

/* The TSC this long before a time, as near as samples say */
uint64_t name_owners_before(const struct name_owners *o, uint64_t tsc,
                            uint64_t ns);

/* How many samples wait for words, and the time of the last one */
size_t name_owners_waiting(const struct name_owners *o, uint64_t *last);

#endif /* BTRAIL_NAME_OWNERS_H */
