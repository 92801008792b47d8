/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The payload of SIDEBAND chunks: what names what the records tell
 */

#ifndef BTRAIL_SIDEBAND_H
#define BTRAIL_SIDEBAND_H

#include "backtrail/trace.h"
#include "lib/internal/bytes.h"

/* Kind, reserved, size and time come before the data. */
#define BTRAIL_SIDEBAND_HEADER_SIZE     16
#define BTRAIL_SIDEBAND_MAX_PAYLOAD     (BTRAIL_SIDEBAND_HEADER_SIZE + \
                                         BTRAIL_SIDEBAND_MAX_SIZE)

/* Make the payload of @info->size bytes of data. */
void btrail_sideband_pack(const struct btrail_sideband_info *info,
                          const void *data, struct btrail_buf *payload);

/*
 * Get the header of a payload that is @len bytes long, of which the first
 * BTRAIL_SIDEBAND_HEADER_SIZE are at @payload, if there are so many.  False
 * if it could be that of no payload of this length.
 */
bool btrail_sideband_header_get(const uint8_t *payload, size_t len,
                                struct btrail_sideband_info *info);

/*
 * Get the data, which are freed with free().  Errors: CORRUPT, MEMORY.
 */
int btrail_sideband_unpack(const uint8_t *payload, size_t len,
                           struct btrail_sideband_info *info, void **data);

#endif /* BTRAIL_SIDEBAND_H */
