/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much memory a process may still take
 */

#ifndef BTRAIL_MEMORY_LIMIT_H
#define BTRAIL_MEMORY_LIMIT_H

#include <stdint.h>

/*
 * This many bytes more than this process has already, for what it starts, too.
 * Ending like that is no fault that is worth a core file.
 */
void memory_limit(uint64_t more);

#endif /* BTRAIL_MEMORY_LIMIT_H */
