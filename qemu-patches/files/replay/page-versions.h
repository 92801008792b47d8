/*
 * Contents of pages at moments of a replay
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef REPLAY_PAGE_VERSIONS_H
#define REPLAY_PAGE_VERSIONS_H

/*
 * What numbered pages contain at each of some moments.  A moment is an
 * instruction count.  A page has a version at a moment only if it differs from
 * what it was at the moment before; of a page that has none yet nothing is
 * known.  Pages that are alike, whenever and wherever, share their content.
 */
typedef struct PageVersions PageVersions;

/* All have pages of the same size, and are used by one thread. */
PageVersions *page_versions_new(size_t page_size);
void page_versions_free(PageVersions *v);

/*
 * Adds a moment, at which every page is what it was at the moment before.
 * There must be none with the same instruction count.
 */
void page_versions_begin(PageVersions *v, uint64_t moment);

/* Is there any moment? */
bool page_versions_any(PageVersions *v);

/*
 * Sets what a page contains at the first moment, and at all others until it
 * is set for them.  It must not be known yet.
 */
void page_versions_set_first(PageVersions *v, uint64_t page,
                             const void *content);
bool page_versions_known(PageVersions *v, uint64_t page);

/* Sets what a page contains at a moment, and only there */
void page_versions_set(PageVersions *v, uint64_t moment, uint64_t page,
                       const void *content);

/*
 * Copies what a page contains at a moment, to be set by a thread once
 * page_versions_set_copies() is called.  No more than one moment of one
 * PageVersions has copies.  Everything else here waits for that thread.
 */
void page_versions_copy(PageVersions *v, uint64_t moment, uint64_t page,
                        const void *content);
void page_versions_set_copies(void);

/*
 * Adds a version whose bytes, or NULL for zero, stay the caller's and do not
 * change.  Those of a page come in the order of their moments.  Returns false,
 * and does nothing, if there is no such moment, or the page has a version that
 * is not before it.
 */
bool page_versions_add(PageVersions *v, uint64_t moment, uint64_t page,
                       const void *bytes);

/*
 * Calls a function for each version, those of a page in the order of their
 * moments.  Versions that are alike have the same bytes, which are NULL if
 * they are zero.
 */
void page_versions_for_all(PageVersions *v,
                           void (*func)(uint64_t page, uint64_t moment,
                                        const void *bytes, void *opaque),
                           void *opaque);

/* Removes a moment.  What the pages contain at others does not change. */
void page_versions_remove(PageVersions *v, uint64_t moment);

/* What a page contains at a moment; NULL if it is zero, or not known */
const void *page_versions_get(PageVersions *v, uint64_t moment, uint64_t page);

/*
 * Calls a function for each page that differs between two moments, perhaps
 * more than once, perhaps also for some that do not.
 */
void page_versions_between(PageVersions *v, uint64_t a, uint64_t b,
                           void (*func)(uint64_t page, void *opaque),
                           void *opaque);

/* Bytes of memory it has, and what one more version can cost at most */
uint64_t page_versions_size(PageVersions *v);
uint64_t page_versions_cost(PageVersions *v);

#endif
