/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: make-sample FILE CHUNKS
 *
 * Writes the sample trace (see trace-samples.h) for tests in other languages.
 */

#include <stdlib.h>

#include "trace-samples.h"

int main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }
    sample_write(argv[1], atoi(argv[2]));
    return 0;
}
