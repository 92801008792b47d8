/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is left of a session after the service was killed
 *
 * Parts of its trace lack their ends: the last one, and those before it if what
 * completed them was killed, too.  The ring of a flight recorder is in a folder
 * of its own, which no command lists.
 */

#ifndef BTRAIL_LEFTOVER_H
#define BTRAIL_LEFTOVER_H

#include <glib.h>
#include <stdint.h>

#include "service/folder.h"
#include "service/state.h"

/**
 * struct leftover - a trace that can be continued
 * @id:      of the trace, BTRAIL_ID_SIZE bytes
 * @indices: at which the streams end, of vCPU i at [i]; of uint64_t
 * @records: in the trace
 * @bytes:   in the trace
 * @record_bytes: those of them that chunks of records have
 * @lost:    records that are missing, as far as their number is known
 */
struct leftover {
    uint8_t id[16];
    GArray *indices;
    uint64_t records;
    uint64_t bytes;
    uint64_t record_bytes;
    uint64_t lost;
};

/*
 * Read a trace, in any thread, which can take long.  NULL if there is nothing
 * that a session could continue.
 */
struct leftover *
leftover_inspect(const struct folder *folder, const char *file,
                     GError **error);
void leftover_free(struct leftover *l);

/* The highest number of a part of the trace at @path */
uint32_t leftover_last_part(const char *path);

/*
 * Complete what is left of a session that @session describes (see state.h), in
 * any thread, since that reads what was cut off: all parts of its trace that
 * lack their ends, dumps, and its ring, which is kept.  False if that is not
 * possible at the moment.
 */
bool leftover_complete(const struct folder *folder,
                       JsonObject *session);

/*
 * Rename the folder @ring of a flight recorder to SESSION@suffix-TIME, where it
 * has parts of a trace.  Returns the name, to be freed; NULL on failure, which
 * is logged, or if that was done before.
 */
char *leftover_keep_ring(const struct folder *folder,
                         const char *session, const char *suffix,
                         const char *ring);

#endif /* BTRAIL_LEFTOVER_H */
