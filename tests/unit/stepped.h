/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records of a real program, which is run one instruction after the other
 */

#ifndef BTRAIL_STEPPED_H
#define BTRAIL_STEPPED_H

#include <glib.h>

#include "symbolize/symbolizer.h"

/* Where user mode goes to; what is there is not known. */
#define STEPPED_KERNEL  UINT64_C(0xffffffff81000000)
#define STEPPED_CR3     0x1000

/**
 * struct stepped_stack - the stack at a record
 * @pointer: after it; 0 in the kernel
 * @calls:   it was a call
 * @handler: a signal handler begins there
 */
struct stepped_stack {
    uint64_t pointer;
    bool calls;
    bool handler;
};

/**
 * struct stepped
 * @records: of struct btrail_record
 * @stack:   of struct stepped_stack, of each of them
 * @map:     path of a file of names
 * @out:     what the program has written
 */
struct stepped {
    GArray *records;
    GArray *stack;
    char *map;
    char *out;
};

/* Run @sample with an argument; false if that cannot be done here. */
bool stepped_run(struct stepped *run, const char *folder, const char *sample,
                 const char *what);
void stepped_free(struct stepped *run);

/* The names of a program that has ended */
struct symbolizer *stepped_names(const struct stepped *run,
                                 const struct btrail_trace *trace);

#endif /* BTRAIL_STEPPED_H */
