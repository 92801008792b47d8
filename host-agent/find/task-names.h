/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names that the tasks of a guest have at any time
 *
 * A task that is woken is known by its numbers alone, and a new one has no name
 * before it runs.  So the names of a whole trace are read first, from its TASK
 * events.
 */

#ifndef BTRAIL_TASK_NAMES_H
#define BTRAIL_TASK_NAMES_H

#include "backtrail/trace.h"
#include "util/agent-error.h"

/* Names of tasks that memory is used for; of later ones, none is known. */
#define TASK_NAMES_MOST (1u << 20)

/**
 * struct task_names
 * @tasks: the trace has TASK events
 * @wakes: it has WAKE events
 * @lefts: it says why tasks leave their vCPU
 */
struct task_names {
    bool tasks;
    bool wakes;
    bool lefts;
    GHashTable *all;
    unsigned n;
};

/**
 * task_names_new - read the names of a trace
 * @most: of them; 0: TASK_NAMES_MOST
 *
 * Errors: COMMAND: the trace cannot be read.
 */
struct task_names *task_names_new(const struct btrail_trace *trace,
                                  unsigned most, GError **error);
void task_names_free(struct task_names *t);

/* Does the trace name any task, or can it not be read?  It is read up to the
 * first one. */
bool task_names_any(const struct btrail_trace *trace);

/*
 * The name of a task at a time of the host's clock, exact to the clocks around
 * it; NULL if it is not known.  @kernel is its number, or 0.
 */
const char *task_names_at(const struct task_names *t, unsigned kernel,
                          uint32_t pid, uint32_t tid, uint64_t host);

/* Is a task what a person means: one of this name, or with this number, or of
 * the process with it?  @name can be NULL. */
bool task_names_means(const char *wanted, const char *name, uint32_t pid,
                      uint32_t tid);

/* What may be meant by it, as of closest_hint(); NULL if there is such a task */
char *task_names_hint(const struct task_names *t, const char *wanted);

/* Does the trace have such a task?  If not, an error, NAMES, says which name
 * may be meant. */
bool task_names_check(const struct task_names *t, const char *wanted,
                      GError **error);

#endif /* BTRAIL_TASK_NAMES_H */
