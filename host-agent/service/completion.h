/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions that nobody continues: their traces are completed in threads
 *
 * The state has such a session until that is done, so that the next process
 * takes it up, however often that is killed.
 */

#ifndef BTRAIL_COMPLETION_H
#define BTRAIL_COMPLETION_H

#include "service/folder.h"
#include "service/state.h"

struct btrail_completions;

/*
 * @all is the folder of all traces, and must live as long.  @changed is called
 * when btrail_completions_save() or btrail_completions_busy() returns something
 * else.
 */
struct btrail_completions *
btrail_completions_new(const struct btrail_folder *all,
                       void (*changed)(void *opaque), void *opaque);

/* Threads that run finish the file that they work on. */
void btrail_completions_free(struct btrail_completions *c);

/* Complete what is left of @session (see state.h), which is changed. */
void btrail_completions_add(struct btrail_completions *c, JsonObject *capture,
                            JsonObject *session);

/* The same for all sessions of a capture */
void btrail_completions_add_all(struct btrail_completions *c,
                                JsonObject *capture);

/* Does any thread still work? */
bool btrail_completions_busy(const struct btrail_completions *c);

/* Adds to the state what is not done. */
void btrail_completions_save(const struct btrail_completions *c,
                             GPtrArray *captures);

#endif /* BTRAIL_COMPLETION_H */
