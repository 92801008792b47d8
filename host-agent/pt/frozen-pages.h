/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pages of code that records of a PT stream have executed, as sideband
 *
 * That code was read is no proof: it can be that of another process, or what
 * was written since.  Records that were given out are one, for the pages that
 * they come from and lead through.  A page is written once for each vCPU and
 * address space, from the first such record on.
 */

#ifndef BTRAIL_FROZEN_PAGES_H
#define BTRAIL_FROZEN_PAGES_H

#include "drain/output.h"
#include "pt/linked-blocks.h"

/* So many pages are written, of all vCPUs together. */
#define FROZEN_PAGES_MAX    (1u << 18)

/* What all vCPUs share */
struct frozen_pages;

struct frozen_pages *frozen_pages_new(struct output *output);

/* Writes what is left. */
void frozen_pages_flush(struct frozen_pages *p);

void frozen_pages_free(struct frozen_pages *p);

/* Pages that were written, and whether there were too many */
uint64_t frozen_pages_written(const struct frozen_pages *p);
bool frozen_pages_more(const struct frozen_pages *p);

/* Those of one vCPU, for one thread */
struct frozen_pages_vcpu;

/* @code: says the bytes of a page again, as they were read for the records */
struct frozen_pages_vcpu *
frozen_pages_vcpu_new(struct frozen_pages *p, unsigned vcpu, pt_code_fn *code,
                      void *opaque);
void frozen_pages_vcpu_free(struct frozen_pages_vcpu *v);

/* Code was read there, which may come to be executed. */
void frozen_pages_read(struct frozen_pages_vcpu *v, uint64_t cr3,
                       uint64_t address);

/*
 * A page is no more what it was, and is written again once it is executed: with
 * a record of this index, or a later one.  Records before it can be of what
 * it was.
 */
void frozen_pages_change(struct frozen_pages_vcpu *v, uint64_t cr3,
                         uint64_t address, uint64_t index);

/**
 * frozen_pages_execute - a record was given out
 * @label: what the trace has as CR3
 * @cr3:   the same as PIP says it
 * @index: of the record
 * @to:    where the record before it leads to; @from if that is not known
 * @from:  where it comes from
 */
void frozen_pages_execute(struct frozen_pages_vcpu *v, uint64_t label,
                          uint64_t cr3, uint64_t index, uint64_t to,
                          uint64_t from);

#endif /* BTRAIL_FROZEN_PAGES_H */
