/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols of the kernel and its modules, as /proc/kallsyms has them
 */

#ifndef BTRAIL_SYMBOLS_H
#define BTRAIL_SYMBOLS_H

#include "outbox.h"

/* A table that is being sent, bit by bit */
struct symbols {
    int fd;                     /* of the table, or -1 */
    bool begun;
    char *text;                 /* read and not sent yet */
    size_t size;
};

void symbols_init(struct symbols *s);

/* Begins with the first symbol; nothing is sent if addresses are hidden. */
void symbols_begin(struct symbols *s);

/* Sends as many as there is room for, until a time of CLOCK_MONOTONIC. */
void symbols_step(struct symbols *s, struct outbox *out, uint64_t until);

void symbols_end(struct symbols *s);

#endif /* BTRAIL_SYMBOLS_H */
