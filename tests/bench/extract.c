/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * extract: a trace as a raw one (raw.h)
 *
 * usage: extract TRACE FOLDER RECORDS
 *
 * RECORDS is how many of each stream.
 */

#include <stdio.h>

#include "raw.h"

int main(int argc, char **argv)
{
    guint64 max;

    if (argc != 4 || !g_ascii_string_to_unsigned(argv[3], 10, 1, SIZE_MAX,
                                                 &max, NULL)) {
        fprintf(stderr, "usage: extract TRACE FOLDER RECORDS\n");
        return 2;
    }
    return !raw_extract(argv[1], argv[2], max);
}
