/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail diff: what is printed of the differences of two traces
 */

#ifndef BTRAIL_DIFF_PRINT_H
#define BTRAIL_DIFF_PRINT_H

#include "analyze/diff.h"
#include "cli/analysis.h"

/**
 * struct diff_command
 * @in:      the two traces
 * @top:     this many rows of each list; 0: all
 * @result:  what was found
 * @options: that it was found with
 */
struct diff_command {
    struct analysis in[DIFF_SIDES];
    char *process;
    gboolean user;
    gboolean kernel;
    gboolean json;
    int top;
    struct diff result;
    struct diff_options options;
};

/* Exit codes, which are those of diff(1), besides CLI_DAMAGED */
enum {
    DIFF_CLI_SAME = 0,
    DIFF_CLI_DIFFERENT = 1,
    DIFF_CLI_TROUBLE = 2,
};

/**
 * struct diff_place - where a side of a difference is
 * @known: of the trace; otherwise nothing else is set
 * @time:  of the host's clock
 * @line:  "FILE:LINE", in the buffer; or NULL
 */
#define DIFF_LINE_SIZE  512
struct diff_place {
    bool known;
    uint64_t time;
    const char *line;
    char buf[DIFF_LINE_SIZE];
};

void diff_place_find(const struct diff_command *c, const struct diff_pair *pair,
                     const struct diff_group *g, unsigned side,
                     struct diff_place *place);

/*
 * The group of a pair's first difference; the same of the first that is new; or
 * NULL
 */
const struct diff_group *diff_first(const struct diff_pair *pair);
const struct diff_group *diff_first_new(const struct diff_pair *pair);

/* Does a pair have a difference? */
bool diff_pair_differs(const struct diff_pair *pair);

/* Tasks of one trace that the other one does not have, and that are chosen */
GPtrArray *diff_only(const struct diff_command *c, unsigned side);

/* "function+0x12 (module)" and the like, of either end of an edge */
#define DIFF_NAME_SIZE  512
const char *diff_name_from(const struct diff_command *c, uint32_t edge,
                           char buf[DIFF_NAME_SIZE]);
const char *diff_name_to(const struct diff_command *c, uint32_t edge,
                         char buf[DIFF_NAME_SIZE]);

/* How a task is called: "comm pid/tid" */
const char *diff_task_name(const struct diff_task *task,
                           char buf[DIFF_NAME_SIZE]);

/* Print the result: for people, as one JSON object */
void diff_print(const struct diff_command *c);
void diff_print_json(const struct diff_command *c);

#endif /* BTRAIL_DIFF_PRINT_H */
