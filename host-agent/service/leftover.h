/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a service that was killed has left of a session
 *
 * The last part of its trace lacks its end.  What a flight recorder had is in
 * a folder of its own, which nobody looks for.
 */

#ifndef BTRAIL_LEFTOVER_H
#define BTRAIL_LEFTOVER_H

#include <glib.h>
#include <stdint.h>

#include "service/folder.h"
#include "service/state.h"

/**
 * struct btrail_leftover - a trace to go on with
 * @id:      of it, BTRAIL_ID_SIZE bytes
 * @indices: that its streams have come to, of vCPU i at [i]; of uint64_t
 * @records: that it has
 * @bytes:   likewise
 */
struct btrail_leftover {
    uint8_t id[16];
    GArray *indices;
    uint64_t records;
    uint64_t bytes;
};

/*
 * Look at a trace, in any thread; it can take a while.  NULL if there is
 * nothing that a session could go on with.
 */
struct btrail_leftover *
btrail_leftover_inspect(const struct btrail_folder *folder, const char *file,
                     GError **error);
void btrail_leftover_free(struct btrail_leftover *l);

/* The highest number of a part of the trace at @path */
uint32_t btrail_leftover_last_part(const char *path);

/*
 * Complete a part of a trace, by a thread, since all of it is read.  @fd, the
 * folder that @path is in, is taken.
 */
void btrail_leftover_complete_part(int fd, const char *path, uint32_t part);

/* Nobody goes on with @s: complete the last part of its trace, likewise. */
void btrail_leftover_complete(const struct btrail_folder *folder,
                              const struct btrail_state_session *s);

/* The same of all sessions of a capture */
void btrail_leftover_complete_all(const struct btrail_folder *folder,
                                  const struct btrail_state_capture *capture);

/*
 * What the flight recorder of @session had in @ring becomes a folder with parts
 * of a trace, SESSION@suffix-TIME.  Its name, to be freed; NULL if that cannot
 * be, which is logged, or it has been done.
 */
char *btrail_leftover_keep_ring(const struct btrail_folder *folder,
                                const char *session, const char *suffix,
                                const char *ring);

#endif /* BTRAIL_LEFTOVER_H */
