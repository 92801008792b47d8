/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes that are allocated now, large pieces with maps of their own, too; 0 with
 * sanitizers
 */

#ifndef ALLOCATED_H
#define ALLOCATED_H

#include <malloc.h>
#include <stdint.h>

static inline int64_t allocated(void)
{
    struct mallinfo2 m = mallinfo2();

    return (int64_t)(m.uordblks + m.hblkhd);
}

#endif /* ALLOCATED_H */
