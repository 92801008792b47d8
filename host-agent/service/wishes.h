/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the agent takes of a command to start
 */

#ifndef BTRAIL_WISHES_H
#define BTRAIL_WISHES_H

#include "service/command.h"
#include "drain/session.h"

/**
 * struct btrail_wishes
 * @options: metadata, store, folder, files and resume are left to the caller.
 *           It points into the others and into the command
 */
struct btrail_wishes {
    struct btrail_session_options options;
    GPtrArray *processes;       /* of char *, NULL-terminated */
    GArray *triggers;           /* of struct btrail_trigger */
};

/* @ring: the most bytes that mode "last" keeps.  @c must live as long. */
void btrail_wishes_init(struct btrail_wishes *w,
                        const struct btrail_command *c, uint64_t ring);
void btrail_wishes_clear(struct btrail_wishes *w);

#endif /* BTRAIL_WISHES_H */
