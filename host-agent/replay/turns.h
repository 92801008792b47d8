/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which vCPU has executed an instruction of a recording
 *
 * One thread runs all vCPUs in turn, and QEMU's log says where each turn
 * begins.  An instruction has the number of those before it, of all vCPUs.
 *
 * A NULL for turns stands for a single vCPU.
 */

#ifndef BTRAIL_REPLAY_TURNS_H
#define BTRAIL_REPLAY_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/log-reader.h"
#include "util/agent-error.h"

struct turns;

/*
 * Reads the log of a recording from @start on.  What is cut off at its end is
 * left out.
 *
 * Errors: SYSTEM; PROTOCOL (it is damaged, or of another QEMU).
 */
struct turns *turns_load(const char *path, const struct log_start *start,
                         GError **error);
void turns_free(struct turns *t);

/* The vCPU that executes an instruction; after the end, the last one */
unsigned turns_vcpu(const struct turns *t, uint64_t instruction);

/* The last instruction of a vCPU before another one; false if there is none */
bool turns_last(const struct turns *t, unsigned vcpu, uint64_t before,
                uint64_t *instruction);

/* The first one from an instruction on; UINT64_MAX if there is none */
uint64_t turns_next(const struct turns *t, unsigned vcpu, uint64_t from);

#endif /* BTRAIL_REPLAY_TURNS_H */
