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
    unsigned vcpu;
    uint64_t first;
    uint64_t records;
    struct encode_options o;
};

/* Exits with 2 if they are not right. */
void arguments_get(struct arguments *a, int argc, char **argv);

#endif
