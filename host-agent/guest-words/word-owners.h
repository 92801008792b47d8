/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: which page tables a space has
 *
 * No program in the guest knows its page tables, and no trace of such a guest
 * which process runs.  Two things bring them together:
 *
 * - Samples.  At a time of the guest's TSC, a vCPU had a CR3 (each TIME event of
 *   a trace says so), and the guest says which task the CPU of that number ran
 *   then.  A space whose samples agree has those page tables.
 * - Pages.  User code at an address was executed with a CR3.  The space must
 *   have it mapped for execution.  Addresses are random in each process, so
 *   where there are no samples the only space that has all pages is the one.
 *
 * Both can be wrong: what comes of them is likely, and never sure.
 */

#ifndef BTRAIL_WORD_OWNERS_H
#define BTRAIL_WORD_OWNERS_H

#include "guest-words/word-spaces.h"

/* A vCPU had page tables at a moment */
struct word_sample {
    uint64_t tsc;
    uint64_t host;              /* CLOCK_MONOTONIC */
    uint64_t root;
    uint32_t vcpu;
};

/* Code at an address was executed first between two moments */
struct word_page {
    uint64_t from;              /* TSC */
    uint64_t to;
    uint64_t root;
    uint64_t address;
};

struct word_owners;

/* @budget: what is kept is taken from it; it must live as long. */
struct word_owners *word_owners_new(struct btrail_budget *budget);
void word_owners_free(struct word_owners *o);

/*
 * The guest says that user mode has page tables of its own (PTI): those at root
 * | 0x1000 and at root are of the same space.
 */
void word_owners_set_pti(struct word_owners *o, bool pti);

void word_owners_sample(struct word_owners *o,
                        const struct word_sample *sample);
void word_owners_page(struct word_owners *o, const struct word_page *page);

/* Which tasks a CPU has run */
void word_owners_switches(struct word_owners *o, const struct word *w);

/*
 * All of the guest's words up to a time have come: counts the samples before
 * it.
 */
void word_owners_count(struct word_owners *o, struct word_spaces *spaces,
                       uint64_t time);

/* Sets the @root of all spaces of which it is known. */
void word_owners_decide(struct word_owners *o, struct word_spaces *spaces);

/* The host's clock at a time of the TSC, as near as samples say */
uint64_t word_owners_host_time(const struct word_owners *o, uint64_t tsc);

/* The TSC so long before a time, as near as samples say */
uint64_t word_owners_before(const struct word_owners *o, uint64_t tsc,
                            uint64_t ns);

/* How many samples wait for words, and the time of the last one */
size_t word_owners_waiting(const struct word_owners *o, uint64_t *last);

#endif /* BTRAIL_WORD_OWNERS_H */
