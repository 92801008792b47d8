/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What stands on the stack of a task that did not run, as offwaketime of BCC
 * draws it: a separator, and the stack of who woke it, upside down
 */

#ifndef BTRAIL_CLI_AWAY_FRAMES_H
#define BTRAIL_CLI_AWAY_FRAMES_H

#include "analyze/off-cpu-sums.h"

/* What stands between the two stacks, and in place of the second one */
#define AWAY_WOKEN      "--"
#define AWAY_NO_WAKER   "[waker not known]"
#define AWAY_WAITED     "[waits for a vCPU]"

/**
 * struct away_frame - a function of who woke it, or its command; or if that is
 * NULL, a text
 */
struct away_frame {
    const struct stack_node *node;
    const char *text;
};

/* An array of struct away_frame, from the lowest one up; to be freed */
GArray *away_frames(const struct off_cpu_sum *sum);

#endif /* BTRAIL_CLI_AWAY_FRAMES_H */
