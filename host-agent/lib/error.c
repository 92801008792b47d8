/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Words for errors
 */

#include <glib.h>

#include "backtrail/trace.h"

static const char *const words[] = {
    "no error",
    [BTRAIL_ERR_ARGUMENT] = "invalid argument",
    [BTRAIL_ERR_MEMORY] = "out of memory",
    [BTRAIL_ERR_IO] = "input/output error",
    [BTRAIL_ERR_FORMAT] = "this is not a trace",
    [BTRAIL_ERR_VERSION] =
        "the trace has a version or a codec that this version of Backtrail "
        "does not know; read it with the version that made it, or a newer one",
    [BTRAIL_ERR_CORRUPT] = "the data is damaged",
    [BTRAIL_ERR_END] = "there is no more",
    [BTRAIL_ERR_STREAM] = "the trace has no such vCPU",
    [BTRAIL_ERR_SLAB] = "the records and events contradict each other",
    [BTRAIL_ERR_OTHER] = "the files do not belong to one trace",
    [BTRAIL_ERR_OVERLAP] = "the files have the same records in part",
    [BTRAIL_ERR_RANGE] = "a record does not fit into the 32-bit format",
};

const char *btrail_strerror(int error)
{
    /* Through unsigned, for INT_MIN has no opposite. */
    unsigned e = error < 0 ? -(unsigned)error : (unsigned)error;

    return e < G_N_ELEMENTS(words) ? words[e] : "unknown error";
}

const char *btrail_version(void)
{
    return BACKTRAIL_VERSION;
}
