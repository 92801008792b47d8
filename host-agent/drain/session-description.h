/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The description of a session in its file
 */

#ifndef BTRAIL_SESSION_DESCRIPTION_H
#define BTRAIL_SESSION_DESCRIPTION_H

#include "drain/session-filter.h"
#include "lib/agent/store.h"
#include "util/json.h"

/**
 * struct session_facts - what is known when the session begins
 * @header:   of the connection
 * @filter:   of the session
 * @drop:     the session drops records, whatever the header's policy is
 * @mode:     of the session, as a word
 * @attached: another agent has drained the capture before
 */
struct session_facts {
    const struct btrail_shm_header *header;
    const struct session_filter *filter;
    bool drop;
    const char *mode;
    bool attached;
};

/*
 * Adds the facts to @meta, which has what the owner says of the session, and
 * writes it.  If @meta has a filter as the user wrote it, that stays.  Returns
 * a negative enum btrail_error on failure, as the functions that follow.
 */
int session_describe(struct btrail_store *store, JsonObject *meta,
                     const struct session_facts *facts);

/* Which kernel the names are of, or NULL, and what is missing of them */
JsonObject *session_describe_names(const char *release,
                                   char **missing);

/*
 * Writes how it ended.  @reason: enum btrail_end_reason; @error: or NULL;
 * @snapshots: that have found names; @release and @missing: of the guest's
 * kernel, if one was found; @kernels: the releases of all that were, by number
 * from 1 on, or NULL
 */
int session_describe_end(struct btrail_store *store, uint16_t reason,
                         const GError *error, uint64_t snapshots,
                         const char *release, char **missing,
                         char **kernels);

/*
 * Makes the file a part of the trace of its capture, for a session that has all
 * of it: files of all agents that drain the capture belong together.  Records
 * that another agent or none has drained are then not a gap in this file: they
 * are before it, and @anywhere becomes true.
 */
int session_identify(struct btrail_store *store, JsonObject *meta,
                     const struct session_facts *facts,
                     bool *anywhere);

#endif /* BTRAIL_SESSION_DESCRIPTION_H */
