/* SPDX-License-Identifier: GPL-2.0-or-later */
/* execed: another program, a static one, with functions of its own */

#include "counted.h"

static volatile unsigned sink;

static FUNCTION void execed_work(unsigned i)
{
    sink += i;
}

int main(int argc, char **argv)
{
    unsigned i;

    count_begin();
    for (i = 0; i < 250; i++) {
        CALL(execed_work, i);
    }
    count_print("execed");
    return argc != 3 || !argv[2];
}
