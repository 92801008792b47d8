/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waits of a thread at random, with wake-ups whose clocks are not exact, in the
 * order in which they are read
 */

#ifndef WAKE_SAMPLES_H
#define WAKE_SAMPLES_H

#include <glib.h>
#include <stdint.h>

#define WAKE_SLACK      1000u
#define WAKE_WAITS      200u
#define WAKE_NO_WAIT    WAKE_WAITS

enum wake_step_kind {
    WAKE_STEP_LEAVES,
    WAKE_STEP_WOKEN,
    WAKE_STEP_COMES,
};

/**
 * struct wake_step
 * @time: as it is read
 * @wait: which it belongs to, from 0 on; WAKE_NO_WAIT of a wake-up while the
 *        thread runs, which changes nothing
 */
struct wake_step {
    enum wake_step_kind kind;
    uint64_t time;
    unsigned wait;
};

/* Of struct wake_step.  Some waits have no wake-up. */
GArray *wake_samples(GRand *rand);

#endif /* WAKE_SAMPLES_H */
