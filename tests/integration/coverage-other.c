/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The other file of coverage-guest.c, with a function of the same name */

#include "coverage-guest.h"

static int helper(int x)
{
    return x * 5;
}

int other(int x)
{
    return helper(x) + clamp(x);
}
