/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The flow of control: see flow.c
 */
#ifndef FLOW_H
#define FLOW_H

#include "derive.h"

#define VEC_DB          1

/* The block of the last Trace line has indeed been started. */
void flow_commit(struct derive *d);

/* Adds what has interrupted the vCPU after the last block. */
struct interruption *flow_interruption(struct derive *d, enum kind kind,
                                       unsigned vector);

/*
 * A fault while another is delivered has the address of the first; only the
 * first counts.
 */
void flow_merge_last(struct derive *d);

/* An exception or interrupt in real mode has no line with its address. */
void flow_finish_real_mode(struct derive *d);

void flow_reset(struct derive *d);

/* The log has ended: writes all that is still to be written. */
void flow_end(struct derive *d);

#endif
