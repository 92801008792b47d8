/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decoders of Intel PT, to compare: each in a file of its own, as the names in
 * their headers are the same
 */

#ifndef BENCH_PT_H
#define BENCH_PT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of code where a stream has come to @offset; returns how many. */
typedef int pt_bench_code_fn(void *opaque, uint64_t cr3, uint64_t address,
                             uint64_t offset, uint8_t *buf, size_t n);

/* Returns the number of blocks; @errors gets that of errors. */
uint64_t pt_bench_libipt(const uint8_t *p, size_t n, pt_bench_code_fn *code,
                         void *opaque, uint64_t *errors);

#endif
