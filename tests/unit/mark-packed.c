/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A mark as a kernel has it, for the test of marks
 */

#define __KERNEL__
#include "backtrail-mark.h"
#include "mark-packed.h"

void mark_packed(unsigned long value)
{
    BACKTRAIL_MARK("packed", value);
}

void mark_packed_longest(void)
{
    BACKTRAIL_MARK("123456789012345678901234567890"
                   "123456789012345678901234567890");
}
