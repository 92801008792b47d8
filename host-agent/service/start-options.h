/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The options of a drain session, from a command "start"
 */

#ifndef BTRAIL_START_OPTIONS_H
#define BTRAIL_START_OPTIONS_H

#include "service/command.h"
#include "drain/session.h"

/**
 * struct btrail_start_options
 * @options:   the caller sets metadata, store, folder, files and resume;
 *             they point into the other members and into the command
 */
struct btrail_start_options {
    struct btrail_session_options options;
    GPtrArray *processes;       /* of char *, NULL-terminated */
    GArray *triggers;           /* of struct btrail_trigger */
};

/* @ring: the most bytes that mode "last" keeps.  @c must live as long. */
void btrail_start_options_init(struct btrail_start_options *o,
                               const struct btrail_command *c, uint64_t ring);
void btrail_start_options_clear(struct btrail_start_options *o);

#endif /* BTRAIL_START_OPTIONS_H */
