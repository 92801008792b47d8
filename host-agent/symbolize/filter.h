/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Choosing records: expressions such as comm == "sh" && sym ~ "^do_"
 *
 * They are described in backtrail-report(1).
 *
 * An expression consists of comparisons.  Some depend on values that many
 * records share (the vCPU, the time), others on the edge (symbols).  So that
 * nothing is compared for each record, the former give a class, with a bit for
 * each of them, and the latter are evaluated once for each class and edge.
 */

#ifndef BTRAIL_FILTER_H
#define BTRAIL_FILTER_H

#include "symbolize/field.h"
#include "symbolize/record-set.h"

/*
 * Limit of comparisons of values that records share, in an expression; two more
 * are filter_restrict()'s, and one is filter_within()'s
 */
#define FILTER_MAX_COMMON   61

struct filter;

/**
 * filter_parse
 * @error: gets what is wrong, and where
 *
 * Returns NULL if the expression is malformed.
 */
struct filter *filter_parse(const char *text, GError **error);
void filter_free(struct filter *f);

/**
 * filter_restrict - have a filter choose fewer records
 * @f:        NULL for one that chooses all; not restricted yet
 * @commands: only of processes with one of these names; NULL for all
 * @vcpus:    only of these, of BTRAIL_MAX_VCPUS; NULL for all
 *
 * Returns the filter; NULL if it still is one that chooses all.
 */
struct filter *filter_restrict(struct filter *f, char *const *commands,
                               const bool *vcpus);

/* Has a filter choose only records of a set, once.  @f can be NULL; @set
 * outlives the result. */
struct filter *filter_within(struct filter *f, const struct record_set *set);

/* Does it use the index of a record, which no two of a batch share? */
bool filter_uses_index(const struct filter *f);

/* The first index after that of @r for which the class can be another one, if
 * all else is the same; UINT64_MAX if there is none */
uint64_t filter_until(const struct filter *f, const struct named_record *r);

/* The class of a record; this ignores @from, @to and their places. */
uint64_t filter_class(const struct filter *f, const struct named_record *r);

/* The class that a record of another one would have in the set of
 * filter_within() */
uint64_t filter_class_within(const struct filter *f, uint64_t class);

/* Is a record of a class chosen?  Ignores @vcpu, @index and @time of @r. */
bool filter_chooses(const struct filter *f, uint64_t class,
                    const struct named_record *r);

/* Can any record of a class be chosen? */
bool filter_may_choose(const struct filter *f, uint64_t class);

/* Is a record chosen? */
bool filter_matches(const struct filter *f, const struct named_record *r);

#endif /* BTRAIL_FILTER_H */
