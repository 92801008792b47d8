/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the file of a session says of it
 */

#ifndef BTRAIL_SESSION_DESCRIPTION_H
#define BTRAIL_SESSION_DESCRIPTION_H

#include "util/json.h"
#include "drain/session-filter.h"
#include "lib/internal/store.h"
#include "drain/connection.h"

/**
 * struct btrail_session_facts - what is known when it begins
 * @header:   of the transport
 * @filter:   what it wants
 * @drop:     it drops records, whatever the header's policy is
 * @last:     it is of mode last
 * @attached: another agent has drained the capture before
 */
struct btrail_session_facts {
    const struct btrail_shm_header *header;
    const struct btrail_session_filter *filter;
    bool drop;
    bool last;
    bool attached;
};

/**
 * struct btrail_session_outcome - and in the end
 * @reason:  enum btrail_end_reason
 * @error:   or NULL
 * @snapshots:   at the guest's memory, that have found names
 * @release: of its kernel, if there were any
 */
struct btrail_session_outcome {
    uint16_t reason;
    const GError *error;
    uint64_t snapshots;
    const char *release;
};

/*
 * @meta is what its owner has said of it, to which the facts are added; how a
 * filter was written is not said again.  A negative enum btrail_error on
 * failure, as for what follows.
 */
int btrail_session_describe(struct btrail_store *store, JsonObject *meta,
                            const struct btrail_session_facts *facts);
int btrail_session_describe_end(struct btrail_store *store,
                                const struct btrail_session_outcome *outcome);

/*
 * For a session that has all of a capture from its begin on: whoever has
 * drained it has written files of one trace.  What another agent has got, or
 * nobody, is then no gap in this file, but before it, and @anywhere becomes
 * true.
 */
int btrail_session_identify(struct btrail_store *store, JsonObject *meta,
                            const struct btrail_session_facts *facts,
                            bool *anywhere);

#endif /* BTRAIL_SESSION_DESCRIPTION_H */
