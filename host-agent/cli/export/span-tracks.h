/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tracks of a timeline for spans, of which each lies within another one, or
 * apart from it: as many for each thread as its spans need
 */

#ifndef BTRAIL_CLI_SPAN_TRACKS_H
#define BTRAIL_CLI_SPAN_TRACKS_H

#include "cli/export/slices.h"
#include "find/spans.h"

struct span_tracks;

/* @name: of spans and tracks; outlives the result, as do @out and @slices */
struct span_tracks *span_tracks_new(struct perfetto *out,
                                    struct timeline_slices *slices, const char *name);
void span_tracks_free(struct span_tracks *s);

/* Adds a span that has ended.  They come in the order in which they begin.
 * @parent: the track of their thread */
void span_tracks_add(struct span_tracks *s, uint64_t parent,
                     const struct span *span);

/* Writes all ends.  Returns how many spans had no room. */
uint64_t span_tracks_end(struct span_tracks *s);

#endif /* BTRAIL_CLI_SPAN_TRACKS_H */
