/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * --between: spans from A to B, as the options of a command choose them
 *
 * A and B are what backtrail find looks for, and are found as it does.
 */

#ifndef BTRAIL_CLI_BETWEEN_H
#define BTRAIL_CLI_BETWEEN_H

#include "cli/find/find.h"
#include "find/spans.h"

/**
 * struct between
 * @given:     the option was
 * @pair_text: of --pair
 * @texts:     of A and B
 * @whats:     the same, parsed
 * @spans:     after between_read()
 * @set:       their records, after between_select() or between_restrict()
 * @times:     their time, after the latter
 * @pauses:    of the trace, after between_read() with @count and without @set;
 *             @pauses_known as of cli_trace_pauses()
 * @damage:    that was found while reading
 */
struct between {
    gboolean given;
    char *pair_text;
    char *texts[2];
    struct find_event whats[2];
    enum spans_pair pair;
    struct spans *spans;
    struct record_set *set;
    struct times *times;
    struct pauses *pauses;
    bool pauses_known;
    uint64_t damage;
};

#define BETWEEN_ENTRIES(b, help)                                             \
    { "between", 0, 0, G_OPTION_ARG_NONE, &(b)->given, help, NULL },         \
    { "pair", 0, 0, G_OPTION_ARG_STRING, &(b)->pair_text,                    \
      "which B ends a span: one of its thread, one with the value of its "   \
      "mark, or any (default: thread; any if A and B are places)",           \
      "HOW" }

/* The name of kind @i of --pair; NULL after the last one */
const char *between_pair_name(unsigned i);

/* Takes the operands A and B, if the option was given, and parses them.  False
 * after an error message. */
bool between_parse(struct between *b, int *argc, char ***argv);
void between_clear(struct between *b);

/* The same options, once parsed, for another trace; @to needs clearing, too. */
void between_copy(struct between *to, const struct between *from);

/**
 * between_read - find the spans
 * @in:       the trace; its --time holds for both A and B
 * @filtered: the filter of @in holds for A
 * @count:    count the records of spans, too
 *
 * False after an error message.
 */
bool between_read(struct between *b, const struct analysis *in, bool filtered,
                  bool count);

/* Finds the records of spans.  @in gets to know that they alone are chosen, and
 * nothing else.  False after an error message. */
bool between_select(struct between *b, struct analysis *in);

/* Has the filter of @in choose only records of spans, and time that is in them.
 * @b must outlive it.  False after an error message. */
bool between_restrict(struct between *b, struct analysis *in);

#endif /* BTRAIL_CLI_BETWEEN_H */
