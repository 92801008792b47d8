/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checksums of headers and chunks
 */

#ifndef BTRAIL_CRC32C_H
#define BTRAIL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/**
 * btrail_crc32c - CRC-32C (Castagnoli), as in iSCSI and ext4
 * @crc:  0, or the result for what comes before
 */
uint32_t btrail_crc32c(uint32_t crc, const void *data, size_t len);

/* The same without special instructions: for other CPUs and for the test. */
uint32_t btrail_crc32c_portable(uint32_t crc, const void *data, size_t len);

#endif /* BTRAIL_CRC32C_H */
