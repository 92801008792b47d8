/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many vCPUs a machine has that is recorded
 */

#ifndef BTRAIL_VCPU_COUNT_H
#define BTRAIL_VCPU_COUNT_H

/* One thread runs all of them in turn, so that more are of little use.  Each
 * has a buffer while the trace is made. */
#define VCPU_COUNT_MAX  32

/* Of QEMU's -smp; 0 if it is not one of numbers up to VCPU_COUNT_MAX, or if
 * vCPUs can be plugged in later */
unsigned vcpu_count_parse(const char *smp);

/* Of a machine with these arguments of QEMU, which end with NULL */
unsigned vcpu_count(char *const *arguments);

#endif /* BTRAIL_VCPU_COUNT_H */
