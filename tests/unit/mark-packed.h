/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions that leave marks as a kernel has them, for the test of marks
 */

#ifndef BTRAIL_MARK_PACKED_H
#define BTRAIL_MARK_PACKED_H

void mark_packed(unsigned long value);
void mark_packed_longest(void);

#endif /* BTRAIL_MARK_PACKED_H */
