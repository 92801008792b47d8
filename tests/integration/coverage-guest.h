/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions that two files have: see coverage-guest.c */

static inline int clamp(int x)
{
    if (x > 10) {
        return 10;
    }
    return x;
}

int other(int x);
