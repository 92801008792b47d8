/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest's sessions want together: the filters of its capture
 */

#ifndef BTRAIL_WANTED_H
#define BTRAIL_WANTED_H

#include "service/command.h"

/**
 * struct btrail_wanted - what a device is to record
 * @vcpus:     sorted, of unsigned; NULL for all
 * @cr3:       roots, sorted, of uint64_t; NULL for all
 * @privilege: BTRAIL_PRIVILEGE_*
 * @overflow:  enum btrail_overflow_policy
 */
struct btrail_wanted {
    GArray *vcpus;
    GArray *cr3;
    unsigned privilege;
    unsigned overflow;
};

/* The union of what commands want; @commands are of "start", at least one. */
struct btrail_wanted *btrail_wanted_new(struct btrail_command *const *commands,
                                        unsigned n);
void btrail_wanted_free(struct btrail_wanted *w);
bool btrail_wanted_equal(const struct btrail_wanted *a,
                         const struct btrail_wanted *b);

/* Add to the arguments of branch-trace-start or -change. */
void btrail_wanted_put(const struct btrail_wanted *w, JsonObject *arguments);

#endif /* BTRAIL_WANTED_H */
