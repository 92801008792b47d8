/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Words for errors
 */

#include "backtrail/trace.h"

const char *btrail_strerror(int error)
{
    /* Through unsigned, for INT_MIN has no opposite. */
    unsigned e = error < 0 ? -(unsigned)error : (unsigned)error;

    switch (e) {
    case 0:
        return "no error";
    case BTRAIL_ERR_ARGUMENT:
        return "invalid argument";
    case BTRAIL_ERR_MEMORY:
        return "out of memory";
    case BTRAIL_ERR_IO:
        return "input/output error";
    case BTRAIL_ERR_FORMAT:
        return "this is not a trace";
    case BTRAIL_ERR_VERSION:
        return "the trace has a version or a codec that this version of "
               "Backtrail does not know; read it with the version that made "
               "it, or a newer one";
    case BTRAIL_ERR_CORRUPT:
        return "the data is damaged";
    case BTRAIL_ERR_END:
        return "there is no more";
    case BTRAIL_ERR_STREAM:
        return "the trace has no such vCPU";
    case BTRAIL_ERR_SLAB:
        return "the records and events contradict each other";
    case BTRAIL_ERR_OTHER:
        return "the files do not belong to one trace";
    case BTRAIL_ERR_OVERLAP:
        return "the files have the same records in part";
    case BTRAIL_ERR_RANGE:
        return "a record does not fit into the 32-bit format";
    default:
        return "unknown error";
    }
}

const char *btrail_version(void)
{
    return BACKTRAIL_VERSION;
}
