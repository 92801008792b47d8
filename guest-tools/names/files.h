/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs and libraries that the agent wants, by their build-ids
 */

#ifndef BTRAIL_FILES_H
#define BTRAIL_FILES_H

#include "outbox.h"

/* The file that is being sent, if any */
struct files {
    int fd;
    uint64_t at;
    uint64_t total;
};

void files_init(struct files *f);

/* Begins to send a file, or has an error to say, instead of the one before. */
void files_begin(struct files *f, struct outbox *out,
                 const struct btrail_guest_file *wanted, const char *path,
                 const uint8_t *build_id);

/* Sends what there is room for, until a time of CLOCK_MONOTONIC. */
void files_step(struct files *f, struct outbox *out, uint64_t until);

void files_end(struct files *f);

#endif /* BTRAIL_FILES_H */
