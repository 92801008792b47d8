/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The filter of a guest's capture: the union of what its sessions request
 */

#ifndef BTRAIL_CAPTURE_FILTER_H
#define BTRAIL_CAPTURE_FILTER_H

#include "service/command.h"

/**
 * struct btrail_capture_filter - what a device records
 * @vcpus:     sorted, of unsigned; NULL for all
 * @cr3:       roots, sorted, of uint64_t; NULL for all
 * @privilege: BTRAIL_PRIVILEGE_*
 * @overflow:  enum btrail_overflow_policy
 */
struct btrail_capture_filter {
    GArray *vcpus;
    GArray *cr3;
    unsigned privilege;
    unsigned overflow;
};

/* The union of @n commands "start", at least one */
struct btrail_capture_filter *
btrail_capture_filter_new(struct btrail_command *const *commands, unsigned n);
void btrail_capture_filter_free(struct btrail_capture_filter *f);
bool btrail_capture_filter_equal(const struct btrail_capture_filter *a,
                                 const struct btrail_capture_filter *b);

/* Add the filter to the arguments of branch-trace-start or -change. */
void btrail_capture_filter_put(const struct btrail_capture_filter *f,
                               JsonObject *arguments);

#endif /* BTRAIL_CAPTURE_FILTER_H */
