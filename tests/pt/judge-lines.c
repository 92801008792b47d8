/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does somebody say of the encoder's stream what the truth has?
 *
 * judge-lines trace=FILE [NAME=VALUE]... <LINES; the names are those that the
 * stream was made with.  Each line has two hexadecimal numbers with anything
 * between them, from and to, or is one of an overflow.  The last line of the
 * output says, in words and numbers, what came of it.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "matcher.h"

/* Two numbers of a line, as "  81000000 => 81000010"; 0 is unknown. */
static bool get(char *line, uint64_t *from, uint64_t *to)
{
    char *end;

    *from = strtoull(line, &end, 16);
    if (end == line) {
        return false;
    }
    line = end + strcspn(end, "0123456789abcdef");
    *to = strtoull(line, &end, 16);
    return end != line;
}

int main(int argc, char **argv)
{
    uint64_t errors = 0, partly = 0, from, to;
    g_autofree char *line = NULL;
    struct truth t;
    struct arguments a;
    struct encoded e;
    struct matcher m;
    size_t room = 0;

    arguments_encode(&a, argc, argv, &t, &e);
    matcher_init(&m, &t, &e);
    while (getline(&line, &room, stdin) > 0) {
        if (strstr(line, "verflow")) {
            matcher_at_place(&m, ENCODE_OVF, 0);
        } else if (strstr(line, "error")) {
            if (errors++ < m.shown) {
                fprintf(stderr, "at %" PRIu64 ": %s", m.at, line);
            }
        } else if (get(line, &from, &to)) {
            if (!from || !to) {
                partly++;
                continue;
            }
            matcher_record(&m, from - a.o.shift, to - a.o.shift);
        }
    }
    matcher_print(&m);
    printf(" errors %" PRIu64 " partly %" PRIu64 "\n", errors, partly);
    return 0;
}
