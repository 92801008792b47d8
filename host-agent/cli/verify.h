/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is a trace complete, and does it account for every record?
 */

#ifndef BTRAIL_CLI_VERIFY_H
#define BTRAIL_CLI_VERIFY_H

#include <stdint.h>

/**
 * cli_verify_file - check a file as "verify" does, and print its faults
 * @records: gets how many it has
 *
 * Returns an exit code: CLI_DAMAGED if anything is wrong with it.
 */
int cli_verify_file(const char *path, uint64_t *records);

#endif /* BTRAIL_CLI_VERIFY_H */
