/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mappings of processes that no snapshot has found in time
 *
 * The trace has the contents of the pages that such a process executed.  If a
 * process with known mappings executed a page with the same content, the page
 * is of the same file, at the same offset.
 */

#ifndef BTRAIL_CONTENT_MAPPINGS_H
#define BTRAIL_CONTENT_MAPPINGS_H

#include "backtrail/code.h"
#include "symbolize/processes.h"

struct content_mappings;

/* All arguments must outlive the result. */
struct content_mappings *
content_mappings_new(const struct btrail_trace *trace,
                     const struct btrail_code *code,
                     const struct btrail_names *names,
                     const struct btrail_owners *owners);
void content_mappings_free(struct content_mappings *c);

/**
 * content_mappings_find - the mapping of code at an address of a process
 * @address: for which the process has no known mapping
 *
 * Returns NULL if the contents that were executed there leave any doubt.  The
 * first call reads the events of the trace.
 */
struct mapping *content_mappings_find(struct content_mappings *c,
                                      const struct process *process,
                                      uint64_t address);

#endif /* BTRAIL_CONTENT_MAPPINGS_H */
