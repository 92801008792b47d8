/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What stands on the stack of a task that did not run: see away-frames.h
 */

#include "cli/away-frames.h"

static void add(GArray *frames, const struct stack_node *node,
                const char *text)
{
    const struct away_frame frame = { node, text };

    g_array_append_val(frames, frame);
}

GArray *away_frames(const struct off_cpu_sum *sum)
{
    GArray *frames = g_array_new(FALSE, FALSE, sizeof(struct away_frame));

    switch (sum->kind) {
    case OFF_CPU_PLAIN:
        break;
    case OFF_CPU_WAITED:
        add(frames, NULL, AWAY_WAITED);
        break;
    case OFF_CPU_BLOCKED:
        add(frames, NULL, sum->waker ? AWAY_WOKEN : AWAY_NO_WAKER);
        for (const struct stack_node *n = sum->waker; n; n = n->parent) {
            add(frames, n, NULL);
        }
        break;
    }
    return frames;
}
