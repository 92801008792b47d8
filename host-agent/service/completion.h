/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions that nobody continues: their traces are completed in threads
 *
 * The state has such a session until that is done, so that the next process
 * takes it up, however often the service is killed.
 */

#ifndef BTRAIL_COMPLETION_H
#define BTRAIL_COMPLETION_H

#include "service/folder.h"
#include "service/state.h"

struct completions;

/*
 * @all is the folder of all traces, and must live as long.  @changed is called
 * when completions_save() or completions_busy() returns something
 * else.
 */
struct completions *
completions_new(const struct folder *all,
                void (*changed)(void *opaque), void *opaque);

/* Threads that run finish the file that they work on. */
void completions_free(struct completions *c);

/* Complete what is left of @session (see state.h), which is changed. */
void completions_add(struct completions *c, JsonObject *capture,
                     JsonObject *session);

/* The same for all sessions of a capture */
void completions_add_all(struct completions *c,
                         JsonObject *capture);

/* Does any thread still work? */
bool completions_busy(const struct completions *c);

/* Adds to the state what is not done. */
void completions_save(const struct completions *c,
                      GPtrArray *captures);

#endif /* BTRAIL_COMPLETION_H */
