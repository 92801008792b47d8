/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Choosing records: expressions such as comm == "sh" && sym ~ "^do_"
 *
 * They are described in backtrail-report(1).
 *
 * An expression consists of comparisons.  Some are about what many records
 * have in common (the vCPU, the time), others about what each edge has of its
 * own (symbols).  So that neither is done for each record, the former give a
 * class, with a bit for each of them, and the latter are done once for each
 * class and edge.
 */

#ifndef BTRAIL_FILTER_H
#define BTRAIL_FILTER_H

#include "symbolize/symbolizer.h"

/* Comparisons about what records have in common; an expression has no more. */
#define FILTER_MAX_COMMON   64

struct filter;

/**
 * struct filter_record - what an expression can ask for
 * @time:    nanoseconds since the session's start, or -1
 * @certainty: how sure @process is
 * @from, @to: NULL: their names are not asked for
 * @lines:   to find lines with; NULL if there are none
 */
struct filter_record {
    unsigned vcpu;
    uint64_t index;
    int64_t time;
    uint64_t from;
    uint64_t to;
    const struct process *process;
    enum btrail_certainty certainty;
    const struct place *from_place;
    const struct place *to_place;
    struct symbolizer *lines;
};

/**
 * filter_parse
 * @error: says what is wrong, and where
 *
 * NULL if the expression makes no sense.
 */
struct filter *filter_parse(const char *text, GError **error);
void filter_free(struct filter *f);

/* Does it ask for the index of a record, which no two of a batch share? */
bool filter_uses_index(const struct filter *f);

/* The class of a record; @from, @to and their places are not looked at. */
uint64_t filter_class(const struct filter *f, const struct filter_record *r);

/*
 * Is a record with a class chosen?  Of @r, @vcpu, @index and @time are not
 * looked at.
 */
bool filter_chooses(const struct filter *f, uint64_t class,
                    const struct filter_record *r);

/* Can any record with a class be chosen? */
bool filter_may_choose(const struct filter *f, uint64_t class);

/* Both at once */
bool filter_matches(const struct filter *f, const struct filter_record *r);

#endif /* BTRAIL_FILTER_H */
