/*
 * Which virtual pages the guest writes to
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef REPLAY_WRITTEN_PAGES_H
#define REPLAY_WRITTEN_PAGES_H

/*
 * The virtual pages, of whichever address space, that vCPUs have written to in
 * a part of a replay; perhaps some more.  NULL is any page.
 */
typedef struct WrittenPages WrittenPages;

/* Those from here on are noted; what was noted before is forgotten. */
void written_pages_start(void);
void written_pages_stop(void);

/* There are others, which cannot be noted, up to the next start. */
void written_pages_lose(void);

/* Those since the start */
WrittenPages *written_pages_get(void);
void written_pages_free(WrittenPages *w);

/*
 * Some of which the numbers are known; NULL if they are not in order, or not
 * numbers of pages.
 */
WrittenPages *written_pages_new(const uint64_t *pages, size_t count);
/* The numbers; NULL if they are not known */
const uint64_t *written_pages_list(const WrittenPages *w, size_t *count);

/* Those of both parts */
WrittenPages *written_pages_union(const WrittenPages *a,
                                  const WrittenPages *b);

/* Bytes of memory it has, and what written_pages_get() would return */
uint64_t written_pages_size(const WrittenPages *w);
uint64_t written_pages_cost(void);

/* Can a debugger's breakpoint or watchpoint be met in this part? */
bool written_pages_can_stop(const WrittenPages *w);

#endif
