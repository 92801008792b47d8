/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the encoder and the judges are told: NAME=VALUE
 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include "encode.h"

struct arguments {
    const char *trace;
    const char *stream;         /* file, or NULL */
    const char *known;          /* file, or NULL */
    const char *image;          /* file, or NULL */
    const char *given;          /* trace, or NULL */
    uint64_t tail;              /* so many bytes of the stream, the last ones */
    unsigned vcpu;
    uint64_t first;
    uint64_t records;
    struct encode_options o;
};

/*
 * Loads the trace that they name, and makes a stream of it.  Exits with 2 if they
 * are not right, and with 1 if there are no records.
 */
void arguments_encode(struct arguments *a, int argc, char **argv,
                      struct truth *t, struct encoded *e);

#endif
