/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace whose call stacks the test knows, and what is exported of it
 *
 * Tasks of a toy kernel call, jump and return at random, one on each vCPU.
 */

#ifndef BTRAIL_EXPORT_SIDE_H
#define BTRAIL_EXPORT_SIDE_H

#include <glib.h>
#include <stdint.h>

/* Nanoseconds that a record takes, and records between two times of a vCPU */
#define EXPORT_EACH     100u
#define EXPORT_RECORDS  31u
#define EXPORT_START    UINT64_C(5000000)

/* A stack: a function of the kernel, NULL in the task itself */
struct export_stack {
    struct export_stack *caller;
    const char *function;
    GPtrArray *called;
};

/**
 * struct export_vcpu
 * @stacks: where each record was made, of struct export_stack
 */
struct export_vcpu {
    const char *comm;
    unsigned tid;
    GPtrArray *stacks;
    struct export_stack *root;
};

struct export_scene {
    char *folder;
    char *path;
    char *map;
    struct export_vcpu *vcpus;
    unsigned n;
};

/* The first task makes @records records, the second half as many, and so on. */
struct export_scene *export_scene_new(const char *const *comms,
                                      unsigned records);
void export_scene_free(struct export_scene *s);

/* The lines that are written in a format, with an argument more, which may be
 * NULL; to be freed with g_strfreev() */
char **export_scene_lines(struct export_scene *s, const char *format,
                          const char *more);

#endif /* BTRAIL_EXPORT_SIDE_H */
